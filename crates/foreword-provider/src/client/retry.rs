//! When to retry a request: at the time the provider asks for, or after growing delays with random jitter.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::header::{HeaderMap, RETRY_AFTER};

use super::config::Retry;
use super::error::SendError;
use crate::refusal::seconds;

impl Retry {
    /// The delay before the next attempt, after `tried` attempts; `None` if there is to be no other.
    pub(super) fn wait(&self, tried: u32, error: &SendError) -> Option<Duration> {
        if tried >= self.tries || !error.is_passing() {
            return None;
        }
        if let Some(asked) = error.refusal().and_then(|refusal| refusal.wait) {
            // Coming back too early would only be refused again.
            return (asked <= self.max_wait).then_some(asked);
        }
        let doubled = self.first_wait.saturating_mul(1 << (tried - 1).min(16)).min(self.max_wait);
        Some(doubled.mul_f64(0.5 + chance() / 2.0))
    }
}

/// A random number from 0 to 1.
fn chance() -> f64 {
    (RandomState::new().hash_one(0) >> 11) as f64 / (1_u64 << 53) as f64
}

/// What the headers say about a retry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RetryAdvice {
    pub(super) again: Option<bool>,
    pub(super) wait: Option<Duration>,
}

pub(super) fn said(headers: &HeaderMap) -> RetryAdvice {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let again = match text("x-should-retry") {
        Some("true") => Some(true),
        Some("false") => Some(false),
        _ => None,
    };
    let exact = text("retry-after-ms").and_then(seconds).map(|wait| wait / 1000);
    let wait = exact.or_else(|| after(text(RETRY_AFTER.as_str())?, crate::clock::now()));
    RetryAdvice { again, wait }
}

/// The `Retry-After` header: seconds or a date.
fn after(text: &str, now: Timestamp) -> Option<Duration> {
    seconds(text).or_else(|| {
        let then = rfc2822::parse(text).ok()?.timestamp();
        Some(Duration::try_from(then.duration_since(now)).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::Refusal;
    use crate::reply::ReadError;

    #[test]
    fn waits() {
        let retry = Retry { tries: 4, first_wait: Duration::from_secs(1), max_wait: Duration::from_secs(3) };
        let refused = |status, wait| {
            let refusal = Refusal { wait, ..Refusal::read(status, b"") };
            SendError::Refused { host: String::new(), refusal }
        };
        let check = |tried, error: &SendError, expect: Option<(f64, f64)>| {
            let wait = retry.wait(tried, error).map(|wait| wait.as_secs_f64());
            match expect {
                Some((least, most)) => assert!(wait.is_some_and(|wait| (least..=most).contains(&wait)), "{wait:?}, {error}"),
                None => assert_eq!(wait, None, "{error}"),
            }
        };
        let second = |count| Some(Duration::from_secs(count));
        check(1, &refused(429, None), Some((0.5, 1.0)));
        check(2, &refused(503, None), Some((1.0, 2.0)));
        check(3, &refused(529, None), Some((1.5, 3.0)));
        check(4, &refused(529, None), None);
        check(1, &refused(429, second(2)), Some((2.0, 2.0)));
        check(1, &refused(429, second(4)), None);
        check(1, &refused(400, None), None);
        check(1, &refused(401, second(1)), None);
        check(1, &SendError::read("h", None, ReadError::Cut), Some((0.5, 1.0)));
        check(1, &SendError::read("h", None, ReadError::TooLarge { max: 1 }), None);
    }

    #[test]
    fn headers() {
        let check = |pairs: &[(&'static str, &str)], again, wait: Option<u64>| {
            let headers = pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
            assert_eq!(said(&headers), RetryAdvice { again, wait: wait.map(Duration::from_millis) }, "{pairs:?}");
        };
        check(&[], None, None);
        check(&[("retry-after", "2")], None, Some(2000));
        check(&[("retry-after", "0.5")], None, Some(500));
        check(&[("retry-after", "2"), ("retry-after-ms", "150")], None, Some(150));
        check(&[("retry-after", "soon")], None, None);
        check(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")], None, Some(0));
        check(&[("x-should-retry", "false")], Some(false), None);
        check(&[("x-should-retry", "true")], Some(true), None);
        let now = "1994-11-06T08:49:30Z".parse().unwrap();
        assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::from_secs(7)));
    }
}
