//! `foreword templates`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args as ClapArgs, Subcommand};
use foreword_engine::manager::Manager;
use foreword_engine::session::Setup;
use foreword_templates::{BUILTIN, Shelf, TEMPLATE_FOLDERS, Template, new_text};
use foreword_trust::VaultTrust;
use jiff::tz::TimeZone;

use crate::paint::{Paint, count, note, one_line, shown};
use crate::places::{config_file, places};
use crate::terminal::{self, Stream};
use crate::tree::open;

pub(crate) const LONG_ABOUT: &str = "\
Manage context templates: markdown files that tell a managed history how to summarize older messages when they leave the prompt.

A template is searched by name in Foreword/ContextTemplates of the vault, in AssistantMD/ContextTemplates of the vault, in the \
templates folder of your configuration, and among the built-in ones. The first match is used.";

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
    /// List all templates and where they come from
    List,
    /// Print a template
    Show {
        /// The template's name
        name: String,
    },
    /// Check a template for errors, or all of them if no name is given
    Check {
        /// The template's name
        name: Option<String>,
    },
    /// Create a template in the vault
    New {
        /// The new template's name
        name: String,
        /// Copy this template
        #[arg(long, value_name = "NAME")]
        from: Option<String>,
    },
}

/// The user's own templates, in the configuration folder.
pub(crate) fn user_folder() -> Option<PathBuf> {
    let (config, _) = config_file().ok()?;
    Some(config.parent()?.join("templates"))
}

/// The template folders of a vault.
pub(crate) fn shelf(vault: &Path) -> Shelf {
    let trusted = places().map(|places| VaultTrust::open_or_restricted(&places, vault).templates());
    Shelf::new(Some(vault), trusted.unwrap_or_default(), user_folder().as_deref())
}

/// The manager that summarizes a session's history, if the session has a managed one.
pub(crate) fn manager(setup: &Setup, vault: &Path) -> Option<Manager> {
    let manager = Manager::of(setup, &shelf(vault), Some(vault), TimeZone::system())?;
    for flaw in manager.template.iter().flat_map(|template| &template.parsed.flaws) {
        note(shown(&format!("template line {}: {}", flaw.line, flaw.what)));
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
        let place = listed.path.as_deref().unwrap_or("built in");
        let hidden = match (listed.trusted, listed.hidden) {
            (false, _) => "; not used until you allow it with `foreword trust`",
            (true, true) => "; hidden by another template of this name",
            (true, false) => "",
        };
        let flaws = if listed.flaws > 0 { format!("; {} (see check)", count(listed.flaws, "flaw")) } else { String::new() };
        writeln!(out, "{:<20} {}", shown(&listed.name), one_line(listed.description.as_deref().unwrap_or("—"), 90))?;
        writeln!(out, "{:<20} {}", "", paint.with("2", shown(&format!("{}: {place}{hidden}{flaws}", listed.origin.as_str()))))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The unchanged text of a template.
fn text_of(template: &Template, vault: &Path, user: Option<&Path>) -> Result<String> {
    let Some(path) = &template.path else {
        let builtin = BUILTIN.iter().find(|(name, _)| *name == template.name);
        return Ok(builtin.map(|(_, text)| (*text).to_owned()).unwrap_or_default());
    };
    let root = if template.origin.as_str() == "vault" { vault } else { user.unwrap_or(vault) };
    let file = root.join(path);
    fs::read_to_string(&file).with_context(|| format!("Failed to read {}", file.display()))
}

fn show(shelf: &Shelf, vault: &Path, user: Option<&Path>, name: &str, json: bool) -> Result<ExitCode> {
    let template = shelf.find(name)?;
    let mut out = terminal::stdout();
    if json {
        writeln!(out, "{}", serde_json::to_string(&template)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = text_of(&template, vault, user)?;
    // Control characters are removed for a terminal; a file gets the exact text.
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
        let place = template.path.as_deref().unwrap_or("built in");
        let steps = count(template.parsed.steps.len(), "step");
        let flaws =
            if template.parsed.flaws.is_empty() { "no errors".to_owned() } else { count(template.parsed.flaws.len(), "flaw") };
        writeln!(out, "{} ({}): {steps}, {flaws}; sha256 {}", shown(&template.name), shown(place), template.hash.short())?;
        for flaw in &template.parsed.flaws {
            writeln!(out, "  line {}: {}", flaw.line, shown(&flaw.what))?;
        }
    }
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn new(shelf: &Shelf, args: &Args, user: Option<&Path>, name: &str, from: Option<&str>) -> Result<ExitCode> {
    let bare = name.trim().strip_suffix(".md").unwrap_or(name.trim());
    // The shelf decides whether the name is valid.
    if let Err(error @ foreword_templates::NoTemplate::NotAName(_)) = shelf.find(bare) {
        return Err(error.into());
    }
    let text = match from {
        // Only a trusted template can be copied, because its copy is trusted too.
        Some(from) => text_of(&self::shelf(&args.vault).find(from)?, &args.vault, user)?,
        None => new_text(bare),
    };
    if !args.vault.is_dir() {
        bail!("{} is not a folder; set the folder of notes with --vault", args.vault.display());
    }
    let file = args.vault.join(TEMPLATE_FOLDERS[0]).join(format!("{bare}.md"));
    let folder = file.parent().unwrap_or(&args.vault);
    fs::create_dir_all(folder).with_context(|| format!("Failed to create the folder {}", folder.display()))?;
    let mut opened = OpenOptions::new().write(true).create_new(true).open(&file).with_context(|| {
        format!("Failed to create {}: existing templates are never overwritten; choose another name", file.display())
    })?;
    opened.write_all(text.as_bytes()).with_context(|| format!("Failed to write {}", file.display()))?;
    // The user creates this file through us, so no trust question is needed.
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
