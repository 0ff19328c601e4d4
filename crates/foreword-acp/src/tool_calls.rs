//! Tool calls as a client shows them: a title, a kind, the files they are about, and what they would change.

use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

use crate::backend::text;

/// The longest title in characters.
const MOST_TITLE: usize = 120;

/// A tool call that begins.
pub(crate) fn begun(call: &Value, root: &Path) -> Value {
    let (name, arguments) = (text(call, "name"), &call["arguments"]);
    json!({
        "sessionUpdate": "tool_call", "toolCallId": text(call, "id"), "title": title(name, arguments), "kind": kind(name),
        "status": "in_progress", "locations": locations(arguments, root), "rawInput": arguments,
    })
}

/// A tool call that has ended.
pub(crate) fn ended(result: &Value) -> Value {
    let status = if result["failed"] == json!(true) { "failed" } else { "completed" };
    json!({
        "sessionUpdate": "tool_call_update", "toolCallId": text(result, "id"), "status": status, "content": [shown(text(result, "text"))],
    })
}

/// The notes that a search found.
pub(crate) fn found(id: &str, sources: &Value, root: &Path) -> Value {
    let sources = sources.as_array().map(Vec::as_slice).unwrap_or_default();
    let locations: Vec<Value> =
        sources.iter().filter_map(|source| location(text(source, "path"), root)).map(|path| json!({"path": path})).collect();
    let lines =
        sources.iter().map(|source| format!("[{}] {} {}", source["number"], text(source, "path"), text(source, "heading")));
    json!({
        "sessionUpdate": "tool_call", "toolCallId": id, "title": format!("Found {} passages in the notes", sources.len()), "kind": "search",
        "status": "completed", "locations": locations, "content": [shown(&lines.collect::<Vec<_>>().join("\n"))],
    })
}

/// A tool call that waits for permission, with the change it would make. `old` is the text of the note as it is.
pub(crate) fn asked(id: &str, question: &Value, old: Option<&str>, root: &Path) -> Value {
    let arguments = &question["arguments"];
    let name = text(question, "tool").rsplit('/').next().unwrap_or_default();
    let preview = text(question, "preview");
    let diff = (name == "writeNote").then(|| diff(text(arguments, "path"), old, preview, root)).flatten();
    let mut content: Vec<Value> = diff.into_iter().collect();
    if content.is_empty() && !preview.is_empty() {
        content.push(shown(&format!("```diff\n{preview}\n```")));
    }
    let change = text(question, "change");
    if !change.is_empty() {
        content.push(shown(&format!("This tool has changed since you allowed it:\n```diff\n{change}\n```")));
    }
    json!({
        "toolCallId": id, "title": title(name, arguments), "kind": kind(name), "status": "pending",
        "locations": locations(arguments, root), "rawInput": arguments, "content": content,
    })
}

fn shown(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": text}})
}

/// A title that says what a call does.
pub(crate) fn title(name: &str, arguments: &Value) -> String {
    let of = |key: &str| text(arguments, key).to_owned();
    let title = match plain(name) {
        "readNote" => format!("Read {}", of("path")),
        "localSearch" => format!("Search the notes: {}", of("query")),
        "recall" => format!("Recall {}{}", of("query"), of("id")),
        "getFileTree" => "List the notes".to_owned(),
        "writeNote" => format!("Write {}", of("path")),
        "webFetch" => format!("Fetch {}", of("url")),
        "readOutput" => "Read an earlier output".to_owned(),
        other => other.to_owned(),
    };
    title.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MOST_TITLE).collect()
}

/// The name of a tool without its server.
fn plain(name: &str) -> &str {
    name.rsplit(['/', '.']).next().unwrap_or(name).rsplit("__").next().unwrap_or(name)
}

fn kind(name: &str) -> &'static str {
    match plain(name) {
        "readNote" | "readOutput" | "getFileTree" => "read",
        "localSearch" | "recall" => "search",
        "writeNote" => "edit",
        "webFetch" => "fetch",
        _ => "other",
    }
}

