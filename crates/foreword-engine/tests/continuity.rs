//! What providers' caches read of a session's requests: in long chats over notes, and on the first request after a restart, a fork, a fold
//! and another model. The caches follow each provider's rules.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::path::Path;

use foreword_core::settings::Layout;
use foreword_engine::session::{
    Agent, Event, Input, Model, NoHands, Question, RecordedSession, Script, Setup, Sqlite, TurnInput, Version,
};
use foreword_engine::settings::CacheTtl;
use foreword_prompt_cache::CacheSim;
use foreword_provider::stream::{PromptStream, common_prefix};
use foreword_provider::table::ModelTable;

/// A provider's cache, and all that it was ever sent.
struct Provider {
    cache: CacheSim,
    sent: Vec<(String, PromptStream)>,
    now_s: u64,
    /// Tokens read, and tokens that a perfect cache could have read in whole blocks.
    read: u64,
    readable: u64,
}

impl Provider {
    fn new() -> Self {
        Self { cache: CacheSim::new(), sent: Vec::new(), now_s: 0, read: 0, readable: 0 }
    }

    /// Takes a request; gives back what is read of it and what could be.
    fn take(&mut self, prompt: &PromptStream, model: &Model) -> (u64, u64) {
        let whole = |earlier: &PromptStream| {
            let same = common_prefix(earlier, prompt).blocks;
            prompt.blocks().take(same).map(|block| block.tokens.0).sum::<u64>()
        };
        let of_model = self.sent.iter().filter(|(name, _)| *name == model.name);
        let readable = of_model.map(|(_, earlier)| whole(earlier)).max().unwrap_or(0);
        let readable = if readable < model.cache.minimum() { 0 } else { readable };
        let read = self.cache.request(self.now_s, prompt, model).read.0;
        self.sent.push((model.name.clone(), prompt.clone()));
        self.read += read;
        self.readable += readable;
        (read, readable)
    }
}

struct Chat {
    folder: tempfile::TempDir,
    kept: Option<RecordedSession>,
    provider: Provider,
    script: Script,
    turns: usize,
    /// Seconds between two questions.
    pause_s: u64,
    /// What was told of an expired cache, and the last body.
    warnings: Vec<String>,
    body: String,
}

impl Chat {
    fn begin(model: &str, layout: Layout) -> Self {
        Self::begin_with(model, layout, None)
    }

    fn begin_with(model: &str, layout: Layout, cache_ttl: Option<CacheTtl>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("script.json"), r#"{"replies": [{"text": "Yes, that is what the note says."}]}"#)
            .unwrap();
        let rules = "Answer from the notes. ".repeat(300);
        let agent: Agent = serde_json::from_value(serde_json::json!({ "system_prompt": rules })).unwrap();
        let mut setup = Setup::new("s", Some(model), layout, 0, None).unwrap();
        setup.wanted.cache_ttl = cache_ttl;
        let store = Box::new(Sqlite::open(&folder.path().join("s.db")).unwrap());
        let kept = RecordedSession::begin(store, "s", &agent, &setup, None, None, 0).unwrap();
        let script = Script::read(&folder.path().join("script.json")).unwrap();
        let (provider, warnings) = (Provider::new(), Vec::new());
        Self { folder, kept: Some(kept), provider, script, turns: 0, pause_s: 20, warnings, body: String::new() }
    }

    fn kept(&mut self) -> &mut RecordedSession {
        self.kept.as_mut().unwrap()
    }

    /// The next question with these notes; what was read of its request, and what could have been.
    fn ask(&mut self, notes: &[usize]) -> (u64, u64) {
        self.turns += 1;
        let attached = notes.iter().map(|note| {
            let mut text = String::new();
            (0..40).for_each(|line| writeln!(text, "Line {line} of note {note}: bread needs time.").unwrap());
            Version::note(&format!("note {note}.md"), None, &text, Vec::new())
        });
        let words = format!("What do they say about the {}. loaf?", self.turns);
        let turn = TurnInput { words, attached: attached.collect(), ..TurnInput::default() };
        let question = Question { turn, ..Question::default() };
        let mut found = (0, 0);
        self.provider.now_s += self.pause_s;
        let Self { kept, provider, script, warnings, body, .. } = self;
        let now_ms = i64::try_from(provider.now_s).unwrap() * 1000;
        let mut each = |event: Event<'_>| match event {
            Event::Request(outgoing) => {
                *body = String::from_utf8_lossy(&outgoing.body.bytes).into_owned();
                found = provider.take(&outgoing.body.prompt, &outgoing.model);
            }
            Event::ColdCache(cold) => warnings.push(cold.to_string()),
            _ => {}
        };
        kept.as_mut().unwrap().send(question, script, &mut NoHands, &|| now_ms, &mut each).unwrap();
        found
    }

    fn restart(&mut self) {
        self.kept = None;
        let store = Box::new(Sqlite::open(&database(self.folder.path())).unwrap());
        self.kept = Some(RecordedSession::open(store, "s", None, None).unwrap());
    }

    fn change_model(&mut self, name: &str) {
        let kept = self.kept();
        let model = ModelTable::builtin().unwrap().find(name).unwrap();
        let layout = kept.setup().settings.layout;
        kept.change_model(Setup::of("s", model, layout, 0, None), None, 0).unwrap();
    }
}

