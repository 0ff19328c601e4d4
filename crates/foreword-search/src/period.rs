//! Time ranges in a query: "what did I write last week" asks for notes of those days, not for notes about weeks.
//!
//! Better to miss a range than to see one that is not meant: a wrong one hides everything else. So "may" is a month only beside a year
//! or behind "in", "since" and the like with a capital letter, and a bare number is never a date.

use std::ops::Range;

use jiff::ToSpan;
use jiff::civil::{Date, Weekday};

/// A time range and the words that name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    /// The first day.
    pub first: Date,
    /// The last day, which belongs to it.
    pub last: Date,
    /// Which bytes of the query say so.
    pub words: Range<usize>,
}

/// What is behind this many words of a query is not looked at.
const MAX_WORDS: usize = 256;

const MONTHS: [&str; 12] =
    ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"];
const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const NUMBERS: [&str; 12] = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];

/// The first time range in `query`, seen from `today`, with weeks that begin on `week_start`.
pub fn find(query: &str, today: Date, week_start: Weekday) -> Option<Period> {
    let words = words(query);
    let reader = Reader { words: &words, today, week_start };
    let (at, (range, count)) = (0..words.len()).find_map(|at| reader.period(at).map(|found| (at, found)))?;
    let last = words.get(at + count - 1)?;
    let period = Period { first: range.0, last: range.1, words: words[at].range.start..last.range.end };
    (!reader.is_doubtful(at, count) && !is_quoted(query, &period.words)).then_some(period)
}

/// "the book \"Yesterday\"" is about a book.
fn is_quoted(query: &str, words: &Range<usize>) -> bool {
    let quote = |c: Option<char>| c.is_some_and(|c| "\"'“”‘’«»„`".contains(c));
    quote(query[..words.start].chars().next_back()) && quote(query[words.end..].chars().next())
}

struct Word {
    lower: String,
    capital: bool,
    range: Range<usize>,
}

fn words(query: &str) -> Vec<Word> {
    let mut found = Vec::new();
    let mut start = None;
    let ends = query.char_indices().map(|(at, c)| (at, Some(c))).chain([(query.len(), None)]);
    for (at, c) in ends {
        let inside = c.is_some_and(|c| c.is_alphanumeric() || c == '-');
        match (start, inside) {
            (None, true) => start = Some(at),
            (Some(begin), false) => {
                let text = &query[begin..at];
                found.push(Word { lower: text.to_lowercase(), capital: text.starts_with(char::is_uppercase), range: begin..at });
                start = None;
                if found.len() == MAX_WORDS {
                    break;
                }
            }
            _ => {}
        }
    }
    found
}

type Days = (Date, Date);

struct Reader<'a> {
    words: &'a [Word],
    today: Date,
    week_start: Weekday,
}

