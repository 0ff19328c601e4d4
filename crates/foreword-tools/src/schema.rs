//! Checks arguments against a tool's JSON schema, with messages that help a model to correct them.
//!
//! This is our own validator because schemas are untrusted: steps and depth are limited, nothing is fetched, and each message names
//! the position, the value and what is allowed. It supports the keywords that tool schemas use (2020-12 and older drafts) and
//! ignores unknown ones.

mod reference;
mod scalar;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

use regex_automata::meta::Regex;
use serde_json::{Map, Value};

use crate::pattern;

/// The largest number of errors; models fix a few at a time.
const MAX_MISFITS: usize = 8;

/// The largest number of schema applications in one check, and their deepest nesting.
const MAX_STEPS: u32 = 200_000;
const MAX_DEPTH: u32 = 100;

/// The largest number of patterns per check.
const MAX_PATTERNS: usize = 50;

/// The largest number of names or values in a message.
const MAX_LISTED: usize = 20;

/// The errors, one per line, with JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Misfits(pub Vec<String>);

/// Checks the arguments of a call, which are always an object.
pub fn check(schema: &Value, arguments: &Value) -> Result<(), Misfits> {
    let mut walk = Walk { root: schema, steps: MAX_STEPS, patterns: BTreeMap::new(), found: Vec::new() };
    if arguments.is_object() {
        walk.visit(schema, arguments, &At::Top, 0);
    } else {
        walk.misfit(&At::Top, format!("found {}, expected an object", scalar::describe(arguments)));
    }
    if walk.found.is_empty() { Ok(()) } else { Err(Misfits(walk.found)) }
}

/// A position in the arguments.
#[derive(Clone, Copy)]
enum At<'a> {
    Top,
    Key(&'a At<'a>, &'a str),
    Index(&'a At<'a>, usize),
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top => Ok(()),
            Self::Key(parent, key) => write!(f, "{parent}/{}", scalar::cut(&key.replace('~', "~0").replace('/', "~1"))),
            Self::Index(parent, index) => write!(f, "{parent}/{index}"),
        }
    }
}

struct Walk<'s> {
    root: &'s Value,
    steps: u32,
    patterns: BTreeMap<&'s str, Option<Rc<Regex>>>,
    found: Vec<String>,
}

impl<'s> Walk<'s> {
    fn misfit(&mut self, at: &At<'_>, text: impl fmt::Display) {
        if self.found.len() < MAX_MISFITS {
            let place = if matches!(at, At::Top) { "arguments".to_owned() } else { at.to_string() };
            self.found.push(format!("{place}: {text}"));
        }
    }