fn database(folder: &Path) -> std::path::PathBuf {
    folder.join("s.db")
}

const MODELS: [&str; 3] = ["claude-opus-5", "claude-sonnet-5", "gpt-6.1-sol"];

#[test]
fn fifty_turns_over_notes_read_nearly_all_that_is_the_same() {
    for model in MODELS {
        for layout in Layout::ALL {
            let mut chat = Chat::begin(model, layout);
            for turn in 0..50 {
                // A new note every other turn, one that was there before every third.
                let mut notes = Vec::new();
                if turn % 2 == 0 {
                    notes.push(turn);
                }
                if turn % 3 == 2 {
                    notes.push((turn / 4) * 2);
                }
                chat.ask(&notes);
            }
            let Provider { read, readable, .. } = chat.provider;
            assert!(readable > 100_000, "{model} {layout:?}: only {readable} tokens come again");
            let share = read as f64 / readable as f64;
            assert!(share >= 0.99, "{model} {layout:?}: {read} of {readable} tokens are read, {share:.4}");
        }
    }
}

#[test]
fn the_first_request_after_a_restart_reads_all() {
    for model in MODELS {
        let mut chat = Chat::begin(model, Layout::Log);
        for turn in 0..5 {
            chat.ask(&[turn]);
        }
        chat.restart();
        let (read, readable) = chat.ask(&[]);
        assert!(readable > 2_000, "{model}: {readable}");
        assert_eq!(read, readable, "{model}");
    }
}

#[test]
fn the_first_request_after_a_fold_reads_all_that_it_left() {
    for model in MODELS {
        let mut chat = Chat::begin(model, Layout::Log);
        for turn in 0..5 {
            chat.ask(&[turn]);
        }
        chat.kept().tell(Input::Fold, 100_000).unwrap();
        let (read, readable) = chat.ask(&[]);
        assert!(readable > 500, "{model}: {readable}");
        assert_eq!(read, readable, "{model}");
        let (read, readable) = chat.ask(&[]);
        assert_eq!(read, readable, "{model}, the one behind it");
    }
}

#[test]
fn a_model_that_answers_again_still_has_what_comes_again() {
    let mut chat = Chat::begin("claude-opus-5", Layout::Log);
    for turn in 0..3 {
        chat.ask(&[turn]);
    }
    chat.change_model("claude-sonnet-5");
    let (read, readable) = chat.ask(&[]);
    assert_eq!((read, readable), (0, 0), "another model is another cache");
    chat.change_model("claude-opus-5");
    let (read, readable) = chat.ask(&[]);
    assert!(readable > 500);
    assert_eq!(read, readable);
}

#[test]
fn a_fork_reads_what_its_parent_was_sent() {
    for model in MODELS {
        let mut chat = Chat::begin(model, Layout::Log);
        for turn in 0..5 {
            chat.ask(&[turn]);
        }
        let mut kept = chat.kept.take().unwrap();
        assert!(kept.settle());
        drop(kept);
        let mut store = Sqlite::open(&database(chat.folder.path())).unwrap();
        foreword_engine::session::rewind(&mut store, "s", 2, 0).unwrap();
        chat.kept = Some(RecordedSession::open(Box::new(store), "s", None, None).unwrap());
        let (read, readable) = chat.ask(&[]);
        assert!(readable > 1_000, "{model}: {readable}");
        // An entry ends where a request ended: the last reply stood in a later request of the parent, with no entry behind it.
        assert!(readable - read <= 16, "{model}: {read} of {readable}");
    }
}

#[test]
fn pauses_bring_marks_for_an_hour_unless_the_user_set_a_lifetime() {
    let check = |cache_ttl, expect: bool| {
        let mut chat = Chat::begin_with("claude-opus-5", Layout::Log, cache_ttl);
        for turn in 0..40 {
            // Ten minutes between two questions now and then, seconds between the others.
            chat.pause_s = if turn % 8 == 7 { 600 } else { 10 };
            let notes: &[usize] = if turn < 5 { &[1] } else { &[] };
            chat.ask(notes);
        }
        assert_eq!(chat.body.contains(r#""ttl":"1h""#), expect, "{cache_ttl:?}");
        chat.warnings.len()
    };
    let with_short = check(Some(CacheTtl::Short), false);
    let chosen = check(None, true);
    assert!(chosen < with_short, "a cache that is kept for an hour expires less often: {chosen} of {with_short}");
}

#[test]
fn an_expired_cache_is_told_before_the_request_is_sent() {
    let mut chat = Chat::begin("claude-opus-5", Layout::Log);
    for turn in 0..8 {
        chat.ask(&[turn]);
    }
    assert_eq!(chat.warnings, Vec::<String>::new());
    chat.pause_s = 310 + 730;
    chat.ask(&[]);
    let [warning] = &chat.warnings[..] else { panic!("{:?}", chat.warnings) };
    assert!(warning.starts_with("cache expired 12 min ago: $0."), "{warning}");
    assert!(warning.contains(" instead of $0.00") || warning.contains(" instead of $0.01"), "{warning}");
}
