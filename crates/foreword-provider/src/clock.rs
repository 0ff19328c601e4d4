//! The time. A clock that is set to where no date can be named tells the last one, or the first, instead of ending the program.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Now.
pub fn now() -> Timestamp {
    named(SystemTime::now())
}

/// Now, as the user's clock shows it.
pub fn zoned() -> Zoned {
    now().to_zoned(TimeZone::system())
}

fn named(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or(if time < UNIX_EPOCH { Timestamp::MIN } else { Timestamp::MAX })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::tz::offset;

    use super::*;

    #[test]
    fn a_clock_may_be_set_to_anything() {
        let check = |seconds: i64, expect: &str| {
            let span = Duration::from_secs(seconds.unsigned_abs());
            let time = if seconds < 0 { UNIX_EPOCH.checked_sub(span) } else { UNIX_EPOCH.checked_add(span) };
            let now = named(time.unwrap());
            assert_eq!(now.to_string().get(..expect.len()), Some(expect), "{seconds}");
            for hours in [-14, 0, 14] {
                let shown = now.to_zoned(offset(hours).to_time_zone()).strftime("%Y-%m-%d %H:%M").to_string();
                assert!(!shown.is_empty());
            }
        };
        check(0, "1970-01-01T00:00:00Z");
        check(-1, "1969-12-31T23:59:59Z");
        check(-11_644_473_600, "1601-01-01");
        // The last seconds that can be named in every time zone, and those behind them.
        check(253_402_207_200, "9999-12-30T22:00:00");
        check(253_402_300_799, "9999-12-30T22:00:00");
        check(253_402_300_800, "9999-12-30T22:00:00");
        check(4_000_000_000_000, "9999-12-30T22:00:00");
        check(-4_000_000_000_000, "-009999-01-02");
    }
}
