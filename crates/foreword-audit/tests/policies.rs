//! What other rules would have cost, on sessions whose answer is known.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Before, Format, Planned, read, report_of, write};
use foreword_audit::report::Report;

/// A call that reads so much and writes so much, after so many seconds.
fn call(idle_s: i64, read: u64, new: u64, model: &'static str) -> Planned {
    Planned { before: Before::Words, idle_s, model, effort: "high", read, new, output: 100, cause: None }
}

const OPUS: &str = "claude-opus-4-6";

/// Claude Opus 4.6, in USD for a token.
const INPUT: f64 = 5.0e-6;
const READ: f64 = 0.5e-6;
const WRITE: f64 = 6.25e-6;
const WRITE_LONG: f64 = 10.0e-6;
const OUTPUT: f64 = 25.0e-6;

fn report(format: Format, plan: &[Planned]) -> Report {
    report_of(vec![read(format, &write(format, plan).0)])
}

fn cost(report: &Report, policy: &str) -> f64 {
    report.what_if.iter().find(|one| one.policy == policy).unwrap_or_else(|| panic!("{policy}: {:?}", report.what_if)).cost
}

fn near(found: f64, expect: f64) {
    assert!((found - expect).abs() < 1e-9, "{found} is not {expect}");
}

/// Three calls of 3 fresh tokens and 100 of output each.
const REST: f64 = 3.0 * (3.0 * INPUT + 100.0 * OUTPUT);

#[test]
fn another_lifetime() {
    // Twenty minutes without a request: five minutes are too short, an hour is not.
    let plan = [call(1, 0, 20_000, OPUS), call(30, 20_000, 1_000, OPUS), call(1_200, 0, 22_000, OPUS)];
    let report = report(Format::Claude, &plan);
    let logged = 20_000.0 * WRITE + 20_000.0 * READ + 1_000.0 * WRITE + 22_000.0 * WRITE + REST;
    near(report.cost, logged);
    near(cost(&report, "5m"), logged);
    let hour = 20_000.0 * WRITE_LONG + 20_000.0 * READ + 1_000.0 * WRITE_LONG + 21_000.0 * READ + 1_000.0 * WRITE_LONG + REST;
    near(cost(&report, "1h"), hour);
    near(cost(&report, "1h main, 5m sub-agents"), hour);
    near(cost(&report, "best per session"), logged.min(hour));
    // Three pings do not reach that far, and are paid all the same.
    near(cost(&report, "keep-alive"), logged + 3.0 * (21_000.0 * READ + OUTPUT));
    // Four do.
    let foreseen = 20_000.0 * WRITE + 20_000.0 * READ + 1_000.0 * WRITE + 21_000.0 * READ + 1_000.0 * WRITE + REST;
    near(cost(&report, "keep-alive, foreseen"), foreseen + 4.0 * (21_000.0 * READ + OUTPUT));
}

#[test]
fn an_hour_that_nobody_needed() {
    let plan = [call(1, 0, 20_000, OPUS), call(30, 20_000, 1_000, OPUS), call(30, 21_000, 1_000, OPUS)];
    let report = report(Format::ClaudeHour, &plan);
    let short = 22_000.0 * WRITE + 41_000.0 * READ + REST;
    near(cost(&report, "5m"), short);
    near(report.cost, 22_000.0 * WRITE_LONG + 41_000.0 * READ + REST);
    let finding = &report.findings[0];
    assert!(
        finding.title.starts_with("5-minute lifetime for app") && finding.setting.contains("FORCE_PROMPT_CACHING_5M"),
        "{finding:?}"
    );
    near(finding.saves, 22_000.0 * (WRITE_LONG - WRITE));
}

#[test]
fn a_break_that_no_lifetime_would_have_saved_stays() {
    let plan = [call(1, 0, 20_000, OPUS), call(30, 0, 21_000, "claude-sonnet-4-6"), call(30, 21_000, 1_000, "claude-sonnet-4-6")];
    let report = report(Format::Claude, &plan);
    near(cost(&report, "5m"), report.cost);
    assert!(cost(&report, "1h") > report.cost);
}

#[test]
fn another_model_at_its_prices() {
    let plan = [call(1, 0, 20_000, OPUS), call(30, 20_000, 1_000, OPUS)];
    let report = report(Format::Claude, &plan);
    // Claude Sonnet 5.5: 2, 0.10, 2.50, 10 for a million.
    near(cost(&report, "model claude-sonnet-5-5"), 6.0 * 2e-6 + 20_000.0 * 0.1e-6 + 21_000.0 * 2.5e-6 + 200.0 * 10e-6);
}

#[test]
fn what_tools_gave_back_is_paid_again_and_again() {
    let mut plan = vec![call(1, 0, 10_000, OPUS)];
    for number in 0..20_u64 {
        plan.push(Planned { before: Before::Result, ..call(5, 10_000 + number * 300, 300, OPUS) });
    }
    let report = report(Format::Claude, &plan);
    let read = report.tools.iter().find(|tool| tool.name == "Read").unwrap();
    assert_eq!(read.results, 20);
    // 300 new tokens a call, of which 100 are the reply before.
    assert!((2_000..=4_000).contains(&read.tokens), "{read:?}");
    assert!(read.cost_later > 0.0 && read.cost > read.cost_later / 4.0, "{read:?}");
    // The parts are the whole prompt's price.
    let parts: f64 = report.parts.iter().map(|part| part.cost).sum();
    let prompts = report.cost - report.tokens.output as f64 * OUTPUT;
    assert!((parts - prompts).abs() < prompts * 0.02, "{parts} of {prompts}");
}
