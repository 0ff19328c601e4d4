//! Invariant 8, nothing lost: a process that writes sessions is killed at random points, again and again, and each time everything that it
//! had acknowledged must be there, whole and in pairs.
//!
//! `FOREWORD_CRASHES` says how often (50 times in CI, `cargo xtask crash --times 500` for more).
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use foreword_engine::session::{
    ClientOptions, Event, Fork, Input, Mode, NoHands, Question, RecordedSession, STORE, Script, Setup, Shared, Sqlite, Store,
    StoreError, Turn, TurnInput, fork, rewind, take_in, transcript, verify,
};
use foreword_engine::{Layout, vault};
use foreword_store::{Answered, NewForwarded};
use foreword_trust::places::Places;
use foreword_vault_tools::chats::{Chats, Importer};
use jiff::tz::TimeZone;
use tempfile::TempDir;

const CHILD: &str = "FOREWORD_CRASH_CHILD";

/// Numbers that look random and can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

fn script(folder: &Path) -> Script {
    let file = folder.join("script.json");
    if !file.exists() {
        let long = "a long answer that comes in many parts ".repeat(8);
        let script = serde_json::json!({
            "replies": [
                {"text": long},
                {"text": "Looking.", "calls": [{"id": "a", "name": "read"}, {"id": "b", "name": "read"}]},
                {"text": "", "calls": [{"id": "c", "name": "read"}]},
                {"text": "That is all."},
            ],
            "tools": {"read": "an output that is long enough to be kept out of the prompt one day ".repeat(40)},
        });
        fs::write(&file, script.to_string()).unwrap();
    }
    Script::read(&file).unwrap()
}

/// Says that something is stored; what was said before the kill is what must be there after it.
fn acknowledge(line: &str) {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nack {line}").unwrap();
    out.flush().unwrap();
}

fn open(root: &Path, id: &str) -> RecordedSession {
    let chats = Chats::open(root, TimeZone::UTC).ok();
    let store = Sqlite::open(&root.join(STORE)).unwrap();
    if matches!(store.session(id), Err(StoreError::NoSession(_))) {
        let (agent, _) = vault::agent(root, None).unwrap();
        let layout = if id.ends_with('l') { Layout::Library } else { Layout::Log };
        let setup = Setup::new(id, Some("claude-sonnet-5"), layout, 0, None).unwrap();
        return RecordedSession::begin(Box::new(store), id, &agent, &setup, None, chats, now()).unwrap();
    }
    RecordedSession::open(Box::new(store), id, None, chats).unwrap()
}

fn send(root: &Path, kept: &mut RecordedSession, dice: &mut Dice, script: &mut Script) {
    let id = kept.id().to_owned();
    let words = format!("question {} of {}", dice.roll(1_000_000), std::process::id());
    let path = format!("Note {}.md", dice.roll(3));
    let note = fs::read_to_string(root.join(&path)).unwrap_or_default();
    let attached = vec![foreword_core::version::Version::note(&path, None, &note, Vec::new())];
    let turn = TurnInput { words: words.clone(), attached, ..TurnInput::default() };
    kept.set_mode(if dice.roll(3) == 0 { Mode::Agent } else { Mode::Chat }, now());
    let mut hands = script.hands();
    let mut shown = String::new();
    let mut each = |event: Event<'_>| match event {
        Event::Request(outgoing) => {
            shown.clear();
            acknowledge(&format!("said {id} {words}"));
            acknowledge(&format!("request {id} {}", outgoing.number));
        }
        Event::Part(part) => {
            shown.push_str(part);
            acknowledge(&format!("shown {id} {}", shown.trim_end()));
        }
        _ => {}
    };
    let said = kept.send(Question { turn, ..Question::default() }, script, &mut hands, &now, &mut each).unwrap();
    // The script's cache never serves anything, of which the user is told once.
    let failures = kept.take_failures().into_iter().filter(|failure| !failure.0.contains("tokens from its cache"));
    assert_eq!(failures.collect::<Vec<_>>(), []);
    acknowledge(&format!("said {id} {}", said.text));
}

/// What a gateway does: sessions that do not wait for the disk, and requests that are passed on.
struct Gateway {
    store: Shared,
    open: Vec<RecordedSession>,
    script: Script,
}

impl Gateway {
    fn new(root: &Path) -> Self {
        let file = root.join("plain.json");
        fs::write(&file, serde_json::json!({"replies": [{"text": "A plain answer."}]}).to_string()).unwrap();
        let store = Shared::new(Sqlite::open(&root.join(STORE)).unwrap()).unwrap().unsynced();
        Self { store, open: Vec::new(), script: Script::read(&file).unwrap() }
    }

