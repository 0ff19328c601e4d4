//! What broke the provider's cache, and what that cost.

use foreword_core::envelope::{Envelope, FoldReason};
use foreword_core::layer::LayerId;
use foreword_core::message::{Message, Origin};
use foreword_core::tokens::Tokens;
use foreword_provider::diagnose::{Break, first_break};
use foreword_provider::model::Model;
use foreword_provider::stream::PromptStream;

use crate::simulate::report::BreakReport;

/// The request before.
pub(crate) struct Before<'a> {
    /// Its prompt.
    pub(crate) prompt: &'a PromptStream,
    /// Where its history began.
    pub(crate) cut: usize,
    /// Whether its provider has forgotten it by now.
    pub(crate) cold: bool,
}

/// Where and why a request is no continuation of the one before it. `read` is what the cache served.
pub(crate) fn diagnose(
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

/// Why a prompt is another from a place on.
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

/// Whether the break lies in L2.
fn is_in_library(head: Option<&Message>, found: &Break) -> bool {
    let items = head.into_iter().flat_map(|head| &head.pieces).filter(|piece| piece.layer == LayerId::L2);
    found.current_origin.as_ref().is_some_and(|origin| items.into_iter().any(|piece| piece.origin == *origin))
}

/// The item behind a break.
pub(crate) fn item(found: &Break) -> Option<String> {
    let item_of = |origin: &Origin| if let Origin::Item(id) = origin { Some(id.to_string()) } else { None };
    found.current_origin.as_ref().and_then(item_of).or_else(|| item_of(&found.origin))
}
