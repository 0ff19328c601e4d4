//! Sets one value in a JSON file of another program and leaves every other byte as it is: comments, order, indentation, commas.

use std::ops::Range;

use serde_json::{Map, Value};

/// The deepest nesting that is read.
const MOST_DEPTH: usize = 128;

/// A member of an object, by its places in the text.
struct Member {
    key: String,
    value: Range<usize>,
    /// What the value means.
    meaning: Value,
}

/// An object, by its places in the text.
struct Object {
    members: Vec<Member>,
    /// Behind the last value and its comma, or behind the opening brace.
    end: usize,
    /// Whether a comma follows the last value.
    comma: bool,
    /// The closing brace.
    close: usize,
}

/// Sets the value at a path of keys. Objects on the way are made where they are missing. The result is checked: apart from this
/// value it means the same as before.
pub(super) fn set(text: &str, path: &[&str], value: &Value) -> Result<String, String> {
    let text = if text.trim().is_empty() { "{\n}\n" } else { text };
    let before = parse(text)?;
    let changed = changed(text, path, value)?;
    let mut expected = before;
    put(&mut expected, path, value);
    if parse(&changed)? != expected {
        return Err("the file cannot be changed safely".to_owned());
    }
    Ok(changed)
}

fn put(target: &mut Value, path: &[&str], value: &Value) {
    let Some((first, rest)) = path.split_first() else {
        *target = value.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(members) = target {
        put(members.entry(*first).or_insert(Value::Null), rest, value);
    }
}

fn changed(text: &str, path: &[&str], value: &Value) -> Result<String, String> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    reader.blank()?;
    let (mut indent, mut start) = (String::new(), reader.at);
    for (depth, key) in path.iter().enumerate() {
        let mut reader = Reader { text, at: start, depth: 0 };
        let object = reader.object().map_err(|error| format!("{error} (at {:?})", path[..depth].join(".")))?;
        let own = member_indent(text, &object).unwrap_or_else(|| format!("{indent}  "));
        let Some(member) = object.members.iter().rev().find(|member| member.key == *key) else {
            let nested = path[depth + 1..]
                .iter()
                .rev()
                .fold(value.clone(), |value, key| Value::Object([((*key).to_owned(), value)].into_iter().collect()));
            return Ok(inserted(text, &object, key, &nested, &own, &indent));
        };
        if depth + 1 == path.len() {
            let shown = pretty(value, &own);
            return Ok([&text[..member.value.start], &shown, &text[member.value.end..]].concat());
        }
        (indent, start) = (own, member.value.start);
    }
    Err("no key to set".to_owned())
}

/// The indentation of the members of an object, if they stand on lines of their own.
fn member_indent(text: &str, object: &Object) -> Option<String> {
    let first = object.members.first()?;
    let before = &text[..first.value.start];
    let line = &before[before.rfind('\n')? + 1..];
    let indent: String = line.chars().take_while(|c| matches!(c, ' ' | '\t')).collect();
    line[indent.len()..].starts_with('"').then_some(indent)
}

fn inserted(text: &str, object: &Object, key: &str, value: &Value, own: &str, outer: &str) -> String {
    let entry = format!("{}: {}", Value::from(key), pretty(value, own));
    let comma = if object.members.is_empty() || object.comma { "" } else { "," };
    let last = if object.comma && !object.members.is_empty() { "," } else { "" };
    // What stands between the last value and the brace, such as comments, stays above the new member.
    let between = text[object.end..object.close].trim_end();
    let head = &text[..object.end];
    format!("{head}{comma}{between}\n{own}{entry}{last}\n{outer}{}", &text[object.close..])
}

/// A value over several lines, below a line with this indentation.
fn pretty(value: &Value, indent: &str) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.replace('\n', &format!("\n{indent}"))
}