    fn visit(&mut self, schema: &'s Value, value: &Value, at: &At<'_>, depth: u32) {
        if self.found.len() >= MAX_MISFITS {
            return;
        }
        self.steps = self.steps.saturating_sub(1);
        if self.steps == 0 || depth > MAX_DEPTH {
            return self.misfit(at, "too large or too deep to be checked; send less");
        }
        let rules = match schema {
            Value::Bool(false) => return self.misfit(at, "nothing is allowed here"),
            Value::Object(rules) => rules,
            _ => return,
        };
        if value.is_null() && rules.get("nullable") == Some(&Value::Bool(true)) {
            return;
        }
        if let Some(problem) = scalar::kind(rules, value) {
            // One word on a wrong kind; what else holds for the right kind would only distract.
            return self.misfit(at, problem);
        }
        if let Some(target) = rules.get("$ref").and_then(|target| reference::resolve(self.root, target)) {
            self.visit(target, value, at, depth + 1);
        }
        match value {
            Value::Object(object) => self.object(rules, object, at, depth),
            Value::Array(array) => self.array(rules, array, at, depth),
            Value::String(text) => self.text(rules, text, at),
            Value::Number(number) => {
                if let Some(problem) = scalar::number(rules, number) {
                    self.misfit(at, problem);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
        self.combined(rules, value, at, depth);
    }

    fn text(&mut self, rules: &'s Map<String, Value>, text: &str, at: &At<'_>) {
        if let Some(problem) = scalar::count(rules, "minLength", "maxLength", text.chars().count(), "characters") {
            self.misfit(at, problem);
        }
        if let Some(written) = rules.get("pattern").and_then(Value::as_str)
            && self.pattern(written).is_some_and(|regex| !regex.is_match(text))
        {
            self.misfit(at, format!("the string {:?} does not match the pattern {}", scalar::cut(text), scalar::cut(written)));
        }
    }

    /// Compiles a pattern once. An unsupported pattern or one too many accepts everything.
    fn pattern(&mut self, written: &'s str) -> Option<Rc<Regex>> {
        if self.patterns.len() >= MAX_PATTERNS && !self.patterns.contains_key(written) {
            return None;
        }
        self.patterns.entry(written).or_insert_with(|| pattern::compile(written).ok().map(Rc::new)).clone()
    }

    fn object(&mut self, rules: &'s Map<String, Value>, object: &Map<String, Value>, at: &At<'_>, depth: u32) {
        let properties = rules.get("properties").and_then(Value::as_object);
        self.present(rules, object, at);
        let patterns = rules.get("patternProperties").and_then(Value::as_object).into_iter().flatten();
        let patterns: Vec<_> = patterns.filter_map(|(written, schema)| Some((self.pattern(written)?, schema))).collect();
        for (key, value) in object {
            let here = At::Key(at, key);
            if let Some(schema) = rules.get("propertyNames") {
                self.visit(schema, &Value::String(key.clone()), &here, depth + 1);
            }
            let named = properties.and_then(|properties| properties.get(key));
            let by_pattern: Vec<_> =
                patterns.iter().filter(|(regex, _)| regex.is_match(key.as_str())).map(|(_, schema)| *schema).collect();
            for schema in named.into_iter().chain(by_pattern.iter().copied()) {
                self.visit(schema, value, &here, depth + 1);
            }
            if named.is_none() && by_pattern.is_empty() {
                match rules.get("additionalProperties") {
                    Some(Value::Bool(false)) => {
                        let known = properties.into_iter().flatten().map(|(name, _)| format!("{name:?}"));
                        self.misfit(&here, format!("there is no such property; allowed are {}", scalar::list(known)));
                    }
                    Some(schema) => self.visit(schema, value, &here, depth + 1),
                    None => {}
                }
            }
        }
    }

    /// Checks required properties and their number.
    fn present(&mut self, rules: &Map<String, Value>, object: &Map<String, Value>, at: &At<'_>) {
        let missing = |names: &Value| -> Vec<String> {
            let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
            names.filter(|name| !object.contains_key(*name)).map(|name| format!("{name:?}")).collect()
        };
        if let Some(required) = rules.get("required") {
            let missing = missing(required);
            if !missing.is_empty() {
                self.misfit(at, format!("required and missing: {}", scalar::list(missing)));
            }
        }
        for (key, required) in rules.get("dependentRequired").and_then(Value::as_object).into_iter().flatten() {
            let missing = if object.contains_key(key) { missing(required) } else { Vec::new() };
            if !missing.is_empty() {
                self.misfit(at, format!("required beside {key:?} and missing: {}", scalar::list(missing)));
            }
        }
        if let Some(problem) = scalar::count(rules, "minProperties", "maxProperties", object.len(), "properties") {
            self.misfit(at, problem);
        }
    }

    fn array(&mut self, rules: &'s Map<String, Value>, array: &[Value], at: &At<'_>, depth: u32) {
        if let Some(problem) = scalar::count(rules, "minItems", "maxItems", array.len(), "elements") {
            self.misfit(at, problem);
        }
        // Draft 7 wrote a tuple as an array under `items`, and the rest of it as `additionalItems`.
        let (tuple, rest) = match rules.get("items") {
            Some(Value::Array(tuple)) => (Some(tuple), rules.get("additionalItems")),
            items => (rules.get("prefixItems").and_then(Value::as_array), items),
        };
        for (index, value) in array.iter().enumerate() {
            if let Some(schema) = tuple.and_then(|tuple| tuple.get(index)).or(rest) {
                self.visit(schema, value, &At::Index(at, index), depth + 1);
            }
        }
        if rules.get("uniqueItems") == Some(&Value::Bool(true)) {
            let mut seen = BTreeSet::new();
            for (index, value) in array.iter().enumerate() {
                if !seen.insert(foreword_core::json::to_string(value)) {
                    self.misfit(&At::Index(at, index), "stands there twice; each element may stand there once");
                }
            }
        }
        if let Some(schema) = rules.get("contains")
            && !array.iter().any(|value| self.tried(schema, value, at, depth).is_empty())
        {
            self.misfit(at, "has no element of the kind it must contain");
        }
    }

    /// `allOf`, `anyOf`, `oneOf`, `not`, `if`, `dependentSchemas`.
    fn combined(&mut self, rules: &'s Map<String, Value>, value: &Value, at: &At<'_>, depth: u32) {
        let branches = |word: &str| rules.get(word).and_then(Value::as_array);
        for schema in branches("allOf").into_iter().flatten() {
            self.visit(schema, value, at, depth + 1);
        }
        for word in ["anyOf", "oneOf"] {
            let Some(schemas) = branches(word) else { continue };
            let tried: Vec<_> = schemas.iter().map(|schema| self.tried(schema, value, at, depth)).collect();
            let fitting = tried.iter().filter(|found| found.is_empty()).count();
            if fitting == 0 {
                let reasons = tried.iter().filter_map(|found| found.first()).map(|reason| format!("({reason})"));
                self.misfit(at, format!("fits none of {} alternatives: {}", schemas.len(), scalar::list(reasons)));
            } else if fitting > 1 && word == "oneOf" {
                self.misfit(at, format!("fits {fitting} of {} alternatives, and exactly one is allowed", schemas.len()));
            }
        }
        if let Some(schema) = rules.get("not")
            && self.tried(schema, value, at, depth).is_empty()
        {
            self.misfit(at, format!("{} is not allowed here", scalar::describe(value)));
        }
        if let Some(schema) = rules.get("if") {
            let branch = if self.tried(schema, value, at, depth).is_empty() { "then" } else { "else" };
            if let Some(schema) = rules.get(branch) {
                self.visit(schema, value, at, depth + 1);
            }
        }
        for (key, schema) in rules.get("dependentSchemas").and_then(Value::as_object).into_iter().flatten() {
            if value.get(key).is_some() {
                self.visit(schema, value, at, depth + 1);
            }
        }
    }

    /// The errors under `schema`.
    fn tried(&mut self, schema: &'s Value, value: &Value, at: &At<'_>, depth: u32) -> Vec<String> {
        let before = std::mem::take(&mut self.found);
        self.visit(schema, value, at, depth + 1);
        std::mem::replace(&mut self.found, before)
    }
}
