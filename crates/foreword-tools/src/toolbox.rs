//! The toolbox: all tools of a session. Every call takes the same path: find the tool, check the arguments, ask for approval if
//! required, run, limit the output.
//!
//! A tool of a server runs only as the user accepted it. The server's list is refreshed before each call and after each question,
//! and a new or changed tool requires approval, whatever was allowed before. Until then, the model sees the accepted version.

#[cfg(test)]
mod tests;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use foreword_core::catalog::{Permission, Server, Tool};
use foreword_core::item::{ItemId, Kind};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::mcp::{self, Background, Client};
use crate::{
    Approval, Approve, Asking, Builtin, Decision, OWN_SERVER, Output, PinnedTool, Pins, ServerConfig, pins, sandbox, schema,
};

/// The largest number of tool names in an answer.
const NAMES_LISTED: usize = 40;

/// The largest number of changed tools in a message.
const CHANGES_LISTED: usize = 10;

/// The largest number of questions about one call. A server that changes its tool again and again is skipped.
const MAX_QUESTIONS: usize = 4;

/// The description shown to the model for a tool that nobody has accepted, without any text of its server.
const NOT_ACCEPTED: &str = "A new tool of this server. The user has not seen what it does yet, and is asked when you call it.";

/// A problem with a server or one of its tools. The session continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The server.
    pub server: String,
    /// The cause and what to do.
    pub message: String,
    /// The server's last output to standard error.
    pub stderr: String,
}

/// The tools of a session.
pub struct Toolbox {
    builtins: BTreeMap<String, Box<dyn Builtin>>,
    /// Sorted by name.
    clients: Vec<Client>,
    /// Servers that were not started.
    unusable: Vec<Problem>,
    /// Runs the communication with servers; `None` if there are none.
    background: Option<Background>,
    /// As shown to the model, sorted by server, then name.
    tools: Vec<Tool>,
    /// One message per server about tools that wait to be accepted.
    waiting: Vec<Problem>,
    asking: Asking,
    approve: Box<dyn Approve>,
    pins: Box<dyn Pins>,
    /// Servers whose first list of tools was read; later tools are new.
    settled: BTreeSet<String>,
    /// Tools allowed for the session, with the hash of the tool that the user saw; empty for built-in tools.
    allowed: BTreeMap<ItemId, String>,
}

impl Toolbox {
    /// Starts all servers at once and waits until each is running or has failed. Of built-in tools with the same name, the last one
    /// is used. Starting a server accepts its first tools; `pins` has those of earlier sessions.
    pub fn new(
        builtins: Vec<Box<dyn Builtin>>,
        servers: Vec<ServerConfig>,
        asking: Asking,
        approve: Box<dyn Approve>,
        pins: Box<dyn Pins>,
    ) -> Self {
        let builtins: BTreeMap<_, _> = builtins.into_iter().map(|builtin| (builtin.tool().name, builtin)).collect();
        let (mut clients, unusable) = usable(servers);
        let background = if clients.is_empty() { None } else { Background::start().ok() };
        mcp::start_all(&mut clients, background.as_ref());
        let mut toolbox = Self {
            builtins,
            clients,
            unusable,
            background,
            tools: Vec::new(),
            waiting: Vec::new(),
            asking,
            approve,
            pins,
            settled: BTreeSet::new(),
            allowed: BTreeMap::new(),
        };
        toolbox.list();
        toolbox
    }

    /// The servers, sorted by name, including the one of built-in tools.
    pub fn servers(&self) -> Vec<Server> {
        let own = Server { name: OWN_SERVER.to_owned(), include: None, permission: None };
        let others = self.clients.iter().map(Client::config).map(|config| Server {
            name: config.name.clone(),
            include: config.include,
            permission: config.permission,
        });
        let mut servers: Vec<_> = others.chain([own]).collect();
        servers.sort_by(|a, b| a.name.cmp(&b.name));
        servers
    }

    /// The accepted tools, sorted by server, then name, as shown to the model.
    pub fn tools(&self) -> Vec<Tool> {
        self.tools.clone()
    }

