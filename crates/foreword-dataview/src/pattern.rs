//! Regular expressions in functions. The engine takes time linear in the text whatever the pattern; JavaScript's look-around and
//! back references are not among what it knows.

use std::rc::Rc;

use regex_automata::meta::Regex;

use super::Unanswered;
use super::evaluate::{Eval, Evaluator, Fault, MAX_TEXT, fault};

/// A pattern, ready for use.
pub(super) struct Pattern(Regex);

impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pattern")
    }
}

/// The pattern that `written` says; each is made ready once.
pub(super) fn pattern(evaluator: &Evaluator, written: &str) -> Eval<Rc<Pattern>> {
    const MAX_KEPT: usize = 64;
    const MAX_SIZE: usize = 1 << 20;
    if let Some(known) = evaluator.patterns.borrow().get(written) {
        return Ok(known.clone());
    }
    evaluator.spend(1000 + written.len() * 50)?;
    let config =
        Regex::config().nfa_size_limit(Some(MAX_SIZE)).onepass_size_limit(Some(MAX_SIZE)).hybrid_cache_capacity(MAX_SIZE);
    let syntax = regex_automata::util::syntax::Config::new().nest_limit(50);
    let Ok(regex) = Regex::builder().configure(config).syntax(syntax).build(written) else {
        return Err(Fault::Stop(Unanswered::Unsupported { what: format!("the pattern `{written}`") }));
    };
    let made = Rc::new(Pattern(regex));
    let mut kept = evaluator.patterns.borrow_mut();
    if kept.len() >= MAX_KEPT {
        kept.clear();
    }
    kept.insert(written.to_owned(), made.clone());
    Ok(made)
}

impl Pattern {
    pub(super) fn is_in(&self, evaluator: &Evaluator, text: &str) -> Eval<bool> {
        evaluator.spend(1 + text.len() / 16)?;
        Ok(self.0.is_match(text))
    }

    /// The parts of `text` between matches; like JavaScript, no empty match at either end.
    pub(super) fn split<'t>(&self, evaluator: &Evaluator, text: &'t str) -> Eval<Vec<&'t str>> {
        evaluator.spend(1 + text.len() / 16)?;
        if text.is_empty() {
            return Ok(if self.0.is_match(text) { Vec::new() } else { vec![text] });
        }
        let mut parts = Vec::new();
        let mut start = 0;
        for found in self.0.find_iter(text).filter(|found| found.end() > 0 && found.start() < text.len()) {
            evaluator.spend(1)?;
            parts.extend(text.get(start..found.start()));
            start = found.end();
        }
        parts.extend(text.get(start..));
        Ok(parts)
    }

    /// `text` with each match replaced; `$1` to `$99`, `$&` and `$$` mean what they do in JavaScript.
    pub(super) fn replace(&self, evaluator: &Evaluator, text: &str, by: &str) -> Eval<String> {
        let mut result = String::new();
        let mut start = 0;
        for found in self.0.captures_iter(text) {
            let Some(all) = found.get_match() else { continue };
            evaluator.spend(1 + (by.len() + all.len()) / 16)?;
            result.push_str(text.get(start..all.start()).unwrap_or_default());
            let group = |at: usize| found.get_group(at).and_then(|span| text.get(span.start..span.end)).unwrap_or_default();
            expand(by, self.0.group_info().group_len(regex_automata::PatternID::ZERO), group, &mut result);
            start = all.end();
            if result.len() > MAX_TEXT {
                return fault(format!("a text of more than {MAX_TEXT} bytes"));
            }
        }
        result.push_str(text.get(start..).unwrap_or_default());
        Ok(result)
    }
}

fn expand<'t>(by: &str, groups: usize, group: impl Fn(usize) -> &'t str, result: &mut String) {
    let mut rest = by;
    while let Some(at) = rest.find('$') {
        result.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let digits = behind.bytes().take(2).take_while(u8::is_ascii_digit).count();
        let number = (1..=digits)
            .rev()
            .find_map(|len| Some((behind[..len].parse::<usize>().ok().filter(|at| (1..groups).contains(at))?, len)));
        let (text, len) = match (number, behind.as_bytes().first()) {
            (Some((at, len)), _) => (group(at), len),
            (None, Some(b'&')) => (group(0), 1),
            (None, Some(b'$')) => ("$", 1),
            _ => ("$", 0),
        };
        result.push_str(text);
        rest = &behind[len..];
    }
    result.push_str(rest);
}
