//! Tool calls as a client shows them: a title, a kind, the files they are about, and what they would change.

use std::path::{Component, Path, PathBuf};

use agent_client_protocol::v1::schema::{
    Content, ContentBlock, Diff, TextContent, ToolCall, ToolCallContent, ToolCallLocation, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind,
};
use serde_json::Value;

use crate::backend::text;

/// The longest title in characters.
const MOST_TITLE: usize = 120;

/// A tool call that begins.
pub(crate) fn begun(call: &Value, root: &Path) -> ToolCall {
    let (name, arguments) = (text(call, "name"), &call["arguments"]);
    let mut begun = ToolCall::new(text(call, "id"), title(name, arguments));
    begun.name = Some(name.to_owned());
    begun.kind = kind(name);
    begun.status = ToolCallStatus::InProgress;
    begun.locations = locations(arguments, root);
    begun.raw_input = Some(arguments.clone());
    begun
}

/// A tool call that has ended.
pub(crate) fn ended(result: &Value) -> ToolCallUpdate {
    let mut fields = ToolCallUpdateFields::default();
    let failed = result["failed"] == Value::Bool(true);
    fields.status = Some(if failed { ToolCallStatus::Failed } else { ToolCallStatus::Completed });
    fields.content = Some(vec![shown(text(result, "text"))]);
    ToolCallUpdate::new(text(result, "id"), fields)
}

/// The notes that a search found.
pub(crate) fn found(id: &str, sources: &Value, root: &Path) -> ToolCall {
    let sources = sources.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut call = ToolCall::new(id, format!("Found {} passages in the notes", sources.len()));
    call.kind = ToolKind::Search;
    call.status = ToolCallStatus::Completed;
    call.locations = sources.iter().filter_map(|source| location(text(source, "path"), root)).collect();
    let lines = sources.iter().map(|source| format!("[{}] {} {}", source["number"], text(source, "path"), text(source, "heading")));
    call.content = vec![shown(&lines.collect::<Vec<_>>().join("\n"))];
    call
}

/// A tool call that waits for permission, with the change it would make. `old` is the text of the note as it is.
pub(crate) fn asked(id: &str, question: &Value, old: Option<&str>, root: &Path) -> ToolCallUpdate {
    let arguments = &question["arguments"];
    let name = text(question, "tool").rsplit('/').next().unwrap_or_default();
    let mut fields = ToolCallUpdateFields::default();
    fields.title = Some(title(name, arguments));
    fields.kind = Some(kind(name));
    fields.status = Some(ToolCallStatus::Pending);
    fields.locations = Some(locations(arguments, root));
    fields.raw_input = Some(arguments.clone());
    let preview = text(question, "preview");
    let diff = (name == "writeNote").then(|| diff(text(arguments, "path"), old, preview, root)).flatten();
    let mut content: Vec<ToolCallContent> = diff.map(ToolCallContent::Diff).into_iter().collect();
    if content.is_empty() && !preview.is_empty() {
        content.push(shown(&format!("```diff\n{preview}\n```")));
    }
    let change = text(question, "change");
    if !change.is_empty() {
        content.push(shown(&format!("This tool has changed since you allowed it:\n```diff\n{change}\n```")));
    }
    fields.content = Some(content);
    ToolCallUpdate::new(id, fields)
}

fn shown(text: &str) -> ToolCallContent {
    ToolCallContent::Content(Content::new(ContentBlock::Text(TextContent::new(text))))
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

fn kind(name: &str) -> ToolKind {
    match plain(name) {
        "readNote" | "readOutput" | "getFileTree" => ToolKind::Read,
        "localSearch" | "recall" => ToolKind::Search,
        "writeNote" => ToolKind::Edit,
        "webFetch" => ToolKind::Fetch,
        _ => ToolKind::Other,
    }
}

fn locations(arguments: &Value, root: &Path) -> Vec<ToolCallLocation> {
    location(text(arguments, "path"), root).into_iter().collect()
}

/// A file of the vault. Names that are not paths below the vault have no location.
fn location(path: &str, root: &Path) -> Option<ToolCallLocation> {
    let path = Path::new(path);
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_))) && path.extension().is_some();
    is_below.then(|| ToolCallLocation::new(root.join(path)))
}

/// The change of a note, from the unified diff that is asked about.
fn diff(path: &str, old: Option<&str>, unified: &str, root: &Path) -> Option<Diff> {
    let path: PathBuf = location(path, root)?.path;
    let mut diff = Diff::new(path, applied(old.unwrap_or_default(), unified)?);
    diff.old_text = old.map(str::to_owned);
    Some(diff)
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
            assert_eq!(location(path, root).map(|location| location.path), expect.map(PathBuf::from), "{path}");
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
