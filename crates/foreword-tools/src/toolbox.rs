//! Every tool of a session behind one thing, whoever runs it. A call goes the same way for all: find the tool, check the arguments, ask
//! the person where it must, run, cap.

#[cfg(test)]
mod tests;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foreword_core::catalog::{Permission, Server, Tool};
use foreword_core::item::{ItemId, Kind};
use serde_json::Value;

use crate::mcp::{self, Background, Client};
use crate::{Approval, Approve, Asking, Builtin, Decision, OWN_SERVER, Output, ServerConfig, schema};

/// How many names an answer lists when it says what there is.
const NAMES_LISTED: usize = 40;

/// Why a server, or a tool of it, is not there. The session goes on without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The server.
    pub server: String,
    /// What happened and what can be done.
    pub message: String,
    /// The last that the server wrote to its standard error; empty where it wrote nothing.
    pub stderr: String,
}

/// The tools of a session.
pub struct Toolbox {
    builtins: BTreeMap<String, Box<dyn Builtin>>,
    /// Sorted by name.
    clients: Vec<Client>,
    /// Servers that were not even tried.
    unusable: Vec<Problem>,
    /// Where servers are spoken to; not there where there are none.
    background: Option<Background>,
    /// Sorted by server, then name.
    tools: Vec<Tool>,
    asking: Asking,
    approve: Box<dyn Approve>,
    /// What the person allowed for the session.
    allowed: BTreeSet<ItemId>,
}

impl Toolbox {
    /// Starts the servers, all at once, and waits until each is there or has failed. Of built-in tools with one name the last one counts.
    pub fn new(builtins: Vec<Box<dyn Builtin>>, servers: Vec<ServerConfig>, asking: Asking, approve: Box<dyn Approve>) -> Self {
        let builtins: BTreeMap<_, _> = builtins.into_iter().map(|builtin| (builtin.tool().name, builtin)).collect();
        let (mut clients, unusable) = usable(servers);
        let background = if clients.is_empty() { None } else { Background::start().ok() };
        mcp::start_all(&mut clients, background.as_ref());
        let mut toolbox =
            Self { builtins, clients, unusable, background, tools: Vec::new(), asking, approve, allowed: BTreeSet::new() };
        toolbox.tools = toolbox.listed();
        toolbox
    }

    /// The servers as a catalog holds them, sorted by name; our own is one of them.
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

    /// The tools, sorted by server, then name.
    pub fn tools(&self) -> Vec<Tool> {
        self.tools.clone()
    }

    /// Whether the tools are others than when this was last asked. Where a server has said that its list changed, the list is read now.
    pub fn changed(&mut self) -> bool {
        if let Some(background) = &self.background {
            for client in &mut self.clients {
                client.refresh(background);
            }
        }
        let tools = self.listed();
        if tools == self.tools {
            return false;
        }
        // What was allowed is the tool that the person saw, not another one that took its name.
        self.allowed.retain(|id| tools.iter().find(|tool| tool.id() == *id) == find(&self.tools, id));
        self.tools = tools;
        true
    }

    /// What is missing, and why: servers that are not running, tools that were refused.
    pub fn problems(&self) -> Vec<Problem> {
        self.unusable.iter().cloned().chain(self.clients.iter().flat_map(Client::problems)).collect()
    }

    /// When the person is asked from now on.
    pub fn set_asking(&mut self, asking: Asking) {
        self.asking = asking;
    }

    /// Whether a tool is there and takes these arguments; else what is wrong, in words for the model.
    pub fn check(&self, id: &ItemId, arguments: &Value) -> Result<(), String> {
        let Some(tool) = find(&self.tools, id) else { return Err(self.unknown(id)) };
        schema::check(&tool.schema(), arguments)
            .map_err(|misfits| format!("{} was not run: its arguments do not fit its schema.\n{misfits}", id.name()))
    }

    /// Runs a tool. Whatever happens, there is an output that the model can act on.
    pub fn call(&mut self, id: &ItemId, arguments: &Value, stop: &Arc<AtomicBool>) -> Output {
        let none = Value::Object(serde_json::Map::new());
        let arguments = if arguments.is_null() { &none } else { arguments };
        match self.run(id, arguments, stop) {
            Ok(output) => output.capped(),
            Err(reason) => Output::failed(reason),
        }
    }

