//! `foreword search`.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::{Args as ClapArgs, ValueEnum};
use foreword_engine::search::{Answer, Hit, Kind, Query, Strategy, period};
use foreword_vault_tools::catalog::{self, Catalog, QueryRow, Row};
use foreword_vault_tools::corpus::Corpus;
use foreword_vault_tools::embedding::{EmbeddingModel, Fetch};
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
Search the notes, canvases and PDFs of a vault and the rules and references of its agents, by keyword and by meaning. The search runs on this machine.

The first search downloads a small embedding model (about 90 MB, once). If that fails, search uses keywords only and says so. \
Search never waits for a full index: notes without embeddings are found by keyword until `foreword index` has embedded them.

A time in the query (`last week`, `in March 2026`, `since Monday`) limits the search to notes of that time: by their `date`, their \
name, or their modification time.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword search examples/vault \"why was the loaf flat\"
  foreword search \"what did I write about the boiler last week\"          search this folder
  foreword search notes \"frost\" --items rules,references --json
  foreword search --catalog items.jsonl --queries queries.jsonl --json   search your own items

A catalog row:  {\"kind\": \"rule|reference|tool|note\", \"name\": …, \"server\": …, \"description\": …, \"text\": …, \"parameters\": {…}}
A query row:    {\"id\": …, \"query\": …}
An answer row:  {\"id\": …, \"results\": [{\"item\", \"score\", \"semantic\", \"keyword\", \"chunk\"}], \"left_out\": n}

`score` is between 0 and 1 and comparable between queries: below 0.2 is noise, 0.5 and above is a good match. `semantic` is the cosine similarity of
the best chunk. `keyword` is the share of the query's words in it, weighted by rarity.
Exit codes: 0 success; 2 an argument or a file is wrong.";

/// Options for working without a network.
#[derive(ClapArgs)]
pub(crate) struct Offline {
    /// Do not download anything; without the embedding model, use keyword search only
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
    /// The folder of notes [default: the current folder] and the query
    #[arg(value_names = ["VAULT", "QUERY"], num_args = 1..=2)]
    words: Vec<String>,
    /// Search only these kinds
    #[arg(long, value_enum, value_delimiter = ',')]
    items: Vec<Items>,
    /// Search mode
    #[arg(long, value_enum, default_value_t = How::Hybrid)]
    strategy: How,
    /// Number of results
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// Seconds to spend on reading and embedding files before answering
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    wait: Duration,
    /// Search the items of this file instead of a vault
    #[arg(long, value_name = "ITEMS.jsonl")]
    catalog: Option<PathBuf>,
    /// Read the queries from this file
    #[arg(long, value_name = "QUERIES.jsonl")]
    queries: Option<PathBuf>,
    /// Print one JSON object per query
    #[arg(long)]
    json: bool,
    /// Show the results that were left out, and why
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
    /// Embeddings only
    Semantic,
    /// Keywords and embeddings
    Hybrid,
    /// Keywords only
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

/// Reads a duration in seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    /// One day; for longer runs there is `foreword index`.
    const MOST: f64 = 86_400.0;
    let seconds = text.parse().ok().filter(|seconds| (0.0..=MOST).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("expected a number of seconds from 0 to {MOST}"))
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    if args.top == 0 {
        bail!("--top must be at least 1");
    }
    match (&args.catalog, &args.queries, args.words.as_slice()) {
        (Some(items), Some(queries), []) => in_catalog(args, items, queries)?,
        (Some(_), Some(_), _) => bail!("--catalog reads queries from --queries; remove {:?}", args.words.join(" ")),
        (Some(_), None, _) => bail!("--catalog requires --queries: a file with one query per line"),
        (None, Some(_), _) => bail!("--queries requires --catalog: a file with one item per line"),
        (None, None, []) => bail!("missing query: `foreword search [VAULT] QUERY`"),
        (None, None, [only]) if Path::new(only).is_dir() => bail!("missing query: `foreword search {only} QUERY`"),
        (None, None, [words]) => in_vault(args, Path::new("."), words)?,
        (None, None, [vault, words, ..]) => in_vault(args, Path::new(vault), words)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// One result in JSON.
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

/// The JSON that results of a vault and of a catalog share.
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
    let meaning = EmbeddingModel::new(&places.models, args.offline.fetch()?);
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
            Err(error) => note(format!("{error}. Using keyword search only.")),
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

/// A person judges the results, so `--top` is their exact number: the score limits that apply to automatic search are off.
fn asked<'a>(args: &Args, text: &'a str) -> Query<'a> {
    let usual = Query::new(text);
    let top_k = usual.top_k.max(args.top.saturating_mul(4));
    Query { strategy: args.strategy.into(), top_n: args.top, top_k, floor: Some(0.0), include_score: f64::INFINITY, ..usual }
}

fn in_vault(args: &Args, vault: &Path, words: &str) -> Result<()> {
    let places = places()?;
    let now = foreword_engine::clock::zoned();
    let mut corpus = Corpus::open(vault, &places, now.time_zone().clone())?;
    let meaning = EmbeddingModel::new(&places.models, args.offline.fetch()?);
    // Notes come first: they get at least half of the time.
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
            Err(error) => notes.push(format!("{error}. Using keyword search only.")),
        }
    }
    let kinds: Vec<Kind> = args.items.iter().copied().map(Into::into).collect();
    let found = period::find(words, now.date(), Weekday::Monday);
    let mut period = found.as_ref().map(|period| (period.first, period.last));
    let text = found.as_ref().map_or_else(|| words.to_owned(), |period| without(words, period));
    let mut answer = corpus.index().search(&Query { embedder: model, kinds: &kinds, period, ..asked(args, &text) });
    if let Some((first, last)) = period {
        if answer.hits.is_empty() {
            notes.push(format!("no matches dated {}; showing results of any date", span(first, last)));
            period = None;
            answer = corpus.index().search(&Query { embedder: model, kinds: &kinds, ..asked(args, words) });
        } else {
            notes.push(format!("only notes dated {}", span(first, last)));
        }
    }
    notes.extend(corpus.not_kept().iter().cloned());
    if !corpus.problems().is_empty() {
        notes.push(format!("{} files could not be indexed; run `foreword index` for details", corpus.problems().len()));
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

/// The query without the words that name a time, unless no words would be left.
fn without(words: &str, period: &period::Period) -> String {
    let before = words.get(..period.words.start).unwrap_or_default().trim_end();
    let after = words.get(period.words.end..).unwrap_or_default().trim_start();
    let rest = format!("{before} {after}").trim().to_owned();
    if rest.is_empty() { words.to_owned() } else { rest }
}

/// Computes embeddings until the time is up; returns messages for the user.
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
        format!("{} of {of} not embedded yet and found by keyword only; run `foreword index`", made.left)
    });
    let failed = made.failed.map(|error| error.to_string());
    [unfinished, failed, made.not_kept].into_iter().flatten().collect()
}

fn print(out: &mut impl Write, paint: Paint, args: &Args, answer: &Answer) -> io::Result<()> {
    if answer.hits.is_empty() {
        writeln!(out, "no results")?;
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
