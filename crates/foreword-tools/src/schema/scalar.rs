//! What a schema says about one value by itself, and how values are named in messages.

use serde_json::{Map, Number, Value};

use super::MAX_LISTED;

/// The longest part of a value that a message shows, in characters.
const SHOWN: usize = 80;

/// `type`, `enum` and `const`.
pub(super) fn kind(rules: &Map<String, Value>, value: &Value) -> Option<String> {
    let kinds: Vec<&str> = match rules.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !kinds.is_empty() && !kinds.iter().any(|kind| is(value, kind)) {
        let kinds: Vec<_> = kinds.iter().map(|kind| article(kind)).collect();
        return Some(format!("found {}, expected {}", describe(value), kinds.join(" or ")));
    }
    let allowed = match (rules.get("enum"), rules.get("const")) {
        (Some(Value::Array(allowed)), _) => allowed.as_slice(),
        (_, Some(only)) => std::slice::from_ref(only),
        _ => return None,
    };
    let fits = allowed.iter().any(|one| same(one, value));
    (!fits).then(|| format!("found {}, allowed are {}", describe(value), list(allowed.iter().map(short))))
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => true,
    }
}

/// 1 and 1.0 are one number.
fn same(a: &Value, b: &Value) -> bool {
    a == b || (a.is_number() && b.is_number() && a.as_f64() == b.as_f64())
}

/// What a number does not keep to.
pub(super) fn number(rules: &Map<String, Value>, number: &Number) -> Option<String> {
    let found = number.as_f64()?;
    let limit = |word: &str| rules.get(word).and_then(Value::as_f64);
    // Draft 4 wrote `exclusiveMinimum: true` beside a minimum.
    let strict = |word: &str| rules.get(word) == Some(&Value::Bool(true));
    let checks = [
        ("minimum", "at least", limit("minimum").filter(|least| found < *least)),
        ("minimum", "more than", limit("minimum").filter(|least| strict("exclusiveMinimum") && found <= *least)),
        ("exclusiveMinimum", "more than", limit("exclusiveMinimum").filter(|least| found <= *least)),
        ("maximum", "at most", limit("maximum").filter(|most| found > *most)),
        ("maximum", "less than", limit("maximum").filter(|most| strict("exclusiveMaximum") && found >= *most)),
        ("exclusiveMaximum", "less than", limit("exclusiveMaximum").filter(|most| found >= *most)),
        ("multipleOf", "a multiple of", limit("multipleOf").filter(|step| *step > 0.0 && !is_multiple(found, *step))),
    ];
    let told = |(word, relation, missed): (&str, &str, Option<f64>)| {
        missed.and(rules.get(word)).map(|limit| format!("found {number}, expected {relation} {limit}"))
    };
    checks.into_iter().find_map(told)
}

fn is_multiple(number: f64, step: f64) -> bool {
    let times = number / step;
    (times - times.round()).abs() <= 1e-9 * times.abs().max(1.0)
}

/// How many there must and may be.
pub(super) fn count(rules: &Map<String, Value>, min: &str, max: &str, found: usize, what: &str) -> Option<String> {
    let limit = |word: &str| rules.get(word).and_then(Value::as_f64);
    let least = limit(min).filter(|least| (found as f64) < *least).map(|least| format!("at least {least}"));
    let bound = least.or_else(|| limit(max).filter(|most| found as f64 > *most).map(|most| format!("at most {most}")))?;
    Some(format!("found {found} {what}, expected {bound}"))
}

/// A value as a message names it.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::String(text) => format!("the string {:?}", cut(text)),
        Value::Number(number) => format!("the number {number}"),
        Value::Array(elements) => format!("an array of {}", elements.len()),
        Value::Object(object) if object.is_empty() => "an empty object".to_owned(),
        Value::Object(object) => format!("an object with {}", list(object.keys().map(|key| format!("{:?}", cut(key))))),
        Value::Null | Value::Bool(_) => value.to_string(),
    }
}

fn short(value: &Value) -> String {
    cut(&value.to_string())
}

/// The start of a text where it is long.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// `a, b, c and 4 more`
pub(super) fn list(names: impl IntoIterator<Item = String>) -> String {
    let mut names = names.into_iter();
    let listed = names.by_ref().take(MAX_LISTED).collect::<Vec<_>>().join(", ");
    match names.count() {
        0 if listed.is_empty() => "none".to_owned(),
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

fn article(kind: &str) -> String {
    match kind {
        "null" => "null".to_owned(),
        "object" | "array" | "integer" => format!("an {kind}"),
        _ => format!("a {}", cut(kind)),
    }
}
