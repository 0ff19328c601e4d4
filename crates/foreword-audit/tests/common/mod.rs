//! Small logs in the formats of other programs, written from a plan: what each call takes, and what happens before it.

// Each test uses a part of it; records are written one after the other.
#![allow(dead_code, clippy::semicolon_if_nothing_returned, clippy::format_collect)]

use foreword_audit::agents::{read_lines, read_text};
use foreword_audit::breaks::Cause;
use foreword_audit::log::{Agent, FileLog};
use foreword_audit::report::{Report, report};
use foreword_audit::sessions::{Filter, Sessions};
use foreword_provider::table::ModelTable;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

/// What happens before a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// A tool gave something back.
    Result,
    /// The user sent a message.
    Words,
    /// The history was compacted.
    Compacted,
    /// The user showed an image.
    Image,
    /// The conversation goes on from an earlier point.
    Rewound,
    /// Another process goes on.
    Resumed,
    /// Tools were loaded.
    ToolsLoaded,
    /// The provider says that the system prompt changed.
    SystemVerdict,
}

/// A call of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) before: Before,
    /// Seconds since the reply before.
    pub(crate) idle_s: i64,
    pub(crate) model: &'static str,
    pub(crate) effort: &'static str,
    /// Read, written or fresh, output.
    pub(crate) read: u64,
    pub(crate) new: u64,
    pub(crate) output: u64,
    /// The break that it is.
    pub(crate) cause: Option<Cause>,
}

/// A format of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Claude,
    ClaudeHour,
    Codex,
    OpenCode,
    GeminiWhole,
    GeminiLines,
    Qwen,
    Pi,
}

impl Format {
    pub(crate) const ALL: [Self; 8] =
        [Self::Claude, Self::ClaudeHour, Self::Codex, Self::OpenCode, Self::GeminiWhole, Self::GeminiLines, Self::Qwen, Self::Pi];

    pub(crate) fn agent(self) -> Agent {
        match self {
            Self::Claude | Self::ClaudeHour => Agent::ClaudeCode,
            Self::Codex => Agent::Codex,
            Self::OpenCode => Agent::OpenCode,
            Self::GeminiWhole | Self::GeminiLines => Agent::GeminiCli,
            Self::Qwen => Agent::QwenCode,
            Self::Pi => Agent::Pi,
        }
    }

    /// Two models that such a log may name.
    pub(crate) fn models(self) -> [&'static str; 2] {
        match self {
            Self::Claude | Self::ClaudeHour | Self::OpenCode | Self::Pi => ["claude-opus-4-6", "claude-sonnet-4-6"],
            Self::Codex => ["gpt-5.6-sol", "gpt-5.6-terra"],
            Self::GeminiWhole | Self::GeminiLines => ["gemini-2.5-flash", "gemini-2.5-pro"],
            Self::Qwen => ["qwen3-coder-plus", "qwen3-max"],
        }
    }

    /// How long an entry lives, in seconds.
    pub(crate) fn lifetime_s(self) -> i64 {
        match self {
            Self::ClaudeHour => 3_600,
            Self::Codex => 1_800,
            _ => 300,
        }
    }

    /// What can be told of it, and the break that this is.
    pub(crate) fn causes(self) -> Vec<(Before, Cause)> {
        let mut all = vec![(Before::Words, Cause::Idle), (Before::Words, Cause::Model), (Before::Image, Cause::Images)];
        if !matches!(self, Self::GeminiWhole) {
            all.push((Before::Rewound, Cause::Rewind));
        }
        if !matches!(self, Self::GeminiWhole | Self::GeminiLines) {
            all.push((Before::Compacted, Cause::Compaction));
        }
        if matches!(self, Self::Claude | Self::ClaudeHour | Self::Codex) {
            all.extend([(Before::Resumed, Cause::Resume), (Before::ToolsLoaded, Cause::Tools)]);
        }
        if matches!(self, Self::Claude | Self::ClaudeHour) {
            all.push((Before::SystemVerdict, Cause::System));
        }
        all
    }
}

