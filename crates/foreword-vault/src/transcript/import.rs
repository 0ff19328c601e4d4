//! A saved chat from anywhere, taken into a vault: its text is read, and the notes it names are found.

use jiff::tz::TimeZone;

use super::read::{Read, read};
use super::resolve::{Notes, resolve_context};
use super::{Kind, NotATranscript, Warning};
use crate::folder::Text;

/// Reads the bytes of a saved chat whose notes are to be found among `notes`. Times without a zone are meant in `tz`.
pub fn import(bytes: Vec<u8>, notes: &Notes, tz: &TimeZone) -> Result<Read, NotATranscript> {
    let (text, fault) = decode(bytes);
    let mut found = read(&text, tz)?;
    if let Some(fault) = fault {
        found.warnings.insert(0, Warning::new(Kind::Encoding, fault));
    }
    for (entry, number) in found.transcript.messages.iter_mut().zip(1..) {
        let (context, warnings) = resolve_context(&entry.context, notes);
        entry.context = context;
        found
            .warnings
            .extend(warnings.into_iter().map(|Warning { kind, text }| Warning::new(kind, format!("message {number}: {text}"))));
    }
    Ok(found)
}

/// The text of a saved chat, and what was wrong with its bytes. UTF-8 stays as it is, `\r` that ends no line included.
pub fn decode(bytes: Vec<u8>) -> (String, Option<&'static str>) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let Text { text, fault } = Text::decode(error.into_bytes());
            (text, fault)
        }
    }
}
