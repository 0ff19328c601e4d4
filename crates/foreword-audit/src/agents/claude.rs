//! Claude Code: a line for every block of a reply, a tree of records, sub-agents in files of their own or in `progress` records.

use std::collections::HashMap;

use serde::Deserialize;

use super::builder::Builder;
use super::records::{RecordReader, Tree};
use crate::lenient::{Flag, Num, Obj, Parts, Size, Text};
use crate::log::{Call, FileLog, Name, Signs, Tokens, Verdict, hash, time_ms};

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
    logical_parent_uuid: Text<'a>,
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow)]
    session_id: Text<'a>,
    #[serde(borrow)]
    version: Text<'a>,
    #[serde(borrow)]
    cwd: Text<'a>,
    #[serde(borrow)]
    effort: Text<'a>,
    #[serde(borrow)]
    agent_id: Text<'a>,
    is_sidechain: Flag,
    is_compact_summary: Flag,
    is_api_error_message: Flag,
    #[serde(borrow)]
    content: Text<'a>,
    #[serde(borrow)]
    request_id: Text<'a>,
    #[serde(borrow)]
    message: Obj<Message<'a>>,
    #[serde(borrow)]
    data: Obj<Progress<'a>>,
    #[serde(borrow)]
    attachment: Obj<Attachment<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Progress<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    hook_name: Text<'a>,
    #[serde(borrow)]
    agent_id: Text<'a>,
    #[serde(borrow)]
    message: Obj<Inner<'a>>,
}

/// A record of a sub-agent inside a `progress` record.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Inner<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow)]
    request_id: Text<'a>,
    #[serde(borrow)]
    message: Obj<Message<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Attachment<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    hook_name: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Message<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    model: Text<'a>,
    #[serde(borrow)]
    stop_reason: Text<'a>,
    usage: Obj<Usage<'a>>,
    #[serde(borrow)]
    content: Parts<'a, Block<'a>>,
    #[serde(borrow)]
    diagnostics: Obj<Diagnostics<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Usage<'a> {
    input_tokens: Num,
    cache_read_input_tokens: Num,
    cache_creation_input_tokens: Num,
    cache_creation: Obj<Creation>,
    output_tokens: Num,
    #[serde(borrow)]
    service_tier: Text<'a>,
    #[serde(borrow)]
    inference_geo: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Creation {
    ephemeral_5m_input_tokens: Num,
    ephemeral_1h_input_tokens: Num,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Diagnostics<'a> {
    #[serde(borrow)]
    cache_miss_reason: Obj<Reason<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Reason<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    tool_use_id: Text<'a>,
    #[serde(borrow)]
    text: Text<'a>,
    content: Size,
}

impl Usage<'_> {
    fn tokens(&self) -> Tokens {
        let written = self.cache_creation_input_tokens.0;
        let (short, long) = match &self.cache_creation.0 {
            Some(split) => (split.ephemeral_5m_input_tokens.0, split.ephemeral_1h_input_tokens.0.min(written)),
            None => (written, 0),
        };
        // Versions before 2.0.64 do not split; where the parts do not add up, the sum is what was billed.
        let short = if short + long == written { short } else { written - long };
        Tokens {
            input: self.input_tokens.0,
            cache_read: self.cache_read_input_tokens.0,
            cache_write_5m: short,
            cache_write_1h: long,
            output: self.output_tokens.0,
        }
    }

    fn percent(&self) -> u16 {
        let tier = if &*self.service_tier == "batch" { 50 } else { 100 };
        if &*self.inference_geo == "us" { tier * 11 / 10 } else { tier }
    }
}

impl Message<'_> {
    fn verdict(&self) -> Option<Verdict> {
        let reason = self.diagnostics.0.as_ref()?.cache_miss_reason.0.as_ref()?;
        match &*reason.kind {
            "tools_changed" => Some(Verdict::Tools),
            "system_changed" => Some(Verdict::System),
            "messages_changed" => Some(Verdict::Messages),
            "previous_message_not_found" => Some(Verdict::Gone),
            "model_changed" => Some(Verdict::Model),
            _ => None,
        }
    }
}

/// One line of a reply, wherever it stood.
struct ReplyLine<'l, 'a> {
    line: u32,
    chain: Name,
    at_ms: i64,
    request: &'l str,
    version: Name,
    effort: Name,
    message: &'l Message<'a>,
}

