//! Converts the log to a readable transcript.

use std::collections::BTreeMap;

use foreword_core::history::MessageId;
use foreword_core::item::{ItemId, Kind};
use foreword_core::session::Input;
use foreword_store::{Dump, Logged, SessionRow, Store, StoreError};
use foreword_vault::transcript::{Call, Context, Entry, Role, Transcript};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ending::Ending;
use super::log_entry::{ASKED, ENDING, LogEntry, MANAGED, MODEL, SETTINGS, is_input};
use foreword_vault_tools::chats::Saved;

/// A transcript message that is stored directly, because no input contains it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The author.
    pub role: Role,
    /// The text.
    pub text: String,
    /// Its time in milliseconds since 1970.
    #[serde(default)]
    pub at_ms: Option<i64>,
    /// References to its attachments.
    #[serde(default)]
    pub context: Context,
    /// The model's tool calls.
    #[serde(default)]
    pub calls: Vec<(String, String, Value, Option<Value>)>,
    /// Whether it is incomplete.
    #[serde(default)]
    pub cut_off: bool,
    /// Whether its calls are part of the prompt; otherwise only its text is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
    /// The IDs of failed calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}

impl From<Entry> for Line {
    fn from(entry: Entry) -> Self {
        let calls = entry.calls.into_iter().map(|call| (call.id, call.name, call.arguments, call.result));
        Self {
            role: entry.role,
            text: entry.text,
            at_ms: entry.time.map(Timestamp::as_millisecond),
            context: entry.context,
            calls: calls.collect(),
            cut_off: entry.cut_off,
            goes_on: false,
            failed: Vec::new(),
        }
    }
}

/// The kind of a model's reply.
const ASSISTANT: &str = "assistant";

impl From<Line> for Entry {
    fn from(line: Line) -> Self {
        let calls = line.calls.into_iter().map(|(id, name, arguments, result)| Call { id, name, arguments, result });
        Self {
            role: line.role,
            text: line.text,
            time: line.at_ms.and_then(time),
            context: line.context,
            calls: calls.collect(),
            cut_off: line.cut_off,
        }
    }
}

fn time(at_ms: i64) -> Option<Timestamp> {
    Timestamp::from_millisecond(at_ms).ok()
}

/// Adds a log entry's messages.
pub(super) fn add(entries: &mut Vec<Entry>, told: &LogEntry, at_ms: i64, cut_off: bool) {
    match told {
        LogEntry::Imported(lines) => entries.extend(lines.iter().cloned().map(Entry::from)),
        LogEntry::Edited(lines) => *entries = lines.iter().cloned().map(Entry::from).collect(),
        LogEntry::Input(Input::Turn(turn)) => {
            let context = context(turn.attached.iter().map(|version| &version.id));
            entries.push(Entry { time: time(at_ms), context, ..Entry::new(Role::User, &turn.words) });
        }
        LogEntry::Input(Input::Assistant { text, calls, .. }) if !text.is_empty() || !calls.is_empty() => {
            let calls = calls.iter().map(|call| Call {
                id: call.id.clone(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
                result: None,
            });
            entries.push(Entry { time: time(at_ms), calls: calls.collect(), cut_off, ..Entry::new(Role::Assistant, text) });
        }
        LogEntry::Input(Input::ToolResult { id, output, .. }) => {
            let calls = entries.iter_mut().rev().take(1).flat_map(|entry| &mut entry.calls);
            let mut open = calls.filter(|call| call.id == *id && call.result.is_none());
            if let Some(call) = open.next() {
                call.result = Some(Value::String(output.clone()));
            }
        }
        LogEntry::Cited(list) => {
            if let Some(answer) = entries.last_mut().filter(|entry| entry.role == Role::Assistant) {
                answer.text.push_str(list);
            }
        }
        LogEntry::Input(_)
        | LogEntry::Asked(_)
        | LogEntry::SideExchange(_)
        | LogEntry::Mode(_)
        | LogEntry::History(_)
        | LogEntry::Settings(_)
        | LogEntry::Model(_)
        | LogEntry::Ending(_)
        | LogEntry::Ended => {}
    }
}

/// The attachments for a transcript.
fn context<'a>(items: impl Iterator<Item = &'a ItemId>) -> Context {
    let mut context = Context::default();
    for item in items {
        let (list, name) = match item.kind() {
            Kind::Note => (&mut context.notes, item.name()),
            Kind::Selection | Kind::Query => {
                (&mut context.notes, item.name().rsplit_once('#').map_or(item.name(), |(path, _)| path))
            }
            Kind::Url => (&mut context.urls, item.name()),
            _ => continue,
        };
        if !list.iter().any(|known| known == name) {
            list.push(name.to_owned());
        }
    }
    context
}

