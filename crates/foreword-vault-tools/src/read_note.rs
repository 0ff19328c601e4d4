//! `readNote`: a note as a model sees it, a page at a time.

use foreword_core::catalog::Tool;
use foreword_core::version::Version;
use foreword_markdown::note::Part;
use foreword_tools::{Builtin, Output};
use foreword_vault::attach::{Attached, Attachment, Limits, NotAnAttachment};
use foreword_vault::folder::FileKind;
use foreword_vault::helpers::Own;
use foreword_vault::index::Vault;
use jiff::Zoned;
use serde::Deserialize;
use serde_json::{Value, json};

use super::pages::Page;
use super::{Reach, VaultTools, brief, described, one_line, output, read, said};

/// What could not be shown of a note is said in it too, so a few will do.
const MOST_REMARKS: usize = 3;

pub(super) struct ReadNote {
    desk: VaultTools,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    path: String,
    heading: Option<String>,
    from_line: Option<usize>,
    lines: Option<usize>,
}

impl ReadNote {
    pub(super) fn new(desk: VaultTools) -> Self {
        Self { desk }
    }

    fn answer(&self, arguments: &Value) -> Result<String, String> {
        let Arguments { path, heading, from_line, lines } = read(arguments)?;
        let now = self.desk.now();
        let mut corpus = self.desk.corpus();
        let attached = match attach(corpus.vault(), &path, heading.as_deref(), &now)? {
            // It may be new.
            found if found.versions.is_empty() => {
                corpus.refresh();
                attach(corpus.vault(), &path, heading.as_deref(), &now)?
            }
            found => found,
        };
        let remarks: Vec<String> = attached.problems.iter().take(MOST_REMARKS).map(|problem| brief(&problem.what)).collect();
        let Some(Version { id, content, .. }) = attached.versions.first() else {
            return Err(format!("Nothing was read: {}.", remarks.join("; ")));
        };
        if FileKind::of(id.name()) == FileKind::Image {
            return Err(format!("`{}` is an image, which this tool cannot show. The user can attach it.", one_line(id.name())));
        }
        let page = Page::of(content, from_line.unwrap_or(1), lines.unwrap_or(usize::MAX).max(1), self.desk.page())?;
        let head = format!("{}, {}", one_line(id.name()), page.place());
        let head = if remarks.is_empty() { head } else { format!("{head}. {}", remarks.join(". ")) };
        Ok(format!("{head}\n\n{}", page.text))
    }
}

impl Builtin for ReadNote {
    fn tool(&self) -> Tool {
        described(
            "readNote",
            Reach::Reads,
            "Read a note of the user's vault: its text with what it embeds and with its queries answered; also a canvas or a PDF as text. Use it \
             when you know which note you need: from localSearch, from getFileTree, from a [[link]] in another note. Long notes come in \
             pages; the first line of the answer says which lines these are and how to go on.",
            &json!({
                "path": {
                    "type": "string",
                    "description": "The note: its path in the vault (`Kitchen/Bread.md`), its name (`Bread`), or a link as it stands in a note \
                                    (`[[Bread#Timing]]`)."
                },
                "heading": {
                    "type": "string",
                    "description": "Only the section under this heading; `Part > Chapter` where one heading stands under another."
                },
                "fromLine": {"type": "integer", "minimum": 1, "description": "The line to begin with; 1 where it is left out."},
                "lines": {"type": "integer", "minimum": 1, "description": "How many lines at most; as many as fit where it is left out."}
            }),
            &["path"],
        )
    }

    fn run(&mut self, arguments: &Value) -> Output {
        output(self.answer(arguments))
    }
}

fn attach(vault: &Vault, path: &str, heading: Option<&str>, now: &Zoned) -> Result<Attached, String> {
    one_note(vault, path, said(heading), now).map_err(|error| match error {
        NotOneNote::Address => "This is an address, not a note. webFetch reads pages.".to_owned(),
        NotOneNote::Several => {
            let path = brief(path);
            format!("`{path}` names several notes. Give the path of one; getFileTree and localSearch tell paths.")
        }
        NotOneNote::NotAName(error) => error.to_string(),
    })
}

/// Why a name does not lead to one note.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOneNote {
    /// It is a web address.
    #[error("it is a web address, not a note")]
    Address,
    /// It is a tag, a folder or a pattern.
    #[error("it names several notes")]
    Several,
    /// It is none of these.
    #[error(transparent)]
    NotAName(#[from] NotAnAttachment),
}

/// One note as a model reads it: with its embeds and with its queries answered. `name` is its path, its name, its item ID or a link;
/// `heading` selects a section of it, with ` > ` between nested headings.
pub fn one_note(vault: &Vault, name: &str, heading: Option<&str>, now: &Zoned) -> Result<Attached, NotOneNote> {
    let name = name.strip_prefix("note:").unwrap_or(name);
    let attachment = match (vault.attachment(name)?, heading) {
        (Attachment::File { target, part }, Some(heading)) => {
            // Canvases and PDFs have no sections; they are read from the start.
            let is_note = vault.resolve(&target, "").path().is_none_or(|path| FileKind::of(path) == FileKind::Note);
            let names = heading.split(" > ").map(str::to_owned).collect();
            Attachment::File { part: if is_note { Some(Part::Heading(names)) } else { part }, target }
        }
        (one @ (Attachment::File { .. } | Attachment::Lines { .. }), _) => one,
        (Attachment::Url(_), _) => return Err(NotOneNote::Address),
        (_, _) => return Err(NotOneNote::Several),
    };
    Ok(vault.attach(&attachment, now, Limits::default(), &Own::new(vault, now.clone())))
}
