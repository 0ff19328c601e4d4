//! What is done to a note's text.

use super::path::NotePath;
use super::{MAX_NOTE, WriteError};

/// What is done to a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// It is made, and was not there before.
    Create(&'a str),
    /// All of its text is replaced.
    Replace(&'a str),
    /// Lines come at its end; a note that was not there is made.
    Append(&'a str),
    /// One passage of it is replaced.
    Passage {
        /// The passage, which is there exactly once.
        find: &'a str,
        /// What takes its place.
        replace: &'a str,
    },
}

impl Change<'_> {
    /// What the note's text becomes.
    pub(super) fn applied(&self, path: &NotePath, old: Option<&str>) -> Result<String, WriteError> {
        let new = match (*self, old) {
            (Self::Create(_), Some(_)) => {
                return Err(WriteError::Exists { path: path.to_string(), existing: path.to_string() });
            }
            (Self::Replace(_) | Self::Passage { .. }, None) => return Err(WriteError::Missing { path: path.to_string() }),
            (Self::Create(text) | Self::Append(text), None) => ended(text.to_owned()),
            (Self::Replace(text), Some(old)) => ended(in_style_of(old, text)),
            (Self::Append(text), Some(old)) => ended(ended(old.to_owned()) + &in_style_of(old, text)),
            (Self::Passage { find, replace }, Some(old)) => {
                let find = in_style_of(old, find);
                let times = if find.is_empty() { 0 } else { old.matches(&find).count() };
                if times != 1 {
                    let advice =
                        if times == 0 { "copy it exactly as the note has it" } else { "give more of the text around it" };
                    return Err(WriteError::Passage { path: path.to_string(), times, advice });
                }
                old.replacen(&find, &in_style_of(old, replace), 1)
            }
        };
        if new.len() > MAX_NOTE {
            return Err(WriteError::TooLarge { path: path.to_string(), bytes: new.len() });
        }
        if old == Some(new.as_str()) {
            return Err(WriteError::Same { path: path.to_string() });
        }
        let written = match *self {
            Self::Create(text) | Self::Replace(text) | Self::Append(text) => text,
            Self::Passage { replace, .. } => replace,
        };
        // Whoever prints the note on a terminal must not be told what to do by it.
        if written.chars().any(|char| char.is_control() && !matches!(char, '\n' | '\r' | '\t')) {
            return Err(WriteError::Text {
                path: path.to_string(),
                why: "the text holds control characters; a note is plain text",
            });
        }
        Ok(new)
    }
}

/// With the line breaks that the note has.
fn in_style_of(old: &str, text: &str) -> String {
    if old.contains("\r\n") && !text.contains("\r\n") { text.replace('\n', "\r\n") } else { text.to_owned() }
}

/// With a line break at its end.
fn ended(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push_str(if text.contains("\r\n") { "\r\n" } else { "\n" });
    }
    text
}
