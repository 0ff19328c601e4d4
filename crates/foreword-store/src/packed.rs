//! JSON documents whose long strings are kept elsewhere, once, by their hash.
//!
//! `{"content": "a very long note …"}` becomes `{"content": {"$text": "<hash>"}}`. Keys that begin with `$` get one more `$`, so that
//! every document reads back as it was, whatever stands in it.

use foreword_core::hash::Hash;
use foreword_core::json;
use serde_json::{Map, Value};

/// A shorter string stays where it is: a pointer would hardly be smaller.
const LONG: usize = 160;

const POINTER: &str = "$text";

/// A document and the texts it points to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Packed {
    /// Canonical JSON.
    pub(crate) json: String,
    /// What it points to.
    pub(crate) texts: Vec<(Hash, String)>,
}

/// Takes the long strings out of a document.
pub(crate) fn pack(value: &Value) -> Packed {
    let (mut bytes, mut texts) = (Vec::new(), Vec::new());
    write(&mut bytes, value, &mut texts);
    Packed { json: json::text(bytes), texts }
}

fn write(out: &mut Vec<u8>, value: &Value, texts: &mut Vec<(Hash, String)>) {
    let separate = |out: &mut Vec<u8>, at| {
        if at > 0 {
            out.push(b',');
        }
    };
    match value {
        Value::String(text) if text.len() >= LONG => {
            let hash = Hash::of(text);
            out.extend_from_slice(format!("{{\"{POINTER}\":\"{hash}\"}}").as_bytes());
            texts.push((hash, text.clone()));
        }
        Value::Array(values) => {
            out.push(b'[');
            for (at, value) in values.iter().enumerate() {
                separate(out, at);
                write(out, value, texts);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            // One more `$` before those that begin with one does not change their order.
            let mut pairs: Vec<_> = map.iter().collect();
            pairs.sort_unstable_by_key(|(key, _)| *key);
            out.push(b'{');
            for (at, (key, value)) in pairs.into_iter().enumerate() {
                separate(out, at);
                out.push(b'"');
                if key.starts_with('$') {
                    out.push(b'$');
                }
                json::write_escaped(out, key);
                out.extend_from_slice(b"\":");
                write(out, value, texts);
            }
            out.push(b'}');
        }
        other => json::write(out, other),
    }
}

/// Puts the texts back. `lookup` gives a text by its hash.
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

/// All hashes a document points to.
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
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn round_trip(value: &Value) -> Value {
        let packed = pack(value);
        let texts: BTreeMap<Hash, String> = packed.texts.into_iter().collect();
        unpack(serde_json::from_str(&packed.json).unwrap(), &mut |hash| texts.get(&hash).cloned().ok_or(())).unwrap()
    }

    #[test]
    fn long_strings_leave_and_come_back() {
        let long = "long ".repeat(100);
        let value = json!({"a": long, "b": ["short", long], "$text": "x", "$$text": {"$text": Hash::of("x").to_string()}});
        let packed = pack(&value);
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
            let json = pack(&value).json;
            prop_assert_eq!(json::to_string(&serde_json::from_str(&json).unwrap()), json);
        }

        #[test]
        fn every_document_reads_back(value in any_json()) {
            prop_assert_eq!(round_trip(&value), value);
        }
    }
}
