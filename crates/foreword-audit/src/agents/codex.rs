//! Codex: the history as it was sent, and running totals of tokens. Forks and sub-agents begin with a copy of their parent's history.

use serde::Deserialize;

use super::builder::{Builder, MAIN};
use super::records::RecordReader;
use crate::lenient::{Num, Obj, Size, Text};
use crate::log::{Call, FileLog, Name, Signs, Tokens, hash, time_ms};

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Record<'a> {
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    payload: Obj<Payload<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Payload<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    cwd: Text<'a>,
    #[serde(borrow)]
    cli_version: Text<'a>,
    #[serde(borrow)]
    forked_from_id: Text<'a>,
    #[serde(borrow)]
    source: Obj<Source<'a>>,
    #[serde(borrow)]
    model: Text<'a>,
    #[serde(borrow)]
    effort: Text<'a>,
    #[serde(borrow)]
    turn_id: Text<'a>,
    #[serde(borrow)]
    role: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    namespace: Text<'a>,
    #[serde(borrow)]
    call_id: Text<'a>,
    content: Size,
    output: Size,
    info: Obj<Info>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Source<'a> {
    #[serde(borrow)]
    subagent: Obj<Subagent<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Subagent<'a> {
    #[serde(borrow)]
    thread_spawn: Obj<Spawn<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spawn<'a> {
    #[serde(borrow)]
    parent_thread_id: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Info {
    total_token_usage: Obj<Usage>,
    last_token_usage: Obj<Usage>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[allow(clippy::struct_field_names)] // the log's own names
struct Usage {
    input_tokens: Num,
    cached_input_tokens: Num,
    cache_write_input_tokens: Num,
    output_tokens: Num,
    reasoning_output_tokens: Num,
    total_tokens: Num,
}

impl Usage {
    fn tokens(self) -> Tokens {
        let read = self.cached_input_tokens.0.min(self.input_tokens.0);
        let written = self.cache_write_input_tokens.0.min(self.input_tokens.0 - read);
        Tokens {
            input: self.input_tokens.0 - read - written,
            cache_read: read,
            cache_write_5m: written,
            cache_write_1h: 0,
            output: self.output_tokens.0,
        }
    }
}

/// Reads one thread.
pub(crate) struct Reader {
    builder: Builder,
    main: Name,
    model: Name,
    effort: Name,
    version: Name,
    /// The thread's own name, from its first record.
    thread: String,
    /// Whether what comes was copied from the thread that this one began as.
    copying: bool,
    total: Option<Usage>,
    /// When the reply of the current call began: what it answers stood before.
    replying_since: Option<i64>,
    asked_ms: i64,
    heard_ms: i64,
}

impl RecordReader for Reader {
    type Record<'a> = Record<'a>;

    fn new(mut log: FileLog) -> Self {
        let main = log.intern(MAIN);
        Self {
            builder: Builder::new(log),
            main,
            model: 0,
            effort: 0,
            version: 0,
            thread: String::new(),
            copying: false,
            total: None,
            replying_since: None,
            asked_ms: 0,
            heard_ms: 0,
        }
    }

    fn take(&mut self, line: u32, record: Record<'_>) {
        self.record(line, &record);
    }

    fn finish(self) -> FileLog {
        self.builder.log
    }
}

impl Reader {
    fn record(&mut self, line: u32, record: &Record) {
        let at_ms = time_ms(&record.timestamp).unwrap_or_default();
        let Some(payload) = &record.payload.0 else { return };
        match &*record.kind {
            "session_meta" => self.meta(line, payload),
            "turn_context" => {
                self.model = self.builder.log.intern(&payload.model);
                self.effort = self.builder.log.intern(&payload.effort);
                self.turn(&payload.turn_id);
            }
            "compacted" => self.builder.sign(self.main, line, Signs::COMPACTED),
            "event_msg" => match &*payload.kind {
                "token_count" => self.usage(line, at_ms, payload),
                "task_started" => self.turn(&payload.turn_id),
                "thread_rolled_back" => self.builder.sign(self.main, line, Signs::REWOUND),
                "turn_aborted" => self.builder.sign(self.main, line, Signs::INTERRUPTED),
                _ => {}
            },
            "response_item" => self.item(line, at_ms, payload),
            _ => {}
        }
    }

    fn meta(&mut self, line: u32, payload: &Payload) {
        if self.thread.is_empty() {
            self.thread = payload.id.to_string();
            if !payload.id.is_empty() {
                self.builder.log.session = payload.id.to_string();
            }
            let spawned = payload.source.0.as_ref().and_then(|source| source.subagent.0.as_ref());
            let spawned = spawned.and_then(|agent| agent.thread_spawn.0.as_ref());
            self.copying = !payload.forked_from_id.is_empty() || spawned.is_some_and(|spawn| !spawn.parent_thread_id.is_empty());
            self.builder.log.project = payload.cwd.to_string();
        } else if self.builder.last(self.main).is_some() && *payload.id == *self.thread {
            // It is written again by every process that goes on with the thread.
            self.builder.sign(self.main, line, Signs::RESUMED);
        }
        if !payload.cli_version.is_empty() {
            self.version = self.builder.log.intern(&payload.cli_version);
        }
    }

    /// Turn ids and thread ids are ordered by time: a turn that is older than the thread was copied.
    fn turn(&mut self, id: &str) {
        let ordered = |id: &str| id.len() == 36 && id.as_bytes().get(14) == Some(&b'7');
        if ordered(id) && ordered(&self.thread) {
            self.copying = id < self.thread.as_str();
        }
    }

    fn usage(&mut self, line: u32, at_ms: i64, payload: &Payload) {
        let Some(info) = &payload.info.0 else { return };
        let moved = match (info.total_token_usage.0, self.total) {
            (Some(total), Some(before)) => total != before,
            _ => true,
        };
        self.total = info.total_token_usage.0.or(self.total);
        let Some(last) = info.last_token_usage.0.filter(|_| moved) else { return };
        let tokens = last.tokens();
        let start_ms = self.replying_since.take().unwrap_or(self.heard_ms);
        // A log that was cut at its start has no word before the first reply.
        let start_ms = if start_ms > 0 { start_ms } else { at_ms };
        if tokens.is_zero() {
            return;
        }
        self.builder.call(Call {
            // The same call in a copy has the same totals and the same turn, and nothing else in common; copies are told by their turns.
            id: 0,
            line,
            chain: self.main,
            model: self.model,
            version: self.version,
            effort: self.effort,
            start_ms,
            end_ms: if self.asked_ms > start_ms { self.asked_ms } else { at_ms },
            tokens,
            reasoning: last.reasoning_output_tokens.0.min(last.output_tokens.0),
            copied: self.copying,
            ..Call::default()
        });
        self.asked_ms = 0;
    }

    fn item(&mut self, line: u32, at_ms: i64, payload: &Payload) {
        let main = self.main;
        match &*payload.kind {
            "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
                let tool = self.builder.tool(hash(&payload.call_id));
                let mut size = payload.output;
                size.images += payload.content.images;
                self.builder.result(main, at_ms, tool, size);
                if size.images > 0 {
                    self.builder.sign(main, line, Signs::IMAGE);
                }
                self.heard_ms = at_ms;
            }
            "tool_search_output" => {
                self.builder.sign(main, line, Signs::TOOLS);
                self.heard_ms = at_ms;
            }
            "message" if &*payload.role != "assistant" => {
                self.builder.heard(main, at_ms, payload.content.chars);
                if payload.content.images > 0 {
                    self.builder.sign(main, line, Signs::IMAGE);
                }
                self.heard_ms = at_ms;
            }
            "function_call" | "custom_tool_call" | "local_shell_call" | "web_search_call" | "tool_search_call" | "reasoning"
            | "message" => {
                if !payload.call_id.is_empty() {
                    let name = match (&*payload.namespace, &*payload.name) {
                        ("", "") => payload.kind.to_string(),
                        ("", name) => name.to_owned(),
                        (space, name) => format!("{}__{}", space.trim_end_matches('_'), name.trim_start_matches('_')),
                    };
                    self.builder.calls_tool(hash(&payload.call_id), &name);
                }
                // The totals follow only after the tools' outputs: what was heard before the reply is what it answers.
                self.replying_since.get_or_insert(self.heard_ms);
                self.asked_ms = self.asked_ms.max(at_ms);
            }
            _ => {}
        }
    }
}
