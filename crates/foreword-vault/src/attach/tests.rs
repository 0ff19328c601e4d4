use std::fs;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::*;
use crate::render::{Answer, Helpers};
use foreword_markdown::note::QueryBlock;

struct Nobody;

impl Helpers for Nobody {
    fn answer(&self, _: &Vault, _: &str, _: &QueryBlock) -> Answer {
        Answer::Unanswered("nobody answers".to_owned())
    }

    fn pdf(&self, _: &[u8]) -> Result<String, String> {
        Ok("words".to_owned())
    }

    fn canvas(&self, json: &str) -> Result<String, String> {
        Ok(json.to_owned())
    }
}

/// 2025-09-10, noon.
const NOW: &str = "2025-09-10T12:00:00+00:00[UTC]";

fn vault() -> (TempDir, Vault) {
    let dir = tempfile::tempdir().unwrap();
    let files = [
        ("Home.md", "[[Lesson 4]] #start\n", "2025-01-01T00:00:00Z"),
        ("Piano/Lesson 4.md", "# Scales\none\ntwo ^b\n# Chords\nthree #music/piano\n", "2025-09-01T00:00:00Z"),
        ("Piano/Lesson 5.md", "[[Lesson 4]] #Music\n", "2025-09-09T23:00:00Z"),
        ("Violin/Bach.md", "[[Lesson 5]] #musical\n![[Lesson 4#^b]]\n", "2025-09-10T01:00:00Z"),
        ("Violin/Index.md", "v", "2025-01-01T00:00:00Z"),
        ("Piano/Index.md", "p", "2025-01-01T00:00:00Z"),
        ("doc.pdf", "%PDF", "2025-01-01T00:00:00Z"),
        ("data.bin", "", "2025-01-01T00:00:00Z"),
    ];
    for (path, text, time) in files {
        let file = dir.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        let time = Duration::from_secs(time.parse::<jiff::Timestamp>().unwrap().as_second().unsigned_abs());
        fs::File::options().write(true).open(file).unwrap().set_modified(SystemTime::UNIX_EPOCH + time).unwrap();
    }
    let vault = Vault::open(dir.path(), None).unwrap().vault;
    (dir, vault)
}

fn attach(vault: &Vault, text: &str, limits: Limits) -> Attached {
    vault.attach(&Attachment::parse(text).unwrap(), &NOW.parse().unwrap(), limits, &Nobody)
}

#[test]
fn what_is_attached() {
    let (_dir, vault) = vault();
    let check = |text: &str, ids: &[&str], problem: &str| {
        let attached = attach(&vault, text, Limits::default());
        let found: Vec<_> = attached.versions.iter().map(|version| version.id.to_string()).collect();
        assert_eq!(found, ids, "{text}");
        let problems: Vec<_> = attached.problems.iter().map(ToString::to_string).collect();
        assert!(
            if problem.is_empty() { problems.is_empty() } else { problems.join("\n").contains(problem) },
            "{text}: {problems:?}"
        );
    };
    let (four, five, bach) = ("note:Piano/Lesson 4.md", "note:Piano/Lesson 5.md", "note:Violin/Bach.md");
    check("Piano/Lesson 4.md", &[four], "");
    check("lesson 4", &[four], "");
    check("[[Lesson 4|shown]]", &[four], "");
    check("[[Lesson 4#Scales]]", &["selection:Piano/Lesson 4.md#L1-L3"], "");
    check("Lesson 4#chords", &["selection:Piano/Lesson 4.md#L4-L5"], "");
    check("Lesson 4#^b", &["selection:Piano/Lesson 4.md#L2-L3"], "");
    check("Lesson 4#Scale", &[], "the nearest: `#Scales`");
    check("Index", &["note:Piano/Index.md"], "fits several files: Piano/Index.md, Violin/Index.md");
    check("Leson 4", &[], "the nearest: `Lesson 4`");
    check("#music", &[four, five], "");
    check("#MUSIC/piano", &[four], "");
    check("#musi", &[], "the nearest: `#Music`, `#musical`");
    check("piano/", &["note:Piano/Index.md", four, five], "");
    check("Paino/", &[], "the nearest: `Piano`");
    check("/", &["note:Home.md", "note:Piano/Index.md", four, five, bach, "note:Violin/Index.md"], "");
    check("*.md", &["note:Home.md"], "");
    check("**/lesson*.md", &[four, five], "");
    check("**/x*.md", &[], "no note fits");
    check("link:Home", &["note:Home.md", four], "");
    check("link:Home~2", &["note:Home.md", four, five, bach], "");
    check("link:Ghost", &[], "not in the vault");
    check("since:today", &[bach], "");
    check("since:yesterday", &[five, bach], "");
    check("since:2025-09-01", &[four, five, bach], "");
    check("since:1h", &[], "no note changed");
    check("Lesson 4:2-3", &["selection:Piano/Lesson 4.md#L2-L3"], "");
    check("Piano/Lesson 4.md#L4-L99", &["selection:Piano/Lesson 4.md#L4-L5"], "has 5 lines; lines 4 to 5 are attached");
    check("Lesson 4:6-7", &[], "has 5 lines; there is no line 6");
    check("doc.pdf", &["note:doc.pdf"], "");
    check("doc.pdf:1-2", &[], "not a note");
    check("data.bin", &[], "neither a note");
    check("https://a.example", &[], "");
    check("../Home", &[], "not in the vault");
}

