//! Compares two requests: first differing byte, texts, cause and cost.

use foreword_core::hash::Hash;
use foreword_core::message::Origin;
use foreword_core::tokens::Tokens;
use foreword_provider::diagnose::first_break;
use foreword_provider::stream::{Block, PromptStream};
use foreword_store::{Store, StoreError};
use serde::Serialize;
use serde_json::Value;

use super::breaks::{cause, item};
use super::inspect::Stored;

/// The difference of two requests.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// The number of equal prompt bytes, in the order of a provider's cache.
    pub at_byte: usize,
    /// The first differing byte of the body; `None` if one body is a prefix of the other.
    pub body_byte: Option<usize>,
    /// The path of the difference in the second body.
    pub path: Option<String>,
    /// The item at that path.
    pub item: Option<String>,
    /// Its Version in the first request; `None` if it was not included.
    pub before: Option<Hash>,
    /// Its Version in the second request.
    pub after: Option<Hash>,
    /// The cause.
    pub cause: String,
    /// Tokens of the first request that the second cannot read from the cache.
    pub tokens_lost: Tokens,
    /// The cost of writing them again in USD.
    pub cost_lost: f64,
    /// Tokens that only the second request has.
    pub tokens_new: Tokens,
    /// The texts before and after.
    pub texts: (String, String),
}

/// Why two requests cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The requests are identical.
    #[error("the two requests are identical")]
    Same,
}

/// The size of the shown texts in bytes, and the part before the difference.
const SHOWN: usize = 140;
const BEFORE: usize = 30;

/// Compares two requests.
pub fn diff(store: &dyn Store, first: (&str, u64), second: (&str, u64)) -> Result<Difference, DiffError> {
    let (before, now) = (Stored::read(store, first.0, first.1)?, Stored::read(store, second.0, second.1)?);
    let (old, new) = (before.body(), now.body());
    if old.bytes == new.bytes {
        return Err(DiffError::Same);
    }
    let common = old.bytes.iter().zip(&new.bytes).take_while(|(old, new)| old == new).count();
    let body_byte = (common < old.bytes.len().min(new.bytes.len())).then_some(common);
    let prices = now.model.cache_prices();
    let whole = |cause: &str, at_byte: usize, tokens_new: Tokens| Difference {
        at_byte,
        body_byte,
        path: None,
        item: None,
        before: None,
        after: None,
        cause: cause.to_owned(),
        tokens_lost: Tokens::ZERO,
        cost_lost: 0.0,
        tokens_new,
        texts: (String::new(), String::new()),
    };
    let Some(found) = first_break(&old.prompt, &new.prompt) else {
        return Ok(whole("continued", old.prompt.bytes(), new.prompt.tokens() - old.prompt.tokens()));
    };
    if first_break(&new.prompt, &old.prompt).is_none() {
        return Ok(whole("shortened", new.prompt.bytes(), Tokens::ZERO));
    }
    let began = (first.0 != second.0 || before.request.epoch != now.request.epoch).then(|| epoch_cause(store, second, &before));
    let why = began.flatten().unwrap_or_else(|| {
        let cut_moved = before.request.record.get("cut") != now.request.record.get("cut");
        cause(None, cut_moved, now.messages.first().map(|message| &**message), &found).to_owned()
    });
    let lost = (found.tokens_lost * (prices.write - prices.read)).max(0.0);
    let around = |prompt: &PromptStream| around(prompt, found.at_byte);
    Ok(Difference {
        at_byte: found.at_byte,
        body_byte,
        path: Some(found.path.to_string()),
        item: item(&found),
        before: version(store, first.0, &before, item(&found).as_deref())?,
        after: version(store, second.0, &now, item(&found).as_deref())?,
        cause: why,
        tokens_lost: found.tokens_lost,
        cost_lost: lost,
        tokens_new: new.prompt.tokens() - (old.prompt.tokens() - found.tokens_lost),
        texts: (around(&old.prompt), around(&new.prompt)),
    })
}

/// Why the newest epoch between the two requests began.
fn epoch_cause(store: &dyn Store, (session, number): (&str, u64), before: &Stored) -> Option<String> {
    let requests = store.requests(session).ok()?;
    let until = requests.into_iter().filter(|request| request.number <= number);
    let mut began = until.rev().filter(|request| request.epoch > before.request.epoch).filter_map(|request| request.began);
    began.next()
}

/// The Version of an item that was last attached before a request; otherwise the hash of its text in the request.
fn version(store: &dyn Store, session: &str, stored: &Stored, item: Option<&str>) -> Result<Option<Hash>, StoreError> {
    let Some(item) = item else { return Ok(None) };
    let mut newest = None;
    for entry in store.log_packed(session, 0)?.into_iter().take_while(|entry| entry.number < stored.request.input) {
        let attached = entry.body.get("attached").and_then(Value::as_array).into_iter().flatten();
        let same = attached.filter(|version| version.get("id").and_then(Value::as_str) == Some(item));
        let mut hashes = same.rev().filter_map(|version| serde_json::from_value(version.get("hash")?.clone()).ok());
        newest = hashes.next().or(newest);
    }
    let text = || piece(stored, item.parse().ok().map(Origin::Item).as_ref()).map(|text| Hash::of(text.as_bytes()));
    Ok(newest.or_else(text))
}

/// The newest text of an origin in a request.
fn piece(stored: &Stored, origin: Option<&Origin>) -> Option<String> {
    let origin = origin?;
    let pieces = stored.messages.iter().rev().flat_map(|message| message.pieces.iter().rev());
    let mut same = pieces.filter(|piece| piece.origin == *origin && !piece.text.trim().is_empty());
    same.next().map(|piece| piece.text.to_string())
}

/// The prompt around a byte.
fn around(prompt: &PromptStream, at_byte: usize) -> String {
    let mut passed = 0;
    let mut shown: Vec<u8> = Vec::new();
    for (text, _) in prompt.blocks().flat_map(Block::pieces) {
        let from = at_byte.saturating_sub(BEFORE).saturating_sub(passed);
        shown.extend(text.as_bytes().get(from.min(text.len())..).unwrap_or_default().iter().take(SHOWN));
        passed += text.len();
        if shown.len() >= SHOWN {
            break;
        }
    }
    shown.truncate(SHOWN);
    String::from_utf8_lossy(&shown).trim_matches('\u{fffd}').to_owned()
}
