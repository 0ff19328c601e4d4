//! Golden scenarios: every file in `examples/scenarios` through the real binary, next to what a person has read and accepted.
//!
//! `FOREWORD_ACCEPT=1 cargo test -p foreword --test scenarios` writes what comes out now to `tests/snapshots`. Read the change
//! before you commit it: that reading is the test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use common::{objects, scenario_files, scenarios_folder, sha256, simulate};
use serde_json::Value;
use similar::TextDiff;

const ACCEPT: &str = "FOREWORD_ACCEPT=1 cargo test -p foreword --test scenarios";

#[test]
fn scenarios_are_as_accepted() {
    let accept = env::var_os("FOREWORD_ACCEPT").is_some();
    let mut changed = String::new();
    let mut golden = BTreeSet::new();
    for file in scenario_files() {
        let snapshot = snapshot_of(&file);
        check(&file, &snapshot, accept, &mut changed);
        golden.insert(snapshot);
    }
    for entry in fs::read_dir(snapshots_folder()).unwrap() {
        let path = entry.unwrap().path();
        if !golden.contains(&path) {
            if accept {
                fs::remove_file(&path).unwrap();
            } else {
                writeln!(changed, "{} belongs to no scenario", path.display()).unwrap();
            }
        }
    }
    assert!(changed.is_empty(), "{changed}\nIf this is right, read it once more and accept it:\n  {ACCEPT}\n");
}

/// Runs one scenario and notes how its rendering differs from the accepted one.
fn check(file: &Path, snapshot: &Path, accept: bool, changed: &mut String) {
    let output = simulate([file.as_os_str(), "--json".as_ref()]);
    let folder = format!("{}/", scenarios_folder().display());
    let stderr = String::from_utf8_lossy(&output.stderr).replace(&folder, "");
    let now = match &objects(&output)[..] {
        [report] => render(report, output.status.code(), &stderr),
        other => panic!("{}: expected one object, found {}: {stderr}", file.display(), other.len()),
    };
    let before = fs::read_to_string(snapshot).unwrap_or_default();
    if now == before {
        return;
    }
    if accept {
        fs::write(snapshot, now).unwrap();
        return;
    }
    let name = snapshot.file_name().unwrap().to_string_lossy();
    let diff = TextDiff::from_lines(&before, &now);
    let diff = diff.unified_diff().context_radius(3).header(&format!("accepted {name}"), &format!("now {name}")).to_string();
    writeln!(changed, "{diff}").unwrap();
}

fn snapshots_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots")
}

fn snapshot_of(file: &Path) -> PathBuf {
    snapshots_folder().join(file.file_name().unwrap()).with_extension("txt")
}

/// A report as a person reads it.
fn render(report: &Value, code: Option<i32>, stderr: &str) -> String {
    let mut out = format!("{}\n", text(&report["name"]));
    let heading = ["layout", "provider", "model", "tokenizer"].map(|field| text(&report[field]));
    writeln!(out, "{}", heading.join(" · ")).unwrap();
    let mut before: &[Value] = &[];
    for request in list(&report["requests"]) {
        render_request(&mut out, request, before);
        before = list(&request["messages"]);
    }
    let totals = &report["totals"];
    let sums = ["input_tokens", "read", "write", "uncached"].map(|field| format!("{field} {}", totals[field]));
    let prices = ["cost", "cost_uncached", "hindsight_cost"].map(|field| format!("{field} {}", price(&totals[field])));
    writeln!(out, "\n── {} requests: {}; {}", totals["requests"], sums.join(", "), prices.join(", ")).unwrap();
    if code != Some(0) {
        writeln!(out, "exit code {}\n{}", code.unwrap_or(-1), stderr.trim_end()).unwrap();
    }
    out
}

fn render_request(out: &mut String, request: &Value, before: &[Value]) {
    writeln!(out, "\n── request {} · turn {} · epoch {}", request["index"], request["turn"], request["epoch"]).unwrap();
    let messages = list(&request["messages"]);
    let same = messages.iter().zip(before).take_while(|(now, before)| now == before).count();
    if same > 0 {
        writeln!(out, "[… {same} as before]").unwrap();
    }
    for message in &messages[same..] {
        render_message(out, message);
    }
    section(out, "context", list(&request["context"]).iter().map(context_line));
    section(out, "left out", list(&request["left_out"]).iter().map(left_out_line));
    section(out, "notes", list(&request["notes"]).iter().map(note_line));
    let tokens = &request["tokens"];
    let layers = tokens["by_layer"].as_object().unwrap().iter().filter(|(_, size)| size.as_u64() != Some(0));
    let layers: Vec<String> = layers.map(|(name, size)| format!("{name} {size}")).collect();
    writeln!(out, "tokens: {} of {} ({})", tokens["total"], tokens["budget"], layers.join(", ")).unwrap();
    render_cache(out, &request["cache"]);
    render_body(out, request);
}

