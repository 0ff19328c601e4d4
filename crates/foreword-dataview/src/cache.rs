//! Answers that are still right. A note that is new can match any query, so an answer holds for one state of the whole vault:
//! a [`Fingerprint`] over all notes is part of its key, and nothing has to be known about what a query would have read.

use std::collections::BTreeMap;

use foreword_core::hash::Hash;
use jiff::Zoned;

use super::syntax::Clock;
use super::{Answer, Limit, Pages, Unanswered, parse, run};
use foreword_markdown::note::FileFacts;

/// One state of a vault: every note's path, content and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint(Hash);

impl Fingerprint {
    /// The fingerprint of these notes, in whatever order they come.
    pub fn of<'f>(notes: impl IntoIterator<Item = (&'f FileFacts, Hash)>) -> Self {
        let mut lines: Vec<String> = notes
            .into_iter()
            .map(|(facts, hash)| format!("{hash} {} {} {} {:?}\n", facts.size, facts.modified, facts.created, facts.path))
            .collect();
        lines.sort_unstable();
        Self(Hash::of(lines.concat()))
    }
}

/// What an answer holds for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    query: Hash,
    vault: Fingerprint,
    /// The note of the query, if the answer depends on it.
    this: Option<String>,
    /// The day, if the answer depends on it; the zone in which files have their days.
    day: Option<jiff::civil::Date>,
    zone: Option<String>,
    limit: Limit,
}

type Outcome = Result<Answer, Unanswered>;

/// Answers, up to a number and a size; those not asked for the longest leave first.
#[derive(Debug, Default)]
pub struct Cache {
    outcomes: BTreeMap<Key, (u64, Outcome)>,
    bytes: usize,
    asked: u64,
}

impl Cache {
    const MAX_ANSWERS: usize = 512;
    const MAX_BYTES: usize = 8 << 20;

    /// The answer to the query that stands in the note at `this`: the one known for this state of the vault, or a new one.
    pub fn answer(
        &mut self,
        query: &str,
        this: &str,
        pages: &dyn Pages,
        vault: Fingerprint,
        now: &Zoned,
        limit: Limit,
    ) -> Outcome {
        let parsed = parse(query)?;
        let needs = parsed.needs;
        if needs.clock == Clock::Instant {
            return run::run(&parsed, this, pages, now, limit);
        }
        let key = Key {
            query: Hash::of(query),
            vault,
            this: needs.this.then(|| this.to_owned()),
            day: (needs.clock == Clock::Day).then(|| now.date()),
            zone: now.time_zone().iana_name().map(str::to_owned),
            limit,
        };
        self.asked += 1;
        if let Some((asked, known)) = self.outcomes.get_mut(&key) {
            *asked = self.asked;
            return known.clone();
        }
        let outcome = run::run(&parsed, this, pages, now, limit);
        if !matches!(outcome, Err(Unanswered::TimedOut { .. })) {
            self.keep(key, outcome.clone());
        }
        outcome
    }

    fn keep(&mut self, key: Key, outcome: Outcome) {
        self.bytes += size(&outcome);
        self.outcomes.insert(key, (self.asked, outcome));
        while self.outcomes.len() > Self::MAX_ANSWERS || self.bytes > Self::MAX_BYTES {
            let oldest = self.outcomes.iter().min_by_key(|(_, (asked, _))| *asked).map(|(key, _)| key.clone());
            let Some((_, outcome)) = oldest.and_then(|key| self.outcomes.remove(&key)) else { break };
            self.bytes = self.bytes.saturating_sub(size(&outcome));
        }
    }
}

fn size(outcome: &Outcome) -> usize {
    match outcome {
        Ok(answer) => answer.markdown.len() + answer.read.iter().map(String::len).sum::<usize>(),
        Err(unanswered) => unanswered.to_string().len(),
    }
}
