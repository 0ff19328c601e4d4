//! `writeNote`: a note is made or changed, after a person has seen the diff.

use foreword_core::catalog::Tool;
use foreword_text::hidden::visible;
use foreword_tools::write::{Change, Draft, Undone, WriteError, hidden_character, is_instruction};
use foreword_tools::{Builtin, Output};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Reach, VaultTools, brief, described, output, read};

pub(super) struct WriteNote {
    desk: VaultTools,
    /// What a person was shown, and for which arguments: that is made, or nothing.
    shown: Option<(Value, Draft)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    content: Option<String>,
    append: Option<String>,
    find: Option<String>,
    replace: Option<String>,
    undo: Option<bool>,
}

/// What is to become of a note.
enum Wish {
    /// It gets this text, whether it is there or not.
    Content(String),
    /// These lines come at its end.
    Append(String),
    /// One passage takes the place of another.
    Passage { find: String, replace: String },
    /// The last change is taken back.
    Undo,
}

impl Arguments {
    fn wish(self) -> Result<(String, Wish), String> {
        let Self { path, content, append, find, replace, undo } = self;
        // Some models fill in what they do not need with nothing.
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let wish = match (given(content), given(append), given(find), replace, undo.unwrap_or_default()) {
            (Some(text), None, None, _, false) => Wish::Content(text),
            (None, Some(text), None, _, false) => Wish::Append(text),
            (None, None, Some(find), Some(replace), false) => Wish::Passage { find, replace },
            (None, None, None, _, true) => Wish::Undo,
            _ => return Err("Give exactly one of these: content; append; find and replace; undo.".to_owned()),
        };
        // Prompts name notes by their ids too.
        let path = path.trim();
        let path = path.strip_prefix("note:").unwrap_or(path);
        if let Some(character) = hidden_character(path) {
            return Err(format!(
                "cannot write a note with U+{:04X} in its path: nobody can see that character. Give the path without it.",
                u32::from(character)
            ));
        }
        if is_instruction(path) {
            let path = brief(path);
            return Err(format!(
                "`{path}` is none of the user's notes: instructions for agents and kept chats are not written here."
            ));
        }
        Ok((path.to_owned(), wish))
    }
}

impl WriteNote {
    pub(super) fn new(desk: VaultTools) -> Self {
        Self { desk, shown: None }
    }

    /// What would be done; nothing where the last change would be taken back.
    fn draft(&self, path: &str, wish: &Wish) -> Result<Option<Draft>, String> {
        let corpus = self.desk.corpus();
        let vault = corpus.vault();
        let notes = self.desk.note_folder(vault.root()).map_err(|error| error.to_string())?;
        let draft = |change: &Change<'_>| notes.prepare(path, change);
        let prepared = match wish {
            Wish::Content(text) => match draft(&Change::Replace(text)) {
                Err(WriteError::Missing { .. }) => draft(&Change::Create(text)),
                done => done,
            },
            Wish::Append(text) => draft(&Change::Append(text)),
            Wish::Passage { find, replace } => draft(&Change::Passage { find, replace }),
            Wish::Undo => return Ok(None),
        };
        prepared.map(Some).map_err(|error| match (&error, vault.resolve(path, "").path()) {
            (WriteError::Missing { .. }, Some(meant)) => format!("{error}. Perhaps `{meant}` is meant"),
            _ => error.to_string(),
        })
    }

    fn answer(&mut self, arguments: &Value) -> Result<String, String> {
        let shown = self.shown.take().filter(|(shown, _)| shown == arguments);
        let (path, wish) = read::<Arguments>(arguments)?.wish()?;
        let draft = match shown {
            Some((_, draft)) => Some(draft),
            None => self.draft(&path, &wish)?,
        };
        let Some(draft) = draft else {
            return match self.desk.undo(&path)? {
                Undone::Restored => Ok(format!("Took back the last change of {path}: it is as it was before.")),
                Undone::Removed => Ok(format!("Took back that {path} was made: it is gone.")),
            };
        };
        let (path, done) = (draft.path().to_owned(), if draft.is_new() { "Made" } else { "Changed" });
        draft.apply().map_err(|error| error.to_string())?;
        self.desk.corpus().refresh_paths(std::slice::from_ref(&path));
        Ok(format!("{done} {path}. What it held before is kept; writeNote with this path and undo: true takes the change back."))
    }
}

impl Builtin for WriteNote {
    fn tool(&self) -> Tool {
        described(
            "writeNote",
            Reach::Writes,
            "Make a note in the user's vault or change one. Use it only where the user wants something written down or changed. The user sees the \
             change as a diff and decides. Give exactly one of: content, for a new note or to replace all of one; append, to add to its end; \
             find and replace, to change one passage (the best way to edit: read the note first); undo, to take back the last change made here.",
            &json!({
                "path": {
                    "type": "string",
                    "description": "The path of the note in the vault, its ending included: `Kitchen/Bread.md`. New folders are made."
                },
                "content": {"type": "string", "description": "All that the note is to hold, as markdown."},
                "append": {"type": "string", "description": "What comes at the end of the note, as markdown."},
                "find": {"type": "string", "description": "The passage to change, exactly as the note has it and long enough to be there once."},
                "replace": {"type": "string", "description": "What takes the place of the passage; empty to remove it."},
                "undo": {"type": "boolean", "description": "true takes back the last change that this tool made to the note."}
            }),
            &["path"],
        )
    }

    fn preview(&mut self, arguments: &Value) -> Result<Option<String>, String> {
        self.shown = None;
        let (path, wish) = read::<Arguments>(arguments)?.wish()?;
        let Some(draft) = self.draft(&path, &wish)? else {
            return Ok(Some(format!("The last change that was made to {} here is taken back.", brief(&path))));
        };
        let diff = visible(draft.diff().map_err(|error| error.to_string())?);
        self.shown = Some((arguments.clone(), draft));
        Ok(Some(diff))
    }

    fn run(&mut self, arguments: &Value) -> Output {
        output(self.answer(arguments))
    }
}