    fn relay(&mut self, root: &Path, dice: &mut Dice) {
        if dice.roll(4) == 0 || self.open.is_empty() {
            let (agent, _) = vault::agent(root, None).unwrap();
            let id = format!("gate{}", dice.roll(1 << 30));
            let setup = Setup::new(&id, Some("claude-sonnet-5"), Layout::Log, 0, None).unwrap();
            if self.open.len() > 2 {
                self.open.remove(0);
            }
            self.open.push(RecordedSession::begin(Box::new(self.store.clone()), &id, &agent, &setup, None, None, now()).unwrap());
        }
        let at = usize::try_from(dice.roll(self.open.len() as u64)).unwrap();
        let kept = &mut self.open[at];
        let id = kept.id().to_owned();
        let words = format!("question {} of {}", dice.roll(1_000_000), std::process::id());
        let turn = TurnInput { words: words.clone(), ..TurnInput::default() };
        let mut each = |event: Event<'_>| {
            if let Event::Request(outgoing) = event {
                acknowledge(&format!("said {id} {words}"));
                acknowledge(&format!("request {id} {}", outgoing.number));
            }
        };
        let told = vec![Input::Turn(turn)];
        let turn = Turn::of_client(told, ClientOptions::default());
        let relayed = kept.run(turn, &mut self.script, &mut NoHands, &now, &mut each).unwrap();
        assert_eq!(kept.take_failures(), []);
        acknowledge(&format!("said {id} {}", relayed.text));
    }

    fn pass_on(&mut self, dice: &mut Dice) {
        let body = format!("{{\"a\": {}}}", dice.roll(1_000_000));
        let (front, model) = ("chat".to_owned(), "m".to_owned());
        let new = NewForwarded { at_ms: now(), front, model, session: None, body: body.clone(), about: None };
        let number = self.store.sent(new).unwrap();
        acknowledge(&format!("passed {number} {body}"));
        let answered = Answered { status: Some(200), ..Answered::default() };
        self.store.answered(number, &answered).unwrap();
        acknowledge(&format!("answered {number}"));
    }
}

/// Works until it is killed.
fn work(root: &Path, seed: u64) {
    let mut dice = Dice(seed);
    let mut script = script(root);
    script.skip(usize::try_from(dice.roll(4)).unwrap());
    let mut gateway = Gateway::new(root);
    acknowledge("ready");
    loop {
        let id = ["one", "two-l"][usize::try_from(dice.roll(2)).unwrap()];
        match dice.roll(14) {
            10 | 11 => (0..4).for_each(|_| gateway.relay(root, &mut dice)),
            12 => gateway.pass_on(&mut dice),
            0..=4 => send(root, &mut open(root, id), &mut dice, &mut script),
            5 => {
                let mut kept = open(root, id);
                kept.tell(if dice.roll(3) == 0 { Input::UndoFold } else { Input::Fold }, now()).unwrap();
                send(root, &mut kept, &mut dice, &mut script);
            }
            6 => {
                let mut kept = open(root, id);
                for _ in 0..3 {
                    send(root, &mut kept, &mut dice, &mut script);
                }
            }
            7 => import(root, &mut dice),
            8 => {
                let mut store = Sqlite::open(&root.join(STORE)).unwrap();
                let new = Fork { id: format!("fork{}", dice.roll(1 << 30)), title: None, created_ms: now() };
                if fork(&mut store, id, 1, &new).is_ok() {
                    drop(store);
                    send(root, &mut open(root, &new.id), &mut dice, &mut script);
                }
            }
            _ => {
                let note = root.join(format!("Note {}.md", dice.roll(3)));
                fs::write(note, format!("# A note\n\n{}", "words ".repeat(usize::try_from(dice.roll(400)).unwrap()))).unwrap();
                let mut store = Sqlite::open(&root.join(STORE)).unwrap();
                let forks: Vec<String> =
                    store.sessions().unwrap().into_iter().map(|row| row.id).filter(|id| id.starts_with("fork")).collect();
                if forks.len() > 4 {
                    store.delete(&forks[0]).unwrap();
                } else if let Some(id) = forks.first() {
                    let _ = rewind(&mut store, id, 1, now());
                }
            }
        }
    }
}

fn import(root: &Path, dice: &mut Dice) {
    let epoch = 1_700_000_000_000 + dice.roll(1 << 30);
    let file = root.join(format!("chat {epoch}.txt"));
    let text = format!(
        "---\nepoch: {epoch}\nmodelKey: \"a|b\"\n---\n\n**user**: imported {epoch}\n[Timestamp: 2024/09/23 22:18:00]\n\n**ai**: yes\n"
    );
    fs::write(&file, text).unwrap();
    let places = Places { cache: root.join(".cache"), models: root.join(".cache/models"), state: root.join(".state") };
    let vault = vault::open(root, &places).unwrap();
    let imported = Importer::new(&vault, TimeZone::UTC).import(&file).unwrap();
    let (agent, _) = vault::agent(root, None).unwrap();
    let store = Sqlite::open(&root.join(STORE)).unwrap();
    let taken = take_in(Box::new(store), &imported, &agent, Setup::new("", None, Layout::Log, 0, None).unwrap(), None).unwrap();
    acknowledge(&format!("said {} imported {epoch}", taken.session));
}

/// The process that is killed. It is this same program, told by its environment to work.
#[test]
fn child() {
    if let Some(root) = std::env::var_os(CHILD) {
        let seed = std::env::var("FOREWORD_CRASH_SEED").unwrap().parse().unwrap();
        work(&PathBuf::from(root), seed);
    }
}

