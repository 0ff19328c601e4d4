//! Resolves the tool name in a model's call, if the request allowed that tool.

use foreword_core::catalog::Agent;
use foreword_core::item::ItemId;
use foreword_core::message::ToolCall;
use foreword_core::prompt::{ToolPlan, ToolStyle, USE_TOOL};
use serde_json::{Map, Value};

use crate::dialect::Dialect;
use crate::dialect::names::wire_name;

/// A resolved tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedCall {
    /// The tool.
    pub tool: ItemId,
    /// The arguments: an object, unless the model made an error.
    pub arguments: Value,
}

/// The tool of a call. The error is worded for the model and lists allowed tools.
pub fn resolve(agent: &Agent, dialect: Dialect, tools: &ToolPlan, call: &ToolCall) -> Result<ResolvedCall, String> {
    let (name, arguments) = match (tools.style, &call.arguments) {
        (ToolStyle::UseTool, Value::Object(given)) if call.name == USE_TOOL => {
            let name = given.get("name").and_then(Value::as_str);
            let name = name.ok_or_else(|| format!("{USE_TOOL} needs the name of a tool. {}", choice(tools)))?;
            (name, given.get("arguments").cloned().unwrap_or_default())
        }
        (_, arguments) => (call.name.as_str(), arguments.clone()),
    };
    let names = agent.wire_names();
    // With `useTool` a model reads the names themselves; in a list it reads what the dialect made of them.
    let found = names.iter().find(|(_, wire)| wire.as_str() == name || wire_name(dialect, wire) == name);
    let Some((tool, wire)) = found else {
        return Err(format!("There is no tool {}. {}", quoted(name), choice(tools)));
    };
    if !tools.allowed.contains(wire) {
        return Err(format!("The tool {} was not chosen for this request. {}", quoted(name), choice(tools)));
    }
    Ok(ResolvedCall { tool: tool.clone(), arguments: object(arguments) })
}

/// Some models write arguments as text, or omit empty ones.
fn object(arguments: Value) -> Value {
    match arguments {
        Value::Null => Value::Object(Map::new()),
        Value::String(text) if text.trim().is_empty() => Value::Object(Map::new()),
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        other => other,
    }
}

fn quoted(name: &str) -> String {
    let shown: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
    format!("{shown:?}")
}

fn choice(tools: &ToolPlan) -> String {
    if tools.allowed.is_empty() {
        "No tool can be used now.".to_owned()
    } else {
        format!("These can be used now: {}.", tools.allowed.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use foreword_core::tokens::Tokens;
    use serde_json::json;

    use super::*;

    fn check(style: ToolStyle, name: &str, arguments: Value, expect: Result<(&str, Value), &str>) {
        let agent: Agent = serde_json::from_value(json!({"tools": [
            {"server": "fs", "name": "read"}, {"server": "db", "name": "read"}, {"server": "db", "name": "sum of"}, {"server": "db", "name": "drop"}]}))
        .unwrap();
        let allowed = ["fs_read", "db_read", "sum of"].map(str::to_owned).to_vec();
        let tools = ToolPlan { style, list: Arc::new(Vec::new()), allowed, tokens: Tokens::ZERO };
        let call = ToolCall { id: "c".to_owned(), name: name.to_owned(), arguments };
        match (resolve(&agent, Dialect::Anthropic, &tools, &call), expect) {
            (Ok(found), Ok((tool, arguments))) => {
                assert_eq!((found.tool.to_string(), found.arguments), (tool.to_owned(), arguments));
            }
            (Err(said), Err(words)) => assert!(said.contains(words), "{said}"),
            (found, expect) => panic!("{found:?} instead of {expect:?}"),
        }
    }

    #[test]
    fn a_call_means_a_tool_that_was_chosen() {
        let listed = ToolStyle::Allowed;
        check(listed, "fs_read", json!({"a": 1}), Ok(("tool:fs/read", json!({"a": 1}))));
        check(listed, &wire_name(Dialect::Anthropic, "sum of"), json!(""), Ok(("tool:db/sum of", json!({}))));
        check(listed, "sum of", json!("{\"a\": 1}"), Ok(("tool:db/sum of", json!({"a": 1}))));
        check(listed, "sum of", json!("{oops"), Ok(("tool:db/sum of", json!("{oops"))));
        check(listed, "read", json!({}), Err("There is no tool \"read\". These can be used now: fs_read, db_read, sum of."));
        check(listed, "drop", json!({}), Err("was not chosen for this request"));
        check(listed, USE_TOOL, json!({"name": "fs_read"}), Err("There is no tool"));
        let one = ToolStyle::UseTool;
        check(one, USE_TOOL, json!({"name": "fs_read", "arguments": {"a": 1}}), Ok(("tool:fs/read", json!({"a": 1}))));
        check(one, USE_TOOL, json!({"name": "db_read"}), Ok(("tool:db/read", json!({}))));
        check(one, USE_TOOL, json!({"arguments": {}}), Err("needs the name of a tool"));
        check(one, USE_TOOL, json!({"name": "drop"}), Err("was not chosen"));
        check(one, "fs_read", json!({}), Ok(("tool:fs/read", json!({}))));
        check(one, "a\u{7}b", json!({}), Err("There is no tool \"ab\""));
    }
}
