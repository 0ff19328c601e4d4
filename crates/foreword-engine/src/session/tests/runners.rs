//! The modes: what each asks for before and during a turn, and what stands on record.

use std::collections::BTreeMap;

use foreword_core::envelope::{Form, Inclusion};
use foreword_core::item::ItemId;
use foreword_core::layer::LayerId;
use foreword_core::passage::Passage;

use super::*;
use crate::session::turn::MAX_CALLS_PER_REPLY;

/// Tools that remember what they were called with.
#[derive(Default)]
struct Tools {
    calls: Vec<String>,
    nothing_to_search: bool,
}

impl ToolHost for Tools {
    fn run(&mut self, call: &Call<'_>, _stop: &CancellationToken) -> Output {
        match &call.tool {
            Err(why) => Output::failed(why.clone()),
            Ok(called) => {
                self.calls.push(format!("{} {}", called.tool, called.arguments));
                if called.arguments.get("path").is_some_and(|path| path == "a search") {
                    let (text, found) = searched("Beans.");
                    return Output { text, found, ..Output::default() };
                }
                Output::done("the note says 42")
            }
        }
    }

    fn check(&mut self, called: &Called) -> Result<(), String> {
        let path = called.arguments.get("path").is_some_and(serde_json::Value::is_string);
        if path { Ok(()) } else { Err("path is missing; it must be a text.".to_owned()) }
    }

    fn sources(&mut self, words: &str, _: Size, _: Tokens) -> Result<Sources, String> {
        if self.nothing_to_search {
            return Err("the index is broken".to_owned());
        }
        let (output, found) = searched(words);
        let result = TurnResult { tool: "localSearch".to_owned(), output, found, ..TurnResult::default() };
        let source = |number, path: &str| Citable { number, path: path.to_owned() };
        Ok(Sources { result, citable: vec![source(1, "Kitchen/Bread.md"), source(2, "Garden/Beds.md")] })
    }

    fn scores(
        &mut self,
        _: &str,
        agent: &Agent,
        _: &foreword_core::settings::Settings,
    ) -> Result<BTreeMap<ItemId, Vec<f64>>, String> {
        let found = agent.rules.iter().map(|rule| (ItemId::new(foreword_core::item::Kind::Rule, &rule.name), vec![0.9]));
        Ok(found.collect())
    }
}

/// What a search for `words` gives back: two notes, of which one says the words.
fn searched(words: &str) -> (String, Vec<Passage>) {
    let mut text = "Two results:\n\n".to_owned();
    let notes = [("Bread", "Kitchen/Bread.md", "Salt."), ("Beds", "Garden/Beds.md", words)];
    let found = (1..).zip(notes).map(|(number, (title, path, says))| {
        let start = text.len();
        let block = format!("[{number}] {title}\npath: {path}\nsimilarity: 0.50\n> {says}\n\n");
        text.push_str(&block);
        let (item, title, heading) = (ItemId::note(path), title.to_owned(), String::new());
        Passage { item, number, title, heading, score: 0.5, start, end: text.len(), stands: false }
    });
    let found = found.collect();
    (text + "Cite them.", found)
}

impl Place {
    fn at_work(&self, mode: Mode) -> RecordedSession {
        let agent: Agent = serde_json::from_value(json!({
            "system_prompt": "You work with notes.",
            "rules": [{"name": "units", "text": "Use metric units.", "include": "agent"}],
            "tools": [{"server": "fs", "name": "read", "description": "reads a note", "schema": {"type": "object", "required": ["path"]}}],
        }))
        .unwrap();
        let setup = Setup::new("s", Some("gpt-6.1-sol"), Layout::Log, 3, None).unwrap();
        let mut kept =
            RecordedSession::begin(Box::new(self.store()), "s", &agent, &setup, None, Some(self.chats()), self.tick()).unwrap();
        kept.set_mode(mode, self.tick());
        kept
    }

    fn ask(
        &self,
        kept: &mut RecordedSession,
        words: &str,
        replies: &serde_json::Value,
        hands: &mut Tools,
    ) -> (TurnOutcome, String) {
        let turn = TurnInput { words: words.to_owned(), ..TurnInput::default() };
        let mut shown = String::new();
        let mut each = |event: Event<'_>| {
            if let Event::Part(part) = event {
                shown.push_str(part);
            }
        };
        let question = Question { turn, ..Question::default() };
        let said = kept.send(question, &mut script(replies), hands, &|| self.tick(), &mut each).unwrap();
        (said, shown)
    }
}

