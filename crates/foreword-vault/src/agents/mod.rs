//! Loads agents from files. An agent is a folder (`Foreword/Agents/<name>/`) of plain files, or one of `TsAgent`'s YAML files.
//! Agent files of other programs (`AGENTS.md`, Cursor rules, skills) are supported too.
//!
//! Loading never fails: invalid parts become [`Problem`]s with file and field, and the rest is loaded.

mod consent;
mod entry;
mod files;
mod folder;
mod import;
mod servers;
mod template;
mod tsagent;

use std::collections::{BTreeMap, BTreeSet};

use foreword_core::catalog::{Agent, Entry};
use foreword_core::item::ItemId;
use serde::Deserialize;

use crate::attach;

pub use self::consent::{Place, VariableUse};
pub use self::files::{Files, Listed, MAX_FILE_BYTES, OnDisk};
pub use self::import::{Imported, import};
pub use self::servers::{ServerSpec, ToolSpec, Transport, Withheld};
pub use self::template::{Part, template_parts};

/// Where agents are, in a vault.
pub const FOLDER: &str = "Foreword/Agents";
const MAX_PROBLEMS: usize = 200;

/// Something in an agent file that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// The field, what was found, and what was done instead.
    pub what: String,
}

/// An agent that is there to be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The name of its folder or file.
    pub name: String,
    /// Where it is.
    pub path: String,
    /// In which form.
    pub form: Form,
}

/// The two forms of agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A folder with an `agent.toml`.
    Folder,
    /// A YAML file of `TsAgent`.
    TsAgent,
}

/// How the model is to answer. What is left out is the provider's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Generation {
    /// How freely it chooses.
    pub temperature: Option<f64>,
    /// From which share of the likely words.
    pub top_p: Option<f64>,
    /// The longest reply, in tokens.
    pub max_output_tokens: Option<u64>,
    /// How often it may call tools before it has to answer.
    pub max_turns: Option<u32>,
}

/// When the user is asked before a tool runs. An agent's file may ask for more questions, never for fewer: a vault may come from anywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asking {
    /// Before every tool.
    Always,
    /// As each tool says.
    #[default]
    Tool,
}

impl Asking {
    /// Reads what the file has under `field`. Only the user can say `never`.
    fn read(word: Option<&str>, field: &str, problems: &mut Problems) -> Self {
        match word {
            Some("always") => Self::Always,
            None | Some("tool") => Self::Tool,
            Some("never") => {
                problems.push(format!(
                    "{field} is never, which only you can set, not a file of the vault; using tool \
                     (--ask never, /tools ask never or the page's settings turn the questions off for a session)"
                ));
                Self::Tool
            }
            Some(_) => {
                problems.push(format!("{field} must be always or tool; using tool"));
                Self::Tool
            }
        }
    }
}

/// Where a rule belongs: it comes along when a file that matches is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The rule's name.
    pub rule: String,
    /// Globs over paths in the vault; one match is enough.
    pub globs: Vec<String>,
}

impl Scope {
    /// Whether the rule belongs to one of the files at `paths`. A glob without a folder is for files in any, as Cursor has it.
    pub fn holds_for(&self, paths: &BTreeSet<String>) -> bool {
        self.globs.iter().any(|glob| {
            let glob = if glob.contains('/') { glob.trim_start_matches('/').to_owned() } else { format!("**/{glob}") };
            attach::matcher(&glob).is_ok_and(|glob| paths.iter().any(|path| glob.is_match(path)))
        })
    }
}

/// Session settings as they are written: an `agent.toml`, or what stands for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsFile {
    /// Where it is in the vault.
    pub path: String,
    /// Its text, in TOML.
    pub text: String,
}

