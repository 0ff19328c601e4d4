//! What a request costs before and after the model: `cargo xtask bench overhead [-- LAYOUT… TURNS…]`.
//!
//! Whole turns (`RecordedSession::send`: the question taken in, the request laid out, encoded and recorded, the reply taken in) with somebody who answers at
//! once. In memory nothing reaches a disk, so what is left is the engine's own work; beside it a plain copy of the body's bytes. On disk the
//! same turn waits for three commits; beside it three plain appends that reach the disk.

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foreword_core::session::TurnInput;
use foreword_core::version::Version;
use foreword_engine::Layout;
use foreword_engine::session::{
    CancellationToken, ChatModel, Event, NoHands, Outgoing, Question, RecordedSession, Reply, ReplyStream, STORE, Setup, Spent,
    Sqlite, Store, whole_reply,
};
use foreword_engine::vault::agent;

/// How many turns are looked at, at the end of each session.
const LOOKED_AT: usize = 40;
/// A turn in the layout `log` takes at most so long at [`LIMIT_AT`] turns, the disk left out.
const LIMIT: Duration = Duration::from_millis(1);
const LIMIT_AT: usize = 100;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let (layouts, given): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|arg| arg.starts_with('l'));
    let given: Vec<usize> = given.iter().map(|arg| arg.parse()).collect::<Result<_, _>>()?;
    let lengths = if given.is_empty() { vec![10, LIMIT_AT, 1_000] } else { given };
    let mut good = true;
    println!("| layout | turns | a turn, ms | slowest, ms | body, kB | copying it, ms | on disk, ms | three appends, ms |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (layout, name) in [(Layout::Log, "log"), (Layout::Library, "library")] {
        if !layouts.is_empty() && !layouts.iter().any(|wanted| wanted == name) {
            continue;
        }
        for turns in &lengths {
            let turn = row(layout, name, *turns)?;
            good &= layout != Layout::Log || *turns != LIMIT_AT || turn < LIMIT;
        }
    }
    if !good {
        println!("\nFAILED: a turn of `log` should take less than {LIMIT:?} at {LIMIT_AT} turns");
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Says the same to everything, at once.
struct AtOnce(String);

impl ChatModel for AtOnce {
    fn answer(&mut self, request: Arc<Outgoing>, _: CancellationToken) -> ReplyStream {
        let prompt = foreword_provider::usage::CacheUse { uncached: request.body.prompt.tokens(), ..Default::default() };
        whole_reply(Ok(Reply { text: self.0.clone(), spent: Some(Spent { prompt, output: 1 }), ..Reply::default() }))
    }
}

/// The last turns of a session.
struct Turns {
    median: Duration,
    slowest: Duration,
    /// Bytes of the last body.
    body: usize,
    copy: Duration,
}

fn row(layout: Layout, name: &str, turns: usize) -> Result<Duration, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join(STORE);
    let memory = session(layout, turns, Box::new(Sqlite::in_memory()?))?;
    let disk = session(layout, turns, Box::new(Sqlite::open(&file)?))?;
    let grown = std::fs::metadata(&file)?.len() / turns as u64;
    println!(
        "| {name} | {turns} | {:.2} | {:.2} | {:.0} | {:.3} | {:.2} | {:.2} |",
        millis(memory.median),
        millis(memory.slowest),
        memory.body as f64 / 1000.0,
        millis(memory.copy),
        millis(disk.median),
        millis(appends(folder.path(), grown / 3)?),
    );
    Ok(memory.median)
}

fn session(layout: Layout, turns: usize, store: Box<dyn Store>) -> Result<Turns, Box<dyn Error>> {
    let (agent, _) = agent(Path::new("."), None).ok_or("no agent")?;
    let setup = Setup::new("bench", Some("claude-sonnet-5"), layout, 0, None)?;
    let mut kept = RecordedSession::begin(store, "bench", &agent, &setup, None, None, 0)?;
    let mut speaker = AtOnce("An answer of some length that says what the note says, in other words. ".repeat(8));
    let (mut times, mut copies) = (Vec::new(), Vec::new());
    let mut body = 0;
    for turn in 0..turns {
        let question = question(turn);
        let now = i64::try_from(turn)? * 1000;
        let mut bytes = Vec::new();
        let last = turn + LOOKED_AT >= turns;
        let start = Instant::now();
        let mut spent = Duration::ZERO;
        kept.send(question, &mut speaker, &mut NoHands, &|| now, &mut |event| {
            if let (Event::Request(outgoing), true) = (event, last) {
                let start = Instant::now();
                bytes = black_box(outgoing.body.bytes.clone());
                spent = start.elapsed();
            }
        })?;
        if last {
            times.push(start.elapsed().saturating_sub(spent));
            copies.push(spent);
            body = bytes.len();
        }
    }
    if !kept.take_failures().is_empty() {
        return Err("the store failed".into());
    }
    Ok(Turns { slowest: times.iter().max().copied().unwrap_or_default(), median: median(times), body, copy: median(copies) })
}

/// A question with a note of 4 kB, one of a hundred.
fn question(turn: usize) -> Question {
    let at = turn % 100;
    let text = format!("# Note {at}\n\n{}", format!("What note {at} says about its subject. ").repeat(100));
    let attached = vec![Version::note(&format!("Notes/{at}.md"), None, &text, Vec::new())];
    let words = format!("Question {turn}: what does the note say, and how does it fit what we said before?");
    Question { turn: TurnInput { words, attached, ..TurnInput::default() }, ..Question::default() }
}

/// Three appends of so many bytes, each of which reaches the disk.
fn appends(folder: &Path, bytes: u64) -> Result<Duration, Box<dyn Error>> {
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
    Ok(median(times))
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