fn sent(kept: &RecordedSession, request: u64) -> String {
    String::from_utf8(wire(kept.store(), kept.id(), request).unwrap()).unwrap()
}

fn kinds(kept: &RecordedSession) -> Vec<String> {
    kept.store().log(kept.id(), 0).unwrap().into_iter().map(|entry| entry.kind).collect()
}

#[test]
fn qa_searches_cites_and_lists_what_was_cited() {
    let place = Place::new();
    let mut kept = place.at_work(Mode::Qa);
    let mut hands = Tools::default();
    let (said, shown) = place.ask(&mut kept, "Why was it flat?", &json!([{"text": "No salt [^1]."}]), &mut hands);
    assert_eq!(said.text, "No salt [^1].\n\n[^1]: [[Kitchen/Bread]]");
    assert_eq!(said.text, shown);
    assert!(place.file().contains("No salt [^1].\n\n[^1]: [[Kitchen/Bread]]"), "{}", place.file());
    let body = sent(&kept, 0);
    assert!(body.contains("<localSearch>") && body.contains("Garden/Beds.md") && body.contains("metric"), "{body}");
    // What the engine wrote under the answer is not put into the model's mouth.
    place.ask(&mut kept, "And now?", &json!([{"text": "Nothing to cite."}]), &mut hands);
    assert!(!sent(&kept, 1).contains("[[Kitchen/Bread]]"));
    assert!(!place.file().contains("cite.\n\n[^"), "{}", place.file());
    assert_eq!(kept.take_failures(), []);
    place.ask(&mut kept, "Sure?", &json!([{"text": "Made up [^7]."}]), &mut hands);
    assert!(kept.take_failures()[0].0.contains("[^7]"));
    assert_eq!(kinds(&kept)[..5], ["mode", "asked", "turn", "assistant", "cited"]);
    clean(kept.store());
}

/// An item of a request: how it came in, its score, its layer and its form.
fn item(kept: &RecordedSession, request: u64, name: &str) -> Option<(Inclusion, Option<f64>, Option<LayerId>, Form)> {
    let context = inspect(kept.store(), kept.id(), request).unwrap().context;
    let entry = context.into_iter().find(|entry| entry.item.to_string() == name);
    entry.map(|entry| (entry.include, entry.score, entry.layer, entry.form))
}

#[test]
fn what_is_found_is_on_record_as_notes() {
    let place = Place::new();
    let mut kept = place.at_work(Mode::Qa);
    place.ask(&mut kept, "Why was it flat?", &json!([{"text": "No salt [^1]."}]), &mut Tools::default());
    let expect = Some((Inclusion::Agent, Some(0.5), Some(LayerId::L3), Form::Passage));
    assert_eq!(item(&kept, 0, "note:Kitchen/Bread.md"), expect);
    assert_eq!(item(&kept, 0, "note:Garden/Beds.md"), expect);
    let shown = inspect(kept.store(), kept.id(), 0).unwrap();
    assert!(shown.context.iter().all(|entry| !entry.item.to_string().starts_with("output:")), "{:?}", shown.context);
    let segments: Vec<_> = shown.layers[3].segments.iter().map(|segment| segment.id.as_str()).collect();
    assert_eq!(segments[1..4], ["engine:search", "note:Kitchen/Bread.md", "note:Garden/Beds.md"]);
    let found = found_by_turn(kept.store(), kept.id()).unwrap();
    let texts: Vec<_> = found[&1].iter().map(|note| (note.number, note.path.as_str(), note.text.as_str())).collect();
    assert_eq!(texts, [(1, "Kitchen/Bread.md", "Salt."), (2, "Garden/Beds.md", "Why was it flat?")]);
    clean(kept.store());
}

#[test]
fn what_a_model_finds_is_on_record_as_notes() {
    let place = Place::new();
    let mut kept = place.at_work(Mode::Chat);
    let replies = json!([{"calls": [{"id": "a", "name": "read", "arguments": {"path": "a search"}}]}, {"text": "Beans."}]);
    let mut found = Vec::new();
    let turn = TurnInput { words: "What grows there?".to_owned(), ..TurnInput::default() };
    let mut each = |event: Event<'_>| {
        if let Event::Found(notes) = event {
            found.extend(notes.iter().map(|note| note.path.clone()));
        }
    };
    let question = Question { turn, ..Question::default() };
    kept.send(question, &mut script(&replies), &mut Tools::default(), &|| place.tick(), &mut each).unwrap();
    assert_eq!(found, ["Kitchen/Bread.md", "Garden/Beds.md"]);
    let expect = Some((Inclusion::Agent, Some(0.5), Some(LayerId::L4), Form::Passage));
    assert_eq!((item(&kept, 0, "note:Garden/Beds.md"), item(&kept, 1, "note:Garden/Beds.md")), (None, expect));
    clean(kept.store());
}