#[test]
fn chats_and_agents_are_no_notes_that_changed() {
    let dir = tempfile::tempdir().unwrap();
    for path in ["Home.md", "Foreword/Chats/20250910_110000__hi.md", "Foreword/Agents/cook/prompt.md"] {
        let file = dir.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "Text.").unwrap();
    }
    let vault = Vault::open(dir.path(), None).unwrap().vault;
    let found = |text: &str| attach(&vault, text, Limits::default()).versions.len();
    assert_eq!((found("since:2025-09-10"), found("/")), (1, 3));
}

#[test]
fn selections_have_their_lines() {
    let (_dir, vault) = vault();
    let check =
        |text: &str, expect: &str| assert_eq!(&*attach(&vault, text, Limits::default()).versions[0].content, expect, "{text}");
    check("Lesson 4:1-1", "# Scales");
    check("Lesson 4:2-3", "one\ntwo ^b");
    check("Lesson 4:5-5", "three #music/piano");
    check("Lesson 4#^b", "one\ntwo");
    check("Bach:2-2", "> [embedded note: Lesson 4 (Piano/Lesson 4.md#^b)]\n> one\n> two");
}

// Elsewhere there are no such names.
#[cfg(unix)]
#[test]
fn files_with_odd_names_could_not_be_attached_by_their_path() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["a#b.md", "{x}.md", "a*b.md", "link:foo.md", "since:7d.md", "#tag.md", "a.md", " b.md"];
    for name in names {
        fs::write(dir.path().join(name), "x").unwrap();
    }
    let vault = Vault::open(dir.path(), None).unwrap().vault;
    for name in names {
        let attached = vault.attach(&vault.attachment(name).unwrap(), &NOW.parse().unwrap(), Limits::default(), &Nobody);
        let found: Vec<_> = attached.versions.iter().map(|version| version.id.name()).collect();
        assert_eq!((found.as_slice(), attached.problems.as_slice()), (&[name][..], &[][..]));
    }
    assert_eq!(vault.attachment("a*.md"), Attachment::parse("a*.md"));
    assert!(vault.attachment("since:8d.md").is_err());
}

#[test]
fn limits_dropped_the_note_itself_and_the_newest() {
    let (_dir, vault) = vault();
    let check = |text: &str, notes: usize, ids: &[&str]| {
        let attached = attach(&vault, text, Limits { notes, ..Limits::default() });
        assert_eq!(attached.versions.iter().map(|version| version.id.name()).collect::<Vec<_>>(), ids, "{text}");
    };
    check("link:Bach~2", 1, &["Violin/Bach.md"]);
    check("link:Bach~5", 3, &["Piano/Lesson 4.md", "Piano/Lesson 5.md", "Violin/Bach.md"]);
    check("since:2025-09-01", 1, &["Violin/Bach.md"]);
    check("since:2025-01-01", 2, &["Piano/Lesson 5.md", "Violin/Bach.md"]);
}

#[test]
fn limits_name_what_is_left_out() {
    let (_dir, vault) = vault();
    let check = |limits: Limits, ids: &[&str], problem: &str| {
        let attached = attach(&vault, "/", limits);
        assert_eq!(attached.versions.iter().map(|version| version.id.name().to_owned()).collect::<Vec<_>>(), ids);
        assert!(attached.problems.iter().any(|found| found.what.contains(problem)), "{:?}", attached.problems);
    };
    check(Limits { notes: 2, ..Limits::default() }, &["Home.md", "Piano/Index.md"], "4 of 6 notes are left out");
    check(Limits { bytes: 23, ..Limits::default() }, &["Home.md", "Piano/Index.md", "Violin/Index.md"], "Piano/Lesson 5.md");
    let one = attach(&vault, "Lesson 4", Limits { bytes: 5, ..Limits::default() });
    assert_eq!(&*one.versions[0].content, "# Sca");
    assert_eq!(one.problems.len(), 1);
}
