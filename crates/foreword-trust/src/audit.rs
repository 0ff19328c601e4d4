//! The audit log: what the user allowed, and which hosts the program contacted. It is append-only, stored outside of every vault,
//! and contains no secrets and no note content.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use foreword_core::hash::Hash;
use foreword_tools::{Approval, Approve, Decision};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::private;

/// An event in the log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum AuditEvent {
    /// The user trusts something that a vault would do.
    Trusted {
        /// The vault's folder.
        vault: String,
        /// What is enabled.
        what: String,
        /// The hash of exactly what was shown.
        sha256: String,
    },
    /// The user no longer trusts something.
    Revoked {
        /// The vault's folder.
        vault: String,
        /// What is no longer enabled.
        what: String,
    },
    /// A tool was pinned: on its first use, or when the user accepted a change.
    Pinned {
        /// The vault's folder.
        vault: String,
        /// Server and tool.
        tool: String,
        /// The hash of the tool's name, description and schema.
        sha256: String,
    },
    /// The user was asked about a tool call.
    Approval {
        /// The session.
        session: String,
        /// Server and tool.
        tool: String,
        /// `once`, `session`, `no` or `absent`.
        decision: String,
        /// The hash of the arguments.
        sha256: String,
    },
    /// The program is about to contact a host. Each host is logged once per process and purpose; web pages are logged on every
    /// fetch.
    Host {
        /// The host with its port, if it is not the default.
        host: String,
        /// `model`, `page` or `tool server`.
        purpose: String,
    },
    /// A server key was created.
    KeyCreated {
        /// Its name.
        name: String,
    },
    /// A server key was deleted.
    KeyDeleted {
        /// Its name.
        name: String,
    },
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// The time.
    pub at: Timestamp,
    /// The event.
    #[serde(flatten)]
    pub event: AuditEvent,
}

/// The log. Clones share the list of known hosts.
#[derive(Clone, Debug)]
pub struct Audit {
    file: PathBuf,
    hosts: Arc<Mutex<BTreeSet<AuditEvent>>>,
}

/// The largest number of remembered hosts.
const MAX_HOSTS: usize = 10_000;

impl Audit {
    /// The log in the state folder (see [`crate::places::Places`]).
    pub fn new(state: &Path) -> Self {
        Self { file: state.join("audit.jsonl"), hosts: Arc::default() }
    }

    /// The log's file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Appends an event. It is on disk when this returns.
    pub fn record(&self, event: AuditEvent) -> io::Result<()> {
        let entry = AuditEntry { at: foreword_provider::clock::now(), event };
        let line = serde_json::to_string(&entry).map_err(io::Error::other)?;
        private::append_line(&self.file, &line)
    }

    /// Logs that a host is about to be contacted, once per process and purpose.
    pub fn host(&self, host: &str, purpose: &str) -> io::Result<()> {
        let event = AuditEvent::Host { host: host.to_owned(), purpose: purpose.to_owned() };
        {
            let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
            if hosts.contains(&event) {
                return Ok(());
            }
            if hosts.len() < MAX_HOSTS {
                hosts.insert(event.clone());
            }
        }
        self.record(event)
    }

    /// The same for the host of a URL. A log that cannot be written keeps nobody from a page or a model: that is only warned of.
    pub fn url(&self, url: &str, purpose: &str) {
        if let Some(host) = host_of(url)
            && let Err(error) = self.host(host, purpose)
        {
            tracing::warn!(host, purpose, %error, file = %self.file.display(), "cannot write the audit log");
        }
    }

    /// All entries, oldest first, and the number of invalid lines.
    pub fn read(&self) -> io::Result<(Vec<AuditEntry>, usize)> {
        let text = private::read(&self.file)?.unwrap_or_default();
        let lines = text.lines().count();
        let entries: Vec<AuditEntry> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let unread = lines - entries.len();
        Ok((entries, unread))
    }
}

/// The host and port of a URL, without user name and password.
fn host_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    (!host.is_empty()).then_some(host)
}

/// Logs the decisions of another [`Approve`].
pub struct AuditedApprove {
    inner: Box<dyn Approve>,
    audit: Audit,
    session: String,
}

impl AuditedApprove {
    /// Logs the decisions that `inner` makes in a session.
    pub fn new(inner: Box<dyn Approve>, audit: Audit, session: &str) -> Self {
        Self { inner, audit, session: session.to_owned() }
    }
}

impl Approve for AuditedApprove {
    fn ask(&mut self, approval: &Approval<'_>) -> Decision {
        let decision = self.inner.ask(approval);
        let event = AuditEvent::Approval {
            session: self.session.clone(),
            tool: approval.tool.name().to_owned(),
            decision: match decision {
                Decision::Once => "once",
                Decision::Session => "session",
                Decision::No => "no",
                Decision::Absent => "absent",
            }
            .to_owned(),
            sha256: Hash::of(foreword_core::json::to_string(approval.arguments)).to_string(),
        };
        // What is not logged does not run.
        match self.audit.record(event) {
            Ok(()) => decision,
            Err(_) => Decision::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_addresses() {
        let check = |url: &str, expect: Option<&str>| assert_eq!(host_of(url), expect, "{url}");
        check("https://api.example/v1", Some("api.example"));
        check("http://127.0.0.1:11434", Some("127.0.0.1:11434"));
        check("https://user:secret@api.example?key=secret", Some("api.example"));
        check("https://secret@evil@api.example/x", Some("api.example"));
        check("api.example", None);
        check("https:///x", None);
    }

    #[test]
    fn the_log_only_grows_and_hosts_are_logged_once() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::new(folder.path());
        let approval = AuditEvent::Approval {
            session: "s".to_owned(),
            tool: "foreword/writeNote".to_owned(),
            decision: "once".to_owned(),
            sha256: "0".to_owned(),
        };
        audit.record(approval.clone()).unwrap();
        audit.host("api.example", "model").unwrap();
        audit.clone().host("api.example", "model").unwrap();
        audit.host("api.example", "page").unwrap();
        private::append_line(audit.file(), "not an entry").unwrap();
        let (entries, unread) = Audit::new(folder.path()).read().unwrap();
        assert_eq!((entries.len(), unread), (3, 1));
        assert_eq!(entries[0].event, approval);
    }
}
