//! How fast logs are read, how much memory that takes, and how fast they are read again when nothing changed.
//!
//! Writes logs of Claude Code and Codex into a temporary folder first: sessions with small and large tool results, progress records and
//! copies of files, in about the shares that real logs have.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::Instant;

use foreword_audit::find::logs;
use foreword_audit::report::report;
use foreword_audit::scan::scan;
use foreword_audit::sessions::{Filter, Sessions};
use foreword_provider::table::ModelTable;
use jiff::tz::TimeZone;

/// The size of a session's log.
const SESSION: u64 = 8 << 20;

fn main() {
    let megabytes: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1024);
    let folder = tempfile::tempdir().unwrap();
    let count = (megabytes << 20).div_ceil(SESSION);
    for number in 0..count {
        if number % 4 == 3 {
            codex(folder.path(), number);
        } else {
            claude(folder.path(), number);
        }
    }
    let found = logs(&[folder.path().to_owned()]);
    let bytes: u64 = found.iter().map(|found| found.bytes).sum();
    let kept = tempfile::tempdir().unwrap();
    let table = ModelTable::builtin().unwrap();
    for (name, threads) in [("one thread, nothing kept", 1), ("two threads, kept", 2), ("nothing changed", 2)] {
        let (begun, cpu) = (Instant::now(), cpu_s());
        let found = logs(&[folder.path().to_owned()]);
        let scanned = scan(&found, (threads == 2).then_some(kept.path()), threads, &|_, _| {});
        let (read, cpu) = (begun.elapsed(), cpu_s() - cpu);
        let calls = Sessions::join(scanned.logs, &Filter::default());
        let report = report(&calls, &table, &TimeZone::UTC);
        let all = begun.elapsed();
        println!(
            "{name:<26} {:>6} MB, {} calls: read in {:.2} s ({:.0} MB/s; {cpu:.2} s of processor time), reported after {:.2} s, memory {}",
            bytes >> 20,
            report.calls,
            read.as_secs_f64(),
            bytes as f64 / 1e6 / read.as_secs_f64(),
            all.as_secs_f64(),
            peak(),
        );
    }
}

/// The most memory that this process has held so far, where the system says it.
fn peak() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .map_or_else(|| "not known".to_owned(), |text| text.trim().to_owned())
}

/// The processor time of this process, where the system says it: on a busy machine the clock says little.
fn cpu_s() -> f64 {
    /// Ticks a second, the same on every Linux.
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / TICKS
}

