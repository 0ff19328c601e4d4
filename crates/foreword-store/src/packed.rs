//! JSON documents whose long strings are stored separately, once per hash.
//!
//! `{"content": "a very long note …"}` becomes `{"content": {"$text": "<hash>"}}`. Keys that begin with `$` get a second `$`, so
//! that every document reads back unchanged.

use foreword_core::hash::Hash;
use foreword_core::json::{self, Strings};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Shorter strings stay in place, because a reference would hardly be smaller.
const LONG: usize = 160;

const POINTER: &str = "$text";

/// A serialized document for a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Canonical JSON.
    pub(crate) json: String,
    /// The texts that it refers to.
    pub(crate) texts: Vec<(Hash, String)>,
}

impl Document {
    /// Serializes a value and takes out its long strings.
    pub fn of(value: &(impl Serialize + ?Sized)) -> serde_json::Result<Self> {
        let mut texts = Texts(Vec::new());
        let json = json::canonical_with(value, &mut texts)?;
        Ok(Self { json, texts: texts.0 })
    }

    /// The hash of the document.
    pub fn hash(&self) -> Hash {
        Hash::of(&self.json)
    }

    /// The tag and the content of an enum value; the content may be null.
    #[must_use]
    pub fn tagged(self) -> (String, Self) {
        let Self { json, texts } = self;
        let named = json.strip_prefix("{\"").and_then(|rest| rest.strip_suffix('}')?.split_once("\":"));
        match named {
            Some((kind, content)) => (kind.to_owned(), Self { json: content.to_owned(), texts }),
            None => (json.trim_matches('"').to_owned(), Self { json: "null".to_owned(), texts }),
        }
    }

    /// Restores the value.
    pub fn value(&self) -> serde_json::Result<Value> {
        let text = |hash: Hash| {
            let text = self.texts.iter().find(|(known, _)| *known == hash).map(|(_, text)| text.clone());
            text.ok_or_else(|| serde::de::Error::custom(format!("it refers to the text {hash}, which is missing")))
        };
        unpack(serde_json::from_str(&self.json)?, &mut |hash| text(hash))
    }
}

/// The long strings of a document.
struct Texts(Vec<(Hash, String)>);

impl Strings for Texts {
    fn text(&mut self, out: &mut Vec<u8>, text: &str) {
        if text.len() < LONG {
            return json::write_str(out, text);
        }
        let hash = Hash::of(text);
        out.extend_from_slice(format!("{{\"{POINTER}\":\"{hash}\"}}").as_bytes());
        self.0.push((hash, text.to_owned()));
    }

    fn key(&mut self, out: &mut Vec<u8>, key: &str) {
        out.push(b'"');
        // This does not change their order.
        if key.starts_with('$') {
            out.push(b'$');
        }
        json::write_escaped(out, key);
        out.push(b'"');
    }
}

/// Replaces references with texts. `lookup` returns a text by its hash.
pub(crate) fn unpack<E>(value: Value, lookup: &mut dyn FnMut(Hash) -> Result<String, E>) -> Result<Value, E> {
    Ok(match value {
        Value::Array(values) => Value::Array(values.into_iter().map(|value| unpack(value, lookup)).collect::<Result<_, E>>()?),
        Value::Object(map) => {
            if let Some(hash) = pointer(&map) {
                return lookup(hash).map(Value::String);
            }
            let unescaped = |key: String| key.strip_prefix('$').map(str::to_owned).unwrap_or(key);
            let pairs = map.into_iter().map(|(key, value)| Ok((unescaped(key), unpack(value, lookup)?)));
            Value::Object(pairs.collect::<Result<_, E>>()?)
        }
        other => other,
    })
}

/// All hashes that a document refers to.
pub(crate) fn pointers(value: &Value, found: &mut dyn FnMut(Hash)) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| pointers(value, found)),
        Value::Object(map) => match pointer(map) {
            Some(hash) => found(hash),
            None => map.values().for_each(|value| pointers(value, found)),
        },
        _ => {}
    }
}

fn pointer(map: &Map<String, Value>) -> Option<Hash> {
    if map.len() != 1 {
        return None;
    }
    serde_json::from_value(map.get(POINTER)?.clone()).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn round_trip(value: &Value) -> Value {
        Document::of(value).unwrap().value().unwrap()
    }

    #[test]
    fn long_strings_leave_and_come_back() {
        let long = "long ".repeat(100);
        let value = json!({"a": long, "b": ["short", long], "$text": "x", "$$text": {"$text": Hash::of("x").to_string()}});
        let packed = Document::of(&value).unwrap();
        assert!(packed.json.len() < 500, "{}", packed.json);
        assert_eq!(packed.texts.iter().filter(|(hash, _)| *hash == Hash::of(&long)).count(), 2);
        assert_eq!(round_trip(&value), value);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
            (150usize..170).prop_map(|len| Value::from("x".repeat(len))),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let key = prop_oneof!["[a-z$]{0,4}", Just("$text".to_owned()), Just("$$text".to_owned())];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key, inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_packed_is_canonical(value in any_json()) {
            let json = Document::of(&value).unwrap().json;
            prop_assert_eq!(json::to_string(&serde_json::from_str(&json).unwrap()), json);
        }

        #[test]
        fn every_document_reads_back(value in any_json()) {
            prop_assert_eq!(round_trip(&value), value);
        }
    }
}