impl Reader<'_> {
    fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |word| &word.lower)
    }

    /// Whether the words around a range turn it into something else: "not in May", "in May or June".
    fn is_doubtful(&self, at: usize, count: usize) -> bool {
        let before = |back: usize| at.checked_sub(back).map_or("", |at| self.word(at));
        let turned = |word: &str| {
            matches!(word, "not" | "except" | "without" | "besides" | "excluding" | "nor" | "or" | "than" | "between")
        };
        let another = matches!(self.word(at + count), "or" | "and" | "to" | "until" | "till")
            && self.point(at + count + 1, Beside::Preposition).is_some();
        turned(before(1)) || (matches!(before(1), "in" | "on" | "during" | "from") && turned(before(2))) || another
    }

    /// A range that begins at word `at`, and how many words it takes.
    fn period(&self, at: usize) -> Option<(Days, usize)> {
        match self.word(at) {
            "between" | "from" => {
                let (from, first) = self.point(at + 1, Beside::Preposition)?;
                let joined = matches!(self.word(at + 1 + first), "and" | "to" | "until" | "till");
                let (to, second) = joined.then(|| self.point(at + 2 + first, Beside::Preposition)).flatten()?;
                // "from March to May 2025": the year of the second is meant for both.
                let month_alone = first == 1 && MONTHS.contains(&self.word(at + 1));
                let same_year = from.0.with().year(to.1.year()).build().ok().filter(|_| month_alone);
                let start = [same_year.unwrap_or(from.0), from.0].into_iter().find(|start| *start <= to.1)?;
                Some(((start, to.1), 2 + first + second))
            }
            "before" => {
                let (to, count) = self.point(at + 1, Beside::Preposition)?;
                Some(((Date::MIN, to.0.yesterday().ok()?), 1 + count))
            }
            "until" | "till" | "by" => self.point(at + 1, Beside::Preposition).map(|(to, count)| ((Date::MIN, to.1), 1 + count)),
            "after" => {
                let (from, count) = self.point(at + 1, Beside::Preposition)?;
                Some(((from.1.tomorrow().ok()?, Date::MAX), 1 + count))
            }
            "since" => {
                let (from, count) = self.point(at + 1, Beside::Preposition)?;
                (from.0 <= self.today).then_some(((from.0, self.today), 1 + count))
            }
            "in" | "during" | "on" => self.point(at + 1, Beside::Preposition).map(|(days, count)| (days, 1 + count)),
            _ => self.point(at, Beside::Nothing),
        }
    }

    /// A day, week, month or year named at word `at`.
    fn point(&self, at: usize, beside: Beside) -> Option<(Days, usize)> {
        self.relative(at).or_else(|| self.calendar(at, beside))
    }

    fn relative(&self, at: usize) -> Option<(Days, usize)> {
        let day = |date: Date| Some((date, date));
        let the = usize::from(self.word(at) == "the");
        let (which, unit) = (self.word(at + the), self.word(at + the + 1));
        if the == 0 {
            let days = match which {
                "today" => day(self.today),
                "yesterday" => day(self.back(1)?),
                _ => None,
            };
            if let Some(days) = days {
                return Some((days, 1));
            }
        }
        if !matches!(which, "last" | "past" | "previous" | "this") {
            return self.ago(at);
        }
        if let Some(days) = self.unit(which, unit) {
            return Some((days, the + 2));
        }
        let number = number(unit).filter(|_| which != "this")?;
        let first = self.spans_back(number, self.word(at + the + 2))?;
        Some(((first, self.today), the + 3))
    }

    /// "last week", "this month", "last Friday".
    fn unit(&self, which: &str, unit: &str) -> Option<Days> {
        let this = which == "this";
        match unit {
            "week" => {
                let passed = i64::from(self.today.weekday().since(self.week_start));
                let first = self.back(if this { passed } else { passed + 7 })?;
                Some((first, first.checked_add(6.days()).ok()?))
            }
            "month" => Some(month(if this { self.today } else { self.today.first_of_month().yesterday().ok()? })),
            "year" => year(self.today.year() - i16::from(!this)),
            "weekend" => {
                let saturday = i64::from(self.today.weekday().since(Weekday::Saturday));
                // On a weekend "last weekend" is the one before.
                let first = self.back(if this {
                    saturday - 7 * i64::from(saturday > 1)
                } else {
                    saturday + 7 * i64::from(saturday < 2)
                })?;
                Some((first, first.tomorrow().ok()?))
            }
            _ if which == "last" => weekday(unit).and_then(|day| self.before(day)).map(|date| (date, date)),
            _ => None,
        }
    }

    /// "3 days ago", "a week ago".
    fn ago(&self, at: usize) -> Option<(Days, usize)> {
        let count = if matches!(self.word(at), "a" | "an") { 1 } else { number(self.word(at))? };
        let unit = self.word(at + 1);
        if self.word(at + 2) != "ago" {
            return None;
        }
        let date = self.spans_back(count, unit)?;
        let days = match unit.trim_end_matches('s') {
            "week" => (date.checked_sub(3.days()).ok()?, date.checked_add(3.days()).ok()?),
            "month" => month(date),
            "year" => year(date.year())?,
            _ => (date, date),
        };
        Some((days, 3))
    }

    /// Dates of the calendar: 2025-09-14, 2025-09, March 2025, 3 March 2025, in 2025, on Monday.
    fn calendar(&self, at: usize, beside: Beside) -> Option<(Days, usize)> {
        let word = self.words.get(at)?;
        if let Some(days) = iso(&word.lower) {
            return Some((days, 1));
        }
        if let Some(found) = self.month_and_day(at) {
            return Some(found);
        }
        if let Some(number) = MONTHS.iter().position(|month| *month == word.lower) {
            if let Some(year) = year_number(self.word(at + 1)) {
                return Some((month_of(year, number)?, 2));
            }
            // Without a year it is the last such month that has begun.
            let fits =
                beside == Beside::Preposition && (word.capital || !matches!(word.lower.as_str(), "may" | "march" | "august"));
            let past = number < usize::try_from(self.today.month()).ok()?;
            let year = self.today.year() - i16::from(!past);
            return if fits { Some((month_of(year, number)?, 1)) } else { None };
        }
        if beside == Beside::Preposition {
            if let Some(number) = year_number(&word.lower) {
                return Some((year(number)?, 1));
            }
            if let Some(date) = weekday(&word.lower).and_then(|day| self.before(day)) {
                return Some(((date, date), 1));
            }
        }
        None
    }

    /// "March 3, 2025", "3 March 2025", "3rd of March 2025"; the year may be missing.
    fn month_and_day(&self, at: usize) -> Option<(Days, usize)> {
        let month_at = |at: usize| MONTHS.iter().position(|month| *month == self.word(at));
        let (number, day, count) = if let Some(number) = month_at(at) {
            (number, day_number(self.word(at + 1))?, 2)
        } else {
            let day = day_number(self.word(at))?;
            let of = usize::from(self.word(at + 1) == "of");
            (month_at(at + 1 + of)?, day, 2 + of)
        };
        let month = i8::try_from(number + 1).ok()?;
        if let Some(year) = year_number(self.word(at + count)) {
            let date = Date::new(year, month, day).ok()?;
            return Some(((date, date), count + 1));
        }
        // "march 3 miles": without a year only what is written as a name.
        let name = self.words.get(if month_at(at).is_some() { at } else { at + count - 1 })?;
        if !name.capital {
            return None;
        }
        let this = Date::new(self.today.year(), month, day).ok()?;
        let date = if this <= self.today { this } else { Date::new(self.today.year() - 1, month, day).ok()? };
        Some(((date, date), count))
    }

    fn back(&self, days: i64) -> Option<Date> {
        self.today.checked_sub(jiff::Span::new().try_days(days).ok()?).ok()
    }

    fn spans_back(&self, count: i64, unit: &str) -> Option<Date> {
        let span = jiff::Span::new();
        let span = match unit.strip_suffix('s').unwrap_or(unit) {
            "day" => span.try_days(count),
            "week" => span.try_weeks(count),
            "month" => span.try_months(count),
            "year" => span.try_years(count),
            _ => return None,
        };
        self.today.checked_sub(span.ok()?).ok()
    }

    /// The last such day before today.
    fn before(&self, day: Weekday) -> Option<Date> {
        let passed = i64::from(self.today.weekday().since(day));
        self.back(if passed == 0 { 7 } else { passed })
    }
}

