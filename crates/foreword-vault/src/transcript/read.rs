//! A file becomes a transcript: what is seen, made whole by the hidden comment where the two agree.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::align::{Mark, align};
use super::format::UNKNOWN_TIME;
use super::head::{self, Head};
use super::hidden::Record;
use super::parse::{Block, parse};
use super::{Entry, Kind, NotATranscript, Role, Transcript, Warning};

/// Most characters of a file's own text in a warning.
const QUOTE_CHARS: usize = 80;

/// A transcript as it was read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Read {
    /// Whose format it was in.
    pub source: Source,
    /// What the file says.
    pub transcript: Transcript,
    /// What its reader should know, in the order of the file.
    pub warnings: Vec<Warning>,
}

/// Which program wrote a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// This one: our comment is there and can be read.
    Foreword,
    /// obsidian-copilot, or someone by hand.
    Copilot,
    /// `AssistantMD`.
    AssistantMd,
    /// The log of a coding agent.
    Agent,
}

/// Reads a saved chat. Times without a zone are meant in `tz`.
///
/// No visible text is lost: what stands before the first message or below the time of one is put into that message, with a warning. Only two things are
/// taken out: obsidian-copilot's old tool and reasoning comments, and timestamps that are none, which the warning quotes.
pub fn read(text: &str, tz: &TimeZone) -> Result<Read, NotATranscript> {
    let parsed = parse(text, tz)?;
    let mut warnings = Vec::new();
    let mut session = parsed.session;
    let records = match parsed.hidden {
        Some(Ok(hidden)) => {
            session = hidden.session;
            hidden.messages
        }
        Some(Err(fault)) => {
            let text = format!(
                "cannot read the hidden `foreword` comment ({fault}), so exact times, tool calls and unusual names are missing; \
                 restore the file from a backup if you need them"
            );
            warnings.push(Warning::new(Kind::Hidden, text));
            Vec::new()
        }
        None => Vec::new(),
    };

    let mut head = parsed.head;
    if let Some(thinking) = head.topic.take_if(|topic| is_thinking(topic)) {
        let text = format!("the topic {:?} is a model's thinking and was dropped", quote(&thinking));
        warnings.push(Warning::new(Kind::Topic, text));
    }
    let epoch_ms = epoch(head.epoch.as_deref(), parsed.source, &parsed.blocks, &mut warnings);

    let old: Vec<Mark> = records.iter().map(Record::mark).collect();
    let new: Vec<Mark> = parsed.blocks.iter().map(Block::mark).collect();
    let places = align(&old, &new);
    let removed = records.len() - places.iter().flatten().count();
    if removed > 0 {
        let text = format!("messages that were removed from the file: {removed}; their hidden data is dropped");
        warnings.push(Warning::new(Kind::Edited, text));
    }
    let mut messages: Vec<Entry> = Vec::with_capacity(parsed.blocks.len());
    for (block, place) in parsed.blocks.into_iter().zip(places) {
        let number = messages.len() + 1;
        let record = place.and_then(|place| records.get(place));
        if record.is_none() && !records.is_empty() {
            warnings.push(Warning::new(Kind::Edited, format!("message {number} was added to the file by hand")));
        }
        messages.push(entry(block, record, number, &mut warnings));
    }

    if !parsed.stray.is_empty() {
        warnings.push(Warning::new(
            Kind::Stray,
            format!("text before the first message is now part of it: {:?}", quote(&parsed.stray)),
        ));
        take_stray(&mut messages, &parsed.stray);
    }
    let Head { model, topic, last_accessed, extra, .. } = head;
    let transcript = Transcript { epoch_ms, session, model, topic, last_accessed, extra, messages };
    Ok(Read { source: parsed.source, transcript, warnings })
}

/// Puts text from before the first message into it.
pub(super) fn take_stray(messages: &mut Vec<Entry>, stray: &str) {
    match messages.first_mut() {
        Some(first) if first.text.is_empty() => stray.clone_into(&mut first.text),
        Some(first) => first.text = format!("{stray}\n\n{}", first.text),
        None => messages.push(Entry::new(Role::User, stray)),
    }
}

/// One message: what is seen, and what the record adds where it still fits.
fn entry(block: Block, record: Option<&Record>, number: usize, warnings: &mut Vec<Warning>) -> Entry {
    let mut warn = |kind, text: String| warnings.push(Warning::new(kind, format!("message {number}: {text}")));
    let whole = record.and_then(|record| record.text(&block.text));
    let exact = record.and_then(|record| record.exact_time(&block.shown_time));
    let full = record.and_then(|record| record.context(&block.context));

    if let Some(record) = record {
        if whole.is_none() {
            warn(Kind::Edited, "its text was changed in the file; the file's text is used".to_owned());
        }
        if exact.is_none() && record.mark().time != block.shown_time {
            warn(Kind::Edited, "its time was changed in the file; the file's time is used".to_owned());
        }
        if full.is_none() && record.has_context() {
            warn(Kind::Edited, "its context was changed in the file; the file's context is used".to_owned());
        }
    }
    if exact.is_none() && block.time.is_none() && block.shown_time != UNKNOWN_TIME {
        let shown = quote(&block.shown_time);
        warn(Kind::Time, format!("invalid time {shown:?}, which is ignored; write it as 2024/09/23 22:18:00"));
    }
    if block.below && whole.is_none() {
        warn(Kind::Stray, "text below its time is now part of it".to_owned());
    }
    if block.stripped && whole.is_none() {
        warn(Kind::ToolComment, "comments with tool calls or reasoning of another program were removed".to_owned());
    }
    if block.role == Role::Assistant && block.text.contains("<errorChunk>") {
        warn(Kind::ErrorAnswer, "the saved answer is an error message; it is kept".to_owned());
    }
    Entry {
        role: block.role,
        text: whole.unwrap_or(block.text),
        time: exact.or(block.time),
        context: full.unwrap_or(block.context),
        calls: record.map(Record::calls).unwrap_or_default(),
        cut_off: record.is_some_and(Record::cut_off),
    }
}

/// The `epoch`, or else the first time there is.
fn epoch(value: Option<&str>, source: Source, blocks: &[Block], warnings: &mut Vec<Warning>) -> i64 {
    if let Some(epoch) = value.and_then(head::number) {
        return epoch;
    }
    let first = blocks.iter().find_map(|block| block.time);
    let instead =
        if first.is_some() { "the time of the first message is used" } else { "no message has a time either, so it is 0" };
    match value {
        Some(value) => {
            warnings.push(Warning::new(Kind::Epoch, format!("the epoch {:?} is not a number; {instead}", quote(value))));
        }
        None if source == Source::AssistantMd => {} // it never has one
        None => warnings.push(Warning::new(Kind::Epoch, format!("the frontmatter has no epoch; {instead}"))),
    }
    first.map_or(0, Timestamp::as_millisecond)
}

/// Whether a topic is the start of a model's thinking, as obsidian-copilot saves it: without the brackets.
fn is_thinking(topic: &str) -> bool {
    let rest = topic.strip_prefix("<think").or_else(|| topic.strip_prefix("think"));
    rest.is_some_and(|rest| topic.starts_with('<') || rest.starts_with(|c: char| c.is_uppercase() || c == '\n'))
}

fn quote(text: &str) -> String {
    let mut quote: String = text.chars().take(QUOTE_CHARS).collect();
    if quote.len() < text.len() {
        quote.push('…');
    }
    quote
}
