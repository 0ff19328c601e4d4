//! Finds templates by name: in the vault, in the user's folder, then among the built-in ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use foreword_core::hash::Hash;
use foreword_vault::folder::Folder;
use serde::Serialize;

use super::{Origin, Template, parse};

/// The template folders of a vault, in order of precedence.
pub const TEMPLATE_FOLDERS: [&str; 2] = ["Foreword/ContextTemplates", "AssistantMD/ContextTemplates"];

/// The built-in templates.
pub const BUILTIN: [(&str, &str); 4] = [
    ("coding", include_str!("builtin/coding.md")),
    ("freeform-chat", include_str!("builtin/freeform-chat.md")),
    ("goal-oriented", include_str!("builtin/goal-oriented.md")),
    ("research-notes", include_str!("builtin/research-notes.md")),
];

/// The largest template file.
const MOST_BYTES: u64 = 256 << 10;

/// The largest number of files to list.
const MOST_FILES: usize = 1_000;

/// Why a template cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTemplate {
    /// There is no such template.
    #[error("no template {0:?}; list templates with `foreword templates list`{1}")]
    NotFound(String, String),
    /// The name is invalid.
    #[error("invalid template name {0:?}: use a file name, or a folder and a file name, that does not begin with `_`")]
    NotAName(String),
    /// The vault's template is not trusted.
    #[error("template {0} of this folder is not trusted; review it with `foreword trust`")]
    NotTrusted(String),
    /// The file cannot be read.
    #[error("cannot read the template {0}: {1}")]
    Unreadable(String, String),
}

/// The places where templates are found.
#[derive(Clone, Debug, Default)]
pub struct Shelf {
    vault: Option<PathBuf>,
    /// The trusted templates of the vault: file and hash of the text.
    trusted: BTreeSet<(String, Hash)>,
    user: Option<PathBuf>,
}

/// A template in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its origin.
    pub origin: Origin,
    /// Its file.
    pub path: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// Whether another template with this name takes precedence.
    pub hidden: bool,
    /// The number of errors.
    pub flaws: usize,
    /// Whether it can be used: the user must allow templates of a vault.
    pub trusted: bool,
}

/// A template folder.
struct TemplateFolder {
    origin: Origin,
    root: PathBuf,
    under: &'static str,
}

impl Shelf {
    /// Uses the templates of a vault and of a user's folder. Of the vault's templates, only `trusted` ones can be used.
    pub fn new(vault: Option<&Path>, trusted: BTreeSet<(String, Hash)>, user: Option<&Path>) -> Self {
        Self { vault: vault.map(Path::to_owned), trusted, user: user.map(Path::to_owned) }
    }

    /// The same places for listing and showing templates, without regard to trust.
    #[must_use]
    pub fn to_look_at(mut self) -> Self {
        if let Some(root) = &self.vault {
            self.trusted.extend(Self::vault_files(root).into_iter().map(|(path, _, text)| (path, Hash::of(text))));
        }
        self
    }

    /// All template files of a vault: path, name and text.
    pub fn vault_files(root: &Path) -> Vec<(String, String, String)> {
        let Ok(folder) = Folder::open(root) else { return Vec::new() };
        let mut files = Vec::new();
        for under in TEMPLATE_FOLDERS {
            for name in names(&TemplateFolder { origin: Origin::Vault, root: root.to_owned(), under }) {
                let path = format!("{under}/{name}.md");
                if let Ok(bytes) = folder.read_bytes(&path, MOST_BYTES) {
                    files.push((path, name, foreword_vault::folder::Text::decode(bytes).text));
                }
            }
        }
        files
    }

    fn places(&self) -> Vec<TemplateFolder> {
        let vault = self.vault.iter().flat_map(|root| {
            TEMPLATE_FOLDERS.iter().map(|under| TemplateFolder { origin: Origin::Vault, root: root.clone(), under })
        });
        let user = self.user.iter().map(|root| TemplateFolder { origin: Origin::User, root: root.clone(), under: "" });
        vault.chain(user).collect()
    }

    /// The template of that name. `.md` may be left out.
    pub fn find(&self, name: &str) -> Result<Template, NoTemplate> {
        self.read(name).map(|(template, _)| template)
    }

