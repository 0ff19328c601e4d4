//! The tools that a server says it has, as a catalog takes them. Everything in the list comes from outside.

use std::collections::BTreeMap;

use foreword_core::catalog::Tool;
use rmcp::model;
use serde_json::Value;

use crate::ServerConfig;

/// Most tools of one server.
pub(super) const MAX_TOOLS: usize = 1000;

/// Most refused tools that are named; a list may hold very many.
const MAX_REFUSED: usize = 20;

/// The longest name and description of a tool, in characters, and its largest schema, in bytes of JSON.
const MAX_NAME: usize = 128;
const MAX_DESCRIPTION: usize = 4000;
const MAX_SCHEMA: usize = 64 * 1024;

/// What is left of the list, by name, and what was left out and why.
pub(super) fn tools(config: &ServerConfig, listed: Vec<model::Tool>) -> (Vec<Tool>, Vec<String>) {
    let (mut tools, mut refused, mut more) = (BTreeMap::new(), Vec::new(), 0_usize);
    for listed in listed {
        let name = listed.name.to_string();
        match tool(config, listed) {
            Ok(tool) if !tools.contains_key(&name) && tools.len() < MAX_TOOLS => drop(tools.insert(name, tool)),
            Ok(_) if tools.len() == MAX_TOOLS => {
                refused.push(format!("it has more than {MAX_TOOLS} tools; the others are ignored"));
                break;
            }
            _ if refused.len() == MAX_REFUSED => more += 1,
            Err(why) => refused.push(format!("its tool {} is ignored: {why}", quoted(&name))),
            Ok(_) => refused.push(format!("its tool {} is listed twice; the first one is used", quoted(&name))),
        }
    }
    if more > 0 {
        refused.push(format!("{more} more of its tools are ignored"));
    }
    (tools.into_values().collect(), refused)
}

fn tool(config: &ServerConfig, listed: model::Tool) -> Result<Tool, String> {
    let name = listed.name.to_string();
    // What the protocol recommends; a name also goes to providers and terminals.
    let is_name = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.' | '/');
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_name) {
        return Err(format!("a name must have 1 to {MAX_NAME} letters, digits, or _ - . /"));
    }
    let schema = Value::Object(listed.input_schema.as_ref().clone());
    let size = foreword_core::json::to_string(&schema).len();
    if size > MAX_SCHEMA {
        return Err(format!("its schema has {size} bytes; the limit is {MAX_SCHEMA}"));
    }
    let set = config.tools.get(&name).copied().unwrap_or_default();
    let described = listed.description.as_deref().or(listed.title.as_deref());
    Ok(Tool {
        server: config.name.clone(),
        name,
        description: described.map(|text| paragraphs(text, MAX_DESCRIPTION)).filter(|text| !text.is_empty()),
        schema,
        include: set.include,
        permission: set.permission,
        read_only: listed.annotations.is_some_and(|hints| hints.read_only_hint == Some(true)),
    })
}

fn quoted(name: &str) -> String {
    format!("{:?}", line(name, MAX_NAME))
}

/// `text` as one line without control characters, at most so many characters.
pub(super) fn line(text: &str, longest: usize) -> String {
    let words = text.split(|char: char| char.is_whitespace() || char.is_control()).filter(|word| !word.is_empty());
    cut(words.collect::<Vec<_>>().join(" "), longest)
}

/// `text` without control characters except line breaks and tabs, at most so many characters.
pub(super) fn paragraphs(text: &str, longest: usize) -> String {
    let kept: String = text.chars().filter(|char| !char.is_control() || matches!(char, '\n' | '\t')).collect();
    cut(kept.trim().to_owned(), longest)
}

fn cut(mut text: String, longest: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(longest) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value)] // a table of cases reads better without ampersands
mod tests {
    use std::collections::BTreeMap;

    use foreword_core::catalog::{Include, Permission};
    use serde_json::json;

    use super::*;
    use crate::{ToolConfig, Transport};

    fn listed(tools: Value) -> (Vec<Tool>, Vec<String>) {
        let mut config = ServerConfig::new("s", Transport::Http { url: String::new(), headers: BTreeMap::new() });
        let set = ToolConfig { include: Some(Include::Manual), permission: Some(Permission::NotRequired) };
        config.tools.insert("set".to_owned(), set);
        super::tools(&config, serde_json::from_value(tools).unwrap())
    }

    #[test]
    fn lists_are_taken_as_far_as_they_can_be() {
        #[track_caller]
        fn check(tools: Value, expect: &[&str], refused: &[&str]) {
            let (tools, why) = listed(tools);
            assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), expect);
            assert_eq!(why, refused);
        }
        let schema = json!({"type": "object"});
        let tool = |name: &str| json!({"name": name, "inputSchema": schema});
        check(json!([tool("b"), tool("a.b/c-d_1")]), &["a.b/c-d_1", "b"], &[]);
        check(json!([tool("a"), tool("a")]), &["a"], &["its tool \"a\" is listed twice; the first one is used"]);
        check(
            json!([tool("a\u{1b}[2J")]),
            &[],
            &["its tool \"a [2J\" is ignored: a name must have 1 to 128 letters, digits, or _ - . /"],
        );
        check(json!([tool("")]), &[], &["its tool \"\" is ignored: a name must have 1 to 128 letters, digits, or _ - . /"]);
        let large = json!({"type": "object", "description": "x".repeat(70_000)});
        check(
            json!([{"name": "a", "inputSchema": large}]),
            &[],
            &["its tool \"a\" is ignored: its schema has 70034 bytes; the limit is 65536"],
        );
        let bad: Vec<_> = std::iter::repeat_n(tool(""), 100_000).chain([tool("late")]).collect();
        let (tools, why) = listed(bad.into());
        assert_eq!((tools.len(), why.len(), why[20].as_str()), (1, 21, "99980 more of its tools are ignored"));
        let many: Vec<_> = (0..1001).map(|n| tool(&format!("t{n:04}"))).collect();
        let (tools, why) = listed(many.into());
        assert_eq!(
            (tools.len(), why.as_slice()),
            (1000, &["it has more than 1000 tools; the others are ignored".to_owned()][..])
        );
    }

    #[test]
    fn descriptions_and_settings() {
        let (tools, _) = listed(json!([
            {"name": "set", "title": "T", "description": " a\u{1b}[31m\nb\u{7} ", "inputSchema": {}, "annotations": {"readOnlyHint": true}},
            {"name": "titled", "title": "T", "inputSchema": {}},
            {"name": "long", "description": "é".repeat(5000), "inputSchema": {}},
        ]));
        let [long, set, titled] = tools.as_slice() else { panic!("{tools:?}") };
        assert_eq!(set.description.as_deref(), Some("a[31m\nb"));
        assert_eq!((set.include, set.permission, set.read_only), (Some(Include::Manual), Some(Permission::NotRequired), true));
        assert_eq!((titled.description.as_deref(), titled.include, titled.read_only), (Some("T"), None, false));
        assert_eq!(long.description.as_ref().unwrap().chars().count(), 4001);
    }
}
