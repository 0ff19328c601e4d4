//! The functions of the query language: which there are, which of their arguments may be lists instead, and how they are called.

mod lambda;
mod list;
mod text;
mod time;

use super::evaluate::{Eval, Evaluator, Scope, fault};
use super::syntax::Lambda;
use super::value::Value;

/// A function that queries can call.
#[derive(Debug)]
pub(super) struct Function {
    name: &'static str,
    body: fn(&Evaluator, &str, &[Value]) -> Option<Eval>,
    /// For a number of arguments, the places where a list means: once for each of its items.
    spread: &'static [(usize, &'static [usize])],
}

impl Function {
    /// Whether its value depends on the note that the query stands in, because it looks up a link.
    pub(super) fn needs_this(&self) -> bool {
        self.name == "link"
    }
}

/// The function of that name.
pub(super) fn named(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

/// Calls a function.
pub(super) fn call(evaluator: &Evaluator, function: &Function, arguments: &[Value]) -> Eval {
    evaluator.spend(1)?;
    let spread =
        function.spread.iter().find(|(count, _)| *count == arguments.len()).map_or(&[] as &[usize], |(_, places)| places);
    let lists = spread.iter().filter_map(|place| match arguments.get(*place) {
        Some(Value::List(list)) => Some((*place, list)),
        _ => None,
    });
    let lists: Vec<_> = lists.collect();
    let Some(shortest) = lists.iter().map(|(_, list)| list.items.len()).min() else {
        return (function.body)(evaluator, function.name, arguments).unwrap_or_else(|| refuse(function, arguments));
    };
    let mut results = Vec::with_capacity(shortest);
    let mut one = arguments.to_vec();
    for at in 0..shortest {
        for (place, list) in &lists {
            one[*place] = list.items[at].clone();
        }
        results.push(call(evaluator, function, &one)?);
    }
    evaluator.new_list(results)
}

/// Calls a function whose second argument is a lambda.
pub(super) fn call_with(evaluator: &Evaluator, function: &Function, list: &Value, lambda: &Lambda, scope: &Scope) -> Eval {
    lambda::call(evaluator, function.name, list, lambda, scope)
        .unwrap_or_else(|| fault(format!("`{}` takes no `=>` with a {}", function.name, list.kind())))
}

fn refuse(function: &Function, arguments: &[Value]) -> Eval {
    let kinds: Vec<&str> = arguments.iter().map(Value::kind).collect();
    fault(format!("`{}` cannot be called with ({})", function.name, kinds.join(", ")))
}

type Spread = &'static [(usize, &'static [usize])];

const NONE: Spread = &[];
const FIRST_OF_1: Spread = &[(1, &[0])];
const FIRST_OF_2: Spread = &[(2, &[0])];
const FIRST_OF_3: Spread = &[(3, &[0])];
const SECOND_OF_2: Spread = &[(2, &[1])];
const FIRST: Spread = &[(1, &[0]), (2, &[0])];
const BOTH: Spread = &[(2, &[0, 1])];
const ALL_OF_3: Spread = &[(3, &[0, 1, 2])];
const ALL: Spread = &[(1, &[0]), (2, &[0, 1]), (3, &[0, 1, 2])];

macro_rules! functions {
    ($($module:ident $spread:ident: $($name:literal)+;)+) => {
        /// All functions.
        const FUNCTIONS: &[Function] = &[$($(Function { name: $name, body: $module::call, spread: $spread },)+)+];
    };
}

functions! {
    list NONE: "list" "array" "object" "length" "reverse" "sort" "min" "max" "minby" "maxby" "sum" "product" "average" "any" "all" "none"
        "filter" "map" "nonnull" "firstvalue" "unique" "flat" "slice" "extract" "ldefault" "typeof" "meta";
    list SECOND_OF_2: "contains" "icontains" "econtains" "reduce";
    list BOTH: "default";
    list FIRST_OF_3: "choice";
    list FIRST: "round";
    list FIRST_OF_1: "trunc" "floor" "ceil" "number";
    text NONE: "string" "split" "display";
    text FIRST_OF_1: "lower" "upper";
    text BOTH: "containsword" "regextest" "regexmatch" "startswith" "endswith";
    text ALL_OF_3: "regexreplace" "replace";
    text ALL: "padleft" "padright" "truncate" "substring";
    text SECOND_OF_2: "join";
    time FIRST_OF_1: "dur" "striptime" "localtime";
    time FIRST: "date" "link" "elink" "embed";
    time FIRST_OF_2: "dateformat";
}
