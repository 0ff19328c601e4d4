//! Durations: years, months, days and a time, kept apart because a month is not a number of days until it is added to a date.

use jiff::civil::DateTime;

const SECOND: f64 = 1000.0;
const MINUTE: f64 = 60.0 * SECOND;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;
const DAYS_IN_MONTH: f64 = 30.0;
const DAYS_IN_YEAR: f64 = 365.0;

/// A length of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Span {
    years: f64,
    months: f64,
    days: f64,
    millis: f64,
}

impl Span {
    /// `count` of a unit as people write it: `d`, `days`, `hr`, …
    pub(super) fn of(count: f64, unit: &str) -> Option<Self> {
        let zero = Self::default();
        Some(match unit {
            "year" | "years" | "yr" | "yrs" => Self { years: count, ..zero },
            "month" | "months" | "mo" | "mos" => Self { months: count, ..zero },
            "week" | "weeks" | "wk" | "wks" | "w" => Self { days: count * 7.0, ..zero },
            "day" | "days" | "d" => Self { days: count, ..zero },
            "hour" | "hours" | "hr" | "hrs" | "h" => Self { millis: count * HOUR, ..zero },
            "minute" | "minutes" | "min" | "mins" | "m" => Self { millis: count * MINUTE, ..zero },
            "second" | "seconds" | "sec" | "secs" | "s" => Self { millis: count * SECOND, ..zero },
            _ => return None,
        })
    }

    /// The time between two dates, in whole years and months, then days and hours.
    pub(super) fn between(from: DateTime, to: DateTime) -> Option<Self> {
        let span = from.until((jiff::Unit::Year, to)).ok()?;
        let hours = f64::from(span.get_hours()) * HOUR + span.get_minutes() as f64 * MINUTE;
        let millis = span.get_seconds() as f64 * SECOND + span.get_milliseconds() as f64;
        Some(Self {
            years: f64::from(span.get_years()),
            months: f64::from(span.get_months()),
            days: f64::from(span.get_days()),
            millis: hours + millis,
        })
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            years: self.years + other.years,
            months: self.months + other.months,
            days: self.days + other.days,
            millis: self.millis + other.millis,
        }
    }

    pub(super) fn times(self, factor: f64) -> Self {
        Self { years: self.years * factor, months: self.months * factor, days: self.days * factor, millis: self.millis * factor }
    }

    /// `date` moved by it; `None` where that leaves the calendar.
    pub(super) fn after(self, date: DateTime) -> Option<DateTime> {
        let years = whole(self.years)?;
        let months = whole(self.months + self.years.fract() * 12.0)?;
        let days = self.days + self.months.fract() * DAYS_IN_MONTH;
        let millis = whole(self.millis + days.fract() * DAY)?;
        let span = jiff::Span::new().try_years(years).ok()?.try_months(months).ok()?.try_days(whole(days)?).ok()?;
        date.checked_add(span).ok()?.checked_add(jiff::SignedDuration::from_millis(millis)).ok()
    }

    /// Its length where a month has 30 days and a year 365.
    pub(super) fn millis_in_all(self) -> f64 {
        (self.years * DAYS_IN_YEAR + self.months * DAYS_IN_MONTH + self.days) * DAY + self.millis
    }

    /// Its length in a unit, as `duration.days` asks for it.
    pub(super) fn in_unit(self, unit: &str) -> Option<f64> {
        let all = self.millis_in_all();
        Some(match unit {
            "year" | "years" => self.years + self.months / 12.0 + (self.days + self.millis / DAY) / DAYS_IN_YEAR,
            "month" | "months" => self.years * 12.0 + self.months + (self.days + self.millis / DAY) / DAYS_IN_MONTH,
            "week" | "weeks" => all / (7.0 * DAY),
            "day" | "days" => all / DAY,
            "hour" | "hours" => all / HOUR,
            "minute" | "minutes" => all / MINUTE,
            "second" | "seconds" => all / SECOND,
            "millisecond" | "milliseconds" => all,
            _ => return None,
        })
    }

    /// `2 weeks, 1 day`
    pub(super) fn text(self) -> String {
        let sign = if self.millis_in_all() < 0.0 { -1.0 } else { 1.0 };
        let positive = self.times(sign);
        let days = positive.days + (positive.millis / DAY).trunc();
        let months = positive.months + (days / DAYS_IN_MONTH).trunc();
        let days = days % DAYS_IN_MONTH;
        let millis = positive.millis % DAY;
        let parts = [
            (positive.years + (months / 12.0).trunc(), "year"),
            (months % 12.0, "month"),
            ((days / 7.0).trunc(), "week"),
            (days % 7.0, "day"),
            ((millis / HOUR).trunc(), "hour"),
            ((millis % HOUR / MINUTE).trunc(), "minute"),
            (millis % MINUTE / SECOND, "second"),
        ];
        let parts = parts.into_iter().filter(|(count, _)| *count != 0.0);
        let text = parts.map(|(count, unit)| {
            let many = if (count - 1.0).abs() < f64::EPSILON { "" } else { "s" };
            format!("{} {unit}{many}", count * sign)
        });
        let text = text.collect::<Vec<_>>().join(", ");
        if text.is_empty() { "0 seconds".to_owned() } else { text }
    }
}

/// The whole part, where it is small enough to be one of a date's.
fn whole(number: f64) -> Option<i64> {
    const LARGEST: f64 = 1e15;
    #[expect(clippy::cast_possible_truncation, reason = "checked to be far inside the range")]
    (number.abs() < LARGEST).then_some(number.trunc() as i64)
}
