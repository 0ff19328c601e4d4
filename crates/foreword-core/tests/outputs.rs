//! What a tool gave back is not lost on its way to the model: every line stands in the prompt, is counted by a mark, or is in the whole
//! output that the prompt points to.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::format_collect)]

use std::sync::Arc;

use foreword_core::budget::Budget;
use foreword_core::catalog::Agent;
use foreword_core::item::ItemId;
use foreword_core::message::ToolCall;
use foreword_core::prompt::CachePrices;
use foreword_core::session::{Input, Session, TurnInput, TurnResult};
use foreword_core::settings::{Layout, Settings};
use foreword_core::tokens::Chars;
use proptest::prelude::*;
use serde_json::{Value, json};

const CAP: usize = 600;

fn session(layout: Layout) -> Session {
    let settings = Settings {
        layout,
        budget: Budget { output_chars: CAP, ..Budget::default() },
        ..Settings::new(
            "test",
            CachePrices { input: 1.0, read: 0.1, write: 1.25, lifetime_s: Some(300), ..CachePrices::default() },
        )
    };
    Session::new(Agent::default(), settings, Arc::new(Chars::FOUR)).unwrap()
}

fn turn(results: Vec<TurnResult>) -> Input {
    let words = "What was paid?".to_owned();
    Input::Turn(TurnInput { words, results, ..TurnInput::default() })
}

/// How a tool's output comes to a session.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// With the user's words, as search results do.
    WithTheTurn,
    /// As the result of a call.
    AfterACall,
}

/// What the prompt says, the outputs that are kept whole, and the notes of the request.
type Shown = (String, Vec<(ItemId, Arc<str>)>, Vec<String>);

/// What the prompt says after a tool gave that back, and the outputs that are kept whole.
fn shown(way: Way, layout: Layout, output: &str, arguments: Value) -> Shown {
    let mut session = session(layout);
    let mut apply = |input: Input| session.apply(input).unwrap();
    match way {
        Way::WithTheTurn => {
            let result = TurnResult { tool: "localSearch".to_owned(), output: output.to_owned(), ..TurnResult::default() };
            apply(turn(vec![result]));
        }
        Way::AfterACall => {
            apply(turn(Vec::new()));
            let name = if arguments.get("id").is_some() { "readOutput" } else { "shell" }.to_owned();
            let calls = vec![ToolCall { id: "a".to_owned(), name, arguments }];
            apply(Input::Assistant { text: String::new(), opaque: Vec::new(), calls });
            apply(Input::ToolResult { id: "a".to_owned(), output: output.to_owned(), failed: false, found: Vec::new() });
        }
    }
    let envelope = session.request().unwrap();
    let text: Vec<_> = session.messages().iter().map(|message| message.content().into_owned()).collect();
    let kept = session.take_outbox();
    (text.join("\n"), kept, envelope.notes.iter().map(|note| note.kind.to_string()).collect())
}

/// Lines as a program may write them, each with the line that a screen shows of it.
fn line() -> impl Strategy<Value = (String, String)> {
    let plain = "[a-z]{1,6} [0-9]{1,3}[ %]{0,2}[a-z]{0,3}";
    prop_oneof![
        6 => plain.prop_map(|line| (line.clone(), line)),
        1 => plain.prop_map(|line| (format!("\u{1b}[32m{line}\u{1b}[0m"), line)),
        1 => (plain, plain).prop_map(|(first, last)| (format!("{first}\r{last}"), last)),
        1 => Just((String::new(), String::new())),
    ]
}

fn lines() -> impl Strategy<Value = Vec<(String, String)>> {
    let run = (line(), prop_oneof![4 => Just(1_usize), 1 => 2..40_usize]);
    prop::collection::vec(run, 0..60)
        .prop_map(|runs| runs.into_iter().flat_map(|(line, times)| std::iter::repeat_n(line, times)).collect())
}

