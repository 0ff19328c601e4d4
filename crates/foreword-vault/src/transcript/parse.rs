//! The visible text of a saved chat in its parts, before anyone asks what the hidden comment knows.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::align::Mark;
use super::format::{self, UNKNOWN_TIME};
use super::head::{self, Head};
use super::hidden::{self, Hidden};
use super::read::Source;
use super::{Context, NotATranscript, Role};

/// A message as it is seen.
#[derive(Debug, PartialEq)]
pub(super) struct Block {
    pub(super) role: Role,
    pub(super) text: String,
    /// The time as it stands there.
    pub(super) shown_time: String,
    pub(super) time: Option<Timestamp>,
    pub(super) context: Context,
    /// Whether comments of another program were taken out.
    pub(super) stripped: bool,
    /// Whether something was written below the time.
    pub(super) below: bool,
}

impl Block {
    /// How it is recognised.
    pub(super) fn mark(&self) -> Mark {
        Mark { role: self.role, words: hidden::hash(&self.text), time: self.shown_time.clone() }
    }
}

/// A file in its parts.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) source: Source,
    pub(super) head: Head,
    pub(super) hidden: Option<Result<Hidden, String>>,
    /// The Session's name, where it stands in sight.
    pub(super) session: Option<String>,
    /// Text before the first message that is nothing we know.
    pub(super) stray: String,
    pub(super) blocks: Vec<Block>,
}

/// A header with what belongs to it: where its line starts, and where the words start.
struct Section {
    role: Role,
    line: usize,
    words: usize,
}

/// Takes a file apart.
pub(super) fn parse(text: &str, tz: &TimeZone) -> Result<Parsed, NotATranscript> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = format::unix_lines(text);
    let (head, body) = head::split(&text).map_or((None, &*text), |(lines, body)| (Some(head::read(lines)), body));

    let named = session_line(body).is_some();
    let copilot = if named { Vec::new() } else { sections(body, format::header) };
    let assistant_md = if copilot.is_empty() { assistant_md_sections(body) } else { Vec::new() };
    let both = [Role::User, Role::Assistant].iter().all(|role| assistant_md.iter().any(|section| section.role == *role));
    if named || both {
        return Ok(assistant_md_chat(body, &assistant_md, head.unwrap_or_default(), tz));
    }

    let preface = body.get(..copilot.first().map_or(body.len(), |first| first.line)).unwrap_or_default();
    let (hidden, stray) = hidden::find(preface);
    let head = head.unwrap_or_default();
    if copilot.is_empty() && hidden.is_none() && !(head.tagged && head.epoch.is_some()) {
        return Err(NotATranscript { begins: format::trim(&text).chars().take(60).collect() });
    }
    let source = if matches!(hidden, Some(Ok(_))) { Source::Foreword } else { Source::Copilot };
    let blocks = spans(body, &copilot).map(|(role, words)| block(role, words, tz)).collect();
    Ok(Parsed { source, head, hidden, session: None, stray: format::trim(&stray).to_owned(), blocks })
}

fn sections(body: &str, header: impl Fn(&str) -> Option<(Role, &str)>) -> Vec<Section> {
    let mut at = 0;
    let mut sections = Vec::new();
    for line in body.split_inclusive('\n') {
        let bare = line.strip_suffix('\n').unwrap_or(line);
        if let Some((role, rest)) = header(bare) {
            sections.push(Section { role, line: at, words: at + bare.len() - rest.len() });
        }
        at += line.len();
    }
    sections
}

/// Each section's text, up to the next header.
fn spans<'a>(body: &'a str, sections: &'a [Section]) -> impl Iterator<Item = (Role, &'a str)> {
    let ends = sections.iter().skip(1).map(|next| next.line).chain([body.len()]);
    sections.iter().zip(ends).map(|(section, end)| (section.role, body.get(section.words..end).unwrap_or_default()))
}

/// `text` without its last line, and that line.
fn last_line(text: &str) -> (&str, &str) {
    text.rsplit_once('\n').unwrap_or(("", text))
}

