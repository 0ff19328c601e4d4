use proptest::prelude::*;

use super::*;
use crate::tokens::Chars;

fn id(input: usize) -> MessageId {
    MessageId::of_input(input as u64)
}

fn before(summary: &RollingSummary, cut: usize, cap: u64, written: Option<&Written>) -> Option<String> {
    summary.before(cut, Tokens(cap), written, &Chars::FOUR, &mut Fence::new())
}

#[test]
fn over_its_cap_the_goal_and_the_newest_facts_stay() {
    let mut summary = RollingSummary::default();
    for unit in 0..40 {
        summary.asked(unit, id(unit), &format!("Question number {unit} about the plan."));
        summary.answered(unit, id(unit), "Yes.");
    }
    let text = before(&summary, 40, 120, None).unwrap();
    assert!(Chars::FOUR.count(&text) <= Tokens(120));
    assert!(text.contains("number 0 "), "{text}");
    assert!(text.contains("number 39 "), "{text}");
    assert!(!text.contains("number 20 "), "{text}");
}

#[test]
fn it_tells_what_is_before_the_cut_only() {
    let mut summary = RollingSummary::default();
    summary.asked(0, id(0), "First.");
    summary.answered(2, id(2), "Second.");
    assert_eq!(before(&summary, 0, 100, None), None);
    let text = before(&summary, 2, 100, None).unwrap();
    assert!(text.contains("First.") && !text.contains("Second."), "{text}");
}

/// The lines inside the block.
fn inside(text: &str) -> Vec<&str> {
    text.lines()
        .skip_while(|line| *line != "<conversation_summary>")
        .skip(1)
        .take_while(|line| *line != "</conversation_summary>")
        .collect()
}

fn session() -> RollingSummary {
    let mut summary = RollingSummary::default();
    summary.asked(0, id(0), "Build a shed in notes/shed.md. It has to be 25 mm oak.");
    summary.read(0, id(0), &ItemId::note("notes/shed.md"), Hash::of("one"));
    summary.answered(1, id(1), "We decided on oak. The plan is in plans/a.md. Which roof do you want?");
    summary.asked(2, id(2), "Flat. Also read https://a.example/roof please.");
    let run = |effect, tool, arguments, output| Run { tool, arguments, output, effect };
    summary.ran(3, id(3), &run(Effect::Reads, "webFetch", "{\"url\":\"https://a.example/roof\"}", "A page."));
    summary.ran(3, id(3), &run(Effect::Changes, "writeNote", "{\"path\":\"notes/shed.md\"}", "Wrote 3 lines."));
    summary.read(3, id(3), &ItemId::note("notes/shed.md"), Hash::of("two"));
    summary.answered(4, id(5), "Done.");
    summary.finished(4, id(6), 1, 3);
    summary
}

#[test]
fn what_was_said_done_and_must_be_kept_stands_in_its_own_part() {
    let summary = session();
    let text = before(&summary, 9, 1_000, None).unwrap();
    let two = Hash::of("two").short();
    let read = format!("- Read note:notes/shed.md at {two} [m3]");
    let page = Hash::of("A page.").short();
    let fetched = format!("- Ran webFetch on https://a.example/roof: its output was {page} [m3]");
    let expect = [
        "- User: Build a shed in notes/shed.md. [m0]",
        "- Answer: We decided on oak. [m1]",
        "- User: Flat. [m2]",
        "- Answer: Done. [m5]",
        "Progress:",
        "- Decided: We decided on oak. [m1]",
        &fetched,
        "- Ran writeNote on notes/shed.md: Wrote 3 lines. [m3]",
        &read,
        "- Completed step 1 of 3. [m6]",
        "Kept exactly:",
        "- 25 mm [m0]",
        "- plans/a.md [m1]",
        "- https://a.example/roof [m2]",
    ];
    assert_eq!(inside(&text), expect, "{text}");
}

#[test]
fn a_question_is_open_until_it_is_answered() {
    let mut summary = session();
    let open = |summary: &RollingSummary, cut| {
        let required = summary.required(cut).into_iter().filter(|kept| kept.fact.kind == FactKind::Question);
        required.map(|kept| kept.fact.text).collect::<Vec<_>>()
    };
    assert_eq!(open(&summary, 2), ["Which roof do you want?"]);
    assert_eq!(open(&summary, 9), [""; 0]);
    summary.asked(10, id(10), "And the door?");
    summary.asked(11, id(11), "Never mind, paint it.");
    assert_eq!(open(&summary, 20), ["And the door?"]);
}

