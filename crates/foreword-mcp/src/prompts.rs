//! Rules and context templates as prompts.

use std::collections::BTreeMap;

use foreword_engine::vault::{agent, agents};
use foreword_templates::Template;
use rmcp::ErrorData;
use rmcp::model::{GetPromptResult, ListPromptsResult, Prompt, PromptMessage, Role};

use crate::notes::Notes;

/// The largest number of prompts that are listed.
const MOST: usize = 500;

/// A prompt of the vault.
struct Entry {
    title: String,
    description: Option<String>,
    text: String,
}

/// All prompts, sorted by name.
fn entries(notes: &Notes) -> BTreeMap<String, Entry> {
    let mut entries = BTreeMap::new();
    let root = &notes.config().vault;
    // A folder from elsewhere instructs nobody until the user allows it.
    let corpus = notes.corpus().ok();
    let is_trusted = corpus.is_some_and(|corpus| notes.trust().instructions(corpus.vault()));
    if is_trusted {
        for info in agents(root) {
            let Some((agent, _)) = agent(root, Some(&info.name)) else { continue };
            for rule in agent.rules {
                let title = format!("Rule {} of {}", rule.name, info.name);
                let entry = Entry { title, description: rule.description, text: rule.text };
                entries.insert(format!("rule/{}/{}", info.name, rule.name), entry);
            }
        }
    }
    let shelf = notes.templates();
    for listed in shelf.list().into_iter().filter(|listed| listed.trusted && !listed.hidden) {
        let Ok(template) = shelf.find(&listed.name) else { continue };
        let entry = Entry {
            title: format!("Summary by the template {}", listed.name),
            description: listed.description,
            text: instructions(&template),
        };
        entries.insert(format!("template/{}", listed.name), entry);
    }
    entries
}

/// A template as an instruction to summarize the conversation.
fn instructions(template: &Template) -> String {
    let mut text = "Summarize our conversation so far. Keep names, numbers, paths and decisions exactly.".to_owned();
    let parts = template.parsed.context_instructions.iter().map(|text| (None, text));
    let steps = template.parsed.steps.iter().map(|step| (Some(&step.name), &step.text));
    for (name, part) in parts.chain(steps) {
        text.push_str("\n\n");
        if let Some(name) = name {
            text.extend(["## ", name, "\n\n"]);
        }
        text.push_str(part.trim());
    }
    text
}

/// The list of prompts.
pub(crate) fn list(notes: &Notes) -> ListPromptsResult {
    let prompts = entries(notes).into_iter().take(MOST);
    let prompts = prompts.map(|(name, entry)| Prompt::new(name, entry.description, None).with_title(entry.title));
    ListPromptsResult::with_all_items(prompts.collect())
}

/// The prompt of that name.
pub(crate) fn get(notes: &Notes, name: &str) -> Result<GetPromptResult, ErrorData> {
    let entry = entries(notes).remove(name);
    let entry = entry.ok_or_else(|| ErrorData::invalid_params(format!("there is no prompt {name:?}"), None))?;
    let result = GetPromptResult::new(vec![PromptMessage::new_text(Role::User, entry.text)]);
    Ok(match entry.description {
        Some(description) => result.with_description(description),
        None => result,
    })
}
