//! Functions over texts.

use crate::evaluate::{Eval, Evaluator, MAX_TEXT, fault, place};
use crate::pattern::pattern;
use crate::render;
use crate::value::Value;

/// `None` where there is no such function for these values.
pub(super) fn call(evaluator: &Evaluator, name: &str, arguments: &[Value]) -> Option<Eval> {
    use Value::{List, Null, Number, Text};
    let e = evaluator;
    Some(match (name, arguments) {
        ("string", [value]) => render::text(e, value).and_then(|text| e.new_text(text)),
        ("display", [value]) => display(e, value).and_then(|text| e.new_text(text)),
        ("regextest" | "regexmatch", [Null, _] | [_, Null]) => Ok(false.into()),
        (
            "lower" | "upper" | "split" | "containsword" | "startswith" | "endswith" | "regexreplace" | "replace" | "padleft"
            | "padright" | "truncate" | "substring",
            arguments,
        ) if arguments.iter().any(Value::is_null) => Ok(Null),
        ("lower", [Text(text)]) => e.new_text(text.to_lowercase()),
        ("upper", [Text(text)]) => e.new_text(text.to_uppercase()),
        ("startswith", [Text(text), Text(start)]) => Ok(text.starts_with(&**start).into()),
        ("endswith", [Text(text), Text(end)]) => Ok(text.ends_with(&**end).into()),
        ("containsword", [Text(text), Text(word)]) => e.spend(text.len() / 16).map(|()| contains_word(text, word).into()),
        ("regextest", [Text(written), Text(text)]) => is_match(e, written, text),
        ("regexmatch", [Text(written), Text(text)]) => {
            let is_anchored = written.starts_with('^') || written.ends_with('$');
            if is_anchored { is_match(e, written, text) } else { is_match(e, &format!("^{written}$"), text) }
        }
        ("regexreplace", [Text(text), Text(written), Text(by)]) => {
            pattern(e, written).and_then(|pattern| pattern.replace(e, text, by)).and_then(|text| e.new_text(text))
        }
        ("replace", [Text(text), Text(part), Text(by)]) => replace(e, text, part, by),
        ("split", [Text(text), Text(at)]) => split(e, text, at, usize::MAX),
        ("split", [Text(text), Text(at), Number(most)]) => split(e, text, at, place(most.trunc()).unwrap_or(usize::MAX)),
        ("join", [List(list)] | [List(list), Null]) => join(e, &list.items, ", "),
        ("join", [List(list), Text(between)]) => join(e, &list.items, between),
        ("join", [value] | [value, Text(_)]) => render::text(e, value).and_then(|text| e.new_text(text)),
        ("padleft" | "padright", [Text(text), Number(length)]) => pad(e, name, text, *length, " "),
        ("padleft" | "padright", [Text(text), Number(length), Text(with)]) => pad(e, name, text, *length, with),
        ("truncate", [Text(text), Number(length)]) => truncate(e, text, *length, "..."),
        ("truncate", [Text(text), Number(length), Text(end)]) => truncate(e, text, *length, end),
        ("substring", [Text(text), Number(start)]) => substring(e, text, *start, f64::INFINITY),
        ("substring", [Text(text), Number(start), Number(end)]) => substring(e, text, *start, *end),
        _ => return None,
    })
}

/// The text of a value without the marks of its links.
fn display(evaluator: &Evaluator, value: &Value) -> Eval<String> {
    match value {
        Value::Link(link) => Ok(link.shown()),
        Value::List(list) => Ok(list.items.iter().map(|item| display(evaluator, item)).collect::<Eval<Vec<_>>>()?.join(", ")),
        _ => render::text(evaluator, value),
    }
}

fn is_match(evaluator: &Evaluator, written: &str, text: &str) -> Eval {
    Ok(pattern(evaluator, written)?.is_in(evaluator, text)?.into())
}

/// Whether `word` is in the text with no letter or digit right before or behind it.
fn contains_word(text: &str, word: &str) -> bool {
    let (text, word) = (text.to_lowercase(), word.to_lowercase());
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(&word).any(|(at, _)| {
        let (before, behind) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(is_letter) && !behind.starts_with(is_letter)
    })
}

fn replace(evaluator: &Evaluator, text: &str, part: &str, by: &str) -> Eval {
    evaluator.spend(text.len() / 16)?;
    if by.len() > part.len() && text.matches(part).count().saturating_mul(by.len()) > MAX_TEXT {
        return fault(format!("a text of more than {MAX_TEXT} bytes"));
    }
    evaluator.new_text(text.replace(part, by))
}

fn split(evaluator: &Evaluator, text: &str, at: &str, most: usize) -> Eval {
    let parts = pattern(evaluator, at)?.split(evaluator, text)?;
    evaluator.new_list(parts.into_iter().take(most).map(Value::text).collect())
}

fn join(evaluator: &Evaluator, items: &[Value], between: &str) -> Eval {
    let mut joined = String::new();
    for (at, item) in items.iter().enumerate() {
        joined.push_str(if at > 0 { between } else { "" });
        joined.push_str(&render::text(evaluator, item)?);
        if joined.len() > MAX_TEXT {
            return fault(format!("a text of more than {MAX_TEXT} bytes"));
        }
    }
    evaluator.new_text(joined)
}

fn pad(evaluator: &Evaluator, name: &str, text: &str, length: f64, with: &str) -> Eval {
    let length = place(length.max(0.0).trunc()).unwrap_or(usize::MAX);
    let missing = length.saturating_sub(text.chars().count());
    if missing > MAX_TEXT / 4 {
        return fault(format!("a text of more than {MAX_TEXT} bytes"));
    }
    let padding: String = with.chars().cycle().take(missing).collect();
    evaluator.new_text(if name == "padleft" { padding + text } else { text.to_owned() + &padding })
}

fn truncate(evaluator: &Evaluator, text: &str, length: f64, end: &str) -> Eval {
    let length = place(length.max(0.0).trunc()).unwrap_or(usize::MAX);
    if text.chars().count() <= length {
        return evaluator.new_text(text.to_owned());
    }
    let kept = length.saturating_sub(end.chars().count());
    evaluator.new_text(text.chars().take(kept).chain(end.chars()).collect())
}

/// As in JavaScript: bounds are kept inside the text, and swapped where they stand the wrong way round.
fn substring(evaluator: &Evaluator, text: &str, start: f64, end: f64) -> Eval {
    let at = |number: f64| if number > 0.0 { place(number.trunc()).unwrap_or(usize::MAX) } else { 0 };
    let (start, end) = (at(start.min(end)), at(start.max(end)));
    evaluator.new_text(text.chars().skip(start).take(end.saturating_sub(start)).collect())
}
