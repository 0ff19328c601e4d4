//! Functions that are given a function.

use crate::evaluate::{self, Eval, Evaluator, Scope};
use crate::syntax::Lambda;
use crate::value::Value;

/// `None` where there is no such function for that value.
pub(super) fn call(evaluator: &Evaluator, name: &str, list: &Value, lambda: &Lambda, scope: &Scope) -> Option<Eval> {
    let items = match (name, list) {
        ("map" | "filter" | "minby" | "maxby" | "reduce", Value::Null) => return Some(Ok(Value::Null)),
        (_, Value::List(list)) => &list.items,
        _ => return None,
    };
    let one = |item: &Value| evaluator.call_lambda(lambda, &[item], scope);
    Some(match name {
        "map" => items.iter().map(one).collect::<Eval<Vec<_>>>().and_then(|items| evaluator.new_list(items)),
        "filter" => filter(evaluator, items, one),
        "sort" => sort(evaluator, items, one),
        "any" => has(items, |item| Ok(one(item)?.is_true())).map(Value::from),
        "none" => has(items, |item| Ok(one(item)?.is_true())).map(|found| (!found).into()),
        "all" => has(items, |item| Ok(!one(item)?.is_true())).map(|found| (!found).into()),
        "minby" => extreme(evaluator, items, one, std::cmp::Ordering::Less),
        "maxby" => extreme(evaluator, items, one, std::cmp::Ordering::Greater),
        "reduce" => {
            let Some((first, rest)) = items.split_first() else { return Some(Ok(Value::Null)) };
            let rest = rest.iter().filter(|item| !item.is_null());
            rest.into_iter().try_fold(first.clone(), |sum, item| evaluator.call_lambda(lambda, &[&sum, item], scope))
        }
        _ => return None,
    })
}

fn has(items: &[Value], wanted: impl Fn(&Value) -> Eval<bool>) -> Eval<bool> {
    for item in items {
        if wanted(item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn filter(evaluator: &Evaluator, items: &[Value], one: impl Fn(&Value) -> Eval) -> Eval {
    let mut kept = Vec::new();
    for item in items {
        if one(item)?.is_true() {
            kept.push(item.clone());
        }
    }
    evaluator.new_list(kept)
}

fn sort(evaluator: &Evaluator, items: &[Value], one: impl Fn(&Value) -> Eval) -> Eval {
    let keyed = items.iter().map(|item| Ok((one(item)?, item.clone()))).collect::<Eval<Vec<_>>>()?;
    let sorted = evaluate::sort(keyed, &|(a, _), (b, _)| evaluator.compare(a, b))?;
    evaluator.new_list(sorted.into_iter().map(|(_, item)| item).collect())
}

/// The item with the least or greatest key; the first of several. Items without a key count only if none has one.
fn extreme(evaluator: &Evaluator, items: &[Value], one: impl Fn(&Value) -> Eval, wanted: std::cmp::Ordering) -> Eval {
    let mut best: Option<(Value, &Value)> = None;
    for item in items {
        let key = one(item)?;
        let is_better = match &best {
            None => true,
            Some((best, _)) => evaluator.compare(&key, best)? == wanted,
        };
        if is_better && !key.is_null() {
            best = Some((key, item));
        }
    }
    Ok(best.map(|(_, item)| item).or(items.first()).cloned().unwrap_or(Value::Null))
}
