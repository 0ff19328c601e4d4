//! The fence between what the engine writes and what comes from outside.
//!
//! A prompt is one text: our tags and lines stand beside notes, pages and tool outputs that anybody may have written. Escaping
//! takes from outside text the power to open or close one of our tags, or to forge one of the engine's lines, and changes
//! nothing else, because notes about programs and markup must stay readable.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Tags that structure a prompt, in lower case. A tool of such a name never gets a tag of its own.
const STRUCTURE: [&str; 41] = [
    "active_note",
    "active_web_tab",
    "content",
    "conversation_summary",
    "ctime",
    "dataview_block",
    "embedded_note",
    "embedded_pdf",
    "end_line",
    "engine_notice",
    "guidance",
    "mtime",
    "note_context",
    "note_context_error",
    "note_diff",
    "path",
    "prior_context",
    "prior_context_note",
    "project_context",
    "project_system_prompt",
    "query",
    "reference",
    "retrieved_document",
    "rule",
    "selected_text",
    "start_line",
    "supersedes",
    "title",
    "tool",
    "tool_result",
    "twitter_content",
    "url",
    "url_content",
    "user_custom_instructions",
    "user_memory",
    "variable",
    "variable_note",
    "vault_note",
    "web_selected_text",
    "web_tab_context",
    "youtube_video_context",
];

/// Tags of the built-in tools' outputs, in lower case.
const BUILT_IN: [&str; 8] =
    ["getfiletree", "localsearch", "readnote", "readoutput", "timerange", "webfetch", "websearch", "writenote"];

/// Words that models read as a speaker, in lower case: a server that calls its tool so does not speak as one.
const SPEAKERS: [&str; 8] = ["assistant", "developer", "human", "instructions", "system", "think", "thinking", "user"];

/// How the engine's own lines begin.
const ENGINE_LINES: [&str; 7] = [
    "# Additional context:",
    "## Context Library",
    "Context attached to this message:",
    "Find them in the Context Library",
    "[Output of ",
    "[Step ",
    "[User query]:",
];

/// The tag around the output of a tool that cannot have a tag of its own name.
const GENERIC: &str = "tool_result";

/// A longer name is no tool's tag, so there is no need to look it up or to remember it.
const MAX_NAME: usize = 128;

/// The largest number of tags to remember; beyond it, every new tool gets the generic tag.
const MAX_SEEN: usize = 65_536;

/// What is known of tags while a prompt is written: it only grows.
///
/// Text that was escaped stays as it is; so escape a text once, where it enters, and keep the result.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Fence {
    /// Lower case.
    tools: BTreeSet<String>,
    /// Names, in lower case, of tags that stand, or may stand, unescaped in outside text.
    seen: BTreeSet<String>,
    /// Whether outside text used more tags than are remembered.
    seen_others: bool,
}

impl Fence {
    /// Knows the engine's own tags.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on, outside text cannot use a tool's name as a tag.
    pub fn know_tool(&mut self, name: &str) {
        if !is_tag_name(name) {
            return;
        }
        let lower = name.to_ascii_lowercase();
        if self.seen_others && !self.is_known(&lower) {
            self.seen.insert(lower.clone());
        }
        self.tools.insert(lower);
    }

