//! Items of the agent that a person names within a question: `@rule:tone`, `@ref:prices`.

use foreword_core::catalog::Agent;
use foreword_core::item::{ItemId, Kind};

/// The words without the mentions of the agent's items, and these items. What the agent does not have stays in the words, as does every
/// line break.
pub fn without_mentions(words: &str, agent: &Agent) -> (String, Vec<ItemId>) {
    let mut kept = String::with_capacity(words.len());
    let mut items = Vec::new();
    let mut rest = words;
    while let Some(at) = rest.find('@') {
        let (before, from) = rest.split_at(at);
        kept.push_str(before);
        let alone = kept.chars().next_back().is_none_or(char::is_whitespace);
        match mention(from).filter(|(id, _)| alone && agent.find(id).is_some()) {
            Some((id, len)) => {
                rest = &from[len..];
                // One of the two spaces around it goes with it.
                if kept.ends_with(' ') || kept.is_empty() {
                    rest = rest.strip_prefix(' ').unwrap_or(rest);
                }
                if !items.contains(&id) {
                    items.push(id);
                }
            }
            None => {
                kept.push('@');
                rest = &from[1..];
            }
        }
    }
    kept.push_str(rest);
    (kept, items)
}

/// The item that a text begins with, and how long its name is.
fn mention(text: &str) -> Option<(ItemId, usize)> {
    let (kind, start) = [(Kind::Rule, "@rule:"), (Kind::Reference, "@ref:")].into_iter().find(|(_, start)| text.starts_with(start))?;
    let name = &text[start.len()..];
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-')).unwrap_or(name.len());
    (end > 0).then(|| (ItemId::new(kind, &name[..end]), start.len() + end))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mentions_leave_the_words_and_line_breaks_stay() {
        let agent: Agent = serde_json::from_value(json!({
            "system_prompt": "",
            "rules": [{"name": "tone", "text": "Be kind."}],
            "references": [{"name": "prices-2026", "text": "Bread 4."}],
        }))
        .unwrap();
        let check = |words: &str, expect: &str, items: &[&str]| {
            let (kept, found) = without_mentions(words, &agent);
            assert_eq!((kept.as_str(), found.iter().map(ToString::to_string).collect::<Vec<_>>()), (expect, items.iter().map(ToString::to_string).collect()), "{words:?}");
        };
        check("plain", "plain", &[]);
        check("@rule:tone Hello", "Hello", &["rule:tone"]);
        check("Hello @rule:tone there", "Hello there", &["rule:tone"]);
        check("a\n\n@rule:tone\nb @ref:prices-2026", "a\n\n\nb ", &["rule:tone", "reference:prices-2026"]);
        check("@rule:tone @rule:tone x", "x", &["rule:tone"]);
        check("@rule:other and me@rule:tone and @rule: @", "@rule:other and me@rule:tone and @rule: @", &[]);
        check("ends with @rule:tone, really", "ends with , really", &["rule:tone"]);
        check("@ref:préc @@rule:tone", "@ref:préc @@rule:tone", &[]);
    }
}
