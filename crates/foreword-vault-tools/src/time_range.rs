//! `timeRange`: which days a phrase means.

use foreword_core::catalog::Tool;
use foreword_search::period;
use foreword_tools::{Builtin, Output};
use jiff::civil::{Date, Weekday};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Reach, VaultTools, brief, described, output, read};

/// The first and the last day of a time, both belonging to it.
pub type Days = (Date, Date);

pub(super) struct TimeRange {
    desk: VaultTools,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    phrase: String,
}

impl TimeRange {
    pub(super) fn new(desk: VaultTools) -> Self {
        Self { desk }
    }

    fn answer(&self, arguments: &Value) -> Result<String, String> {
        let Arguments { phrase } = read(arguments)?;
        let today = self.desk.now().date();
        let days = days(&phrase, today).ok_or_else(|| unknown(&phrase))?;
        let phrase = brief(phrase.trim());
        Ok(format!("\"{phrase}\" is {}. Today is {}.", span_with_weekdays(days), with_weekday(today)))
    }
}

impl Builtin for TimeRange {
    fn tool(&self) -> Tool {
        described(
            "timeRange",
            Reach::Reads,
            "Tell which days a phrase such as \"last week\" or \"since March\" means, counted from today. Also tells today's date. \
             Use it when you need the dates themselves; localSearch understands such phrases by itself.",
            &json!({
                "phrase": {
                    "type": "string",
                    "description": "A time in English: today, yesterday, last week, this month, the last 3 days, two weeks ago, last Friday, \
                                    in March 2026, since Monday, before 2026-11-01, 2026-11-01 to 2026-11-07."
                }
            }),
            &["phrase"],
        )
    }

    fn run(&mut self, arguments: &Value) -> Output {
        output(self.answer(arguments))
    }
}

/// The days that a phrase means where it is said to be a time: a bare month or year, or two days, will do.
pub(super) fn days(phrase: &str, today: Date) -> Option<Days> {
    let phrase = phrase.trim().replace("..", " to ").replace(['–', '—'], " to ");
    // A range stands first: "2026-11-01 to 2026-11-07" begins with a day that means one by itself.
    let said = [format!("from {phrase}"), phrase.clone(), format!("in {phrase}")];
    let found = said.iter().find_map(|said| period::find(said, today, Weekday::Monday))?;
    Some((found.first, found.last))
}

pub(super) fn unknown(phrase: &str) -> String {
    format!(
        "\"{}\" names no time that is understood. Write it as `last week`, `yesterday`, `the last 3 days`, `in March 2026`, `since Monday`, \
         `2026-11-01` or `2026-11-01 to 2026-11-07`.",
        brief(phrase)
    )
}

/// The days as a person says them.
pub(super) fn span((first, last): Days) -> String {
    worded((first, last), |date| date.to_string())
}

fn span_with_weekdays(days: Days) -> String {
    worded(days, with_weekday)
}

fn worded((first, last): Days, word: impl Fn(Date) -> String) -> String {
    match (first == Date::MIN, last == Date::MAX) {
        (true, true) => "any time".to_owned(),
        (true, false) => format!("until {}", word(last)),
        (false, true) => format!("from {} on", word(first)),
        (false, false) if first == last => word(first),
        (false, false) => format!("from {} to {}", word(first), word(last)),
    }
}

fn with_weekday(date: Date) -> String {
    date.strftime("%A %Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    #[test]
    fn phrases() {
        fn check(phrase: &str, expect: &str) {
            // A Sunday.
            assert_eq!(days(phrase, date(2026, 11, 15)).map_or_else(String::new, span), expect, "{phrase}");
        }
        check("last week", "from 2026-11-02 to 2026-11-08");
        check(" Yesterday", "2026-11-14");
        check("March 2026", "from 2026-03-01 to 2026-03-31");
        check("october", "from 2026-10-01 to 2026-10-31");
        check("2025", "from 2025-01-01 to 2025-12-31");
        check("Monday", "2026-11-09");
        check("before 2026-11-01", "until 2026-10-31");
        check("after yesterday", "from 2026-11-15 on");
        check("since March", "from 2026-03-01 to 2026-11-15");
        check("2026-11-01 to 2026-11-07", "from 2026-11-01 to 2026-11-07");
        check("2026-11-01..2026-11-07", "from 2026-11-01 to 2026-11-07");
        check("2026-11-01 – 2026-11-07", "from 2026-11-01 to 2026-11-07");
        check("from 2026-11-01 to 2026-11-07", "from 2026-11-01 to 2026-11-07");
        check("2026-11-07 to 2026-11-01", "");
        check("2026-13-01", "");
        check("soon", "");
        check("", "");
    }
}
