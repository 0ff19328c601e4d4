//! What is set about a tool server: how to reach it, and what holds for its tools.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use foreword_core::catalog::{Include, Permission};

use crate::sandbox::Sandbox;

/// A tool server. Every value is final: variables were expanded by whoever read the configuration.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Unique; letters, digits, `-` and `_`.
    pub name: String,
    /// How it is reached.
    pub transport: Transport,
    /// Default include mode of its tools.
    pub include: Option<Include>,
    /// Default permission of its tools.
    pub permission: Option<Permission>,
    /// What holds for single tools, by their names.
    pub tools: BTreeMap<String, ToolConfig>,
    /// How long it may take.
    pub timeouts: Timeouts,
    /// What its program may reach; none for a program that has all rights of the user. On a machine without sandboxes it is not started,
    /// and [`crate::Toolbox::problems`] says so.
    pub sandbox: Option<Sandbox>,
    /// What the user should know about it, told with [`crate::Toolbox::problems`].
    pub notes: Vec<String>,
    /// Values of variables that were filled in: they are kept out of messages.
    pub secrets: SecretValues,
}

impl ServerConfig {
    /// A server about which nothing is set but how it is reached.
    pub fn new(name: impl Into<String>, transport: Transport) -> Self {
        Self {
            name: name.into(),
            transport,
            include: None,
            permission: None,
            tools: BTreeMap::new(),
            timeouts: Timeouts::default(),
            sandbox: None,
            notes: Vec::new(),
            secrets: SecretValues::default(),
        }
    }
}

/// Values that are never shown.
#[derive(Clone, Default)]
pub struct SecretValues(pub Vec<String>);

impl fmt::Debug for SecretValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} hidden]", self.0.len())
    }
}

/// How a tool server is reached.
#[derive(Clone)]
pub enum Transport {
    /// A program that is started and spoken to through its standard input and output.
    Stdio {
        /// The absolute path of the program; see [`crate::program::find`].
        command: PathBuf,
        /// Its arguments.
        args: Vec<String>,
        /// Variables it gets beside the few that every program needs.
        env: BTreeMap<String, String>,
        /// The absolute path of the folder it runs in: never the one we run in, whose files could take the place of the program's own.
        cwd: PathBuf,
    },
    /// A server that is reached over streamable HTTP.
    Http {
        /// Its address.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, String>,
    },
}

/// Never the value of a variable or a header: those are where keys are.
impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, args, env, cwd } => {
                let env: Vec<_> = env.keys().collect();
                f.debug_struct("Stdio")
                    .field("command", command)
                    .field("args", &args.len())
                    .field("env", &env)
                    .field("cwd", cwd)
                    .finish()
            }
            Self::Http { url, headers } => {
                let headers: Vec<_> = headers.keys().collect();
                f.debug_struct("Http").field("url", &url.split(['?', '#']).next()).field("headers", &headers).finish()
            }
        }
    }
}

/// What is set about one tool of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolConfig {
    /// Its include mode.
    pub include: Option<Include>,
    /// Its permission.
    pub permission: Option<Permission>,
}

/// How long a server may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To start, and to tell what it has.
    pub start: Duration,
    /// For one call, counted anew from each sign of progress.
    pub call: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { start: Duration::from_secs(30), call: Duration::from_mins(2) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_never_shows_a_secret() {
        let secret = || BTreeMap::from([("Authorization".to_owned(), "hush".to_owned())]);
        let stdio = Transport::Stdio { command: "/node".into(), args: vec!["--key=hush".into()], env: secret(), cwd: "/".into() };
        let http = Transport::Http { url: "https://a.example/mcp?key=hush".into(), headers: secret() };
        for transport in [stdio, http] {
            let config = ServerConfig { secrets: SecretValues(vec!["hush".to_owned()]), ..ServerConfig::new("a", transport) };
            let shown = format!("{config:?}");
            assert!(shown.contains("Authorization") && !shown.contains("hush"), "{shown}");
        }
    }
}
