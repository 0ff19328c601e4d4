//! Claims: what the files of a vault ask for, such as programs, URLs, instructions and state. A claim has no effect until the user
//! allows it.

use std::collections::BTreeSet;
use std::path::Path;

use foreword_core::hash::Hash;
use foreword_core::json;
use foreword_text::fence::is_line_end;
use foreword_vault::agents::{self, Loaded, OnDisk, ServerSpec, Transport};
use foreword_vault::attach::Attachment;
use foreword_vault::index::Vault;
use serde::Serialize;

use crate::memory;
use crate::projects;
use foreword_templates::{BUILTIN, Shelf};

/// What a claim would enable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimKind {
    /// A program is started, or an address is spoken to, and its tools are offered to the model.
    ToolServer,
    /// Pages are fetched when a session with a project begins.
    ProjectPages,
    /// Pages may be fetched from hosts that are not on the public internet.
    InternalHosts,
    /// A context template adds system instructions or takes the place of a built-in one.
    Template,
    /// The memory file and rule files add instructions to prompts.
    Instructions,
    /// Sessions, undo records and prompts that came with the folder are used.
    State,
}

/// Something in a vault that has no effect until the user allows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// Its ID, which is stable while the content changes: `server:cook/weather`.
    pub id: String,
    /// What it enables.
    pub kind: ClaimKind,
    /// A one-line title.
    pub title: String,
    /// The effects, line by line.
    pub effects: Vec<String>,
    /// The file or folder in the vault.
    pub file: String,
    /// The content that a decision applies to.
    pub content: String,
    /// Whether it starts a program, which can be given access to the network and the home folder.
    pub program: bool,
}

impl Claim {
    /// The hash of the content.
    pub fn hash(&self) -> Hash {
        Hash::of(&self.content)
    }
}

/// The ID of a tool server's claim.
pub(super) fn server_id(agent: &str, server: &str) -> String {
    format!("server:{agent}/{server}")
}

/// The file of a template's claim.
pub(super) fn template_path(id: &str) -> Option<&str> {
    id.strip_prefix("template:")
}

/// Quoted text from the vault on one line, so that it cannot imitate other lines of the question.
fn quoted(text: &str) -> String {
    json::to_string(&text.into())
}

/// A name from the vault on one line, for titles.
fn named(name: &str) -> String {
    name.replace(|c: char| is_line_end(c) || c.is_control(), "\u{fffd}")
}

/// The ID of the claim about instructions.
const INSTRUCTIONS: &str = "instructions";

/// The ID of the claim about internal hosts.
pub(super) const INTERNAL_HOSTS: &str = "internal-hosts";

/// The ID of the claim about state.
pub(super) const STATE: &str = "state";

/// All claims of a vault except its state.
pub(super) fn all(vault: &Vault) -> Vec<Claim> {
    let mut claims = servers(vault);
    claims.extend(project_pages(vault));
    claims.extend(internal_hosts(&vault.config().web_allow));
    claims.extend(templates(vault));
    claims.extend(instructions(vault));
    claims
}

fn servers(vault: &Vault) -> Vec<Claim> {
    let Ok(files) = OnDisk::new(vault.root()) else { return Vec::new() };
    let mut claims = Vec::new();
    for found in agents::list(&files) {
        let loaded = agents::load(&files, &found);
        let file = loaded.servers_file.clone().unwrap_or_else(|| found.path.clone());
        claims.extend(loaded.servers.iter().map(|spec| server(vault.root(), &found.name, &file, spec)));
    }
    claims
}

/// A tool server of an agent.
pub(super) fn server(root: &Path, agent: &str, file: &str, spec: &ServerSpec) -> Claim {
    let mut effects = Vec::new();
    let mut content = spec.canonical();
    let program = match &spec.transport {
        Transport::Stdio { command, args, env, cwd } => {
            effects.push(format!("runs the program: {}", quoted(command)));
            effects.extend(args.iter().enumerate().map(|(at, arg)| format!("  argument {}: {}", at + 1, quoted(arg))));
            match cwd {
                Some(cwd) => {
                    effects.push(format!("in the folder: {} (files there can change what the program does)", quoted(cwd)));
                }
                None => effects.push("in a new, empty folder".to_owned()),
            }
            effects.extend(env.0.iter().map(|(name, value)| format!("with the variable {} = {}", quoted(name), quoted(value))));
            effects
                .push("can read and change the notes of this folder, but not its hidden files or files in Foreword/".to_owned());
            true
        }
        Transport::Http { url, headers } => {
            effects.push(format!("sends requests to: {}", quoted(url)));
            effects.extend(headers.0.iter().map(|(name, value)| format!("with the header {}: {}", quoted(name), quoted(value))));
            false
        }
    };
    for used in spec.variables() {
        effects.push(format!(
            "asks for the environment variable {} in {}; it is passed on only if [tools] variables in your config.toml allows it",
            quoted(&used.name),
            named(&used.place.to_string())
        ));
    }
    for local in spec.local_files(root) {
        let path = local.strip_prefix(root).unwrap_or(&local).display().to_string();
        let hash = std::fs::read(&local).map_or_else(|error| format!("unreadable: {error}"), |bytes| Hash::of(bytes).to_string());
        effects.push(format!(
            "the program or an argument is a file of this folder: {}; you are asked again when it changes, but not when files that it \
             loads change",
            quoted(&path)
        ));
        content.extend(["\nfile ", path.as_str(), " sha256 ", hash.as_str()]);
    }
    effects.push("gives its tools and their descriptions to the model".to_owned());
    Claim {
        id: server_id(agent, &spec.name),
        kind: ClaimKind::ToolServer,
        title: format!("tool server {} of the agent {}", named(&spec.name), named(agent)),
        effects,
        file: file.to_owned(),
        content,
        program,
    }
}

