use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foreword_core::catalog::Agent;
use foreword_core::hash::Hash;
use foreword_core::session::{Input, TurnInput};
use foreword_core::settings::Layout;
use foreword_core::version::Version;
use foreword_store::{Fork, Write};
use foreword_vault::transcript::Role;
use jiff::tz::TimeZone;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use foreword_vault_tools::chats::Chats;

mod preview;
mod runners;

/// A vault with its store and a clock that goes on by a second a look.
struct Place {
    vault: TempDir,
    now: Cell<i64>,
}

impl Place {
    fn new() -> Self {
        Self { vault: TempDir::new().unwrap(), now: Cell::new(1_700_000_000_000) }
    }

    fn root(&self) -> &Path {
        self.vault.path()
    }

    fn store(&self) -> Sqlite {
        Sqlite::open(&self.root().join(STORE)).unwrap()
    }

    fn tick(&self) -> i64 {
        self.now.set(self.now.get() + 1000);
        self.now.get()
    }

    fn chats(&self) -> Chats {
        Chats::open(self.root(), TimeZone::UTC).unwrap()
    }

    fn begin(&self, layout: Layout) -> RecordedSession {
        let agent: Agent = serde_json::from_value(json!({
            "system_prompt": "You answer questions about notes. ".repeat(30),
            "rules": [{"name": "short", "text": "Be short.", "include": "always"}],
            "tools": [{"server": "fs", "name": "read", "read_only": true}],
        }))
        .unwrap();
        let setup = Setup::new("s", Some("claude-sonnet-5"), layout, 1, None).unwrap();
        RecordedSession::begin(Box::new(self.store()), "s", &agent, &setup, None, Some(self.chats()), self.tick()).unwrap()
    }

    fn open(&self, id: &str) -> RecordedSession {
        RecordedSession::open(Box::new(self.store()), id, None, Some(self.chats())).unwrap()
    }

    fn send(&self, kept: &mut RecordedSession, words: &str, script: &mut Script) -> TurnOutcome {
        let attached =
            vec![Version::note("Garden.md", None, &format!("# Garden\n{}", "Prune in March. ".repeat(80)), Vec::new())];
        let turn = TurnInput { words: words.to_owned(), attached, ..TurnInput::default() };
        let mut hands = script.hands();
        kept.send(Question { turn, ..Question::default() }, script, &mut hands, &|| self.tick(), &mut |_| {}).unwrap()
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(self.root().join("Foreword/Chats")).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    fn file(&self) -> String {
        std::fs::read_to_string(&self.files()[0]).unwrap()
    }
}

fn script(replies: &serde_json::Value) -> Script {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("script.json");
    std::fs::write(&file, json!({"replies": replies, "tools": {"read": "the note says 42 ".repeat(100)}}).to_string()).unwrap();
    Script::read(&file).unwrap()
}

fn tool_loop() -> Script {
    script(&json!([
        {"text": "Let me look.", "calls": [{"id": "a", "name": "read", "arguments": {"path": "x"}}]},
        {"text": "It says 42."},
        {"text": "Yes, that is all."},
    ]))
}

fn clean(store: &dyn Store) {
    let verified = verify(store, &mut |_, _| {}).unwrap();
    assert_eq!(verified.faults, [], "{verified:?}");
}

/// The hash of what the next request would be.
fn next_request(kept: &mut RecordedSession, place: &Place) -> Hash {
    kept.tell(Input::Turn(TurnInput { words: "and now?".to_owned(), ..TurnInput::default() }), place.tick()).unwrap();
    let outgoing = kept.request(place.tick()).unwrap();
    Hash::of(&outgoing.body.bytes)
}

#[test]
fn every_request_is_on_record_and_renders_to_the_same_bytes() {
    for layout in Layout::ALL {
        let place = Place::new();
        let mut kept = place.begin(layout);
        let mut speaker = tool_loop();
        let sent = std::cell::RefCell::new(Vec::new());
        for words in ["What does the note say?", "Anything else?", "Sure?"] {
            let turn = TurnInput { words: words.to_owned(), ..TurnInput::default() };
            let mut hands = speaker.hands();
            let mut each = |event: Event<'_>| {
                if let Event::Request(outgoing) = event {
                    sent.borrow_mut().push(outgoing.body.bytes.clone());
                }
            };
            kept.send(Question { turn, ..Question::default() }, &mut speaker, &mut hands, &|| place.tick(), &mut each).unwrap();
        }
        let store = place.store();
        for (number, bytes) in sent.into_inner().iter().enumerate() {
            assert_eq!(wire(&store, "s", number as u64).unwrap(), *bytes, "{layout:?} {number}");
            let inspection = inspect(&store, "s", number as u64).unwrap();
            assert!(inspection.verified);
            assert!(inspection.context.iter().any(|entry| entry.item.to_string() == "rule:short"), "{inspection:?}");
            let sum: u64 = inspection.layers.iter().map(|layer| layer.tokens.0).sum();
            assert_eq!(sum, inspection.tokens);
            let cached: u64 = inspection.layers.iter().map(|layer| layer.cached.unwrap().0).sum();
            assert!(cached <= inspection.usage.unwrap().read, "{layout:?} {number}");
        }
        clean(&store);
    }
}

