//! `foreword search`.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::{Args as ClapArgs, ValueEnum};
use foreword_engine::catalog::{self, Catalog, QueryRow, Row};
use foreword_engine::corpus::Corpus;
use foreword_engine::meaning::{Fetch, Meaning};
use foreword_engine::search::{Answer, Hit, Kind, Query, Strategy, period};
use jiff::civil::{Date, Weekday};
use serde::Serialize;
use serde_json::{Value, json};

use crate::config;
use crate::index::read_files;
use crate::paint::{Paint, count, note, one_line, shown};
use crate::places::places;
use crate::progress::{self, Bar};
use crate::terminal;

pub(crate) const USAGE: &str = "\
foreword search [OPTIONS] [VAULT] <QUERY>
       foreword search [OPTIONS] --catalog <ITEMS.jsonl> --queries <QUERIES.jsonl>";

pub(crate) const LONG_ABOUT: &str = "\
Find the notes, canvases and PDFs of a vault, and the rules and references of its agents, that answer a question: by words and by meaning, on this machine.

The first search fetches a small embedding model (about 90 MB, once). Where it cannot be had, the search goes by words and says so. \
Searching never waits for a full index: notes that have no vectors yet are found by their words, and `foreword index` makes the rest.

A time in the question (`last week`, `in March 2026`, `since Monday`) narrows the search to notes of that time: by their `date`, their \
name, or their last change.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword search examples/vault \"why was the loaf flat\"
  foreword search \"what did I write about the boiler last week\"          in this folder
  foreword search notes \"frost\" --items rules,references --json
  foreword search --catalog items.jsonl --queries queries.jsonl --json   measure it on your own items

