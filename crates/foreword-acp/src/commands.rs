//! Slash commands: what a user can ask for that is not a message to the model.

use serde_json::{Value, json};

use crate::backend::{Failure, Vault, text};

/// The commands: name, description, what may follow.
const COMMANDS: [(&str, &str, Option<&str>); 4] = [
    ("compact", "Replace older messages with a summary, with the next message", Some("what the summary is to look at")),
    ("undo-compact", "Take the last summary back, with the next message", None),
    ("cost", "What this session used and cost", None),
    ("search", "Search the notes without asking the model", Some("words")),
];

/// The list of commands.
pub(crate) fn list() -> Value {
    let command = |(name, description, hint): (&str, &str, Option<&str>)| {
        let input = hint.map(|hint| json!({"hint": hint}));
        json!({"name": name, "description": description, "input": input})
    };
    COMMANDS.into_iter().map(command).collect()
}

/// Runs the command that a prompt is; `None` if it is a message.
pub(crate) async fn run(vault: &Vault, session: &str, words: &str) -> Result<Option<String>, Failure> {
    let Some(line) = words.trim().strip_prefix('/') else { return Ok(None) };
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let answer = match name {
        "compact" => {
            vault.fold(session, Some(rest).filter(|rest| !rest.is_empty())).await?;
            "Older messages are replaced with a summary with your next message.".to_owned()
        }
        "undo-compact" => {
            vault.undo_fold(session).await?;
            "The last summary is taken back with your next message.".to_owned()
        }
        "cost" => {
            let sum = vault.ledger(session).await?;
            format!(
                "{} requests; {} prompt tokens from the cache, {} not; {} reply tokens; ${:.4}",
                sum["requests"],
                sum["read"],
                sum["fresh"],
                sum["output"],
                sum["cost"].as_f64().unwrap_or_default()
            )
        }
        "search" if rest.is_empty() => "Write the words to search for behind /search.".to_owned(),
        "search" => {
            let found = vault.search(rest).await?;
            let results = found["results"].as_array().map(Vec::as_slice).unwrap_or_default();
            let lines = results.iter().map(|result| {
                let score = result["score"].as_f64().unwrap_or_default();
                format!("- {} > {} ({score:.2})", text(result, "path"), text(result, "heading"))
            });
            let lines: Vec<String> = lines.collect();
            if lines.is_empty() { "Nothing fits.".to_owned() } else { lines.join("\n") }
        }
        _ => return Ok(None),
    };
    Ok(Some(answer))
}
