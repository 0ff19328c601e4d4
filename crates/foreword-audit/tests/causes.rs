//! Sessions with breaks that are known, in every format: what the reports say of them.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::collections::BTreeMap;

use common::{Format, plan, read, report_of, write};
use foreword_audit::breaks::{Cause, Evidence};

#[test]
fn known_breaks_are_found_and_named() {
    const SEEDS: u64 = 6;
    let (mut sessions, mut right, mut measured_wrong, mut found_more) = (0, 0, 0, 0);
    let mut wrong: Vec<String> = Vec::new();
    let mut by_cause: BTreeMap<Cause, u32> = BTreeMap::new();
    for format in Format::ALL {
        for (before, cause) in format.causes() {
            for seed in 0..SEEDS {
                let plan = plan(format, before, cause, seed);
                let (text, starts) = write(format, &plan);
                let report = report_of(vec![read(format, &text)]);
                let [session] = &report.sessions[..] else { panic!("{format:?} {cause:?}: {} sessions", report.sessions.len()) };
                assert_eq!(report.calls, plan.len() as u64, "{format:?} {cause:?} {seed}");
                sessions += 1;
                let at = starts[plan.iter().position(|call| call.cause.is_some()).unwrap()];
                let (here, elsewhere): (Vec<_>, Vec<_>) = session.breaks.iter().partition(|one| (one.at.0 - at).abs() < 1_000);
                found_more += elsewhere.len();
                let named = here.first().is_some_and(|one| one.cause == cause);
                right += u32::from(named);
                *by_cause.entry(cause).or_default() += 1;
                measured_wrong +=
                    session.breaks.iter().filter(|one| one.evidence == Evidence::Measured && one.cause != cause).count();
                if !named {
                    wrong.push(format!("{format:?} {before:?} {cause:?} {seed}: {:?}", session.breaks));
                }
            }
        }
    }
    assert!(sessions >= 200, "{sessions}");
    assert!(by_cause.len() >= 8, "{by_cause:?}");
    assert_eq!(measured_wrong, 0);
    assert_eq!(found_more, 0);
    assert!(f64::from(right) >= f64::from(sessions) * 0.95, "{right} of {sessions}\n{}", wrong.join("\n"));
}

/// A chain whose last call read `read` of what the call before had in the cache, `idle_s` after it: what the report says.
fn check_loss(format: Format, read: impl Fn(&[common::Planned]) -> u64, idle_s: i64, expect: (Cause, Evidence)) {
    let mut plan = plan(format, common::Before::Result, Cause::Unexplained, 3);
    let at = plan.iter().position(|call| call.cause.is_some()).unwrap();
    plan.truncate(at + 1);
    plan[at - 1].new += 9_000;
    let cached = plan[at - 1].read + plan[at - 1].new;
    plan[at].read = read(&plan[..at]);
    plan[at].new = cached + 300 - plan[at].read;
    plan[at].idle_s = idle_s;
    let (text, _) = write(format, &plan);
    let report = report_of(vec![common::read(format, &text)]);
    let session = &report.sessions[0];
    let all: Vec<_> = session.breaks.iter().chain(&session.misses).map(|one| (one.cause, one.evidence)).collect();
    assert_eq!(all, [expect], "{format:?}");
    // What no setting can change is listed apart.
    assert_eq!(session.misses.len(), usize::from(expect.0 == Cause::Provider), "{format:?}");
}

#[test]
fn a_loss_without_a_sign_is_explained_only_where_its_size_or_its_time_tells() {
    use Evidence::{Guessed, Inferred};
    // In the conversation, and where no earlier request ended.
    let anywhere = |plan: &[common::Planned]| plan[0].new + plan[1].new + 400;
    // Where the second request ended, rounded down as such providers do.
    let earlier = |plan: &[common::Planned]| (plan[1].read + plan[1].new) / 128 * 128;
    // No more than what the second request found as well.
    let beginning = |plan: &[common::Planned]| plan[1].read;
    for format in [Format::GeminiWhole, Format::Qwen] {
        check_loss(format, anywhere, 5, (Cause::Unexplained, Guessed));
        check_loss(format, anywhere, 90, (Cause::Idle, Guessed));
        check_loss(format, earlier, 5, (Cause::Provider, Inferred));
        check_loss(format, beginning, 5, (Cause::Provider, Inferred));
        check_loss(format, |_| 0, 5, (Cause::Unexplained, Guessed));
    }
    // These providers promise a lifetime: they have no such excuse.
    for format in [Format::Claude, Format::Codex] {
        check_loss(format, anywhere, 90, (Cause::Unexplained, Guessed));
        check_loss(format, earlier, 5, (Cause::Unexplained, Guessed));
    }
}

#[test]
fn what_a_break_cost_is_what_writing_costs_more_than_reading() {
    let mut plan = plan(Format::Claude, common::Before::Words, Cause::Idle, 1);
    let at = plan.iter().position(|call| call.cause.is_some()).unwrap();
    let cached = plan[at - 1].read + plan[at - 1].new;
    plan[at].read = 0;
    plan[at].new = cached + 500;
    let (text, _) = write(Format::Claude, &plan);
    let report = report_of(vec![read(Format::Claude, &text)]);
    let one = &report.sessions[0].breaks[0];
    assert_eq!(one.tokens, cached);
    // Claude Opus 4.6: 6.25 to write, 0.50 to read, for a million.
    assert!((one.cost - cached as f64 * (6.25 - 0.50) / 1e6).abs() < 1e-9);
    assert_eq!(one.lines.len(), 2, "the call before and this one: {:?}", one.lines);
}