    /// The template of that name, and its text as it is written.
    pub fn read(&self, name: &str) -> Result<(Template, String), NoTemplate> {
        let bare = name.trim().strip_suffix(".md").unwrap_or(name.trim());
        if !is_name(bare) {
            return Err(NoTemplate::NotAName(shown(name)));
        }
        let mut refused = None;
        for place in self.places() {
            let Ok(folder) = Folder::open(&place.root) else { continue };
            let path = if place.under.is_empty() { format!("{bare}.md") } else { format!("{}/{bare}.md", place.under) };
            if !folder.root().join(&path).exists() {
                continue;
            }
            let text = folder
                .read_bytes(&path, MOST_BYTES)
                .map(|bytes| foreword_vault::folder::Text::decode(bytes).text)
                .map_err(|error| NoTemplate::Unreadable(shown(&path), error.to_string()))?;
            if place.origin == Origin::Vault && !self.trusted.contains(&(path.clone(), Hash::of(&text))) {
                // A built-in template or one of the user's own is not pushed aside by a file that nobody has allowed.
                refused = Some(NoTemplate::NotTrusted(shown(&path)));
                continue;
            }
            return Ok((template(bare, place.origin, Some(path), &text), text));
        }
        let alike = |name: &str| name.to_lowercase().replace(['_', ' '], "-");
        let builtin = BUILTIN.iter().find(|(name, _)| alike(name) == alike(bare));
        builtin.map(|(name, text)| (template(name, Origin::Builtin, None, text), (*text).to_owned())).ok_or_else(|| {
            if let Some(refused) = refused {
                return refused;
            }
            let near = self.list().into_iter().find(|listed| alike(&listed.name).contains(&alike(bare)));
            NoTemplate::NotFound(shown(name), near.map(|near| format!("; did you mean {:?}?", near.name)).unwrap_or_default())
        })
    }

    /// All of them by name, those that come first in front.
    pub fn list(&self) -> Vec<Listed> {
        let mut found: Vec<Listed> = Vec::new();
        for place in self.places() {
            for name in names(&place) {
                let one = Self { vault: None, trusted: BTreeSet::new(), user: Some(place.root.join(place.under)) };
                if let Ok(template) = one.find(&name)
                    && template.origin == Origin::User
                {
                    let path =
                        template.path.map(|path| if place.under.is_empty() { path } else { format!("{}/{path}", place.under) });
                    let is_trusted = |path: &String| self.trusted.contains(&(path.clone(), template.hash));
                    let trusted = place.origin != Origin::Vault || path.as_ref().is_some_and(is_trusted);
                    found.push(Listed { trusted, ..listed(Template { origin: place.origin.clone(), path, ..template }) });
                }
            }
        }
        found.extend(BUILTIN.iter().map(|(name, text)| listed(template(name, Origin::Builtin, None, text))));
        let mut first: BTreeMap<String, usize> = BTreeMap::new();
        for (at, listed) in found.iter_mut().enumerate() {
            listed.hidden = listed.trusted && *first.entry(listed.name.clone()).or_insert(at) != at;
        }
        found.sort_by(|a, b| a.name.cmp(&b.name)); // stable: the first of a name stays first
        found
    }
}

fn listed(template: Template) -> Listed {
    Listed {
        name: template.name,
        origin: template.origin,
        path: template.path,
        description: template.parsed.description,
        hidden: false,
        flaws: template.parsed.flaws.len(),
        trusted: true,
    }
}

fn template(name: &str, origin: Origin, path: Option<String>, text: &str) -> Template {
    Template { name: name.to_owned(), origin, path, hash: Hash::of(text), parsed: parse(text) }
}

fn shown(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(120).collect()
}

/// A name, or a folder and a name.
fn is_name(name: &str) -> bool {
    let part =
        |part: &str| !part.is_empty() && !part.starts_with(['_', '.']) && !part.contains(['\\', ':', '\0']) && part.len() <= 120;
    let mut parts = name.split('/');
    let (first, second) = (parts.next(), parts.next());
    first.is_some_and(part) && second.is_none_or(part) && parts.next().is_none()
}

/// The markdown files of a folder and of the folders in it, without `.md`.
fn names(place: &TemplateFolder) -> Vec<String> {
    let folder = place.root.join(place.under);
    let mut found = Vec::new();
    let entries = |folder: &Path| -> Vec<(String, bool)> {
        let read = fs::read_dir(folder).into_iter().flatten().flatten();
        read.take(MOST_FILES).filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path().is_dir()))).collect()
    };
    for (name, is_folder) in entries(&folder) {
        if is_folder {
            let inside = entries(&folder.join(&name)).into_iter().filter(|(_, is_folder)| !is_folder);
            found.extend(inside.map(|(file, _)| format!("{name}/{file}")));
        } else {
            found.push(name);
        }
    }
    found.retain(|name| name.strip_suffix(".md").is_some_and(is_name));
    for name in &mut found {
        name.truncate(name.len() - ".md".len());
    }
    found.sort();
    found.truncate(MOST_FILES);
    found
}

/// A template to begin with.
pub fn new_text(name: &str) -> String {
    let title: String = name.rsplit('/').next().unwrap_or(name).chars().filter(|c| !c.is_control()).collect();
    format!(
        "---\ndescription: What {title} is for\npassthrough_runs: 1\ntoken_threshold: 4000\nrecent_runs: 3\n---\n\n\
         ## Context Instructions\n\nWrite plainly. Keep names, paths, numbers and decisions exactly as they were said.\n\n\
         ## Summary\n\n@recent-runs 3\n@recent-summaries 1\n\nWhat is the user after, what was found, what was decided, what is open?\n"
    )
}
