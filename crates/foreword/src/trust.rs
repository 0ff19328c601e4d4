//! Programs that a vault wants to have started. A vault may come from anywhere, so its tool servers run only where the user has said so;
//! what was said is kept for exactly this program with exactly these arguments.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Result;
use foreword_engine::prepare::{ServerSpec, Transport};
use foreword_engine::session::Hash;

use crate::paint::{Paint, note, shown};
use crate::places::places;

/// Those of the servers that the user lets run.
pub(crate) fn trusted(root: &Path, servers: Vec<ServerSpec>, all: bool) -> Result<Vec<ServerSpec>> {
    if servers.is_empty() {
        return Ok(servers);
    }
    let file = places()?.cache.join("trusted-servers");
    let mut known: BTreeSet<String> = fs::read_to_string(&file).unwrap_or_default().lines().map(str::to_owned).collect();
    let mut let_run = Vec::new();
    for server in servers {
        let mark = mark(root, &server);
        if all || known.contains(&mark) {
            let_run.push(server);
        } else if io::stdin().is_terminal() && io::stderr().is_terminal() {
            match ask(&server) {
                Answer::Always => {
                    known.insert(mark);
                    keep(&file, &known);
                    let_run.push(server);
                }
                Answer::Once => let_run.push(server),
                Answer::No => {}
            }
        } else {
            note(format!(
                "the tool server {} of this vault was not started, because nobody has allowed it: {}. \
                 Start a chat at a terminal to allow it, or say --trust-servers",
                shown(&server.name),
                shown(&told(&server))
            ));
        }
    }
    Ok(let_run)
}

/// Those of the servers that the user has let run before; nobody is asked.
pub(crate) fn known(root: &Path, servers: Vec<ServerSpec>) -> Vec<ServerSpec> {
    let Ok(places) = places() else { return Vec::new() };
    let known = fs::read_to_string(places.cache.join("trusted-servers")).unwrap_or_default();
    let (let_run, held): (Vec<_>, Vec<_>) = servers.into_iter().partition(|server| {
        let mark = mark(root, server);
        known.lines().any(|line| line == mark)
    });
    for server in held {
        note(format!(
            "the tool server {} of this vault was not started, because nobody has allowed it: {}. Start `foreword chat` to allow it, or say --trust-servers",
            shown(&server.name),
            shown(&told(&server))
        ));
    }
    let_run
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Once,
    Always,
    No,
}

fn ask(server: &ServerSpec) -> Answer {
    let paint = Paint::stderr();
    eprintln!(
        "This vault has a tool server, {}. To use it, Foreword would run or contact:",
        paint.with("1", shown(&server.name))
    );
    eprintln!("  {}", shown(&told(server)));
    loop {
        eprint!("{} ", paint.with("1", "Let it? [y]es this time, [a]lways, [n]o:"));
        let _ = io::stderr().flush();
        let mut line = String::new();
        if !io::stdin().lock().read_line(&mut line).is_ok_and(|read| read > 0) {
            return Answer::No;
        }
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" => return Answer::Once,
            "a" | "always" => return Answer::Always,
            "n" | "no" => return Answer::No,
            _ => {}
        }
    }
}

/// What a person has to know of a server. Values are not shown, as they may be secret; their names are.
fn told(server: &ServerSpec) -> String {
    let with = |names: Vec<&String>, what: &str| {
        let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
        if names.is_empty() { String::new() } else { format!(" ({what}: {})", names.join(", ")) }
    };
    match &server.transport {
        Transport::Stdio { command, args, env, .. } => {
            let line = std::iter::once(command).chain(args).map(String::as_str).collect::<Vec<_>>().join(" ");
            format!("{line}{}", with(env.0.keys().collect(), "variables"))
        }
        Transport::Http { url, headers } => format!("{url}{}", with(headers.0.keys().collect(), "headers")),
    }
}

/// Stands for this server in this vault, and for no other.
fn mark(root: &Path, server: &ServerSpec) -> String {
    let mut parts = vec![root.display().to_string(), server.name.clone()];
    match &server.transport {
        Transport::Stdio { command, args, env, cwd } => {
            parts.extend([command.clone(), args.len().to_string()]);
            parts.extend(args.iter().cloned());
            parts.extend(env.0.iter().flat_map(|(name, value)| [name.clone(), value.clone()]));
            parts.extend(cwd.clone());
        }
        Transport::Http { url, headers } => {
            parts.push(url.clone());
            parts.extend(headers.0.iter().flat_map(|(name, value)| [name.clone(), value.clone()]));
        }
    }
    Hash::of(parts.join("\0")).to_string()
}

/// Where it cannot be kept, it is asked again the next time.
fn keep(file: &PathBuf, known: &BTreeSet<String>) {
    let text: String = known.iter().flat_map(|mark| [mark.as_str(), "\n"]).collect();
    if let Some(folder) = file.parent() {
        let _ = fs::create_dir_all(folder).and_then(|()| fs::write(file, text));
    }
}
