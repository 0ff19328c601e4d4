//! Functions over lists, numbers and whatever else.

use std::rc::Rc;

use crate::evaluate::{self, Eval, Evaluator, fault, place};
use crate::operators::apply;
use crate::syntax::Op;
use crate::value::{Base, Link, Object, Value, count};

/// `None` where there is no such function for these values.
pub(super) fn call(evaluator: &Evaluator, name: &str, arguments: &[Value]) -> Option<Eval> {
    use Value::{List, Null, Number, Object as Fields, Text};
    let e = evaluator;
    Some(match (name, arguments) {
        ("list" | "array", items) => e.new_list(items.to_vec()),
        ("object", pairs) => object(pairs),
        ("length", [List(list)]) => Ok(count(list.items.len())),
        ("length", [Fields(object)]) => Ok(count(object.added.len() + e.notes.names(&object.base).len())),
        ("length", [Text(text)]) => Ok(count(text.encode_utf16().count())),
        ("length", [Null]) => Ok(count(0)),
        ("reverse", [List(list)]) => e.new_list(list.items.iter().rev().cloned().collect()),
        ("reverse", [Text(text)]) => e.new_text(text.chars().rev().collect()),
        ("sort", [List(list)]) => evaluate::sort(list.items.clone(), &|a, b| e.compare(a, b)).and_then(|items| e.new_list(items)),
        ("unique", [List(list)]) => unique(e, &list.items),
        ("sum", [List(list)]) => reduce(e, &list.items, Op::Plus),
        ("product", [List(list)]) => reduce(e, &list.items, Op::Times),
        ("average", [List(list)]) if list.items.is_empty() => Ok(Null),
        ("average", [List(list)]) => {
            reduce(e, &list.items, Op::Plus).and_then(|sum| apply(e, Op::Over, &sum, &count(list.items.len())))
        }
        ("reverse" | "sort" | "unique" | "sum" | "product" | "average", [other]) => Ok(other.clone()),
        ("reduce", [Null, _] | [_, Null])
        | ("filter" | "map", [Null, _])
        | ("firstvalue", [Null])
        | ("flat" | "slice", [Null, ..]) => Ok(Null),
        ("reduce", [List(list), Text(sign)]) => match operator(sign) {
            Some(op) => reduce(e, &list.items, op),
            None => fault(format!("`reduce` knows + - * / & |, not `{sign}`")),
        },
        ("min" | "max", [List(list)]) => extreme(e, name, &list.items),
        ("min" | "max", values) => extreme(e, name, values),
        ("any", [List(list)]) => Ok(list.items.iter().any(Value::is_true).into()),
        ("all", [List(list)]) => Ok(list.items.iter().all(Value::is_true).into()),
        ("none", [List(list)]) => Ok((!list.items.iter().any(Value::is_true)).into()),
        ("any", values) => Ok(values.iter().any(Value::is_true).into()),
        ("all", values) => Ok(values.iter().all(Value::is_true).into()),
        ("none", values) => Ok((!values.iter().any(Value::is_true)).into()),
        ("nonnull", [List(list)]) => e.new_list(list.items.iter().filter(|value| !value.is_null()).cloned().collect()),
        ("nonnull", values) => e.new_list(values.iter().filter(|value| !value.is_null()).cloned().collect()),
        ("firstvalue", [List(list)]) => Ok(list.items.iter().find(|value| !value.is_null()).cloned().unwrap_or(Null)),
        ("flat", [List(list)]) => flat(e, &list.items, 1),
        ("flat", [List(list), Number(depth)]) => flat(e, &list.items, place(depth.max(0.0).trunc()).unwrap_or(usize::MAX)),
        ("slice", [List(list), bounds @ ..]) => slice(e, &list.items, bounds)?,
        ("extract", [object, names @ ..]) => extract(e, object, names),
        ("default" | "ldefault", [value, other]) => Ok(if value.is_null() { other.clone() } else { value.clone() }),
        ("choice", [condition, yes, no]) => Ok(if condition.is_true() { yes.clone() } else { no.clone() }),
        ("typeof", [value]) => Ok(Value::text(value.kind())),
        ("meta", [Value::Link(link)]) => meta(link),
        ("contains" | "icontains" | "econtains", [value, wanted]) => contains(e, name, value, wanted).map(Value::from),
        _ => return number(name, arguments),
    })
}

