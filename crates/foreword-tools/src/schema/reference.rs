//! References inside a schema. One that leads out of it is never followed, and allows everything.

use serde_json::Value;

pub(super) fn resolve<'s>(root: &'s Value, target: &Value) -> Option<&'s Value> {
    let pointer = target.as_str()?.strip_prefix('#')?;
    root.pointer(&percent_decoded(pointer)?)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' { digit(bytes.next()?)? * 16 + digit(bytes.next()?)? } else { byte });
    }
    String::from_utf8(decoded).ok()
}

fn digit(byte: u8) -> Option<u8> {
    u8::try_from(char::from(byte).to_digit(16)?).ok()
}
