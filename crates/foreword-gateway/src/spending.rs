//! What clients of the gateway have spent, by session, key and day, and what they may spend.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use foreword_store::Forwarded;

use super::forward::About;
use foreword_engine::config::SpendingLimits;

/// Sessions and keys whose sums are remembered.
const PAYERS: usize = 20_000;

/// Milliseconds of a day.
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Who pays for a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payer {
    /// Its session.
    pub session: Option<String>,
    /// The name of the key it came with.
    pub key: Option<String>,
    /// When it came, in milliseconds since 1970.
    pub at_ms: i64,
}

/// What a limit says of the next request.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Nothing.
    Fine,
    /// More was spent than somebody wants to know of: in words.
    Warn(String),
    /// No more may be spent: in words.
    Refuse(String),
}

#[derive(Debug, Default)]
struct Sums {
    sessions: HashMap<String, f64>,
    /// Today's, by key.
    keys: HashMap<String, f64>,
    today: f64,
    /// The day, counted from 1970 (UTC).
    day: i64,
}

/// All of it, in USD.
#[derive(Debug, Default)]
pub struct Spending(Mutex<Sums>);

impl Spending {
    /// Takes over what was spent before the server's last start.
    pub fn restore(&self, rows: &[Forwarded], now_ms: i64) {
        for row in rows {
            let key = About::read(row.about.as_deref()).key;
            let payer = Payer { session: row.session.clone(), key, at_ms: row.at_ms };
            if payer.at_ms.div_euclid(DAY_MS) == now_ms.div_euclid(DAY_MS) {
                self.add(&payer, row.usage.cost);
            } else if let Some(session) = payer.session {
                let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                *sums.sessions.entry(session).or_default() += row.usage.cost;
            }
        }
    }

    /// Adds what a request cost.
    pub fn add(&self, payer: &Payer, cost: f64) {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sums.turn(payer.at_ms);
        if sums.sessions.len() >= PAYERS {
            sums.sessions.clear();
        }
        if let Some(session) = &payer.session {
            *sums.sessions.entry(session.clone()).or_default() += cost;
        }
        if let Some(key) = &payer.key {
            *sums.keys.entry(key.clone()).or_default() += cost;
        }
        sums.today += cost;
    }

    /// Whether a request may be sent.
    pub fn verdict(&self, limits: &SpendingLimits, payer: &Payer) -> Verdict {
        if limits.is_empty() {
            return Verdict::Fine;
        }
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sums.turn(payer.at_ms);
        let of = |sums: &HashMap<String, f64>, name: &Option<String>| {
            name.as_ref().and_then(|name| sums.get(name)).copied().unwrap_or(0.0)
        };
        let spent = [
            ("this session", "session", limits.session, of(&sums.sessions, &payer.session)),
            ("this key today", "key", limits.key, of(&sums.keys, &payer.key)),
            ("all clients today", "day", limits.day, sums.today),
        ];
        let mut warning = Verdict::Fine;
        for (whose, name, limit, spent) in spent {
            if let Some(most) = limit.refuse.filter(|most| spent >= *most) {
                return Verdict::Refuse(format!(
                    "the spending limit is reached: {whose} has cost ${spent:.2} of ${most:.2} (`refuse` under [limits.{name}])"
                ));
            }
            if let (Verdict::Fine, Some(most)) = (&warning, limit.warn.filter(|most| spent >= *most)) {
                warning = Verdict::Warn(format!("{whose} has cost ${spent:.2}, more than ${most:.2}"));
            }
        }
        warning
    }
}

impl Sums {
    /// Begins a new day where one has begun.
    fn turn(&mut self, at_ms: i64) {
        let day = at_ms.div_euclid(DAY_MS);
        if day > self.day {
            (self.day, self.today) = (day, 0.0);
            self.keys.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreword_engine::config::SpendingLimit;

    #[test]
    fn spending_is_counted_by_session_key_and_day() {
        let spending = Spending::default();
        let payer = |session: &str, key: Option<&str>, day: i64| Payer {
            session: Some(session.to_owned()),
            key: key.map(str::to_owned),
            at_ms: day * DAY_MS + 5,
        };
        let limits = SpendingLimits {
            session: SpendingLimit { warn: Some(1.0), refuse: Some(2.0) },
            key: SpendingLimit { warn: None, refuse: Some(3.0) },
            day: SpendingLimit { warn: Some(4.5), refuse: Some(5.0) },
        };
        let check = |payer: &Payer, expect: &str| match spending.verdict(&limits, payer) {
            Verdict::Fine => assert_eq!(expect, "", "{payer:?}"),
            Verdict::Warn(text) => assert!(expect.starts_with('?') && text.contains(&expect[1..]), "{payer:?}: {text}"),
            Verdict::Refuse(text) => assert!(expect.starts_with('!') && text.contains(&expect[1..]), "{payer:?}: {text}"),
        };
        let one = payer("a", Some("ci"), 10);
        check(&one, "");
        spending.add(&one, 1.5);
        check(&one, "?this session has cost $1.50, more than $1.00");
        spending.add(&one, 0.6);
        check(&one, "!this session has cost $2.10 of $2.00");
        let other = payer("b", Some("ci"), 10);
        check(&other, "");
        spending.add(&other, 0.95);
        check(&payer("c", Some("ci"), 10), "!this key today");
        check(&payer("c", Some("me"), 10), "");
        spending.add(&payer("c", None, 10), 1.9);
        check(&payer("d", None, 10), "?all clients today");
        spending.add(&payer("d", None, 10), 0.4);
        check(&payer("e", None, 10), "!all clients today");
        // A day's spending starts at zero; a session's continues.
        check(&payer("e", Some("ci"), 11), "");
        check(&payer("a", Some("ci"), 11), "!this session");
        assert_eq!(spending.verdict(&SpendingLimits::default(), &one), Verdict::Fine);
    }
}