    /// Whether the tools changed since they were last listed. Reads new lists of servers that announced a change.
    pub fn changed(&mut self) -> bool {
        if let Some(background) = &self.background {
            for client in &mut self.clients {
                client.refresh(background);
            }
        }
        let before = std::mem::take(&mut self.tools);
        self.list();
        self.tools != before
    }

    /// Problems for the user: servers that are not running, tools that were rejected or wait to be accepted.
    pub fn problems(&self) -> Vec<Problem> {
        let clients = self.clients.iter().flat_map(Client::problems);
        self.unusable.iter().cloned().chain(clients).chain(self.waiting.iter().cloned()).collect()
    }

    /// Sets when tools require approval.
    pub fn set_asking(&mut self, asking: Asking) {
        self.asking = asking;
    }

    /// Checks that a tool exists and accepts these arguments; the error is worded for the model.
    pub fn check(&self, id: &ItemId, arguments: &Value) -> Result<(), String> {
        let Some(tool) = find(&self.tools, id) else { return Err(self.unknown(id)) };
        fits(id, tool, arguments)
    }

    /// Runs a tool. There is always an output that the model can act on.
    pub fn call(&mut self, id: &ItemId, arguments: &Value, stop: &CancellationToken) -> Output {
        let none = Value::Object(serde_json::Map::new());
        let arguments = if arguments.is_null() { &none } else { arguments };
        let began = Instant::now();
        let output = match self.run(id, arguments, stop) {
            Ok(output) => output.capped(),
            Err(reason) => Output::failed(reason),
        };
        let ms = began.elapsed().as_millis();
        tracing::debug!(tool = %id, ms, bytes = output.text.len(), failed = output.failed, "tool called");
        output
    }

    fn run(&mut self, id: &ItemId, arguments: &Value, stop: &CancellationToken) -> Result<Output, String> {
        match parts(id) {
            Some((OWN_SERVER, name)) => self.run_own(id, name, arguments, stop),
            Some((server, name)) => self.run_served(id, (server, name), arguments, stop),
            None => Err(self.unknown(id)),
        }
    }

    fn run_own(&mut self, id: &ItemId, name: &str, arguments: &Value, stop: &CancellationToken) -> Result<Output, String> {
        self.check(id, arguments)?;
        let Some(tool) = find(&self.tools, id) else { return Err(self.unknown(id)) };
        if self.asking.asks(self.permission(tool)) && !self.allowed.contains_key(id) {
            let preview = match self.builtins.get_mut(name) {
                Some(builtin) => builtin.preview(arguments)?,
                None => None,
            };
            let approval = Approval { tool: id, arguments, preview: preview.as_deref(), change: None };
            if self.ask(&approval)? {
                self.allowed.insert(id.clone(), String::new());
            }
        }
        not_stopped(id, stop)?;
        let Some(builtin) = self.builtins.get_mut(name) else { return Err(self.unknown(id)) };
        Ok(builtin.run(arguments))
    }

    fn run_served(
        &mut self,
        id: &ItemId,
        (server, name): (&str, &str),
        arguments: &Value,
        stop: &CancellationToken,
    ) -> Result<Output, String> {
        // What the person has said yes to during this call.
        let mut approved = None;
        for _ in 0..=MAX_QUESTIONS {
            not_stopped(id, stop)?;
            let tool = self.current(id, (server, name), stop)?;
            let now = PinnedTool::of(&tool);
            let change = self.change(&tool, &now);
            if change.is_none() {
                fits(id, &tool, arguments)?;
                let seen = approved.as_ref() == Some(&now.sha256) || self.allowed.get(id) == Some(&now.sha256);
                if seen || !self.asking.asks(self.permission(&tool)) {
                    return self.send(id, (server, name), arguments, stop);
                }
            }
            let approval = Approval { tool: id, arguments, preview: None, change: change.as_deref() };
            if self.ask(&approval)? {
                self.allowed.insert(id.clone(), now.sha256.clone());
            }
            approved = Some(now.sha256.clone());
            if change.is_some() {
                self.pins.put(server, name, now);
                self.list();
            }
            // The server may have changed its list while the person was reading, so it is looked at again.
        }
        Err(format!("{} was not run: its server changes it again and again. Go on without it.", id.name()))
    }