#[test]
fn a_reopened_session_goes_on_with_the_same_bytes() {
    for layout in Layout::ALL {
        let [left, stayed] = [true, false].map(|leave| {
            let place = Place::new();
            let mut kept = place.begin(layout);
            let mut speaker = tool_loop();
            for turn in 0..6 {
                if leave {
                    drop(kept);
                    kept = place.open("s");
                }
                if turn == 3 {
                    kept.tell(Input::Fold, place.tick()).unwrap();
                } else {
                    place.tick();
                }
                place.send(&mut kept, &format!("question {turn}"), &mut speaker);
            }
            clean(kept.store());
            let requests = kept.store().requests("s").unwrap();
            requests.into_iter().map(|request| (request.number, request.epoch, request.wire)).collect::<Vec<_>>()
        });
        assert_eq!(left, stayed, "{layout:?}");
    }
}

#[test]
fn a_checkpoint_shortens_the_way_and_changes_nothing() {
    let place = Place::new();
    let mut kept = place.begin(Layout::Log);
    let mut speaker = script(&json!([{"text": "Yes."}]));
    for turn in 0..70 {
        place.send(&mut kept, &format!("question {turn}"), &mut speaker);
    }
    drop(kept);
    let store = place.store();
    let checkpoint = store.checkpoint("s").unwrap().unwrap();
    assert_eq!(checkpoint.counts, Counts { inputs: 128, requests: 64 });
    let mut kept = place.open("s");
    let with = next_request(&mut kept, &place);
    drop(kept);
    // A fork of the same past that has no checkpoint is told everything again.
    let fork = Fork { id: "f".into(), title: None, created_ms: 1 };
    let mut store = place.store();
    store.branch("s", Counts { inputs: 140, requests: 70 }, Some(&fork), &[]).unwrap();
    let broken = checkpoint_of_nothing();
    store.commit("f", &[broken]).unwrap();
    let mut kept = place.open("f");
    assert_eq!(next_request(&mut kept, &place), with);
    clean(kept.store());
}

fn checkpoint_of_nothing() -> Write {
    Write::Checkpoint(foreword_store::Checkpoint { counts: Counts { inputs: 140, requests: 70 }, body: vec![1, 2, 3] })
}

#[test]
fn what_was_shown_of_a_reply_stays_when_the_process_ends() {
    let place = Place::new();
    let mut kept = place.begin(Layout::Log);
    kept.tell(Input::Turn(TurnInput { words: "hello".to_owned(), ..TurnInput::default() }), place.tick()).unwrap();
    kept.request(place.tick()).unwrap();
    kept.record_part("Good ");
    kept.record_part("mor");
    drop(kept); // as a kill would leave it
    let mut kept = place.open("s");
    assert!(place.file().contains("Good mor"), "{}", place.file());
    let messages = transcript(kept.store(), &place.store().session("s").unwrap()).unwrap().messages;
    assert_eq!((messages.len(), messages[1].text.as_str(), messages[1].cut_off), (2, "Good mor", true));
    place.send(&mut kept, "go on", &mut script(&json!([{"text": "ning."}])));
    clean(kept.store());
}

