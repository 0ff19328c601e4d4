//! The visible lines of a saved chat, both ways. Writing and reading share this page, because what may be written depends on how it
//! would be read.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

use super::{Context, Role};

/// What stands in place of a time nobody knows.
pub(super) const UNKNOWN_TIME: &str = "Unknown time";
const TIME: &str = "[Timestamp: ";
/// A line of the time that is not the first.
pub(super) const TIME_BELOW: &str = "\n[Timestamp: ";
const CONTEXT: &str = "[Context: ";

/// Everything that their program or ours trims off a message.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

/// `text` without blank space around it.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(is_blank)
}

/// Whether there is nothing but blank space in `text`.
pub(super) fn all_blank(text: &str) -> bool {
    text.chars().all(is_blank)
}

/// The blank space before and after the words of `text`.
pub(super) fn margins(text: &str) -> (&str, &str) {
    let core = trim(text);
    let start = text.len() - text.trim_start_matches(is_blank).len();
    text.split_at_checked(start).map_or(("", ""), |(before, rest)| (before, rest.get(core.len()..).unwrap_or_default()))
}

/// Line ends as `\n`. A `\r` that ends no line is part of its line.
pub(super) fn unix_lines(text: &str) -> Cow<'_, str> {
    if !text.contains("\r\n") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match line.strip_suffix('\n') {
            Some(line) => {
                out.push_str(line.trim_end_matches('\r'));
                out.push('\n');
            }
            None => out.push_str(line),
        }
    }
    Cow::Owned(out)
}

/// The start of a message's first line.
pub(super) fn marker(role: Role) -> &'static str {
    match role {
        Role::User => "**user**:",
        Role::Assistant => "**ai**:",
    }
}

/// Who speaks from `line` on, and the rest of it; none where it begins no message. The space after the colon may be missing where
/// nothing follows, because editors strip it.
pub(super) fn header(line: &str) -> Option<(Role, &str)> {
    let (role, rest) =
        [Role::User, Role::Assistant].into_iter().find_map(|role| Some((role, line.strip_prefix(marker(role))?)))?;
    if rest.is_empty() { Some((role, rest)) } else { Some((role, rest.strip_prefix(' ')?)) }
}

/// Whether a line of the context follows a message's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Below {
    Context,
    Timestamp,
}

/// The words of a message as they are written: without blank space around them, and changed where a line would be read as a header (a
/// space before it, which markdown ignores) or the last one as the context (a backslash, which markdown hides).
pub(super) fn shown(text: &str, below: Below) -> String {
    let text = unix_lines(text);
    let core = trim(&text);
    let last_line = core.rfind('\n').map_or(0, |at| at + 1);
    let mut out = String::with_capacity(core.len() + 1);
    let mut at = 0;
    for line in core.split_inclusive('\n') {
        if at > 0 && header(line.trim_end_matches('\n')).is_some() {
            out.push(' ');
        } else if at == last_line && below == Below::Timestamp && line.starts_with(CONTEXT) {
            out.push('\\');
        }
        out.push_str(line);
        at += line.len();
    }
    out
}

/// The words of a message as they are read from what was written.
pub(super) fn taken(role: Role, written: &str) -> Cow<'_, str> {
    match role {
        Role::User => Cow::Borrowed(trim(written)),
        Role::Assistant => match without_comments(written) {
            Some(text) => Cow::Owned(trim(&text).to_owned()),
            None => Cow::Borrowed(trim(written)),
        },
    }
}

/// `text` without the comments in which obsidian-copilot once kept tool calls and reasoning; none where it has no such comment.
pub(super) fn without_comments(text: &str) -> Option<String> {
    const COMMENTS: [(&str, &str); 2] = [("<!--TOOL_CALL_START:", "<!--TOOL_CALL_END:"), ("<!--AGENT_REASONING:", "")];
    let mut out = String::new();
    let (mut copied, mut from) = (0, 0);
    // Once an end is missing it is missing for all that follow; asking again would be quadratic.
    let mut open = [false; COMMENTS.len()];
    while let Some(start) = text.get(from..).and_then(|rest| rest.find("<!--")).map(|at| from + at) {
        let rest = text.get(start..).unwrap_or_default();
        let which = COMMENTS.iter().position(|(begin, _)| rest.starts_with(begin));
        let end = which.filter(|which| !open[*which]).and_then(|which| {
            let last = COMMENTS[which].1;
            let end = rest.find(last).and_then(|at| Some(at + rest.get(at..)?.find("-->")? + "-->".len()));
            open[which] = end.is_none();
            end
        });
        if let Some(end) = end {
            out.push_str(text.get(copied..start).unwrap_or_default());
            copied = start + end;
            from = copied;
        } else {
            from = start + "<!--".len();
        }
    }
    (copied > 0).then(|| out + text.get(copied..).unwrap_or_default())
}

