//! A session that speaks to a provider over HTTP: the double of every dialect, which enforces its ordering rules and accounts its cache.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use foreword_core::session::TurnInput;
use foreword_core::version::Version;
use foreword_engine::Layout;
use foreword_engine::session::{
    BoxFuture, ClientConfig, Event, NoHands, Progress, Question, RecordedSession, Remote, Setup, Sqlite, Stopper, Turn,
    TurnError, inspect, run_turn, verify,
};
use foreword_engine::vault::agent;
use foreword_mock_provider::{MockServer, Script};
use foreword_provider::client::{KeySource, Secret};
use foreword_provider::dialect::Dialect;
use tempfile::TempDir;

const MODELS: [(Dialect, &str); 5] = [
    (Dialect::OpenAiChat, "gpt-5.4"),
    (Dialect::OpenAiResponses, "gpt-6.1-sol"),
    (Dialect::Anthropic, "claude-sonnet-5"),
    (Dialect::Gemini, "gemini-3.8-flash"),
    (Dialect::LlamaCpp, "llama.cpp"),
];

/// A double in a thread of its own, until the process ends.
fn double(script: &str) -> Arc<MockServer> {
    let script = Script::from_json(script).unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            send.send(Arc::new(MockServer::start(script).await.unwrap())).unwrap();
            std::future::pending::<()>().await;
        });
    });
    receive.recv().unwrap()
}

fn session(folder: &TempDir, model: &str) -> RecordedSession {
    let (agent, _) = agent(folder.path(), None).unwrap();
    let setup = Setup::new("s", Some(model), Layout::Log, 0, None).unwrap();
    let store = Box::new(Sqlite::open(&folder.path().join("s.db")).unwrap());
    RecordedSession::begin(store, "s", &agent, &setup, None, None, 0).unwrap()
}

fn speaker(double: &MockServer, kept: &RecordedSession) -> Remote {
    let dialect = kept.setup().dialect;
    let key = KeySource::Given(Secret::new("test-key"));
    let config = ClientConfig { base_url: Some(double.base_url(dialect)), key, ..ClientConfig::new(dialect) };
    Remote::new(config).unwrap()
}

fn question(words: &str) -> Question {
    let attached =
        vec![Version::note("Garden.md", None, &"Prune the trees in March, before the buds open. ".repeat(400), Vec::new())];
    Question { turn: TurnInput { words: words.to_owned(), attached, ..TurnInput::default() }, ..Question::default() }
}

#[test]
fn every_dialect_answers_reads_its_cache_and_is_on_record() {
    let script = r#"{"replies": [{"text": "In March."}, {"text": "Before the buds."}, {"text": "No."}]}"#;
    for (dialect, model) in MODELS {
        let folder = TempDir::new().unwrap();
        let double = double(script);
        let mut kept = session(&folder, model);
        assert_eq!(kept.setup().dialect, dialect);
        let mut speaker = speaker(&double, &kept);
        let clock = Cell::new(0);
        let now = || {
            clock.set(clock.get() + 1000);
            clock.get()
        };
        for (words, expect) in [("When?", "In March."), ("When exactly?", "Before the buds."), ("Later?", "No.")] {
            let mut shown = String::new();
            let mut each = |event: Event<'_>| {
                if let Event::Part(part) = event {
                    shown.push_str(part);
                }
            };
            let said = kept.send(question(words), &mut speaker, &mut NoHands, &now, &mut each).unwrap();
            assert_eq!((said.text.as_str(), shown.as_str()), (expect, expect), "{model}");
        }
        assert_eq!(kept.take_failures(), []);
        let used = inspect(kept.store(), "s", 2).unwrap().usage.unwrap();
        let share = used.read as f64 / (used.read + used.write + used.uncached) as f64;
        assert!(share > 0.8 && used.output > 0, "{model}: {used:?}");
        assert_eq!(verify(kept.store(), &mut |_, _| {}).unwrap().faults, []);
    }
}

#[test]
fn a_refusal_and_a_cut_stream_leave_the_question_and_what_was_shown() {
    let script = r#"{"replies": [
        {"error": {"status": 400, "message": "no such model"}},
        {"text": "This answer is cut before its end.", "piece": 4, "cut_after": 5},
        {"text": "Whole."}]}"#;
    let folder = TempDir::new().unwrap();
    let double = double(script);
    let mut kept = session(&folder, "claude-sonnet-5");
    let mut speaker = speaker(&double, &kept);
    let mut send =
        |kept: &mut RecordedSession, words: &str| kept.send(question(words), &mut speaker, &mut NoHands, &|| 0, &mut |_| {});
    let refused = send(&mut kept, "a").unwrap_err();
    assert!(matches!(&refused, TurnError::Speak(error) if error.message.contains("no such model")), "{refused}");
    assert!(matches!(send(&mut kept, "b"), Err(TurnError::Speak(_))));
    assert_eq!(send(&mut kept, "c").unwrap().text, "Whole.");
    let log = kept.store().log("s", 0).unwrap();
    let kinds: Vec<_> = log.iter().map(|entry| (entry.kind.as_str(), entry.cut_off)).collect();
    assert_eq!(
        kinds,
        [
            ("turn", false),
            ("ending", false),
            ("turn", false),
            ("assistant", true),
            ("ending", false),
            ("turn", false),
            ("assistant", false)
        ]
    );
    assert_eq!(verify(kept.store(), &mut |_, _| {}).unwrap().faults, []);
}

