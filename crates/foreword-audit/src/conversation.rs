//! What was said in a session of another program: words, tool calls and their results, so that it can be taken in and gone on with.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::agents::Form;
pub use crate::agents::Unread;
use crate::find::logs;
use crate::lines::JsonLines;
use crate::log::{Agent, time_ms};

/// A session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// Its name in the program that had it.
    pub id: String,
    /// The folder it worked in.
    pub project: String,
    /// The model that answered last.
    pub model: String,
    /// What was said, in order; of a tree, what leads to the last word.
    pub messages: Vec<Message>,
}

/// A message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// Whether the user says it; else the model.
    pub user: bool,
    /// The words.
    pub text: String,
    /// When, in milliseconds since 1970.
    pub time_ms: Option<i64>,
    /// Tools that the model called.
    pub calls: Vec<ToolCall>,
}

/// A call of a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolCall {
    /// Unique in the session.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What the model passed.
    pub arguments: Value,
    /// What came back.
    pub result: Option<Value>,
}

/// A larger file is no session.
const MOST_BYTES: u64 = 512 << 20;

/// Messages beyond so many are left out.
const MOST_MESSAGES: usize = 200_000;

/// Whether this is a session of a program whose conversations can be read.
pub fn is_session(path: &Path) -> bool {
    form(path).is_some()
}

fn form(path: &Path) -> Option<Form> {
    let found = logs(&[PathBuf::from(path)]);
    let [one] = &found[..] else { return None };
    let known = [Agent::ClaudeCode, Agent::Codex, Agent::Pi, Agent::GeminiCli, Agent::QwenCode, Agent::OpenCode];
    match one.form {
        Form::Lines(agent) | Form::Whole(agent) if known.contains(&agent) => Some(one.form),
        _ => None,
    }
}

/// Reads one session.
pub fn read(path: &Path) -> Result<Conversation, Unread> {
    let failed = |why: &str| Unread { file: path.display().to_string(), why: why.to_owned() };
    let form = form(path).ok_or_else(|| failed("it is no session of a program that is known"))?;
    let file = File::open(path).map_err(|error| failed(&error.to_string()))?;
    if file.metadata().is_ok_and(|facts| facts.len() > MOST_BYTES) {
        return Err(failed("it is too large"));
    }
    let (agent, records) = match form {
        Form::Whole(agent) => {
            let mut text = Vec::new();
            file.take(MOST_BYTES).read_to_end(&mut text).map_err(|error| failed(&error.to_string()))?;
            let mut lines = JsonLines::new(&text[..]);
            lines.take_all(&text);
            (agent, lines.parse::<Value>().into_iter().collect())
        }
        Form::Lines(agent) => {
            let mut lines = JsonLines::new(BufReader::new(file));
            let mut records: Vec<Value> = Vec::new();
            while lines.advance().is_some() {
                records.extend(lines.parse::<Value>());
            }
            (agent, records)
        }
        Form::Database | Form::Folder => return Err(failed("name a single session")),
    };
    let found = of_records(agent, &records);
    if found.messages.is_empty() { Err(failed("nothing was said in it")) } else { Ok(found) }
}

/// The conversation in the records of a log.
pub fn of_records(agent: Agent, records: &[Value]) -> Conversation {
    let mut talk = Talk::default();
    match agent {
        Agent::Codex => codex(records, &mut talk),
        Agent::Pi => tree(records, "id", "parentId", pi, &mut talk),
        Agent::QwenCode => tree(records, "uuid", "parentUuid", qwen, &mut talk),
        Agent::GeminiCli => gemini(records, &mut talk),
        Agent::OpenCode => opencode(records, &mut talk),
        _ => tree(records, "uuid", "parentUuid", claude, &mut talk),
    }
    talk.found.messages.retain(|message| !message.text.trim().is_empty() || !message.calls.is_empty());
    talk.found
}

/// A conversation that is being read.
#[derive(Default)]
struct Talk {
    found: Conversation,
    /// Where calls stand: the message and the place in it.
    calls: HashMap<String, (usize, usize)>,
    /// What the last message of the model is called, where a log writes it in several lines.
    last: String,
}

impl Talk {
    fn user(&mut self, text: &str, time_ms: Option<i64>) {
        if text.trim().is_empty() || self.found.messages.len() >= MOST_MESSAGES {
            return;
        }
        self.last.clear();
        self.found.messages.push(Message { user: true, text: text.to_owned(), time_ms, calls: Vec::new() });
    }

    /// The message of the model that goes on: the last one, if it has that name and nothing else was said since.
    fn reply(&mut self, id: &str, time_ms: Option<i64>) -> Option<&mut Message> {
        let goes_on = !id.is_empty() && id == self.last && self.found.messages.last().is_some_and(|message| !message.user);
        if !goes_on {
            if self.found.messages.len() >= MOST_MESSAGES {
                return None;
            }
            id.clone_into(&mut self.last);
            self.found.messages.push(Message { time_ms, ..Message::default() });
        }
        self.found.messages.last_mut()
    }