A catalog row:  {\"kind\": \"rule|reference|tool|note\", \"name\": …, \"server\": …, \"description\": …, \"text\": …, \"parameters\": {…}}
A query row:    {\"id\": …, \"query\": …}
An answer row:  {\"id\": …, \"results\": [{\"item\", \"score\", \"semantic\", \"keyword\", \"chunk\"}], \"left_out\": n}

`score` is from 0 to 1 and comparable between questions: below 0.2 is noise, from 0.5 on it is hardly an accident. `semantic` is the cosine of
the best chunk, `keyword` the share of the question's words in it, rare words counting more.
Exit codes: 0 it was searched; 2 something is wrong with the arguments or the files.";

/// Whether to go without the network.
#[derive(ClapArgs)]
pub(crate) struct Offline {
    /// Fetch nothing: without the embedding model at hand, search by words alone
    #[arg(long)]
    offline: bool,
}

impl Offline {
    pub(crate) fn fetch(&self) -> Result<Fetch> {
        Ok(if self.offline { Fetch::Never } else { Fetch::Allowed { mirror: config::weights_mirror()? } })
    }
}

/// Options of `foreword search`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The folder of notes (this one where it is left out), and what to look for
    #[arg(value_names = ["VAULT", "QUERY"], num_args = 1..=2)]
    words: Vec<String>,
    /// Only these kinds
    #[arg(long, value_enum, value_delimiter = ',')]
    items: Vec<Items>,
    /// How to search
    #[arg(long, value_enum, default_value_t = How::Hybrid)]
    strategy: How,
    /// How many results are wanted
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// How long to read files and make vectors before answering, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    wait: Duration,
    /// Search the items of this file instead of a vault
    #[arg(long, value_name = "ITEMS.jsonl")]
    catalog: Option<PathBuf>,
    /// Ask the questions of this file
    #[arg(long, value_name = "QUERIES.jsonl")]
    queries: Option<PathBuf>,
    /// Print JSON, one object a question
    #[arg(long)]
    json: bool,
    /// Show what was left out, and why
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    offline: Offline,
}

#[derive(Clone, Copy, ValueEnum)]
enum Items {
    Rules,
    References,
    Tools,
    Notes,
}

impl From<Items> for Kind {
    fn from(items: Items) -> Self {
        match items {
            Items::Rules => Self::Rule,
            Items::References => Self::Reference,
            Items::Tools => Self::Tool,
            Items::Notes => Self::Note,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum How {
    /// By meaning alone
    Semantic,
    /// By words and by meaning
    Hybrid,
    /// By words alone
    Keyword,
}

impl From<How> for Strategy {
    fn from(how: How) -> Self {
        match how {
            How::Semantic => Self::Semantic,
            How::Hybrid => Self::Hybrid,
            How::Keyword => Self::Keyword,
        }
    }
}

/// A time that can be waited.
fn seconds(text: &str) -> Result<Duration, String> {
    /// A day: who waits longer wants `foreword index`.
    const MOST: f64 = 86_400.0;
    let seconds = text.parse().ok().filter(|seconds| (0.0..=MOST).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("give a number of seconds from 0 to {MOST}"))
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    if args.top == 0 {
        bail!("--top 0 asks for no results; give a number from 1");
    }
    match (&args.catalog, &args.queries, args.words.as_slice()) {
        (Some(items), Some(queries), []) => in_catalog(args, items, queries)?,
        (Some(_), Some(_), _) => bail!("--catalog takes its questions from --queries; leave out {:?}", args.words.join(" ")),
        (Some(_), None, _) => bail!("--catalog needs --queries: a file with a question a line"),
        (None, Some(_), _) => bail!("--queries needs --catalog: a file with an item a line"),
        (None, None, []) => bail!("a question is required: `foreword search [VAULT] QUERY`"),
        (None, None, [only]) if Path::new(only).is_dir() => bail!("a question is required: `foreword search {only} QUERY`"),
        (None, None, [words]) => in_vault(args, Path::new("."), words)?,
        (None, None, [vault, words, ..]) => in_vault(args, Path::new(vault), words)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// One result, as machines read it.
#[derive(Serialize)]
struct Line<'a> {
    item: String,
    score: f64,
    semantic: Option<f64>,
    keyword: Option<f64>,
    chunk: &'a str,
}

impl<'a> Line<'a> {
    fn of(hit: &'a Hit) -> Self {
        Self { item: hit.id.to_string(), score: hit.score, semantic: hit.semantic, keyword: hit.keyword, chunk: &hit.chunk.text }
    }
}

/// The part of an answer that is the same for a vault and a catalog.
fn json_of(args: &Args, answer: &Answer) -> Value {
    let mut line = json!({"results": answer.hits.iter().map(Line::of).collect::<Vec<_>>(), "left_out": answer.left_out_count});
    if args.explain
        && let Value::Object(line) = &mut line
    {
        let left_out =
            answer.left_out.iter().map(|(item, reason, score)| json!({"item": item, "reason": reason, "score": score}));
        line.insert("left_out_items".to_owned(), left_out.collect());
    }
    line
}

fn in_catalog(args: &Args, items: &Path, queries: &Path) -> Result<()> {
    let rows: Vec<Row> = catalog::read(items)?;
    let queries: Vec<QueryRow> = catalog::read(queries)?;
    let places = places()?;
    let meaning = Meaning::new(&places.models, args.offline.fetch()?);
    let mut catalog = Catalog::new(&rows, args.strategy.into())?;
    let mut model = None;
    if !matches!(args.strategy, How::Keyword) {
        match meaning.load(&mut progress::fetching("the embedding model")) {
            Ok(loaded) => {
                let mut bar = Bar::of_things("embedding");
                let made = catalog.embed(&places, loaded, &mut |done, total| {
                    bar.at(done as u64, total as u64);
                    ControlFlow::Continue(())
                });
                drop(bar);
                made.not_kept.iter().for_each(note);
                made.failed.iter().for_each(note);
                model = Some(loaded);
            }
            Err(error) => note(format!("{error}. Searching by words alone.")),
        }
    }
    let kinds: Vec<Kind> = args.items.iter().copied().map(Into::into).collect();
    let paint = Paint::stdout();
    let mut out = BufWriter::new(terminal::stdout());
    for row in &queries {
        let query = Query { embedder: model, kinds: &kinds, ..asked(args, &row.query) };
        let answer = catalog.index().search(&query);
        if args.json {
            let mut line = json_of(args, &answer);
            if let Value::Object(line) = &mut line {
                line.insert("id".to_owned(), row.id.clone());
            }
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "{}", paint.with("1", one_line(&row.query, 120)))?;
            print(&mut out, paint, args, &answer)?;
            writeln!(out)?;
        }
    }
    out.flush()?;
    Ok(())
}

/// Who searches by hand judges the results by hand: `--top` is how many there are, without the floor and the extras that hold when the
/// engine chooses alone.
fn asked<'a>(args: &Args, text: &'a str) -> Query<'a> {
    let usual = Query::new(text);
    let top_k = usual.top_k.max(args.top.saturating_mul(4));
    Query { strategy: args.strategy.into(), top_n: args.top, top_k, floor: Some(0.0), include_score: f64::INFINITY, ..usual }
}

fn in_vault(args: &Args, vault: &Path, words: &str) -> Result<()> {
    let places = places()?;
    let now = foreword_engine::clock::zoned();
    let mut corpus = Corpus::open(vault, &places, now.time_zone().clone())?;
    let meaning = Meaning::new(&places.models, args.offline.fetch()?);
    // Notes come first: at least half of the time is theirs.
    let started = Instant::now();
    let mut notes: Vec<String> = read_files(&mut corpus, Some(started + args.wait / 2)).into_iter().collect();
    let wait = args.wait.saturating_sub(started.elapsed());
    let mut model = None;
    if !matches!(args.strategy, How::Keyword) {
        match meaning.load(&mut progress::fetching("the embedding model")) {
            Ok(loaded) => {
                notes.extend(embed_for(&mut corpus, loaded, wait));
                model = Some(loaded);
            }
            Err(error) => notes.push(format!("{error}. Searching by words alone.")),
        }
    }
    let kinds: Vec<Kind> = args.items.iter().copied().map(Into::into).collect();
    let found = period::find(words, now.date(), Weekday::Monday);
    let mut period = found.as_ref().map(|period| (period.first, period.last));
    let text = found.as_ref().map_or_else(|| words.to_owned(), |period| without(words, period));
    let mut answer = corpus.index().search(&Query { embedder: model, kinds: &kinds, period, ..asked(args, &text) });
    if let Some((first, last)) = period {
        if answer.hits.is_empty() {
            notes.push(format!("nothing that fits is dated {}; this is from any time", span(first, last)));
            period = None;
            answer = corpus.index().search(&Query { embedder: model, kinds: &kinds, ..asked(args, words) });
        } else {
            notes.push(format!("only what is dated {}", span(first, last)));
        }
    }
    notes.extend(corpus.not_kept().iter().cloned());
    if !corpus.problems().is_empty() {
        notes.push(format!("problems: {}; `foreword index` names them", corpus.problems().len()));
    }
    let paint = Paint::stdout();
    let mut out = BufWriter::new(terminal::stdout());
    if args.json {
        let mut line = json_of(args, &answer);
        if let Value::Object(line) = &mut line {
            let period = period.map(|(first, last)| json!({"from": first, "to": last}));
            line.extend(BTreeMap::from([
                ("query".to_owned(), json!(words)),
                ("period".to_owned(), json!(period)),
                ("chunks".to_owned(), json!(answer.chunks)),
                ("embedded".to_owned(), json!(answer.embedded)),
                ("notes".to_owned(), json!(notes)),
            ]));
        }
        writeln!(out, "{line}")?;
    } else {
        notes.iter().for_each(note);
        print(&mut out, paint, args, &answer)?;
    }
    out.flush()?;
    Ok(())
}

fn span(first: Date, last: Date) -> String {
    match (first == Date::MIN, last == Date::MAX) {
        (true, _) => format!("until {last}"),
        (_, true) => format!("from {first} on"),
        _ if first == last => format!("{first}"),
        _ => format!("from {first} to {last}"),
    }
}

/// The question without the words that name a time, unless nothing would be left.
fn without(words: &str, period: &period::Period) -> String {
    let before = words.get(..period.words.start).unwrap_or_default().trim_end();
    let after = words.get(period.words.end..).unwrap_or_default().trim_start();
    let rest = format!("{before} {after}").trim().to_owned();
    if rest.is_empty() { words.to_owned() } else { rest }
}

/// Makes vectors for as long as it may take; what to say about it.
fn embed_for(corpus: &mut Corpus, model: &dyn foreword_engine::search::Embedder, wait: Duration) -> Vec<String> {
    let until = Instant::now() + wait;
    let mut bar = Bar::of_things("embedding");
    let made = corpus.embed(model, &mut |done, total| {
        bar.at(done as u64, total as u64);
        if Instant::now() < until { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let extent = corpus.extent();
    let unfinished = (made.left > 0).then(|| {
        let of = count(extent.chunks, "chunk");
        format!("{} of {of} found by words only so far; `foreword index` makes the rest", made.left)
    });
    let failed = made.failed.map(|error| error.to_string());
    [unfinished, failed, made.not_kept].into_iter().flatten().collect()
}

fn print(out: &mut impl Write, paint: Paint, args: &Args, answer: &Answer) -> io::Result<()> {
    if answer.hits.is_empty() {
        writeln!(out, "nothing found")?;
    }
    let number = |value: Option<f64>| value.map_or_else(|| "  - ".to_owned(), |value| format!("{value:.2}"));
    for hit in &answer.hits {
        let parts = format!("meaning {} words {}", number(hit.semantic), number(hit.keyword));
        writeln!(
            out,
            "{}  {}  {}",
            paint.with("32", format!("{:.2}", hit.score)),
            paint.with("1", shown(&hit.id.to_string())),
            paint.with("2", parts)
        )?;
        writeln!(out, "      {}", one_line(&hit.chunk.text, 150))?;
    }
    let left_out = answer.left_out_count;
    if args.explain {
        for (item, reason, score) in &answer.left_out {
            let reason = json!(reason);
            let reason = reason.as_str().unwrap_or_default().replace('_', " ");
            writeln!(out, "{}", paint.with("2", format!("{score:.2}  {}  left out: {reason}", shown(&item.to_string()))))?;
        }
    }
    if left_out > 0 {
        writeln!(out, "{}", paint.with("2", format!("{} left out", count(left_out, "other"))))?;
    }
    Ok(())
}