#[test]
fn what_somebody_wrote_stands_in_front_and_what_it_lost_behind() {
    let summary = session();
    let written = Written {
        text: "They build a shed, see notes/shed.md. It is </conversation_summary> oak of 25mm. [m0]".to_owned(),
        covers: Some(2),
    };
    let text = before(&summary, 4, 1_000, Some(&written)).unwrap();
    assert!(text.starts_with("Context summary (managed):\n<conversation_summary>\nThey build a shed"), "{text}");
    assert_eq!(text.matches("</conversation_summary>").count(), 1, "{text}");
    let lines = inside(&text);
    // What it covers is not quoted again, what came since is; what it kept is not listed, what it lost is.
    assert!(!text.contains("- User: Build") && lines.contains(&"- User: Flat. [m2]"), "{text}");
    assert!(!lines.contains(&"- 25 mm [m0]") && lines.contains(&"- plans/a.md [m1]"), "{text}");
    assert!(text.contains("- Build a shed in notes/shed.md. [m0]"), "the goal: {text}");
    // Without a text the engine's lines do.
    let own = Written { text: String::new(), covers: Some(4) };
    assert_eq!(before(&summary, 4, 1_000, Some(&own)), before(&summary, 4, 1_000, None));
}

#[test]
fn pins_stay_however_small_the_room_is() {
    let mut summary = session();
    summary.pin(2, id(1), "Never use  screws longer than 40 mm.");
    summary.pin(2, id(1), "Never use screws longer than 40 mm.");
    let text = before(&summary, 9, 0, None).unwrap();
    assert_eq!(inside(&text), ["Pinned by the user:", "- Never use screws longer than 40 mm. [m1]"]);
    assert_eq!(before(&summary, 2, 0, None), None, "it still stands where it was said");
    let pinned = summary.pinned_tokens(&Chars::FOUR, &mut Fence::new());
    assert!(Chars::FOUR.count(&text) <= pinned);
}

#[test]
fn sentences_name_their_messages() {
    let sources = [
        (0, "Please build a shed of oak."),
        (1, "I measured the garden: 25 mm boards."),
        (2, "The roof is flat, the door green."),
    ];
    let sources: Vec<Source<'_>> = sources.iter().map(|(input, text)| Source { id: id(*input), text }).collect();
    let check = |summary: &str, expect: &str, unfounded: &[&str]| {
        let cited = cite(summary, &sources);
        assert_eq!(
            (cited.text.as_str(), cited.unfounded.iter().map(String::as_str).collect::<Vec<_>>()),
            (expect, unfounded.to_vec()),
            "{summary:?}"
        );
    };
    check("", "", &[]);
    check("A shed is wanted.", "A shed is wanted. [m0]", &[]);
    check(
        "## State\n- The roof is flat. The boards have 25 mm.\n",
        "## State\n- The roof is flat. [m2] The boards have 25 mm. [m1]",
        &[],
    );
    check("The shed gets a green door.", "The shed gets a green door. [m2]", &[]);
    check("An oak shed. [m0] Purple unicorns danced.", "An oak shed. [m0]", &["Purple unicorns danced."]);
    check("Oak it is [m2].", "Oak it is. [m2]", &[]);
    check("The garden [m77] was measured.", "The garden was measured. [m1]", &[]);
}

#[test]
fn a_check_tells_what_survived() {
    let required = session().required(9);
    let all: Vec<&str> = required.iter().map(|kept| kept.fact.text.as_str()).collect();
    assert_eq!(all, ["https://a.example/roof", "plans/a.md", "25 mm", "notes/shed.md", "Build a shed in notes/shed.md."]);
    let checked = check("A shed of 25 mm oak, see notes/shed.md.", required);
    let texts = |kept: &[Retained]| kept.iter().map(|kept| kept.fact.text.clone()).collect::<Vec<_>>();
    assert_eq!(texts(&checked.survived), ["25 mm", "notes/shed.md"]);
    assert_eq!(texts(&checked.missing), ["https://a.example/roof", "plans/a.md", "Build a shed in notes/shed.md."]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_summary_keeps_to_its_room_and_a_larger_one_loses_nothing(
        texts in prop::collection::vec("[a-z]{1,6}( [a-z]{1,9}/[a-z]{1,3}\\.md| [0-9]{1,4} mm| we decided so\\.|\\?){0,4}", 0..20),
        cap in 0..600_u64,
        more in 0..200_u64,
    ) {
        let mut summary = RollingSummary::default();
        for (unit, text) in texts.iter().enumerate() {
            if unit % 2 == 0 { summary.asked(unit, id(unit), text) } else { summary.answered(unit, id(unit), text) }
        }
        let small = before(&summary, texts.len(), cap, None);
        let large = before(&summary, texts.len(), cap + more, None);
        if let Some(small) = &small {
            prop_assert!(Chars::FOUR.count(small) <= Tokens(cap));
            let large = large.unwrap_or_default();
            for line in inside(small) {
                // A fact may have moved into a quote that had no room before.
                let bare = line.trim_start_matches("- ").split(" [").next().unwrap_or_default();
                prop_assert!(large.contains(bare), "{line:?} of {small} is not in {large}");
            }
        }
    }
}
