//! Commands and what they print.

use serde_json::json;

use super::{Vault, ask, check, check_unanswered, vault};

const DUNE: &str = "- [[Books/Dune.md|Dune]]";
const EMMA: &str = "- [[Books/Emma.md|Emma]]";
const SOLARIS: &str = "- [[Books/Solaris.md|Solaris]]";
const HERBERT: &str = "- [[People/Herbert.md|Herbert]]";
const AUSTEN: &str = "- [[People/Austen.md|Austen]]";
const HOME: &str = "- [[Home.md|Home]]";

fn check_list(query: &str, lines: &[&str]) {
    check(query, &lines.join("\n"));
}

#[test]
fn sources() {
    for (from, lines) in [
        ("#book", &[DUNE, EMMA, SOLARIS][..]),
        ("#book/scifi", &[DUNE, SOLARIS]),
        ("#boo", &["No results."]),
        ("\"Books\"", &[DUNE, EMMA, SOLARIS]),
        ("\"Books/\"", &[DUNE, EMMA, SOLARIS]),
        ("\"Books/Dune\"", &[DUNE]),
        ("\"Books/Dune.md\"", &[DUNE]),
        ("\"Book\"", &["No results."]),
        ("[[Dune]]", &[EMMA, HOME, HERBERT]),
        ("outgoing([[Emma]])", &[DUNE, AUSTEN]),
        ("[[]]", &["No results."]),
        ("outgoing([[]])", &[DUNE]),
        ("outgoing([[#]])", &[DUNE]),
        ("[[Missing]]", &["No results."]),
        ("#book and #classic", &[DUNE, EMMA]),
        ("#book AND -#classic", &[SOLARIS]),
        ("#book and !#classic", &[SOLARIS]),
        ("#book & not #classic", &[SOLARIS]),
        ("#person or \"Books/Dune\"", &[DUNE, AUSTEN, HERBERT]),
        ("\"Books\" and ([[Dune]] or #book/scifi)", &[DUNE, EMMA, SOLARIS]),
        ("#person or #book and #classic", &[DUNE, EMMA]),
        ("-(#book or #person or #project or #daily)", &[HOME]),
    ] {
        check_list(&format!("LIST FROM {from}"), lines);
    }
}

#[test]
fn zero_padded_numbers_were_compared_as_texts() {
    let mut vault = Vault::default();
    for (name, order) in [("c", json!("010")), ("a", json!("02")), ("d", json!("later")), ("b", json!(9)), ("e", json!(11))] {
        vault.add(&format!("{name}.md"), &json!({"order": order}), &[]);
    }
    let names = |query: &str| {
        let answer = ask(&vault, query).unwrap().markdown;
        answer.lines().filter_map(|line| line.split("[[").nth(1)?.chars().next()).collect::<String>()
    };
    assert_eq!(names("LIST SORT order"), "abced");
    assert_eq!(names("LIST WHERE order < 10"), "ab");
    assert_eq!(names("LIST WHERE order = 10"), "c");
    assert_eq!(names("LIST WHERE order = \"010\""), "c");
    assert_eq!(names("LIST WHERE order = \"10\""), "");
    assert!(ask(&vault, "TABLE order").unwrap().markdown.contains("| 010 |"), "as written");
}

#[test]
fn lists() {
    check_list(
        "list",
        &[DUNE, EMMA, SOLARIS, "- [[Daily/2025-09-01.md|2025-09-01]]", HOME, AUSTEN, HERBERT, "- [[Work/Project.md|Project]]"],
    );
    check_list("LIST rating FROM #book", &[&format!("{DUNE}: 9"), &format!("{EMMA}: 7"), &format!("{SOLARIS}: 9")]);
    check_list("LIST WITHOUT ID title FROM #book", &["- Dune", "- Emma | a novel", "- Solaris"]);
    check_list("LIST WITHOUT ID FROM \"Books/Dune\"", &[DUNE]);
    check_list("LIST read FROM \"Books\"", &[&format!("{DUNE}: true"), &format!("{EMMA}: false"), &format!("{SOLARIS}: -")]);
    check_list("LIST mood FROM \"Books/Dune\"", &["- [[Books/Dune.md|Dune]]: dark, \"deep\""]);
    check_list("LIST weight FROM #daily", &["- [[Daily/2025-09-01.md|2025-09-01]]:", "    - 70.5", "    - 71"]);
    check_list(
        "LIST list(1, list(2, 3)) FROM \"Home\"",
        &[&format!("{HOME}:"), "    - 1", "    -", "        - 2", "        - 3"],
    );
    check_list("LIST meta FROM \"Books/Dune\"", &[&format!("{DUNE}: {{ rows: [1, 2], shelf: A }}")]);
    check_list("LIST author.born FROM #classic", &[&format!("{DUNE}: 1920"), &format!("{EMMA}: 1775")]);
}

