//! Diagnoses breaks of the provider's cache and their cost.

use std::sync::Arc;

use foreword_core::envelope::{Envelope, FoldReason};
use foreword_core::layer::LayerId;
use foreword_core::message::{Message, Origin};
use foreword_core::tokens::Tokens;
use foreword_provider::diagnose::{Break, first_break};
use foreword_provider::model::Model;
use foreword_provider::reply::CacheMiss;
use foreword_provider::stream::PromptStream;
use serde::Serialize;
use serde_json::{Value, json};

use super::request::Sent;

/// A cache break.
#[derive(Debug, Serialize)]
pub struct BreakReport {
    /// Bytes of prompt before it, in the order the provider's cache sees them.
    pub at_byte: usize,
    /// Where it is in the body; none where nothing differs and the cache only forgot.
    pub path: Option<String>,
    /// The item that stands there.
    pub item: Option<String>,
    /// Why.
    pub cause: std::borrow::Cow<'static, str>,
    /// What can not be read again.
    pub tokens_lost: Tokens,
    /// What that costs, in USD.
    pub cost_lost: f64,
}

/// The previous request.
pub struct Before<'a> {
    /// Its prompt.
    pub prompt: &'a PromptStream,
    /// The start of its history.
    pub cut: usize,
    /// Whether the provider's cache has expired since.
    pub cold: bool,
}

/// Where and why a request does not continue the previous one. `read` is the number of cached tokens.
pub fn diagnose(
    before: &Before<'_>,
    envelope: &Envelope,
    head: Option<&Message>,
    prompt: &PromptStream,
    model: &Model,
    read: Tokens,
) -> Option<BreakReport> {
    let prices = model.cache_prices();
    // What was too small to be cached was not lost.
    let was_cached = before.prompt.tokens().0 >= model.cache.minimum();
    let lost = |tokens: Tokens| if was_cached { (tokens * (prices.write - prices.read)).max(0.0) } else { 0.0 };
    let Some(found) = first_break(before.prompt, prompt) else {
        let forgotten = before.cold && was_cached && read == Tokens::ZERO;
        let tokens_lost = before.prompt.tokens();
        let cost_lost = lost(tokens_lost);
        return forgotten.then_some(BreakReport {
            at_byte: 0,
            path: None,
            item: None,
            cause: "expired".into(),
            tokens_lost,
            cost_lost,
        });
    };
    Some(BreakReport {
        at_byte: found.at_byte,
        path: Some(found.path.to_string()),
        item: item(&found),
        cause: cause(envelope.began, envelope.cut != before.cut, head, &found).into(),
        tokens_lost: found.tokens_lost,
        cost_lost: lost(found.tokens_lost),
    })
}

/// Why the prompts differ.
pub(crate) fn cause(began: Option<FoldReason>, cut_moved: bool, head: Option<&Message>, found: &Break) -> &'static str {
    if let Some(reason) = began {
        return match reason {
            FoldReason::Budget => "fold_budget",
            FoldReason::Window => "fold_window",
            FoldReason::Asked => "fold_asked",
            other => other.as_str(),
        };
    }
    if found.path.to_string().starts_with("tools") {
        "tools_changed"
    } else if is_in_library(head, found) {
        "library_grew"
    } else if cut_moved || found.current_origin == Some(Origin::Engine("summary")) {
        "history_cut"
    } else {
        // What was attached to the last turn is not part of history in this layout.
        "turn_context"
    }
}

/// Whether the break is in L2.
fn is_in_library(head: Option<&Message>, found: &Break) -> bool {
    let items = head.into_iter().flat_map(|head| &head.pieces).filter(|piece| piece.layer == LayerId::L2);
    found.current_origin.as_ref().is_some_and(|origin| items.into_iter().any(|piece| piece.origin == *origin))
}

/// The item that caused a break.
pub(crate) fn item(found: &Break) -> Option<String> {
    let item_of = |origin: &Origin| if let Origin::Item(id) = origin { Some(id.to_string()) } else { None };
    found.current_origin.as_ref().and_then(item_of).or_else(|| item_of(&found.origin))
}

