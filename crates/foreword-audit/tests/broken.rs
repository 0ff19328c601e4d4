//! Logs that are broken, cut short, or of several programs at once: what the fuzz targets check, on mutations that are always the same.

#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation)]

mod common;

use common::{Format, Numbers, plan, write};

include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/targets/audit/check.rs"));

/// One more thing that went wrong.
fn mutate(text: &mut Vec<u8>, other: &[u8], numbers: &mut Numbers) {
    if text.is_empty() {
        return;
    }
    let size = text.len() as u64;
    let mut place = || numbers.upto(size) as usize;
    let (from, to) = (place(), place());
    let (from, to) = (from.min(to), from.max(to).min(from.min(to) + 200));
    match numbers.upto(8) {
        0 => text.truncate(from),
        1 => drop(text.drain(from..to)),
        2 => text[from] = numbers.upto(256) as u8,
        3 => {
            let copy = text[from..to].to_vec();
            text.splice(from..from, copy);
        }
        4 => {
            let start = numbers.upto(other.len() as u64 + 1) as usize;
            text.splice(from..from, other[start..].iter().copied().take(400));
        }
        // A number that is none, or too large.
        5 => {
            if let Some(digit) = text[from..].iter().position(u8::is_ascii_digit) {
                text.splice(from + digit..=from + digit, *b"-99999999999999999999e7");
            }
        }
        // A value of another type.
        6 => {
            if let Some(colon) = text[from..].iter().position(|byte| *byte == b':') {
                let value: &[u8] = [&b"[],"[..], b"null,", b"{},", b"\"\","][numbers.upto(4) as usize];
                let behind = from + colon + 1;
                text.splice(behind..behind, value.iter().copied());
            }
        }
        _ => text.splice(from..from, *b"\n").for_each(drop),
    }
}

#[test]
fn nothing_panics_and_sums_are_sums() {
    let texts: Vec<(Format, String)> = Format::ALL
        .into_iter()
        .flat_map(|format| {
            format.causes().into_iter().map(move |(before, cause)| (format, write(format, &plan(format, before, cause, 1)).0))
        })
        .collect();
    let mut numbers = Numbers(42);
    for round in 0..12 {
        for (at, (format, text)) in texts.iter().enumerate() {
            let other = texts[(at + 1 + round) % texts.len()].1.as_bytes();
            let mut text = text.clone().into_bytes();
            for _ in 0..=numbers.upto(6) {
                mutate(&mut text, other, &mut numbers);
            }
            check(format.agent(), &text);
        }
    }
    for agent in Agent::ALL {
        for (_, text) in &texts {
            check(agent, text.as_bytes());
        }
        check(agent, b"");
        check(
            agent,
            b"# aider chat started at 2026-05-01 10:00:00\n> Tokens: 9e99k sent, -1 received.\n> Tokens: 3k sent, 1 received.\n",
        );
    }
}