    /// Takes from outside text the power to open or close a known tag or to begin a line as the engine does.
    ///
    /// The `<` of a known tag becomes `&lt;`; an engine line gets a backslash in front. Where the text has such an escape
    /// already, it gets one more `amp;` or one more backslash, so that [`Fence::unescape`] gives back the same bytes.
    ///
    /// What the engine writes after an escaped text must not begin with a name: a tag could be put together across the seam.
    pub fn escape<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        let tags = self.escape_tags(text);
        match escape_lines(tags.as_deref().unwrap_or(text)) {
            Some(lines) => Cow::Owned(lines),
            None => tags.map_or(Cow::Borrowed(text), Cow::Owned),
        }
    }

    /// Undoes [`Fence::escape`], where no tool has become known since.
    ///
    /// Exactly: `unescape(escape(x)) == x` if [`Fence::know_tool`] and [`Fence::tool_tag`] named no new tool in between. A
    /// tag of a tool that became known later was left alone by `escape`; if the text had it in escaped form, that form would
    /// lose one level here. Texts that were never escaped may change.
    pub fn unescape<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let lines = unescape_lines(text);
        match self.unescape_tags(lines.as_deref().unwrap_or(text)) {
            Some(tags) => Cow::Owned(tags),
            None => lines.map_or(Cow::Borrowed(text), Cow::Owned),
        }
    }

    /// The tag to wrap a tool's output in; from now on, outside text cannot use the tool's name as a tag.
    ///
    /// Ask for the tag before the output is escaped: what follows in the prompt must not be able to close it. It is the
    /// tool's own name, unless that is no name for a tag, is a tag of the engine's or a speaker, or stands as a tag in
    /// earlier outside text, where it may be forged. The answer for a tool never changes.
    pub fn tool_tag(&mut self, name: &str) -> ToolTag {
        self.know_tool(name);
        let lower = name.to_ascii_lowercase();
        let own = is_tag_name(name) && !is_in(&STRUCTURE, &lower) && !is_in(&SPEAKERS, &lower) && !self.seen.contains(&lower);
        if own {
            ToolTag { name: name.to_owned(), tool: None }
        } else {
            ToolTag { name: GENERIC.to_owned(), tool: Some(name.to_owned()) }
        }
    }

    fn is_known(&self, lower: &str) -> bool {
        is_in(&STRUCTURE, lower) || is_in(&BUILT_IN, lower) || self.tools.contains(lower)
    }

    fn is_known_in_any_case(&self, name: &str) -> bool {
        name.len() <= MAX_NAME && self.is_known(&name.to_ascii_lowercase())
    }

    fn escape_tags(&mut self, text: &str) -> Option<String> {
        let mut edit = Edit::new(text);
        for mark in marks(text) {
            let Some(name) = tag_name(&text[mark.end..]) else {
                continue;
            };
            if self.is_known_in_any_case(&name) {
                match mark.level {
                    0 => edit.replace(mark.start, mark.end, "&lt;"),
                    _ => edit.replace(mark.start + 1, mark.start + 1, "amp;"),
                }
            } else if mark.level == 0 {
                self.see(&name);
            }
        }
        edit.finish()
    }

    fn unescape_tags(&self, text: &str) -> Option<String> {
        let mut edit = Edit::new(text);
        for mark in marks(text) {
            let known = tag_name(&text[mark.end..]).is_some_and(|name| self.is_known_in_any_case(&name));
            match mark.level {
                _ if !known => {}
                0 => {}
                1 => edit.replace(mark.start, mark.end, "<"),
                _ => edit.replace(mark.start + 1, mark.start + 1 + "amp;".len(), ""),
            }
        }
        edit.finish()
    }

    fn see(&mut self, name: &str) {
        if name.len() > MAX_NAME {
            return;
        }
        if self.seen.len() < MAX_SEEN {
            self.seen.insert(name.to_ascii_lowercase());
        } else if !self.seen_others {
            self.seen_others = !self.seen.contains(&name.to_ascii_lowercase());
        }
    }
}

/// The tag around a tool's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolTag {
    name: String,
    /// The tool, where the tag does not say it.
    tool: Option<String>,
}

impl ToolTag {
    /// The tag's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The opening tag, with attributes in the given order: `<localSearch timeRange="last week">`.
    ///
    /// An attribute whose key is no name is left out.
    pub fn open(&self, attributes: &[(&str, &str)]) -> String {
        let mut out = format!("<{}", self.name);
        let tool = self.tool.as_deref().map(|tool| ("tool", tool));
        let others = attributes.iter().copied().filter(|(key, _)| is_tag_name(key));
        for (key, value) in tool.into_iter().chain(others) {
            // Writing to a string cannot fail.
            let _ = write!(out, " {key}=\"{}\"", attribute(value));
        }
        out.push('>');
        out
    }

    /// The closing tag.
    pub fn close(&self) -> String {
        format!("</{}>", self.name)
    }
}

fn is_in(sorted: &[&str], lower: &str) -> bool {
    sorted.binary_search(&lower).is_ok()
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
}

/// `[A-Za-z][A-Za-z0-9_.-]*`, not too long.
fn is_tag_name(name: &str) -> bool {
    name.len() <= MAX_NAME && name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.bytes().all(is_name_byte)
}

/// Whether a character is white space or invisible, so that readers would still see a tag.
pub fn is_gap(c: char) -> bool {
    c.is_whitespace() || is_unseen(c)
}

