//! Pi: a line a message, with the provider's usage in every reply.

use serde::Deserialize;

use super::builder::{Builder, MAIN};
use super::records::{RecordReader, Tree};
use crate::lenient::{Num, Obj, Parts, Size, Text};
use crate::log::{Call, FileLog, Name, Signs, Tokens, hash, time_ms};

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Record<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    parent_id: Text<'a>,
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow)]
    cwd: Text<'a>,
    version: Num,
    #[serde(borrow)]
    thinking_level: Text<'a>,
    #[serde(borrow)]
    message: Obj<Message<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Message<'a> {
    #[serde(borrow)]
    role: Text<'a>,
    #[serde(borrow)]
    model: Text<'a>,
    #[serde(borrow)]
    tool_name: Text<'a>,
    #[serde(borrow)]
    response_id: Text<'a>,
    timestamp: Num,
    usage: Obj<Usage>,
    #[serde(borrow)]
    content: Parts<'a, Block<'a>>,
    output: Size,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    text: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Usage {
    input: Num,
    output: Num,
    cache_read: Num,
    cache_write: Num,
}

/// Reads one session.
pub(crate) struct Reader {
    builder: Builder,
    main: Name,
    effort: Name,
    version: Name,
    tree: Tree,
}

impl RecordReader for Reader {
    type Record<'a> = Record<'a>;

    fn new(mut log: FileLog) -> Self {
        let main = log.intern(MAIN);
        Self { builder: Builder::new(log), main, effort: 0, version: 0, tree: Tree::default() }
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
        let before = self.tree.call_before(&record.parent_id);
        let mut place = before;
        match &*record.kind {
            "session" => {
                if self.builder.log.project.is_empty() {
                    self.builder.log.project = record.cwd.to_string();
                    if !record.id.is_empty() {
                        self.builder.log.session = record.id.to_string();
                    }
                }
                self.version = self.builder.log.intern(&format!("v{}", record.version.0.max(1)));
            }
            "compaction" => self.builder.sign(self.main, line, Signs::COMPACTED),
            "branch_summary" => self.builder.sign(self.main, line, Signs::REWOUND),
            "thinking_level_change" => self.effort = self.builder.log.intern(&record.thinking_level),
            "message" => {
                if let Some(message) = &record.message.0 {
                    let last = self.builder.last(self.main);
                    if let Some(call) = self.message(line, at_ms, message) {
                        self.builder.mark_rewind(call, before, last);
                        place = Some(call);
                    }
                }
            }
            _ => {}
        }
        self.tree.add(&record.id, place);
    }

    fn message(&mut self, line: u32, at_ms: i64, message: &Message) -> Option<u32> {
        let text: u64 = message.content.text.len() as u64
            + message.content.list.iter().map(|block| block.text.len() as u64).sum::<u64>()
            + message.output.chars;
        let images = message.content.list.iter().filter(|block| &*block.kind == "image").count();
        match &*message.role {
            "assistant" => return self.reply(line, at_ms, message),
            "toolResult" => {
                let tool = self.builder.log.intern(&message.tool_name);
                self.builder.result(self.main, at_ms, tool, Size { chars: text, images: 0 });
            }
            _ => self.builder.heard(self.main, at_ms, text),
        }
        if images > 0 {
            self.builder.sign(self.main, line, Signs::IMAGE);
        }
        None
    }

    fn reply(&mut self, line: u32, at_ms: i64, message: &Message) -> Option<u32> {
        let usage = message.usage.0.as_ref()?;
        let tokens = Tokens {
            input: usage.input.0,
            cache_read: usage.cache_read.0,
            cache_write_5m: usage.cache_write.0,
            cache_write_1h: 0,
            output: usage.output.0,
        };
        if tokens.is_zero() {
            return None;
        }
        let model = self.builder.log.intern(&message.model);
        // The same reply in a branch has the same time and the same counts.
        let id = if message.response_id.is_empty() { hash(&format!("{at_ms} {tokens:?}")) } else { hash(&message.response_id) };
        self.builder.call(Call {
            id,
            line,
            chain: self.main,
            model,
            version: self.version,
            effort: self.effort,
            start_ms: i64::try_from(message.timestamp.0).unwrap_or_default(),
            end_ms: at_ms,
            tokens,
            ..Call::default()
        })
    }
}