/// What stands before a date.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    Preposition,
}

fn weekday(word: &str) -> Option<Weekday> {
    let at = DAYS.iter().position(|day| *day == word)?;
    Weekday::from_monday_zero_offset(i8::try_from(at).ok()?).ok()
}

fn number(word: &str) -> Option<i64> {
    let named = NUMBERS.iter().position(|number| *number == word).and_then(|at| i64::try_from(at + 1).ok());
    named.or_else(|| word.parse().ok().filter(|number| (1..=1000).contains(number)))
}

fn day_number(word: &str) -> Option<i8> {
    let digits = ["st", "nd", "rd", "th"].iter().find_map(|ending| word.strip_suffix(ending)).unwrap_or(word);
    digits.parse().ok().filter(|day| (1..=31).contains(day))
}

fn year_number(word: &str) -> Option<i16> {
    word.parse().ok().filter(|year| word.len() == 4 && (1900..2200).contains(year))
}

fn year(year: i16) -> Option<Days> {
    Some((Date::new(year, 1, 1).ok()?, Date::new(year, 12, 31).ok()?))
}

fn month(date: Date) -> Days {
    (date.first_of_month(), date.last_of_month())
}

fn month_of(year: i16, at: usize) -> Option<Days> {
    Some(month(Date::new(year, i8::try_from(at + 1).ok()?, 1).ok()?))
}

