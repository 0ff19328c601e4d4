//! The scenarios of `examples/scenarios` through the façade: the same bytes as `foreword simulate` sends, by the hashes in its accepted
//! outputs. The Python and the TypeScript library run the same files against the same hashes.

#![allow(clippy::unwrap_used, clippy::panic)] // a test says what it expects by failing

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use foreword::core::{Input, Layout};
use foreword::provider::{Dialect, ModelTable};
use foreword::{Attachment, CacheLifetime, Error, Session, ToolChoice};
use serde_json::{Map, Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Why a scenario cannot be run here: what it needs is the program's, not the library's.
fn is_not_for_the_library(scenario: &Value) -> Option<&'static str> {
    let text = scenario.to_string();
    if scenario.get("vault").is_some() {
        Some("reads notes from a folder")
    } else if text.contains("data:image/") {
        Some("reads images out of a note")
    } else {
        None
    }
}

#[test]
fn scenarios_give_the_same_hashes() {
    let mut run = 0;
    let mut different: Vec<String> = Vec::new();
    let mut skipped = Vec::new();
    for entry in fs::read_dir(root().join("examples/scenarios")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let scenario: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        if let Some(why) = is_not_for_the_library(&scenario) {
            skipped.push(format!("{name}: {why}"));
            continue;
        }
        let accepted = root().join("crates/foreword-cli/tests/snapshots").join(format!("{name}.txt"));
        if hashes(&scenario) != expected(&fs::read_to_string(accepted).unwrap()) {
            different.push(name.clone());
        }
        run += 1;
    }
    assert!(different.is_empty(), "other hashes: {different:?}");
    assert!(run >= 90 && skipped.len() <= 4, "{run} scenarios were run; skipped: {skipped:?}");
}

/// `body: dd0e3687c527e481 [system user], …`
fn expected(snapshot: &str) -> Vec<String> {
    let lines = snapshot.lines().filter_map(|line| line.strip_prefix("body: "));
    lines.filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect()
}

