//! Accepted tools of a server: name, description and schema. A server can change its tools at any time, and models read their
//! descriptions, so a changed tool is shown to the user first.

use std::collections::BTreeMap;

use foreword_core::catalog::Tool;
use foreword_core::hash::Hash;
use foreword_core::json;
use foreword_text::diff;
use serde_json::Value;

/// A tool as the user accepted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedTool {
    /// Its name, description, schema and whether it is read-only, as JSON with sorted keys.
    pub text: String,
    /// The hash of the text, in hexadecimal digits.
    pub sha256: String,
}

impl PinnedTool {
    /// The current state of a tool.
    pub fn of(tool: &Tool) -> Self {
        Self::from_text(json::to_string(&serde_json::json!({
            "name": tool.name,
            "description": tool.description,
            "schema": tool.schema,
            "read_only": tool.read_only,
        })))
    }

    /// A tool from its stored text.
    pub fn from_text(text: String) -> Self {
        Self { sha256: Hash::of(&text).to_string(), text }
    }

    /// `tool` with the accepted description and schema; `None` if the text is invalid.
    pub(crate) fn shown_as(&self, tool: &Tool) -> Option<Tool> {
        let pinned: Value = serde_json::from_str(&self.text).ok()?;
        Some(Tool {
            description: pinned.get("description")?.as_str().map(str::to_owned),
            schema: pinned.get("schema")?.clone(),
            read_only: pinned.get("read_only")?.as_bool()?,
            ..tool.clone()
        })
    }

    /// A readable form, line by line.
    fn readable(&self) -> String {
        let Ok(pinned) = serde_json::from_str::<Value>(&self.text) else { return self.text.clone() };
        let field = |name: &str| pinned.get(name).cloned().unwrap_or_default();
        format!(
            "read-only: {}\ndescription:\n{}\narguments:\n{}\n",
            field("read_only"),
            field("description").as_str().unwrap_or("(none)"),
            serde_json::to_string_pretty(&field("schema")).unwrap_or_default(),
        )
    }
}

/// The difference between two states of a tool as a unified diff; `old` is `None` for a new tool.
pub(crate) fn change(name: &str, old: Option<&PinnedTool>, new: &PinnedTool) -> String {
    let (before, after) = (old.map(PinnedTool::readable).unwrap_or_default(), new.readable());
    diff::unified(&before, &after, name).unwrap_or_else(|| format!("(too large to compare; this is the new tool)\n{after}"))
}

/// The store of accepted tools of one vault. It forgets a server whose configuration changed.
pub trait Pins: Send {
    /// Whether any tool of the server was accepted before; its first tools are accepted together with the server.
    fn knows(&self, server: &str) -> bool;

    /// The accepted state of a tool.
    fn get(&self, server: &str, tool: &str) -> Option<PinnedTool>;

    /// Whether the user still allows the server; checked before each call, because the decision can be revoked while it is running.
    fn may_run(&self, server: &str) -> bool;

    /// Stores an accepted tool.
    fn put(&mut self, server: &str, tool: &str, pinned: PinnedTool);
}

/// Accepted tools that are kept in memory only.
#[derive(Clone, Debug, Default)]
pub struct SessionPins(BTreeMap<String, BTreeMap<String, PinnedTool>>);

impl Pins for SessionPins {
    fn knows(&self, server: &str) -> bool {
        self.0.contains_key(server)
    }

    fn get(&self, server: &str, tool: &str) -> Option<PinnedTool> {
        self.0.get(server)?.get(tool).cloned()
    }

    fn may_run(&self, _: &str) -> bool {
        true
    }

    fn put(&mut self, server: &str, tool: &str, pinned: PinnedTool) {
        self.0.entry(server.to_owned()).or_default().insert(tool.to_owned(), pinned);
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value)] // a table of cases reads better without ampersands
mod tests {
    use foreword_core::catalog::Permission;
    use serde_json::json;

    use super::*;

    fn tool(description: &str, schema: Value) -> Tool {
        Tool {
            server: "s".into(),
            name: "t".into(),
            description: Some(description.into()),
            schema,
            include: None,
            permission: None,
            read_only: true,
        }
    }

    #[test]
    fn a_pin_holds_what_a_model_and_a_person_read() {
        let old = tool("Reads.\nTwice.", json!({"type": "object", "properties": {"b": {}, "a": {"type": "string"}}}));
        let pinned = PinnedTool::of(&old);
        assert_eq!(pinned, PinnedTool::from_text(pinned.text.clone()));
        assert_eq!(pinned.shown_as(&tool("Poison.", json!({}))), Some(old.clone()));
        let same = |tool: Tool| PinnedTool::of(&tool).sha256 == pinned.sha256;
        assert!(same(old.clone()));
        assert!(
            same(Tool { permission: Some(Permission::Required), ..old.clone() }),
            "a setting is the user's, not the server's"
        );
        assert!(!same(Tool { name: "u".into(), ..old.clone() }));
        assert!(!same(Tool { description: None, ..old.clone() }));
        assert!(!same(Tool { description: Some("Reads.\nTwice. ".into()), ..old.clone() }));
        assert!(!same(Tool { schema: json!({"type": "object"}), ..old.clone() }));
        assert!(!same(Tool { read_only: false, ..old }));
        assert_eq!(PinnedTool::from_text("{".to_owned()).shown_as(&tool("", json!({}))), None);
    }

    #[test]
    fn a_change_is_shown_line_by_line() {
        let old = PinnedTool::of(&tool("Reads.\nTwice.", json!({"type": "object"})));
        let new = PinnedTool::of(&tool("Reads.\nSends keys.", json!({"type": "object"})));
        let shown = change("s/t", Some(&old), &new);
        assert!(shown.contains("\n-Twice.\n+Sends keys.\n"), "{shown}");
        let shown = change("s/t", None, &new);
        assert!(shown.contains("+Sends keys.\n") && !shown.contains("\n-"), "{shown}");
    }
}
