//! A report that can be shown around: figures stay, names of people, folders and servers go.

use std::collections::BTreeMap;

use crate::agents::Unread;
use crate::findings::short;
use crate::report::{Report, server_of};

/// Gives each name a number, the same one everywhere.
#[derive(Default)]
struct Numbers {
    kind: &'static str,
    known: BTreeMap<String, usize>,
}

impl Numbers {
    fn of(kind: &'static str) -> Self {
        Self { kind, known: BTreeMap::new() }
    }

    fn replace(&mut self, name: &mut String) {
        if name.is_empty() {
            return;
        }
        let next = self.known.len() + 1;
        let number = *self.known.entry(name.clone()).or_insert(next);
        *name = format!("{}-{number}", self.kind);
    }
}

/// Takes the names of projects, sessions, files, sub-agents, servers and tools of servers out of a report.
pub fn redact(report: &mut Report) {
    let (mut projects, mut sessions, mut files) = (Numbers::of("project"), Numbers::of("session"), Numbers::of("file"));
    let (mut servers, mut chains) = (Numbers::of("server"), Numbers::of("sub-agent"));
    let mut plain: Vec<(String, String)> = Vec::new();
    for project in &mut report.projects {
        let was = short(&project.name).to_owned();
        projects.replace(&mut project.name);
        plain.push((was, project.name.clone()));
    }
    for session in &mut report.sessions {
        projects.replace(&mut session.project);
        sessions.replace(&mut session.id);
        files.replace(&mut session.file);
        for one in session.breaks.iter_mut().chain(&mut session.misses) {
            files.replace(&mut one.file);
            if one.chain != "main" {
                chains.replace(&mut one.chain);
            }
        }
    }
    for server in &mut report.servers {
        let was = server.name.clone();
        servers.replace(&mut server.name);
        plain.push((was, server.name.clone()));
    }
    let mut tool = |name: &mut String| {
        let results = if name.starts_with("results of ") { "results of " } else { "" };
        if let Some(server) = server_of(name.trim_start_matches("results of ")) {
            let mut server = server.to_owned();
            servers.replace(&mut server);
            *name = format!("{results}a tool of {server}");
        }
    };
    report.tools.iter_mut().for_each(|one| tool(&mut one.name));
    report.parts.iter_mut().for_each(|one| tool(&mut one.name));
    for finding in &mut report.findings {
        for (was, now) in &plain {
            // A project is named at the end of a title.
            if let Some(front) = finding.title.strip_suffix(was.as_str()) {
                finding.title = format!("{front}{now}");
            }
        }
        if finding.why.contains("mcp__") {
            "results over 2,000 tokens are read again by every later request".clone_into(&mut finding.why);
        }
    }
    for unread in &mut report.unread {
        files.replace(unread);
    }
}

/// What could not be read, as a report names it.
pub fn unread(unread: &[Unread]) -> Vec<String> {
    unread.iter().map(ToString::to_string).collect()
}