/// Runs the child and kills it after a while. Gives back what it acknowledged.
fn kill_once(root: &Path, seed: u64, after: Duration) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(CHILD, root)
        .env("FOREWORD_CRASH_SEED", seed.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    let mut acknowledged = Vec::new();
    while out.read_line(&mut line).unwrap() > 0 && !line.starts_with("ack ready") {
        line.clear();
    }
    let reader = thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            if let Some(what) = line.strip_prefix("ack ") {
                acknowledged.push(what.to_owned());
            }
        }
        acknowledged
    });
    thread::sleep(after);
    child.kill().unwrap(); // SIGKILL
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    let status = child.wait().unwrap();
    assert!(status.code().is_none(), "the child ended by itself, {status}: {errors}");
    reader.join().unwrap()
}

/// Everything that was acknowledged is there, and everything that is there is whole.
fn check(root: &Path, acknowledged: &[String], deleted_may_miss: bool) {
    let store = Sqlite::open(&root.join(STORE)).unwrap();
    let verified = verify(&store, &mut |_, _| {}).unwrap();
    assert_eq!(verified.faults, []);
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in store.sessions().unwrap() {
        let mut said: Vec<String> = transcript(&store, &row).unwrap().messages.into_iter().map(|entry| entry.text).collect();
        said.push(store.parts(&row.id).unwrap().concat());
        texts.insert(row.id, said);
    }
    let passed = store.forwarded().unwrap();
    for what in acknowledged {
        let mut words = what.splitn(3, ' ');
        let (kind, session, rest) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or_default());
        if let Ok(number) = session.parse::<u64>() {
            let answered = passed.iter().any(|passed| passed.number == number && passed.status == Some(200));
            let holds = if kind == "answered" { answered } else { store.forwarded_body(number).is_ok_and(|body| body == rest) };
            assert!(holds, "{what} was acknowledged and is not there");
            continue;
        }
        let Some(said) = texts.get(session) else {
            assert!(deleted_may_miss && session.starts_with("fork"), "session {session} is missing: {what}");
            continue;
        };
        let holds = match kind {
            "said" => said.iter().any(|text| text == rest),
            "shown" => said.iter().any(|text| text.starts_with(rest)),
            "request" => store.request(session, rest.parse().unwrap()).is_ok(),
            _ => false,
        };
        // A fork may have been taken back since.
        assert!(holds || session.starts_with("fork"), "{what} was acknowledged and is not there: {said:#?}");
    }
    files(root, &store);
}

/// Each file in the folder of chats is a whole transcript of a session, and no newer than it.
fn files(root: &Path, store: &Sqlite) {
    let Ok(entries) = fs::read_dir(root.join("Foreword/Chats")) else { return };
    for path in entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|ending| ending == "md")) {
        let text = fs::read_to_string(&path).unwrap();
        let read =
            foreword_vault::transcript::read(&text, &TimeZone::UTC).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let Some(id) = read.transcript.session else { panic!("{} has lost its session: {text}", path.display()) };
        let Ok(row) = store.session(&id) else {
            assert!(id.starts_with("fork"), "{} is of session {id}, which is not there", path.display());
            continue;
        };
        if !id.starts_with("fork") {
            // Results of tools come into the file with the message after them.
            let words = |entries: &[foreword_vault::transcript::Entry]| -> Vec<_> {
                entries.iter().map(|entry| (entry.role, entry.text.clone(), entry.time, entry.context.clone())).collect()
            };
            let (ours, theirs) = (words(&transcript(store, &row).unwrap().messages), words(&read.transcript.messages));
            assert!(ours.starts_with(&theirs), "{}: {text}\n{ours:#?}", path.display());
        }
    }
}

#[test]
fn invariant_8_nothing_acknowledged_is_lost_by_a_kill() {
    if std::env::var_os(CHILD).is_some() {
        return;
    }
    let times: u64 = std::env::var("FOREWORD_CRASHES").ok().and_then(|times| times.parse().ok()).unwrap_or(50);
    let seed = std::env::var("FOREWORD_CRASH_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut dice = Dice(seed);
    let mut folder = TempDir::new().unwrap();
    let mut all = 0;
    for time in 0..times {
        if time.is_multiple_of(25) {
            folder = TempDir::new().unwrap(); // so that looking at everything stays quick
        }
        let after = Duration::from_micros(dice.roll(120_000));
        let acknowledged = kill_once(folder.path(), dice.roll(u64::MAX >> 2), after);
        all += acknowledged.len();
        check(folder.path(), &acknowledged, true);
        // And it goes on: what was left open is closed, and a turn works.
        let mut kept = open(folder.path(), "one");
        send(folder.path(), &mut kept, &mut dice, &mut script(folder.path()));
        drop(kept);
        check(folder.path(), &[], true);
    }
    assert!(all as u64 > times, "hardly anything was acknowledged: the kills came too early");
    eprintln!("{times} kills, {all} acknowledged writes, none lost");
}
