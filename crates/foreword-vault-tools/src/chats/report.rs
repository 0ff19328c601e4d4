//! What `foreword import --json` and `foreword export --json` print: a contract with programs outside the project.

use std::collections::BTreeSet;

use foreword_vault::transcript::{Context, Entry, Role, Warning};
use serde::Serialize;

use super::Imported;

/// One chat that was taken in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChatReport<'a> {
    /// The file, as it was named.
    pub file: &'a str,
    /// The Session it became.
    pub session: &'a str,
    /// What it is about.
    pub topic: String,
    /// What was said.
    pub messages: Vec<MessageReport<'a>>,
    /// What its reader should know.
    pub warnings: &'a [Warning],
}

impl<'a> ChatReport<'a> {
    /// Of `imported`, which became `session`.
    pub fn new(imported: &'a Imported, session: &'a str) -> Self {
        Self {
            file: &imported.file,
            session,
            topic: imported.transcript.title(),
            messages: messages(&imported.transcript.messages),
            warnings: &imported.warnings,
        }
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MessageReport<'a> {
    /// `user` or `assistant`.
    pub role: Role,
    /// The words.
    pub text: &'a str,
    /// RFC 3339 in UTC, with three decimals.
    pub time: Option<String>,
    /// What was attached.
    pub context: ContextReport<'a>,
}

/// What was attached to a message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContextReport<'a> {
    /// Paths in the vault.
    pub notes: &'a [String],
    /// Pages, those open in a browser last; each once.
    pub urls: Vec<&'a str>,
    /// Tags.
    pub tags: &'a [String],
    /// Folders.
    pub folders: &'a [String],
}

impl<'a> From<&'a Context> for ContextReport<'a> {
    fn from(context: &'a Context) -> Self {
        let mut seen = BTreeSet::new();
        let urls = context.urls.iter().chain(&context.web_tabs).map(String::as_str).filter(|url| seen.insert(*url)).collect();
        Self { notes: &context.notes, urls, tags: &context.tags, folders: &context.folders }
    }
}

/// The messages of a Session.
pub fn messages(entries: &[Entry]) -> Vec<MessageReport<'_>> {
    let messages = entries.iter().map(|entry| MessageReport {
        role: entry.role,
        text: &entry.text,
        time: entry.time.map(|time| format!("{time:.3}")),
        context: ContextReport::from(&entry.context),
    });
    messages.collect()
}
