//! aider: a chat history in markdown with rounded counts and no times but the start's.

use std::io::BufRead;

use super::builder::{Builder, MAIN};
use crate::log::{Call, FileLog, Tokens, hash};

/// A longer line is text.
const LONGEST: usize = 1 << 20;

/// Reads a history: each start of aider in it is a session of its own.
pub(crate) fn read(mut from: impl BufRead, log: &FileLog) -> Vec<FileLog> {
    let mut found: Vec<Builder> = Vec::new();
    let mut line = Vec::new();
    let mut number = 0_u32;
    let (mut model, mut at_ms, mut heard) = (String::new(), 0, 0_u64);
    loop {
        line.clear();
        match std::io::Read::take(&mut from, LONGEST as u64).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => number = number.saturating_add(1),
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if let Some(time) = text.strip_prefix("# aider chat started at ") {
            at_ms = local_ms(time).unwrap_or_default();
            let session = format!("{:016x}", hash(&format!("{}\n{time}\n{number}", log.file)));
            let mut one = FileLog { session, project: log.project.clone(), ..FileLog::new(log.agent, "", &log.file) };
            one.intern(MAIN);
            found.push(Builder::new(one));
            heard = 0;
            continue;
        }
        let Some(builder) = found.last_mut() else { continue };
        builder.log.lines.read += 1;
        if let Some(words) = text.strip_prefix("#### ") {
            heard += words.len() as u64;
        } else if let Some(said) = text.strip_prefix("> ") {
            if let Some(name) = model_of(said) {
                name.clone_into(&mut model);
            } else if let Some(tokens) = tokens_of(said) {
                let (main, model) = (builder.log.intern(MAIN), builder.log.intern(&model));
                builder.heard(main, at_ms, std::mem::take(&mut heard));
                builder.call(Call { line: number, chain: main, model, end_ms: at_ms, tokens, ..Call::default() });
            }
        }
    }
    found.into_iter().map(|builder| builder.log).collect()
}

/// `2026-01-02 10:11:12`, by the clock of the machine.
fn local_ms(text: &str) -> Option<i64> {
    let time: jiff::civil::DateTime = text.trim().replacen(' ', "T", 1).parse().ok()?;
    Some(time.to_zoned(jiff::tz::TimeZone::system()).ok()?.timestamp().as_millisecond())
}

/// `Main model: NAME with …`, `Model: NAME with …`.
fn model_of(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("Main model: ").or_else(|| line.strip_prefix("Model: "))?;
    rest.split_whitespace().next()
}

/// `Tokens: 3.2k sent, 2.5k cache write, 1.2k cache hit, 344 received. Cost: …`. What was sent contains what was written and read.
fn tokens_of(line: &str) -> Option<Tokens> {
    let counts = line.strip_prefix("Tokens: ")?;
    let counts = counts.split(". Cost").next().unwrap_or(counts).trim_end_matches('.');
    let (mut sent, mut tokens) = (None, Tokens::default());
    for count in counts.split(", ") {
        let (number, what) = count.trim().split_once(' ')?;
        let number = number_of(number)?;
        match what.trim() {
            "sent" => sent = Some(number),
            "cache write" => tokens.cache_write_5m = number,
            "cache hit" => tokens.cache_read = number,
            "received" => tokens.output = number,
            _ => return None,
        }
    }
    tokens.input = sent?.saturating_sub(tokens.cache_write_5m).saturating_sub(tokens.cache_read);
    Some(tokens)
}

/// `344`, `1,204`, `3.2k`, `12k`, `1.1M`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // held to its range first
fn number_of(text: &str) -> Option<u64> {
    let (digits, times) = match text.chars().last()? {
        'k' | 'K' => (&text[..text.len() - 1], 1e3),
        'm' | 'M' => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    let number: f64 = digits.replace(',', "").parse().ok()?;
    (number.is_finite() && (0.0..1e9).contains(&number)).then(|| (number * times).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        let check = |line: &str, expect: Option<[u64; 4]>| {
            let found = tokens_of(line).map(|t| [t.input, t.cache_write_5m, t.cache_read, t.output]);
            assert_eq!(found, expect, "{line}");
        };
        check(
            "Tokens: 3.2k sent, 2.5k cache write, 1.2k cache hit, 344 received. Cost: $0.01 message, $0.05 session.",
            Some([0, 2500, 1200, 344]),
        );
        check("Tokens: 12k sent, 1,204 received.", Some([12_000, 0, 0, 1204]));
        check("Tokens: 5.1k sent, 4k cache hit, 12 received. Cost: $0.0 message, $0.1 session.", Some([1100, 0, 4000, 12]));
        check("Tokens: many sent, 1 received.", None);
        check("Tokens: 1 received.", None);
    }
}
