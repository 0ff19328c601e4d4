//! Qwen Code: Claude Code's tree of records with Gemini's usage.

use serde::Deserialize;

use super::builder::Builder;
use super::records::{RecordReader, Tree};
use crate::lenient::{Flag, Num, Obj, Parts, Size, Text};
use crate::log::{Call, FileLog, Name, Signs, Tokens, hash, time_ms};

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Record<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    subtype: Text<'a>,
    #[serde(borrow)]
    uuid: Text<'a>,
    #[serde(borrow)]
    parent_uuid: Text<'a>,
    #[serde(borrow)]
    session_id: Text<'a>,
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow)]
    version: Text<'a>,
    #[serde(borrow)]
    cwd: Text<'a>,
    #[serde(borrow)]
    model: Text<'a>,
    #[serde(borrow)]
    agent_id: Text<'a>,
    is_sidechain: Flag,
    #[serde(borrow)]
    message: Obj<Message<'a>>,
    usage_metadata: Obj<Usage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Message<'a> {
    #[serde(borrow)]
    parts: Parts<'a, Part<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Part<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    function_call: Obj<Function<'a>>,
    #[serde(borrow)]
    function_response: Obj<Function<'a>>,
    inline_data: Obj<Inline>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Inline {}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Function<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    response: Size,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(clippy::struct_field_names)] // the log's own names
struct Usage {
    prompt_token_count: Num,
    candidates_token_count: Num,
    thoughts_token_count: Num,
    cached_content_token_count: Num,
    total_token_count: Num,
}

impl Usage {
    fn tokens(&self) -> Tokens {
        let read = self.cached_content_token_count.0.min(self.prompt_token_count.0);
        // Endpoints of OpenAI's API count the thoughts among the candidates; Gemini's own do not. The total tells.
        let (said, thought) = (self.candidates_token_count.0, self.thoughts_token_count.0);
        let apart = self.total_token_count.0 == self.prompt_token_count.0 + said + thought;
        Tokens {
            input: self.prompt_token_count.0 - read,
            cache_read: read,
            output: if apart { said + thought } else { said.max(thought) },
            ..Tokens::default()
        }
    }
}

/// Reads one session.
pub(crate) struct Reader {
    builder: Builder,
    tree: Tree,
}

impl RecordReader for Reader {
    type Record<'a> = Record<'a>;

    fn new(log: FileLog) -> Self {
        Self { builder: Builder::new(log), tree: Tree::default() }
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
        let log = &mut self.builder.log;
        if log.project.is_empty() {
            log.project = record.cwd.to_string();
        }
        if log.session.is_empty() {
            log.session = record.session_id.to_string();
        }
        let agent = if record.agent_id.is_empty() && record.is_sidechain.0 { "sub-agent" } else { &record.agent_id };
        let chain = self.builder.chain(agent);
        let at_ms = time_ms(&record.timestamp).unwrap_or_default();
        let before = self.tree.call_before(&record.parent_uuid);
        let mut place = before;
        match &*record.kind {
            "assistant" => {
                let last = self.builder.last(chain);
                if let Some(call) = self.reply(line, chain, at_ms, record) {
                    self.builder.mark_rewind(call, before, last);
                    place = Some(call);
                }
            }
            "user" | "tool_result" => self.heard(line, chain, at_ms, record),
            "system" => match &*record.subtype {
                "chat_compression" => self.builder.sign(chain, line, Signs::COMPACTED),
                "rewind" => self.builder.sign(chain, line, Signs::REWOUND),
                _ => {}
            },
            _ => {}
        }
        self.tree.add(&record.uuid, place);
    }

    fn heard(&mut self, line: u32, chain: Name, at_ms: i64, record: &Record) {
        let Some(message) = &record.message.0 else { return };
        for part in &message.parts.list {
            if let Some(function) = &part.function_response.0 {
                let tool = self.builder.log.intern(&function.name);
                self.builder.result(chain, at_ms, tool, function.response);
            } else {
                self.builder.heard(chain, at_ms, part.text.len() as u64);
            }
            if part.inline_data.0.is_some() {
                self.builder.sign(chain, line, Signs::IMAGE);
            }
        }
    }

    fn reply(&mut self, line: u32, chain: Name, at_ms: i64, record: &Record) -> Option<u32> {
        let usage = record.usage_metadata.0.as_ref()?;
        let tokens = usage.tokens();
        if tokens.is_zero() {
            return None;
        }
        let (model, version) = (self.builder.log.intern(&record.model), self.builder.log.intern(&record.version));
        let id = if record.uuid.is_empty() { 0 } else { hash(&record.uuid) };
        let reasoning = usage.thoughts_token_count.0.min(tokens.output);
        let call = Call { id, line, chain, model, version, end_ms: at_ms, tokens, reasoning, ..Call::default() };
        self.builder.call(call)
    }
}
