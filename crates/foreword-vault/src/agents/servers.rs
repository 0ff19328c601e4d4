//! Tool servers: how one is started, which the core never learns, and the include modes and permissions of its tools.

use std::collections::BTreeMap;
use std::fmt;

use foreword_core::catalog::{Include, Permission, Server};
use serde_json::{Map, Value};

use super::Problems;
use super::entry::{checked_name, include, string};

const MAX_SERVERS: usize = 100;

/// Named values that may be secret: environment variables or headers. `${VAR}` stays as written until a server is started.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Withheld(pub BTreeMap<String, String>);

impl fmt::Debug for Withheld {
    /// The names only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A program that is started and spoken to over its standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment.
        env: Withheld,
        /// Its working folder.
        cwd: Option<String>,
    },
    /// An address.
    Http {
        /// Where.
        url: String,
        /// What is sent along.
        headers: Withheld,
    },
}

/// What holds for one tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolSpec {
    /// Its include mode; the server's where it is left out.
    pub include: Option<Include>,
    /// Its permission; the server's where it is left out.
    pub permission: Option<Permission>,
}

/// A tool server as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSpec {
    /// Unique in an agent; without `/`, which parts server and tool in an item's id.
    pub name: String,
    /// How it is reached.
    pub transport: Transport,
    /// Default include mode of its tools.
    pub include: Option<Include>,
    /// Default permission of its tools.
    pub permission: Option<Permission>,
    /// Settings of single tools.
    pub tools: BTreeMap<String, ToolSpec>,
}

impl ServerSpec {
    /// The server as the core knows it.
    pub fn server(&self) -> Server {
        Server { name: self.name.clone(), include: self.include, permission: self.permission }
    }
}

/// Reads an `mcp.json`.
pub(super) fn from_json(text: &str, problems: &mut Problems) -> Vec<ServerSpec> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // Of an error only the place is told: the rest could quote a secret.
    let fault = match serde_json::from_str::<Value>(text).map(|mut value| value.get_mut("mcpServers").map(Value::take)) {
        Ok(Some(servers)) => return read(&servers, problems),
        Ok(None) => "mcpServers is missing; write {\"mcpServers\": {\"name\": {\"command\": …}}}".to_owned(),
        Err(fault) => format!("not valid JSON at line {}, column {}; no servers are loaded", fault.line(), fault.column()),
    };
    problems.push(fault);
    Vec::new()
}

