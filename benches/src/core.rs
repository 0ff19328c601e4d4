//! `cargo xtask bench core`: what the next envelope and the next request body take, in sessions of 100, 1,000 and 10,000 turns.
//!
//! Every turn attaches a new note of 10,000 characters and an old one, so that 1,000 turns hold 10 MB.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use foreword_core::budget::Budget;
use foreword_core::catalog::Agent;
use foreword_core::envelope::Envelope;
use foreword_core::session::{Input, Session, TurnInput};
use foreword_core::settings::{Layout, Settings};
use foreword_core::tokens::{Chars, Tokens};
use foreword_core::version::Version;
use foreword_provider::dialect::Dialect;
use foreword_provider::model::{CacheRules, Model};
use foreword_provider::render::{BodyOptions, Renderer};
use foreword_provider::table::ModelTable;

/// Each ten times the one before: work that grows with the session shows as a factor near ten.
const SESSION_LENGTHS: [usize; 3] = [100, 1_000, 10_000];

/// `library` lays everything out anew each turn, so that to come to 10,000 turns would take hours.
const LIBRARY_LENGTHS: [usize; 2] = [100, 1_000];

/// How many more turns are measured.
const ROUNDS: usize = 51;

const NOTE_CHARS: usize = 10_000;

/// Nothing ever has to give way.
const PROMPT: Tokens = Tokens(1 << 40);

/// What the engine's own work takes.
#[derive(Parser)]
struct Args {
    /// Only make the next envelope of a `log` after so many turns, for counting instructions
    #[arg(long, value_name = "TURNS")]
    steps: Option<usize>,

    /// The same for `library`
    #[arg(long, requires = "steps")]
    library: bool,

    /// Instead of the envelope, only write its body: with cache marks or, for comparison, without
    #[arg(long, requires = "steps", value_name = "WITH")]
    marks: Option<bool>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let model = ModelTable::builtin()?.default_for(Dialect::Anthropic)?;
    let layout = if args.library { Layout::Library } else { Layout::Log };
    match (args.steps, args.marks) {
        (Some(turns), Some(marks)) => one_body(model, turns, marks),
        (Some(turns), None) => one_envelope(&model, layout, turns),
        (None, _) => all(&model),
    }
}

/// A session, the notes it was told of and the bodies it came to.
struct Bench<'a> {
    session: Session,
    notes: Vec<Version>,
    model: &'a Model,
    renderer: Renderer,
    previous_len: Option<usize>,
}

/// How long one more turn took.
struct Round {
    envelope: Duration,
    body: Duration,
    copy: Duration,
    bytes: usize,
}

impl<'a> Bench<'a> {
    /// A session of so many turns.
    fn new(model: &'a Model, layout: Layout, turns: usize) -> Result<Self> {
        let agent = Agent { system_prompt: "You answer questions about notes.".to_owned(), ..Agent::default() };
        let budget = Budget { prompt: PROMPT, ..Budget::default() };
        let settings = Settings { layout, budget, ..Settings::new("bench", model.cache_prices()) };
        let session = Session::new(agent, settings, Arc::new(Chars::FOUR))?;
        let renderer = Renderer::new(model.dialect);
        let mut bench = Self { session, notes: Vec::new(), model, renderer, previous_len: None };
        for _ in 0..turns {
            let turn = bench.next_turn();
            // Not by `measured_next_envelope`: what is done here is not counted.
            bench.session.apply(turn)?;
            bench.session.request()?;
            bench.answer()?;
        }
        Ok(bench)
    }

    /// The next turn: one note that is new, and one from the middle of the session that stands already.
    fn next_turn(&mut self) -> Input {
        let at = self.notes.len();
        let note = Version::note(&format!("Notes/{at}.md"), None, &note_text(at), Vec::new());
        let old = self.notes.get(at / 2).cloned();
        self.notes.push(note.clone());
        let attached = std::iter::once(note).chain(old).collect();
        Input::Turn(TurnInput { words: format!("What does note {at} say?"), attached, ..TurnInput::default() })
    }

    fn answer(&mut self) -> Result<()> {
        let text = format!("Note {} says what it says.", self.notes.len());
        self.session.apply(Input::Assistant { text, calls: Vec::new(), opaque: Vec::new() })?;
        Ok(())
    }

    /// One more turn, measured.
    fn round(&mut self) -> Result<Round> {
        let turn = self.next_turn();
        let start = Instant::now();
        let next = black_box(measured_next_envelope(&mut self.session, turn)?);
        let envelope = start.elapsed();

        let options = BodyOptions { previous_len: self.previous_len, ..BodyOptions::default() };
        let prompt = self.session.prompt(&next);
        let start = Instant::now();
        let body = black_box(self.renderer.render(self.model, &prompt, &options));
        let rendered = start.elapsed();
        let start = Instant::now();
        let copy = black_box(body.bytes.clone());
        let copied = start.elapsed();

        self.previous_len = Some(self.session.messages().len());
        self.answer()?;
        Ok(Round { envelope, body: rendered, copy: copied, bytes: copy.len() })
    }
}