#[test]
fn a_turn_that_was_stored_and_never_sent_is_sent_after_all() {
    let place = Place::new();
    let mut kept = place.begin(Layout::Log);
    kept.tell(Input::Turn(TurnInput { words: "hello".to_owned(), ..TurnInput::default() }), place.tick()).unwrap();
    drop(kept);
    let mut kept = place.open("s");
    let mut speaker = script(&json!([{"text": "Hi."}]));
    let mut hands = speaker.hands();
    let said = kept.go_on(&mut speaker, &mut hands, &|| place.tick(), &mut |_| {}).unwrap();
    assert_eq!((said.text.as_str(), said.requests), ("Hi.", 1));
    clean(kept.store());
}

#[test]
fn calls_without_results_are_answered_when_the_session_goes_on() {
    let place = Place::new();
    let mut kept = place.begin(Layout::Log);
    kept.tell(Input::Turn(TurnInput { words: "look".to_owned(), ..TurnInput::default() }), place.tick()).unwrap();
    kept.request(place.tick()).unwrap();
    let call = foreword_core::message::ToolCall { id: "a".into(), name: "read".into(), arguments: json!({}) };
    kept.tell(Input::Assistant { text: String::new(), calls: vec![call], opaque: Vec::new() }, place.tick()).unwrap();
    drop(kept);
    let mut kept = place.open("s");
    place.send(&mut kept, "and?", &mut script(&json!([{"text": "Nothing."}])));
    clean(kept.store());
}

#[test]
fn a_model_that_fails_leaves_the_question() {
    let place = Place::new();
    let mut kept = place.begin(Layout::Log);
    let mut speaker = script(&json!([{"error": "overloaded"}, {"text": "Here."}, {"text": "Good."}]));
    let mut hands = speaker.hands();
    let turn = TurnInput { words: "hello".to_owned(), ..TurnInput::default() };
    let error = kept.send(Question { turn, ..Question::default() }, &mut speaker, &mut hands, &|| place.tick(), &mut |_| {});
    assert!(matches!(error, Err(TurnError::Speak(_))));
    assert!(place.file().contains("**user**: hello"));
    // The same request is sent again, also after the process has ended: the same bytes, on record once.
    drop(kept);
    let mut kept = place.open("s");
    assert!(kept.is_unanswered());
    let sent = Cell::new(Hash::of(""));
    let mut each = |event: Event<'_>| {
        if let Event::Request(outgoing) = event {
            sent.set(Hash::of(&outgoing.body.bytes));
        }
    };
    let said = kept.go_on(&mut speaker, &mut hands, &|| place.tick(), &mut each).unwrap();
    assert_eq!((said.text.as_str(), kept.counts().requests), ("Here.", 1));
    assert_eq!(kept.store().request("s", 0).unwrap().wire, sent.get());
    assert!(!kept.is_unanswered());
    place.send(&mut kept, "again", &mut speaker);
    clean(kept.store());
}

