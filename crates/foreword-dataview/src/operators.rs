//! What operators do with two values, by their types, and how texts are ordered.

use std::cmp::Ordering;
use std::rc::Rc;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::evaluate::{Eval, Evaluator, MAX_TEXT, fault, place};
use super::render::text;
use super::span::Span;
use super::syntax::Op;
use super::value::{Object, Value};

/// `left op right`
pub(super) fn apply(evaluator: &Evaluator, op: Op, left: &Value, right: &Value) -> Eval {
    let compare = || evaluator.compare(left, right);
    match op {
        Op::And => Ok((left.is_true() && right.is_true()).into()),
        Op::Or => Ok((left.is_true() || right.is_true()).into()),
        Op::Less => Ok(compare()?.is_lt().into()),
        Op::LessOrEqual => Ok(compare()?.is_le().into()),
        Op::Greater => Ok(compare()?.is_gt().into()),
        Op::GreaterOrEqual => Ok(compare()?.is_ge().into()),
        Op::Equal => Ok(compare()?.is_eq().into()),
        Op::NotEqual => Ok(compare()?.is_ne().into()),
        Op::Plus | Op::Minus | Op::Times | Op::Over | Op::Modulo => arithmetic(evaluator, op, left, right),
    }
}

fn arithmetic(evaluator: &Evaluator, op: Op, left: &Value, right: &Value) -> Eval {
    use Value::{Date, Duration, List, Null, Number, Object as Fields, Text};
    let moved = |date: jiff::civil::DateTime, span: Span| {
        span.after(date).map_or_else(|| fault("a date outside the calendar"), |date| Ok(Date(date)))
    };
    Ok(match (left, op, right) {
        (Number(a), Op::Plus, Number(b)) => (a + b).into(),
        (Number(a), Op::Minus, Number(b)) => (a - b).into(),
        (Number(a), Op::Times, Number(b)) => (a * b).into(),
        (Number(a), Op::Over, Number(b)) => (a / b).into(),
        (Number(a), Op::Modulo, Number(b)) => (a % b).into(),
        (Text(_), Op::Plus, _) | (_, Op::Plus, Text(_)) => {
            let joined = text(evaluator, left)? + &text(evaluator, right)?;
            return evaluator.new_text(joined);
        }
        (Text(word), Op::Times, Number(times)) | (Number(times), Op::Times, Text(word)) => {
            let times = place(times.max(0.0).trunc()).unwrap_or(usize::MAX);
            if word.len().saturating_mul(times) > MAX_TEXT {
                return fault(format!("a text of more than {MAX_TEXT} bytes"));
            }
            return evaluator.new_text(word.repeat(times));
        }
        (Date(a), Op::Minus, Date(b)) => match Span::between(*b, *a) {
            Some(span) => Duration(span),
            None => return fault("two dates too far apart"),
        },
        (Date(date), Op::Minus, Duration(span)) => return moved(*date, span.times(-1.0)),
        (Date(date), Op::Plus, Duration(span)) | (Duration(span), Op::Plus, Date(date)) => return moved(*date, *span),
        (Duration(a), Op::Plus, Duration(b)) => Duration(a.plus(*b)),
        (Duration(a), Op::Minus, Duration(b)) => Duration(a.plus(b.times(-1.0))),
        (Duration(span), Op::Over, Number(by)) => Duration(span.times(1.0 / by)),
        (Duration(span), Op::Times, Number(by)) | (Number(by), Op::Times, Duration(span)) => Duration(span.times(*by)),
        (List(a), Op::Plus, List(b)) => return evaluator.new_list(a.items.iter().chain(&b.items).cloned().collect()),
        (Fields(a), Op::Plus, Fields(b)) => {
            let kept = a.added.iter().filter(|(name, _)| !b.added.iter().any(|(other, _)| other == name));
            let fields = kept.chain(&b.added).cloned().collect();
            Fields(Rc::new(Object::new(a.base.clone(), fields)?))
        }
        (Null, _, Null) | (Date(_), Op::Plus | Op::Minus, Null) | (Null, Op::Plus | Op::Minus, Date(_)) => Null,
        _ => return fault(format!("`{}` cannot be used between {} and {}", op.sign(), left.kind(), right.kind())),
    })
}

/// The order people expect in a list of names: letters without regard to accents and case first, those only if all else is equal.
pub(super) fn compare_texts(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    if a.is_ascii() && b.is_ascii() {
        let folded = a.bytes().map(|byte| byte.to_ascii_lowercase()).cmp(b.bytes().map(|byte| byte.to_ascii_lowercase()));
        return folded.then_with(|| b.cmp(a));
    }
    let letters =
        |text: &'_ str| -> Vec<char> { text.nfd().filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase).collect() };
    letters(a).cmp(&letters(b)).then_with(|| b.nfd().cmp(a.nfd()))
}