#[test]
fn a_large_prefix_is_cached_at_the_provider_for_as_long_as_the_session_is_open() {
    let double = double(r#"{"replies": [{"text": "Yes."}]}"#);
    let check = |model: &str, prompt: &str, cached: bool| {
        let folder = TempDir::new().unwrap();
        let agent = serde_json::from_value(serde_json::json!({"system_prompt": prompt})).unwrap();
        let setup = Setup::new("s", Some(model), Layout::Log, 0, None).unwrap();
        let store = Box::new(Sqlite::open(&folder.path().join("s.db")).unwrap());
        let mut kept = RecordedSession::begin(store, "s", &agent, &setup, None, None, 0).unwrap();
        let mut speaker = speaker(&double, &kept).with_caches(Duration::from_mins(5));
        for words in ["a", "b"] {
            kept.send(question(words), &mut speaker, &mut NoHands, &|| 0, &mut |_| {}).unwrap();
            let body = double.seen().last().unwrap().body.clone();
            assert_eq!(String::from_utf8(body).unwrap().contains(r#""cachedContent":"cachedContents/"#), cached, "{model}");
            assert_eq!(double.caches(), usize::from(cached));
        }
        let used = inspect(kept.store(), "s", 1).unwrap().usage.unwrap();
        assert!(!cached || used.read > 4096, "{used:?}");
        assert_eq!(verify(kept.store(), &mut |_, _| {}).unwrap().faults, []);
        drop(speaker);
        assert_eq!(double.caches(), 0);
    };
    let long = "Answer in the fewest words that will do, and never in verse. ".repeat(400);
    check("gemini-3.8-flash", &long, true);
    check("gemini-3.8-flash", "Be brief.", false);
    check("gemini-4-argon", &long, false);
}

#[test]
fn a_stopped_answer_keeps_what_was_shown() {
    let folder = TempDir::new().unwrap();
    let double = double(r#"{"replies": [{"text": "one two three four five six seven eight", "piece": 4, "pause_ms": 300}]}"#);
    let mut kept = session(&folder, "gpt-5.4");
    let stopper = Stopper::default();
    kept.set_stopper(stopper.clone());
    let mut speaker = speaker(&double, &kept);
    let mut each = |event: Event<'_>| {
        if let Event::Part(part) = event
            && part.contains("tw")
        {
            stopper.stop();
        }
    };
    let said = kept.send(question("count"), &mut speaker, &mut NoHands, &|| 0, &mut each).unwrap();
    assert!(said.text.starts_with("one") && !said.text.contains("eight"), "{}", said.text);
    let log = kept.store().log("s", 0).unwrap();
    assert!(log.iter().rev().find(|entry| entry.kind == "assistant").unwrap().cut_off);
    assert_eq!(log.last().unwrap().kind, "ending");
}

/// The parts that were shown.
struct Shown(String);

impl Progress for Shown {
    fn event<'a>(&'a mut self, event: Event<'a>) -> BoxFuture<'a, ()> {
        if let Event::Part(part) = event {
            self.0.push_str(part);
        }
        Box::pin(async {})
    }
}

#[test]
fn a_session_works_inside_of_an_async_runtime() {
    let folder = TempDir::new().unwrap();
    let double = double(
        r#"{"replies": [{"text": "One."}, {"text": "Wait. ", "calls": [{"name": "gone", "arguments": {}}]}, {"text": "Two."}]}"#,
    );
    let mut kept = session(&folder, "claude-sonnet-5");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut model = speaker(&double, &kept);
        let blocking = kept.send(question("blocking"), &mut model, &mut NoHands, &|| 0, &mut |_| {}).unwrap();
        assert_eq!(blocking.text, "One.");
        let (turn, tools, mut shown) = (Turn::question(question("async")), Arc::new(Mutex::new(NoHands)), Shown(String::new()));
        let said = run_turn(&mut &mut kept, turn, &mut model, Some(tools), || 0, &mut shown).await.unwrap();
        assert_eq!((said.text.as_str(), shown.0.as_str(), said.requests), ("Two.", "Wait. Two.", 2));
    });
    assert_eq!(kept.take_failures(), []);
    assert_eq!(verify(kept.store(), &mut |_, _| {}).unwrap().faults, []);
}