#[test]
fn forks_rewinds_and_edits() {
    let place = Place::new();
    let mut kept = place.begin(Layout::Log);
    let mut speaker = script(&json!([{"text": "one"}, {"text": "two"}, {"text": "three"}]));
    for words in ["a", "b", "c"] {
        place.send(&mut kept, words, &mut speaker);
    }
    drop(kept);
    let mut store = place.store();
    fork(&mut store, "s", 2, &Fork { id: "f".into(), title: Some("other".into()), created_ms: place.tick() }).unwrap();
    let mut forked = place.open("f");
    place.send(&mut forked, "d", &mut script(&json!([{"text": "four"}])));
    let words = |id: &str| {
        let store = place.store();
        let row = store.session(id).unwrap();
        transcript(&store, &row).unwrap().messages.into_iter().map(|entry| entry.text).collect::<Vec<_>>()
    };
    assert_eq!(words("s"), ["a", "one", "b", "two", "c", "three"]);
    assert_eq!(words("f"), ["a", "one", "b", "two", "d", "four"]);
    drop(forked);
    rewind(&mut store, "s", 1, place.tick()).unwrap();
    let mut kept = place.open("s");
    place.send(&mut kept, "B", &mut script(&json!([{"text": "zwei"}])));
    assert_eq!(words("s"), ["a", "one", "B", "zwei"]);
    assert_eq!(words("f"), ["a", "one", "b", "two", "d", "four"]);
    let requests = store.requests("s").unwrap();
    assert_eq!(requests.last().unwrap().began.as_deref(), Some("forked"));
    clean(&store);
    assert!(fork(&mut store, "s", 9, &Fork { id: "g".into(), title: None, created_ms: 1 }).is_err());
}

#[test]
fn a_hand_edit_stays_when_the_session_goes_back() {
    let place = Place::new();
    let mut kept = place.begin(Layout::Log);
    let mut speaker = script(&json!([{"text": "one"}, {"text": "two"}, {"text": "three"}]));
    place.send(&mut kept, "a", &mut speaker);
    place.send(&mut kept, "b", &mut speaker);
    std::fs::write(&place.files()[0], place.file().replace("one", "MY OWN")).unwrap();
    place.send(&mut kept, "c", &mut speaker);
    drop(kept);
    rewind(&mut place.store(), "s", 1, place.tick()).unwrap();
    let mut kept = place.open("s");
    place.send(&mut kept, "d", &mut speaker);
    let text = place.file();
    assert!(text.contains("MY OWN") && text.contains("**user**: d") && !text.contains("**user**: b"), "{text}");
    assert_eq!(place.files().len(), 1);
}

#[test]
fn a_replaced_turn_is_there_or_nothing_changed() {
    let place = Place::new();
    let mut kept = place.begin(Layout::Log);
    place.send(&mut kept, "a", &mut script(&json!([{"text": "one"}])));
    drop(kept);
    let mut store = place.store();
    let with = TurnInput { words: "A".to_owned(), ..turn_of(&store, "s", 1).unwrap() };
    replace_turn(&mut store, "s", 1, with, place.tick()).unwrap();
    // The process ends here, and the words are there all the same.
    let mut kept = place.open("s");
    let mut speaker = script(&json!([{"text": "eins"}]));
    let mut hands = speaker.hands();
    kept.go_on(&mut speaker, &mut hands, &|| place.tick(), &mut |_| {}).unwrap();
    let row = store.session("s").unwrap();
    let said: Vec<String> = transcript(&store, &row).unwrap().messages.into_iter().map(|entry| entry.text).collect();
    assert_eq!(said, ["A", "eins"]);
    clean(&store);
    assert!(matches!(turn_of(&store, "s", 2), Err(StoreError::Refused(_))));
}

#[test]
fn a_difference_is_named_with_its_item_and_its_price() {
    let place = Place::new();
    let mut kept = place.begin(Layout::Library);
    let mut speaker = script(&json!([{"text": "yes"}]));
    let mut send = |kept: &mut RecordedSession, path: &str| {
        let attached = vec![Version::note(path, None, &format!("text of {path} ").repeat(200), Vec::new())];
        let turn = TurnInput { words: "what?".to_owned(), attached, ..TurnInput::default() };
        let mut hands = speaker.hands();
        kept.send(Question { turn, ..Question::default() }, &mut speaker, &mut hands, &|| place.tick(), &mut |_| {}).unwrap();
    };
    send(&mut kept, "A.md");
    send(&mut kept, "B.md");
    send(&mut kept, "C.md");
    let difference = diff(kept.store(), ("s", 1), ("s", 2)).unwrap();
    assert_eq!((difference.item.as_deref(), difference.cause.as_str()), (Some("note:B.md"), "library_grew"), "{difference:?}");
    assert!(difference.tokens_lost.0 > 0 && difference.cost_lost > 0.0);
    let version = Version::note("B.md", None, &"text of B.md ".repeat(200), Vec::new()).hash;
    assert_eq!((difference.before, difference.after), (Some(version), Some(version)), "it only moved");
    assert!(difference.path.as_deref().is_some_and(|path| path.starts_with("system")), "{difference:?}");
    let (body, first, second) =
        (difference.body_byte.unwrap(), wire(kept.store(), "s", 1).unwrap(), wire(kept.store(), "s", 2).unwrap());
    assert!(first[..body] == second[..body] && first[body] != second[body]);
    assert!(difference.texts.0 != difference.texts.1 && difference.texts.1.contains("B.md"), "{difference:?}");
    assert!(matches!(diff(kept.store(), ("s", 1), ("s", 1)), Err(DiffError::Same)));
}