    fn says(&mut self, id: &str, time_ms: Option<i64>, text: &str) {
        if let Some(message) = self.reply(id, time_ms).filter(|_| !text.is_empty()) {
            if !message.text.is_empty() {
                message.text.push_str("\n\n");
            }
            message.text.push_str(text);
        }
    }

    fn calls(&mut self, id: &str, time_ms: Option<i64>, call: ToolCall) {
        let place = call.id.clone();
        if let Some(message) = self.reply(id, time_ms) {
            message.calls.push(call);
            let at = message.calls.len() - 1;
            self.calls.insert(place, (self.found.messages.len() - 1, at));
        }
    }

    fn result(&mut self, id: &str, result: Value) {
        let Some((message, call)) = self.calls.get(id).copied() else { return };
        if let Some(call) = self.found.messages.get_mut(message).and_then(|message| message.calls.get_mut(call)) {
            call.result = Some(result);
        }
    }

    fn about(&mut self, project: &str, id: &str, model: &str) {
        if self.found.project.is_empty() {
            project.clone_into(&mut self.found.project);
        }
        if self.found.id.is_empty() {
            id.clone_into(&mut self.found.id);
        }
        if !model.is_empty() && model != "<synthetic>" {
            model.clone_into(&mut self.found.model);
        }
    }
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn when(value: &Value) -> Option<i64> {
    time_ms(text(value, "timestamp"))
}

/// The words in a text, or in the parts of a list.
fn words(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().map(|part| part.as_str().unwrap_or_else(|| text(part, "text")));
            texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
        }
        _ => String::new(),
    }
}

/// A tool's result without the bytes of images.
fn outcome(value: Option<&Value>) -> Value {
    match value {
        Some(Value::Array(_)) => Value::String(words(value)),
        Some(value) => value.clone(),
        None => Value::Null,
    }
}

/// Of records that form a tree, those that lead to the last one, in the order of the log.
fn tree(records: &[Value], id: &str, parent: &str, take: fn(&Value, &mut Talk), talk: &mut Talk) {
    let main = |record: &Value| record.get("isSidechain") != Some(&Value::Bool(true));
    let places: HashMap<&str, usize> = records
        .iter()
        .enumerate()
        .filter(|(_, record)| main(record) && !text(record, id).is_empty())
        .map(|(at, record)| (text(record, id), at))
        .collect();
    let said = |record: &&Value| matches!(text(record, "type"), "user" | "assistant" | "message" | "tool_result");
    let mut on_way: HashSet<usize> = HashSet::new();
    let mut next =
        records.iter().rfind(|record| main(record) && said(record)).and_then(|record| places.get(text(record, id)).copied());
    let rooted = next.is_some();
    while let Some(at) = next {
        if !on_way.insert(at) {
            break;
        }
        let record = &records[at];
        next = [parent, "logicalParentUuid"].into_iter().find_map(|name| places.get(text(record, name)).copied());
    }
    for (at, record) in records.iter().enumerate() {
        // Where nothing leads anywhere, all of it is the conversation.
        if main(record) && (!rooted || on_way.contains(&at) || text(record, id).is_empty()) {
            take(record, talk);
        }
    }
}