#[test]
fn a_note_that_is_attached_and_found_is_sent_once() {
    let place = Place::new();
    let mut kept = place.at_work(Mode::Qa);
    let mut hands = Tools::default();
    let attached = vec![Version::note("Kitchen/Bread.md", None, "# Bread\n\nSalt.", Vec::new())];
    let turn = TurnInput { words: "Why was it flat?".to_owned(), attached, ..TurnInput::default() };
    let question = Question { turn, ..Question::default() };
    let mut speaker = script(&json!([{"text": "No salt."}]));
    kept.send(question, &mut speaker, &mut hands, &|| place.tick(), &mut |_| {}).unwrap();
    assert_eq!(sent(&kept, 0).matches("Salt.").count(), 1);
    assert_eq!(item(&kept, 0, "note:Kitchen/Bread.md"), Some((Inclusion::Manual, Some(0.5), Some(LayerId::L3), Form::Full)));
    // It stands above when it is found again.
    place.ask(&mut kept, "And now?", &json!([{"text": "Still none."}]), &mut hands);
    assert_eq!(sent(&kept, 1).matches("Salt.").count(), 1);
    let again = item(&kept, 1, "note:Kitchen/Bread.md");
    assert_eq!(again, Some((Inclusion::Agent, Some(0.5), Some(LayerId::L3), Form::Reference)));
    clean(kept.store());
}

#[test]
fn images_that_a_model_does_not_take_are_told() {
    let check = |model: &str, told: bool| {
        let place = Place::new();
        let setup = Setup::new("s", Some(model), Layout::Log, 0, None).unwrap();
        let mut kept =
            RecordedSession::begin(Box::new(place.store()), "s", &Agent::default(), &setup, None, None, place.tick()).unwrap();
        let (id, media_type) = (ItemId::new(foreword_core::item::Kind::Image, "a.png"), "image/png".to_owned());
        let image = foreword_core::message::Image { id, media_type, data: "iVBORw0KGgo=".into(), pixels: Some((2, 2)) };
        let attached = vec![Version::note("a.png", None, "![[a.png]]", vec![image])];
        let turn = TurnInput { words: "What is it?".to_owned(), attached, ..TurnInput::default() };
        let question = Question { turn, ..Question::default() };
        let preview = kept.preview(question.clone(), &mut NoHands, place.tick()).unwrap();
        assert_eq!(preview.problems.len(), usize::from(told), "{model}: {:?}", preview.problems);
        kept.send(question, &mut script(&json!([{"text": "A dot."}])), &mut NoHands, &|| place.tick(), &mut |_| {}).unwrap();
        let failures = kept.take_failures();
        assert_eq!(failures.len(), usize::from(told), "{model}: {failures:?}");
        assert!(failures.iter().all(|failure| failure.0.contains("does not support images") && failure.0.contains("a.png")));
        assert_eq!(sent(&kept, 0).contains("iVBORw0KGgo="), !told, "{model}");
    };
    for model in ["gpt-6.1-sol", "gpt-5.4", "claude-sonnet-5", "gemini-3.8-flash", "llama.cpp"] {
        check(model, false);
    }
    check("deepseek-chat", true);
}

#[test]
fn a_search_that_fails_leaves_plain_chat() {
    let place = Place::new();
    let mut kept = place.at_work(Mode::Qa);
    let mut hands = Tools { nothing_to_search: true, ..Tools::default() };
    let (said, _) = place.ask(&mut kept, "Why?", &json!([{"text": "I do not know [^1]."}]), &mut hands);
    assert_eq!(said.text, "I do not know [^1].");
    assert_eq!(kept.take_failures()[0].0, "the notes were not searched: the index is broken");
}

