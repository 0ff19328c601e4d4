//! `cargo xtask bench prefix`: how long a person waits for the first word, turn by turn, in one conversation over five notes.
//!
//! The same twenty turns three ways with the embedded model: glued together anew every time, in the layout `library`, in the layout `log`.
//! Then through the real client to a real llama.cpp server with the same model file, to see whether the cache simulator says what the server
//! says.
//!
//! `FOREWORD_MODELS` names the folder of the models, `FOREWORD_LLAMA_PYTHON` a Python that has the package `xllamacpp`; without one the server
//! is left out.

mod server;
mod talk;
mod ways;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};
use foreword_core::version::Version;
use foreword_engine::Layout;
use foreword_engine::attach::{Pages, gather};
use foreword_engine::session::{ClientConfig, Embedded, Remote, embedded_file};
use foreword_engine::vault;
use foreword_models::chat_model::ChatModel;
use foreword_prompt_cache::CacheSim;
use foreword_provider::dialect::Dialect;
use foreword_trust::places::Places;
use jiff::Zoned;

use server::Server;
use talk::{TALK, Turn};
use ways::{Glue, Session, Took, Way};

/// At the last turn `log` is to be so many times faster than glue.
const FASTER: f64 = 8.0;
/// How far the simulator may be off, in parts of what the server reports.
const OFF: f64 = 0.01;

