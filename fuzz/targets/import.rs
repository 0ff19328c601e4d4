//! A file that someone wants to import, and a file that someone edited: whatever the bytes are, nothing panics, the notes found are those of
//! the vault, and a merge that is taken over can be written and read again.

#![no_main]

use foreword_vault::transcript::{self, Merge, Notes, Transcript};
use jiff::tz::TimeZone;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let paths = ["a.md", "b/One.md", "c/One.md", "Paris, France.md"];
    let notes = Notes::new(paths);
    let _ = transcript::identify(&String::from_utf8_lossy(data));

    // What stands before the first byte of value 1 was written, the whole without that byte is what someone made of it.
    let cut = data.iter().position(|byte| *byte == 1).unwrap_or(data.len());
    let (written, rest) = data.split_at(cut);
    let Ok(found) = transcript::import(written.to_vec(), &notes, &TimeZone::UTC) else { return };
    for entry in &found.transcript.messages {
        assert!(entry.context.notes.iter().all(|note| paths.contains(&note.as_str())));
    }
    let ours = found.transcript;
    let text = transcript::write(&ours, &TimeZone::UTC);
    assert_eq!(transcript::merge(&ours, &text, &text.replace('\n', "\r\n"), &TimeZone::UTC), Merge::Unchanged);
    let edited = text.clone() + &String::from_utf8_lossy(rest.get(1..).unwrap_or_default());
    if let Merge::Edited(merged) = transcript::merge(&ours, &text, &edited, &TimeZone::UTC) {
        let again = transcript::read(&transcript::write(&merged, &TimeZone::UTC), &TimeZone::UTC);
        assert_eq!(again.map(|read| read.transcript), Ok::<Transcript, _>(merged));
    }
});