fn number(name: &str, arguments: &[Value]) -> Option<Eval> {
    use Value::{Null, Number, Text};
    Some(Ok(match (name, arguments) {
        ("round" | "trunc" | "floor" | "ceil" | "number", [Null]) | ("round", [Null, _]) => Null,
        // Halves go up, as in JavaScript.
        ("round", [Number(number)] | [Number(number), Null]) => (number + 0.5).floor().into(),
        ("round", [Number(number), Number(places)]) if *places <= 0.0 => (number + 0.5).floor().into(),
        ("round", [Number(number), Number(places)]) => {
            let places = place(places.trunc().min(100.0)).unwrap_or(0);
            format!("{number:.places$}").parse::<f64>().map_or(Null, Value::from)
        }
        ("trunc", [Number(number)]) => number.trunc().into(),
        ("floor", [Number(number)]) => number.floor().into(),
        ("ceil", [Number(number)]) => number.ceil().into(),
        ("number", [Number(number)]) => (*number).into(),
        ("number", [Text(text)]) => first_number(text).map_or(Null, Value::from),
        _ => return None,
    }))
}

/// The first number in a text.
fn first_number(text: &str) -> Option<f64> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let start = if text[..start].ends_with('-') { start - 1 } else { start };
    crate::cursor::Cursor::new(&text[start..]).take_number()
}

fn object(pairs: &[Value]) -> Eval {
    let mut fields: Vec<(Rc<str>, Value)> = Vec::new();
    for pair in pairs.chunks(2) {
        let [Value::Text(name), value] = pair else { return fault("`object` takes names and values in turn") };
        fields.retain(|(other, _)| other != name);
        fields.push((name.clone(), value.clone()));
    }
    Ok(Value::Object(Rc::new(Object::new(Base::Nothing, fields)?)))
}

fn extract(evaluator: &Evaluator, object: &Value, names: &[Value]) -> Eval {
    if let Value::List(list) = object {
        let items = list.items.iter().map(|item| extract(evaluator, item, names)).collect::<Eval<Vec<_>>>()?;
        return evaluator.new_list(items);
    }
    let mut fields: Vec<(Rc<str>, Value)> = Vec::new();
    for name in names {
        let Value::Text(key) = name else { return fault("`extract` takes names of fields") };
        fields.push((key.clone(), evaluator.index(object, name)?));
    }
    Ok(Value::Object(Rc::new(Object::new(Base::Nothing, fields)?)))
}

fn meta(link: &Link) -> Eval {
    let text = |text: Option<&str>| text.map_or(Value::Null, Value::text);
    let fields = vec![
        (Rc::from("display"), text(link.text.as_deref())),
        (Rc::from("embed"), link.embed.into()),
        (Rc::from("path"), Value::Text(link.path.clone())),
        (Rc::from("subpath"), text(link.part.as_deref().map(|part| part.trim_start_matches('^')))),
        (Rc::from("type"), Value::text(link.kind())),
    ];
    Ok(Value::Object(Rc::new(Object::new(Base::Nothing, fields)?)))
}

fn operator(sign: &str) -> Option<Op> {
    Some(match sign {
        "+" => Op::Plus,
        "-" => Op::Minus,
        "*" => Op::Times,
        "/" => Op::Over,
        "&" => Op::And,
        "|" => Op::Or,
        _ => return None,
    })
}

