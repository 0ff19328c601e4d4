//! obsidian-copilot's reading of a saved chat, made again from its description, to test that what we write is read there as meant.

use super::super::{Context, Role};

#[derive(Debug, PartialEq)]
pub(super) struct Message {
    pub(super) role: Role,
    pub(super) text: String,
    pub(super) time: String,
    pub(super) context: Context,
}

/// JavaScript's notion of white space.
pub(super) fn js_trim(text: &str) -> &str {
    text.trim_matches(|c: char| (c.is_whitespace() && c != '\u{85}') || c == '\u{feff}')
}

pub(super) fn read(file: &str) -> Vec<Message> {
    let body = file.strip_prefix("---\n").and_then(|rest| Some(js_trim(&rest[rest.find("\n---")? + 4..])));
    let mut rest = body.unwrap_or(file);
    let mut messages = Vec::new();
    // The first header may stand anywhere; each next one is the first after a line end.
    while let Some((at, role, marker)) = first_marker(rest) {
        let words = &rest[at + marker..];
        let end = ["\n**user**: ", "\n**ai**: "].iter().filter_map(|next| words.find(next)).min().unwrap_or(words.len());
        messages.push(message(role, js_trim(&words[..end])));
        rest = &words[end..];
    }
    messages
}

fn first_marker(text: &str) -> Option<(usize, Role, usize)> {
    let markers = [("**user**: ", Role::User), ("**ai**: ", Role::Assistant)];
    markers.iter().filter_map(|(marker, role)| Some((text.find(marker)?, *role, marker.len()))).min()
}

fn message(role: Role, words: &str) -> Message {
    let mut lines: Vec<&str> = words.split('\n').collect();
    // A `.` of theirs is any character but the end of a line.
    let is_line = |text: &&str| !text.contains(['\r', '\u{2028}', '\u{2029}']);
    let inner = |line: &str, start: &str| Some(line.strip_prefix(start)?.split_once(']')?.0).filter(is_line).map(str::to_owned);
    let mut take = |start: &str| {
        let found = lines.last().and_then(|line| inner(line, start));
        if found.is_some() {
            lines.pop();
        }
        found
    };
    let time = take("[Timestamp: ").unwrap_or_else(|| "Unknown time".to_owned());
    let context = take("[Context: ").map(|line| context(&line)).unwrap_or_default();
    let mut text = js_trim(&lines.join("\n")).to_owned();
    if role == Role::Assistant {
        text = ai_text(&text);
    }
    Message { role, text, time, context }
}

/// What their program makes of an answer: no tool or reasoning comments, at most one blank line in a row.
pub(super) fn ai_text(text: &str) -> String {
    let mut text = super::super::format::without_comments(text).unwrap_or_else(|| text.to_owned());
    while text.contains("\n\n\n") {
        text = text.replace("\n\n\n", "\n\n");
    }
    js_trim(&text).to_owned()
}

fn context(line: &str) -> Context {
    let mut context = Context::default();
    for part in line.split(" | ").map(js_trim) {
        let names = |names: &str| names.split(", ").map(|name| js_trim(name).to_owned()).collect();
        match part.split_once(": ") {
            Some(("Notes", list)) => context.notes = names(list),
            Some(("URLs", list)) => context.urls = names(list),
            Some(("Web Tabs" | "WebTabs", list)) => context.web_tabs = names(list),
            Some(("Tags", list)) => context.tags = names(list),
            Some(("Folders", list)) => context.folders = names(list),
            _ => {}
        }
    }
    context
}