fn block(role: Role, words: &str, tz: &TimeZone) -> Block {
    let Stamped { words, shown_time, below } = split_time(format::trim(words), tz);
    let (above, line) = last_line(words);
    let (words, context) = match format::context_in(line) {
        Some(context) => (format::trim(above), context),
        None => (words, Context::default()),
    };
    let whole = if below.is_empty() { Cow::Borrowed(words) } else { Cow::Owned(format!("{words}\n\n{below}")) };
    let text = format::taken(role, &whole).into_owned();
    let (stripped, below) = (text != format::trim(&whole), !below.is_empty());
    Block { role, text, shown_time: shown_time.to_owned(), time: format::read_time(shown_time, tz), context, stripped, below }
}

/// A message at its line of the time.
struct Stamped<'a> {
    words: &'a str,
    shown_time: &'a str,
    below: &'a str,
}

/// The time stands in the last line. If it does not, someone may have gone on writing below: then the last line with a time that
/// can be read is meant.
fn split_time<'a>(text: &'a str, tz: &TimeZone) -> Stamped<'a> {
    let (above, line) = last_line(text);
    if let Some(shown_time) = format::time_in(line) {
        return Stamped { words: format::trim(above), shown_time, below: "" };
    }
    let found = text.rfind(format::TIME_BELOW).and_then(|at| {
        let (above, rest) = text.split_at_checked(at)?;
        let (line, below) = rest.strip_prefix('\n')?.split_once('\n')?;
        let shown_time = format::time_in(line).filter(|shown| format::read_time(shown, tz).is_some())?;
        Some(Stamped { words: format::trim(above), shown_time, below: format::trim(below) })
    });
    found.unwrap_or(Stamped { words: text, shown_time: UNKNOWN_TIME, below: "" })
}

/// The name in `AssistantMD`'s first line, and what follows that line.
fn session_line(body: &str) -> Option<(&str, &str)> {
    let body = body.trim_start();
    let (line, rest) = body.split_once('\n').unwrap_or((body, ""));
    let name = line.trim_start_matches('#').trim_start().strip_prefix("Chat Session:")?;
    Some((name.trim(), rest))
}

/// Its headers stand alone on their lines; only where none does, words may follow on the same line.
fn assistant_md_sections(body: &str) -> Vec<Section> {
    let alone = sections(body, |line| assistant_md_header(line).filter(|(_, rest)| format::all_blank(rest)));
    if alone.is_empty() { sections(body, assistant_md_header) } else { alone }
}

fn assistant_md_header(line: &str) -> Option<(Role, &str)> {
    let marked = |marker, role| line.strip_prefix(marker).map(|rest| (role, rest));
    marked("**User:**", Role::User).or_else(|| marked("**Assistant:**", Role::Assistant))
}

/// `AssistantMD` appends an exchange at a time: its time in a line of its own, the prompt, the answer.
fn assistant_md_chat(body: &str, sections: &[Section], head: Head, tz: &TimeZone) -> Parsed {
    let preface = body.get(..sections.first().map_or(body.len(), |first| first.line)).unwrap_or_default();
    let (session, stray) = session_line(preface).map_or((None, preface), |(name, rest)| (Some(name.to_owned()), rest));
    let (stray, mut stamp) = stamped(stray);
    let mut blocks = Vec::new();
    for (role, words) in spans(body, sections) {
        let (text, next) = stamped(words);
        let shown_time = stamp.unwrap_or(UNKNOWN_TIME).to_owned();
        let time = format::read_time(&shown_time, tz);
        blocks.push(Block {
            role,
            text: text.to_owned(),
            shown_time,
            time,
            context: Context::default(),
            stripped: false,
            below: false,
        });
        stamp = next.or(stamp.filter(|_| role == Role::User));
    }
    let session = session.filter(|name| !name.is_empty());
    Parsed { source: Source::AssistantMd, head, hidden: None, session, stray: stray.to_owned(), blocks }
}

/// `text` and the time in its last line, which belongs to what follows.
fn stamped(text: &str) -> (&str, Option<&str>) {
    let text = format::trim(text);
    let (above, line) = last_line(text);
    let stamp = line.trim().strip_prefix('*').and_then(|line| line.strip_suffix('*'));
    match stamp.filter(|stamp| format::read_time(stamp, &TimeZone::UTC).is_some()) {
        Some(stamp) => (format::trim(above), Some(stamp)),
        None => (text, None),
    }
}