    /// The current state of a server's tool.
    fn current(&mut self, id: &ItemId, (server, name): (&str, &str), stop: &CancellationToken) -> Result<Tool, String> {
        let client = self.clients.iter_mut().find(|client| client.config().name == server);
        let (Some(client), Some(background)) = (client, &self.background) else { return Err(self.unknown(id)) };
        if !self.pins.may_run(server) {
            mcp::close_all(std::slice::from_mut(client), background);
            return Err(format!(
                "{} was not run: the user's decision that {server} may run has ended, or its files have changed since. Go on without it.",
                id.name()
            ));
        }
        let lists = client.lists();
        client.ready(background, stop).map_err(|reason| format!("{} was not run: {reason}", id.name()))?;
        let (tool, is_new_list) = (client.tool(name).cloned(), client.lists() != lists);
        if is_new_list {
            self.list();
        }
        tool.ok_or_else(|| self.unknown(id))
    }

    fn send(
        &mut self,
        id: &ItemId,
        (server, name): (&str, &str),
        arguments: &Value,
        stop: &CancellationToken,
    ) -> Result<Output, String> {
        let client = self.clients.iter_mut().find(|client| client.config().name == server);
        match (client, &self.background, arguments) {
            (Some(client), Some(background), Value::Object(arguments)) => Ok(client.call(background, name, arguments, stop)),
            _ => Err(self.unknown(id)),
        }
    }

    /// The difference between a tool and the accepted one; `None` if they are equal.
    fn change(&self, tool: &Tool, now: &PinnedTool) -> Option<String> {
        let pinned = self.pins.get(&tool.server, &tool.name);
        if pinned.as_ref().is_some_and(|pinned| pinned.sha256 == now.sha256) {
            return None;
        }
        Some(pins::change(&format!("{}/{}", tool.server, tool.name), pinned.as_ref(), now))
    }

    /// The tool's permission, its server's, or required.
    fn permission(&self, tool: &Tool) -> Permission {
        let server = self.clients.iter().find(|client| client.config().name == tool.server);
        tool.permission.or_else(|| server?.config().permission).unwrap_or(Permission::Required)
    }

    /// Asks the user. Returns whether the approval is for the session.
    fn ask(&mut self, approval: &Approval<'_>) -> Result<bool, String> {
        let name = approval.tool.name();
        match (self.approve.ask(approval), approval.change) {
            (Decision::Once, _) => Ok(false),
            (Decision::Session, _) => Ok(true),
            (Decision::No, _) => {
                Err(format!("{name} was not run: the user did not allow it. Do not try it again unless the user asks for it."))
            }
            (Decision::Absent, None) => Err(format!(
                "{name} was not run: it needs the user's approval, and nobody is there to give it. Go on without it."
            )),
            (Decision::Absent, Some(_)) => Err(format!(
                "{name} was not run: its server has changed it since the user allowed it, and nobody is there to look at the change. \
                 Go on without it."
            )),
        }
    }

    /// Lists the tools again. The first tools of a server were accepted with it.
    fn list(&mut self) {
        self.tools = self.builtins.values().map(|builtin| Tool { server: OWN_SERVER.to_owned(), ..builtin.tool() }).collect();
        self.waiting.clear();
        for client in self.clients.iter().filter(|client| client.lists() > 0) {
            let server = &client.config().name;
            if self.settled.insert(server.clone()) && !self.pins.knows(server) {
                for tool in client.tools() {
                    self.pins.put(server, &tool.name, PinnedTool::of(tool));
                }
            }
            let mut changed = Vec::new();
            for tool in client.tools() {
                let pinned = self.pins.get(server, &tool.name);
                if pinned.as_ref().is_some_and(|pinned| *pinned == PinnedTool::of(tool)) {
                    self.tools.push(tool.clone());
                } else {
                    changed.push(tool.name.as_str());
                    self.tools.push(pinned.and_then(|pinned| pinned.shown_as(tool)).unwrap_or_else(|| unaccepted(tool)));
                }
            }
            self.waiting.extend(waiting(server, &changed));
        }
        self.tools.sort_by(|a, b| (&a.server, &a.name).cmp(&(&b.server, &b.name)));
    }

