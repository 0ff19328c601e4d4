//! The configuration of tool servers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use foreword_core::catalog::{Include, Permission};

use crate::sandbox::Sandbox;

/// A tool server. All variables are already expanded.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Its unique name: letters, digits, `-` and `_`.
    pub name: String,
    /// How to connect to it.
    pub transport: Transport,
    /// The default include mode of its tools.
    pub include: Option<Include>,
    /// The default permission of its tools.
    pub permission: Option<Permission>,
    /// Settings of single tools, by name.
    pub tools: BTreeMap<String, ToolConfig>,
    /// Time limits.
    pub timeouts: Timeouts,
    /// The sandbox of its program; `None` gives it all permissions of the user. If sandboxes are not available, a sandboxed server
    /// is not started, and [`crate::Toolbox::problems`] explains why.
    pub sandbox: Option<Sandbox>,
    /// Remarks for the user, returned by [`crate::Toolbox::problems`].
    pub notes: Vec<String>,
    /// Values of expanded variables, which are removed from messages.
    pub secrets: SecretValues,
}

impl ServerConfig {
    /// A server with default settings.
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

/// How to connect to a tool server.
#[derive(Clone)]
pub enum Transport {
    /// A program with which we communicate over standard input and output.
    Stdio {
        /// The absolute path of the program; see [`crate::program::find`].
        command: PathBuf,
        /// The program's arguments.
        args: Vec<String>,
        /// Additional environment variables.
        env: BTreeMap<String, String>,
        /// The absolute path of its working folder: never ours, whose files could replace the program's.
        cwd: PathBuf,
    },
    /// A server with streamable HTTP.
    Http {
        /// Its URL.
        url: String,
        /// The headers of every request.
        headers: BTreeMap<String, String>,
    },
}

/// Hides the values of variables and headers, which may be keys.
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

/// The settings of one tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolConfig {
    /// Its include mode.
    pub include: Option<Include>,
    /// Its permission.
    pub permission: Option<Permission>,
}

/// Time limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For starting and listing its tools.
    pub start: Duration,
    /// For one call, restarted by each sign of progress.
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