/// L1 or L2, if it changed without a new epoch: within an epoch, L1 must not change and L2 may only grow.
pub(super) fn unexplained(before: &Sent, envelope: &Envelope, messages: &[Arc<Message>]) -> Option<LayerId> {
    let (then, now) = (before.messages.first()?, messages.first()?);
    if envelope.began.is_some() || envelope.epoch as u64 != before.epoch || Arc::ptr_eq(then, now) {
        return None;
    }
    let pieces = |message: &Message, layer| {
        let of_layer = message.pieces.iter().filter(|piece| piece.layer == layer);
        of_layer.map(|piece| Arc::clone(&piece.text)).collect::<Vec<_>>()
    };
    if pieces(then, LayerId::L1) != pieces(now, LayerId::L1) {
        return Some(LayerId::L1);
    }
    (!pieces(now, LayerId::L2).starts_with(&pieces(then, LayerId::L2))).then_some(LayerId::L2)
}

/// A break for the ledger, with the provider's own explanation.
pub(super) fn on_record(broke: Option<&BreakReport>, missed: Option<&CacheMiss>) -> Option<Value> {
    let Some(missed) = missed else { return broke.and_then(|broke| serde_json::to_value(broke).ok()) };
    let mut record = match broke {
        Some(broke) => serde_json::to_value(broke).ok()?,
        None => json!({"cause": missed.reason, "tokens_lost": missed.tokens}),
    };
    record["provider"] = json!(missed);
    Some(record)
}

#[cfg(test)]
mod tests {
    use foreword_core::message::{Piece, Role};
    use foreword_core::session::TurnInput;
    use foreword_core::settings::Layout;
    use foreword_core::version::Version;

    use super::super::script::Script;
    use super::super::{NoHands, Question, RecordedSession, Setup, Sqlite, inspect};
    use super::*;

    #[test]
    fn the_ledger_keeps_what_the_provider_says() {
        let missed = CacheMiss { reason: "tools_changed".to_owned(), tokens: Some(7) };
        let broke = BreakReport {
            at_byte: 3,
            path: None,
            item: None,
            cause: "library_grew".into(),
            tokens_lost: Tokens(5),
            cost_lost: 0.0,
        };
        assert_eq!(on_record(None, None), None);
        assert_eq!(on_record(Some(&broke), None).unwrap()["cause"], "library_grew");
        let both = on_record(Some(&broke), Some(&missed)).unwrap();
        assert_eq!((&both["cause"], &both["provider"]["reason"]), (&json!("library_grew"), &json!("tools_changed")));
        assert_eq!(on_record(None, Some(&missed)).unwrap()["cause"], "tools_changed");
    }

    #[test]
    fn a_prefix_that_changes_without_a_cause_is_told() {
        let check = |layout: Layout, change: Option<LayerId>| {
            let folder = tempfile::tempdir().unwrap();
            let script = folder.path().join("script.json");
            std::fs::write(&script, r#"{"replies": [{"text": "Yes."}]}"#).unwrap();
            let mut speaker = Script::read(&script).unwrap();
            let agent: foreword_core::catalog::Agent = serde_json::from_value(json!({"system_prompt": "Be brief."})).unwrap();
            let setup = Setup::new("s", Some("claude-opus-5-5"), layout, 0, None).unwrap();
            let store = Box::new(Sqlite::open(&folder.path().join("s.db")).unwrap());
            let mut kept = RecordedSession::begin(store, "s", &agent, &setup, None, None, 0).unwrap();
            let mut send = |kept: &mut RecordedSession, path: &str| {
                let attached = vec![Version::note(path, None, "A note.", Vec::new())];
                let turn = TurnInput { words: "Well?".to_owned(), attached, ..TurnInput::default() };
                let question = Question { turn, ..Question::default() };
                kept.send(question, &mut speaker, &mut NoHands, &|| 0, &mut |_| {}).unwrap();
            };
            for path in ["a.md", "b.md", "c.md"] {
                send(&mut kept, path);
            }
            assert_eq!(kept.take_failures(), []);
            if let Some(layer) = change {
                let head = &mut kept.sent.as_mut().unwrap().messages[0];
                let mut other = Message::clone(head);
                let forged = Piece { layer, origin: Origin::User, text: "x".into(), tokens: Tokens(1) };
                assert_eq!(other.role, Role::System);
                other.pieces.push(forged);
                *head = Arc::new(other);
            }
            send(&mut kept, "d.md");
            let expect = change.map(LayerId::as_str);
            let told = kept.take_failures();
            assert_eq!(told.first().and_then(|failure| failure.0.split(' ').next()), expect, "{told:?}");
            let notes = inspect(kept.store(), "s", 3).unwrap().notes;
            assert_eq!(notes.iter().any(|note| note.kind == "prefix_changed"), change.is_some());
        };
        for layout in Layout::ALL {
            check(layout, None);
            check(layout, Some(LayerId::L1));
            check(layout, Some(LayerId::L2));
        }
    }
}
