//! A transcript becomes a file.

use jiff::tz::TimeZone;

use super::format::{self, Below, UNKNOWN_TIME};
use super::hidden::{self, Record};
use super::{Transcript, head};

/// Writes a transcript in obsidian-copilot's format, with times as they are in `tz`.
///
/// [`read`](super::read()) gives back the same transcript as long as its times are whole milliseconds and its model and topic are not
/// empty. obsidian-copilot reads the same messages in the same order, each with its words as shown: no blank space around them, `\n`
/// line ends, a space before lines that look like a header, a backslash before a last line that looks like a context.
pub fn write(transcript: &Transcript, tz: &TimeZone) -> String {
    let mut records = Vec::with_capacity(transcript.messages.len());
    let mut messages = String::new();
    for entry in &transcript.messages {
        let context = format::context_line(&entry.context);
        let shown = format::shown(&entry.text, if context.is_some() { Below::Context } else { Below::Timestamp });
        let time = entry.time.map(|time| format::show_time(time, tz.to_offset(time)));
        let time = format::time_line(time.as_deref().unwrap_or(UNKNOWN_TIME));
        for part in ["\n", format::marker(entry.role), " ", &shown, "\n"] {
            messages.push_str(part);
        }
        for line in context.iter().chain([&time]) {
            messages.push_str(line);
            messages.push('\n');
        }
        records.push(Record::of(entry, &shown, tz));
    }

    let mut out = head::write(
        transcript.epoch_ms,
        transcript.model.as_deref(),
        transcript.topic.as_deref(),
        transcript.last_accessed,
        &transcript.extra,
    );
    if let Some(comment) = hidden::write(transcript.session.as_deref(), &records) {
        out.push('\n');
        out.push_str(&comment);
        out.push('\n');
    }
    out.push_str(&messages);
    out
}
