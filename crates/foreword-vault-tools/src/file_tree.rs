//! `getFileTree`: the folders and files of the vault.

use std::collections::BTreeSet;

use foreword_core::catalog::Tool;
use foreword_tools::{Builtin, Output};
use foreword_vault::index::Vault;
use foreword_vault::tree::Show;
use serde::Deserialize;
use serde_json::{Value, json};

use super::pages::Page;
use super::{Reach, VaultTools, brief, described, one_line, output, read};

/// Deeper than anyone's folders.
const MOST_DEPTH: usize = 64;

pub(super) struct FileTree {
    desk: VaultTools,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    folder: Option<String>,
    depth: Option<usize>,
    from_line: Option<usize>,
}

impl FileTree {
    pub(super) fn new(desk: VaultTools) -> Self {
        Self { desk }
    }

    fn answer(&self, arguments: &Value) -> Result<String, String> {
        let Arguments { folder, depth, from_line } = read(arguments)?;
        let mut corpus = self.desk.corpus();
        corpus.refresh();
        let vault = corpus.vault();
        let folder = folder_meant(vault, folder.as_deref().unwrap_or_default())?;
        let depth = depth.unwrap_or(MOST_DEPTH).min(MOST_DEPTH);
        let (text, remark) = fitting(vault, &folder, depth, self.desk.page());
        let page = Page::of(&text, from_line.unwrap_or(1), usize::MAX, self.desk.page())?;
        let head = if folder.is_empty() { "The vault".to_owned() } else { format!("The folder {}", one_line(&folder)) };
        Ok(format!("{head}, {}{remark}\n\n{}", page.place(), page.text))
    }
}

impl Builtin for FileTree {
    fn tool(&self) -> Tool {
        described(
            "getFileTree",
            Reach::Reads,
            "List the folders and files of the user's vault. Use it to see how the notes are organised, to find a note by where it is rather than \
             by what it says, or to choose a place for a new note. In a large vault it lists folders with how many notes each has; ask for one \
             folder to see its files. To find what notes say, use localSearch.",
            &json!({
                "folder": {"type": "string", "description": "Only this folder of the vault, such as `Projects/2026`; all where it is left out."},
                "depth": {
                    "type": "integer", "minimum": 0, "maximum": MOST_DEPTH,
                    "description": "How many folders deep; 0 lists the files of the folder itself alone. All where it is left out."
                },
                "fromLine": {"type": "integer", "minimum": 1, "description": "The line to begin with, where the list has several pages."}
            }),
            &[],
        )
    }

    fn run(&mut self, arguments: &Value) -> Output {
        output(self.answer(arguments))
    }
}

/// The folder of the vault that is meant, as the vault writes it.
fn folder_meant(vault: &Vault, asked: &str) -> Result<String, String> {
    /// How many folders are named where none fits.
    const NAMED: usize = 20;
    let asked = asked.trim().trim_start_matches("./").trim_matches('/');
    if asked.is_empty() || asked == "." {
        return Ok(String::new());
    }
    let notes = vault.notes().map(|listed| listed.facts.path.as_str());
    let files = notes.chain(vault.files().map(|file| file.facts.path.as_str()));
    let folders: BTreeSet<&str> = files.flat_map(|path| path.match_indices('/').map(|(at, _)| &path[..at])).collect();
    if let Some(exact) = folders.get(asked) {
        return Ok((*exact).to_owned());
    }
    let lower = asked.to_lowercase();
    let alike = folders.iter().find(|folder| folder.to_lowercase() == lower);
    let by_name = || folders.iter().find(|folder| folder.rsplit('/').next().is_some_and(|name| name.to_lowercase() == lower));
    if let Some(meant) = alike.or_else(by_name) {
        return Ok((*meant).to_owned());
    }
    let top: Vec<String> = folders.iter().filter(|folder| !folder.contains('/')).take(NAMED).map(|name| brief(name)).collect();
    Err(format!("No folder `{}` of the vault has files. Folders at the top: {}.", brief(asked), top.join(", ")))
}

/// The tree with its files where that is one page, else its folders alone, and what is to be said about that. Files of one folder are
/// listed whatever their number: there is no other way to see them.
fn fitting(vault: &Vault, folder: &str, depth: usize, most: usize) -> (String, &'static str) {
    let text =
        |depth, show| vault.tree(folder, depth, show).map(|tree| (tree.folders.is_empty(), tree.text())).unwrap_or_default();
    let (is_flat, files) = text(depth, Show::Files);
    if is_flat || files.len() <= most {
        return (files, "");
    }
    let (_, folders) = text(depth, Show::Folders);
    if folders.len() <= most {
        return (
            folders,
            ". Names of files are left out, because there are too many: ask for one folder, with depth 0 for its own files alone",
        );
    }
    let (_, top) = text(1, Show::Folders);
    (top, ". Only the folders at the top are listed, because there are too many: ask for one of them")
}