/// Values that are not there do not count.
fn reduce(evaluator: &Evaluator, items: &[Value], op: Op) -> Eval {
    let mut items = items.iter().filter(|item| !item.is_null());
    let Some(first) = items.next() else { return Ok(Value::Null) };
    items.try_fold(first.clone(), |sum, item| apply(evaluator, op, &sum, item))
}

fn extreme(evaluator: &Evaluator, name: &str, values: &[Value]) -> Eval {
    let mut best = Value::Null;
    for value in values.iter().filter(|value| !value.is_null()) {
        let order = evaluator.compare(value, &best)?;
        if best.is_null() || (name == "min" && order.is_lt()) || (name == "max" && order.is_gt()) {
            best = value.clone();
        }
    }
    Ok(best)
}

/// Each value once, in the order they first come.
fn unique(evaluator: &Evaluator, items: &[Value]) -> Eval {
    let numbered: Vec<(usize, Value)> = items.iter().cloned().enumerate().collect();
    let sorted = evaluate::sort(numbered, &|(_, a), (_, b)| evaluator.compare(a, b))?;
    let mut kept: Vec<(usize, Value)> = Vec::new();
    for (at, value) in sorted {
        let is_known = match kept.last() {
            Some((_, last)) => evaluator.compare(last, &value)?.is_eq(),
            None => false,
        };
        if !is_known {
            kept.push((at, value));
        }
    }
    kept.sort_unstable_by_key(|(at, _)| *at);
    evaluator.new_list(kept.into_iter().map(|(_, value)| value).collect())
}

fn flat(evaluator: &Evaluator, items: &[Value], depth: usize) -> Eval {
    let mut all = Vec::new();
    flatten_into(evaluator, items, depth, &mut all)?;
    evaluator.new_list(all)
}

fn flatten_into(evaluator: &Evaluator, items: &[Value], depth: usize, all: &mut Vec<Value>) -> Eval<()> {
    for item in items {
        evaluator.spend(1)?;
        match item {
            Value::List(list) if depth > 0 => flatten_into(evaluator, &list.items, depth - 1, all)?,
            _ => all.push(item.clone()),
        }
    }
    Ok(())
}

/// Places below zero count from the end. `None` where a bound is no number.
fn slice(evaluator: &Evaluator, items: &[Value], bounds: &[Value]) -> Option<Eval> {
    let bound = |value: &Value| match value {
        Value::Number(number) if *number < 0.0 => Some(items.len().saturating_sub(place(-number.trunc()).unwrap_or(usize::MAX))),
        Value::Number(number) => Some(place(number.trunc()).unwrap_or(usize::MAX).min(items.len())),
        _ => None,
    };
    let (start, end) = match bounds {
        [] => (0, items.len()),
        [start] => (bound(start)?, items.len()),
        [start, end] => (bound(start)?, bound(end)?),
        _ => return None,
    };
    Some(evaluator.new_list(items.get(start..end).unwrap_or_default().to_vec()))
}

/// Whether a value is in another; `econtains` does not look into the items of a list, `icontains` does not mind the case.
fn contains(evaluator: &Evaluator, name: &str, value: &Value, wanted: &Value) -> Eval<bool> {
    evaluator.spend(1)?;
    Ok(match (value, wanted) {
        (Value::List(list), _) => {
            for item in &list.items {
                let found = match name {
                    "econtains" => evaluator.compare(item, wanted)?.is_eq(),
                    _ => contains(evaluator, name, item, wanted)?,
                };
                if found {
                    return Ok(true);
                }
            }
            false
        }
        (Value::Text(text), Value::Text(part)) => {
            evaluator.spend(text.len() / 64)?;
            if name == "icontains" { text.to_lowercase().contains(&part.to_lowercase()) } else { text.contains(&**part) }
        }
        (Value::Object(object), Value::Text(name)) => evaluator.object_field(object, name).is_some(),
        _ => evaluator.compare(value, wanted)?.is_eq(),
    })
}
