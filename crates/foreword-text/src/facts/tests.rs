use proptest::prelude::*;

use super::*;

fn show(text: &str) -> String {
    facts(text).iter().map(|fact| format!("{} {}", fact.kind.as_str(), fact.text)).collect::<Vec<_>>().join("; ")
}

#[test]
fn exact_things_are_found_by_their_shape() {
    let check = |text: &str, expect: &str| assert_eq!(show(text), expect, "{text:?}");
    check("", "");
    check("Nothing to see here, and/or there. He said no.", "");
    check("Edit src/main.rs and crates/core/.", "path src/main.rs; path crates/core/");
    check("(see ./a/b, ~/notes or /etc/hosts)", "path ./a/b; path ~/notes; path /etc/hosts");
    check("C:\\Users\\me\\x.txt", "path C:\\Users\\me\\x.txt");
    check("the file Cargo.toml, twice: Cargo.toml", "path Cargo.toml");
    check("in [[Piano Lessons/Lesson 4#Scales|the lesson]] it says", "path Piano Lessons/Lesson 4");
    check("open \"Piano Lessons/Lesson 4.md\" now", "path Piano Lessons/Lesson 4.md");
    check("he said \"use `foo_bar` here\" twice", "identifier foo_bar");
    check("See https://a.example/x?y=1. Or www.example.org!", "url https://a.example/x?y=1; url www.example.org");
    check("[the docs](https://a.example/docs), [local](notes/a.md)", "url https://a.example/docs; path notes/a.md");
    check(
        "Drill 25 mm holes, 3.5kg each, 80 % full, $45 or 1,200 EUR.",
        "number 25 mm; number 3.5kg; number 80 %; number $45; number 1,200 EUR",
    );
    check("port 5432, 7 dwarfs, 0.93", "number 5432; number 0.93");
    check("the 4th of 12, 1st", "");
    check("on 2026-11-15 at 14:30, 15.11.2026 or 11/15/2026", "date 2026-11-15; date 14:30; date 15.11.2026; date 11/15/2026");
    check("2026-11-15T14:30:00Z", "date 2026-11-15T14:30:00Z");
    check(
        "on 15 November 2026, November 16, 2026, Nov 17 and March 2027.",
        "date 15 November 2026; date November 16 2026; date Nov 17; date March 2027",
    );
    check("you may 3 times march on", "");
    check(
        "Call parse_frontmatter() or Vec::new, useTool, ABC-123, a1b2c3d, v1.2.0, 1.2.3, #42, --dry-run",
        "identifier parse_frontmatter(); identifier Vec::new; identifier useTool; identifier ABC-123; identifier a1b2c3d; identifier v1.2.0; identifier 1.2.3; identifier #42; identifier --dry-run",
    );
    check("`cargo test -p core` and `x`", "identifier cargo test -p core; identifier x");
    check("write to a.b@example.org", "identifier a.b@example.org");
    check("**important_name** and _word_", "identifier important_name");
    check("```rust\nlet some_name = 1234; // src/lib.rs\n```\nother_name", "path src/lib.rs; identifier other_name");
    check("`unclosed src/a.rs", "path src/a.rs");
    check("[[unclosed src/a.rs", "path src/a.rs");
}

#[test]
fn sentences_state_goals_decisions_and_what_is_open() {
    let check = |text: &str, expect: &[(FactKind, &str)]| {
        let found = statements(text);
        let found: Vec<(FactKind, &str)> = found.iter().map(|found| (found.kind, found.text.as_str())).collect();
        assert_eq!(found, expect, "{text:?}");
    };
    check("Hello. How are you?", &[]);
    check("My goal is a quiet fan. It is loud.", &[(FactKind::Goal, "My goal is a quiet fan.")]);
    check("So we decided on oak. Nice.", &[(FactKind::Decision, "So we decided on oak.")]);
    check("- [ ] order   screws", &[(FactKind::Question, "- [ ] order screws")]);
    check("TODO: measure the door", &[(FactKind::Question, "TODO: measure the door")]);
    check("```\n// TODO: no\n```", &[]);
    let question = |text: &str| closing_question(text);
    assert_eq!(question("Done. Which colour do you want?\n").as_deref(), Some("Which colour do you want?"));
    assert_eq!(question("Which colour? I took blue."), None);
    assert_eq!(question(""), None);
}

#[test]
fn a_text_has_a_fact_only_if_it_has_it_unchanged() {
    let check = |text: &str, fact: &str, expect: bool| {
        let facts = facts(fact);
        assert_eq!(facts.len(), 1, "{fact:?}");
        assert_eq!(Saying::of(text).has(&facts[0]), expect, "{fact:?} in {text:?}");
    };
    check("the holes are 25mm wide", "25 mm", true);
    check("the holes are 26 mm wide", "25 mm", false);
    check("costs 1200 EUR.", "1,200 EUR", true);
    check("look at (src/main.rs).", "src/main.rs", true);
    check("look at src/main.rs.bak", "src/main.rs", false);
    check("run cargo test -p core first", "`cargo test -p core`", true);
    check("run cargo test -p core2 first", "`cargo test -p core`", false);
    check("on November 16 2026 we go", "November 16, 2026", true);
    let goal = Fact { kind: FactKind::Goal, text: "Build a  shed.".to_owned() };
    assert!(Saying::of("They want to build a shed. Soon.").has(&goal));
    assert!(!Saying::of("They want a shed.").has(&goal));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn every_text_has_its_own_facts(parts in prop::collection::vec(prop::sample::select(&[
        "src/a.rs", "`", "```\n", "[[", "]]", "\"", " ", "\n", "25", "mm", ".", "é語", "https://", "_", "()", "](", "-", "/", "November", "2026", ",", "x1y2", "\u{fffc}", "$",
    ][..]), 0..24)) {
        let text = parts.concat();
        let saying = Saying::of(&text);
        for fact in facts(&text) {
            prop_assert!(saying.has(&fact), "{:?} in {:?}", fact, text);
            prop_assert!(!fact.text.is_empty() && !fact.text.contains('\n'));
        }
        let _ = (statements(&text), closing_question(&text));
    }
}

#[test]
fn long_texts_take_time_in_proportion() {
    for unit in ["a", "`", "\"", "[", "[[", ".", "1", "/", "_", "a.", "a b ", "25 mm ", "\"a", "```\n", "::", "語"] {
        let text = unit.repeat(30_000 / unit.len());
        let started = std::time::Instant::now();
        let _ = (facts(&text), statements(&text), Saying::of(&text), closing_question(&text));
        assert!(started.elapsed().as_secs() < 5, "{unit:?} took {:?}", started.elapsed());
    }
}