/// What takes no room on a page: the code points that Unicode calls default ignorable, and control characters.
#[rustfmt::skip]
pub fn is_unseen(c: char) -> bool {
    match c {
        '\0'..='\u{9f}' => c.is_control() && !c.is_whitespace(),
        _ => matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'),
    }
}

/// What follows in `text` behind `own`, where it begins so to a reader's eye: case aside, with any blanks where `own` has one, and with
/// anything unseen in between.
pub fn strip_seen<'a>(text: &'a str, own: &str) -> Option<&'a str> {
    let mut rest = text;
    for wanted in own.chars() {
        let at = rest.trim_start_matches(is_unseen);
        rest = if wanted == ' ' {
            let blanks = at.trim_start_matches(|c| is_gap(c) && !is_line_end(c));
            if blanks.len() == at.len() {
                return None;
            }
            blanks
        } else {
            at.strip_prefix(|c: char| c.eq_ignore_ascii_case(&wanted))?
        };
    }
    Some(rest)
}

/// Whether a reader may take what follows for a new line.
pub fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// The tag name after `<`, without invisible characters.
fn tag_name(rest: &str) -> Option<Cow<'_, str>> {
    let rest = rest.trim_start_matches(is_gap);
    let rest = rest.strip_prefix('/').map_or(rest, |rest| rest.trim_start_matches(is_gap));
    let end = rest.bytes().position(|byte| !is_name_byte(byte)).unwrap_or(rest.len());
    if !rest[..end].starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    if !rest[end..].starts_with(is_unseen) {
        return Some(Cow::Borrowed(&rest[..end]));
    }
    let name = rest.chars().take_while(|c| is_unseen(*c) || u8::try_from(*c).is_ok_and(is_name_byte)).filter(|c| !is_unseen(*c));
    // One more than a name may have, so that it is still too long.
    Some(Cow::Owned(name.take(MAX_NAME + 1).collect()))
}

/// A `<`, or an escaped one.
struct Mark {
    start: usize,
    end: usize,
    /// 0 for `<`, 1 for `&lt;`, 2 for `&amp;lt;` …
    level: usize,
}

fn marks(text: &str) -> impl Iterator<Item = Mark> {
    let bytes = text.as_bytes();
    positions(bytes, |byte| matches!(byte, b'<' | b'&')).filter_map(move |start| {
        if bytes[start] == b'<' {
            return Some(Mark { start, end: start + 1, level: 0 });
        }
        let (amps, rest) = strip_amps(&text[start + 1..]);
        let rest = rest.strip_prefix("lt;")?;
        Some(Mark { start, end: text.len() - rest.len(), level: amps + 1 })
    })
}

/// The number of `amp;` at the start, and the rest.
fn strip_amps(text: &str) -> (usize, &str) {
    let rest = text.trim_start_matches("amp;");
    ((text.len() - rest.len()) / "amp;".len(), rest)
}

/// Positions of the bytes that are `wanted`. Whole chunks are passed over at once, which the compiler does with vector
/// instructions: most text has none.
fn positions(bytes: &[u8], wanted: impl Fn(u8) -> bool + Copy) -> impl Iterator<Item = usize> {
    const CHUNK: usize = 64;
    bytes
        .chunks(CHUNK)
        .enumerate()
        .filter(move |(_, chunk)| chunk.iter().fold(false, |any, byte| any | wanted(*byte)))
        .flat_map(move |(index, chunk)| (index * CHUNK..).zip(chunk).filter(move |(_, byte)| wanted(**byte)).map(|(at, _)| at))
}

fn escape_lines(text: &str) -> Option<String> {
    let mut edit = Edit::new(text);
    for (at, _) in engine_lines(text) {
        edit.replace(at, at, "\\");
    }
    edit.finish()
}

fn unescape_lines(text: &str) -> Option<String> {
    let mut edit = Edit::new(text);
    for (at, slashes) in engine_lines(text) {
        if slashes > 0 {
            edit.replace(at, at + 1, "");
        }
    }
    edit.finish()
}