/// Time to the first token and tokens evaluated, turn by turn: glue-everything, `library`, `log`
#[derive(Parser)]
struct Args {
    /// Only this half
    #[arg(long)]
    only: Option<Half>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Half {
    /// The embedded model, three ways
    Embedded,
    /// A llama.cpp server beside its simulator
    Server,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let models = env::var_os("FOREWORD_MODELS").context("FOREWORD_MODELS does not name the folder of the models")?;
    let bench = Bench::new(PathBuf::from(models))?;
    let mut faults = Vec::new();
    if args.only != Some(Half::Server) {
        faults.extend(bench.embedded()?);
    }
    if args.only != Some(Half::Embedded) {
        match env::var_os("FOREWORD_LLAMA_PYTHON") {
            Some(python) => faults.extend(bench.server(Path::new(&python))?),
            None => {
                println!("The server was left out: FOREWORD_LLAMA_PYTHON does not name a Python that has the package xllamacpp.");
            }
        }
    }
    for fault in &faults {
        println!("FAILED: {fault}");
    }
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What all ways of the conversation share.
struct Bench {
    models: PathBuf,
    file: PathBuf,
    model: Arc<ChatModel>,
    vault: PathBuf,
    notes: Vec<Option<Version>>,
}

impl Bench {
    fn new(models: PathBuf) -> Result<Self> {
        let file = embedded_file(Some(&models))
            .with_context(|| format!("the embedded model is not in {}: `foreword models fetch` fetches it", models.display()))?;
        let vault = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/vault");
        let notes = notes(&vault)?;
        Ok(Self { model: Arc::new(ChatModel::open(&file)?), models, file, vault, notes })
    }

    fn session(&self, layout: Layout, speaker: Box<dyn foreword_engine::session::ChatModel>, cache: CacheSim) -> Result<Session> {
        let (agent, _) = vault::agent(&self.vault, None).context("there is no plain agent")?;
        Session::new(&agent, layout, &self.models, &self.model, speaker, cache)
    }

    /// All turns, each shown as it comes. One is had in every way before the next, so that a busy moment is not one way's alone.
    fn talk(&self, ways: &mut [&mut dyn Way], show: impl Fn(usize, &Turn, &[Took])) -> Result<Vec<Vec<Took>>> {
        let mut all = Vec::new();
        for (at, (turn, note)) in TALK.iter().zip(&self.notes).enumerate() {
            let row = ways.iter_mut().map(|way| way.say(turn, note.as_ref())).collect::<Result<Vec<_>>>()?;
            show(at + 1, turn, &row);
            all.push(row);
        }
        Ok(all)
    }

    /// Time to the first token, three ways.
    fn embedded(&self) -> Result<Vec<String>> {
        let (agent, _) = vault::agent(&self.vault, None).context("there is no plain agent")?;
        let embedded = || Ok::<_, anyhow::Error>(Box::new(Embedded::open(&self.file)?));
        let mut glue = Glue::new(&agent, &self.model);
        let mut library = self.session(Layout::Library, embedded()?, CacheSim::new())?;
        let mut log = self.session(Layout::Log, embedded()?, CacheSim::new())?;
        println!("The embedded model: tokens of the prompt, tokens evaluated, milliseconds to the first token\n");
        println!("| turn | | glue | | | library | | | log | | |");
        println!("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
        let turns = self.talk(&mut [&mut glue, &mut library, &mut log], |at, turn, row| {
            print!("| {at} | {} |", turn.note.map_or_else(String::new, |note| format!("+ {note}")));
            for took in row {
                print!(" {} | {} | {:.0} |", took.prompt, took.evaluated(), millis(took));
            }
            println!();
        })?;
        let mut faults = Vec::new();
        if let Some([glue, library, log]) = turns.last().map(Vec::as_slice) {
            let ratio = |took: &Took| glue.first.as_secs_f64() / took.first.as_secs_f64();
            println!(
                "\nAt turn {}, beside glue: `library` {:.1} times as fast, `log` {:.1} times.\n",
                turns.len(),
                ratio(library),
                ratio(log)
            );
            if ratio(log) < FASTER {
                faults.push(format!("`log` should be {FASTER} times as fast as glue"));
            }
        }
        for (at, row) in turns.iter().enumerate() {
            for (took, way) in row.iter().zip(["glue", "library", "log"]) {
                if took.cached != took.common {
                    let (evaluated, new) = (took.evaluated(), took.prompt - took.common);
                    faults.push(format!("turn {} of {way}: {evaluated} tokens were evaluated, {new} are new", at + 1));
                }
            }
            if at > 0 && row.last().is_some_and(|log| !log.appended) {
                faults.push(format!("turn {} of log: it does not begin with the prompt before it", at + 1));
            }
        }
        Ok(faults)
    }

    /// What a real server had cached, and what the simulator says.
    fn server(&self, python: &Path) -> Result<Vec<String>> {
        let threads = std::thread::available_parallelism()?.get();
        let words = env::temp_dir().join("foreword-bench-server.log");
        let server = Server::start(python, &self.file, self.model.context().0, threads, &words)?;
        let mut cache = CacheSim::new();
        let mut faults = Vec::new();
        for (layout, name) in [(Layout::Log, "log"), (Layout::Library, "library")] {
            let config = ClientConfig { base_url: Some(server.base_url().to_owned()), ..ClientConfig::new(Dialect::LlamaCpp) };
            let remote = Remote::new(config)?;
            let mut session = self.session(layout, Box::new(remote), cache)?;
            println!("llama.cpp's server, layout `{name}`: what it had cached, and what the simulator says\n");
            println!("| turn | prompt | cached | simulated | off | first token, ms |");
            println!("| ---: | ---: | ---: | ---: | ---: | ---: |");
            let turns = self.talk(&mut [&mut session], |at, _, row| {
                for took in row {
                    let Took { prompt, cached, simulated, .. } = took;
                    println!("| {at} | {prompt} | {cached} | {simulated} | {:.2} % | {:.0} |", took.off() * 100.0, millis(took));
                }
            })?;
            println!();
            cache = session.into_cache();
            for (at, took) in turns.iter().flatten().enumerate().filter(|(_, took)| took.off() > OFF) {
                faults.push(format!("turn {} of {name} at llama.cpp: the simulator is {:.1} % off", at + 1, took.off() * 100.0));
            }
        }
        Ok(faults)
    }
}

/// What the person attaches, turn by turn, as a session takes it in.
fn notes(root: &Path) -> Result<Vec<Option<Version>>> {
    let cache = tempfile::tempdir()?;
    let places = Places { cache: cache.path().to_owned(), models: PathBuf::new(), state: cache.path().join("state") };
    let vault = vault::open(root, &places)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut notes = Vec::new();
    for turn in &TALK {
        let Some(name) = turn.note else {
            notes.push(None);
            continue;
        };
        let attachment = vault.attachment(name)?;
        let gathered = runtime.block_on(gather(&vault, &[attachment], &places, &Zoned::now(), Pages::RecordedSession))?;
        notes.push(Some(gathered.versions.into_iter().next().with_context(|| format!("the note {name:?} is not in the vault"))?));
    }
    Ok(notes)
}

fn millis(took: &Took) -> f64 {
    took.first.as_secs_f64() * 1000.0
}