fn locations(arguments: &Value, root: &Path) -> Vec<Value> {
    location(text(arguments, "path"), root).into_iter().map(|path| json!({"path": path})).collect()
}

/// A file of the vault. Names that are not paths below the vault have no location.
fn location(path: &str, root: &Path) -> Option<PathBuf> {
    let path = Path::new(path);
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_))) && path.extension().is_some();
    is_below.then(|| root.join(path))
}

/// The change of a note, from the unified diff that is asked about.
fn diff(path: &str, old: Option<&str>, unified: &str, root: &Path) -> Option<Value> {
    let new = applied(old.unwrap_or_default(), unified)?;
    Some(json!({"type": "diff", "path": location(path, root)?, "oldText": old, "newText": new}))
}

/// Applies a unified diff; `None` if it does not fit the text.
fn applied(old: &str, diff: &str) -> Option<String> {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let (mut out, mut at) = (String::new(), 0);
    let mut lines = diff.split_inclusive('\n').skip_while(|line| !line.starts_with("@@")).peekable();
    lines.peek()?;
    while let Some(line) = lines.next() {
        let is_last = lines.peek().is_some_and(|next| next.starts_with('\\'));
        let body = |line: &str| -> Option<String> {
            let body = line.get(1..)?;
            Some(if is_last { body.trim_end_matches('\n').to_owned() } else { body.to_owned() })
        };
        match line.as_bytes().first()? {
            b'@' => {
                let range = line.split_whitespace().nth(1)?.strip_prefix('-')?;
                let (start, length) = range.split_once(',').unwrap_or((range, "1"));
                let start: usize = start.parse().ok()?;
                let start = if length == "0" { start } else { start.checked_sub(1)? };
                out.extend(old.get(at..start)?.iter().copied());
                at = start;
            }
            b' ' => {
                (old.get(at).map(|old| old.trim_end()) == Some(body(line)?.trim_end())).then_some(())?;
                out.push_str(&body(line)?);
                at += 1;
            }
            b'-' => {
                (old.get(at).map(|old| old.trim_end()) == Some(body(line)?.trim_end())).then_some(())?;
                at += 1;
            }
            b'+' => out.push_str(&body(line)?),
            b'\\' => {}
            _ => return None,
        }
    }
    out.extend(old.get(at..)?.iter().copied());
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diffs_are_applied_or_refused() {
        let check = |old: &str, diff: &str, expect: Option<&str>| assert_eq!(applied(old, diff).as_deref(), expect, "{diff}");
        check("a\nb\nc\n", "--- n\n+++ n\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", Some("a\nB\nc\n"));
        check("", "--- n\n+++ n\n@@ -0,0 +1,2 @@\n+x\n+y\n", Some("x\ny\n"));
        check("a\n", "--- n\n+++ n\n@@ -1 +1,2 @@\n a\n+b\n\\ No newline at end of file\n", Some("a\nb"));
        check("other\n", "--- n\n+++ n\n@@ -1,1 +1,1 @@\n-b\n+B\n", None);
        check("a\n", "no diff", None);
        check("a\n", "@@ -9,1 +9,1 @@\n-a\n+b\n", None);
    }

    #[test]
    fn locations_stay_in_the_vault() {
        let root = Path::new("/vault");
        let check = |path: &str, expect: Option<&str>| {
            assert_eq!(location(path, root), expect.map(PathBuf::from), "{path}");
        };
        check("Kitchen/Bread.md", Some("/vault/Kitchen/Bread.md"));
        check("../etc/passwd.md", None);
        check("/etc/passwd.md", None);
        check("Bread", None);
        check("", None);
    }

    #[test]
    fn titles() {
        let arguments = serde_json::json!({"path": "A\nB.md", "query": "flat loaf"});
        assert_eq!(title("readNote", &arguments), "Read A B.md");
        assert_eq!(title("foreword__localSearch", &arguments), "Search the notes: flat loaf");
        assert_eq!(title("weather/forecast", &arguments), "forecast");
    }
}
