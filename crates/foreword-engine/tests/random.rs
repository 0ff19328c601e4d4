//! Random sessions over HTTP: the double refuses what providers refuse, and takes a thought back only behind the very messages it was
//! thought after.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::Cell;
use std::sync::Arc;

use foreword_core::catalog::Agent;
use foreword_core::session::TurnInput;
use foreword_core::tokens::Tokens;
use foreword_core::version::Version;
use foreword_engine::Layout;
use foreword_engine::session::{
    Call, CancellationToken, ClientConfig, Input, Output, Question, RecordedSession, Remote, Setup, Sqlite, ToolHost, TurnError,
    verify,
};
use foreword_mock_provider::{MockServer, Script};
use foreword_provider::client::{KeySource, Retry, Secret};
use serde_json::{Value, json};
use tempfile::TempDir;

const SESSIONS: u64 = 200;

const MODELS: [&str; 7] =
    ["gpt-5.4", "deepseek-chat", "gpt-6.1-sol", "claude-opus-5-5", "claude-haiku-4-5", "gemini-3.8-flash", "llama.cpp"];

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.roll(from.len() as u64)).unwrap()]
    }

    fn reply(&mut self) -> Value {
        let calls: Vec<Value> = (0..self.pick(&[0, 0, 0, 1, 2]))
            .map(|at| json!({"name": self.pick(&["read", "useTool"]), "arguments": {"path": format!("{at}.md")}}))
            .collect();
        let text = self.pick(&["Yes.", "Let me see.", "", "A longer answer, with \"quotes\" and more.", " "]);
        let mut reply = json!({"reasoning": self.pick(&["", "Hm.", "Let me think about it."]), "text": text, "calls": calls});
        match self.roll(12) {
            0 => reply["stop"] = json!("length"),
            1 => reply["cut_after"] = json!(4),
            _ => {}
        }
        reply
    }
}

struct Tools(Dice);

impl ToolHost for Tools {
    fn run(&mut self, call: &Call<'_>, _stop: &CancellationToken) -> Output {
        match self.0.roll(4) {
            0 => Output::failed(format!("{} found nothing", call.call.name)),
            1 => Output::done("a line of output\n".repeat(60)),
            2 => Output::done(""),
            _ => Output::done("done"),
        }
    }
}

/// A double in a thread of its own, until the process ends.
fn double(script: &Value) -> Arc<MockServer> {
    let script = Script::from_json(&script.to_string()).unwrap();
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

fn setup(dice: &mut Dice, session: &str, layout: Layout) -> Setup {
    let mut setup = Setup::new(session, Some(dice.pick(&MODELS)), layout, 2, None).unwrap();
    setup.settings.budget.prompt = Tokens(dice.pick(&[2_000, 4_000, 100_000]));
    setup
}

fn speaker(double: &MockServer, setup: &Setup) -> Remote {
    let key = KeySource::Given(Secret::new("test-key"));
    let retry = Retry { tries: 1, ..Retry::default() };
    let config = ClientConfig { base_url: Some(double.base_url(setup.dialect)), key, retry, ..ClientConfig::new(setup.dialect) };
    Remote::new(config).unwrap()
}

fn agent() -> Agent {
    serde_json::from_value(json!({
        "system_prompt": "You are a helper.",
        "tools": [
            {"server": "fs", "name": "read", "description": "Reads.", "include": "always"},
            {"server": "fs", "name": "write", "description": "Writes.", "include": "agent"}],
    }))
    .unwrap()
}

fn question(dice: &mut Dice) -> Question {
    let attached = (0..dice.roll(3)).map(|_| {
        let text = "Prune the trees in March. ".repeat(usize::try_from(dice.roll(40)).unwrap());
        Version::note(dice.pick(&["a.md", "b.md", "c.md"]), None, &text, Vec::new())
    });
    let attached = attached.collect();
    let words = dice.pick(&["When?", "And then?", "", "Why?"]).to_owned();
    Question { turn: TurnInput { words, attached, ..TurnInput::default() }, ..Question::default() }
}

#[test]
fn the_double_takes_every_request_of_random_sessions() {
    let mut dice = Dice(7);
    let replies: Vec<Value> = (0..5_000).map(|_| dice.reply()).collect();
    let double = double(&json!({"binds_thoughts": true, "replies": replies}));
    for number in 0..SESSIONS {
        let folder = TempDir::new().unwrap();
        let open = || Box::new(Sqlite::open(&folder.path().join("s.db")).unwrap());
        let layout = dice.pick(&Layout::ALL);
        let first = setup(&mut dice, "s", layout);
        let mut kept = RecordedSession::begin(open(), "s", &agent(), &first, None, None, 0).unwrap();
        let mut speaker_now = speaker(&double, &first);
        let mut hands = Tools(Dice(number));
        let clock = Cell::new(0);
        let now = || {
            clock.set(clock.get() + 1000);
            clock.get()
        };
        for _ in 0..8 {
            let sent = match dice.roll(12) {
                0 => kept.tell(Input::Fold, now()).map(|_| ()).map_err(TurnError::from),
                1 => kept.tell(Input::UndoFold, now()).map(|_| ()).map_err(TurnError::from),
                2 | 3 => {
                    let next = setup(&mut dice, "s", layout);
                    kept.change_model(next, None, now()).unwrap();
                    speaker_now = speaker(&double, kept.setup());
                    Ok(())
                }
                4 => {
                    drop(kept);
                    kept = RecordedSession::open(open(), "s", None, None).unwrap();
                    Ok(())
                }
                5 => kept.go_on(&mut speaker_now, &mut hands, &now, &mut |_| {}).map(|_| ()),
                _ => kept.send(question(&mut dice), &mut speaker_now, &mut hands, &now, &mut |_| {}).map(|_| ()),
            };
            match sent {
                Ok(()) | Err(TurnError::OverBudget(_)) => {}
                Err(TurnError::Speak(error))
                    if ["interrupted", "ended early", "connection"].iter().any(|words| error.message.contains(words)) => {}
                Err(error) => panic!("session {number} with {}: {error}", kept.setup().model.name),
            }
        }
        assert_eq!(kept.take_failures(), [], "session {number}");
        assert_eq!(verify(kept.store(), &mut |_, _| {}).unwrap().faults, [], "session {number}");
    }
}
