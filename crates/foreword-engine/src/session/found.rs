//! Search results: for display, and without duplicates in a prompt.

use std::collections::BTreeMap;

use foreword_core::item::{ItemId, Kind};
use foreword_core::passage::Passage;
use foreword_core::session::Session;
use foreword_core::version::Version;
use foreword_store::{Store, StoreError};
use serde::Serialize;
use serde_json::Value;

/// Replaces a passage of a note that is attached in full.
const STANDS: &str = "\nThe whole note is attached.\n\n";

/// A passage for display.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FoundNote {
    /// The number by which an answer cites it.
    pub number: usize,
    /// The note.
    pub item: ItemId,
    /// Its path in the vault; for items without a file, their ID.
    pub path: String,
    /// Its title.
    pub title: String,
    /// The headings above the passage, joined by ` > `.
    pub heading: String,
    /// The relevance to the question, from 0 to 1.
    pub score: f64,
    /// The passage; empty if the note is attached.
    pub text: String,
}

/// The passages in a search output.
pub(super) fn found_notes(output: &str, found: &[Passage]) -> Vec<FoundNote> {
    let view = |passage: &Passage| FoundNote {
        number: passage.number,
        item: passage.item.clone(),
        path: if passage.item.kind() == Kind::Note { passage.item.name().to_owned() } else { passage.item.to_string() },
        title: passage.title.clone(),
        heading: below(&passage.heading, &passage.title).to_owned(),
        score: passage.score,
        text: parts(passage.block(output)).1,
    };
    found.iter().map(view).collect()
}

/// The search results of a session by turn, from 1.
pub fn found_by_turn(store: &dyn Store, session: &str) -> Result<BTreeMap<u64, Vec<FoundNote>>, StoreError> {
    let mut all: BTreeMap<u64, Vec<FoundNote>> = BTreeMap::new();
    for logged in store.log_packed(session, 0)? {
        let results = match logged.kind.as_str() {
            "turn" => logged.body.get("results").and_then(Value::as_array).cloned().unwrap_or_default(),
            "tool_result" => vec![logged.body],
            _ => continue,
        };
        for result in results.into_iter().filter(|result| result.get("found").is_some()) {
            let mut result = store.unpack(result)?;
            let found = result.get_mut("found").map(Value::take).unwrap_or_default();
            // What another version wrote is not shown.
            let found: Vec<Passage> = serde_json::from_value(found).unwrap_or_default();
            let output = result.get("output").and_then(Value::as_str).unwrap_or_default();
            all.entry(logged.run + 1).or_default().extend(found_notes(output, &found));
        }
    }
    Ok(all)
}

/// The headings without the first one, if it repeats the title.
fn below<'a>(heading: &'a str, title: &str) -> &'a str {
    match heading.strip_prefix(title) {
        Some("") => "",
        Some(rest) => rest.strip_prefix(" > ").unwrap_or(heading),
        None => heading,
    }
}

/// The heading lines of a block and its text, without quote marks.
fn parts(block: &str) -> (&str, String) {
    let Some(quote) = block.find("\n>") else {
        let (title, text) = block.split_once('\n').unwrap_or((block, ""));
        return (title, text.trim().to_owned());
    };
    let lines = block[quote..].lines().filter_map(|line| line.strip_prefix("> ").or_else(|| line.strip_prefix('>')));
    (&block[..quote], lines.collect::<Vec<_>>().join("\n").trim().to_owned())
}

/// A search output without passages of notes that the prompt contains anyway, given the attachments.
pub(super) fn sent_once(session: &Session, attached: &[Version], output: &str, found: Vec<Passage>) -> (String, Vec<Passage>) {
    let mut text = String::with_capacity(output.len());
    let mut at = 0;
    let mut all = Vec::with_capacity(found.len());
    for passage in found {
        let block = passage.block(output);
        text.push_str(output.get(at..passage.start).unwrap_or_default());
        let start = text.len();
        let (head, passage_text) = parts(block);
        let stands = session.holds(&passage.item, attached, &passage_text);
        if stands {
            text.push_str(head);
            text.push_str(STANDS);
        } else {
            text.push_str(block);
        }
        at = passage.end.max(at);
        all.push(Passage { start, end: text.len(), stands, ..passage });
    }
    text.push_str(output.get(at..).unwrap_or_default());
    (text, all)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use foreword_core::catalog::Agent;
    use foreword_core::prompt::CachePrices;
    use foreword_core::settings::Settings;
    use foreword_core::tokens::Chars;

    use super::*;

    fn passages(output: &str) -> Vec<Passage> {
        let starts: Vec<usize> = output.match_indices('[').map(|(at, _)| at).collect();
        let ends = starts.iter().skip(1).copied().chain([output.find("End").unwrap_or(output.len())]);
        let passage = |(number, (start, end)): (usize, (&usize, usize))| {
            let path = output[*start..].lines().nth(1).and_then(|line| line.strip_prefix("path: ")).unwrap().to_owned();
            let item = ItemId::note(&path);
            Passage { item, number, title: String::new(), heading: String::new(), score: 0.5, start: *start, end, stands: false }
        };
        (1..).zip(starts.iter().zip(ends)).map(passage).collect()
    }

    #[test]
    fn an_attached_note_is_only_named() {
        let prices = CachePrices { input: 0.0, read: 0.0, write: 0.0, lifetime_s: None, ..CachePrices::default() };
        let session = Session::new(Agent::default(), Settings::new("s", prices), Arc::new(Chars::FOUR)).unwrap();
        let output = "Two.\n\n[1] Bread\npath: Bread.md\n> Salt.\n> \n> Flour.\n\n[2] Beds\npath: Beds.md\n> Beans.\n\nEnd.";
        let attached = [Version::note("Bread.md", None, "Salt.\n\nFlour.", Vec::new())];
        let (text, found) = sent_once(&session, &attached, output, passages(output));
        let expect =
            "Two.\n\n[1] Bread\npath: Bread.md\nThe whole note is attached.\n\n[2] Beds\npath: Beds.md\n> Beans.\n\nEnd.";
        assert_eq!(text, expect);
        assert_eq!(found.iter().map(|passage| passage.stands).collect::<Vec<_>>(), [true, false]);
        assert_eq!(found[1].block(&text), "[2] Beds\npath: Beds.md\n> Beans.\n\n");
        assert_eq!(sent_once(&session, &[], output, passages(output)).0, output);
        let plain = "[1] Bread\npath: Bread.md";
        assert_eq!(parts(plain), ("[1] Bread", "path: Bread.md".to_owned()));
        let shown = found_notes(output, &passages(output));
        assert_eq!(shown.iter().map(|note| note.text.as_str()).collect::<Vec<_>>(), ["Salt.\n\nFlour.", "Beans."]);
    }
}