/// The line of the time.
pub(super) fn time_line(shown: &str) -> String {
    format!("{TIME}{shown}]")
}

/// The time in a line of that form, as it stands there.
pub(super) fn time_in(line: &str) -> Option<&str> {
    line.trim_end().strip_prefix(TIME)?.strip_suffix(']').filter(|time| !time.contains(']'))
}

/// A moment as the format shows it, at an offset from UTC.
pub(super) fn show_time(time: Timestamp, offset: Offset) -> String {
    let local = offset.to_datetime(time);
    let (year, month, day) = (local.year(), local.month(), local.day());
    format!("{year:04}/{month:02}/{day:02} {:02}:{:02}:{:02}", local.hour(), local.minute(), local.second())
}

/// The moment that `shown` means in `tz`: as we and obsidian-copilot show it, with `-`, or with its own zone (RFC 3339).
pub(super) fn read_time(shown: &str, tz: &TimeZone) -> Option<Timestamp> {
    let shown = shown.trim();
    let time = shown.parse::<Timestamp>().ok().or_else(|| {
        let local = shown.replace('/', "-").parse::<DateTime>().ok()?;
        tz.to_ambiguous_timestamp(local).compatible().ok()
    })?;
    Timestamp::from_millisecond(time.as_millisecond()).ok()
}

/// The lists of a context with their labels; the last label is only read.
const LABELS: [&str; 6] = ["Notes: ", "URLs: ", "Web Tabs: ", "Tags: ", "Folders: ", "WebTabs: "];

fn list(context: &mut Context, label: usize) -> &mut Vec<String> {
    match label {
        0 => &mut context.notes,
        1 => &mut context.urls,
        3 => &mut context.tags,
        4 => &mut context.folders,
        _ => &mut context.web_tabs,
    }
}

/// The context in a line of that form. A part without a label is the rest of a name that contains ` | `.
pub(super) fn context_in(line: &str) -> Option<Context> {
    let inner = line.trim_end().strip_prefix(CONTEXT)?.strip_suffix(']')?;
    let mut parts: Vec<(usize, String)> = Vec::new();
    for part in inner.split(" | ") {
        // A label without names may have lost its space.
        let labelled = LABELS.iter().enumerate().find_map(|(at, label)| {
            let part = trim(part);
            part.strip_prefix(label).or_else(|| (part == label.trim_end()).then_some("")).map(|names| (at, names))
        });
        match (labelled, parts.last_mut()) {
            (Some((label, names)), _) => parts.push((label, names.to_owned())),
            (None, Some((_, names))) => {
                names.push_str(" | ");
                names.push_str(part);
            }
            (None, None) => return None,
        }
    }
    let mut context = Context::default();
    for (label, names) in &parts {
        let names = names.split(", ").map(trim).filter(|name| !name.is_empty());
        list(&mut context, *label).extend(names.map(str::to_owned));
    }
    Some(context)
}

/// Whether the line of the context can name it: their program splits at `, ` and ` | `, ends at `]`, reads one
/// line (JavaScript's notion of one) and trims.
fn can_be_named(name: &str) -> bool {
    let breaks = name.contains([']', '\n', '\r', '\u{2028}', '\u{2029}'])
        || name.contains(", ")
        || name.contains(" |")
        || name.contains("| ");
    let at_the_edge = name.starts_with(['|', ',']) || name.ends_with(['|', ',']);
    !name.is_empty() && !breaks && !at_the_edge && trim(name) == name
}

/// Whether the line of the context can carry all of it.
pub(super) fn is_nameable(context: &Context) -> bool {
    let Context { notes, urls, web_tabs, tags, folders } = context;
    [notes, urls, web_tabs, tags, folders].into_iter().flatten().all(|name| can_be_named(name))
}

/// What of `context` its line can carry.
pub(super) fn nameable(context: &Context) -> Context {
    let keep = |names: &[String]| names.iter().filter(|name| can_be_named(name)).cloned().collect();
    Context {
        notes: keep(&context.notes),
        urls: keep(&context.urls),
        web_tabs: keep(&context.web_tabs),
        tags: keep(&context.tags),
        folders: keep(&context.folders),
    }
}

/// The line of the context; none where it would be empty. Names that it cannot carry are left out rather than changed, since half a
/// name may be the name of another note.
pub(super) fn context_line(context: &Context) -> Option<String> {
    if context.is_empty() {
        return None;
    }
    let mut context = nameable(context);
    let parts = LABELS.iter().enumerate().take(5).filter_map(|(at, label)| {
        let names = std::mem::take(list(&mut context, at));
        (!names.is_empty()).then(|| format!("{label}{}", names.join(", ")))
    });
    let line = parts.collect::<Vec<_>>().join(" | ");
    (!line.is_empty()).then(|| format!("{CONTEXT}{line}]"))
}