#[test]
fn tables() {
    check(
        "TABLE rating, title AS \"Name | full\", author FROM #classic",
        "| File | rating | Name \\| full | author |\n| --- | --- | --- | --- |\n\
         | [[Books/Dune.md\\|Dune]] | 9 | Dune | [[People/Herbert.md\\|Herbert]] |\n\
         | [[Books/Emma.md\\|Emma]] | 7 | Emma \\| a novel | [[People/Austen.md\\|Austen]] |",
    );
    check(
        "TABLE WITHOUT ID title,\n  pages * 2 FROM #book/scifi",
        "| title | pages * 2 |\n| --- | --- |\n| Dune | 1224 |\n| Solaris | 408 |",
    );
    check("TABLE FROM #person LIMIT 1", "| File |\n| --- |\n| [[People/Austen.md\\|Austen]] |");
    check(
        "TABLE published, took FROM \"Books/Solaris\"",
        "| File | published | took |\n| --- | --- | --- |\n| [[Books/Solaris.md\\|Solaris]] | - | - |",
    );
    check("TABLE WITHOUT ID \"a\\nb\" + file.name FROM \"Home\"", "| \"a\\nb\" + file.name |\n| --- |\n| a\\nbHome |");
    check("TABLE x FROM #nothing", "No results.");
}

#[test]
fn commands() {
    check_list("LIST WHERE rating > 8", &[DUNE, SOLARIS]);
    check_list("LIST where rating >= this.best where !read", &[SOLARIS]);
    check_list("LIST FROM #book SORT pages", &[SOLARIS, EMMA, DUNE]);
    check_list("LIST FROM #book SORT rating DESC, title DESCENDING", &[SOLARIS, DUNE, EMMA]);
    check_list("LIST FROM #book SORT published asc", &[SOLARIS, EMMA, DUNE]);
    check_list("LIST FROM #book SORT sort(list(title))[0]", &[DUNE, EMMA, SOLARIS]);
    check_list("LIST SORT file.name desc LIMIT 2", &[SOLARIS, "- [[Work/Project.md|Project]]"]);
    check_list("LIST LIMIT 2 SORT file.name desc", &[EMMA, DUNE]);
    check_list("LIST FROM #book // a remark\n// another\nWHERE read", &[DUNE]);
    check_list(
        "LIST genre FROM \"Books/Dune\" FLATTEN genre-list AS genre",
        &[&format!("{DUNE}: scifi"), &format!("{DUNE}: epic")],
    );
    check_list("LIST FROM \"Books\" WHERE contains(file.inlinks, this.file.link)", &[DUNE]);
    check_list("LIST WHERE contains(file.outlinks, [[Dune]])", &[EMMA, HOME, HERBERT]);
    check_list("LIST WHERE file.day", &["- [[Daily/2025-09-01.md|2025-09-01]]"]);
    check_list("LIST WHERE file.name = \"Dune\" or (born and born < 1800)", &[DUNE, AUSTEN]);
}

#[test]
fn groups() {
    check_list("LIST FROM #book GROUP BY rating", &["- 7", "- 9"]);
    check_list(
        "LIST rows.file.link FROM #book GROUP BY rating",
        &["- 7:", "    - [[Books/Emma.md|Emma]]", "- 9:", "    - [[Books/Dune.md|Dune]]", "    - [[Books/Solaris.md|Solaris]]"],
    );
    check_list("LIST length(rows) FROM #book GROUP BY file.folder", &["- Books: 3"]);
    check_list("LIST score + key FROM #book GROUP BY rating AS score SORT score DESC", &["- 9: 18", "- 7: 14"]);
    check_list("LIST FROM #book GROUP BY read", &["- -", "- false", "- true"]);
    check_list(
        "LIST rows GROUP BY author WHERE key",
        &[
            "- [[People/Austen.md|Austen]]:",
            "    - [[Books/Emma.md|Emma]]",
            "- [[People/Herbert.md|Herbert]]:",
            "    - [[Books/Dune.md|Dune]]",
        ],
    );
    check(
        "TABLE sum(rows.pages) AS Pages FROM #book GROUP BY rating",
        "| rating | Pages |\n| --- | --- |\n| 7 | 474 |\n| 9 | 816 |",
    );
    check(
        "TABLE rows.title FROM #book GROUP BY rating FLATTEN rows.title AS t WHERE t = \"Solaris\"",
        "| rating | rows.title |\n| --- | --- |\n| 9 | Dune, Solaris |",
    );
    check_list("LIST rows.key FROM #book GROUP BY rating GROUP BY key > 8", &["- false:", "    - 7", "- true:", "    - 9"]);
}

