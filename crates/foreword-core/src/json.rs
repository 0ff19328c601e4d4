//! Canonical JSON: the same value always gives the same bytes.
//!
//! Keys are sorted here, not by the map behind [`Value`], because another crate in a build can turn on `preserve_order` for
//! everybody. Whole numbers keep all their digits (RFC 8785 would round ids above 2^53).

mod canonical;

pub use canonical::{Strings, canonical, canonical_with};
use serde_json::Value;

/// Bytes that are looked at together for something to escape.
const STRETCH: usize = 32;

/// Appends `value` to `out`: sorted keys, no spaces, only what must be escaped is escaped.
pub fn write(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            out.push(b'{');
            for (index, (key, value)) in entries.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_str(out, key);
                out.push(b':');
                write(out, value);
            }
            out.push(b'}');
        }
        Value::Array(values) => {
            out.push(b'[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(out, value);
            }
            out.push(b']');
        }
        Value::String(text) => write_str(out, text),
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
    }
}

/// `value` as a string.
pub fn to_string(value: &Value) -> String {
    let mut out = Vec::new();
    write(&mut out, value);
    text(out)
}

/// Bytes that were written here as text, which they are.
pub fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Appends `text` as a JSON string, quotes included.
pub fn write_str(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    write_escaped(out, text);
    out.push(b'"');
}

/// Appends `text` as the inside of a JSON string: stretches that need no escape are copied whole.
pub fn write_escaped(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len());
    let mut copied = 0;
    for (number, stretch) in bytes.chunks(STRETCH).enumerate() {
        // Counted to the end, without a branch for each byte, so that many are looked at at once; most need nothing.
        if stretch.iter().filter(|byte| matches!(byte, 0x00..=0x1f | b'"' | b'\\')).count() == 0 {
            continue;
        }
        for (at, &byte) in (number * STRETCH..).zip(stretch) {
            let short = match byte {
                b'"' => b'"',
                b'\\' => b'\\',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                0x08 => b'b',
                0x0c => b'f',
                0x00..=0x1f => b'u',
                _ => continue,
            };
            out.extend_from_slice(&bytes[copied..at]);
            copied = at + 1;
            out.extend_from_slice(&[b'\\', short]);
            if short == b'u' {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(&[b'0', b'0', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
    }
    out.extend_from_slice(&bytes[copied..]);
}

/// Serializes a value directly in self-describing formats, otherwise as JSON text.
pub mod value {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
    use serde_json::Value;

    /// See the module.
    pub fn serialize<S: Serializer>(value: &Value, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() { value.serialize(serializer) } else { serializer.collect_str(value) }
    }

    /// See the module.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        if deserializer.is_human_readable() {
            return Value::deserialize(deserializer);
        }
        serde_json::from_str(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// The same for one that need not be there.
pub mod maybe {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
    use serde_json::Value;

    /// See the module.
    pub fn serialize<S: Serializer>(value: &Option<Value>, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return value.serialize(serializer);
        }
        value.as_ref().map(Value::to_string).serialize(serializer)
    }

    /// See the module.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
        if deserializer.is_human_readable() {
            return Option::deserialize(deserializer);
        }
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| serde_json::from_str(&text).map_err(de::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sorted_exact_and_minimal() {
        let value = json!({"b": [1, 2.5, null, true], "a": {"z": "x\n\"\\\u{1}é", "y": 9_007_199_254_740_993_u64}});
        assert_eq!(to_string(&value), r#"{"a":{"y":9007199254740993,"z":"x\n\"\\\u0001é"},"b":[1,2.5,null,true]}"#);
        assert_eq!(serde_json::from_str::<Value>(&to_string(&value)).unwrap(), value);
    }

    #[test]
    fn every_control_character_is_escaped_as_serde_json_does() {
        let all: String = (0..0x80_u8).map(char::from).collect();
        // Wherever it stands in a stretch.
        for before in 0..=STRETCH {
            let text = "-".repeat(before) + &all;
            let mut ours = Vec::new();
            write_str(&mut ours, &text);
            assert_eq!(String::from_utf8(ours).unwrap(), serde_json::to_string(&text).unwrap());
        }
    }
}
