//! What queries answer, over one small vault.

mod answers;
mod caching;
mod expressions;
mod hostile;
mod vault;

use jiff::Zoned;
use jiff::civil::date;
use jiff::tz::{Offset, TimeZone};

use self::vault::{Vault, vault};
use super::{Answer, Limit, Unanswered, answer};

/// A Wednesday, in a zone two hours ahead.
fn now() -> Zoned {
    date(2025, 9, 3).at(12, 30, 0, 0).to_zoned(TimeZone::fixed(Offset::from_seconds(7200).unwrap())).unwrap()
}

fn ask(vault: &Vault, query: &str) -> Result<Answer, Unanswered> {
    answer(query, "Home.md", vault, &now(), Limit::default())
}

/// The query, asked in `Home.md`, shows this.
#[track_caller]
fn check(query: &str, expect: &str) {
    let markdown = ask(&vault(), query).map(|answer| answer.markdown);
    let lines = |text: &str| text.trim_end().lines().map(str::to_owned).collect::<Vec<_>>();
    match markdown {
        Ok(markdown) => assert_eq!(lines(&markdown), lines(expect), "{query}"),
        Err(unanswered) => panic!("{query}: {unanswered}"),
    }
}

/// The query has no answer, and this is said.
#[track_caller]
fn check_unanswered(query: &str, expect: &str) {
    assert_eq!(ask(&vault(), query).map_err(|unanswered| unanswered.to_string()), Err(expect.to_owned()), "{query}");
}

/// The expression has this value in the row of `Books/Dune.md`.
#[track_caller]
fn check_value(expression: &str, expect: &str) {
    check(&format!("LIST WITHOUT ID string({expression}) FROM \"Books/Dune\""), &format!("- {expect}"));
}
