//! Gemini CLI: one JSON object a session in older versions, lines with updates in newer ones.

use std::collections::HashMap;

use serde::Deserialize;

use super::builder::{Builder, MAIN};
use super::records::RecordReader;
use crate::lenient::{Num, Obj, Parts, Size, Text};
use crate::log::{Call, FileLog, Signs, Tokens, hash, time_ms};

/// A line, or the whole file: the metadata, a message, or an update.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Record<'a> {
    #[serde(borrow)]
    session_id: Text<'a>,
    #[serde(borrow)]
    project_hash: Text<'a>,
    #[serde(borrow)]
    messages: Parts<'a, Message<'a>>,
    #[serde(borrow, rename = "$set")]
    set: Obj<Set<'a>>,
    #[serde(borrow, rename = "$rewindTo")]
    rewind_to: Text<'a>,
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow)]
    model: Text<'a>,
    content: Size,
    tokens: Obj<Usage>,
    #[serde(borrow)]
    tool_calls: Parts<'a, ToolCall<'a>>,
}

impl<'a> Record<'a> {
    /// The message that a line is.
    fn into_message(self) -> Message<'a> {
        Message {
            id: self.id,
            kind: self.kind,
            timestamp: self.timestamp,
            model: self.model,
            content: self.content,
            tokens: self.tokens,
            tool_calls: self.tool_calls,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Set<'a> {
    #[serde(borrow)]
    messages: Parts<'a, Message<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Message<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow)]
    model: Text<'a>,
    content: Size,
    tokens: Obj<Usage>,
    #[serde(borrow)]
    tool_calls: Parts<'a, ToolCall<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Usage {
    input: Num,
    output: Num,
    cached: Num,
    thoughts: Num,
    tool: Num,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolCall<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    timestamp: Text<'a>,
    result: Size,
}

impl Usage {
    /// The prompt contains what was cached; the reply does not contain the thoughts.
    fn tokens(&self) -> Tokens {
        let read = self.cached.0.min(self.input.0);
        Tokens {
            input: self.input.0 - read + self.tool.0,
            cache_read: read,
            output: self.output.0 + self.thoughts.0,
            ..Tokens::default()
        }
    }
}

/// A message as far as it matters; the last copy of an id wins.
struct Turn {
    id: u64,
    line: u32,
    user: bool,
    at_ms: i64,
    model: String,
    chars: u64,
    images: u32,
    usage: Option<Usage>,
    tools: Vec<(String, i64, Size)>,
}

#[derive(Default)]
struct Messages {
    list: Vec<Turn>,
    places: HashMap<u64, usize>,
    /// Messages that later copies do without: they were sent and paid all the same.
    rewound: Vec<Turn>,
    /// The ids at which a rewind left something out.
    rewinds: Vec<usize>,
}

/// No session has more messages.
const MOST: usize = 2_000_000;

impl Messages {
    fn add(&mut self, line: u32, message: Message) {
        if message.kind.is_empty() || self.list.len() >= MOST {
            return;
        }
        let turn = Turn {
            id: if message.id.is_empty() { 0 } else { hash(&message.id) },
            line,
            user: &*message.kind != "gemini",
            at_ms: time_ms(&message.timestamp).unwrap_or_default(),
            model: message.model.to_string(),
            chars: message.content.chars,
            images: message.content.images,
            usage: message.tokens.0,
            tools: message
                .tool_calls
                .list
                .iter()
                .map(|call| (call.name.to_string(), time_ms(&call.timestamp).unwrap_or_default(), call.result))
                .collect(),
        };
        if let Some(place) = self.places.get(&turn.id).copied().filter(|_| turn.id != 0) {
            let line = self.list[place].line;
            self.list[place] = Turn { line, ..turn };
        } else {
            self.places.insert(turn.id, self.list.len());
            self.list.push(turn);
        }
    }

    /// What follows that message is left out of later prompts.
    fn rewind(&mut self, id: &str) {
        let Some(place) = self.places.get(&hash(id)).copied() else { return };
        let left = self.list.split_off(place);
        for turn in &left {
            self.places.remove(&turn.id);
        }
        self.rewound.extend(left);
        self.rewinds.push(self.list.len());
    }
}

/// Reads a session of lines, or of one object.
pub(crate) struct Reader {
    builder: Builder,
    messages: Messages,
}

impl RecordReader for Reader {
    type Record<'a> = Record<'a>;

    fn new(log: FileLog) -> Self {
        Self { builder: Builder::new(log), messages: Messages::default() }
    }

    fn take(&mut self, line: u32, mut record: Record<'_>) {
        let (messages, log) = (&mut self.messages, &mut self.builder.log);
        if !record.session_id.is_empty() && log.session.is_empty() {
            log.session = record.session_id.to_string();
        }
        if !record.project_hash.is_empty() && log.project.is_empty() {
            log.project = record.project_hash.to_string();
        }
        if let Some(set) = record.set.0 {
            for message in set.messages.list {
                messages.add(line, message);
            }
            return;
        }
        if !record.rewind_to.is_empty() {
            messages.rewind(&record.rewind_to);
            return;
        }
        for message in std::mem::take(&mut record.messages).list {
            messages.add(line, message);
        }
        messages.add(line, record.into_message());
    }

    fn finish(self) -> FileLog {
        make_calls(self.builder, self.messages)
    }
}

/// The calls, once it is known which copy of each message is the last.
fn make_calls(mut builder: Builder, messages: Messages) -> FileLog {
    let main = builder.log.intern(MAIN);
    let mut all: Vec<(usize, Turn)> = messages.list.into_iter().enumerate().collect();
    // What a rewind took out stood where time puts it.
    let out = messages.rewound.into_iter().map(|turn| (usize::MAX, turn));
    all.extend(out);
    all.sort_by_key(|(_, turn)| turn.at_ms);
    for (place, turn) in all {
        if messages.rewinds.contains(&place) {
            builder.sign(main, turn.line, Signs::REWOUND);
        }
        if turn.user {
            builder.heard(main, turn.at_ms, turn.chars);
            if turn.images > 0 {
                builder.sign(main, turn.line, Signs::IMAGE);
            }
            continue;
        }
        if let Some(usage) = turn.usage.filter(|usage| !usage.tokens().is_zero()) {
            let model = builder.log.intern(&turn.model);
            builder.call(Call {
                id: turn.id,
                line: turn.line,
                chain: main,
                model,
                end_ms: turn.at_ms,
                tokens: usage.tokens(),
                reasoning: usage.thoughts.0,
                ..Call::default()
            });
        }
        for (name, at_ms, size) in turn.tools {
            let tool = builder.log.intern(&name);
            builder.result(main, at_ms, tool, size);
            if size.images > 0 {
                builder.sign(main, turn.line, Signs::IMAGE);
            }
        }
    }
    builder.log
}
