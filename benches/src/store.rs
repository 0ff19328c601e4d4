//! What keeping a session costs: `cargo xtask bench store [-- TURNS…]`.
//!
//! Sessions of 10 to 10,000 turns over 100 notes, each turn stored as it happens: the user's message, the request, the reply. The least that
//! could be done is three appends to a file that reach the disk; those are measured beside it.

use std::error::Error;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use foreword_core::session::TurnInput;
use foreword_core::version::Version;
use foreword_engine::Layout;
use foreword_engine::session::{Question, RecordedSession, STORE, Script, Setup, Sqlite, verify};
use foreword_engine::vault::agent;
use foreword_vault_tools::chats::Chats;
use jiff::tz::TimeZone;

/// How many turns are looked at, at the end of each session.
const LOOKED_AT: usize = 40;

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<usize> = std::env::args().skip(1).map(|arg| arg.parse()).collect::<Result<_, _>>()?;
    let lengths = if given.is_empty() { vec![10, 100, 1_000, 10_000] } else { given };
    println!("| turns | a turn, ms | three appends, ms | ratio | kB a turn | transcript, ms | open, ms |");
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for turns in lengths {
        row(turns)?;
    }
    Ok(())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn question(turn: usize) -> Question {
    let at = turn % 100;
    let text = format!("# Note {at}\n\n{}", format!("What note {at} says about its subject. ").repeat(100));
    let attached = vec![Version::note(&format!("Notes/{at}.md"), None, &text, Vec::new())];
    let words = format!("Question {turn}: what does the note say, and how does it fit what we said before?");
    Question { turn: TurnInput { words, attached, ..TurnInput::default() }, ..Question::default() }
}

fn row(turns: usize) -> Result<(), Box<dyn Error>> {
    let vault = tempfile::tempdir()?;
    let script = vault.path().join("script.json");
    let reply = "An answer of some length that says what the note says, in other words. ".repeat(8);
    fs::write(&script, serde_json::json!({"replies": [{ "text": reply }]}).to_string())?;
    let mut script = Script::read(&script)?;
    let mut hands = script.hands();
    let (agent, _) = agent(vault.path(), None).ok_or("no agent")?;
    let file = vault.path().join(STORE);
    let setup = Setup::new("bench", Some("claude-sonnet-5"), Layout::Log, 0, None)?;
    let store = Box::new(Sqlite::open(&file)?);
    let mut kept = RecordedSession::begin(store, "bench", &agent, &setup, None, None, 0)?;
    let mut now = 0;
    let mut times = Vec::new();
    for turn in 0..turns {
        now += 1000;
        let start = Instant::now();
        kept.send(question(turn), &mut script.whole(), &mut hands, &|| now, &mut |_| {})?;
        if turn + LOOKED_AT >= turns {
            times.push(start.elapsed());
        }
    }
    drop(kept);
    let grown = fs::metadata(&file)?.len() / turns as u64;
    let appends = appends(vault.path(), grown / 3)?;
    let mut opened = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        let kept = RecordedSession::open(Box::new(Sqlite::open(&file)?), "bench", None, None)?;
        opened.push(start.elapsed());
        drop(kept);
    }
    let mut kept =
        RecordedSession::open(Box::new(Sqlite::open(&file)?), "bench", None, Some(Chats::open(vault.path(), TimeZone::UTC)?))?;
    kept.save_transcript(now);
    let mut saved = Vec::new();
    for turn in 0..5 {
        now += 1000;
        kept.tell(foreword_engine::session::Input::Turn(question(turn).turn), now)?;
        let start = Instant::now();
        kept.save_transcript(now);
        saved.push(start.elapsed());
    }
    // Rendering ten thousand long requests again would take minutes.
    if turns <= 1_000 && !verify(&Sqlite::open(&file)?, &mut |_, _| {})?.faults.is_empty() {
        return Err("the store is not whole".into());
    }
    let (turn, three) = (median(times), median(appends));
    println!(
        "| {turns} | {:.2} | {:.2} | {:.2} | {:.1} | {:.1} | {:.1} |",
        millis(turn),
        millis(three),
        turn.as_secs_f64() / three.as_secs_f64(),
        grown as f64 / 1024.0,
        millis(median(saved)),
        millis(median(opened)),
    );
    Ok(())
}

/// Three appends of so many bytes, each of which reaches the disk.
fn appends(folder: &Path, bytes: u64) -> Result<Vec<Duration>, Box<dyn Error>> {
    let mut file = File::create(folder.join("appends"))?;
    let piece = vec![b'x'; usize::try_from(bytes)?.max(1)];
    let mut times = Vec::new();
    for _ in 0..LOOKED_AT {
        let start = Instant::now();
        for _ in 0..3 {
            file.write_all(&piece)?;
            file.sync_data()?;
        }
        times.push(start.elapsed());
    }
    Ok(times)
}
