//! What a server is started with. Who starts it decides everything; the server never looks at the environment.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use foreword_engine::config::{Chosen, Level, Server};
use foreword_engine::prepare::ServerSpec;
use foreword_engine::settings::SessionSettings;
use foreword_engine::vault::Vault;
use foreword_gateway::Family;
use foreword_trust::places::Places;
use foreword_vault_tools::ServerConfig;
use foreword_vault_tools::embedding::Fetch;

use crate::problem::{NOT_FOUND, Problem};
use crate::token::Token;

/// Everything a server needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// The folder of notes.
    pub vault: PathBuf,
    /// The program's folders.
    pub places: Places,
    /// Whether the weights for searching by meaning may be fetched. A request should not wait for them: in the background, or never.
    pub weights: Fetch,
    /// Templates of the user's own.
    pub templates: Option<PathBuf>,
    /// Who answers.
    pub answers: Answers,
    /// Of the tool servers that an agent names, those that the user lets run, ready to be started.
    pub servers: fn(&Vault, Option<&str>, Vec<ServerSpec>) -> Vec<ServerConfig>,
    /// Who may come in.
    pub reach: Reach,
    /// What one client may take.
    pub limits: Limits,
    /// What may be changed of clients' requests that do not say so themselves; else the configuration says.
    pub level: Option<Level>,
}

/// Who answers in sessions.
#[derive(Clone, Debug)]
pub struct Answers {
    /// The user's models and providers.
    pub config: foreword_engine::config::Config,
    /// Whether a variable of the environment has something in it: where a provider's key would be.
    pub is_set: fn(&str) -> bool,
    /// The default model of new sessions: this one, the configured one, or the embedded one.
    pub model: Option<String>,
    /// Where models are spoken to, in place of their provider's own address.
    pub base_url: Option<String>,
    /// The context window of unknown models, in tokens.
    pub window: Option<u64>,
    /// A file with answers, to try things out.
    pub script: Option<PathBuf>,
    /// The settings of new sessions, where who begins one does not say: they count more than an agent's and the configured ones.
    pub settings: SessionSettings,
}

impl Answers {
    /// The model of that name, or the server's, and how it is spoken to.
    pub(crate) fn choose(&self, name: Option<&str>) -> Result<Chosen, Problem> {
        self.choose_at(name, None)
    }

    /// The same at this address; else at the server's, where it has one.
    pub(crate) fn choose_at(&self, name: Option<&str>, base_url: Option<&str>) -> Result<Chosen, Problem> {
        let server = Server { base_url: base_url.or(self.base_url.as_deref()), ..self.server() };
        let chosen = self.config.choose(name.or(self.model.as_deref()), server);
        chosen.map_err(|error| Problem::new(NOT_FOUND, error))
    }

    /// The same for a client of an API: a model that nobody knows is asked for where that API is at home.
    pub(crate) fn choose_for(&self, family: Family, name: Option<&str>) -> Result<Chosen, Problem> {
        // A script answers for models that are known, and nobody else is asked.
        let at_home = || self.config.choose_at(family.provider(), name.filter(|_| self.script.is_none())?, self.server());
        match self.choose(name) {
            Ok(chosen) if chosen.is_assumed && !family.has(chosen.model.dialect) => Ok(at_home().unwrap_or(chosen)),
            Err(unknown) => at_home().ok_or(unknown),
            chosen => chosen,
        }
    }

    fn server(&self) -> Server<'_> {
        Server { base_url: self.base_url.as_deref(), window: self.window }
    }
}

/// Who may come in.
#[derive(Clone, Debug)]
pub enum Reach {
    /// All programs and users of this machine. Only for machines with a single user.
    Open,
    /// Programs of this machine that have the token. A program that brings its own provider key may use the gateway with it.
    Loopback {
        /// The server's token.
        token: Token,
    },
    /// Clients with the token, from anywhere, under an address or one of these names.
    Network {
        /// The server's token.
        token: Token,
        /// Names by which the server is called, `host` or `host:port`.
        hosts: Vec<String>,
    },
}