fn hashes(scenario: &Value) -> Vec<String> {
    let mut session = session(scenario);
    let mut found = Vec::new();
    let events = scenario["events"].as_array().cloned().unwrap_or_default();
    for (at, event) in events.iter().enumerate() {
        match step(&mut session, &events, at, event) {
            Ok(()) => {}
            Err(error) => panic!("{event}: {error}"),
        }
        if session.is_due() {
            match session.request() {
                Ok(request) => found.push(request.sha256()[..16].to_owned()),
                Err(Error::OverBudget(_)) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    found
}

fn session(scenario: &Value) -> Session {
    let settings = &scenario["settings"];
    let table = ModelTable::builtin().unwrap();
    let dialect: Option<Dialect> = settings["provider"].as_str().map(|name| name.parse().unwrap());
    let model = match settings["model"].as_str() {
        Some(name) => name.to_owned(),
        None => table.default_for(dialect.unwrap_or(Dialect::OpenAiChat)).unwrap().name,
    };
    let row = table.find(&model).unwrap();
    let dialect = dialect.unwrap_or(if settings["model"].is_string() { row.dialect } else { Dialect::OpenAiChat });
    let layout = if settings["layout"] == "log" { Layout::Log } else { Layout::Library };
    let choice = if settings["tools"] == "native" { ToolChoice::Native } else { ToolChoice::Stable };
    let mut builder = Session::builder(&model)
        .name(scenario["name"].as_str().unwrap_or_default())
        .dialect(dialect)
        .layout(layout)
        .tool_choice(choice)
        .agent(serde_json::from_value(scenario.get("agent").cloned().unwrap_or_else(|| json!({}))).unwrap())
        .settings(patch(settings, row.window.0, row.budget().reply.0));
    if settings["cache_ttl"] == "1h" {
        builder = builder.cache_lifetime(CacheLifetime::Long);
    }
    if let Some(name) = settings["tokenizer"].as_str() {
        let name: foreword_provider::model::TokenizerName = name.parse().unwrap();
        builder = builder.tokenizer(std::sync::Arc::new(name.tokenizer()));
    }
    builder.build().unwrap()
}

/// The settings of a scenario in the words of the core.
fn patch(settings: &Value, window: u64, reply: u64) -> Value {
    let given = &settings["budget"];
    let mut budget = Map::new();
    let reply = given["reply_tokens"].as_u64().unwrap_or(reply);
    budget.insert("reply".into(), json!(reply));
    let most = window.saturating_sub(reply);
    budget.insert("prompt".into(), json!(given["prompt_tokens"].as_u64().map_or(most, |tokens| tokens.min(most))));
    let names = [
        ("item_tokens", "item"),
        ("tool_output_chars", "output_chars"),
        ("tool_output_chars_by_tool", "output_chars_by_tool"),
        ("layer_tokens", "layers"),
        ("low_water", "low_water"),
    ];
    for (theirs, ours) in names {
        if let Some(value) = given.get(theirs) {
            budget.insert(ours.to_owned(), value.clone());
        }
    }
    let mut patch = Map::from_iter([("budget".to_owned(), Value::Object(budget))]);
    for name in ["select", "select_tools", "keep_outputs", "promote_selections", "plan"] {
        if let Some(value) = settings.get(name) {
            patch.insert(name.to_owned(), value.clone());
        }
    }
    let history = &settings["history"];
    let or = |name: &str, usual: u64| history[name].as_u64().unwrap_or(usual);
    let policy = match history["strategy"].as_str() {
        None | Some("full") => json!("full"),
        Some("window") => json!({"window": {
            "messages": or("messages", 40), "chars": or("chars", 80_000), "message_chars": or("message_chars", 8_000)}}),
        Some("strip") => json!({"strip": {"keep_runs": or("keep_runs", 2), "summary_tokens": or("summary_tokens", 300)}}),
        Some(_) => json!({"managed": {
            "summary": history["summary"].as_str().filter(|_| history["recent_runs"] != 0),
            "passthrough_runs": or("passthrough_runs", 1), "token_threshold": or("token_threshold", 4_000)}}),
    };
    patch.insert("history".to_owned(), policy);
    Value::Object(patch)
}

fn step(session: &mut Session, events: &[Value], at: usize, event: &Value) -> Result<(), Error> {
    let (kind, event) = event.as_object().unwrap().iter().next().unwrap();
    let texts = |name: &str| event[name].as_array().cloned().unwrap_or_default();
    // Whether the scenario brings the result of the open call itself.
    let is_answered = || {
        let later = events[at + 1..].iter().map(|event| event.as_object().unwrap().keys().next().unwrap().as_str());
        let mut later = later.take_while(|kind| !["turn", "assistant", "interrupt", "fork"].contains(kind));
        later.any(|kind| kind == "tool_result")
    };
    match kind.as_str() {
        "turn" => turn(session, &events[..at], event),
        "assistant" => {
            let calls = texts("tool_calls").into_iter().map(|call| {
                json!({"id": call["id"], "name": call["name"],
                    "arguments": call.get("arguments").cloned().unwrap_or_else(|| json!({}))})
            });
            let calls: Vec<Value> = calls.collect();
            apply(session, json!({"assistant": {"text": event["text"].as_str().unwrap_or_default(), "calls": calls}}))
        }
        "tool_result" => session.tool_result(event["id"].as_str().unwrap(), event["output"].as_str().unwrap()).map(drop),
        "session" => {
            texts("add").iter().try_for_each(|id| session.add(id.as_str().unwrap()))?;
            texts("remove").iter().try_for_each(|id| session.remove(id.as_str().unwrap()))
        }
        "agent" => {
            let mut agent = serde_json::to_value(session.agent()).unwrap();
            let old = agent.as_object_mut().unwrap();
            old.extend(event.as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.clone())));
            apply(session, json!({"agent": agent}))
        }
        "plan" => apply(session, json!({"plan": {"steps": event["steps"], "answered": is_answered()}})),
        "task_complete" => apply(session, json!({"task_complete": {"answered": is_answered()}})),
        "summary" => apply(session, json!({"summary": event["text"]})),
        "idle_s" => session.idle(event.as_u64().unwrap()),
        "fold" => session.fold(),
        "undo_fold" => session.undo_fold(),
        "fork" => {
            let turn = usize::try_from(event["at_turn"].as_u64().unwrap()).unwrap();
            session.fork_at(turn).map(|fork| *session = fork)
        }
        plain => apply(session, json!(plain)),
    }
}

fn apply(session: &mut Session, input: Value) -> Result<(), Error> {
    let input: Input = serde_json::from_value(input).unwrap();
    session.apply(input).map(drop)
}

fn turn(session: &mut Session, earlier: &[Value], event: &Value) -> Result<(), Error> {
    let mut attached = event["attach"].as_array().cloned().unwrap_or_default();
    let is_note = |attach: &Value, path: &str| attach["kind"] == "note" && attach["path"] == *path;
    if let Some(path) = event["active_note"].as_str()
        && !attached.iter().any(|attach| is_note(attach, path))
    {
        // The open note comes along as it was last attached.
        let mut notes = earlier.iter().rev().filter_map(|event| event["turn"]["attach"].as_array()).flatten();
        if let Some(note) = notes.find(|attach| is_note(attach, path)) {
            attached.push(json!({"kind": "note", "path": path, "content": note["content"]}));
        }
    }
    for image in attached.iter_mut().filter_map(|attach| attach.get_mut("images")?.as_array_mut()).flatten() {
        let pixels = image["data"].as_str().and_then(png_pixels);
        image["pixels"] = json!(pixels);
    }
    let attached: Result<Vec<_>, _> = attached.into_iter().map(Attachment::from_json).collect();
    let mut turn = session.turn(event["user"].as_str().unwrap()).attach_all(attached?);
    if let Some(path) = event["active_note"].as_str() {
        turn = turn.active_note(path);
    }
    for result in event["tool_results"].as_array().into_iter().flatten() {
        let attributes: BTreeMap<String, String> = result["attributes"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
            .collect();
        let attributes: Vec<(&str, &str)> = attributes.iter().map(|(name, value)| (&**name, &**value)).collect();
        turn = turn.result(result["tool"].as_str().unwrap(), &attributes, result["output"].as_str().unwrap());
    }
    for (item, scores) in event["scores"].as_object().into_iter().flatten() {
        let scores = scores.as_f64().map_or_else(|| scores.as_array().unwrap().clone(), |score| vec![json!(score)]);
        turn = turn.score(item, scores.iter().map(|score| score.as_f64().unwrap()));
    }
    turn.apply()
}

/// The width and height of a PNG file in base64: eight bytes behind the first sixteen.
fn png_pixels(base64: &str) -> Option<(u32, u32)> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |byte: &u8| DIGITS.iter().position(|digit| digit == byte);
    let bits = base64.as_bytes().get(..32)?.iter().map(digit).collect::<Option<Vec<_>>>()?;
    let bytes = bits.chunks(4).flat_map(|four| {
        let joined = four.iter().fold(0, |sum, digit| sum << 6 | digit);
        [16, 8, 0].map(|shift| u32::try_from(joined >> shift & 255).unwrap())
    });
    let bytes: Vec<u32> = bytes.collect();
    let number = |at: usize| bytes[at..at + 4].iter().fold(0, |sum, byte| sum << 8 | byte);
    (bytes[..4] == [0x89, 0x50, 0x4e, 0x47]).then(|| (number(16), number(20)))
}
