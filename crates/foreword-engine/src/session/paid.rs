//! The costs of sessions: requests of the conversation and side requests (plans, summaries), including replaced and repeated turns.

use std::collections::BTreeMap;

use foreword_core::envelope::FoldReason;
use foreword_store::{Own, Store, StoreError, Summary, Usage};
use serde_json::Value;

use super::log_entry::ASIDE;

/// A cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Payment {
    /// Its time in milliseconds since 1970.
    pub at_ms: i64,
    /// The purpose.
    pub what: PaidFor,
    /// The usage and cost.
    pub usage: Usage,
}

/// The purpose of a cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaidFor {
    /// A request of the conversation.
    Request {
        /// The request's number in the session, from 0.
        number: u64,
        /// Why the epoch began, on its first request.
        began: Option<String>,
    },
    /// A side request.
    SideExchange {
        /// The number of questions.
        questions: u64,
    },
}

impl PaidFor {
    /// How often a model was asked beside the conversation.
    pub fn questions(&self) -> u64 {
        match self {
            Self::Request { .. } => 0,
            Self::SideExchange { questions } => *questions,
        }
    }
}

/// Whether what began an epoch was a fold.
pub fn is_fold(began: &str) -> bool {
    FoldReason::named(began).is_some_and(FoldReason::is_for_room)
}

/// The costs of a session, without those of a fork's source.
pub fn payments(store: &dyn Store, session: &str) -> Result<Vec<Payment>, StoreError> {
    Ok(store.own(Some(session), ASIDE)?.remove(session).map(of).unwrap_or_default())
}

/// The costs of all sessions.
pub fn all_payments(store: &dyn Store) -> Result<BTreeMap<String, Vec<Payment>>, StoreError> {
    Ok(store.own(None, ASIDE)?.into_iter().map(|(session, own)| (session, of(own))).collect())
}

fn of(own: Own) -> Vec<Payment> {
    let requests = own.requests.into_iter().map(|paid| Payment {
        at_ms: paid.at_ms,
        what: PaidFor::Request { number: paid.number, began: paid.began },
        usage: paid.usage,
    });
    let asides = own.entries.into_iter().filter_map(|mut entry| {
        let usage = serde_json::from_value(entry.body.get_mut("usage")?.take()).ok()?;
        Some(Payment { at_ms: entry.at_ms, what: PaidFor::SideExchange { questions: 1 }, usage })
    });
    requests.chain(asides).chain(own.summaries.iter().filter_map(summary)).collect()
}

/// The cost of a summary, if a model wrote it.
fn summary(row: &Summary) -> Option<Payment> {
    let figures = row.record.get("figures")?;
    let tokens = |name: &str| figures.get(name).and_then(Value::as_u64).unwrap_or(0);
    let price = |name: &str| figures.get(name).and_then(Value::as_f64);
    let cost = price("cost").unwrap_or(0.0);
    let is = |section: &Value, name: &str| section.get(name).and_then(Value::as_bool).unwrap_or(false);
    let sections = row.record.get("sections").and_then(Value::as_array).into_iter().flatten();
    let questions = sections.filter(|section| is(section, "by_model") && !is(section, "cached")).count() as u64;
    let usage = Usage {
        model: row.model.clone(),
        read: tokens("read"),
        uncached: tokens("prompt").saturating_sub(tokens("read")),
        output: tokens("output"),
        cost,
        cost_uncached: price("cost_uncached").unwrap_or(cost),
        ..Usage::default()
    };
    (questions > 0).then_some(Payment { at_ms: row.at_ms, what: PaidFor::SideExchange { questions }, usage })
}

#[cfg(test)]
mod tests {
    use foreword_core::hash::Hash;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_a_fold() {
        for word in ["budget", "window", "asked", "cache_cold", "fold_pays"] {
            assert!(is_fold(word), "{word}");
        }
        let others =
            ["item_removed", "fold_undone", "agent_changed", "rules_changed", "tools_changed", "forked", "model_changed"];
        for word in others {
            assert!(FoldReason::named(word).is_some() && !is_fold(word), "{word}");
        }
        assert!(!is_fold("something else"));
    }

    #[test]
    fn what_a_summary_cost() {
        let check = |record: Value, expect: Option<(u64, u64, u64, f64, f64)>| {
            let (template, source, model) = (String::new(), String::new(), "m".to_owned());
            let row = Summary { number: 0, at_ms: 1, template, source, hash: Hash::of(""), model, record: record.clone() };
            let found = summary(&row).map(|paid| {
                let PaidFor::SideExchange { questions } = paid.what else { panic!("{record}") };
                (questions, paid.usage.read, paid.usage.uncached, paid.usage.cost, paid.usage.cost_uncached)
            });
            assert_eq!(found, expect, "{record}");
        };
        let figures = json!({"prompt": 100, "read": 30, "output": 5, "cost": 0.5, "cost_uncached": 0.75});
        let by_model = json!({"by_model": true, "cached": false});
        check(json!({"figures": figures, "sections": [by_model]}), Some((1, 30, 70, 0.5, 0.75)));
        check(
            json!({"figures": figures, "sections": [by_model, by_model, {"cached": true, "by_model": true}, {}]}),
            Some((2, 30, 70, 0.5, 0.75)),
        );
        // Older than the price without a cache.
        check(json!({"figures": {"prompt": 100, "cost": 0.5}, "sections": [by_model]}), Some((1, 0, 100, 0.5, 0.5)));
        check(json!({"figures": figures, "sections": [{"by_model": true, "cached": true}]}), None);
        check(json!({"figures": figures, "sections": []}), None);
        check(json!({}), None);
    }
}