/// What may be taken, of everything that can be taken. None of it is without an end.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body: usize,
    /// Bytes of the body of a request of the gateway: images and documents stand in those.
    pub gateway_body: usize,
    /// Bytes of a request's head.
    pub head: usize,
    /// Headers.
    pub headers: usize,
    /// Connections at once.
    pub connections: usize,
    /// Connections at once from one address.
    pub connections_per_address: usize,
    /// Requests per second from one address with the token or a key; `None` for no limit.
    pub requests_per_s: Option<u32>,
    /// Requests a second from one address for the page's own files.
    pub files_per_s: u32,
    /// Requests per second from one address without a valid token or key.
    pub refused_per_s: u32,
    /// How long a request may take until its answer begins.
    pub request: Duration,
    /// How long a head may take to come in, and a connection may lie idle.
    pub idle: Duration,
    /// How long a body may make no progress.
    pub body_idle: Duration,
    /// How long a body may take.
    pub body_time: Duration,
    /// How long an event stream lasts; clients reconnect and continue where it ended.
    pub stream: Duration,
    /// Sessions that are open at once.
    pub sessions: usize,
    /// How long a session that nothing is done to keeps its tools and its thread.
    pub rest: Rest,
    /// How long the end may take.
    pub grace: Duration,
}

/// How long a session that nothing is done to keeps what it needs for the next turn. Its record is in the store, and streams of its
/// events go on.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    /// Usually.
    pub after: Duration,
    /// Where many sessions are open.
    pub soon: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 16 << 20,
            gateway_body: 64 << 20,
            head: 64 << 10,
            headers: 100,
            connections: 2048,
            connections_per_address: 1024,
            requests_per_s: None,
            files_per_s: 200,
            refused_per_s: 20,
            request: Duration::from_mins(2),
            idle: Duration::from_secs(30),
            body_idle: Duration::from_secs(30),
            body_time: Duration::from_mins(5),
            stream: Duration::from_hours(1),
            sessions: 1024,
            rest: Rest { after: Duration::from_mins(1), soon: Duration::from_secs(2) },
            grace: Duration::from_secs(5),
        }
    }
}

impl Reach {
    /// The token, where one is needed.
    pub fn token(&self) -> Option<&Token> {
        match self {
            Self::Open => None,
            Self::Loopback { token } | Self::Network { token, .. } => Some(token),
        }
    }

    /// Whether a server that is called `host` (as the `Host` header has it) is this one. A page of another name that was made to lead
    /// here (DNS rebinding) calls it by that name.
    pub(crate) fn is_called(&self, host: &str) -> bool {
        let bare = without_port(host);
        let address: Option<IpAddr> = bare.trim_start_matches('[').trim_end_matches(']').parse().ok();
        let local = bare.eq_ignore_ascii_case("localhost");
        match self {
            Self::Open | Self::Loopback { .. } => local || address.is_some_and(|address| address.is_loopback()),
            Self::Network { hosts, .. } => {
                let named = |name: &String| name.eq_ignore_ascii_case(host) || name.eq_ignore_ascii_case(bare);
                local || address.is_some() || hosts.iter().any(named)
            }
        }
    }
}

/// A host without its port. The colons of an IPv6 address stand in brackets.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((bare, port)) => {
            let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) && (!bare.contains(':') || bare.ends_with(']'));
            if is_port { bare } else { host }
        }
        None => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let local = Reach::Loopback { token: Token::of("x") };
        let listening =
            Reach::Network { token: Token::of("x"), hosts: vec!["notes.example".to_owned(), "other:8080".to_owned()] };
        let check = |host: &str, loopback: bool, token: bool| {
            assert_eq!(Reach::Open.is_called(host), loopback, "{host:?}");
            assert_eq!((local.is_called(host), listening.is_called(host)), (loopback, token), "{host:?}");
        };
        check("localhost", true, true);
        check("LOCALHOST:4949", true, true);
        check("127.0.0.1:4949", true, true);
        check("127.0.0.1", true, true);
        check("[::1]:4949", true, true);
        check("[::1]", true, true);
        check("192.168.1.5:4949", false, true);
        check("notes.example", false, true);
        check("notes.example:4949", false, true);
        check("other:8080", false, true);
        check("other:8081", false, false);
        check("evil.example", false, false);
        check("evil.example:4949", false, false);
        check("localhost.evil.example:4949", false, false);
        check("127.0.0.1.evil.example", false, false);
        check("127.0.0.1:4949@evil.example", false, false);
        check("", false, false);
        check(":4949", false, false);
        check("::1", true, true);
    }
}