/// An agent and all that was said about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// Its name, for people.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The model it prefers: a row of the model table, or whatever the file says.
    pub model: Option<String>,
    /// How the model is to answer.
    pub generation: Generation,
    /// When the user is asked before a tool runs.
    pub asking: Asking,
    /// The file that may hold session settings; the engine knows and checks them.
    pub settings: Option<SettingsFile>,
    /// System prompt, rules, references and servers. Tools are learned from the servers when they run.
    pub agent: Agent,
    /// How the servers are started.
    pub servers: Vec<ServerSpec>,
    /// The file of each rule and reference that has one of its own.
    pub files: BTreeMap<ItemId, String>,
    /// The file of the system prompt, also where it is not there yet; none where the prompt stands among the agent's other settings.
    pub prompt_file: Option<String>,
    /// The file of its tool servers.
    pub servers_file: Option<String>,
    /// Rules that belong to some files only.
    pub scopes: Vec<Scope>,
    /// What could not be used.
    pub problems: Vec<Problem>,
}

impl Loaded {
    /// Adds what was imported from beside the agent. Its own items win over imported ones of the same name.
    pub fn join(&mut self, imported: Imported) {
        let Imported { rules, references, scopes, problems } = imported;
        self.problems.extend(problems);
        let mut left_out = BTreeSet::new();
        for (own, theirs, kind) in [(&mut self.agent.rules, rules, "rule"), (&mut self.agent.references, references, "reference")]
        {
            let known: BTreeSet<String> = own.iter().map(|entry| entry.name.clone()).collect();
            for (file, entry) in theirs {
                if known.contains(&entry.name) {
                    let what = format!("the agent has its own {kind} {}; the imported one is ignored", entry.name);
                    self.problems.push(Problem { file, what });
                    left_out.insert((kind, entry.name));
                } else {
                    own.push(entry);
                }
            }
        }
        self.scopes.extend(scopes.into_iter().filter(|scope| !left_out.contains(&("rule", scope.rule.clone()))));
    }
}

/// The agents of a vault, by name. An absent folder is a vault without agents.
pub fn list(files: &dyn Files) -> Vec<Found> {
    let listed = files.list(FOLDER).unwrap_or_default();
    let agents = listed.into_iter().filter(|entry| !entry.name.starts_with('.')).filter_map(|entry| {
        let path = format!("{FOLDER}/{}", entry.name);
        if entry.folder {
            return Some(Found { name: entry.name, path, form: Form::Folder });
        }
        let stem = entry.name.strip_suffix(".yaml").or_else(|| entry.name.strip_suffix(".yml"))?;
        Some(Found { name: stem.to_owned(), path, form: Form::TsAgent })
    });
    agents.collect()
}

/// Loads an agent.
pub fn load(files: &dyn Files, found: &Found) -> Loaded {
    match found.form {
        Form::Folder => folder::load(files, found),
        Form::TsAgent => tsagent::load(files, found),
    }
}

/// The problems of one file, collected.
struct Problems {
    file: String,
    field: String,
    list: Vec<Problem>,
}

impl Problems {
    fn of(file: &str) -> Self {
        Self { file: file.to_owned(), field: String::new(), list: Vec::new() }
    }

    /// The same file, inside a field.
    fn inside(&self, field: &str) -> Self {
        let field = if self.field.is_empty() { field.to_owned() } else { format!("{}.{field}", self.field) };
        Self { file: self.file.clone(), field, list: Vec::new() }
    }

    fn push(&mut self, what: String) {
        if self.list.len() < MAX_PROBLEMS {
            let what = if self.field.is_empty() { what } else { format!("{}: {what}", self.field) };
            self.list.push(Problem { file: self.file.clone(), what });
        }
    }

    fn extend(&mut self, other: Self) {
        let room = MAX_PROBLEMS.saturating_sub(self.list.len());
        self.list.extend(other.list.into_iter().take(room));
    }
}

/// Adds `entry` unless its name is taken; whether it was added.
fn add(list: &mut Vec<Entry>, entry: Entry, problems: &mut Problems) -> bool {
    if list.iter().any(|known| known.name == entry.name) {
        problems.push(format!("the name {} is already used; this one is ignored", entry.name));
        false
    } else {
        list.push(entry);
        true
    }
}
