use proptest::prelude::*;

use super::*;

/// A past that is all there.
struct Transcript(Vec<Remark>, usize);

impl Past for Transcript {
    fn news(&mut self) -> Result<Vec<Remark>, String> {
        let news = self.0[self.1..].to_vec();
        self.1 = self.0.len();
        Ok(news)
    }

    fn read(&mut self, id: MessageId) -> Result<Option<String>, String> {
        Ok(self.0.iter().find(|remark| remark.id == id).map(|remark| remark.text.clone()))
    }
}

fn recall(texts: &[(Role, &str)]) -> Recall {
    let remarks = (0..).zip(texts).map(|(input, (role, text))| Remark {
        id: MessageId::of_input(input),
        role: *role,
        run: input / 2,
        text: (*text).to_owned(),
    });
    Recall::new(Box::new(Transcript(remarks.collect(), 0)), None)
}

fn run(recall: &mut Recall, arguments: &str) -> Output {
    recall.run(&serde_json::from_str(arguments).unwrap())
}

#[test]
fn it_finds_and_reads_what_was_said() {
    let long = format!("{}the needle is at 51.2 N{}", "hay ".repeat(40_000), " hay".repeat(40_000));
    let mut recall = recall(&[
        (Role::User, "Where did we put the garden shed plans?"),
        (Role::Assistant, "They are in plans/shed-v2.md, section Roof."),
        (Role::User, "Thanks. What about the budget?"),
        (Role::Tool, &long),
        (Role::Assistant, "It is 1,200 EUR."),
    ]);
    let mut check = |arguments: &str, expect: &[&str]| {
        let output = run(&mut recall, arguments);
        assert!(!output.failed, "{arguments}: {}", output.text);
        for part in expect {
            assert!(output.text.contains(part), "{arguments}: {:?} is not in {}", part, output.text);
        }
        assert!(output.text.len() < 20_000);
    };
    check(
        r#"{"query": "shed plans"}"#,
        &["[m0] User, turn 1", "[m1] Assistant, turn 1\nAssistant: They are in plans/shed-v2.md"],
    );
    check(r#"{"query": "plans/shed-v2.md"}"#, &["\n[m1] Assistant"]);
    check(r#"{"query": "1,200 EUR", "limit": 1}"#, &["1 of 5", "[m4]"]);
    check(r#"{"id": "m1"}"#, &["characters 0 to 43 of 43", "plans/shed-v2.md", "before: [m0] next: [m2]"]);
    check(r#"{"id": "[m3]", "offset": 159000}"#, &["characters 159000 to 165000 of 320023", "needle", "\"offset\": 165000"]);
    check(r#"{"id": "m1", "offset": 999}"#, &["characters 43 to 43 of 43"]);
    check(r#"{"query": "xylophone quartz"}"#, &["Nothing that was said"]);
    let mut fails = |arguments: &str, expect: &str| {
        let output = run(&mut recall, arguments);
        assert!(output.failed && output.text.contains(expect), "{arguments}: {output:?}");
    };
    fails("{}", "give a query");
    fails(r#"{"id": "m99"}"#, "there is no message m99");
    fails(r#"{"id": "nine"}"#, "not the id of a message");
    fails(r#"{"query": 3}"#, "to search or");
    fails(r#"{"queries": "x"}"#, "unknown field");
    fails("null", "to search or");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_question_has_an_answer(query in ".{0,40}", id in "m?[0-9.]{0,6}", limit in 0..99_usize, offset in 0..99_usize) {
        let mut recall = recall(&[(Role::User, "é語 one"), (Role::Assistant, "two"), (Role::Tool, "three\u{0}")]);
        let _ = recall.run(&json!({"query": query, "limit": limit}));
        let _ = recall.run(&json!({"id": id, "offset": offset}));
    }
}