/// Reads the value of `mcpServers`, sorted by name.
pub(super) fn read(servers: &Value, problems: &mut Problems) -> Vec<ServerSpec> {
    let Some(servers) = servers.as_object() else {
        problems.push("mcpServers must be an object of servers by name; no servers are loaded".to_owned());
        return Vec::new();
    };
    if servers.len() > MAX_SERVERS {
        problems.push(format!("{} servers; only the first {MAX_SERVERS} are used", servers.len()));
    }
    let mut found: Vec<ServerSpec> = Vec::new();
    for (name, value) in servers.iter().take(MAX_SERVERS) {
        let mut own = problems.inside(&format!("mcpServers.{name}"));
        found.extend(server(name, value, &mut own));
        problems.extend(own);
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn server(name: &str, value: &Value, problems: &mut Problems) -> Option<ServerSpec> {
    let name = checked_name(name, problems)?;
    if name.contains('/') {
        problems.push("a server name must not contain /; the server is ignored".to_owned());
        return None;
    }
    let Some(fields) = value.as_object() else {
        problems.push("a server must be an object; it is ignored".to_owned());
        return None;
    };
    if fields.get("disabled") == Some(&Value::Bool(true)) {
        return None;
    }
    let transport = transport(fields, problems)?;
    // What holds for all tools stands beside the command, or in TsAgent's own object.
    let defaults = fields.get("serverToolDefaults").and_then(Value::as_object);
    let own = tool(fields, problems);
    let theirs = defaults.map(|defaults| tool(defaults, problems)).unwrap_or_default();
    let mut tools = BTreeMap::new();
    for (tool_name, value) in fields.get("tools").and_then(Value::as_object).into_iter().flatten() {
        match value.as_object() {
            Some(value) => {
                let mut inner = problems.inside(&format!("tools.{tool_name}"));
                tools.insert(tool_name.clone(), tool(value, &mut inner));
                problems.extend(inner);
            }
            None => problems.push(format!("tools.{tool_name} must be an object; it is ignored")),
        }
    }
    Some(ServerSpec {
        name,
        transport,
        include: own.include.or(theirs.include),
        permission: own.permission.or(theirs.permission),
        tools,
    })
}

fn transport(fields: &Map<String, Value>, problems: &mut Problems) -> Option<Transport> {
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    match (kind, string(fields, "command"), string(fields, "url")) {
        ("" | "stdio", Some(command), None) => Some(Transport::Stdio {
            command,
            args: fields.get("args").map(|args| texts(args, problems)).unwrap_or_default(),
            env: values(fields, "env", problems),
            cwd: string(fields, "cwd"),
        }),
        ("" | "http" | "sse" | "streamable-http" | "streamableHttp", None, Some(url)) => {
            Some(Transport::Http { url, headers: values(fields, "headers", problems) })
        }
        _ => {
            problems.push("a server needs either a command (type stdio) or a url (type http); it is ignored".to_owned());
            None
        }
    }
}

fn texts(value: &Value, problems: &mut Problems) -> Vec<String> {
    let texts = value.as_array().and_then(|list| list.iter().map(scalar).collect());
    texts.unwrap_or_else(|| {
        problems.push("args must be a list of strings; it is ignored".to_owned());
        Vec::new()
    })
}

fn values(fields: &Map<String, Value>, key: &str, problems: &mut Problems) -> Withheld {
    let Some(value) = fields.get(key) else { return Withheld::default() };
    let read = value.as_object().and_then(|map| map.iter().map(|(name, value)| Some((name.clone(), scalar(value)?))).collect());
    Withheld(read.unwrap_or_else(|| {
        problems.push(format!("{key} must be an object of strings; it is ignored"));
        BTreeMap::new()
    }))
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

fn tool(fields: &Map<String, Value>, problems: &mut Problems) -> ToolSpec {
    let permission = match (fields.get("permission").map(Value::as_str), fields.get("permissionRequired").map(Value::as_bool)) {
        (None, None) => None,
        (Some(Some("required")), _) | (None, Some(Some(true))) => Some(Permission::Required),
        (Some(Some("not_required")), _) | (None, Some(Some(false))) => Some(Permission::NotRequired),
        // What is not understood must not let a tool run unasked.
        _ => {
            problems.push("permission must be required or not_required; using required".to_owned());
            Some(Permission::Required)
        }
    };
    ToolSpec { include: include(fields.get("include"), problems), permission }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(servers: &Value, expect: &[&str], faults: &[&str]) {
        let mut problems = Problems::of("mcp.json");
        let found = from_json(&json!({"mcpServers": servers}).to_string(), &mut problems);
        let found: Vec<String> = found.iter().map(|spec| format!("{:?}", spec.transport)).collect();
        assert_eq!(found, expect);
        let found: Vec<_> = problems.list.iter().map(|problem| problem.what.split(';').next().unwrap()).collect();
        assert_eq!(found, faults);
    }

    #[test]
    fn transports() {
        check(
            &json!({"fs": {"command": "npx", "args": ["-y", 3], "env": {"KEY": "secret", "N": 1}}}),
            &[r#"Stdio { command: "npx", args: ["-y", "3"], env: {"KEY", "N"}, cwd: None }"#],
            &[],
        );
        check(
            &json!({"web": {"type": "http", "url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}}),
            &[r#"Http { url: "https://a.example/mcp", headers: {"Authorization"} }"#],
            &[],
        );
        check(&json!({"off": {"command": "x", "disabled": true}}), &[], &[]);
        let needs = "a server needs either a command (type stdio) or a url (type http)";
        let at = |name: &str, what: &str| format!("mcpServers.{name}: {what}");
        check(
            &json!({"a": {}, "b": {"command": "x", "url": "y"}, "c": {"type": "internal", "command": "x"}, "d/e": {"command": "x"}, "f": 1}),
            &[],
            &[
                &at("a", needs),
                &at("b", needs),
                &at("c", needs),
                &at("d/e", "a server name must not contain /"),
                &at("f", "a server must be an object"),
            ],
        );
        check(&json!([]), &[], &["mcpServers must be an object of servers by name"]);
    }

    #[test]
    fn modes_of_servers_and_tools() {
        let mut problems = Problems::of("mcp.json");
        let found = read(
            &json!({
                "a": {"command": "x", "include": "agent", "permission": "not_required", "tools": {"t": {"include": "manual", "permissionRequired": true}}},
                "b": {"command": "x", "serverToolDefaults": {"include": "manual", "permissionRequired": false}},
                "c": {"command": "x", "permission": "maybe"}}),
            &mut problems,
        );
        let modes: Vec<_> = found.iter().map(|spec| (spec.include, spec.permission)).collect();
        assert_eq!(
            modes,
            [
                (Some(Include::Agent), Some(Permission::NotRequired)),
                (Some(Include::Manual), Some(Permission::NotRequired)),
                (None, Some(Permission::Required)),
            ]
        );
        assert_eq!(found[0].tools["t"], ToolSpec { include: Some(Include::Manual), permission: Some(Permission::Required) });
        assert_eq!(problems.list.len(), 1);
    }

    #[test]
    fn a_broken_file_is_named_without_its_content() {
        let mut problems = Problems::of("mcp.json");
        assert!(from_json("{\"mcpServers\": {\"a\": {\"env\": {\"K\": \"sk-secret\" oops}}}}", &mut problems).is_empty());
        assert!(!problems.list[0].what.contains("sk-secret"), "{:?}", problems.list);
    }
}
