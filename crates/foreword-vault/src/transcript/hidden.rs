//! The comment with what the visible format cannot carry: one JSON object, one line a message.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use foreword_core::hash::Hash;

use super::align::Mark;
use super::format::{self, Below, UNKNOWN_TIME};
use super::{Call, Context, Entry, Role};

const OPEN: &str = "<!-- foreword: ";
const CLOSE: &str = "-->";
const VERSION: u32 = 1;

/// The comment's content.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hidden {
    version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<String>,
    #[serde(default)]
    pub(super) messages: Vec<Record>,
}

/// One message: how to recognise it, and what of it is not to be seen.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    role: Role,
    /// Of the words as they are read without this record.
    hash: String,
    /// Milliseconds since 1970, and the seconds from UTC to the time shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time: Option<(i64, i32)>,
    /// Blank space before the words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    before: String,
    /// Blank space after them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    after: String,
    /// All the words, where they had to be changed to be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// All of the context, where its line leaves out a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context: Option<Context>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<RawCall>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    cut_off: bool,
}

/// Raw values, so that what one tool returned cannot make the whole comment too deep to read.
#[derive(Debug, Serialize, Deserialize)]
struct RawCall {
    id: String,
    name: String,
    arguments: Box<RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "even_null")]
    result: Option<Box<RawValue>>,
}

/// A `null` that a tool returned is a result.
fn even_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::deserialize(deserializer).map(Some)
}

/// The hash by which a message's words are recognised.
pub(super) fn hash(words: &str) -> String {
    // Eight digits of it. A chat has thousands of these; making all 64 each time is what writing a long one would cost.
    let [a, b, c, d, ..] = *Hash::of(words).bytes();
    format!("{:08x}", u32::from_be_bytes([a, b, c, d]))
}

impl Record {
    /// What has to be remembered of `entry`, whose words are shown as `shown`.
    pub(super) fn of(entry: &Entry, shown: &str, tz: &TimeZone) -> Self {
        let visible = format::taken(entry.role, shown);
        let whole = visible == format::trim(&entry.text);
        let (before, after) = if whole { format::margins(&entry.text) } else { ("", "") };
        Self {
            role: entry.role,
            hash: hash(&visible),
            time: entry.time.map(|time| (time.as_millisecond(), tz.to_offset(time).seconds())),
            before: before.to_owned(),
            after: after.to_owned(),
            text: (!whole).then(|| entry.text.clone()),
            context: (!format::is_nameable(&entry.context)).then(|| entry.context.clone()),
            calls: entry.calls.iter().filter_map(RawCall::of).collect(),
            cut_off: entry.cut_off,
        }
    }

    /// Whether there is nothing in it that the visible text does not say.
    fn is_plain(&self) -> bool {
        let words = self.before.is_empty() && self.after.is_empty() && self.text.is_none();
        words && self.time.is_none() && self.context.is_none() && self.calls.is_empty() && !self.cut_off
    }

    /// How it is recognised.
    pub(super) fn mark(&self) -> Mark {
        let time = self.time().map_or_else(|| UNKNOWN_TIME.to_owned(), |(_, shown)| shown);
        Mark { role: self.role, words: self.hash.clone(), time }
    }

    /// The time, and as what it was shown.
    fn time(&self) -> Option<(Timestamp, String)> {
        let (time, offset) = self.time?;
        let time = Timestamp::from_millisecond(time).ok()?;
        Some((time, format::show_time(time, Offset::from_seconds(offset).ok()?)))
    }

    /// The whole words, if `visible` is what is shown of them.
    pub(super) fn text(&self, visible: &str) -> Option<String> {
        let Some(text) = &self.text else {
            let blank = format::all_blank(&self.before) && format::all_blank(&self.after);
            return (blank && self.hash == hash(visible)).then(|| [&self.before, visible, &self.after].concat());
        };
        let shows = |below| format::taken(self.role, &format::shown(text, below)) == visible;
        (shows(Below::Timestamp) || shows(Below::Context)).then(|| text.clone())
    }

    /// The exact time, if `shown` is how it is shown.
    pub(super) fn exact_time(&self, shown: &str) -> Option<Timestamp> {
        self.time().filter(|(_, was)| was == shown).map(|(time, _)| time)
    }