    fn run(&mut self, id: &ItemId, arguments: &Value, stop: &Arc<AtomicBool>) -> Result<Output, String> {
        self.check(id, arguments)?;
        let Some(tool) = find(&self.tools, id) else { return Err(self.unknown(id)) };
        let permission = self.permission(tool);
        let (server, name) = (tool.server.clone(), tool.name.clone());
        if self.asking.asks(permission) && !self.allowed.contains(id) {
            self.ask(id, arguments)?;
        }
        if stop.load(Ordering::Relaxed) {
            return Err(format!("{} was not run: the user stopped this turn.", id.name()));
        }
        if let Some(builtin) = self.builtins.get_mut(&name).filter(|_| server == OWN_SERVER) {
            return Ok(builtin.run(arguments));
        }
        let client = self.clients.iter_mut().find(|client| client.config().name == server);
        match (client, &self.background, arguments) {
            (Some(client), Some(background), Value::Object(arguments)) => Ok(client.call(background, &name, arguments, stop)),
            _ => Err(self.unknown(id)),
        }
    }

    /// Its own permission, else its server's, else required.
    fn permission(&self, tool: &Tool) -> Permission {
        let server = self.clients.iter().find(|client| client.config().name == tool.server);
        tool.permission.or_else(|| server?.config().permission).unwrap_or(Permission::Required)
    }

    fn ask(&mut self, id: &ItemId, arguments: &Value) -> Result<(), String> {
        let preview = match parts(id) {
            Some((OWN_SERVER, name)) => match self.builtins.get_mut(name) {
                Some(builtin) => builtin.preview(arguments)?,
                None => None,
            },
            _ => None,
        };
        match self.approve.ask(&Approval { tool: id, arguments, preview: preview.as_deref() }) {
            Decision::Once => Ok(()),
            Decision::Session => {
                self.allowed.insert(id.clone());
                Ok(())
            }
            Decision::No => Err(format!(
                "{} was not run: the user did not allow it. Do not try it again unless the user asks for it.",
                id.name()
            )),
            Decision::Absent => Err(format!(
                "{} was not run: it needs the user's approval, and nobody is there to give it. Go on without it.",
                id.name()
            )),
        }
    }

    fn listed(&self) -> Vec<Tool> {
        let own = self.builtins.values().map(|builtin| Tool { server: OWN_SERVER.to_owned(), ..builtin.tool() });
        let mut tools: Vec<_> = self.clients.iter().flat_map(Client::tools).cloned().chain(own).collect();
        tools.sort_by(|a, b| (&a.server, &a.name).cmp(&(&b.server, &b.name)));
        tools
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

/// Servers are ended in good order, all at once.
impl Drop for Toolbox {
    fn drop(&mut self) {
        if let Some(background) = &self.background {
            mcp::close_all(&mut self.clients, background);
        }
    }
}

/// The servers that can be told apart, by name, and what is wrong with the others.
fn usable(servers: Vec<ServerConfig>) -> (Vec<Client>, Vec<Problem>) {
    let (mut clients, mut unusable) = (BTreeMap::new(), Vec::new());
    for config in servers {
        let name = config.name.clone();
        let is_name =
            (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        let problem = match clients.entry(name.clone()) {
            _ if !is_name => "a server's name has 1 to 64 letters, digits, - and _; rename it",
            _ if name == OWN_SERVER => "this name is the one of the tools that come with Foreword; rename it",
            Entry::Occupied(_) => "there are two servers of this name; rename one",
            Entry::Vacant(free) => {
                free.insert(Client::new(config));
                continue;
            }
        };
        unusable.push(Problem { server: name, message: problem.to_owned(), stderr: String::new() });
    }
    (clients.into_values().collect(), unusable)
}

/// Server and name of a tool; server names have no slash.
fn parts(id: &ItemId) -> Option<(&str, &str)> {
    (id.kind() == Kind::Tool).then(|| id.name().split_once('/')).flatten()
}

fn find<'a>(tools: &'a [Tool], id: &ItemId) -> Option<&'a Tool> {
    let wanted = parts(id)?;
    let index = tools.binary_search_by(|tool| (tool.server.as_str(), tool.name.as_str()).cmp(&wanted)).ok()?;
    tools.get(index)
}
