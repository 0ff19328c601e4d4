//! Saved chats as they are found in vaults, each beside what is read from it. `UPDATE=1 cargo test -p foreword-vault --test transcripts` writes
//! the expectations anew; read them line by line before you commit them.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use foreword_vault::transcript::{read, write};
use jiff::tz::TimeZone;

fn samples() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap().replace("\r\n", "\n"))).collect()
}

fn berlin() -> TimeZone {
    TimeZone::get("Europe/Berlin").unwrap()
}

#[test]
fn every_sample_is_read_as_expected() {
    let mut wrong = Vec::new();
    for (path, text) in samples() {
        let found = match read(&text, &berlin()) {
            Ok(found) => serde_json::to_string_pretty(&found).unwrap(),
            Err(error) => serde_json::to_string_pretty(&error.to_string()).unwrap(),
        };
        let expected = path.with_extension("json");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&expected, format!("{found}\n")).unwrap();
        }
        if fs::read_to_string(&expected).unwrap_or_default().replace("\r\n", "\n").trim_end() != found {
            wrong.push(format!("{}:\n{found}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn line_ends_and_byte_order_marks_change_nothing() {
    for (path, text) in samples() {
        let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        assert_eq!(read(&windows, &berlin()), read(&text, &berlin()), "{}", path.display());
    }
}

#[test]
fn what_was_read_comes_back_from_our_own_file() {
    for (path, text) in samples() {
        let Ok(found) = read(&text, &berlin()) else { continue };
        let again = read(&write(&found.transcript, &berlin()), &berlin()).unwrap();
        assert_eq!(again.transcript, found.transcript, "{}", path.display());
    }
}