#[test]
fn the_file_follows_the_session_and_hand_edits_stay() {
    let place = Place::new();
    let mut kept = place.begin(Layout::Log);
    let mut speaker = tool_loop();
    place.send(&mut kept, "What does the note say?", &mut speaker);
    let text = place.file();
    assert!(text.contains("**user**: What does the note say?\n[Context: Notes: Garden.md]\n"), "{text}");
    assert!(text.contains("**ai**: It says 42."), "{text}");
    // Moved and edited by hand.
    let moved = place.root().join("Moved.md");
    std::fs::rename(&place.files()[0], &moved).unwrap();
    std::fs::write(&moved, text.replace("It says 42.", "It says forty-two.")).unwrap();
    place.send(&mut kept, "Anything else?", &mut speaker);
    let text = std::fs::read_to_string(&moved).unwrap();
    assert!(text.contains("forty-two") && text.contains("Yes, that is all."), "{text}");
    assert_eq!(place.files().len(), 0);
    drop(kept);
    let mut kept = place.open("s");
    place.send(&mut kept, "And?", &mut speaker);
    let text = std::fs::read_to_string(&moved).unwrap();
    assert!(text.contains("forty-two") && text.contains("**user**: And?"), "{text}");
    assert_eq!(kept.take_failures(), []);
    clean(kept.store());
}

#[test]
fn an_imported_conversation_goes_on_with_its_notes() {
    let place = Place::new();
    let mut kept = place.begin(Layout::Log);
    let line = |role, text: &str| Line {
        role,
        text: text.to_owned(),
        at_ms: Some(5),
        context: foreword_vault::transcript::Context { notes: vec!["Garden.md".into()], ..Default::default() },
        calls: Vec::new(),
        cut_off: false,
        goes_on: false,
        failed: Vec::new(),
    };
    kept.import(vec![line(Role::User, "When do I prune?"), line(Role::Assistant, "In March.")], place.tick()).unwrap();
    drop(kept);
    let mut kept = place.open("s");
    let library = vec![Version::note("Garden.md", None, "Prune in March.", Vec::new())];
    let turn = TurnInput { words: "And in May?".to_owned(), ..TurnInput::default() };
    let mut speaker = script(&json!([{"text": "No."}]));
    let mut hands = speaker.hands();
    kept.send(Question { turn, library }, &mut speaker, &mut hands, &|| place.tick(), &mut |_| {}).unwrap();
    let body = String::from_utf8(wire(kept.store(), "s", 0).unwrap()).unwrap();
    assert!(body.contains("When do I prune?") && body.contains("In March.") && body.contains("And in May?"), "{body}");
    let inspection = inspect(kept.store(), "s", 0).unwrap();
    let garden = inspection.context.iter().find(|entry| entry.item.to_string() == "note:Garden.md").unwrap();
    assert_eq!(garden.layer, Some(foreword_core::layer::LayerId::L2));
    assert_eq!(inspection.turn, 2);
    assert_eq!(kept.store().search("prune", 5).unwrap().len(), 1);
    drop(kept);
    let mut kept = place.open("s");
    place.send(&mut kept, "Thanks", &mut speaker);
    clean(kept.store());
}