#[test]
fn a_plan_is_checked_repaired_once_and_run_before_the_answer() {
    let good = json!([{"tool": "read", "arguments": {"path": "Bread.md"}}]).to_string();
    let bad = json!([{"tool": "read", "arguments": {}}]).to_string();
    let other = json!([{"tool": "delete", "arguments": {}}]).to_string();
    let answer = json!({"text": "42."});
    let check = |replies: &[&str], calls: &[&str], failure: Option<&str>| {
        let place = Place::new();
        let mut kept = place.at_work(Mode::Plan);
        let mut hands = Tools::default();
        let mut lines: Vec<_> = replies.iter().map(|text| json!({"text": text})).collect();
        lines.push(answer.clone());
        let (said, shown) = place.ask(&mut kept, "What does it say?", &json!(lines), &mut hands);
        assert_eq!((said.text.as_str(), shown.as_str(), said.requests), ("42.", "42.", 1));
        assert_eq!(hands.calls, calls);
        let failures = kept.take_failures();
        assert_eq!(failures.len(), usize::from(failure.is_some()), "{failures:?}");
        assert!(failures.iter().all(|found| found.0.contains(failure.unwrap_or_default())), "{failures:?}");
        let body = sent(&kept, 0);
        assert_eq!(body.contains("<read>\\nthe note says 42\\n</read>"), !calls.is_empty(), "{body}");
        let asides = kept.store().log("s", 0).unwrap().into_iter().filter(|entry| entry.kind == "aside");
        let asides: Vec<SideExchange> = asides.map(|entry| serde_json::from_value(entry.body).unwrap()).collect();
        assert_eq!(asides.len(), replies.len());
        assert!(asides.iter().all(|aside| aside.purpose == "plan" && aside.body.contains("What does it say?")));
        clean(kept.store());
    };
    let read = "tool:fs/read {\"path\":\"Bread.md\"}";
    check(&[&good], &[read], None);
    check(&[&format!("Sure:\n```json\n{good}\n```")], &[read], None);
    check(&["[]"], &[], None);
    check(&[&bad, &good], &[read], None);
    check(&[&other, &good], &[read], None);
    check(&["I would read the note.", "Really."], &[], Some("no JSON array"));
    check(&[&bad, &bad], &[], Some("path is missing"));
}

#[test]
fn words_survive_while_their_plan_is_made() {
    struct Killed;
    impl ChatModel for Killed {
        fn answer(&mut self, _: std::sync::Arc<Outgoing>, _: CancellationToken) -> ReplyStream {
            panic!("killed")
        }
    }
    let place = Place::new();
    let mut kept = place.at_work(Mode::Plan);
    let turn = TurnInput { words: "What does it say?".to_owned(), ..TurnInput::default() };
    let question = Question { turn, ..Question::default() };
    let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        kept.send(question, &mut Killed, &mut Tools::default(), &|| place.tick(), &mut |_| {})
    }));
    assert!(killed.is_err());
    drop(kept);
    let mut kept = place.open("s");
    assert!(kept.is_unanswered());
    assert_eq!(kept.mode(), Mode::Plan);
    let mut speaker = script(&json!([{"text": "[]"}, {"text": "42."}]));
    let said = kept.go_on(&mut speaker, &mut Tools::default(), &|| place.tick(), &mut |_| {}).unwrap();
    assert_eq!(said.text, "42.");
    assert!(!kept.is_unanswered());
    assert!(sent(&kept, 0).contains("What does it say?"));
    drop(kept);
    assert!(!place.open("s").is_unanswered());
}

fn call(id: &str, name: &str, arguments: &serde_json::Value) -> serde_json::Value {
    json!({"calls": [{"id": id, "name": name, "arguments": arguments}]})
}

#[test]
fn an_agent_plans_acts_and_says_when_it_is_done() {
    let place = Place::new();
    let mut kept = place.at_work(Mode::Agent);
    let mut hands = Tools::default();
    let replies = json!([
        call("a", "plan", &json!({"steps": ["read the note", "answer"]})),
        call("b", "read", &json!({"path": "x"})),
        {"text": "I have read it."},
        call("c", "task_complete", &json!({})),
        {"text": "The note says 42.", "calls": [{"id": "d", "name": "task_complete", "arguments": {}}]},
    ]);
    let (said, _) = place.ask(&mut kept, "Read the note and tell me.", &replies, &mut hands);
    assert_eq!((said.text.as_str(), said.requests, said.out_of_steps), ("The note says 42.", 5, false));
    let body = sent(&kept, 4);
    // Results first, then the step: a directive never parts a call from its result.
    let at = |words: &str| body.find(words).unwrap_or_else(|| panic!("{words} is not in {body}"));
    assert!(at("Plan accepted: 2 steps.") < at("[Step 1/2]"));
    assert!(at("[Step 1/2]") < at("the note says 42") && at("the note says 42") < at("I have read it."));
    assert!(at("I have read it.") < at("Continue with the current step by calling a tool"));
    assert!(at("Step 1 of 2 is complete.") < at("[Step 2/2]"));
    assert_eq!(hands.calls, ["tool:fs/read {\"path\":\"x\"}"]);
    clean(kept.store());
    // A task that is done waits for nothing, and a session that is opened again goes on as if it had not been left.
    let counts = kept.counts();
    drop(kept);
    let mut again = place.open("s");
    assert!(!again.is_unanswered());
    assert_eq!(again.counts(), counts);
    let (said, _) = place.ask(&mut again, "Thanks.", &json!([{"text": "Bye."}, {"text": "Bye."}]), &mut hands);
    assert_eq!(said.requests, 2);
    assert_eq!(again.counts().requests, counts.requests + 2);
    clean(again.store());
}