fn project_pages(vault: &Vault) -> Vec<Claim> {
    let pages = |name: String| {
        let written = projects::read(vault, &name)?;
        project(&name, &written.path, &written.attachments)
    };
    projects::list(vault).into_iter().filter_map(pages).collect()
}

/// The web pages of a project, if it has any.
pub(super) fn project(name: &str, file: &str, attachments: &[Attachment]) -> Option<Claim> {
    let urls = attachments.iter().filter_map(|attachment| match attachment {
        Attachment::Url(url) => Some(url.clone()),
        _ => None,
    });
    let urls: Vec<String> = urls.collect();
    (!urls.is_empty()).then(|| Claim {
        id: format!("pages:{name}"),
        kind: ClaimKind::ProjectPages,
        title: format!("pages of the project {}", named(name)),
        effects: urls.iter().map(|url| format!("fetches {} when a session with this project begins", quoted(url))).collect(),
        file: file.to_owned(),
        content: urls.join("\n"),
        program: false,
    })
}

/// Hosts on a private network from which pages may be fetched.
pub(super) fn internal_hosts(hosts: &[String]) -> Option<Claim> {
    (!hosts.is_empty()).then(|| Claim {
        id: INTERNAL_HOSTS.to_owned(),
        kind: ClaimKind::InternalHosts,
        title: "hosts of your own network".to_owned(),
        effects: hosts
            .iter()
            .map(|host| format!("allows fetching pages from {}, even if it is not public", quoted(host)))
            .collect(),
        file: foreword_vault::config::FILE.to_owned(),
        content: hosts.join("\n"),
        program: false,
    })
}

fn templates(vault: &Vault) -> Vec<Claim> {
    let claims = Shelf::vault_files(vault.root()).into_iter().map(|(path, name, text)| {
        let parsed = foreword_templates::parse(&text);
        let mut effects = Vec::new();
        if BUILTIN.iter().any(|(builtin, _)| *builtin == name) {
            effects.push(format!("replaces the built-in template {name}"));
        }
        if parsed.chat_instructions.is_some() {
            effects.push("adds its chat instructions to the system prompt of sessions that use it".to_owned());
        }
        effects.push("controls how older messages are summarized in sessions that use it; its text:".to_owned());
        effects.extend(text.lines().map(|line| format!("| {line}")));
        Claim {
            id: format!("template:{path}"),
            kind: ClaimKind::Template,
            title: format!("context template {}", named(&name)),
            effects,
            file: path,
            content: text,
            program: false,
        }
    });
    claims.collect()
}

/// The memory file and rule files of a vault, if there are any.
pub(super) fn instructions(vault: &Vault) -> Option<Claim> {
    let memory = memory::of(vault);
    let imported = OnDisk::new(vault.root()).map(|files| {
        let mut imported = Loaded::default();
        imported.join(agents::import(&files, vault.notes().map(|listed| listed.facts.path.as_str())));
        imported
    });
    let imported = imported.unwrap_or_default();
    let scoped: BTreeSet<&str> = imported.scopes.iter().map(|scope| scope.rule.as_str()).collect();
    let rules: Vec<_> = imported.agent.rules.iter().filter(|rule| scoped.contains(rule.name.as_str())).collect();
    if memory.is_none() && rules.is_empty() {
        return None;
    }
    let indented = |text: &str| text.lines().map(|line| format!("| {line}")).collect::<Vec<_>>();
    let mut effects = Vec::new();
    if let Some(memory) = &memory {
        effects.push(format!("adds the text of {} to the system prompt, currently:", memory::FILE));
        effects.extend(indented(memory));
    }
    for rule in &rules {
        effects.push(format!("adds the rule {} when a matching file is attached, currently:", quoted(&rule.name)));
        effects.extend(indented(&rule.text));
    }
    effects.push("you are not asked again when the text of these files changes, but when a rule file is added".to_owned());
    // People edit these files all the time, so the decision is about which rules there are, not about their text.
    let mut content = "the memory file of this folder".to_owned();
    for rule in &rules {
        content.extend(["\nrule ", &quoted(&rule.name)]);
    }
    Some(Claim {
        id: INSTRUCTIONS.to_owned(),
        kind: ClaimKind::Instructions,
        title: "instructions in the memory file and rule files".to_owned(),
        effects,
        file: memory::FILE.to_owned(),
        content,
        program: false,
    })
}