fn render_message(out: &mut String, message: &Value) {
    let answers = message["tool_call_id"].as_str().map(|id| format!(" for {id}")).unwrap_or_default();
    writeln!(out, "[{}{answers}]", text(&message["role"])).unwrap();
    for line in text(&message["content"]).split('\n') {
        writeln!(out, "{}", format!("  {}", visible(line)).trim_end()).unwrap();
    }
    for call in list(&message["tool_calls"]) {
        writeln!(out, "  → {}: {}({})", text(&call["id"]), text(&call["name"]), call["arguments"]).unwrap();
    }
    for image in list(&message["images"]) {
        writeln!(out, "  ▣ {}", text(image)).unwrap();
    }
}

/// A line with its control characters shown.
fn visible(line: &str) -> String {
    line.chars().map(|c| if c.is_control() { format!("\\u{{{:x}}}", u32::from(c)) } else { c.to_string() }).collect()
}

fn section(out: &mut String, name: &str, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.collect();
    if !lines.is_empty() {
        writeln!(out, "{name}:\n  {}", lines.join("\n  ")).unwrap();
    }
}

fn context_line(entry: &Value) -> String {
    let score = entry["score"].as_f64().map(|score| format!(" {score}")).unwrap_or_default();
    let layer = entry["layer"].as_str().unwrap_or("tool list");
    format!("{} {}{score}, {layer} {}, {}", shown(&entry["item"]), text(&entry["include"]), text(&entry["form"]), entry["tokens"])
}

fn left_out_line(entry: &Value) -> String {
    let score = entry["score"].as_f64().map(|score| format!(" {score}")).unwrap_or_default();
    format!("{} {}{score}", shown(&entry["item"]), text(&entry["reason"]))
}

fn note_line(note: &Value) -> String {
    let item = note["item"].as_str().map(|item| format!(" {}", visible(item))).unwrap_or_default();
    format!("{}{item}: {}", text(&note["kind"]), visible(text(&note["text"])))
}

fn render_cache(out: &mut String, cache: &Value) {
    let sizes = ["reusable", "read", "write", "uncached"].map(|field| format!("{field} {}", cache[field]));
    writeln!(out, "cache: {}, cost {}", sizes.join(", "), price(&cache["cost"])).unwrap();
    let broke = &cache["break"];
    if !broke.is_null() {
        let path = broke["path"].as_str().unwrap_or("nowhere");
        let item = broke["item"].as_str().map(|item| format!(" ({})", visible(item))).unwrap_or_default();
        let lost = format!("{} tokens lost, {}", broke["tokens_lost"], price(&broke["cost_lost"]));
        writeln!(out, "break: {}{item} at byte {}, {path}: {lost}", text(&broke["cause"]), broke["at_byte"]).unwrap();
    }
}

/// What is the provider's own in the body, and a hash of all of it.
fn render_body(out: &mut String, request: &Value) {
    let body = &request["body"];
    let allowed: Vec<&str> = list(&request["tools"]).iter().map(text).collect();
    let mut listed = Vec::new();
    for tool in list(&body["tools"]) {
        let declared = list(&tool["functionDeclarations"]);
        let one = std::slice::from_ref(tool.get("function").unwrap_or(tool));
        listed.extend(if declared.is_empty() { one } else { declared }.iter().map(|tool| text(&tool["name"])));
    }
    if !(allowed.is_empty() && listed.is_empty()) {
        writeln!(out, "tools: {} (listed: {})", allowed.join(", "), listed.join(", ")).unwrap();
    }
    for field in ["tool_choice", "toolConfig"] {
        if !body[field].is_null() {
            writeln!(out, "{field}: {}", body[field]).unwrap();
        }
    }
    let mut marks = Vec::new();
    cache_fields(body, "", &mut marks);
    section(out, "cache fields", marks.into_iter());
    let short = text(&request["body_sha256"]).get(..16).unwrap_or_default();
    let roles = list(&body["messages"]).iter().chain(list(&body["contents"])).chain(list(&body["input"]));
    let roles: Vec<&str> = roles.map(|message| message["role"].as_str().unwrap_or_else(|| text(&message["type"]))).collect();
    let envelope = sha256(request["envelope"].to_string().as_bytes());
    writeln!(out, "body: {short} [{}], envelope: {}", roles.join(" "), &envelope[..16]).unwrap();
}

/// Every field that speaks of the cache, by its path.
fn cache_fields(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                if name.to_lowercase().contains("cache") {
                    found.push(format!("{path} = {value}"));
                } else {
                    cache_fields(value, &path, found);
                }
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                cache_fields(item, &format!("{path}[{at}]"), found);
            }
        }
        _ => {}
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn shown(value: &Value) -> String {
    visible(text(value))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn price(value: &Value) -> String {
    value.as_f64().map_or("-".to_owned(), |price| format!("${price:.6}"))
}
