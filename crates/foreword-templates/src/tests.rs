use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use proptest::prelude::*;

use super::*;

const WHOLE: &str = "\
---
description: A test
passthrough-runs: all
token_threshold: 5_000
recent_runs: 4
model: some-model
week_start_day: Sunday
tags: [mine]
---
Whoever reads this.

## Chat Instructions

Be kind.

## Context Instructions
Be brief.
## State
@recent-runs 2
@recent_summaries: 1
@model none
@input file: Notes/Goal.md (required)
@input variable: facts
@header \"Where we are\"
@cache 10m

Tell {{ latest_input }}.
@not a directive
```yaml
## not a heading
```
## Facts
@output variable: facts
@cache weekly
";

#[test]
fn everything_a_template_may_say_is_read() {
    let parsed = parse(WHOLE);
    assert_eq!(parsed.flaws, []);
    assert_eq!(parsed.description.as_deref(), Some("A test"));
    assert_eq!(
        (parsed.passthrough_runs, parsed.recent_runs, parsed.token_threshold),
        (Some(Runs::All), Some(Runs::Last(4)), Some(5_000))
    );
    assert_eq!((parsed.model, parsed.week_start_day), (Some(Writer::Named("some-model".to_owned())), Weekday::Sunday));
    assert_eq!(
        (parsed.chat_instructions.as_deref(), parsed.context_instructions.as_deref()),
        (Some("Be kind."), Some("Be brief."))
    );
    let state = Step {
        name: "State".to_owned(),
        text: "Tell {{ latest_input }}.\n@not a directive\n```yaml\n## not a heading\n```".to_owned(),
        recent_runs: Some(Runs::Last(2)),
        recent_summaries: Some(Runs::Last(1)),
        model: Some(Writer::None),
        input: vec![
            Given { what: Named::File("Notes/Goal.md".to_owned()), required: true },
            Given { what: Named::Variable("facts".to_owned()), required: false },
        ],
        output: None,
        header: Some("Where we are".to_owned()),
        cache: Some(Hold::Seconds(600)),
    };
    let facts = Step { name: "Facts".to_owned(), output: Some("facts".to_owned()), cache: Some(Hold::Weekly), ..Step::default() };
    assert_eq!(parsed.steps, [state, facts]);
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_left_out() {
    let check = |text: &str, expect: &[(usize, &str)]| {
        let flaws = parse(text).flaws;
        assert_eq!(flaws.len(), expect.len(), "{text:?}: {flaws:?}");
        for (flaw, (line, what)) in flaws.iter().zip(expect) {
            assert!(flaw.line == *line && flaw.what.contains(what), "{text:?}: {flaw:?}");
        }
    };
    check("", &[(1, "there is no step")]);
    check("## Chat Instructions\nBe short.", &[(1, "there is no step")]);
    check("Only words.", &[]);
    check("---\nrecent_runs: many\n---\n## A\nx", &[(1, "\"many\" is neither a number nor `all`")]);
    check("---\nweek_start_day: Someday\n---\n", &[(1, "not a day of the week"), (4, "there is no step")]);
    check("## A\n@cache soon\nx", &[(2, "30s, 10m, 2h")]);
    check("## A\n@colour red\nx", &[(2, "unknown directive")]);
    check("## A\n@tools web\nx", &[(2, "not supported")]);
    check("## A\n@model\nx", &[(2, "the value is missing")]);
    check("## A\n@output file: a.md\nx", &[(2, "cannot write files")]);
    check("## A\n@output context\nx", &[]);
    check("## A\n@input [[Goal]]\nx", &[]);
    check("## A\n```json\n{\"a\": }\n```", &[(1, "not valid JSON")]);
    check(&"## A\nx\n".repeat(20), &[(33, "more than 16 steps")]);
    assert_eq!(parse("Only words.").steps[0].text, "Only words.");
}

#[test]
fn placeholders_are_filled_in() {
    let values: BTreeMap<String, String> = [("name", "Ada"), ("empty", ""), ("tricky", "{{ name }} \u{fdd0}0\u{fdd0}")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    let check = |text: &str, expect: &str, missing: &[&str]| {
        let rendered = render(text, &values);
        assert_eq!(
            (rendered.text.as_str(), &rendered.missing[..], rendered.failed),
            (expect, &missing.iter().map(ToString::to_string).collect::<Vec<_>>()[..], None),
            "{text:?}"
        );
    };
    check("plain", "plain", &[]);
    check("Hello {{ name }}!", "Hello Ada!", &[]);
    check("{{ other }}|{{ other.deep.er }}", "|", &["other"]);
    check("{% if empty %}a{% else %}b{% endif %}{% if name %}c{% endif %}", "bc", &[]);
    check("{{ tricky }}", "{{ name }} \u{fdd0}0\u{fdd0}", &[]);
    check("a {# note #}b", "a b", &[]);
    let fails = |text: &str, expect: &str| {
        let rendered = render(text, &values);
        assert!(
            rendered.text == text && rendered.failed.as_ref().is_some_and(|why| why.contains(expect)),
            "{text:?}: {rendered:?}"
        );
    };
    fails("{{ name", "invalid placeholders");
    fails("{%- set x = name %}", "`set`");
    fails("{{ name | upper }}", "invalid placeholders");
    fails(
        "{% for a in 'abcdefghijklmnopqrstuvwxyz' %}{% for b in 'abcdefghijklmnopqrstuvwxyz' %}{% for c in 'abcdefghijklmnopqrstuvwxyz' %}{% for d in 'abcdefghijklmnopqrstuvwxyz' %}x{% endfor %}{% endfor %}{% endfor %}{% endfor %}",
        "invalid placeholders",
    );
}

#[test]
fn the_vault_comes_first_then_the_user_then_what_comes_with_it() {
    let vault = tempfile::tempdir().unwrap();
    let user = tempfile::tempdir().unwrap();
    let write = |path: std::path::PathBuf, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let (ours, theirs) = ("Foreword/ContextTemplates", "AssistantMD/ContextTemplates");
    let trusted = [(theirs, "goal-oriented", "Theirs."), (ours, "goal-oriented", "Ours."), (ours, "sub/deep", "Deep.")];
    let trusted = trusted.map(|(folder, name, text)| (format!("{folder}/{name}.md"), Hash::of(text)));
    let shelf = Shelf::new(Some(vault.path()), BTreeSet::from(trusted), Some(user.path()));
    let check = |name: &str, expect: Result<(Origin, Option<&str>), &str>| {
        let found = shelf.find(name);
        match (&found, expect) {
            (Ok(found), Ok((origin, path))) => assert_eq!((&found.origin, found.path.as_deref()), (&origin, path), "{name}"),
            (Err(error), Err(expect)) => assert!(error.to_string().contains(expect), "{name}: {error}"),
            (found, expect) => panic!("{name}: {found:?}, not {expect:?}"),
        }
    };
    check("goal-oriented", Ok((Origin::Builtin, None)));
    check("Goal_Oriented.md", Ok((Origin::Builtin, None)));
    write(user.path().join("goal-oriented.md"), "Mine.");
    check("goal-oriented", Ok((Origin::User, Some("goal-oriented.md"))));
    write(vault.path().join("AssistantMD/ContextTemplates/goal-oriented.md"), "Theirs.");
    check("goal-oriented", Ok((Origin::Vault, Some("AssistantMD/ContextTemplates/goal-oriented.md"))));
    write(vault.path().join("Foreword/ContextTemplates/goal-oriented.md"), "Ours.");
    check("goal-oriented.md", Ok((Origin::Vault, Some("Foreword/ContextTemplates/goal-oriented.md"))));
    write(vault.path().join("Foreword/ContextTemplates/sub/deep.md"), "Deep.");
    write(vault.path().join("Foreword/ContextTemplates/_hidden/deep.md"), "Hidden.");
    write(vault.path().join("Foreword/ContextTemplates/_hidden.md"), "Hidden.");
    write(vault.path().join("Foreword/ContextTemplates/sub/deeper/deep.md"), "Too deep.");
    check("sub/deep", Ok((Origin::Vault, Some("Foreword/ContextTemplates/sub/deep.md"))));
    check("_hidden", Err("invalid template name"));
    check("sub/deeper/deep", Err("invalid template name"));
    check("../secret", Err("invalid template name"));
    check("", Err("invalid template name"));
    check("goal", Err("did you mean \"goal-oriented\"?"));
    let listed: Vec<(String, &str, bool)> =
        shelf.list().into_iter().map(|listed| (listed.name, listed.origin.as_str(), listed.hidden)).collect();
    let expect = [
        ("coding", "builtin", false),
        ("freeform-chat", "builtin", false),
        ("goal-oriented", "vault", false),
        ("goal-oriented", "vault", true),
        ("goal-oriented", "user", true),
        ("goal-oriented", "builtin", true),
        ("research-notes", "builtin", false),
        ("sub/deep", "vault", false),
    ];
    assert_eq!(listed, expect.map(|(name, origin, hidden)| (name.to_owned(), origin, hidden)));
    assert_eq!(shelf.find("goal-oriented").unwrap().hash, Hash::of("Ours."));
}

#[test]
fn those_that_come_with_it_have_no_flaws() {
    for (name, text) in BUILTIN {
        let parsed = parse(text);
        assert_eq!((parsed.flaws, parsed.steps.len()), (vec![], 1), "{name}");
        assert!(parsed.description.is_some() && render(text, &BTreeMap::new()).failed.is_none(), "{name}");
    }
    assert_eq!(parse(&new_text("sub/mine")).flaws, []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_is_read(parts in prop::collection::vec(prop::sample::select(&[
        "---\n", "## ", "## A\n", "@input ", "@cache 9d", "\n", "```", "```json\n", "{{", "}}", "{%", "%}", "(required)", "é", ":", "recent_runs: all\n", "[[", "x", " ",
    ][..]), 0..24)) {
        let text = parts.concat();
        for step in parse(&text).steps {
            let _ = render(&step.text, &BTreeMap::new());
        }
    }
}
