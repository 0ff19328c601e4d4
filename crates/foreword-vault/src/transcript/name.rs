//! What a chat is called, and its file.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Most bytes of a file name. Half of what common file systems take: sync tools and backups add to names.
const NAME_BYTES: usize = 100;
/// A name that leaves the topic less room than this says nothing.
const TOPIC_BYTES: usize = 20;
const TOPIC_WORDS: usize = 10;
const UNTITLED: &str = "Untitled Chat";

/// The topic of a chat: the first words of `text`, its first user message, as a file name may have them. Thinking is left out.
pub fn topic(text: &str) -> String {
    // Windows drops dots and spaces at the end of a name.
    first_words(text, is_safe, &['.', ' '])
}

/// The title of a chat: the same words as people read them, with their punctuation.
pub fn title(text: &str) -> String {
    first_words(text, is_shown, &['.', ',', ';', ':', ' '])
}

/// The first words of `text` without characters that are not kept, and without `ends` around them.
fn first_words(text: &str, is_kept: fn(char) -> bool, ends: &[char]) -> String {
    let text = without_links(&without_thinking(text));
    let words: Vec<&str> = text.split_whitespace().take(TOPIC_WORDS).collect();
    let kept: String = words.join(" ").nfc().filter(|c| is_kept(*c)).collect();
    let words = kept.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = words.trim_matches(ends);
    if words.is_empty() { UNTITLED.to_owned() } else { words.to_owned() }
}

/// The name of a chat's file: when it began, in `tz`, and its topic, which is made from `text`. At most 100 bytes.
pub fn file_name(text: &str, epoch_ms: i64, tz: &TimeZone) -> String {
    let Ok(time) = Timestamp::from_millisecond(epoch_ms) else { return fallback_name(epoch_ms) };
    let local = tz.to_datetime(time);
    let (date, hour, minute, second) = (local.date(), local.hour(), local.minute(), local.second());
    let start = format!("{:04}{:02}{:02}_{hour:02}{minute:02}{second:02}__", date.year(), date.month(), date.day());
    let room = NAME_BYTES.saturating_sub(start.len() + ".md".len());
    if room < TOPIC_BYTES {
        return fallback_name(epoch_ms);
    }
    // A link to the file could not hold these.
    let topic = topic(text).replace(['#', '^'], "").replace(' ', "_");
    let topic = cut(&topic, room).trim_end_matches(['.', '_']);
    if topic.is_empty() { fallback_name(epoch_ms) } else { format!("{start}{topic}.md") }
}

/// The name for the file of another chat that would have the same `name`, told apart by a number.
pub fn numbered_name(name: &str, number: usize) -> String {
    let end = format!("_{number}.md");
    let stem = name.strip_suffix(".md").unwrap_or(name);
    format!("{}{end}", cut(stem, NAME_BYTES.saturating_sub(end.len())))
}

/// The name for a file system that refuses [`file_name`]'s.
pub fn fallback_name(epoch_ms: i64) -> String {
    format!("chat-{epoch_ms}.md")
}

/// Whether it can stand in a title. Control characters cannot, nor marks that turn the direction of text: they make one name look like
/// another.
fn is_shown(c: char) -> bool {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    !turns && (!c.is_control() || c.is_whitespace())
}

/// Whether every file system takes it in a name and a link can hold it as well.
fn is_safe(c: char) -> bool {
    let refused = matches!(c, '{' | '}' | '[' | ']' | '\\' | '/' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    !refused && is_shown(c)
}

/// `text` without `<think>` blocks; one that is not closed reaches to the end.
fn without_thinking(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once("<think>") {
        out.push_str(before);
        out.push(' ');
        rest = inside.split_once("</think>").map_or("", |(_, after)| after);
    }
    out + rest
}

/// `[[Note]]` as `Note`, `[[Note|words]]` as `words`.
fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once("[[") {
        out.push_str(before);
        let Some((link, after)) = inside.split_once("]]") else { return out + inside };
        out.push_str(link.rsplit_once('|').map_or(link, |(_, words)| words));
        rest = after;
    }
    out + rest
}

/// At most `bytes` of `text`, and no half of a character that is drawn as one.
fn cut(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let joins = |c: char| is_combining_mark(c) || matches!(c, '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}');
    let mut end = text.floor_char_boundary(bytes);
    loop {
        let (before, after) = text.split_at_checked(end).unwrap_or((text, ""));
        let Some(last) = before.chars().next_back() else { break };
        if !after.starts_with(joins) && last != '\u{200d}' {
            return before;
        }
        end -= last.len_utf8();
    }
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}
