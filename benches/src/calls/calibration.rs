//! How far the rules of the simulators are from what providers reported.

use std::collections::BTreeMap;

use foreword_provider::model::{CacheRules, Model};
use foreword_provider::table::ModelTable;

use crate::data::{Call, Chain};

/// From when a lifetime is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    /// The start of the last request.
    Start,
    /// The end of its answer.
    End,
}

/// Lifetimes to try.
#[derive(Clone, Copy)]
pub(crate) struct Life {
    pub(crate) short_s: f64,
    pub(crate) long_s: f64,
    pub(crate) since: Since,
}

impl Life {
    fn is_over(self, before: &Call, call: &Call, is_long: bool) -> bool {
        let took = if self.since == Since::Start { before.took } else { 0.0 };
        call.gap + took > if is_long { self.long_s } else { self.short_s }
    }
}

/// Reads that a lifetime foretells wrongly, of those after pauses of at least a minute: kept where it was gone, and gone where it was kept.
pub(crate) fn lifetime_errors(chains: &[&Chain], life: Life) -> (usize, usize, usize) {
    let (mut all, mut lapsed, mut kept) = (0, 0, 0);
    for chain in chains {
        let mut is_long = false;
        for pair in chain.calls.windows(2) {
            let (before, call) = (&pair[0], &pair[1]);
            if before.written() > 0 {
                is_long = before.write_1h > 0;
            }
            let other = call.cause.as_deref().is_some_and(|cause| cause != "ttl");
            if call.gap < 60.0 || other || before.cached() < 1024 {
                continue;
            }
            all += 1;
            let found = call.read as f64 >= 0.9 * before.cached().min(call.total()) as f64;
            match (life.is_over(before, call, is_long), found) {
                (true, true) => kept += 1,
                (false, false) => lapsed += 1,
                _ => {}
            }
        }
    }
    (all, lapsed, kept)
}

/// What was foretold of the calls with one cause.
#[derive(Default)]
pub(crate) struct Errors {
    /// Share of the prompt by which each read was foretold wrongly.
    parts: Vec<f64>,
    /// Sums: what was reported, and what was foretold.
    pub(crate) reported: u64,
    pub(crate) foretold: u64,
}

impl Errors {
    pub(crate) fn calls(&self) -> usize {
        self.parts.len()
    }

    /// The error that so large a share of the calls does not exceed.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let mut parts = self.parts.clone();
        parts.sort_by(f64::total_cmp);
        let at = ((parts.len() as f64 - 1.0) * share).round() as usize;
        parts.get(at).copied().unwrap_or(0.0)
    }
}

/// What the rules of each call's model foretell of its read, given the call before it, against what was reported: by group and cause.
pub(crate) fn errors(chains: &[Chain], table: &ModelTable) -> BTreeMap<(String, String), Errors> {
    let mut groups: BTreeMap<(String, String), Errors> = BTreeMap::new();
    for chain in chains {
        let mut is_long = false;
        for (at, call) in chain.calls.iter().enumerate().skip(1) {
            let before = &chain.calls[at - 1];
            if before.written() > 0 {
                is_long = before.write_1h > 0;
            }
            let Some(model) = row(table, call) else { continue };
            let foretold = foretell(&model, before, call, is_long);
            let cause = call.cause.clone().unwrap_or_else(|| "none".to_owned());
            let errors = groups.entry((group(&model), cause)).or_default();
            errors.parts.push(foretold.abs_diff(call.read) as f64 / call.total().max(1) as f64);
            errors.reported += call.read;
            errors.foretold += foretold;
        }
    }
    groups
}

/// Models that the table does not name follow the rules of their family.
fn row(table: &ModelTable, call: &Call) -> Option<Model> {
    let family = |name: &str| match name {
        name if name.starts_with("claude-") => Some("claude-opus-4-5"),
        name if name.starts_with("gpt-5") => Some("gpt-5.4"),
        _ => None,
    };
    table.find(&call.model).ok().or_else(|| table.find(family(&call.model)?).ok())
}

fn group(model: &Model) -> String {
    match model.cache {
        CacheRules::Marks { .. } => "Anthropic, marks".to_owned(),
        CacheRules::Breakpoints { .. } => "OpenAI from 5.6, breakpoints".to_owned(),
        CacheRules::Interval { interval, .. } => format!("{}, every {interval} tokens", model.name),
        _ => model.name.clone(),
    }
}

/// What would be read if the prompt went on from the one before.
fn foretell(model: &Model, before: &Call, call: &Call, is_long: bool) -> u64 {
    let (life, long) = match model.cache {
        CacheRules::Marks { lifetime_s, long_lifetime_s, .. } => (lifetime_s, long_lifetime_s),
        rules => (rules.lifetime_s().unwrap_or(u64::MAX), u64::MAX),
    };
    let lives = if is_long && long < u64::MAX { long } else { life };
    let common = before.cached().min(call.total());
    if call.model != before.model || call.gap > lives as f64 || common < model.cache.minimum() {
        return 0;
    }
    common - common % model.cache.step()
}