const BEGIN_MS: i64 = 1_777_600_000_000;

pub(crate) fn time(ms: i64) -> String {
    format!("{:.3}", Timestamp::from_millisecond(ms).unwrap())
}

/// Writes the log of a plan. Gives back the start of each call as well.
#[allow(clippy::too_many_lines)] // one format after the other
pub(crate) fn write(format: Format, plan: &[Planned]) -> (String, Vec<i64>) {
    let mut lines: Vec<Value> = Vec::new();
    let mut starts = Vec::new();
    let mut now = BEGIN_MS;
    let mut total = [0_u64; 4];
    // Claude's tree: the last record, and the one behind the first call.
    let (mut parent, mut early) = (Value::Null, Value::Null);
    let mut tool: Option<String> = None;
    let session = "0196e000-0000-7000-8000-000000000001";
    match format {
        Format::Codex => lines.push(
            json!({"timestamp": time(now), "type": "session_meta", "payload": {"id": session, "cwd": "/work/app", "cli_version": "0.140.0"}}),
        ),
        Format::GeminiLines => lines.push(json!({"sessionId": session, "projectHash": "abc", "startTime": time(now), "lastUpdated": time(now)})),
        Format::Pi => lines.push(json!({"type": "session", "version": 3, "id": session, "timestamp": time(now), "cwd": "/work/app"})),
        _ => {}
    }
    for (number, call) in plan.iter().enumerate() {
        now += call.idle_s * 1000;
        starts.push(now);
        let image = call.before == Before::Image;
        let words = format!("please do step {number}");
        let result = "x".repeat(400);
        let written = call.new;
        match format {
            Format::Claude | Format::ClaudeHour => {
                let mut record = |kind: &str, at: i64, rest: Value, parent: &mut Value| {
                    let id = format!("u{}", lines.len());
                    let mut one = json!({"type": kind, "uuid": id, "parentUuid": parent, "timestamp": time(at), "sessionId": session,
                        "version": "2.1.120", "cwd": "/work/app", "isSidechain": false, "effort": call.effort});
                    one.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
                    lines.push(one);
                    *parent = json!(id);
                };
                match call.before {
                    Before::Compacted => {
                        record(
                            "system",
                            now - 900,
                            json!({"subtype": "compact_boundary", "compactMetadata": {"trigger": "auto"}}),
                            &mut parent,
                        );
                        record(
                            "user",
                            now,
                            json!({"isCompactSummary": true, "message": {"role": "user", "content": "summary"}}),
                            &mut parent,
                        );
                    }
                    Before::Resumed => {
                        record(
                            "progress",
                            now - 900,
                            json!({"data": {"type": "hook_progress", "hookName": "SessionStart:resume"}}),
                            &mut parent,
                        );
                        record("user", now, json!({"message": {"role": "user", "content": words}}), &mut parent);
                    }
                    Before::Rewound => {
                        parent = early.clone();
                        record("user", now, json!({"message": {"role": "user", "content": words}}), &mut parent);
                    }
                    Before::Image => {
                        let content = json!([{"type": "image", "source": {"type": "base64", "data": "AAAA"}}, {"type": "text", "text": words}]);
                        record("user", now, json!({"message": {"role": "user", "content": content}}), &mut parent);
                    }
                    Before::Result | Before::ToolsLoaded if tool.is_some() => {
                        let content = json!([{"type": "tool_result", "tool_use_id": tool, "content": result}]);
                        record("user", now, json!({"message": {"role": "user", "content": content}}), &mut parent);
                    }
                    _ => record("user", now, json!({"message": {"role": "user", "content": words}}), &mut parent),
                }
                let next = plan.get(number + 1).map(|next| next.before);
                let name = if next == Some(Before::ToolsLoaded) { "ToolSearch" } else { "Read" };
                let id = format!("toolu_{number}");
                let (five, hour) = if format == Format::ClaudeHour { (0, written) } else { (written, 0) };
                let usage = |output: u64| {
                    json!({"input_tokens": 3, "cache_read_input_tokens": call.read, "cache_creation_input_tokens": written,
                    "cache_creation": {"ephemeral_5m_input_tokens": five, "ephemeral_1h_input_tokens": hour}, "output_tokens": output})
                };
                let mut message = json!({"id": format!("msg_{number}"), "model": call.model, "role": "assistant"});
                if call.before == Before::SystemVerdict {
                    message["diagnostics"] =
                        json!({"cache_miss_reason": {"type": "system_changed", "cache_missed_input_tokens": written}});
                }
                now += 2_000;
                let mut first = message.clone();
                first.as_object_mut().unwrap().extend([
                    ("content".to_owned(), json!([{"type": "text", "text": "well"}])),
                    ("stop_reason".to_owned(), Value::Null),
                    ("usage".to_owned(), usage(1)),
                ]);
                record("assistant", now, json!({"requestId": format!("req_{number}"), "message": first}), &mut parent);
                message.as_object_mut().unwrap().extend([
                    ("content".to_owned(), json!([{"type": "tool_use", "id": id, "name": name, "input": {}}])),
                    ("stop_reason".to_owned(), json!("tool_use")),
                    ("usage".to_owned(), usage(call.output)),
                ]);
                record("assistant", now, json!({"requestId": format!("req_{number}"), "message": message}), &mut parent);
                if number == 1 {
                    early = parent.clone();
                }
                tool = Some(id);
            }
            Format::Codex => {
                let mut put = |at: i64, kind: &str, payload: Value| {
                    lines.push(json!({"timestamp": time(at), "type": kind, "payload": payload}))
                };
                put(
                    now - 10,
                    "turn_context",
                    json!({"model": call.model, "effort": call.effort, "turn_id": format!("0196e001-0000-7000-8000-{number:012}")}),
                );
                let text = json!([{"type": "input_text", "text": words}]);
                match call.before {
                    Before::Compacted => put(now - 5, "compacted", json!({"message": "", "replacement_history": []})),
                    Before::Rewound => put(now - 5, "event_msg", json!({"type": "thread_rolled_back", "num_turns": 1})),
                    Before::Resumed => {
                        put(now - 5, "session_meta", json!({"id": session, "cwd": "/work/app", "cli_version": "0.140.0"}))
                    }
                    Before::ToolsLoaded => {
                        put(now - 5, "response_item", json!({"type": "tool_search_output", "call_id": "c", "tools": []}))
                    }
                    _ => {}
                }
                let content =
                    if image { json!([{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]) } else { text };
                match (call.before, &tool) {
                    (Before::Result, Some(id)) => {
                        put(now, "response_item", json!({"type": "function_call_output", "call_id": id, "output": result}))
                    }
                    _ => put(now, "response_item", json!({"type": "message", "role": "user", "content": content})),
                }
                now += 2_000;
                let id = format!("call_{number}");
                put(
                    now,
                    "response_item",
                    json!({"type": "function_call", "name": "exec_command", "call_id": id, "arguments": "{}"}),
                );
                tool = Some(id);
                let usage = [call.read + call.new, call.read, call.output, call.output / 2];
                for (sum, one) in total.iter_mut().zip(usage) {
                    *sum += one;
                }
                let usage = |[input, cached, output, reasoning]: [u64; 4]| {
                    json!({"input_tokens": input, "cached_input_tokens": cached,
                    "output_tokens": output, "reasoning_output_tokens": reasoning, "total_tokens": input + output})
                };
                let info = json!({"total_token_usage": usage(total), "last_token_usage": usage(usage_of(call))});
                put(now, "event_msg", json!({"type": "token_count", "info": info}));
                // The same totals again: no call.
                put(now + 1, "event_msg", json!({"type": "token_count", "info": info}));
            }
            Format::OpenCode => {
                let id = |who: &str| format!("msg_{number:04}_{who}");
                let kind = if call.before == Before::Compacted { "compaction" } else { "text" };
                let mut parts = vec![json!({"type": kind, "messageID": id("a"), "text": words})];
                if image {
                    parts.push(
                        json!({"type": "file", "mime": "image/png", "messageID": id("a"), "url": "data:image/png;base64,AAAA"}),
                    );
                }
                lines.push(json!({"info": {"id": id("a"), "sessionID": session, "role": "user", "time": {"created": now - 1}}, "parts": parts}));
                let end = now + 2_000;
                lines.push(json!({"info": {"id": id("b"), "sessionID": session, "role": "assistant", "modelID": call.model, "providerID": "anthropic",
                    "time": {"created": now, "completed": end}, "tokens": {"input": 3, "output": call.output, "reasoning": 0,
                    "cache": {"read": call.read, "write": call.new}}}, "parts": [
                    {"type": "tool", "messageID": id("b"), "tool": "read", "state": {"output": result, "time": {"start": end, "end": end}}}]}));
                now = end;
            }
            Format::GeminiWhole | Format::GeminiLines => {
                if call.before == Before::Rewound {
                    // From the second question on, everything is left out.
                    lines.push(json!({"$rewindTo": "u1"}));
                }
                let parts = if image { json!([{"type": "image", "data": "AAAA"}]) } else { json!(words) };
                lines.push(json!({"id": format!("u{number}"), "type": "user", "timestamp": time(now), "content": parts}));
                now += 2_000;
                let tokens = json!({"input": call.read + call.new, "output": call.output, "cached": call.read, "thoughts": 7, "tool": 0,
                    "total": call.read + call.new + call.output + 7});
                let message = json!({"id": format!("g{number}"), "type": "gemini", "timestamp": time(now), "model": call.model, "content": "well", "tokens": tokens});
                lines.push(message.clone());
                if format == Format::GeminiLines {
                    // Written again when its tools have ended.
                    let mut again = message;
                    again["toolCalls"] = json!([{"name": "read_file", "timestamp": time(now), "result": [{"text": result}]}]);
                    lines.push(again);
                }
            }
            Format::Qwen => {
                let mut record = |kind: &str, at: i64, rest: Value, parent: &mut Value| {
                    let id = format!("u{}", lines.len());
                    let mut one = json!({"type": kind, "uuid": id, "parentUuid": parent, "timestamp": time(at), "sessionId": session, "cwd": "/work/app", "version": "0.15.0"});
                    one.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
                    lines.push(one);
                    *parent = json!(id);
                };
                match call.before {
                    Before::Compacted => {
                        record("system", now - 900, json!({"subtype": "chat_compression", "systemPayload": {}}), &mut parent)
                    }
                    Before::Rewound => parent = early.clone(),
                    _ => {}
                }
                let part = if image {
                    json!([{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}])
                } else {
                    json!([{"text": words}])
                };
                record("user", now, json!({"message": {"role": "user", "parts": part}}), &mut parent);
                now += 2_000;
                let prompt = call.read + call.new;
                record(
                    "assistant",
                    now,
                    json!({"model": call.model, "message": {"role": "model", "parts": [{"functionCall": {"name": "read_file"}}]},
                    "usageMetadata": {"promptTokenCount": prompt, "candidatesTokenCount": call.output, "cachedContentTokenCount": call.read,
                    "totalTokenCount": prompt + call.output}}),
                    &mut parent,
                );
                if number == 1 {
                    early = parent.clone();
                }
                record(
                    "tool_result",
                    now + 1,
                    json!({"message": {"parts": [{"functionResponse": {"name": "read_file", "response": {"output": result}}}]}}),
                    &mut parent,
                );
            }
            Format::Pi => {
                let mut record = |kind: &str, at: i64, rest: Value, parent: &mut Value| {
                    let id = format!("e{}", lines.len());
                    let mut one = json!({"type": kind, "id": id, "parentId": parent, "timestamp": time(at)});
                    one.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
                    lines.push(one);
                    *parent = json!(id);
                };
                match call.before {
                    Before::Compacted => {
                        record("compaction", now - 900, json!({"summary": "so far", "tokensBefore": 1}), &mut parent)
                    }
                    Before::Rewound => parent = early.clone(),
                    _ => {}
                }
                let content =
                    if image { json!([{"type": "image", "data": "AAAA"}]) } else { json!([{"type": "text", "text": words}]) };
                record("message", now, json!({"message": {"role": "user", "content": content}}), &mut parent);
                let start = now;
                now += 2_000;
                record(
                    "message",
                    now,
                    json!({"message": {"role": "assistant", "model": call.model, "timestamp": start, "responseId": format!("r{number}"),
                    "usage": {"input": 3, "output": call.output, "cacheRead": call.read, "cacheWrite": call.new}, "content": []}}),
                    &mut parent,
                );
                if number == 1 {
                    early = parent.clone();
                }
                record(
                    "message",
                    now + 1,
                    json!({"message": {"role": "toolResult", "toolName": "read", "content": [{"type": "text", "text": result}]}}),
                    &mut parent,
                );
            }
        }
    }
    let text = match format {
        Format::OpenCode => {
            json!({"info": {"id": session, "directory": "/work/app", "version": "1.2.20"}, "messages": lines}).to_string()
        }
        Format::GeminiWhole => json!({"sessionId": session, "projectHash": "abc", "messages": lines}).to_string(),
        _ => lines.iter().map(|line| format!("{line}\n")).collect(),
    };
    (text, starts)
}

fn usage_of(call: &Planned) -> [u64; 4] {
    [call.read + call.new, call.read, call.output, call.output / 2]
}

/// Reads a log of that format.
pub(crate) fn read(format: Format, text: &str) -> FileLog {
    let log = FileLog::new(format.agent(), "session", "file");
    match format {
        Format::OpenCode | Format::GeminiWhole => read_text(format.agent(), text.as_bytes()).remove(0),
        _ => read_lines(format.agent(), text.as_bytes(), log),
    }
}

/// The report of some logs.
pub(crate) fn report_of(logs: Vec<FileLog>) -> Report {
    let sessions = Sessions::join(logs, &Filter::default());
    report(&sessions, &ModelTable::builtin().unwrap(), &TimeZone::UTC)
}

/// Numbers that look like chance and are always the same.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn upto(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// A session of that format with one break in it.
pub(crate) fn plan(format: Format, before: Before, cause: Cause, seed: u64) -> Vec<Planned> {
    let mut numbers = Numbers(seed.wrapping_mul(977) + 11);
    let [model, other] = format.models();
    let start = 9_000 + numbers.upto(9_000);
    let calls = 6 + numbers.upto(10);
    let at = 3 + numbers.upto(calls - 3);
    let mut cached = 0;
    let mut plan = Vec::new();
    let mut used = model;
    for number in 0..calls {
        let new = 300 + numbers.upto(1_500);
        let mut one = Planned {
            before: if number == 0 || numbers.upto(4) == 0 { Before::Words } else { Before::Result },
            idle_s: 1 + i64::try_from(numbers.upto(60)).unwrap(),
            model: used,
            effort: "high",
            read: cached,
            new,
            output: 20 + numbers.upto(600),
            cause: None,
        };
        if number == 0 {
            one.new = start;
        }
        if number == at {
            one.before = before;
            one.cause = Some(cause);
            // What is left, and what is written again.
            one.read = if numbers.upto(2) == 0 { 0 } else { start * 60 / 100 };
            one.new = cached + new - one.read;
            match cause {
                Cause::Idle => one.idle_s = format.lifetime_s() + 120 + i64::try_from(numbers.upto(90_000)).unwrap(),
                Cause::Model => {
                    used = other;
                    one.model = other;
                }
                Cause::Compaction => one.new = start * 60 / 100 + 2_500 - one.read,
                Cause::Rewind => one.new = start * 80 / 100 - one.read,
                _ => {}
            }
        }
        cached = one.read + one.new;
        plan.push(one);
    }
    plan
}