/// Lines that begin as the engine's do: where, after gaps, and with how many backslashes in front.
fn engine_lines(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let bytes = text.as_bytes();
    // 0xC2 and 0xE2 are the first bytes of the line ends outside ASCII.
    let ends = positions(bytes, |byte| matches!(byte, b'\n'..=b'\r' | 0xc2 | 0xe2));
    let starts = ends.filter_map(|at| {
        let c = text[at..].chars().next()?;
        is_line_end(c).then_some(at + c.len_utf8())
    });
    std::iter::once(0).chain(starts).filter_map(|start| {
        let line = &text[start..];
        // Most lines start with a letter of another word: that is told by one byte.
        let other = |byte: &u8| {
            byte.is_ascii_alphanumeric() && !ENGINE_LINES.iter().any(|own| own.as_bytes()[0].eq_ignore_ascii_case(byte))
        };
        if line.as_bytes().first().is_none_or(other) {
            return None;
        }
        let begin = line.trim_start_matches(|c| is_gap(c) && !is_line_end(c));
        let rest = begin.trim_start_matches('\\');
        let forged = ENGINE_LINES.iter().any(|own| strip_seen(rest, own).is_some());
        forged.then_some((text.len() - begin.len(), begin.len() - rest.len()))
    })
}

/// A text with some stretches replaced, from left to right; costs nothing until the first.
struct Edit<'a> {
    text: &'a str,
    out: String,
    copied: usize,
    changed: bool,
}

impl<'a> Edit<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, out: String::new(), copied: 0, changed: false }
    }

    fn replace(&mut self, start: usize, end: usize, with: &str) {
        self.out.push_str(&self.text[self.copied..start]);
        self.out.push_str(with);
        self.copied = end;
        self.changed = true;
    }

    fn finish(mut self) -> Option<String> {
        self.changed.then(|| {
            self.out.push_str(&self.text[self.copied..]);
            self.out
        })
    }
}

/// `text` on one line, as the value of an attribute: for titles, paths and URLs.
///
/// `<`, `>`, `"`, control characters and line ends are escaped, and `&` only where it would be read as such an escape: paths
/// and URLs as they occur stay the same bytes. [`unattribute`] undoes it.
pub fn attribute(text: &str) -> String {
    escape_line(text, Quotes::Escaped)
}

/// `text` on one line, inside an element or a list: as [`attribute`], with quotation marks left as they are.
pub fn one_line(text: &str) -> String {
    escape_line(text, Quotes::Kept)
}

/// Undoes [`attribute`] and [`one_line`].
pub fn unattribute(text: &str) -> String {
    let mut edit = Edit::new(text);
    for (at, _) in text.match_indices('&') {
        let (amps, rest) = strip_amps(&text[at + 1..]);
        let Some((c, rest)) = escaped_char(rest) else {
            continue;
        };
        if amps > 0 {
            edit.replace(at + 1, at + 1 + "amp;".len(), "");
        } else {
            edit.replace(at, text.len() - rest.len(), c.encode_utf8(&mut [0; 4]));
        }
    }
    edit.finish().unwrap_or_else(|| text.to_owned())
}

#[derive(Clone, Copy, PartialEq)]
enum Quotes {
    Escaped,
    Kept,
}

fn escape_line(text: &str, quotes: Quotes) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' if quotes == Quotes::Escaped => out.push_str("&quot;"),
            '&' if escaped_char(strip_amps(&text[at + 1..]).1).is_some() => out.push_str("&amp;"),
            c if is_numbered(c) => {
                // Writing to a string cannot fail.
                let _ = write!(out, "&#{};", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// Characters that would end the line or cannot be seen: written as their number.
fn is_numbered(c: char) -> bool {
    c.is_control() || is_line_end(c)
}

/// The character of `lt;`, `gt;`, `quot;` or `#10;`, and the rest.
fn escaped_char(text: &str) -> Option<(char, &str)> {
    const MAX_DIGITS: usize = 4;
    const NAMED: [(&str, char); 3] = [("lt;", '<'), ("gt;", '>'), ("quot;", '"')];
    if let Some(found) = NAMED.iter().find_map(|(name, c)| Some((*c, text.strip_prefix(name)?))) {
        return Some(found);
    }
    let digits = text.strip_prefix('#')?;
    let end = digits.bytes().take(MAX_DIGITS + 1).position(|byte| byte == b';')?;
    let (number, rest) = (&digits[..end], &digits[end + 1..]);
    let c = char::from_u32(number.parse().ok()?)?;
    // Only the form that is written: no sign, no leading zero.
    (is_numbered(c) && u32::from(c).to_string() == number).then_some((c, rest))
}

#[cfg(test)]
mod tests;
