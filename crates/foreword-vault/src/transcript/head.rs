//! The frontmatter of a saved chat. It is read key by key instead of as one YAML document, because the lines we do not know go
//! back as they were, and one broken line (a topic with quotes in it) must not cost the others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::format;

const TAG: &str = "copilot-conversation";
/// A value longer than this is not read as YAML.
const YAML_LIMIT: usize = 16 << 10;

/// Frontmatter lines that mean nothing to us, kept as they are: other programs' keys, and the tags where there are more than the usual one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String")]
pub struct Extra(String);

impl From<String> for Extra {
    fn from(lines: String) -> Self {
        Self::new(&lines)
    }
}

impl Extra {
    /// What of `lines` is extra: the keys that a [`Transcript`](super::Transcript) has fields for are left out, and so are blank lines.
    pub fn new(lines: &str) -> Self {
        let end = (format!("\n{lines}").find("\n---")).unwrap_or(lines.len());
        read(lines.get(..end).unwrap_or_default()).extra
    }

    /// The lines.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn has(&self, key: &str) -> bool {
        self.0.lines().any(|line| key_of(line) == Some(key))
    }
}

/// What the frontmatter of a chat says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// The value of `epoch`, as it stands there.
    pub(super) epoch: Option<String>,
    pub(super) model: Option<String>,
    pub(super) topic: Option<String>,
    pub(super) last_accessed: Option<i64>,
    /// Whether the tags say that this is a chat.
    pub(super) tagged: bool,
    pub(super) extra: Extra,
}

/// Parts `text` into the lines of its frontmatter and what follows. As in obsidian-copilot, the first line that starts with `---` ends it; a
/// line that starts a message shows that there was none.
pub(super) fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("---")?;
    let start = rest.find('\n').filter(|at| format::all_blank(rest.get(..*at).unwrap_or_default()))? + "---\n".len();
    let mut at = start;
    for line in text.get(start..)?.split_inclusive('\n') {
        if line.starts_with("---") {
            return Some((text.get(start..at)?, text.get(at + "---".len()..)?));
        }
        if format::header(line.trim_end_matches('\n')).is_some() {
            return None;
        }
        at += line.len();
    }
    None
}

/// Reads the lines between the `---`.
pub(super) fn read(lines: &str) -> Head {
    let mut head = Head::default();
    let mut extra: Vec<String> = Vec::new();
    for (key, block) in blocks(lines) {
        let value = || scalar(key, &block).filter(|value| !value.is_empty());
        match key {
            "epoch" if head.epoch.is_none() => head.epoch = Some(value().unwrap_or_default()),
            "modelKey" if head.model.is_none() => head.model = value(),
            "topic" if head.topic.is_none() => head.topic = value(),
            "lastAccessedAt" if head.last_accessed.is_none() => head.last_accessed = value().and_then(|value| number(&value)),
            "epoch" | "modelKey" | "topic" | "lastAccessedAt" => {}
            "tags" => {
                head.tagged |= block.contains(TAG);
                if !is_usual(&block) {
                    extra.push(block);
                }
            }
            _ => extra.push(block),
        }
    }
    head.extra = Extra(extra.join("\n"));
    head
}

/// Writes the frontmatter, `---` lines included. Lines without a value stay blank, as obsidian-copilot leaves them.
pub(super) fn write(epoch: i64, model: Option<&str>, topic: Option<&str>, last_accessed: Option<i64>, extra: &Extra) -> String {
    let line = |key: &str, value: Option<String>| value.map(|value| format!("{key}: {value}")).unwrap_or_default();
    let mut lines = vec![
        "---".to_owned(),
        format!("epoch: {epoch}"),
        line("modelKey", model.map(quote)),
        line("topic", topic.map(quote)),
        line("lastAccessedAt", last_accessed.map(|time| time.to_string())),
    ];
    if !extra.0.is_empty() {
        lines.push(extra.0.clone());
    }
    if !extra.has("tags") {
        lines.push(format!("tags:\n  - {TAG}"));
    }
    lines.push("---\n".to_owned());
    lines.join("\n")
}

/// A whole number as people and programs write one; what is not finite or has no place in an `i64` is none.
pub(super) fn number(value: &str) -> Option<i64> {
    let value = value.trim();
    #[allow(clippy::cast_possible_truncation)] // the bounds are checked first
    let rounded = |value: f64| (value.is_finite() && value.abs() < 9e15).then_some(value as i64);
    value.parse().ok().or_else(|| value.parse().ok().and_then(rounded))
}

/// The key at the start of `line`, if it has one.
fn key_of(line: &str) -> Option<&str> {
    let (key, rest) = line.split_once(':')?;
    let plain = !key.is_empty() && !key.starts_with([' ', '\t', '-', '#']);
    (plain && (rest.is_empty() || rest.starts_with([' ', '\t']))).then_some(key.trim_end())
}

/// The lines in blocks: a key's line with the lines below that belong to it. A line with no key stands alone, under an empty key.
fn blocks(lines: &str) -> Vec<(&str, String)> {
    let mut blocks: Vec<(&str, String)> = Vec::new();
    let mut blank = 0;
    for line in lines.split('\n') {
        if format::all_blank(line) {
            blank += 1;
            continue;
        }
        let belongs = line.starts_with([' ', '\t']) || line == "-" || line.starts_with("- ");
        match blocks.last_mut() {
            Some((_, block)) if belongs => {
                block.extend(std::iter::repeat_n('\n', blank + 1));
                block.push_str(line);
            }
            // Nothing to belong to: a comment keeps it without taking it for a part of what is written above.
            None if belongs => blocks.push(("", format!("# {}", line.trim_start()))),
            _ => blocks.push((key_of(line).unwrap_or_default(), line.to_owned())),
        }
        blank = 0;
    }
    blocks
}

/// Whether a `tags` block says just what every chat says.
fn is_usual(block: &str) -> bool {
    let value = block.strip_prefix("tags:").unwrap_or(block);
    let value = trim_pair(value.trim(), '[', ']').unwrap_or_else(|| value.trim());
    let value = value.trim().strip_prefix("- ").unwrap_or(value).trim();
    value == TAG || trim_pair(value, '"', '"') == Some(TAG)
}

fn trim_pair(value: &str, open: char, close: char) -> Option<&str> {
    value.strip_prefix(open)?.strip_suffix(close)
}

/// The text of a block's value: what we write, else YAML, else what stands there without its quotes.
fn scalar(key: &str, block: &str) -> Option<String> {
    let raw = block.get(key.len()..)?.split_once(':')?.1.trim();
    if let Ok(text) = serde_json::from_str::<String>(raw) {
        return Some(text);
    }
    let yaml = |block: &str| serde_saphyr::from_str::<BTreeMap<String, Option<String>>>(block).ok();
    if block.len() <= YAML_LIMIT
        && let Some(mut fields) = yaml(block)
    {
        return fields.remove(key).flatten();
    }
    let bare = trim_pair(raw, '"', '"').or_else(|| trim_pair(raw, '\'', '\'')).unwrap_or(raw);
    Some(bare.to_owned())
}

/// A string in double quotes that is the same in JSON and YAML, on one line.
fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') => {
                let escaped = format!("\\u{:04x}", u32::from(c));
                out.push_str(&escaped);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