/// The messages of a session, without the texts of attachments.
pub(super) fn entries(store: &dyn Store, session: &str) -> Result<Vec<Entry>, StoreError> {
    entries_until(store, session, u64::MAX)
}

/// The messages before an input.
pub(super) fn entries_until(store: &dyn Store, session: &str, end: u64) -> Result<Vec<Entry>, StoreError> {
    let mut entries = Vec::new();
    for logged in store.log_packed(session, 0)?.into_iter().take_while(|logged| logged.number < end) {
        read(&mut entries, store, session, logged)?;
    }
    Ok(entries)
}

/// A session's log with data that a crash left unfinished: a question without a turn, and a partial reply. Both become part of the
/// session when it is opened.
fn log_and_left_open(store: &dyn Store, session: &str) -> Result<(Vec<Logged>, Vec<Entry>), StoreError> {
    // It may be opened while it is read. What comes in is read first: where the log has grown since, it may be in there already.
    let before = store.session(session)?.counts.inputs;
    let cut_off = cut_off(store, session)?;
    let log = store.log_packed(session, 0)?;
    let grown = log.last().is_some_and(|last| last.number >= before);
    let mut asked = None;
    for logged in &log {
        if logged.kind == ASKED {
            asked = Some(logged.clone());
        } else if is_input(&logged.kind) && logged.kind != MANAGED {
            // A summary comes between the words and the turn.
            asked = None;
        }
    }
    let mut open = Vec::new();
    if let Some(logged) = asked {
        read(&mut open, store, session, Logged { kind: "turn".to_owned(), ..logged })?;
    }
    open.extend(cut_off.filter(|_| !grown));
    Ok((log, open))
}

/// The partial reply that a crash left.
fn cut_off(store: &dyn Store, session: &str) -> Result<Option<Entry>, StoreError> {
    let text = store.parts(session)?.concat();
    if text.is_empty() {
        return Ok(None);
    }
    let at_ms = store.session(session)?.touched_ms;
    Ok(Some(Entry { time: time(at_ms), cut_off: true, ..Entry::new(Role::Assistant, &text) }))
}

/// Exports a session, including a partial reply.
pub fn export(store: &dyn Store, session: &str) -> Result<Dump, StoreError> {
    let mut dump = store.dump(session)?;
    if let Some(answer) = cut_off(store, session)? {
        let told = LogEntry::Input(Input::Assistant { text: answer.text, calls: Vec::new(), opaque: Vec::new() });
        let damaged = |error: serde_json::Error| StoreError::Damaged(format!("the answer that came in last: {error}"));
        let (kind, body) = told.parts().map_err(damaged)?;
        let run = dump.log.last().map_or(0, |entry| entry.run);
        let body = body.value().map_err(damaged)?;
        dump.log.push(foreword_store::Entry { kind, run, at_ms: dump.touched_ms, cut_off: true, body });
    }
    Ok(dump)
}

/// The setup of a session as it is now. [`SessionRow::setup`] is the one that it began with.
pub fn current_setup(store: &dyn Store, row: &SessionRow) -> Result<Value, StoreError> {
    let changes = |logged: &Logged| [MODEL, SETTINGS].contains(&logged.kind.as_str());
    match store.log_packed(&row.id, 0)?.into_iter().rfind(changes) {
        Some(changed) => store.unpack(changed.body),
        None => Ok(row.setup.clone()),
    }
}

/// A message of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedMessage {
    /// Its content.
    pub entry: Entry,
    /// Its stable ID; `None` for messages that the user edited in the file, or that a crash left.
    pub id: Option<MessageId>,
    /// For an answer: why it ended early. For a question: why it has no answer.
    pub ending: Option<Ending>,
    /// The request that an answer is the reply to.
    pub request: Option<u64>,
}