#[test]
fn a_full_disk_does_not_stop_the_turn() {
    // A store that cannot be written to for a while.
    #[derive(Debug)]
    struct Flaky(Sqlite, std::sync::Arc<std::sync::atomic::AtomicBool>);
    macro_rules! pass { ($($name:ident ( $($arg:ident : $ty:ty),* ) -> $ret:ty;)*) => { $(fn $name(&self, $($arg: $ty),*) -> foreword_store::Result<$ret> { self.0.$name($($arg),*) })* } }
    impl Store for Flaky {
        fn commit(&mut self, session: &str, writes: &[Write]) -> foreword_store::Result<Counts> {
            if self.1.load(std::sync::atomic::Ordering::Relaxed) {
                return Err(StoreError::Full { doing: "write to a session" });
            }
            self.0.commit(session, writes)
        }
        fn begin(&mut self, new: &foreword_store::NewSession) -> foreword_store::Result<foreword_store::Lease> {
            self.0.begin(new)
        }
        fn branch(&mut self, session: &str, at: Counts, fork: Option<&Fork>, writes: &[Write]) -> foreword_store::Result<()> {
            self.0.branch(session, at, fork, writes)
        }
        fn delete(&mut self, session: &str) -> foreword_store::Result<()> {
            self.0.delete(session)
        }
        fn sent(&mut self, new: foreword_store::NewForwarded) -> foreword_store::Result<u64> {
            self.0.sent(new)
        }
        fn answered(&mut self, number: u64, answered: &foreword_store::Answered) -> foreword_store::Result<()> {
            self.0.answered(number, answered)
        }
        fn load(&mut self, dump: &Dump) -> foreword_store::Result<()> {
            self.0.load(dump)
        }
        pass! {
            sessions() -> Vec<SessionRow>; session(id: &str) -> SessionRow; log(session: &str, from: u64) -> Vec<foreword_store::Logged>;
            log_packed(session: &str, from: u64) -> Vec<foreword_store::Logged>; unpack(packed: serde_json::Value) -> serde_json::Value;
            parts(session: &str) -> Vec<String>; requests(session: &str) -> Vec<foreword_store::Request>;
            request(session: &str, number: u64) -> foreword_store::Request; messages(session: &str, request: u64) -> Vec<serde_json::Value>;
            message_hashes(session: &str, request: u64) -> Vec<Hash>; context(session: &str, request: u64) -> Vec<serde_json::Value>;
            ledger(session: &str) -> Vec<(u64, foreword_store::Usage)>;
            own(session: Option<&str>, kind: &str) -> std::collections::BTreeMap<String, foreword_store::Own>;
            summaries(session: &str, most: usize) -> Vec<foreword_store::Summary>; text(hash: Hash) -> String; agent(hash: Hash) -> serde_json::Value;
            checkpoint(session: &str) -> Option<foreword_store::Checkpoint>; search(words: &str, limit: usize) -> Vec<Found>;
            check() -> Vec<Fault>; backup(file: &Path) -> (); dump(session: &str) -> Dump; lease(session: &str) -> foreword_store::Lease;
            forwarded() -> Vec<foreword_store::Forwarded>; forwarded_before(before: Option<u64>, most: usize) -> Vec<foreword_store::Forwarded>;
            forwarded_of(session: &str) -> Vec<foreword_store::Forwarded>; forwarded_body(number: u64) -> String;
        }
    }
    let place = Place::new();
    drop(place.begin(Layout::Log));
    let full = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let store = Flaky(place.store(), std::sync::Arc::clone(&full));
    let mut kept = RecordedSession::open(Box::new(store), "s", None, Some(place.chats())).unwrap();
    let mut speaker = tool_loop();
    place.send(&mut kept, "a", &mut speaker);
    full.store(true, std::sync::atomic::Ordering::Relaxed);
    let said = place.send(&mut kept, "b", &mut speaker);
    assert_eq!(said.text, "Yes, that is all.");
    assert!(!kept.is_stored());
    let failures = kept.take_failures();
    assert!(failures.iter().any(|failure| failure.0.contains("the disk is full")), "{failures:?}");
    full.store(false, std::sync::atomic::Ordering::Relaxed);
    place.send(&mut kept, "c", &mut speaker);
    assert!(kept.is_stored());
    assert_eq!(kept.store().log("s", 0).unwrap().iter().filter(|entry| entry.kind == "turn").count(), 3);
    clean(kept.store());
}

