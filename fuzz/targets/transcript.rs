//! A saved chat: whatever the file says, it is read or refused, and what was read is written so that it reads the same again.

#![no_main]

use foreword_vault::transcript;
use jiff::tz::TimeZone;

libfuzzer_sys::fuzz_target!(|data: &str| {
    let Ok(read) = transcript::read(data, &TimeZone::UTC) else { return };
    let written = transcript::write(&read.transcript, &TimeZone::UTC);
    let again = transcript::read(&written, &TimeZone::UTC).expect("what was written can be read");
    assert_eq!(again.transcript, read.transcript);
});
