//! `OpenCode`: an assistant message is one call. It stands in a database, in a file a message, or in an export.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::builder::{Builder, MAIN};
use crate::lenient::{Flag, Num, Obj, Parts, Size, Text};
use crate::lines::JsonLines;
use crate::log::{Agent, Call, FileLog, Signs, Tokens, hash};

/// A message, without its parts.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Message<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow, rename = "sessionID")]
    session_id: Text<'a>,
    #[serde(borrow)]
    role: Text<'a>,
    #[serde(borrow, rename = "modelID")]
    model_id: Text<'a>,
    #[serde(borrow, rename = "providerID")]
    provider_id: Text<'a>,
    time: Obj<Time>,
    tokens: Obj<Usage>,
    summary: Flag,
    #[serde(borrow)]
    path: Obj<Folders<'a>>,
    #[serde(borrow)]
    system: Parts<'a, AnyObject>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AnyObject {}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Folders<'a> {
    #[serde(borrow)]
    cwd: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Time {
    created: Num,
    completed: Num,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Usage {
    input: Num,
    output: Num,
    reasoning: Num,
    cache: Obj<Cache>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cache {
    read: Num,
    write: Num,
}

/// A part of a message.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Part<'a> {
    #[serde(borrow, rename = "messageID")]
    pub(crate) message_id: Text<'a>,
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    tool: Text<'a>,
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    mime: Text<'a>,
    #[serde(borrow)]
    state: Obj<State<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct State<'a> {
    #[serde(borrow)]
    output: Text<'a>,
    time: Obj<End>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct End {
    end: Num,
}

/// An export: one object with everything.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Export<'a> {
    #[serde(borrow)]
    info: Obj<Info<'a>>,
    #[serde(borrow)]
    messages: Parts<'a, Whole<'a>>,
}

/// A session.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Info<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    version: Text<'a>,
    #[serde(borrow)]
    directory: Text<'a>,
    #[serde(borrow, rename = "parentID")]
    pub(crate) parent_id: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Whole<'a> {
    #[serde(borrow)]
    info: Obj<Message<'a>>,
    #[serde(borrow)]
    parts: Parts<'a, Part<'a>>,
}

/// What is kept of a message until all of its session are there.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools)] // what a message is, as the log says it
struct StoredMessage {
    id: u64,
    line: u32,
    assistant: bool,
    created_ms: i64,
    completed_ms: i64,
    model: String,
    tokens: Tokens,
    reasoning: u64,
    summary: bool,
    user_chars: u64,
    image: bool,
    compaction: bool,
    tools: Vec<(String, i64, u64)>,
}

/// A session that is being gathered.
#[derive(Default)]
pub(crate) struct Session {
    project: String,
    version: String,
    messages: BTreeMap<String, StoredMessage>,
    line: u32,
}

impl Session {
    /// What the session itself says.
    pub(crate) fn info(&mut self, info: &Info) {
        if !info.directory.is_empty() {
            self.project = info.directory.to_string();
        }
        self.version = info.version.to_string();
    }

    /// One message. Its id is given where the text does not have it.
    pub(crate) fn message(&mut self, id: &str, message: &Message) {
        self.line = self.line.saturating_add(1);
        let id = if message.id.is_empty() { id } else { &message.id };
        if let Some(place) = message.path.0.as_ref().filter(|_| self.project.is_empty()) {
            self.project = place.cwd.to_string();
        }
        let time = message.time.0.as_ref();
        let ms = |number: Option<u64>| number.and_then(|number| i64::try_from(number).ok()).unwrap_or_default();
        let kept = self.messages.entry(id.to_owned()).or_default();
        kept.id = if id.is_empty() { 0 } else { hash(id) };
        kept.line = self.line;
        kept.assistant = &*message.role == "assistant";
        kept.created_ms = ms(time.map(|time| time.created.0));
        kept.completed_ms = ms(time.map(|time| time.completed.0));
        kept.model = if message.provider_id.is_empty() || message.model_id.is_empty() {
            message.model_id.to_string()
        } else {
            format!("{}/{}", &*message.provider_id, &*message.model_id)
        };
        kept.summary = kept.assistant && message.summary.0;
        if let Some(usage) = &message.tokens.0 {
            let (read, write) = usage.cache.0.as_ref().map_or((0, 0), |cache| (cache.read.0, cache.write.0));
            kept.reasoning = usage.reasoning.0;
            kept.tokens = Tokens {
                input: usage.input.0,
                cache_read: read,
                cache_write_5m: write,
                cache_write_1h: 0,
                output: usage.output.0 + usage.reasoning.0,
            };
        }
    }

    /// One part of a message.
    pub(crate) fn part(&mut self, message: &str, part: &Part) {
        let Some(kept) = self.messages.get_mut(message) else { return };
        match &*part.kind {
            "tool" => {
                if let Some(state) = &part.state.0 {
                    let end = state.time.0.as_ref().and_then(|time| i64::try_from(time.end.0).ok()).unwrap_or_default();
                    kept.tools.push((part.tool.to_string(), end, state.output.len() as u64));
                }
            }
            "text" if !kept.assistant => kept.user_chars += part.text.len() as u64,
            "file" => kept.image |= part.mime.starts_with("image/"),
            "compaction" => kept.compaction = true,
            _ => {}
        }
    }

    /// The calls, in the order of their times.
    pub(crate) fn finish(self, mut log: FileLog) -> FileLog {
        let main = log.intern(MAIN);
        let version = log.intern(&self.version);
        log.project = self.project;
        log.lines.read += u64::from(self.line);
        let mut builder = Builder::new(log);
        let mut kept: Vec<StoredMessage> = self.messages.into_values().collect();
        kept.sort_by_key(|kept| kept.created_ms);
        for kept in kept {
            if !kept.assistant {
                builder.heard(main, kept.created_ms, kept.user_chars);
                if kept.image {
                    builder.sign(main, kept.line, Signs::IMAGE);
                }
                if kept.compaction {
                    builder.sign(main, kept.line, Signs::COMPACTED);
                }
                continue;
            }
            if !kept.tokens.is_zero() {
                let model = builder.log.intern(&kept.model);
                builder.call(Call {
                    id: kept.id,
                    line: kept.line,
                    chain: main,
                    model,
                    version,
                    start_ms: kept.created_ms,
                    end_ms: kept.completed_ms,
                    tokens: kept.tokens,
                    reasoning: kept.reasoning,
                    ..Call::default()
                });
            }
            if kept.summary {
                builder.sign(main, kept.line, Signs::COMPACTED);
            }
            for (name, at_ms, chars) in kept.tools {
                let tool = builder.log.intern(&name);
                builder.result(main, at_ms, tool, Size { chars, images: 0 });
            }
        }
        builder.log
    }
}

/// Reads what `opencode export` wrote.
pub(crate) fn read_export(text: &[u8], mut log: FileLog) -> FileLog {
    let mut lines = JsonLines::new(text);
    lines.take_all(text);
    let mut session = Session::default();
    if let Some(export) = lines.parse::<Export>() {
        if let Some(info) = &export.info.0 {
            session.info(info);
            log.session = info.id.to_string();
            if !info.parent_id.is_empty() {
                log.part = true;
                log.session = info.parent_id.to_string();
            }
        }
        for whole in &export.messages.list {
            if let Some(message) = &whole.info.0 {
                session.message("", message);
                for part in &whole.parts.list {
                    session.part(&message.id, part);
                }
            }
        }
    }
    log.lines = lines.lines;
    let part = log.part;
    let mut log = session.finish(log);
    if part {
        super::rename_main(&mut log);
    }
    log
}

/// Reads a message that has a file of its own; the session it belongs to.
pub(crate) fn read_message(session: &mut Session, id: &str, text: &[u8]) -> bool {
    let mut lines = JsonLines::new(text);
    lines.take_all(text);
    match lines.parse::<Message>() {
        Some(message) => {
            session.message(id, &message);
            true
        }
        None => false,
    }
}

/// Reads a part that has a file of its own.
pub(crate) fn read_part(session: &mut Session, message: &str, text: &[u8]) -> bool {
    let mut lines = JsonLines::new(text);
    lines.take_all(text);
    match lines.parse::<Part>() {
        Some(part) => {
            session.part(message, &part);
            true
        }
        None => false,
    }
}

/// Reads a session that has a file of its own; the session it is a sub-agent's part of.
pub(crate) fn read_info(session: &mut Session, text: &[u8]) -> Option<String> {
    let mut lines = JsonLines::new(text);
    lines.take_all(text);
    let info = lines.parse::<Info>()?;
    session.info(&info);
    Some(info.parent_id.to_string()).filter(|parent| !parent.is_empty())
}

/// An empty log of a session.
pub(crate) fn empty(session: &str, file: &str) -> FileLog {
    FileLog::new(Agent::OpenCode, session, file)
}