/// Reads a session, or a sub-agent's part of one.
pub(crate) struct Reader {
    builder: Builder,
    /// Calls by the hash of their message id.
    seen: HashMap<u64, u32>,
    tree: Tree,
}

impl RecordReader for Reader {
    type Record<'a> = Record<'a>;

    fn new(log: FileLog) -> Self {
        Self { builder: Builder::new(log), seen: HashMap::new(), tree: Tree::default() }
    }

    /// Copies of files and the state of hooks are long, many, and say nothing about calls.
    fn is_skipped(line: &[u8]) -> bool {
        line.starts_with(br#"{"type":"file-history-"#)
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
        if self.builder.log.project.is_empty() && !record.cwd.is_empty() {
            self.builder.log.project = record.cwd.to_string();
        }
        // An older layout keeps sub-agents in a file beside the session: the record says whose part it is.
        if self.builder.log.part && self.builder.log.session.is_empty() && !record.session_id.is_empty() {
            self.builder.log.session = record.session_id.to_string();
        }
        let sidechain = record.is_sidechain.0 || self.builder.log.part;
        let agent = match (&*record.agent_id, sidechain) {
            ("", true) => "sub-agent",
            (agent, _) => agent,
        };
        let chain = self.builder.chain(agent);
        let at_ms = time_ms(&record.timestamp).unwrap_or_default();
        let before = self.call_before(record);
        let version = self.builder.log.intern(&record.version);
        let mut place = before;
        match &*record.kind {
            "assistant" => {
                if let Some(message) = &record.message.0
                    && !record.is_api_error_message.0
                {
                    let effort = self.builder.log.intern(&record.effort);
                    let last = self.builder.last(chain);
                    let said = ReplyLine { line, chain, at_ms, request: &record.request_id, version, effort, message };
                    if let Some((call, fresh)) = self.said(&said) {
                        if fresh {
                            self.builder.mark_rewind(call, before, last);
                        }
                        place = Some(call);
                    }
                }
            }
            "user" => self.user(line, chain, at_ms, record),
            "system" => match &*record.subtype {
                "compact_boundary" | "microcompact_boundary" => self.builder.sign(chain, line, Signs::COMPACTED),
                "bridge_status" => self.builder.sign(chain, line, Signs::RESUMED),
                "local_command" => self.command(chain, line, &record.content),
                _ => {}
            },
            "attachment" => {
                if let Some(attachment) = &record.attachment.0 {
                    self.hook(chain, line, &attachment.hook_name);
                    if &*attachment.kind == "plan_mode_exit" {
                        self.builder.sign(chain, line, Signs::PLAN);
                    }
                }
            }
            "progress" => {
                if let Some(progress) = &record.data.0 {
                    self.progress(line, chain, version, progress);
                }
            }
            _ => {}
        }
        self.tree.add(&record.uuid, place);
    }

    /// The last call on the way to a record.
    fn call_before(&self, record: &Record) -> Option<u32> {
        [&record.parent_uuid, &record.logical_parent_uuid].into_iter().find_map(|parent| self.tree.call_before(parent))
    }

    /// Takes a line of a reply: its call, and whether that is new.
    fn said(&mut self, said: &ReplyLine) -> Option<(u32, bool)> {
        let found = self.usage(said);
        for block in said.message.content.list.iter().filter(|block| block.kind.ends_with("tool_use")) {
            self.builder.calls_tool(hash(&block.id), &block.name);
            let sign = match &*block.name {
                "ToolSearch" => Signs::TOOLS,
                "Skill" => Signs::SKILL,
                "ExitPlanMode" | "EnterPlanMode" => Signs::PLAN,
                _ => continue,
            };
            // The call exists by now: this holds for the one after it.
            self.builder.sign(said.chain, said.line, sign);
        }
        found
    }

    fn usage(&mut self, said: &ReplyLine) -> Option<(u32, bool)> {
        let message = said.message;
        let usage = message.usage.0.as_ref()?;
        if &*message.model == "<synthetic>" {
            return None;
        }
        let tokens = usage.tokens();
        let id = match (&*message.id, said.request) {
            ("", "") => 0,
            ("", request) => hash(request),
            (id, _) => hash(id),
        };
        if let Some(place) = self.seen.get(&id).copied().filter(|_| id != 0) {
            let done = !message.stop_reason.is_empty();
            if let Some(call) = self.builder.at(place) {
                call.end_ms = call.end_ms.max(said.at_ms);
                // Each line has the count so far; the one with the reason to stop has the last word.
                if done || call.output_partial {
                    call.tokens.output = if done { tokens.output } else { call.tokens.output.max(tokens.output) };
                    call.output_partial &= !done;
                }
            }
            return Some((place, false));
        }
        if tokens.is_zero() {
            return None;
        }
        let model = self.builder.log.intern(&message.model);
        let place = self.builder.call(Call {
            id,
            line: said.line,
            chain: said.chain,
            model,
            version: said.version,
            effort: said.effort,
            end_ms: said.at_ms,
            tokens,
            verdict: message.verdict(),
            percent: usage.percent(),
            output_partial: message.stop_reason.is_empty(),
            ..Call::default()
        })?;
        self.seen.insert(id, place);
        Some((place, true))
    }

    fn user(&mut self, line: u32, chain: Name, at_ms: i64, record: &Record) {
        let Some(message) = &record.message.0 else { return };
        if record.is_compact_summary.0 {
            self.builder.sign(chain, line, Signs::COMPACTED);
        }
        self.content(line, chain, at_ms, message);
    }

    fn content(&mut self, line: u32, chain: Name, at_ms: i64, message: &Message) {
        let content = &message.content;
        if content.list.is_empty() {
            self.words(line, chain, at_ms, &content.text);
        }
        for block in &content.list {
            match &*block.kind {
                "tool_result" => {
                    let tool = self.builder.tool(hash(&block.tool_use_id));
                    self.builder.result(chain, at_ms, tool, block.content);
                    if block.content.images > 0 {
                        self.builder.sign(chain, line, Signs::IMAGE);
                    }
                }
                "image" => {
                    self.builder.heard(chain, at_ms, 0);
                    self.builder.sign(chain, line, Signs::IMAGE);
                }
                _ => self.words(line, chain, at_ms, &block.text),
            }
        }
    }

    fn words(&mut self, line: u32, chain: Name, at_ms: i64, text: &str) {
        self.builder.heard(chain, at_ms, text.len() as u64);
        if text.starts_with("[Request interrupted") {
            self.builder.sign(chain, line, Signs::INTERRUPTED);
        }
        self.command(chain, line, text);
    }

    /// Commands that the user gave to the program.
    fn command(&mut self, chain: Name, line: u32, text: &str) {
        if text.starts_with("<local-command-stdout>Reloaded") {
            self.builder.sign(chain, line, Signs::TOOLS);
        }
        let Some((_, rest)) = text.split_once("<command-name>") else { return };
        let name = rest.trim_start_matches('/').split('<').next().unwrap_or_default();
        let sign = match name {
            "exit" | "quit" | "resume" | "continue" => Signs::RESUMED,
            "reload-plugins" => Signs::TOOLS,
            "compact" => Signs::COMPACTED,
            "rewind" => Signs::REWOUND,
            "output-style" | "memory" | "add-dir" | "init" | "permissions" => Signs::SYSTEM,
            _ => return,
        };
        // A fresh session begins with such a command as well; it says nothing before the first call.
        if self.builder.last(chain).is_some() {
            self.builder.sign(chain, line, sign);
        }
    }

    fn hook(&mut self, chain: Name, line: u32, name: &str) {
        let resumed = matches!(name, "SessionStart:resume" | "SessionStart:startup");
        if resumed && self.builder.last(chain).is_some() {
            self.builder.sign(chain, line, Signs::RESUMED);
        }
    }

    fn progress(&mut self, line: u32, chain: Name, version: Name, progress: &Progress) {
        self.hook(chain, line, &progress.hook_name);
        let Some(inner) = progress.message.0.as_ref().filter(|_| &*progress.kind == "agent_progress") else { return };
        let Some(message) = &inner.message.0 else { return };
        let chain = self.builder.chain(&progress.agent_id);
        let at_ms = time_ms(&inner.timestamp).unwrap_or_default();
        match &*inner.kind {
            "assistant" => {
                let said = ReplyLine { line, chain, at_ms, request: &inner.request_id, version, effort: 0, message };
                self.said(&said);
            }
            "user" => self.content(line, chain, at_ms, message),
            _ => {}
        }
    }
}