/// The meaning of a text with comments and trailing commas.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let value = reader.value()?;
    reader.blank()?;
    if reader.at < text.len() { Err(reader.wrong("the end")) } else { Ok(value) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn wrong(&self, expected: &str) -> String {
        let line = self.text[..self.at].matches('\n').count() + 1;
        format!("line {line}: expected {expected}")
    }

    /// Skips blanks and comments.
    fn blank(&mut self) -> Result<(), String> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            self.at += rest.len() - trimmed.len();
            let length = if trimmed.starts_with("//") {
                trimmed.find('\n').unwrap_or(trimmed.len())
            } else if trimmed.starts_with("/*") {
                trimmed.find("*/").ok_or_else(|| self.wrong("the end of a comment"))? + 2
            } else {
                return Ok(());
            };
            self.at += length;
        }
    }

    fn take(&mut self, c: char) -> bool {
        let is_there = self.rest().starts_with(c);
        self.at += if is_there { c.len_utf8() } else { 0 };
        is_there
    }

    fn string(&mut self) -> Result<String, String> {
        let start = self.at;
        if !self.take('"') {
            return Err(self.wrong("a string"));
        }
        let mut escaped = false;
        for (at, c) in self.rest().char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => {
                    self.at += at + 1;
                    let text = &self.text[start..self.at];
                    return serde_json::from_str(text).map_err(|_| self.wrong("a valid string"));
                }
                '\n' => break,
                _ => {}
            }
        }
        Err(self.wrong("the end of a string"))
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        if self.depth >= MOST_DEPTH {
            return Err(self.wrong("less nesting"));
        }
        self.depth += 1;
        let done = read(self);
        self.depth -= 1;
        done
    }

    fn object(&mut self) -> Result<Object, String> {
        self.blank()?;
        if !self.take('{') {
            return Err(self.wrong("an object"));
        }
        let mut object = Object { members: Vec::new(), end: self.at, comma: false, close: self.at };
        loop {
            self.blank()?;
            if self.rest().starts_with('}') {
                object.close = self.at;
                self.at += 1;
                return Ok(object);
            }
            if !object.members.is_empty() && !object.comma {
                return Err(self.wrong("a comma"));
            }
            let key = self.string()?;
            self.blank()?;
            if !self.take(':') {
                return Err(self.wrong("a colon"));
            }
            self.blank()?;
            let start = self.at;
            let meaning = self.deeper(Self::value)?;
            object.members.push(Member { key, value: start..self.at, meaning });
            object.end = self.at;
            let end = self.at;
            self.blank()?;
            object.comma = self.take(',');
            if object.comma {
                object.end = self.at;
            } else {
                self.at = end;
            }
        }
    }

    fn array(&mut self) -> Result<Value, String> {
        self.at += 1;
        let mut values = Vec::new();
        loop {
            self.blank()?;
            if self.take(']') {
                return Ok(Value::Array(values));
            }
            values.push(self.deeper(Self::value)?);
            self.blank()?;
            if !self.take(',') {
                return if self.take(']') { Ok(Value::Array(values)) } else { Err(self.wrong("a comma")) };
            }
        }
    }

    fn value(&mut self) -> Result<Value, String> {
        self.blank()?;
        match self.rest().chars().next() {
            Some('{') => {
                let members = self.object()?.members.into_iter().map(|member| (member.key, member.meaning));
                Ok(Value::Object(members.collect()))
            }
            Some('[') => self.array(),
            Some('"') => self.string().map(Value::String),
            _ => {
                let is_end = |c: char| c.is_whitespace() || matches!(c, ',' | ']' | '}' | '/');
                let rest = self.rest();
                let word = &rest[..rest.find(is_end).unwrap_or(rest.len())];
                let value = serde_json::from_str(word).map_err(|_| self.wrong("a value"))?;
                self.at += word.len();
                Ok(value)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_else_stays() {
        let check = |text: &str, path: &[&str], expect: &str| {
            assert_eq!(set(text, path, &json!({"command": "foreword"})).as_deref(), Ok(expect), "{text}");
        };
        check("", &["mcp"], "{\n  \"mcp\": {\n    \"command\": \"foreword\"\n  }\n}\n");
        check("{}", &["a", "b"], "{\n  \"a\": {\n    \"b\": {\n      \"command\": \"foreword\"\n    }\n  }\n}");
        check(
            "// mine\n{\n    \"z\": 1, // last\n    \"a\": [1, /* two */ 2,],\n}\n",
            &["m"],
            "// mine\n{\n    \"z\": 1, // last\n    \"a\": [1, /* two */ 2,],\n    \"m\": {\n      \"command\": \"foreword\"\n    },\n}\n",
        );
        check(
            "{\n  \"a\": 1 // one\n  // two\n}",
            &["m"],
            "{\n  \"a\": 1, // one\n  // two\n  \"m\": {\n    \"command\": \"foreword\"\n  }\n}",
        );
        check(
            "{\"servers\": {\"foreword\": {\"old\": true}, \"other\": {}}}",
            &["servers", "foreword"],
            "{\"servers\": {\"foreword\": {\n      \"command\": \"foreword\"\n    }, \"other\": {}}}",
        );
    }

    #[test]
    fn what_cannot_be_read_is_not_changed() {
        for text in ["{", "[]", "{\"a\" 1}", "{\"a\": 1 \"b\": 2}", "{\"a\": nul}", "{} x", "/* {}", "{\"mcp\": 7}"] {
            assert!(set(text, &["mcp", "foreword"], &json!(1)).is_err(), "{text}");
        }
        let deep = "{\"a\":".repeat(1_000);
        assert!(set(&deep, &["a"], &json!(1)).is_err());
    }

    proptest! {
        #[test]
        fn any_json_keeps_its_meaning(keys in proptest::collection::btree_map("[a-c/\"*]{0,3}", -9..9_i32, 0..6), blanks in "[ \n\t]{0,3}") {
            let members: Vec<String> = keys.iter().map(|(key, value)| format!("{blanks}{}{blanks}:{blanks}{value}{blanks}", json!(key))).collect();
            let text = format!("{blanks}{{{}{blanks}}}", members.join(","));
            let changed = set(&text, &["new", "key"], &json!([1])).unwrap();
            let mut expected = parse(&text).unwrap();
            expected["new"] = json!({"key": [1]});
            prop_assert_eq!(parse(&changed).unwrap(), expected);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[{}\\[\\]:,\"/*a1 \n\\\\]{0,40}") {
            let _ = set(&text, &["a", "b"], &json!(1));
        }
    }
}