#[test]
fn a_session_is_written_to_by_one_at_a_time() {
    let place = Place::new();
    let kept = place.begin(Layout::Log);
    assert!(matches!(
        RecordedSession::open(Box::new(place.store()), "s", None, None),
        Err(OpenSessionError::Store(StoreError::Leased(_)))
    ));
    drop(kept);
    place.open("s");
}

#[test]
fn what_a_process_left_open_is_read_before_the_session_is_opened() {
    let place = Place::new();
    let mut kept = place.begin(Layout::Log);
    kept.tell(Input::Turn(TurnInput { words: "why?".to_owned(), ..TurnInput::default() }), place.tick()).unwrap();
    kept.record_part("Because the ");
    kept.record_part("starter");
    drop(kept);
    let store = place.store();
    let row = store.session("s").unwrap();
    let said = transcript(&store, &row).unwrap().messages;
    let last = said.last().unwrap();
    assert_eq!((said.len(), last.role, last.text.as_str(), last.cut_off), (2, Role::Assistant, "Because the starter", true));
    let NamedMessage { entry: last, id, ending, .. } = named_messages(&store, "s").unwrap().pop().unwrap();
    assert_eq!((last.text.as_str(), last.cut_off, id), ("Because the starter", true, None));
    assert_eq!(ending, Some(Ending::Interrupted));
    let exported = export(&store, "s").unwrap();
    let elsewhere = Place::new();
    elsewhere.store().load(&exported).unwrap();
    let store = elsewhere.store();
    let taken = transcript(&store, &store.session("s").unwrap()).unwrap().messages;
    assert_eq!(taken.last().map(|entry| (entry.text.as_str(), entry.cut_off)), Some(("Because the starter", true)));
    clean(&store);
    // Once it is opened it is a message like others, and is not told twice.
    drop(place.open("s"));
    let said = transcript(&place.store(), &row).unwrap().messages;
    assert_eq!((said.len(), said.last().unwrap().cut_off), (2, true));
    assert_eq!(named_messages(&place.store(), "s").unwrap().pop().unwrap().ending, Some(Ending::Interrupted));
}

#[test]
fn words_that_became_no_turn_yet_are_read() {
    let place = Place::new();
    let mut kept = place.begin(Layout::Log);
    let turn = TurnInput { words: "what now?".to_owned(), ..TurnInput::default() };
    kept.store_told(&log_entry::LogEntry::Asked(Box::new(turn.clone())), place.tick(), false, Vec::new());
    let words = || {
        let store = place.store();
        let said = transcript(&store, &store.session("s").unwrap()).unwrap().messages;
        said.into_iter().map(|entry| entry.text).collect::<Vec<_>>()
    };
    assert_eq!(words(), ["what now?"]);
    kept.tell(Input::Turn(turn), place.tick()).unwrap();
    assert_eq!(words(), ["what now?"]);
}

/// A store that threads share, and its folder, which can be moved away.
#[cfg(unix)]
fn movable(place: &Place) -> (Shared, PathBuf, PathBuf) {
    let folder = place.root().join(STORE).parent().unwrap().to_owned();
    (Shared::new(place.store()).unwrap(), folder, place.root().join("away"))
}