/// `2025-09-14` or `2025-09`.
fn iso(word: &str) -> Option<Days> {
    let mut parts = word.split('-');
    let year = year_number(parts.next()?)?;
    let two = |part: &str| part.parse::<i8>().ok().filter(|_| part.len() == 2);
    let month_number = two(parts.next()?)?;
    let day = parts.next().map(two);
    if parts.next().is_some() {
        return None;
    }
    match day {
        None => Some(month(Date::new(year, month_number, 1).ok()?)),
        Some(day) => Date::new(year, month_number, day?).ok().map(|date| (date, date)),
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use proptest::prelude::*;

    use super::*;

    /// A Wednesday.
    const TODAY: Date = date(2025, 9, 17);

    fn check(query: &str, expect: &str) {
        let found = find(query, TODAY, Weekday::Monday);
        let found = found.map_or(String::new(), |period| format!("{}..{} {}", period.first, period.last, &query[period.words]));
        assert_eq!(found, expect, "{query}");
    }

    #[test]
    fn ranges() {
        check("what did I write last week?", "2025-09-08..2025-09-14 last week");
        check("notes of yesterday", "2025-09-16..2025-09-16 yesterday");
        check("today's plan", "2025-09-17..2025-09-17 today");
        check("this month", "2025-09-01..2025-09-30 this month");
        check("last month", "2025-08-01..2025-08-31 last month");
        check("last year", "2024-01-01..2024-12-31 last year");
        check("the last 3 days", "2025-09-14..2025-09-17 the last 3 days");
        check("past two weeks", "2025-09-03..2025-09-17 past two weeks");
        check("last weekend", "2025-09-13..2025-09-14 last weekend");
        check("3 days ago", "2025-09-14..2025-09-14 3 days ago");
        check("a month ago", "2025-08-01..2025-08-31 a month ago");
        check("last Friday", "2025-09-12..2025-09-12 last Friday");
        check("since Monday", "2025-09-15..2025-09-17 since Monday");
        check("on wednesday", "2025-09-10..2025-09-10 on wednesday");
        check("in March 2025", "2025-03-01..2025-03-31 in March 2025");
        check("march 2024 budget", "2024-03-01..2024-03-31 march 2024");
        check("in May", "2025-05-01..2025-05-31 in May");
        check("in October", "2024-10-01..2024-10-31 in October");
        check("in 2024", "2024-01-01..2024-12-31 in 2024");
        check("2025-09", "2025-09-01..2025-09-30 2025-09");
        check("meeting 2025-09-14", "2025-09-14..2025-09-14 2025-09-14");
        check("March 3, 2025", "2025-03-03..2025-03-03 March 3, 2025");
        check("the 3rd of March 2025", "2025-03-03..2025-03-03 3rd of March 2025");
        check("between March 2025 and May 2025", "2025-03-01..2025-05-31 between March 2025 and May 2025");
        check("from 2025-01-02 to 2025-01-05", "2025-01-02..2025-01-05 from 2025-01-02 to 2025-01-05");
        check("since yesterday", "2025-09-16..2025-09-17 since yesterday");
    }

    #[test]
    fn regression_times_were_read_as_their_opposite() {
        check("talks before April 2025", "-009999-01-01..2025-03-31 before April 2025");
        check("talks until April 2025", "-009999-01-01..2025-04-30 until April 2025");
        check("talks after April 2025", "2025-05-01..9999-12-31 after April 2025");
        check("between March and May 2025", "2025-03-01..2025-05-31 between March and May 2025");
        check("from March to May 2024", "2024-03-01..2024-05-31 from March to May 2024");
        check("from 2024 to 2025", "2024-01-01..2025-12-31 from 2024 to 2025");
        check("March 2025 or April 2025", "");
        check("not in April 2025", "");
        check("except April 2025", "");
        check("the book \"Yesterday\"", "");
        check("other than yesterday", "");
    }

    #[test]
    fn not_dates() {
        for query in [
            "may I ask",
            "it may rain in may",
            "march 3 miles",
            "the last chapter",
            "2025",
            "room 2024",
            "2025-13",
            "2025-02-30",
            "1234-56-78-90",
            "from a to b",
            "between 3 and 5",
            "since 9999999999 days",
            "last 0 days",
            "in the last resort",
            "monday blues",
            "",
        ] {
            check(query, "");
        }
    }

    #[test]
    fn weeks_begin_where_the_user_says() {
        let found = find("this week", TODAY, Weekday::Sunday).unwrap();
        assert_eq!((found.first, found.last), (date(2025, 9, 14), date(2025, 9, 20)));
    }

    proptest! {
        #[test]
        fn any_query_is_read(query in "(last|since|in|between|and|1000|may|years|ago|2199-12-31|[\\PC]{0,6}| ){0,30}") {
            for today in [TODAY, Date::MIN, Date::MAX] {
                if let Some(period) = find(&query, today, Weekday::Monday) {
                    assert!(period.first <= period.last && query.get(period.words).is_some());
                }
            }
        }
    }
}
