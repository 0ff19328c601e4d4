//! What was used and what it cost: of each session, and day by day.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use foreword_engine::session::{Store as _, Usage};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use utoipa::ToSchema;

use super::Answer;
use crate::app::App;

/// A sum over requests.
#[derive(Clone, Default, Serialize, ToSchema)]
pub(crate) struct Sum {
    /// How many.
    requests: u64,
    /// Tokens of prompts that were read from a cache.
    read: u64,
    /// Tokens of prompts that were not.
    fresh: u64,
    /// Tokens of replies.
    output: u64,
    /// What it cost, in USD.
    cost: f64,
    /// What the caches saved, in USD.
    saved: f64,
    /// How often a cache was broken.
    breaks: u64,
    /// How often the prompt was folded or begun anew.
    folds: u64,
}

impl Sum {
    fn add(&mut self, usage: &Usage, folded: bool) {
        self.requests += 1;
        self.read += usage.read;
        self.fresh += usage.write + usage.uncached;
        self.output += usage.output;
        self.cost += usage.cost;
        self.saved += usage.cost_uncached - usage.cost;
        self.breaks += u64::from(usage.broke.is_some());
        self.folds += u64::from(folded);
    }
}

/// A sum with the name of what it is of.
#[derive(Serialize, ToSchema)]
pub(crate) struct SumOf {
    /// A session, or a day.
    of: String,
    /// What the session is about.
    title: Option<String>,
    #[serde(flatten)]
    sum: Sum,
}

/// The ledger at a glance.
#[derive(Serialize, ToSchema)]
pub(crate) struct Ledger {
    /// Everything.
    all: Sum,
    /// Requests of clients that were passed on untouched.
    forwarded: Sum,
    /// By session, the last used first.
    sessions: Vec<SumOf>,
    /// By day, the first day first.
    days: Vec<SumOf>,
}

/// Usage, cache and cost, by session and by day.
#[utoipa::path(get, path = "/ledger", tag = "ledger", responses((status = 200, body = Ledger)))]
pub(crate) async fn show(State(app): State<Arc<App>>) -> Answer<Ledger> {
    let ledger = app.common.with_store(|store| {
        let zone = TimeZone::system();
        let (mut all, mut sessions, mut days) = (Sum::default(), Vec::new(), BTreeMap::<String, Sum>::new());
        let day = |at_ms| {
            let day = Timestamp::from_millisecond(at_ms).map(|time| time.to_zoned(zone.clone()).date().to_string());
            day.unwrap_or_default()
        };
        let mut forwarded = Sum::default();
        for passed in store.forwarded()? {
            all.add(&passed.usage, false);
            forwarded.add(&passed.usage, false);
            days.entry(day(passed.at_ms)).or_default().add(&passed.usage, false);
        }
        for row in store.sessions()? {
            let usage: BTreeMap<u64, Usage> = store.ledger(&row.id)?.into_iter().collect();
            let mut sum = Sum::default();
            // What was taken over from another session was paid there.
            for request in store.requests(&row.id)?.iter().filter(|request| request.number >= row.taken.requests) {
                let Some(usage) = usage.get(&request.number) else { continue };
                let folded = request.began.is_some();
                all.add(usage, folded);
                sum.add(usage, folded);
                days.entry(day(request.at_ms)).or_default().add(usage, folded);
            }
            if sum.requests > 0 {
                sessions.push(SumOf { of: row.id, title: row.title, sum });
            }
        }
        let days = days.into_iter().map(|(of, sum)| SumOf { of, title: None, sum }).collect();
        Ok(Ledger { all, forwarded, sessions, days })
    });
    ledger.await.map(Json)
}
