//! The memory: a note in the vault that people can read and edit. It grows only when the user asks, and a session uses it as it was
//! at the session's beginning.

use std::path::Path;

use foreword_tools::write::{Change, NoteFolder, WriteError};
use foreword_vault::index::Vault;

/// Its path in a vault.
pub const FILE: &str = "Foreword/Memory.md";

/// The largest part that is sent, in bytes.
const MOST_BYTES: usize = 16 * 1024;

/// The longest entry in characters.
const MOST_LINE: usize = 2_000;

/// Why the memory cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The entry is empty.
    #[error("the text to remember is missing")]
    Empty,
    /// The entry is too long.
    #[error("an entry has at most {MOST_LINE} characters; put longer text into a note")]
    TooLong,
    /// There is no such entry.
    #[error("no entry {0}; the memory has {1}")]
    NotThere(usize, usize),
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The text of a memory file for a session; `None` if it is empty.
pub fn snapshot(text: &str) -> Option<String> {
    let end = text.floor_char_boundary(MOST_BYTES);
    let kept = text[..end].trim();
    (!kept.is_empty()).then(|| kept.to_owned())
}

/// The memory of a vault for a session.
pub fn of(vault: &Vault) -> Option<String> {
    vault.read(FILE).ok().and_then(|text| snapshot(&text.text))
}

/// The entries of a memory file, in order.
pub fn things(text: &str) -> Vec<&str> {
    text.lines().filter_map(thing).collect()
}

fn thing(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("- ").map(str::trim).filter(|thing| !thing.is_empty())
}

/// Adds an entry to the file's text. Line breaks become spaces.
pub fn with(text: &str, what: &str) -> Result<String, MemoryError> {
    let line = what.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.chars().count() {
        0 => Err(MemoryError::Empty),
        MOST_LINE.. => Err(MemoryError::TooLong),
        _ if text.is_empty() => Ok(format!("- {line}\n")),
        _ => Ok(format!("{}\n- {line}\n", text.trim_end())),
    }
}

/// Removes an entry, counted from 1, from the file's text.
pub fn without(text: &str, number: usize) -> Result<String, MemoryError> {
    let count = things(text).len();
    if number == 0 || number > count {
        return Err(MemoryError::NotThere(number, count));
    }
    let mut seen = 0;
    let kept = text.split_inclusive('\n').filter(|line| {
        let is_thing = thing(line).is_some();
        seen += usize::from(is_thing);
        !(is_thing && seen == number)
    });
    Ok(kept.collect())
}

/// The entries of a vault's memory.
pub fn read(root: &Path) -> Vec<String> {
    things(&text(root)).into_iter().map(str::to_owned).collect()
}

/// Adds an entry.
pub fn remember(notes: &NoteFolder, what: &str) -> Result<(), MemoryError> {
    write(notes, &with(&text(notes.root()), what)?)
}

/// Removes an entry, counted from 1.
pub fn forget(notes: &NoteFolder, number: usize) -> Result<(), MemoryError> {
    write(notes, &without(&text(notes.root()), number)?)
}

fn text(root: &Path) -> String {
    std::fs::read_to_string(root.join(FILE)).unwrap_or_default()
}

fn write(notes: &NoteFolder, text: &str) -> Result<(), MemoryError> {
    let change = if notes.root().join(FILE).exists() { Change::Replace(text) } else { Change::Create(text) };
    Ok(notes.prepare(FILE, &change)?.apply()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_come_and_go() {
        let file = with("", "I bake\non Sundays").unwrap();
        assert_eq!(file, "- I bake on Sundays\n");
        let file = with(&file, "Metric units").unwrap();
        let file = format!("# About me\n\n{file}");
        assert_eq!(things(&file), ["I bake on Sundays", "Metric units"]);
        assert_eq!(without(&file, 1).unwrap(), "# About me\n\n- Metric units\n");
        assert!(matches!(without(&file, 3), Err(MemoryError::NotThere(3, 2))));
        assert!(matches!(with("", " \n"), Err(MemoryError::Empty)));
        assert!(matches!(with("", &"x".repeat(3000)), Err(MemoryError::TooLong)));
        assert_eq!(snapshot(" \n"), None);
        assert_eq!(snapshot(&"ä".repeat(MOST_BYTES)).unwrap().len(), MOST_BYTES);
    }
}
