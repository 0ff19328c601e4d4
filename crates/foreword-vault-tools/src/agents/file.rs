//! The file of a rule or reference: frontmatter that is changed line by line, so that everything else in it stays as a person wrote it.

use std::io;

use foreword_core::catalog::{Entry, Include, Priority};
use foreword_vault::agents::{Files, Listed, OnDisk};

/// What is to become of an item. What is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// What the model is told.
    pub text: Option<String>,
    /// What it is about; an empty one is none.
    pub description: Option<String>,
    /// How it may come in.
    pub include: Option<Include>,
    /// Its place in the order.
    pub priority: Option<Priority>,
}

const FENCE: &str = "---";

/// The text of a file that holds `entry` once it is changed, and what it then is to say.
pub(super) fn edited(old: &str, entry: &Entry, change: &Change) -> (String, Entry) {
    let text = change.text.as_ref().map(|text| text.replace("\r\n", "\n").trim().to_owned());
    let described = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let meant = Entry {
        text: text.unwrap_or_else(|| entry.text.clone()),
        description: change.description.as_ref().map_or_else(|| entry.description.clone(), described),
        include: change.include.unwrap_or(entry.include),
        priority: change.priority.unwrap_or(entry.priority),
        ..entry.clone()
    };
    let end = if old.contains("\r\n") { "\r\n" } else { "\n" };
    let (mark, rest) = old.strip_prefix('\u{feff}').map_or(("", old), |rest| ("\u{feff}", rest));
    let (mut front, body) = split(rest);
    if meant.description != entry.description {
        // JSON's way to write a string is one of YAML's.
        let value = meant.description.as_ref().and_then(|text| serde_json::to_string(text).ok());
        set(&mut front, "description", value.as_deref(), end);
    }
    let is_new = old.is_empty();
    if is_new || meant.include != entry.include {
        set(&mut front, "include", Some(word(meant.include)), end);
    }
    if is_new || meant.priority != entry.priority {
        set(&mut front, "priority", Some(&meant.priority.get().to_string()), end);
    }
    let body = if meant.text == entry.text { body.to_owned() } else { format!("{}{end}", meant.text.replace('\n', end)) };
    let front = if front.is_empty() { String::new() } else { format!("{FENCE}{end}{}{FENCE}{end}", front.concat()) };
    let mut new = format!("{mark}{front}{body}");
    if new != old && !new.ends_with('\n') {
        new.push_str(end);
    }
    (new, meant)
}

/// The word for a mode in a file.
pub(super) fn word(include: Include) -> &'static str {
    match include {
        Include::Always => "always",
        Include::Manual => "manual",
        Include::Agent => "agent",
    }
}

/// The lines of the frontmatter, with their ends, and what stands behind it.
fn split(text: &str) -> (Vec<String>, &str) {
    let bare = |line: &str| line.trim_end_matches(['\r', '\n']) == FENCE;
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| bare(line)) else { return (Vec::new(), text) };
    let (mut front, mut at) = (Vec::new(), first.len());
    for line in lines {
        at += line.len();
        if bare(line) {
            return (front, &text[at..]);
        }
        front.push(line.to_owned());
    }
    (Vec::new(), text)
}

/// Gives a key of the frontmatter a value, or takes it out.
fn set(front: &mut Vec<String>, key: &str, value: Option<&str>, end: &str) {
    let is_key = |line: &String| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':'));
    let mut place = front.len();
    while let Some(at) = front.iter().rposition(is_key) {
        // A value may go on over the lines below.
        let more = front[at + 1..].iter().take_while(|line| line.starts_with([' ', '\t']) || line.trim().is_empty());
        let more: Vec<bool> = more.map(|line| !line.trim().is_empty()).collect();
        let last = more.iter().rposition(|said| *said).map_or(at, |said| at + 1 + said);
        front.drain(at..=last);
        place = at;
    }
    if let Some(value) = value {
        front.insert(place, format!("{key}: {value}{end}"));
    }
}

/// A vault in which one file has another text.
pub(super) struct With<'a> {
    pub(super) disk: &'a OnDisk,
    pub(super) path: &'a str,
    pub(super) text: &'a str,
}

impl Files for With<'_> {
    fn read(&self, path: &str) -> io::Result<String> {
        if path == self.path { Ok(self.text.to_owned()) } else { self.disk.read(path) }
    }

    fn list(&self, folder: &str) -> io::Result<Vec<Listed>> {
        let listed = self.disk.list(folder);
        match self.path.rsplit_once('/') {
            Some((parent, name)) if parent == folder => {
                let mut listed = listed.unwrap_or_default();
                if !listed.iter().any(|listed| listed.name == name) {
                    listed.push(Listed { name: name.to_owned(), folder: false });
                    listed.sort();
                }
                Ok(listed)
            }
            _ => listed,
        }
    }
}