fn claude(record: &Value, talk: &mut Talk) {
    let Some(message) = record.get("message") else { return };
    talk.about(text(record, "cwd"), text(record, "sessionId"), text(message, "model"));
    let content = message.get("content");
    if record.get("isMeta") == Some(&Value::Bool(true)) {
        return;
    }
    match text(record, "type") {
        "user" => {
            for block in list(message, "content").iter().filter(|block| text(block, "type") == "tool_result") {
                talk.result(text(block, "tool_use_id"), outcome(block.get("content")));
            }
            talk.user(&words(content), when(record));
        }
        "assistant" => {
            let id = text(message, "id");
            for block in list(message, "content") {
                match text(block, "type") {
                    "text" => talk.says(id, when(record), text(block, "text")),
                    "tool_use" => talk.calls(id, when(record), tool_call(block, "id", "input")),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

fn tool_call(block: &Value, id: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: text(block, id).to_owned(),
        name: text(block, "name").to_owned(),
        arguments: match block.get(arguments) {
            // Codex writes them as a text.
            Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone())),
            Some(value) => value.clone(),
            None => Value::Null,
        },
        result: None,
    }
}

fn codex(records: &[Value], talk: &mut Talk) {
    let mut turn = String::new();
    for (at, record) in records.iter().enumerate() {
        let Some(payload) = record.get("payload") else { continue };
        let time = when(record);
        match (text(record, "type"), text(payload, "type")) {
            ("session_meta", _) => talk.about(text(payload, "cwd"), text(payload, "id"), ""),
            ("turn_context", _) => talk.about("", "", text(payload, "model")),
            ("response_item", "message") => {
                let said = words(payload.get("content"));
                match text(payload, "role") {
                    "assistant" => talk.says(&turn, time, &said),
                    // What the program itself puts in front.
                    "user" if !said.trim_start().starts_with('<') => {
                        turn = format!("turn {at}");
                        talk.user(&said, time);
                    }
                    _ => {}
                }
            }
            ("response_item", "function_call") => talk.calls(&turn, time, tool_call(payload, "call_id", "arguments")),
            ("response_item", "custom_tool_call") => talk.calls(&turn, time, tool_call(payload, "call_id", "input")),
            ("response_item", "function_call_output" | "custom_tool_call_output") => {
                talk.result(text(payload, "call_id"), outcome(payload.get("output")));
                // What follows a result is another message.
                turn = format!("turn {at}");
            }
            _ => {}
        }
    }
}

fn pi(record: &Value, talk: &mut Talk) {
    if text(record, "type") == "session" {
        talk.about(text(record, "cwd"), text(record, "id"), "");
    }
    let Some(message) = record.get("message") else { return };
    match text(message, "role") {
        "user" => talk.user(&words(message.get("content")), when(record)),
        "toolResult" => talk.result(text(message, "toolCallId"), outcome(message.get("content"))),
        "assistant" => {
            talk.about("", "", text(message, "model"));
            let id = format!("{} {}", text(record, "id"), text(record, "timestamp"));
            for block in list(message, "content") {
                match text(block, "type") {
                    "text" => talk.says(&id, when(record), text(block, "text")),
                    "toolCall" => talk.calls(&id, when(record), tool_call(block, "id", "arguments")),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

fn qwen(record: &Value, talk: &mut Talk) {
    talk.about(text(record, "cwd"), text(record, "sessionId"), text(record, "model"));
    let Some(message) = record.get("message") else { return };
    let id = text(record, "uuid");
    for part in list(message, "parts").iter().filter(|part| part.get("thought") != Some(&Value::Bool(true))) {
        if let Some(call) = part.get("functionCall") {
            talk.calls(id, when(record), tool_call(call, "id", "args"));
        } else if let Some(response) = part.get("functionResponse") {
            talk.result(text(response, "id"), outcome(response.get("response")));
        } else if text(record, "type") == "assistant" {
            talk.says(id, when(record), text(part, "text"));
        } else {
            talk.user(text(part, "text"), when(record));
        }
    }
}

fn gemini(records: &[Value], talk: &mut Talk) {
    // The last copy of a message wins, in the place of the first.
    let mut messages: Vec<&Value> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for record in records {
        talk.about(text(record, "projectHash"), text(record, "sessionId"), "");
        if let Some(place) = record.get("$rewindTo").and_then(Value::as_str).and_then(|id| places.get(id).copied()) {
            messages.truncate(place);
            places.retain(|_, at| *at < place);
        }
        let set = record.get("$set").unwrap_or(record);
        let single = std::iter::once(record).filter(|record| record.get("type").is_some());
        for message in list(set, "messages").iter().chain(single) {
            if let Some(at) = places.get(text(message, "id")).copied().filter(|at| *at < messages.len()) {
                messages[at] = message;
            } else {
                places.insert(text(message, "id"), messages.len());
                messages.push(message);
            }
        }
    }
    for message in messages {
        let said = words(message.get("content"));
        match text(message, "type") {
            "user" => talk.user(&said, when(message)),
            "gemini" => {
                let id = text(message, "id");
                talk.about("", "", text(message, "model"));
                talk.says(id, when(message), &said);
                for call in list(message, "toolCalls") {
                    let name = text(call, "id").to_owned();
                    talk.calls(id, when(message), tool_call(call, "id", "args"));
                    if let Some(result) = call.get("result") {
                        talk.result(&name, result.clone());
                    }
                }
            }
            _ => {}
        }
    }
}

fn opencode(records: &[Value], talk: &mut Talk) {
    for export in records {
        let info = export.get("info").unwrap_or(&Value::Null);
        talk.about(text(info, "directory"), text(info, "id"), "");
        for message in list(export, "messages") {
            let info = message.get("info").unwrap_or(&Value::Null);
            let time = info.pointer("/time/created").and_then(Value::as_i64);
            let (id, user) = (text(info, "id"), text(info, "role") == "user");
            talk.about("", "", text(info, "modelID"));
            for part in list(message, "parts") {
                match text(part, "type") {
                    "text" if user => talk.user(text(part, "text"), time),
                    "text" => talk.says(id, time, text(part, "text")),
                    "tool" => {
                        let call = text(part, "callID").to_owned();
                        let state = part.get("state").unwrap_or(&Value::Null);
                        let arguments = state.get("input").cloned().unwrap_or_default();
                        let name = text(part, "tool").to_owned();
                        talk.calls(id, time, ToolCall { id: call.clone(), name, arguments, result: None });
                        if let Some(output) = state.get("output") {
                            talk.result(&call, output.clone());
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}
