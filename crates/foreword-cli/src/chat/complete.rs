//! Tab completion in a chat: notes after `[[`, tags after `#`, the agent's items after `@`, commands and their arguments.

use std::borrow::Cow;
use std::collections::BTreeSet;

use foreword_engine::session::RecordedSession;
use foreword_engine::vault::Vault;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::COMMANDS;
use crate::paint::{Paint, shown};

/// The largest number of suggestions.
const MOST: usize = 50;

/// The names that can be completed.
#[derive(Default)]
pub(super) struct Names {
    notes: Vec<String>,
    tags: Vec<String>,
    /// `rule:tone`
    items: Vec<String>,
    models: Vec<String>,
}

impl Names {
    pub(super) fn of(vault: &Vault, kept: &RecordedSession, models: Vec<String>) -> Self {
        let tags: BTreeSet<String> = vault.notes().flat_map(|listed| listed.note.tags.iter().cloned()).collect();
        let agent = kept.session().agent();
        let rules = agent.rules.iter().map(|rule| format!("rule:{}", rule.name));
        let references = agent.references.iter().map(|reference| format!("reference:{}", reference.name));
        Self {
            notes: vault.notes().map(|listed| listed.facts.path.trim_end_matches(".md").to_owned()).collect(),
            tags: tags.into_iter().collect(),
            items: rules.chain(references).collect(),
            models,
        }
    }

    /// The start of the word being completed, and its completions.
    fn offers(&self, before: &str) -> (usize, Vec<String>) {
        if let Some(open) = before.rfind("[[").filter(|open| !before[*open..].contains("]]")) {
            let begun = before[open + 2..].to_lowercase();
            let fits = self.notes.iter().filter(|name| name.to_lowercase().contains(&begun));
            return (open, fits.map(|name| format!("[[{name}]]")).take(MOST).collect());
        }
        let word_at = before.rfind([' ', '\n']).map_or(0, |at| at + 1);
        let word = &before[word_at..];
        if let Some(begun) = word.strip_prefix('#') {
            let begun = begun.to_lowercase();
            let fits = self.tags.iter().filter(|tag| tag.to_lowercase().starts_with(&begun));
            return (word_at, fits.map(|tag| format!("#{tag}")).take(MOST).collect());
        }
        if word.starts_with('@') {
            let mentions = self.items.iter().map(|item| format!("@{}", item.replacen("reference:", "ref:", 1)));
            return (word_at, mentions.filter(|mention| mention.starts_with(word)).take(MOST).collect());
        }
        let Some((command, begun)) = before.split_once(' ') else {
            let words = COMMANDS.iter().filter_map(|command| command.usage.split(' ').next());
            let fits = words.filter(|word| before.starts_with('/') && word.starts_with(before)).map(str::to_owned);
            return (0, fits.collect::<BTreeSet<_>>().into_iter().collect());
        };
        let lower = begun.to_lowercase();
        let names = match command {
            "/add" | "/remove" => &self.items,
            "/attach" => &self.notes,
            "/model" => &self.models,
            _ => return (before.len(), Vec::new()),
        };
        let fits = names.iter().filter(|name| name.to_lowercase().contains(&lower));
        (command.len() + 1, fits.take(MOST).cloned().collect())
    }
}

impl Completer for Names {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (from, offers) = self.offers(line.get(..at).unwrap_or_default());
        // Names with control characters are not offered.
        let offers = offers.into_iter().filter(|offer| *offer == shown(offer));
        Ok((from, offers.map(|offer| Pair { display: offer.clone(), replacement: offer }).collect()))
    }
}

impl Hinter for Names {
    type Hint = String;
}

impl Highlighter for Names {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        Cow::Owned(Paint::stdout().with("1;36", prompt))
    }
}

impl Validator for Names {}
impl Helper for Names {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_offered_where_they_can_stand() {
        let list = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let names = Names {
            notes: list(&["Kitchen/Bread", "Garden"]),
            tags: list(&["baking", "baking/rye", "garden"]),
            items: list(&["rule:tone", "reference:prices"]),
            models: list(&["claude-opus-5", "ollama/qwen3:8b"]),
        };
        let check = |before: &str, from: usize, offers: &[&str]| {
            assert_eq!(names.offers(before), (from, list(offers)), "{before:?}");
        };
        check("", 0, &[]);
        check("why", 0, &[]);
        check("why [[bre", 4, &["[[Kitchen/Bread]]"]);
        check("why [[Bread]] and [[", 18, &["[[Kitchen/Bread]]", "[[Garden]]"]);
        check("what of #Bak", 8, &["#baking", "#baking/rye"]);
        check("/attach #g", 8, &["#garden"]);
        check("be kind @", 8, &["@rule:tone", "@ref:prices"]);
        check("@ref", 0, &["@ref:prices"]);
        check("/co", 0, &["/context", "/cost"]);
        check("/remove ", 8, &["rule:tone", "reference:prices"]);
        check("/attach gar", 8, &["Garden"]);
        check("/model qwen", 7, &["ollama/qwen3:8b"]);
        check("/fold ", 6, &[]);
        check("häßlich #", 10, &["#baking", "#baking/rye", "#garden"]);
    }
}