#[test]
fn tasks() {
    let ship = "- [x] Ship it 📅 2025-09-20 ➕ 2025-09-01\n    - [/] Half done";
    let draft = "- [ ] Write draft [due:: 2025-09-02] #urgent\n    - [x] Outline ✅ 2025-08-30\n    - a remark [source:: talk]";
    let head = "[[Work/Project.md|Project]]\n";
    check("TASK", &format!("{head}\n{draft}\n{ship}"));
    for (condition, tasks) in [
        ("!completed", format!("{draft}\n- [/] Half done")),
        ("due and due < date(today)", draft.to_owned()),
        // What is not there comes before everything, as in Dataview.
        ("due < date(today) and contains(text, \"Half\")", "- [/] Half done".to_owned()),
        ("due = date(2025-09-20)", ship.to_owned()),
        ("completion = date(2025-08-30)", "- [x] Outline ✅ 2025-08-30".to_owned()),
        ("created", ship.to_owned()),
        ("contains(tags, \"#urgent\")", draft.to_owned()),
        ("status = \"/\"", "- [/] Half done".to_owned()),
        ("checked and !completed", "- [/] Half done".to_owned()),
        ("completed and !fullyCompleted", ship.to_owned()),
        ("length(children) = 2", draft.to_owned()),
        ("line = 9", draft.to_owned()),
        ("parent = 12", "- [/] Half done".to_owned()),
        ("meta(section).subpath = \"Plan\" and contains(text, \"Half\")", "- [/] Half done".to_owned()),
        ("file.name = \"Project\" and contains(text, \"Half\")", "- [/] Half done".to_owned()),
        ("any(children, (c) => c.source = \"talk\")", draft.to_owned()),
    ] {
        check(&format!("TASK WHERE {condition}"), &format!("{head}\n{tasks}"));
    }
    check("TASK WHERE completed GROUP BY file.link", &format!("{head}\n- [x] Outline ✅ 2025-08-30\n{ship}"));
    check("TASK WHERE completed GROUP BY status GROUP BY length(rows)", &format!("2 / x\n\n- [x] Outline ✅ 2025-08-30\n{ship}"));
    check("TASK FROM #book", "No results.");
    check(
        "LIST file.tasks.text WHERE file.tasks",
        "- [[Work/Project.md|Project]]:\n    - Write draft [due:: 2025-09-02] #urgent\n    - Outline ✅ 2025-08-30\n    - Ship it 📅 2025-09-20 ➕ 2025-09-01\n    - Half done",
    );
    check("LIST length(file.lists) WHERE file.tasks", "- [[Work/Project.md|Project]]: 5");
    check("LIST source WHERE source", "- [[Work/Project.md|Project]]: talk");
}

#[test]
fn unsupported() {
    for (query, what) in [
        ("CALENDAR file.day", "a CALENDAR query"),
        ("const p = dv.pages();\ndv.list(p)", "a query in JavaScript (dataviewjs)"),
        ("LIST currencyformat(1)", "the function `currencyformat`"),
        ("LIST FROM csv(\"a.csv\")", "FROM csv(…)"),
        ("LIST (x)(1)", "calling anything but a function by its name"),
        ("LIST regexmatch(\"(?=x)\", file.name)", "the pattern `^(?=x)$`"),
    ] {
        check_unanswered(query, &format!("{what} is not supported"));
    }
}

#[test]
fn mistakes_are_told_with_their_place() {
    for (query, expect) in [
        ("", "line 1 of the query, at `the end`: expected LIST, TABLE or TASK"),
        ("SHOW rating", "line 1 of the query, at `SHOW rating`: expected LIST, TABLE or TASK"),
        (
            "LIST\nFROM books",
            "line 2 of the query, at `books`: expected a source: #tag, \"folder\", [[note]] or outgoing([[note]])",
        ),
        ("LIST FROM #a\nWHERE", "line 2 of the query, at `the end`: expected an expression"),
        ("LIST WHERE a = ", "line 1 of the query, at `the end`: expected an expression"),
        ("LIST WHERE (a", "line 1 of the query, at `the end`: expected `)`"),
        (
            "LIST WHERE a SORT b sideways",
            "line 1 of the query, at `sideways`: expected FROM, WHERE, SORT, GROUP BY, FLATTEN or LIMIT",
        ),
        ("LIST GROUP rating", "line 1 of the query, at `rating`: expected BY"),
        ("LIST WHERE a FROM #b", "line 1 of the query, at `#b`: expected FROM only once, before the other commands"),
        ("TABLE a AS", "line 1 of the query, at `the end`: expected a name, or a text in quotes, after AS"),
        ("LIST LIMIT \"two\"", "LIMIT takes a number, not a value of type string"),
        ("LIST file.name * true", "LIST fits none of the rows: `*` cannot be used between string and boolean"),
        ("LIST WHERE lower(file.size)", "WHERE fits none of the rows: `lower` cannot be called with (number)"),
    ] {
        check_unanswered(query, expect);
    }
}

#[test]
fn a_row_with_a_fault_is_left_out() {
    check_list(
        "LIST rating + 1 FROM #book or #person",
        &[&format!("{DUNE}: 10"), &format!("{EMMA}: 8"), &format!("{SOLARIS}: 10")],
    );
}

#[test]
fn notes_read_are_told() {
    let read = |query: &str| ask(&vault(), query).unwrap().read;
    assert_eq!(read("LIST FROM #person"), ["People/Austen.md", "People/Herbert.md"]);
    assert_eq!(
        read("LIST author.born FROM \"Books/Dune\" WHERE rating = this.best"),
        ["Books/Dune.md", "Home.md", "People/Herbert.md"]
    );
}
