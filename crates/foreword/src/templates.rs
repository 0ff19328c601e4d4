//! `foreword templates`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{Args as ClapArgs, Subcommand};
use foreword_engine::manager::Manager;
use foreword_engine::session::{Setup, Stop};
use foreword_engine::templates::{BUILTIN, Shelf, TEMPLATE_FOLDERS, Template, new_text};
use foreword_engine::trust::VaultTrust;
use jiff::tz::TimeZone;

use crate::paint::{Paint, count, note, one_line, shown};
use crate::places::{config_file, places};
use crate::terminal::{self, Stream};
use crate::tree::open;

pub(crate) const LONG_ABOUT: &str = "\
Context templates: markdown files that say what a managed history keeps when older messages leave the prompt.

A template is looked for by name in Foreword/ContextTemplates of the vault, in AssistantMD/ContextTemplates of the vault, in the \
templates folder of your configuration, and among those that come with Foreword; the first one found is used.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword templates list
  foreword templates show goal-oriented
  foreword templates new my-project --vault ~/notes
  foreword templates check my-project --vault ~/notes";

/// Options of `foreword templates`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    /// The folder of notes
    #[arg(long, global = true, default_value = ".", value_name = "VAULT")]
    vault: PathBuf,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// All templates there are, and where they come from
    List,
    /// A template as it is written
    Show {
        /// Its name
        name: String,
    },
    /// Whether a template says what it means; without a name, all of them
    Check {
        /// Its name
        name: Option<String>,
    },
    /// Begin a template of your own in the vault
    New {
        /// Its name
        name: String,
        /// Begin with a copy of this one
        #[arg(long, value_name = "NAME")]
        from: Option<String>,
    },
}

/// Templates of the user's own, beside the configuration.
pub(crate) fn user_folder() -> Option<PathBuf> {
    let (config, _) = config_file().ok()?;
    Some(config.parent()?.join("templates"))
}

/// Where the templates of a vault are looked for.
pub(crate) fn shelf(vault: &Path) -> Shelf {
    let trusted = places().map(|places| VaultTrust::open_or_restricted(&places, vault).templates());
    Shelf::new(Some(vault), trusted.unwrap_or_default(), user_folder().as_deref())
}

/// Who manages the history of a session, where it is managed.
pub(crate) fn manager(setup: &Setup, vault: &Path, stop: &Stop) -> Option<Manager> {
    let manager = Manager::of(setup, &shelf(vault), Some(vault), TimeZone::system(), Arc::clone(stop))?;
    for flaw in manager.template.iter().flat_map(|template| &template.parsed.flaws) {
        note(shown(&format!("the template, line {}: {}", flaw.line, flaw.what)));
    }
    Some(manager)
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let user = user_folder();
    let trusted = shelf(&args.vault);
    let shelf = trusted.clone().to_look_at();
    match &args.what {
        What::List => list(&trusted, args.json),
        What::Show { name } => show(&shelf, &args.vault, user.as_deref(), name, args.json),
        What::Check { name } => check(&shelf, name.as_deref(), args.json),
        What::New { name, from } => new(&shelf, args, user.as_deref(), name, from.as_deref()),
    }
}

