//! How many requests one address may make.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::config::Limits;

/// How many seconds' worth of requests may come at once.
const BURST_S: f64 = 4.0;

/// The largest number of remembered addresses. Beyond it, those with a full allowance are forgotten.
const MOST_CLIENTS: usize = 4096;

/// Separate counters, so that clients with the token are not affected by others at the same address.
pub(crate) struct Rates {
    /// Requests with the token or a key.
    pub(crate) known: Option<Rate>,
    /// Requests for the page's files, which need none.
    pub(crate) files: Rate,
    /// Requests that were refused, among them wrong guesses. A right guess would always be let in: the secrets have 256 random bits, so
    /// there is nothing to guess. This only keeps refusals from taking time that others need.
    pub(crate) refused: Rate,
}

impl Rates {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            known: limits.requests_per_s.map(Rate::new),
            files: Rate::new(limits.files_per_s),
            refused: Rate::new(limits.refused_per_s),
        }
    }
}

/// An allowance for each address.
pub(crate) struct Rate {
    per_s: f64,
    clients: Mutex<BTreeMap<IpAddr, (f64, Instant)>>,
}

impl Rate {
    pub(crate) fn new(per_s: u32) -> Self {
        Self { per_s: f64::from(per_s), clients: Mutex::default() }
    }

    /// Whether an address may make a request now.
    pub(crate) fn allows(&self, client: IpAddr, now: Instant) -> bool {
        let full = (self.per_s * BURST_S).max(1.0);
        let grown =
            |(left, since): (f64, Instant)| (left + now.saturating_duration_since(since).as_secs_f64() * self.per_s).min(full);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= MOST_CLIENTS && !clients.contains_key(&client) {
            clients.retain(|_, state| grown(*state) < full);
            if clients.len() >= MOST_CLIENTS {
                return false;
            }
        }
        let left = clients.get(&client).copied().map_or(full, grown);
        let allowed = left >= 1.0;
        clients.insert(client, (if allowed { left - 1.0 } else { left }, now));
        allowed
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_allowance_is_used_up_and_grows_again() {
        let rate = Rate::new(2);
        let start = Instant::now();
        let one = IpAddr::from(Ipv4Addr::new(10, 0, 0, 1));
        let other = IpAddr::from(Ipv4Addr::new(10, 0, 0, 2));
        let made = (0..20).filter(|_| rate.allows(one, start)).count();
        assert_eq!(made, 8);
        assert!(rate.allows(other, start));
        assert!(!rate.allows(one, start + Duration::from_millis(100)));
        assert!(rate.allows(one, start + Duration::from_millis(600)));
    }

    #[test]
    fn many_addresses_take_bounded_room() {
        let rate = Rate::new(1);
        let start = Instant::now();
        for number in 0..20_000_u32 {
            rate.allows(IpAddr::from(Ipv4Addr::from(number)), start);
        }
        assert!(rate.clients.lock().unwrap().len() <= MOST_CLIENTS);
        assert!(rate.allows(IpAddr::from(Ipv4Addr::from(20_001)), start + Duration::from_secs(10)));
    }
}