    /// The whole context, if `visible` is what is shown of it.
    pub(super) fn context(&self, visible: &Context) -> Option<Context> {
        self.context.clone().filter(|context| format::nameable(context) == *visible)
    }

    /// Whether a context was left out of sight.
    pub(super) fn has_context(&self) -> bool {
        self.context.is_some()
    }

    /// The tool calls.
    pub(super) fn calls(&self) -> Vec<Call> {
        self.calls.iter().map(RawCall::read).collect()
    }

    /// Whether the message was cut off.
    pub(super) fn cut_off(&self) -> bool {
        self.cut_off
    }
}

impl RawCall {
    fn of(call: &Call) -> Option<Self> {
        let raw = |value: &Value| serde_json::value::to_raw_value(value).ok();
        let result = match &call.result {
            Some(result) => Some(raw(result)?),
            None => None,
        };
        Some(Self { id: call.id.clone(), name: call.name.clone(), arguments: raw(&call.arguments)?, result })
    }

    /// What is nested too deep to be a value stays as its text.
    fn read(&self) -> Call {
        let value = |raw: &RawValue| serde_json::from_str(raw.get()).unwrap_or_else(|_| Value::String(raw.get().to_owned()));
        Call {
            id: self.id.clone(),
            name: self.name.clone(),
            arguments: value(&self.arguments),
            result: self.result.as_deref().map(value),
        }
    }
}

/// The comment, or nothing where it would have nothing to say. Without messages it shows what the file is.
pub(super) fn write(session: Option<&str>, records: &[Record]) -> Option<String> {
    if session.is_none() && !records.is_empty() && records.iter().all(Record::is_plain) {
        return None;
    }
    // A line a message: a change of one message is a change of one line.
    let lines: Option<Vec<String>> = records.iter().map(|record| serde_json::to_string(record).ok()).collect();
    let session = match session {
        Some(session) => format!("\"session\":{},", serde_json::to_string(session).ok()?),
        None => String::new(),
    };
    let json = format!("{{\"version\":{VERSION},{session}\"messages\":[\n{}\n]}}", lines?.join(",\n"));
    let mut out = String::with_capacity(json.len() + json.len() / 16);
    out.push_str(OPEN);
    // These stand in strings only. Escaped, they cannot end the comment nor look like a header.
    for part in json.split_inclusive(['<', '>', '*']) {
        let plain = part.trim_end_matches(['<', '>', '*']);
        out.push_str(plain);
        out.push_str(match part.get(plain.len()..) {
            Some("<") => "\\u003c",
            Some(">") => "\\u003e",
            Some("*") => "\\u002a",
            _ => "",
        });
    }
    Some(out + " " + CLOSE)
}

/// The Session that our comment names, where `body` is a file without its frontmatter, or the start of one: the first line of the comment
/// is enough.
pub(super) fn session(body: &str) -> Option<String> {
    let line = body.lines().take_while(|line| format::header(line).is_none()).find_map(|line| line.strip_prefix(OPEN))?;
    let head = line.trim_end().strip_suffix("\"messages\":[")?;
    serde_json::from_str::<Hidden>(&format!("{head}\"messages\":[]}}")).ok()?.session
}

/// What stands before the first message: our comment, if there is one, and the rest.
pub(super) fn find(preface: &str) -> (Option<Result<Hidden, String>>, String) {
    let start = if preface.starts_with(OPEN) { Some(0) } else { preface.find(&format!("\n{OPEN}")).map(|at| at + 1) };
    let found = start.and_then(|start| {
        let json = preface.get(start + OPEN.len()..)?;
        let end = json.find(CLOSE)?;
        Some((preface.get(..start)?, json.get(..end)?, json.get(end + CLOSE.len()..)?))
    });
    let Some((before, json, after)) = found else { return (None, preface.to_owned()) };
    let hidden = serde_json::from_str::<Hidden>(json).map_err(|error| error.to_string());
    let hidden = hidden.and_then(|hidden| match hidden.version {
        VERSION => Ok(hidden),
        version => Err(format!("version {version} is not supported (expected {VERSION})")),
    });
    (Some(hidden), format!("{before}{after}"))
}
