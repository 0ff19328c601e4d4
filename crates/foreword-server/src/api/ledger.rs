//! Usage and cost, by session and by day.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use foreword_audit::{audit_store, page};
use foreword_engine::session::{PaidFor, Payment, Store as _, Usage, all_payments, bars, is_fold, payments};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::Answer;
use super::given::Path;
use super::sessions::named;
use crate::app::App;
use crate::problem::Problem;

/// The total of requests and side requests.
#[derive(Clone, Default, Serialize, ToSchema)]
pub(crate) struct Sum {
    /// The number of requests.
    requests: u64,
    /// The number of side requests, for plans and summaries. The other figures include their usage and cost.
    asides: u64,
    /// The cost of side requests in USD.
    asides_cost: f64,
    /// Prompt tokens read from a cache.
    read: u64,
    /// Other prompt tokens.
    fresh: u64,
    /// Reply tokens.
    output: u64,
    /// The cost in USD.
    cost: f64,
    /// The savings by caches in USD.
    saved: f64,
    /// The number of cache breaks.
    breaks: u64,
    /// The number of folds.
    folds: u64,
    /// The number of new epochs for any reason: folds, undone folds, forks, changes of the model, rules or tools.
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
            PaidFor::SideExchange { questions } => {
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

/// The total of a session or a day.
#[derive(Serialize, ToSchema)]
pub(crate) struct SumOf {
    /// The session ID or the date.
    of: String,
    /// The session's title.
    title: Option<String>,
    #[serde(flatten)]
    sum: Sum,
}

/// The ledger.
#[derive(Serialize, ToSchema)]
pub(crate) struct Ledger {
    /// The total of all sessions and forwarded requests.
    all: Sum,
    /// The total of requests that the gateway forwarded unchanged.
    forwarded: Sum,
    /// By session, the last used first.
    sessions: Vec<SumOf>,
    /// By day, the earliest first.
    days: Vec<SumOf>,
}

/// Returns usage, cache hits and cost by session and by day.
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

/// Returns the figures of `foreword audit` for the sessions of this vault and for clients of the gateway: each request, cache breaks with
/// their causes, and what other settings would have cost. The page draws its report from them; fields may be added.
#[utoipa::path(get, path = "/ledger/report", tag = "ledger", responses((status = 200, body = Object)))]
pub(crate) async fn report(State(app): State<Arc<App>>) -> Answer<Value> {
    let report = app.common.with_store(|store| {
        let report = audit_store(store, &TimeZone::system())?;
        Ok(page::data(&report))
    });
    report.await.map(Json)
}

/// Usage, cache hits and cost of a session.
#[derive(Serialize, ToSchema)]
pub(crate) struct SessionSum {
    /// Everything that the session paid for, including replaced answers. Turns shared with a fork's source were paid there.
    #[serde(flatten)]
    paid: Sum,
    /// The requests of its current history, including turns shared with a fork's source.
    history: Sum,
}

/// Returns usage, cache hits and cost of a session: of what it paid for, and of its current history.
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
