//! JSON as its text: members and elements by where they stand, so that text can be inserted into a body without rewriting it.

use std::fmt;
use std::ops::Range;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The members of an object, in their order. A name that is there twice is there twice.
pub(super) struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Of a text that holds one object.
    pub(super) fn of(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The value of that name. Of two values neither counts: readers disagree which one does.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        let mut found = self.0.iter().filter(|(found, _)| found == name);
        match (found.next(), found.next()) {
            (Some((_, value)), None) => Some(value.get()),
            _ => None,
        }
    }

    /// Whether a name is there, once or more often.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(found, _)| found == name)
    }

    /// The text of that name.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        string(self.get(name)?)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Reads).map(Members)
    }
}

/// The elements of an array.
pub(super) fn elements(text: &str) -> Option<Vec<&str>> {
    let elements: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    Some(elements.into_iter().map(RawValue::get).collect())
}

/// A text.
pub(super) fn string(text: &str) -> Option<String> {
    text.starts_with('"').then(|| serde_json::from_str(text).ok()).flatten()
}

/// Where a part of a text stands in it.
pub(super) fn place(whole: &str, part: &str) -> Option<Range<usize>> {
    // It is borrowed from the whole, so its address tells where it stands.
    let at = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    let place = at..at.checked_add(part.len())?;
    (whole.get(place.clone()) == Some(part)).then_some(place)
}

/// The name of a cache mark's member.
const MARK: &str = "\"cache_control\"";

/// A text without the space between its values, which says nothing.
fn compact(text: &str) -> String {
    let (mut in_string, mut is_escaped) = (false, false);
    let kept = text.chars().filter(|&one| {
        let keeps = in_string || !matches!(one, ' ' | '\t' | '\n' | '\r');
        match one {
            _ if is_escaped => is_escaped = false,
            '\\' if in_string => is_escaped = true,
            '"' => in_string = !in_string,
            _ => {}
        }
        keeps
    });
    kept.collect()
}

/// A text without the cache marks in it, and without the space between its values: clients move marks from message to message.
pub(super) fn without_marks(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(MARK) {
        let (before, from) = rest.split_at(at);
        let behind = &from[MARK.len()..];
        let value = behind.trim_start().strip_prefix(':').map(str::trim_start);
        // Within a string its quotes would stand behind backslashes.
        let after = value.filter(|_| !before.ends_with('\\')).and_then(|value| {
            let mut stream = serde_json::Deserializer::from_str(value).into_iter::<&RawValue>();
            stream.next()?.ok()?;
            value.get(stream.byte_offset()..)
        });
        let Some(after) = after else {
            bare.push_str(before);
            bare.push_str(MARK);
            rest = behind;
            continue;
        };
        let kept = before.trim_end();
        if let Some(kept) = kept.strip_suffix(',') {
            bare.push_str(kept.trim_end());
            rest = after;
        } else {
            bare.push_str(kept);
            rest = after.trim_start().strip_prefix(',').map_or(after, str::trim_start);
        }
    }
    bare.push_str(rest);
    compact(&bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_elements_are_found_where_they_stand() {
        let text = r#" { "a" : [1.0, {"b": "\u00e4"} ] , "c":"x", "c":"y" } "#;
        let members = Members::of(text).unwrap();
        let list = members.get("a").unwrap();
        assert_eq!(list, r#"[1.0, {"b": "\u00e4"} ]"#);
        let elements = elements(list).unwrap();
        assert_eq!(elements, ["1.0", r#"{"b": "\u00e4"}"#]);
        assert_eq!(&text[place(text, elements[1]).unwrap()], elements[1]);
        assert_eq!((members.get("c"), members.has("c"), members.has("d")), (None, true, false));
        assert_eq!(Members::of(elements[1]).unwrap().text("b").unwrap(), "ä");
        assert!(place("another text", list).is_none());
        assert!(Members::of("[1]").is_none() && super::elements("{}").is_none() && string("5").is_none());
    }

    #[test]
    fn marks_are_left_out() {
        let check = |text: &str, expect: &str| assert_eq!(without_marks(text), expect, "{text}");
        check(r#"{"a":1,"cache_control":{"type":"ephemeral"}}"#, r#"{"a":1}"#);
        check(r#"{"cache_control": {"type":"ephemeral","ttl":"1h"} , "a":1}"#, r#"{"a":1}"#);
        check(r#"{"a":1 , "cache_control" : null, "b":2}"#, r#"{"a":1,"b":2}"#);
        check(r#"{"a":"\"cache_control\": {}"}"#, r#"{"a":"\"cache_control\": {}"}"#);
        check(r#"{"a":"x","cache_control":"#, r#"{"a":"x","cache_control":"#);
        check(r#"["cache_control"]"#, r#"["cache_control"]"#);
        check("{ \"a b\" :\n \"x \\\" y\\\\\" , \"c\": [ 1 ] }", "{\"a b\":\"x \\\" y\\\\\",\"c\":[1]}");
        let pretty = "{\n  \"a\": 1\n}";
        assert_eq!(without_marks("{\n  \"a\": 1\n,\"cache_control\":{}}"), without_marks(pretty));
    }
}