fn list(shelf: &Shelf, json: bool) -> Result<ExitCode> {
    let mut out = terminal::stdout();
    let paint = Paint::stdout();
    for listed in shelf.list() {
        if json {
            writeln!(out, "{}", serde_json::to_string(&listed)?)?;
            continue;
        }
        let place = listed.path.as_deref().unwrap_or("comes with Foreword");
        let hidden = match (listed.trusted, listed.hidden) {
            (false, _) => "; not used until `foreword trust` allows it",
            (true, true) => "; another of this name comes first",
            (true, false) => "",
        };
        let flaws = if listed.flaws > 0 { format!("; {} (see check)", count(listed.flaws, "flaw")) } else { String::new() };
        writeln!(out, "{:<20} {}", shown(&listed.name), one_line(listed.description.as_deref().unwrap_or("—"), 90))?;
        writeln!(out, "{:<20} {}", "", paint.with("2", shown(&format!("{}: {place}{hidden}{flaws}", listed.origin.as_str()))))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The text of a template as it is written.
fn text_of(template: &Template, vault: &Path, user: Option<&Path>) -> Result<String> {
    let Some(path) = &template.path else {
        let builtin = BUILTIN.iter().find(|(name, _)| *name == template.name);
        return Ok(builtin.map(|(_, text)| (*text).to_owned()).unwrap_or_default());
    };
    let root = if template.origin.as_str() == "vault" { vault } else { user.unwrap_or(vault) };
    let file = root.join(path);
    fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}

fn show(shelf: &Shelf, vault: &Path, user: Option<&Path>, name: &str, json: bool) -> Result<ExitCode> {
    let template = shelf.find(name)?;
    let mut out = terminal::stdout();
    if json {
        writeln!(out, "{}", serde_json::to_string(&template)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = text_of(&template, vault, user)?;
    // On a terminal nothing may move the cursor; a file gets the very text.
    if Stream::Stdout.is_terminal() {
        for line in text.lines() {
            writeln!(out, "{}", shown(line))?;
        }
    } else {
        out.write_all(text.as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn check(shelf: &Shelf, name: Option<&str>, json: bool) -> Result<ExitCode> {
    let names = match name {
        Some(name) => vec![name.to_owned()],
        None => shelf.list().into_iter().filter(|listed| !listed.hidden).map(|listed| listed.name).collect(),
    };
    let mut out = terminal::stdout();
    let mut sound = true;
    for name in names {
        let template = shelf.find(&name)?;
        sound &= template.parsed.flaws.is_empty();
        if json {
            writeln!(out, "{}", serde_json::to_string(&template)?)?;
            continue;
        }
        let place = template.path.as_deref().unwrap_or("comes with Foreword");
        let steps = count(template.parsed.steps.len(), "step");
        let flaws = if template.parsed.flaws.is_empty() {
            "nothing wrong".to_owned()
        } else {
            count(template.parsed.flaws.len(), "flaw")
        };
        writeln!(out, "{} ({}): {steps}, {flaws}; sha256 {}", shown(&template.name), shown(place), template.hash.short())?;
        for flaw in &template.parsed.flaws {
            writeln!(out, "  line {}: {}", flaw.line, shown(&flaw.what))?;
        }
    }
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn new(shelf: &Shelf, args: &Args, user: Option<&Path>, name: &str, from: Option<&str>) -> Result<ExitCode> {
    let bare = name.trim().strip_suffix(".md").unwrap_or(name.trim());
    // Whether it could be one is the shelf's word.
    if let Err(error @ foreword_engine::templates::NoTemplate::NotAName(_)) = shelf.find(bare) {
        return Err(error.into());
    }
    let text = match from {
        // Only from one that may be used: a copy of it may be used, too.
        Some(from) => text_of(&self::shelf(&args.vault).find(from)?, &args.vault, user)?,
        None => new_text(bare),
    };
    if !args.vault.is_dir() {
        bail!("{} is no folder; name the folder of notes with --vault", args.vault.display());
    }
    let file = args.vault.join(TEMPLATE_FOLDERS[0]).join(format!("{bare}.md"));
    let folder = file.parent().unwrap_or(&args.vault);
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let mut opened = OpenOptions::new().write(true).create_new(true).open(&file).with_context(|| {
        format!("cannot begin {}: a template that is there already is never overwritten; choose another name", file.display())
    })?;
    opened.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", file.display()))?;
    // The user makes it through us, so there is nothing to ask.
    let vault = open(&args.vault)?;
    VaultTrust::open(&places()?, vault.root())?.allow_own_change(&vault, &format!("{}/{bare}.md", TEMPLATE_FOLDERS[0]))?;
    let (mut out, file) = (terminal::stdout(), file.display().to_string());
    if args.json {
        writeln!(out, "{}", serde_json::json!({"name": bare, "file": file}))?;
    } else {
        writeln!(out, "{file}")?;
    }
    Ok(ExitCode::SUCCESS)
}