#[test]
fn an_agent_that_only_talks_is_told_once() {
    let place = Place::new();
    let mut kept = place.at_work(Mode::Agent);
    let (said, _) =
        place.ask(&mut kept, "Hello", &json!([{"text": "Hello!"}, {"text": "How can I help?"}]), &mut Tools::default());
    assert_eq!((said.text.as_str(), said.requests), ("How can I help?", 2));
    let prompts = kinds(&kept).iter().filter(|kind| *kind == "action_prompt").count();
    assert_eq!(prompts, 2);
    assert_eq!(sent(&kept, 1).matches("Continue with the current step").count(), 1);
}

#[test]
fn an_agent_stops_at_its_limit_and_can_be_gone_on_with() {
    let place = Place::new();
    let mut kept = place.at_work(Mode::Agent);
    let replies = json!([call("a", "read", &json!({"path": "x"}))]);
    let (said, _) = place.ask(&mut kept, "Loop", &replies, &mut Tools::default());
    assert_eq!((said.requests, said.out_of_steps), (20, true));
    let mut speaker = script(&json!([call("z", "task_complete", &json!({"result": "Enough."}))]));
    drop(kept);
    let mut kept = place.open("s");
    let said = kept.go_on(&mut speaker, &mut Tools::default(), &|| place.tick(), &mut |_| {}).unwrap();
    assert_eq!((said.text.as_str(), said.requests), ("Enough.", 1));
    clean(kept.store());
}

#[test]
fn plans_that_cannot_be_taken_are_answered() {
    let place = Place::new();
    let mut kept = place.at_work(Mode::Agent);
    let replies = json!([
        call("a", "plan", &json!({"steps": []})),
        call("b", "plan", &json!({"steps": "all of it"})),
        call("c", "plan", &json!({"steps": (0..11).map(|step| step.to_string()).collect::<Vec<_>>()})),
        call("d", "task_complete", &json!({"result": "Done."})),
    ]);
    let (said, _) = place.ask(&mut kept, "Plan", &replies, &mut Tools::default());
    assert_eq!((said.text.as_str(), said.requests), ("Done.", 4));
    let body = sent(&kept, 3);
    for words in ["it has no steps", "must be a list of texts", "it has 11 steps"] {
        assert!(body.contains(words), "{words} is not in {body}");
    }
    clean(kept.store());
}

#[test]
fn a_tool_that_is_not_there_gets_a_clear_error() {
    let place = Place::new();
    let mut kept = place.at_work(Mode::Chat);
    let mut hands = Tools::default();
    let replies = json!([call("a", "plan", &json!({"steps": ["x"]})), call("b", "rm", &json!({})), {"text": "Sorry."}]);
    place.ask(&mut kept, "Go", &replies, &mut hands);
    let body = sent(&kept, 2);
    assert_eq!(body.matches("There is no tool").count(), 2, "{body}");
    assert_eq!(hands.calls, [""; 0]);
}

#[test]
fn a_reply_with_very_many_calls_runs_the_first_of_them_and_every_call_has_a_result() {
    let place = Place::new();
    let mut kept = place.at_work(Mode::Chat);
    let mut hands = Tools::default();
    let many = MAX_CALLS_PER_REPLY + 50;
    let call = |number: usize| json!({"id": format!("c{number}"), "name": "read", "arguments": {"path": "x"}});
    let calls: Vec<_> = (0..many).map(call).collect();
    let (said, _) = place.ask(&mut kept, "look", &json!([{"text": "", "calls": calls}, {"text": "Done."}]), &mut hands);
    assert_eq!((said.text.as_str(), said.requests), ("Done.", 2));
    assert_eq!(hands.calls.len(), MAX_CALLS_PER_REPLY);
    let results = kinds(&kept).iter().filter(|kind| *kind == "tool_result").count();
    assert_eq!(results, many);
    let body = sent(&kept, 1);
    assert_eq!(body.matches("was not run: one reply may make 128 calls").count(), 50);
    clean(kept.store());
}