/// The work that is counted: a turn is told and its request is made.
#[inline(never)]
fn measured_next_envelope(session: &mut Session, turn: Input) -> Result<Envelope> {
    session.apply(turn)?;
    Ok(session.request()?)
}

fn one_envelope(model: &Model, layout: Layout, turns: usize) -> Result<()> {
    let mut bench = Bench::new(model, layout, turns)?;
    let turn = bench.next_turn();
    let envelope = measured_next_envelope(&mut bench.session, turn)?;
    println!("{} tokens", envelope.tokens);
    Ok(())
}

/// The body is written as it is after the one before it. What it takes less without marks is what planning and writing them takes.
fn one_body(mut model: Model, turns: usize, marks: bool) -> Result<()> {
    if !marks {
        model.cache = CacheRules::None {};
    }
    let mut bench = Bench::new(&model, Layout::Log, turns)?;
    bench.round()?;
    let turn = bench.next_turn();
    bench.session.apply(turn)?;
    let envelope = bench.session.request()?;
    let body = measured_body(&mut bench, &envelope, marks);
    println!("{body} bytes");
    Ok(())
}

/// The work that is counted: the next body. Its size.
#[inline(never)]
fn measured_body(bench: &mut Bench<'_>, envelope: &Envelope, marks: bool) -> usize {
    let fold_len = if marks { bench.session.before_next_fold() } else { None };
    let options = BodyOptions { previous_len: bench.previous_len, fold_len, ..BodyOptions::default() };
    let prompt = bench.session.prompt(envelope);
    black_box(bench.renderer.render(bench.model, &prompt, &options)).bytes.len()
}

/// Prose without repetition, each note other than the next.
fn note_text(at: usize) -> String {
    let lines =
        (0..).map(|line| format!("Line {line} of note {at} holds words, \"quotes\" and a [[link {}]].\n", at * 31 + line));
    let mut text = String::new();
    for line in lines {
        if text.len() + line.len() > NOTE_CHARS {
            break;
        }
        text.push_str(&line);
    }
    text
}

/// The middle one of each measure over some more turns.
struct Median {
    turns: usize,
    envelope: Duration,
    body: Duration,
    copy: Duration,
    bytes: usize,
}

impl Median {
    fn of(model: &Model, layout: Layout, turns: usize) -> Result<Self> {
        let mut bench = Bench::new(model, layout, turns)?;
        // The first body is written from nothing; what is asked for is the next one.
        bench.round()?;
        let rounds: Vec<Round> = (0..ROUNDS).map(|_| bench.round()).collect::<Result<_>>()?;
        Ok(Self {
            turns,
            envelope: median(rounds.iter().map(|round| round.envelope))?,
            body: median(rounds.iter().map(|round| round.body))?,
            copy: median(rounds.iter().map(|round| round.copy))?,
            bytes: rounds.last().map_or(0, |round| round.bytes),
        })
    }

    fn ratio(&self) -> f64 {
        self.body.as_secs_f64() / self.copy.as_secs_f64()
    }
}

fn median(times: impl Iterator<Item = Duration>) -> Result<Duration> {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().context("nothing was measured")
}

fn all(model: &Model) -> Result<()> {
    println!("One more turn with a new note of 10,000 characters and an old one; {}; middle of {ROUNDS}", model.name);
    let layouts: [(Layout, &[usize]); 2] = [(Layout::Log, &SESSION_LENGTHS), (Layout::Library, &LIBRARY_LENGTHS)];
    for (layout, lengths) in layouts {
        println!(
            "\n{:<10}{:>8}{:>11}{:>13}{:>9}{:>12}{:>12}{:>8}",
            layout.as_str(),
            "turns",
            "body MB",
            "envelope",
            "growth",
            "body",
            "its copy",
            "ratio"
        );
        let mut first = None;
        for turns in lengths {
            let row = Median::of(model, layout, *turns)?;
            let first = *first.get_or_insert(row.envelope.as_secs_f64());
            print_row(&row, row.envelope.as_secs_f64() / first);
        }
    }
    Ok(())
}

fn print_row(row: &Median, growth: f64) {
    println!(
        "{:<10}{:>8}{:>11.1}{:>13.1?}{:>9}{:>12.1?}{:>12.1?}{:>8.2}",
        "",
        row.turns,
        row.bytes as f64 / 1e6,
        row.envelope,
        format!("x {growth:.2}"),
        row.body,
        row.copy,
        row.ratio(),
    );
}