#[cfg(unix)]
#[test]
fn words_that_cannot_be_stored_are_not_said_where_that_is_wanted() {
    let place = Place::new();
    drop(place.begin(Layout::Log));
    let (store, folder, away) = movable(&place);
    let open = || RecordedSession::open(Box::new(store.clone()), "s", None, None).unwrap();
    let send = |kept: &mut RecordedSession, speaker: &mut Script| {
        let mut events = Vec::new();
        let turn = TurnInput { words: "a".to_owned(), ..TurnInput::default() };
        let mut hands = speaker.hands();
        let said = kept.send(Question { turn, ..Question::default() }, speaker, &mut hands, &|| place.tick(), &mut |event| {
            events.push(match event {
                Event::Stored => "stored",
                Event::Request(_) => "request",
                _ => "more",
            });
        });
        (said, events)
    };
    for mode in [Mode::Chat, Mode::Qa] {
        let (mut kept, mut speaker) = (open(), script(&json!([{"text": "Yes."}])));
        kept.set_mode(mode, place.tick());
        kept.must_store();
        std::fs::rename(&folder, &away).unwrap();
        let (said, events) = send(&mut kept, &mut speaker);
        assert!(matches!(said, Err(TurnError::NotStored(Health::Failing { full: false, .. }))), "{said:?}");
        assert_eq!(events, [""; 0]);
        kept.discard_unstored();
        std::fs::rename(&away, &folder).unwrap();
        let mut kept = open();
        let before = kept.session().turns();
        kept.must_store();
        let (said, events) = send(&mut kept, &mut speaker);
        assert_eq!((said.unwrap().text.as_str(), &events[..2]), ("Yes.", &["stored", "request"][..]));
        assert_eq!(kept.session().turns(), before + 1);
    }
    clean(&store);
}

#[cfg(unix)]
#[test]
fn a_session_that_could_not_begin_is_stored_when_that_works() {
    let place = Place::new();
    let (store, folder, away) = movable(&place);
    let setup = Setup::new("held", Some("claude-sonnet-5"), Layout::Log, 1, None).unwrap();
    std::fs::rename(&folder, &away).unwrap();
    assert!(
        RecordedSession::begin(Box::new(store.clone()), "held", &Agent::default(), &setup, None, None, place.tick()).is_err()
    );
    let begin = RecordedSession::begin_held(Box::new(store.unsynced()), "held", &Agent::default(), &setup, None, place.tick());
    let mut kept = begin.unwrap();
    let mut speaker = script(&json!([{"text": "Yes."}, {"text": "No."}]));
    for words in ["one", "two"] {
        let turn = TurnInput { words: words.to_owned(), ..TurnInput::default() };
        let turn = Turn::of_client(vec![Input::Turn(turn)], ClientOptions::default());
        kept.run(turn, &mut speaker, &mut NoHands, &|| place.tick(), &mut |_| {}).unwrap();
        assert!(!kept.is_stored() && !kept.health().is_well());
    }
    assert!(!folder.exists());
    std::fs::rename(&away, &folder).unwrap();
    assert!(kept.settle());
    drop(kept);
    let said = transcript(&store, &store.session("held").unwrap()).unwrap().messages;
    assert_eq!(said.iter().map(|entry| entry.text.as_str()).collect::<Vec<_>>(), ["one", "Yes.", "two", "No."]);
    clean(&store);
}

/// A provider whose cache serves nothing.
struct Uncached;

impl ChatModel for Uncached {
    fn answer(&mut self, request: Arc<Outgoing>, _: CancellationToken) -> ReplyStream {
        let prompt = foreword_provider::usage::CacheUse { uncached: request.body.prompt.tokens(), ..Default::default() };
        whole_reply(Ok(Reply { text: "Yes.".to_owned(), spent: Some(Spent { prompt, output: 1 }), ..Reply::default() }))
    }
}

#[test]
fn a_cache_that_never_serves_anything_is_told_once() {
    let place = Place::new();
    let mut kept = place.begin(Layout::Log);
    let warnings: Vec<usize> = (0..6)
        .map(|turn| {
            let turn = TurnInput { words: format!("Turn {turn}: {}", "prune in March ".repeat(500)), ..TurnInput::default() };
            let question = Question { turn, ..Question::default() };
            kept.send(question, &mut Uncached, &mut NoHands, &|| place.tick(), &mut |_| {}).unwrap();
            kept.take_failures().iter().filter(|failure| failure.0.contains("reported 0 tokens from its cache")).count()
        })
        .collect();
    assert_eq!(warnings, [0, 0, 0, 1, 0, 0]);
}