/// How often each line of a reduced text was there, with the marks counted out.
fn counted(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    for line in text.split('\n') {
        let mark = line.strip_prefix("[the line above ").and_then(|rest| rest.strip_suffix(" more times]"));
        match (mark.and_then(|number| number.parse::<usize>().ok()), out.last().copied()) {
            (Some(times), Some(last)) => out.extend(std::iter::repeat_n(last, times)),
            _ => out.push(line),
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_line_is_lost(lines in lines(), way in prop_oneof![Just(Way::WithTheTurn), Just(Way::AfterACall)], log in any::<bool>()) {
        let output = lines.iter().map(|(line, _)| line.as_str()).collect::<Vec<_>>().join("\n");
        let screen: Vec<&str> = lines.iter().map(|(_, shown)| shown.as_str()).collect();
        let layout = if log { Layout::Log } else { Layout::Library };
        let (prompt, kept, notes) = shown(way, layout, &output, json!({}));
        let pointer = prompt.split("whole text: ").nth(1).map(|rest| rest.split(']').next().unwrap_or_default().to_owned());
        if let Some(pointer) = pointer {
            let whole = kept.iter().find(|(id, _)| id.to_string() == pointer);
            prop_assert_eq!(whole.map(|(_, text)| &**text), Some(output.as_str()), "the pointer leads to what the tool said");
        }
        if !notes.contains(&"capped".to_owned()) {
            let all = counted(&prompt);
            let found = screen.is_empty() || all.windows(screen.len()).any(|window| window == screen);
            prop_assert!(found, "{screen:#?}\nis not in\n{prompt}");
            let overwritten = lines.iter().any(|(line, shown)| line.split('\r').any(|part| !shown.starts_with(part.trim_end()) && !line.contains('\u{1b}')));
            prop_assert!(!overwritten || prompt.contains("whole text: "), "nothing points to what was overwritten: {prompt}");
            let as_it_was = prompt.contains(&output);
            prop_assert!(as_it_was || notes.contains(&"reduced".to_owned()), "{:?}: {prompt}", notes);
        }
    }

    #[test]
    fn what_is_read_again_is_never_reduced(lines in lines()) {
        let output = lines.iter().map(|(_, shown)| shown.as_str()).collect::<Vec<_>>().join("\n");
        let id = format!("output:{}", "a".repeat(64));
        let (prompt, _, _) = shown(Way::AfterACall, Layout::Log, &output, json!({"id": id}));
        let cut = output.chars().count() > CAP;
        prop_assert!(if cut { prompt.contains(&format!("whole text: {id}]")) } else { prompt.contains(&output) }, "{prompt}");
    }
}

#[test]
fn carriage_returns_hide_nothing() {
    for (way, layout) in [(Way::WithTheTurn, Layout::Log), (Way::AfterACall, Layout::Library)] {
        let (prompt, _, _) = shown(way, layout, "Paid 10 EUR\rPaid 107 EUR\rPaid 204 EUR", json!({}));
        assert!(prompt.contains("Paid 10 EUR\nPaid 107 EUR\nPaid 204 EUR"), "{prompt}");
        let progress = "Paid 10 EUR\rPaid 107 EUR\rPaid 204 EUR\nPaid 9 EUR\n";
        let (prompt, kept, notes) = shown(way, layout, progress, json!({}));
        let id = ItemId::output(foreword_core::hash::Hash::of(progress));
        let end =
            format!("Paid 204 EUR\nPaid 9 EUR\n\n[Text that a terminal would have overwritten is left out; whole text: {id}]");
        assert!(prompt.contains(&end), "{prompt}");
        assert_eq!(kept, [(id, Arc::from(progress))]);
        assert_eq!(notes, ["reduced"]);
    }
}

#[test]
fn lines_that_only_look_alike_are_data() {
    let ledger: String = (0..6).map(|day| format!("Paid {} EUR on day {day}\n", day * 97 + 10)).collect();
    for (way, layout) in [(Way::WithTheTurn, Layout::Log), (Way::AfterACall, Layout::Library)] {
        let (prompt, _, notes) = shown(way, layout, &ledger, json!({}));
        assert!(prompt.contains(&ledger), "{prompt}");
        assert_eq!(notes, [""; 0], "nothing happened to it");
    }
}