/// The messages of a session.
pub fn named_messages(store: &dyn Store, session: &str) -> Result<Vec<NamedMessage>, StoreError> {
    let (mut entries, mut ids, mut inputs) = (Vec::new(), Vec::new(), 0);
    let mut endings = BTreeMap::new();
    // A turn may have requests without an answer: a provider failed, and the question was asked again.
    let requests = store.requests(session)?;
    let mut answered: BTreeMap<usize, u64> = BTreeMap::new();
    let (log, open) = log_and_left_open(store, session)?;
    for logged in log {
        let is_input = is_input(&logged.kind);
        if logged.kind == ENDING {
            // What is not understood here explains nothing, and hides nothing.
            let ending: Option<Ending> = serde_json::from_value(store.unpack(logged.body)?).ok();
            endings.extend(entries.len().checked_sub(1).zip(ending));
            continue;
        }
        let edited = (logged.kind == "edited").then(|| entries.clone());
        if logged.kind == ASSISTANT {
            let sent = requests.iter().rfind(|request| request.run == logged.run && request.input <= logged.number);
            answered.extend(sent.map(|request| (entries.len(), request.number)));
        }
        read(&mut entries, store, session, logged)?;
        if let Some(before) = edited {
            let same = before.iter().zip(&entries).take_while(|(before, now)| before.text == now.text).count();
            answered.retain(|at, _| *at < same);
            ids.truncate(same);
            ids.resize(entries.len(), None);
        }
        let new = entries.len().saturating_sub(ids.len());
        ids.extend((0..).take(new).map(|line| Some(MessageId { input: inputs, line })));
        inputs += u64::from(is_input);
    }
    // A question that was answered later needs no explanation any more.
    let is_answered = |at: usize| entries.get(at + 1).is_some_and(|next| next.role == Role::Assistant);
    endings.retain(|at, _| entries[*at].role == Role::Assistant || !is_answered(*at));
    let told = entries.into_iter().zip(ids).enumerate();
    let told = told.map(|(at, (entry, id))| {
        let request = answered.get(&at).copied().filter(|_| entry.role == Role::Assistant);
        NamedMessage { entry, id, ending: endings.remove(&at), request }
    });
    let open = open.into_iter().map(|entry| {
        let ending = entry.cut_off.then_some(Ending::Interrupted);
        let request = requests.last().filter(|_| entry.cut_off).map(|request| request.number);
        NamedMessage { entry, id: None, ending, request }
    });
    Ok(told.chain(open).collect())
}

/// Adds a log entry's messages.
fn read(entries: &mut Vec<Entry>, store: &dyn Store, session: &str, logged: Logged) -> Result<(), StoreError> {
    let Logged { kind, body, at_ms, cut_off, .. } = logged;
    let told = match kind.as_str() {
        "turn" => {
            let words = store.unpack(body.get("words").cloned().unwrap_or_default())?;
            let attached = body.get("attached").and_then(Value::as_array).into_iter().flatten();
            let items: Vec<ItemId> = attached.filter_map(|version| version.get("id")?.as_str()?.parse().ok()).collect();
            let entry = Entry::new(Role::User, words.as_str().unwrap_or_default());
            entries.push(Entry { time: time(at_ms), context: context(items.iter()), ..entry });
            return Ok(());
        }
        ASSISTANT | "tool_result" | "imported" | "edited" | "cited" => LogEntry::read(&kind, store.unpack(body)?),
        _ => return Ok(()),
    };
    let told = told.map_err(|error| StoreError::Damaged(format!("an entry of session {session}: {error}")))?;
    add(entries, &told, at_ms, cut_off);
    Ok(())
}

/// The transcript of a session.
pub fn transcript(store: &dyn Store, row: &SessionRow) -> Result<Transcript, StoreError> {
    let (log, open) = log_and_left_open(store, &row.id)?;
    let mut messages = Vec::new();
    for logged in log {
        read(&mut messages, store, &row.id, logged)?;
    }
    messages.extend(open);
    Ok(head(row, saved(row).as_ref(), answered(store, &row.id)?, messages))
}

/// The model that answered last, as a file names it; none where nobody answered yet.
fn answered(store: &dyn Store, session: &str) -> Result<Option<String>, StoreError> {
    let Some((number, usage)) = store.ledger(session)?.pop() else { return Ok(None) };
    let record = store.request(session, number)?.record;
    Ok(record.get("dialect").and_then(Value::as_str).map(|dialect| model_key(&usage.model, dialect)))
}

/// A model in obsidian-copilot's form.
pub(super) fn model_key(name: &str, dialect: &str) -> String {
    format!("{name}|{dialect}")
}

/// The last state of a session's file.
pub(super) fn saved(row: &SessionRow) -> Option<Saved> {
    row.transcript.clone().and_then(|saved| serde_json::from_value(saved).ok())
}

/// `answered` is the model that answered last. Until one has, the file names the model that it did before.
pub(super) fn head(row: &SessionRow, known: Option<&Saved>, answered: Option<String>, messages: Vec<Entry>) -> Transcript {
    let model = row.setup.pointer("/model/name").and_then(Value::as_str);
    let dialect = row.setup.get("dialect").and_then(Value::as_str);
    Transcript {
        epoch_ms: row.created_ms,
        session: Some(row.id.clone()),
        model: answered.or_else(|| known?.model.clone()).or_else(|| Some(model_key(model?, dialect?))),
        topic: row.title.clone(),
        last_accessed: known.and_then(|saved| saved.last_accessed),
        extra: known.map(|saved| saved.extra.clone()).unwrap_or_default(),
        messages,
    }
}
