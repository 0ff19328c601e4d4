//! What was used and what it cost: of each session, and day by day.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use foreword_engine::session::{PaidFor, Payment, Store as _, Usage, all_payments, bars, is_fold, payments};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use utoipa::ToSchema;

use super::Answer;
use super::given::Path;
use super::sessions::named;
use crate::app::App;
use crate::problem::Problem;

/// A sum over requests and asides.
#[derive(Clone, Default, Serialize, ToSchema)]
pub(crate) struct Sum {
    /// How many requests.
    requests: u64,
    /// How often a model was asked something beside a conversation: for a plan, for a summary. What that used and cost is in the other figures.
    asides: u64,
    /// What of the cost was for asides, in USD.
    asides_cost: f64,
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
    /// How often a prompt was folded.
    folds: u64,
    /// How often a prompt began anew for whatever reason: folds, undone ones, forks, another model, other rules or tools.
    epochs: u64,
}

impl Sum {
    fn request(&mut self, usage: &Usage, began: Option<&str>) {
        self.requests += 1;
        self.breaks += u64::from(usage.broke.is_some());
        self.folds += u64::from(began.is_some_and(is_fold));
        self.epochs += u64::from(began.is_some());
        self.used(usage);
    }

    fn paid(&mut self, payment: &Payment) {
        match &payment.what {
            PaidFor::Request { began, .. } => self.request(&payment.usage, began.as_deref()),
            PaidFor::Aside { questions } => {
                self.asides += questions;
                self.asides_cost += payment.usage.cost;
                self.used(&payment.usage);
            }
        }
    }

    fn used(&mut self, usage: &Usage) {
        self.read += usage.read;
        self.fresh += usage.write + usage.uncached;
        self.output += usage.output;
        self.cost += usage.cost;
        self.saved += usage.cost_uncached - usage.cost;
    }

    fn is_empty(&self) -> bool {
        self.requests + self.asides == 0
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
    /// Everything: the sessions and what was passed on.
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
            for sum in [&mut all, &mut forwarded, days.entry(day(passed.at_ms)).or_default()] {
                sum.request(&passed.usage, None);
            }
        }
        let mut payments = all_payments(store)?;
        for row in store.sessions()? {
            let mut own = Sum::default();
            for payment in payments.remove(&row.id).unwrap_or_default() {
                for sum in [&mut all, &mut own, days.entry(day(payment.at_ms)).or_default()] {
                    sum.paid(&payment);
                }
            }
            if !own.is_empty() {
                sessions.push(SumOf { of: row.id, title: row.title, sum: own });
            }
        }
        let days = days.into_iter().map(|(of, sum)| SumOf { of, title: None, sum }).collect();
        Ok(Ledger { all, forwarded, sessions, days })
    });
    ledger.await.map(Json)
}

/// Usage, cache and cost of a session.
#[derive(Serialize, ToSchema)]
pub(crate) struct SessionSum {
    /// All that it paid for itself, also for answers that were replaced. What a fork took over was paid by the session before it.
    #[serde(flatten)]
    paid: Sum,
    /// The requests of its history as it is now, those that a fork took over included.
    history: Sum,
}

/// Usage, cache and cost of a session: of what it paid for, and of its history as it is now.
#[utoipa::path(get, path = "/sessions/{session}/ledger", tag = "ledger", params(("session" = String, Path)), responses((status = 200, body = SessionSum), (status = 404, body = Problem)))]
pub(crate) async fn of_session(State(app): State<Arc<App>>, Path(session): Path<String>) -> Answer<SessionSum> {
    let sum = app.common.with_store(move |store| {
        let (mut paid, mut history) = (Sum::default(), Sum::default());
        let id = named(store, &session)?;
        payments(store, &id)?.iter().for_each(|payment| paid.paid(payment));
        for bar in bars(store, &id)? {
            history.request(&bar.usage.unwrap_or_default(), bar.began.as_deref());
        }
        Ok(SessionSum { paid, history })
    });
    sum.await.map(Json)
}