    fn unknown(&self, id: &ItemId) -> String {
        let mut names: Vec<_> =
            self.tools.iter().take(NAMES_LISTED).map(|tool| format!("{}/{}", tool.server, tool.name)).collect();
        if self.tools.len() > NAMES_LISTED {
            names.push(format!("and {} more", self.tools.len() - NAMES_LISTED));
        }
        format!("There is no tool {:?}. The tools are: {}.", id.name(), names.join(", "))
    }
}

/// A tool as shown to the model before it is accepted.
fn unaccepted(tool: &Tool) -> Tool {
    let schema = serde_json::json!({"type": "object"});
    Tool { description: Some(NOT_ACCEPTED.to_owned()), schema, read_only: false, ..tool.clone() }
}

/// A message about tools that wait to be accepted.
fn waiting(server: &str, changed: &[&str]) -> Option<Problem> {
    let listed = changed.get(..CHANGES_LISTED).unwrap_or(changed).join(", ");
    let more = changed.len().saturating_sub(CHANGES_LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let message = format!(
        "its tools are new or changed since you allowed it: {listed}{more}. The model is not shown what they say now, and you are \
         asked before one of them runs"
    );
    (!changed.is_empty()).then(|| Problem { server: server.to_owned(), message, stderr: String::new() })
}

fn fits(id: &ItemId, tool: &Tool, arguments: &Value) -> Result<(), String> {
    schema::check(&tool.schema(), arguments)
        .map_err(|misfits| format!("{} was not run: its arguments do not fit its schema.\n{misfits}", id.name()))
}

fn not_stopped(id: &ItemId, stop: &CancellationToken) -> Result<(), String> {
    if stop.is_cancelled() { Err(format!("{} was not run: the user stopped this turn.", id.name())) } else { Ok(()) }
}

/// Stops all servers at once, gracefully.
impl Drop for Toolbox {
    fn drop(&mut self) {
        if let Some(background) = &self.background {
            mcp::close_all(&mut self.clients, background);
        }
    }
}

/// The servers with valid, unique names, and problems with the others.
fn usable(servers: Vec<ServerConfig>) -> (Vec<Client>, Vec<Problem>) {
    let (mut clients, mut unusable) = (BTreeMap::new(), Vec::new());
    let wants_sandbox = servers.iter().any(|server| server.sandbox.is_some());
    let bwrap = if wants_sandbox { sandbox::availability().map(Arc::<Path>::from) } else { Err(String::new()) };
    for config in servers {
        if let (Some(_), Err(why)) = (&config.sandbox, &bwrap) {
            let message = format!(
                "it was allowed to run in a sandbox, and there is none now: {why}. To let it run with all of your rights, revoke the \
                 decision with `foreword trust --revoke` and decide again"
            );
            unusable.push(Problem { server: config.name, message, stderr: String::new() });
            continue;
        }
        let name = config.name.clone();
        let is_name =
            (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        let problem = match clients.entry(name.clone()) {
            _ if !is_name => "a server name must have 1 to 64 letters, digits, - or _; rename it",
            _ if name == OWN_SERVER => "this name is reserved for built-in tools; rename it",
            Entry::Occupied(_) => "two servers have this name; rename one",
            Entry::Vacant(free) => {
                free.insert(Client::new(config, bwrap.clone().ok()));
                continue;
            }
        };
        unusable.push(Problem { server: name, message: problem.to_owned(), stderr: String::new() });
    }
    (clients.into_values().collect(), unusable)
}

/// The server and the name of a tool; server names have no slash.
fn parts(id: &ItemId) -> Option<(&str, &str)> {
    (id.kind() == Kind::Tool).then(|| id.name().split_once('/')).flatten()
}

fn find<'a>(tools: &'a [Tool], id: &ItemId) -> Option<&'a Tool> {
    let wanted = parts(id)?;
    let index = tools.binary_search_by(|tool| (tool.server.as_str(), tool.name.as_str()).cmp(&wanted)).ok()?;
    tools.get(index)
}
