//! Edits an agent: its system prompt, its rules and references, and the include modes of its tools. Each is a file in the vault
//! that people also edit: unknown content is preserved, a file that changed meanwhile is not overwritten, and nothing is written
//! that would be read differently.

mod file;
#[cfg(test)]
mod tests;
mod tools;

use std::io;

use foreword_core::catalog::{Agent, CatalogBody, Entry};
use foreword_core::hash::Hash;
use foreword_core::item::{ItemId, Kind};
use foreword_tools::write::{Change as Written, NoteFolder, WriteError, replace_settings};
use foreword_vault::agents::{self, FOLDER, Files as _, Form, Found, Loaded, OnDisk};

pub use file::Change;
pub use foreword_core::catalog::{Include, Priority};

use file::{With, edited, word};

/// The longest description in characters.
const MOST_DESCRIPTION: usize = 1_000;

/// Why an edit failed. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// There is no such agent.
    #[error("there is no agent {0:?} in {FOLDER} of this vault")]
    NoAgent(String),
    /// The agent is a single file.
    #[error("agent {0:?} is a single file, {1}: edit its items there")]
    OneFile(String, String),
    /// The name is not a valid file name.
    #[error("invalid name {0:?}: use one line that is a valid file name")]
    Name(String),
    /// The item is not a rule or reference.
    #[error("{0} is not a rule or reference; tools are set in the agent's mcp.json")]
    Kind(ItemId),
    /// Only the include mode of a tool can be changed.
    #[error("only the include mode of {0} can be changed; its server sets the rest")]
    Fixed(ItemId),
    /// The system prompt has no file.
    #[error("the system prompt of {0:?} is in its settings file: change it there")]
    NoPromptFile(String),
    /// There is no such item.
    #[error("the agent has no file for {0}")]
    NoItem(ItemId),
    /// The name is already used.
    #[error("{0} already exists; change it, or choose another name")]
    Exists(String),
    /// The file changed meanwhile.
    #[error("{0} was changed by someone else after you read it; read it again before you change it")]
    Changed(String),
    /// The result would be read differently.
    #[error("cannot change {0} safely: {1}. Edit the file by hand")]
    Otherwise(String, String),
    /// A file cannot be read.
    #[error("cannot read {0}: {1}")]
    Unreadable(String, io::Error),
    /// A file cannot be written.
    #[error(transparent)]
    Write(WriteError),
}

impl From<WriteError> for EditError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Changed { path } | WriteError::Missing { path } => Self::Changed(path),
            WriteError::Exists { existing, .. } => Self::Exists(existing),
            error => Self::Write(error),
        }
    }
}

/// The editable items of an agent.
pub struct Catalog {
    notes: NoteFolder,
    files: OnDisk,
    found: Found,
    loaded: Loaded,
}

/// Creates an agent: a folder with its system prompt.
pub fn create_agent(notes: &NoteFolder, name: &str, system_prompt: &str) -> Result<(), EditError> {
    let is_name = !name.contains('/') && name.trim() == name;
    let taken = Catalog::open(notes, name).is_ok() || notes.root().join(FOLDER).join(name).exists();
    match (is_name, taken) {
        (false, _) => Err(EditError::Name(name.to_owned())),
        (_, true) => Err(EditError::Exists(format!("agent {name:?}"))),
        _ => Ok(notes.prepare(&format!("{FOLDER}/{name}/prompt.md"), &Written::Create(system_prompt.trim()))?.apply()?),
    }
}

impl Catalog {
    /// Opens an agent by name.
    pub fn open(notes: &NoteFolder, name: &str) -> Result<Self, EditError> {
        let none = || EditError::NoAgent(name.chars().filter(|c| !c.is_control()).take(80).collect());
        let files = OnDisk::new(notes.root()).map_err(|_| none())?;
        let found = agents::list(&files).into_iter().find(|found| found.name == name).ok_or_else(none)?;
        let loaded = agents::load(&files, &found);
        Ok(Self { notes: notes.clone(), files, found, loaded })
    }

    /// The agent.
    pub fn agent(&self) -> &Agent {
        &self.loaded.agent
    }

    /// Problems in its files.
    pub fn problems(&self) -> Vec<String> {
        self.loaded.problems.iter().map(|problem| format!("{}: {}", problem.file, problem.what)).collect()
    }