fn claude(folder: &Path, number: u64) {
    let folder = folder.join("projects/-work-app");
    fs::create_dir_all(&folder).unwrap();
    let session = format!("{number:08}-1111-4111-8111-111111111111");
    let mut out = BufWriter::new(File::create(folder.join(format!("{session}.jsonl"))).unwrap());
    let envelope = format!(
        r#""isSidechain":false,"userType":"external","entrypoint":"cli","cwd":"/work/app","sessionId":"{session}","version":"2.1.120","gitBranch":"main""#
    );
    let (mut written, mut call, mut at) = (0, 0_u64, 1_777_600_000_000_i64 + i64::try_from(number).unwrap() * 1_000_000);
    let code = "fn main() {\\n    println!(\\\"hello\\\");\\n}\\n".repeat(60);
    let signature = "EvcCClkIDRgCKkApR4eT7dIUZ75nvrhfzC3".repeat(14);
    while written < SESSION {
        at += 9_000;
        let time = jiff::Timestamp::from_millisecond(at).unwrap();
        let (read, new) = (12_000 + call % 300 * 400, 400);
        let usage = format!(
            r#""usage":{{"input_tokens":3,"cache_creation_input_tokens":{new},"cache_read_input_tokens":{read},"output_tokens":210,"server_tool_use":{{"web_search_requests":0,"web_fetch_requests":0}},"service_tier":"standard","cache_creation":{{"ephemeral_1h_input_tokens":{new},"ephemeral_5m_input_tokens":0}},"inference_geo":"","speed":"standard"}}"#
        );
        let message = |content: &str, stop: &str| {
            format!(
                r#"{{"parentUuid":"u{call}","type":"assistant","message":{{"model":"claude-opus-4-6","id":"msg_{number}_{call}","type":"message","role":"assistant","content":[{content}],"stop_reason":{stop},"stop_sequence":null,{usage}}},"requestId":"req_{number}_{call}","uuid":"v{call}","timestamp":"{time}",{envelope}}}"#
            )
        };
        let result = code.repeat(if call.is_multiple_of(9) { 8 } else { 1 });
        let lines = [
            message(&format!(r#"{{"type":"thinking","thinking":"","signature":"{signature}"}}"#), "null"),
            message(
                &format!(
                    r#"{{"type":"tool_use","id":"toolu_{call}","name":"Read","input":{{"file_path":"/work/app/src/main.rs"}}}}"#
                ),
                "\"tool_use\"",
            ),
            format!(
                r#"{{"parentUuid":"v{call}","type":"progress","data":{{"type":"hook_progress","hookEvent":"PostToolUse","hookName":"PostToolUse:Read","command":"check"}},"parentToolUseID":"toolu_{call}","toolUseID":"toolu_{call}","timestamp":"{time}","uuid":"p{call}",{envelope}}}"#
            ),
            format!(
                r#"{{"parentUuid":"v{call}","type":"user","message":{{"role":"user","content":[{{"tool_use_id":"toolu_{call}","type":"tool_result","content":"{result}"}}]}},"uuid":"u{}","timestamp":"{time}","toolUseResult":{{"type":"text","file":{{"filePath":"/work/app/src/main.rs","content":"{result}"}}}},{envelope}}}"#,
                call + 1
            ),
        ];
        for line in &lines {
            writeln!(out, "{line}").unwrap();
            written += line.len() as u64 + 1;
        }
        call += 1;
    }
}

fn codex(folder: &Path, number: u64) {
    let folder = folder.join("sessions/2026/05/01");
    fs::create_dir_all(&folder).unwrap();
    let mut out = BufWriter::new(File::create(folder.join(format!("rollout-{number}.jsonl"))).unwrap());
    let meta = format!(
        r#"{{"timestamp":"2026-05-01T00:00:00.000Z","type":"session_meta","payload":{{"id":"{number:08}-0000-7000-8000-000000000001","cwd":"/work/app","cli_version":"0.140.0"}}}}"#
    );
    writeln!(out, "{meta}\n{{\"timestamp\":\"2026-05-01T00:00:00.000Z\",\"type\":\"turn_context\",\"payload\":{{\"model\":\"gpt-5.5\",\"effort\":\"high\"}}}}").unwrap();
    let (mut written, mut call, mut at) = (0, 0_u64, 1_777_600_000_000_i64 + i64::try_from(number).unwrap() * 1_000_000);
    let output = "drwxr-xr-x  2 user user 4096 May  1 00:00 src\\n".repeat(50);
    let thought = "gAAAAABo1WSfpo3EOAz_ZTZGVuJU7TKzZzuq".repeat(40);
    while written < SESSION {
        at += 9_000;
        let time = jiff::Timestamp::from_millisecond(at).unwrap();
        let (input, cached) = (14_000 + call % 300 * 400, 13_000 + call % 300 * 400);
        let lines = [
            format!(
                r#"{{"timestamp":"{time}","type":"response_item","payload":{{"type":"reasoning","summary":[],"content":null,"encrypted_content":"{thought}"}}}}"#
            ),
            format!(
                r#"{{"timestamp":"{time}","type":"response_item","payload":{{"type":"function_call","name":"exec_command","arguments":"{{\"cmd\":\"ls\"}}","call_id":"call_{call}"}}}}"#
            ),
            format!(
                r#"{{"timestamp":"{time}","type":"response_item","payload":{{"type":"function_call_output","call_id":"call_{call}","output":"{output}"}}}}"#
            ),
            format!(
                r#"{{"timestamp":"{time}","type":"event_msg","payload":{{"type":"token_count","info":{{"total_token_usage":{{"input_tokens":{call}0000,"total_tokens":{call}0000}},"last_token_usage":{{"input_tokens":{input},"cached_input_tokens":{cached},"output_tokens":200,"reasoning_output_tokens":60,"total_tokens":{}}}}}}}}}"#,
                input + 200
            ),
        ];
        for line in &lines {
            writeln!(out, "{line}").unwrap();
            written += line.len() as u64 + 1;
        }
        call += 1;
    }
}
