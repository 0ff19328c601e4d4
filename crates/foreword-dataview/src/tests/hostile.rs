//! Queries and notes that mean harm.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::json;

use super::vault::{Build as _, Vault};
use super::{Limit, Unanswered, answer, ask, now, vault};
use crate::parse;

/// The query ends, soon, in whatever way.
fn survives(query: &str) {
    let started = Instant::now();
    let limit = Limit { time: Duration::from_millis(300), ..Limit::default() };
    let _ = answer(query, "Home.md", &vault(), &now(), limit);
    assert!(started.elapsed() < Duration::from_secs(5), "{}", query.chars().take(80).collect::<String>());
}

#[test]
fn nesting() {
    for (open, close) in
        [("(", ")"), ("[", "]"), ("!", ""), ("length(", ")"), ("{a: ", "}"), ("(x) => ", ""), ("a[", "]"), ("[[", "]]")]
    {
        for depth in [10, 1000, 9000] {
            survives(&format!("LIST {}1{}", open.repeat(depth), close.repeat(depth)));
            survives(&format!("LIST {}", open.repeat(depth)));
            survives(&format!("LIST FROM {}#a{}", open.repeat(depth), close.repeat(depth)));
        }
    }
}

#[test]
fn length() {
    for part in [
        "+1",
        ".a",
        "[0]",
        " and 1",
        "*\"a\"",
        " FLATTEN [file] AS file",
        " GROUP BY key",
        " SORT a",
        "\"",
        "#",
        "dur(1 d, ",
        "-",
        "/",
    ] {
        for times in [100, 5000] {
            survives(&format!("LIST 1{}", part.repeat(times)));
            survives(&format!("TASK {}", part.repeat(times)));
        }
    }
    assert!(parse(&"x".repeat(1 << 20)).is_err());
    assert!(parse(&format!("LIST {}", "LIMIT 1 ".repeat(64))).is_ok());
    assert!(parse(&format!("LIST {}", "LIMIT 1 ".repeat(65))).is_err());
}

#[test]
fn blow_ups() {
    let ten = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 0]";
    let hundred = format!("split(\"{}\", \"\")", "a".repeat(100));
    for query in [
        format!("LIST reduce({hundred}, (a, b) => a + a)"),
        format!("LIST reduce({hundred}, (a, b) => [a, a])"),
        format!("LIST reduce({hundred}, (a, b) => {{x: a, y: a}})"),
        format!("LIST reduce({hundred}, (a, b) => [a, a]) = reduce({hundred}, (a, b) => [a, a])"),
        format!("LIST SORT reduce({}, (a, b) => [a, a])", "split(\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\", \"\")"),
        format!("LIST {}1{}", format!("map({ten}, (x) => ").repeat(12), ")".repeat(12)),
        format!("LIST {}", format!("FLATTEN {ten} AS a ").repeat(12)),
        "LIST \"a\" * 99999999999".to_owned(),
        "LIST padleft(\"a\", 99999999999)".to_owned(),
        "LIST regexmatch(\"(a{1000}){1000}\", \"a\")".to_owned(),
        "LIST regexmatch(\"(a*)*b\", \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\")".to_owned(),
        "LIST date(today) + dur(99999999999999999 years)".to_owned(),
        "LIST date(9999-12-31) + dur(1 day)".to_owned(),
    ] {
        survives(&query);
    }
}

#[test]
fn time_runs_out() {
    let limit = Limit { time: Duration::ZERO, ..Limit::default() };
    let query = "LIST map(split(\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\", \"\"), (x) => map(split(\"aaaaaaaaaaaaaaaaaaa\", \"\"), (y) => x + y))";
    let outcome = answer(query, "Home.md", &vault(), &now(), limit);
    assert_eq!(outcome, Err(Unanswered::TimedOut { time: Duration::ZERO }));
}

#[test]
fn rows_and_bytes_are_bounded() {
    let few = Limit { rows: 3, ..Limit::default() };
    let why = answer("LIST", "Home.md", &vault(), &now(), few).unwrap_err().to_string();
    assert_eq!(why, "there are more than 3 rows; ask for fewer notes with FROM or LIMIT");
    let short = Limit { bytes: 60, ..Limit::default() };
    let markdown = answer("LIST", "Home.md", &vault(), &now(), short).unwrap().markdown;
    assert_eq!(markdown, "- [[Books/Dune.md|Dune]]\n- [[Books/Emma.md|Emma]]\n\n(6 more left out: the answer is too long.)\n");
}

#[test]
fn items_with_impossible_parents() {
    let mut vault = Vault::default();
    let note = vault.add("A.md", &json!({}), &[]);
    note.item("[ ] a", Some(0)).item("[ ] b", Some(9)).item("[ ] c", Some(1)).item("[ ] d", None);
    for query in ["TASK", "TASK WHERE fullyCompleted or children", "LIST file.tasks.parent", "LIST file.tasks.children.children"]
    {
        ask(&vault, query).unwrap();
    }
}

/// Words of the language in any order.
fn soup() -> impl Strategy<Value = String> {
    let words = [
        "LIST",
        "TABLE",
        "TASK",
        "WITHOUT ID",
        "FROM",
        "WHERE",
        "SORT",
        "GROUP BY",
        "FLATTEN",
        "LIMIT",
        "AS",
        "desc",
        "and",
        "or",
        "not",
        "-",
        "!",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ".",
        ":",
        "=>",
        "=",
        "<",
        "+",
        "*",
        "/",
        "1",
        "2.5",
        "\"a\"",
        "\"",
        "#book",
        "#",
        "[[Dune]]",
        "[[]]",
        "outgoing(",
        "date(",
        "date(today)",
        "dur(",
        "dur(3 days)",
        "file",
        ".name",
        "rating",
        "this",
        "rows",
        "key",
        "x",
        "(x) =>",
        "map(",
        "contains(",
        "length(",
        "sort(",
        "regexreplace(",
        "null",
        "true",
        "é",
        "📅",
        "\n",
        "//",
        "2025-09-01",
        "3 days",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..24).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in ".{0,200}") {
        let _ = parse(&text);
        let _ = parse(&format!("LIST {text}"));
    }

    #[test]
    fn any_row_of_words_is_answered_or_refused(words in soup(), output in prop::sample::select(vec!["LIST", "TABLE", "TASK", ""])) {
        survives(&format!("{output} {words}"));
        survives(&format!("{output} FROM #book WHERE {words}"));
    }

    #[test]
    fn any_field_text_has_a_value(text in ".{0,40}", key in ".{0,10}") {
        let mut vault = Vault::default();
        vault.add("A.md", &json!({ key.clone(): text }), &[]).item(&text, None);
        vault.add("A.md", &json!({}), &[]).fields.push(foreword_markdown::note::Field { key, value: text.clone(), line: 1 });
        for query in ["LIST row", "TABLE file.day, file.tasks, file.lists.outlinks", "TASK WHERE due or text"] {
            ask(&vault, query).unwrap();
        }
    }
}
