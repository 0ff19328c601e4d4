//! `write_note`: makes or changes a note, if nobody else has changed it since it was read.

use foreword_engine::session::Hash;
use foreword_engine::vault::Text;
use foreword_vault_tools::{Change, Draft, hidden_character, is_instruction};
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Definition, Effect, MOST_BYTES, cut, one_line, read};
use crate::notes::Notes;

pub(super) const DEFINITION: Definition = Definition {
    name: "write_note",
    title: "Write a note",
    description: "Create or change a note of the user's vault. To change one, give the hash that read_note returned: if the note changed since \
                  then, nothing is written. Without a hash a new note is created, and nothing is written if there is one already. Give exactly \
                  one of: content (all of the note), append (text for its end), find and replace (one passage). The old text is kept and can \
                  be restored.",
    arguments,
    required: &["path"],
    answer,
    effect: Effect::Writes,
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    hash: Option<String>,
    content: Option<String>,
    append: Option<String>,
    find: Option<String>,
    replace: Option<String>,
}

fn arguments() -> Value {
    json!({
        "path": {"type": "string", "description": "The path of the note with its extension: `Kitchen/Bread.md`."},
        "hash": {"type": "string", "pattern": "^[0-9a-f]{64}$", "description": "The hash of the note as you read it; leave it out to create a note."},
        "content": {"type": "string", "description": "The whole text of the note, as markdown."},
        "append": {"type": "string", "description": "Text for the end of the note."},
        "find": {"type": "string", "description": "The passage to replace, exactly as in the file, long enough to occur once."},
        "replace": {"type": "string", "description": "The new text of the passage."},
    })
}

fn answer() -> Value {
    json!({
        "path": {"type": "string"},
        "created": {"type": "boolean"},
        "hash": {"type": "string", "description": "The hash of the new text."},
        "diff": {"type": "string", "description": "What changed, as a unified diff."},
    })
}

fn run(notes: &Notes, arguments: JsonObject) -> Result<Answer, String> {
    let Arguments { path, hash, content, append, find, replace } = read(arguments)?;
    let path = path.trim();
    if let Some(character) = hidden_character(path) {
        return Err(format!("the path has the invisible character U+{:04X}; give it without", u32::from(character)));
    }
    if is_instruction(path) {
        return Err(format!(
            "{:?} is read as instructions or as a chat by programs; such files are not written here",
            one_line(path)
        ));
    }
    let change = match (&content, &append, &find, &replace, &hash) {
        (Some(text), None, None, None, Some(_)) => Change::Replace(text),
        (Some(text), None, None, None, None) => Change::Create(text),
        (None, Some(text), None, None, Some(_)) => Change::Append(text),
        (None, None, Some(find), Some(replace), Some(_)) => Change::Passage { find, replace },
        (None, Some(_), None, None, None) | (None, None, Some(_), Some(_), None) => {
            return Err("to change a note, give the hash that read_note returned for it".to_owned());
        }
        _ => return Err("give exactly one of: content; append; find and replace".to_owned()),
    };
    // Nobody else writes through this server meanwhile.
    let mut corpus = notes.corpus()?;
    let draft = notes.note_folder()?.prepare(path, &change).map_err(|error| error.to_string())?;
    if let Some(expected) = &hash {
        let before =
            draft.before().ok_or_else(|| format!("there is no note {:?}; leave out the hash to create it", one_line(path)))?;
        if hash_of(before) != *expected {
            let path = one_line(path);
            return Err(format!("{path:?} has changed since you read it, so nothing was written; read it again with read_note"));
        }
    }
    let diff = draft.diff().map_err(|error| error.to_string())?.to_owned();
    let (path, created) = (draft.path().to_owned(), draft.is_new());
    Draft::apply(draft).map_err(|error| error.to_string())?;
    corpus.refresh_paths(std::slice::from_ref(&path));
    let hash = corpus.vault().read(&path).map(|text| Hash::of(text.text).to_string()).map_err(|error| error.to_string())?;
    let done = if created { "Created" } else { "Changed" };
    let diff = cut(&diff, MOST_BYTES);
    let text = format!("{done} {}.\n\n{diff}", one_line(&path));
    Ok(Answer { text, structured: json!({"path": path, "created": created, "hash": hash, "diff": diff}) })
}

/// The hash of a text as `read_note` computes it.
fn hash_of(text: &str) -> String {
    Hash::of(Text::decode(text.as_bytes().to_vec()).text).to_string()
}