    /// The hash of an item's file, or `None` if it has no file of its own. The tools of a server share its configuration file.
    pub fn version(&self, id: &ItemId) -> Option<Hash> {
        let file = match server_of(id) {
            Some((server, _)) => self.loaded.servers_file.as_ref().filter(|_| self.has_server(server))?,
            None => self.loaded.files.get(id)?,
        };
        self.files.read(file).ok().map(Hash::of)
    }

    fn has_server(&self, server: &str) -> bool {
        self.loaded.servers.iter().any(|spec| spec.name == server)
    }

    /// The hash of the system prompt's file, or of an empty one; `None` if it has no file of its own.
    pub fn prompt_version(&self) -> Option<Hash> {
        self.loaded.prompt_file.as_ref().and_then(|path| self.read_or_empty(path).ok()).map(Hash::of)
    }

    fn read_or_empty(&self, path: &str) -> Result<String, EditError> {
        match self.files.read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            read => read.map_err(|error| EditError::Unreadable(path.to_owned(), error)),
        }
    }

    /// Replaces the system prompt if its file still has this hash. Returns the new hash.
    pub fn edit_prompt(&self, version: Hash, prompt: &str) -> Result<Hash, EditError> {
        let name = || self.found.name.clone();
        if self.found.form != Form::Folder {
            return Err(EditError::OneFile(name(), self.found.path.clone()));
        }
        let path = self.loaded.prompt_file.as_ref().ok_or_else(|| EditError::NoPromptFile(name()))?;
        let old = self.read_or_empty(path)?;
        if Hash::of(&old) != version {
            return Err(EditError::Changed(path.clone()));
        }
        let meant = prompt.replace("\r\n", "\n").trim().to_owned();
        if meant == self.agent().system_prompt {
            return Ok(version);
        }
        let end = if old.contains("\r\n") { "\r\n" } else { "\n" };
        let text = format!("{}{end}", meant.replace('\n', end));
        let draft = match self.files.read(path) {
            Ok(_) => self.notes.prepare(path, &Written::Replace(&text))?,
            Err(_) => self.notes.prepare(path, &Written::Create(&text))?,
        };
        if draft.before().unwrap_or_default() != old {
            return Err(EditError::Changed(path.clone()));
        }
        let then = agents::load(&With { disk: &self.files, path, text: &text }, &self.found);
        if then.agent != (Agent { system_prompt: meant, ..self.agent().clone() }) {
            return Err(EditError::Otherwise(path.clone(), "another file overrides it".to_owned()));
        }
        draft.apply()?;
        Ok(Hash::of(&text))
    }

    /// Sets the include mode of a tool if its configuration file still has this hash. Returns the new hash. Permissions cannot be
    /// set here.
    fn edit_tool(&self, id: &ItemId, version: Hash, change: &Change) -> Result<Hash, EditError> {
        let (Change { text: None, description: None, priority: None, include: Some(include) }, Some((server, tool))) =
            (change, server_of(id))
        else {
            return Err(EditError::Fixed(id.clone()));
        };
        let path = self.loaded.servers_file.as_ref().filter(|_| self.has_server(server));
        let path = path.ok_or_else(|| EditError::NoItem(id.clone()))?;
        let old = self.files.read(path).map_err(|error| EditError::Unreadable(path.clone(), error))?;
        if Hash::of(&old) != version {
            return Err(EditError::Changed(path.clone()));
        }
        let otherwise = || EditError::Otherwise(path.clone(), "its format is not supported".to_owned());
        let place = ["mcpServers", server, "tools", tool, "include"];
        let text = tools::set(&old, &place, &format!("{:?}", word(*include))).ok_or_else(otherwise)?;
        let mut meant = self.loaded.servers.clone();
        for spec in meant.iter_mut().filter(|spec| spec.name == server) {
            spec.tools.entry(tool.to_owned()).or_default().include = Some(*include);
        }
        let then = agents::load(&With { disk: &self.files, path, text: &text }, &self.found);
        if then.servers != meant || then.agent != self.loaded.agent {
            return Err(otherwise());
        }
        replace_settings(self.notes.root(), path, &old, &text)?;
        Ok(Hash::of(&text))
    }

    /// Creates an item. Returns the hash of its file.
    pub fn create(&self, id: &ItemId, change: &Change) -> Result<Hash, EditError> {
        let folder = self.folder(id)?;
        if id.name().contains('/') || id.name().trim() != id.name() {
            return Err(EditError::Name(id.name().to_owned()));
        }
        if self.agent().find(id).is_some() {
            return Err(EditError::Exists(id.to_string()));
        }
        let path = format!("{folder}/{}.md", id.name());
        let new = Entry {
            name: id.name().to_owned(),
            description: None,
            text: String::new(),
            priority: Priority::DEFAULT,
            include: Include::Manual,
        };
        let (text, meant) = edited("", &new, &bounded(change));
        let draft = self.notes.prepare(&path, &Written::Create(&text))?;
        self.check(id, &path, &text, &meant)?;
        draft.apply()?;
        Ok(Hash::of(&text))
    }

    /// Changes an item if its file still has this hash. Returns the new hash.
    pub fn edit(&self, id: &ItemId, version: Hash, change: &Change) -> Result<Hash, EditError> {
        if id.kind() == Kind::Tool && self.found.form == Form::Folder {
            return self.edit_tool(id, version, change);
        }
        let (path, old) = self.read(id, version)?;
        let Some(CatalogBody::Rule(entry) | CatalogBody::Reference(entry)) = self.agent().find(id).map(|item| item.body) else {
            return Err(EditError::NoItem(id.clone()));
        };
        let (text, meant) = edited(&old, entry, &bounded(change));
        if text == old {
            return Ok(version);
        }
        let draft = self.notes.prepare(path, &Written::Replace(&text))?;
        if draft.before() != Some(old.as_str()) {
            return Err(EditError::Changed(path.to_owned()));
        }
        self.check(id, path, &text, &meant)?;
        draft.apply()?;
        Ok(Hash::of(&text))
    }

    /// Removes an item if its file still has this hash.
    pub fn remove(&self, id: &ItemId, version: Hash) -> Result<(), EditError> {
        let (path, old) = self.read(id, version)?;
        Ok(self.notes.remove(path, &old)?)
    }

    /// The file of an item, if it still has this hash.
    fn read(&self, id: &ItemId, version: Hash) -> Result<(&str, String), EditError> {
        self.folder(id)?;
        let path = self.loaded.files.get(id).ok_or_else(|| EditError::NoItem(id.clone()))?;
        let text = self.files.read(path).map_err(|error| EditError::Unreadable(path.clone(), error))?;
        if Hash::of(&text) == version { Ok((path, text)) } else { Err(EditError::Changed(path.clone())) }
    }

    /// The folder for items of this kind.
    fn folder(&self, id: &ItemId) -> Result<String, EditError> {
        if self.found.form != Form::Folder {
            return Err(EditError::OneFile(self.found.name.clone(), self.found.path.clone()));
        }
        match id.kind() {
            Kind::Rule => Ok(format!("{}/rules", self.found.path)),
            Kind::Reference => Ok(format!("{}/references", self.found.path)),
            _ => Err(EditError::Kind(id.clone())),
        }
    }

    /// Checks that the new file is read as intended and changes nothing else in the agent.
    fn check(&self, id: &ItemId, path: &str, text: &str, meant: &Entry) -> Result<(), EditError> {
        let then = agents::load(&With { disk: &self.files, path, text }, &self.found);
        let of_file = |loaded: &Loaded| loaded.problems.iter().filter(|problem| problem.file == path).count();
        let read = match then.agent.find(id).map(|item| item.body) {
            Some(CatalogBody::Rule(entry) | CatalogBody::Reference(entry))
                if then.files.get(id).is_some_and(|file| file == path) =>
            {
                entry
            }
            _ => {
                let why = then.problems.iter().find(|problem| problem.file == path);
                let why = why.map_or("its name is already used", |problem| &problem.what);
                return Err(EditError::Otherwise(path.to_owned(), why.to_owned()));
            }
        };
        if read != meant || of_file(&then) > of_file(&self.loaded) {
            return Err(EditError::Otherwise(
                path.to_owned(),
                "its frontmatter is written in a way that is not understood".to_owned(),
            ));
        }
        Ok(())
    }
}

/// The server and the name of a tool.
fn server_of(id: &ItemId) -> Option<(&str, &str)> {
    id.name().split_once('/').filter(|_| id.kind() == Kind::Tool)
}

/// Limits the change to one line of bounded length.
fn bounded(change: &Change) -> Change {
    let line = |text: &String| text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MOST_DESCRIPTION).collect();
    Change { description: change.description.as_ref().map(line), ..change.clone() }
}
