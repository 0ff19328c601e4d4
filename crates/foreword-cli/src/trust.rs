//! `foreword trust`, and the trust question at the terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args as ClapArgs;
use foreword_engine::hidden::visible;
use foreword_engine::launch::{Launch, server_config};
use foreword_engine::prepare::{ServerSpec, Transport};
use foreword_engine::session::Hash;
use foreword_engine::vault::Vault;
use foreword_trust::audit::{Audit, AuditEntry, AuditEvent};
use foreword_trust::places::Places;
use foreword_trust::{self, Claim, ClaimView, Grants, Standing, StateFolder, VaultTrust, Verdict};
use foreword_vault_tools::{Sandbox, ServerConfig, is_instruction, sandbox};
use serde_json::json;

use crate::config;
use crate::paint::{Paint, count, note, shown};
use crate::places::places;
use crate::terminal::{self, Stream};
use crate::tree::open;

pub(crate) const LONG_ABOUT: &str = "\
Show what the files of a folder ask for, and decide whether to allow it: tool servers (programs and URLs), web pages that \
a project fetches, hosts on your own network, context templates, instructions in the memory file and rule files, and a .foreword folder \
that came with the folder. Nothing of this has any effect until you allow it; you can still read, search and chat about the notes.

Decisions are stored outside of the folder and apply to exactly what was shown. After a change you are asked again and see the difference.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword trust ~/Downloads/vault           show and decide
  foreword trust ~/Notes --show              show only
  foreword trust ~/Notes --yes --network     allow everything, with network access for its programs
  foreword trust --list
  foreword trust ~/Notes --revoke
Exit codes: 0 everything is decided; 1 decisions are pending; 2 an error occurred.";

/// Options of `foreword trust`.
#[derive(ClapArgs)]
#[allow(clippy::struct_excessive_bools)] // each is a flag of its own
pub(crate) struct Args {
    /// The folder of notes
    #[arg(default_value = ".")]
    vault: PathBuf,
    /// Show what the folder asks for and do not ask
    #[arg(long)]
    show: bool,
    /// Allow everything without asking; it is still shown
    #[arg(long, conflicts_with = "show")]
    yes: bool,
    /// With --yes: give its programs network access
    #[arg(long, requires = "yes")]
    network: bool,
    /// With --yes: give its programs read and write access to your home folder
    #[arg(long, requires = "yes")]
    home: bool,
    /// Delete all decisions about the folder
    #[arg(long, conflicts_with_all = ["show", "yes"])]
    revoke: bool,
    /// List the folders you decided about and what you allowed
    #[arg(long, conflicts_with_all = ["show", "yes", "revoke"])]
    list: bool,
    /// Show the log of decisions, approvals and contacted hosts
    #[arg(long, conflicts_with_all = ["show", "yes", "revoke", "list"])]
    log: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    if args.log {
        return print_log(args.json);
    }
    if args.list {
        return print_list(args.json);
    }
    let places = places()?;
    if args.revoke {
        let mut trust = VaultTrust::open(&places, &args.vault)?;
        trust.revoke()?;
        note(format!("all decisions about {} were deleted", shown(&trust.record().vault.display().to_string())));
        return Ok(ExitCode::SUCCESS);
    }
    let vault = open(&args.vault)?;
    let mut trust = VaultTrust::open(&places, vault.root())?;
    let claims = trust.claims(&vault);
    if args.json {
        println!("{}", view(&vault, claims.clone()));
    } else {
        write!(terminal::stdout(), "{}", described(Paint::stdout(), vault.root(), &claims))?;
    }
    let mut verdicts = Vec::new();
    if args.yes {
        let grants = Grants { network: args.network, home: args.home, ..Grants::default() };
        verdicts.extend(claims.iter().map(|(claim, _)| verdict(claim, true, grants)));
    } else if !args.show && !args.json && claims.iter().any(|(_, standing)| standing.is_open()) && at_terminal() {
        verdicts = decide(&claims)?;
    }
    apply(&mut trust, &vault, &verdicts)?;
    let open = VaultTrust::open(&places, vault.root())?.claims(&vault).iter().any(|(_, standing)| standing.is_open());
    Ok(if open { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Before a session begins: asks about pending decisions, or mentions them if there is no terminal.
pub(crate) fn before_session(vault: &Vault) -> Result<()> {
    let mut trust = match VaultTrust::open(&places()?, vault.root()) {
        Ok(trust) => trust,
        Err(error) => {
            note(shown(&format!("this folder is restricted: {error}")));
            return Ok(());
        }
    };
    let mut claims = trust.claims(vault);
    claims.retain(|(_, standing)| standing.is_open());
    if claims.is_empty() {
        return Ok(());
    }
    if !at_terminal() {
        say_restricted(vault, &claims);
        return Ok(());
    }
    eprint!("{}", described(Paint::stderr(), vault.root(), &claims));
    let verdicts = decide(&claims)?;
    apply(&mut trust, vault, &verdicts)
}

/// Mentions pending decisions without asking.
pub(crate) fn note_restricted(vault: &Vault) {
    let Ok(places) = places() else { return };
    let mut claims = VaultTrust::open_or_restricted(&places, vault.root()).claims(vault);
    claims.retain(|(_, standing)| standing.is_open());
    if !claims.is_empty() {
        say_restricted(vault, &claims);
    }
}

fn say_restricted(vault: &Vault, claims: &[(Claim, Standing)]) {
    let folder = shown(&vault.root().display().to_string());
    note(format!("{folder} is restricted: {} until you allow it; see `foreword trust`", waiting(claims)));
}

/// "2 tool servers and 1 template are not used".
fn waiting(claims: &[(Claim, Standing)]) -> String {
    let titles: Vec<String> = claims.iter().map(|(claim, _)| shown(&claim.title)).collect();
    match titles.as_slice() {
        [one] => format!("the {one} is not used"),
        several => format!("{} are not used ({})", count(several.len(), "thing"), several.join("; ")),
    }
}

fn at_terminal() -> bool {
    io::stdin().is_terminal() && Stream::Stderr.is_terminal()
}

/// The tool servers that the user allowed, ready to start.
pub(crate) fn servers(vault: &Vault, agent: Option<&str>, servers: Vec<ServerSpec>, all: bool) -> Result<Vec<ServerConfig>> {
    if servers.is_empty() {
        return Ok(Vec::new());
    }
    let (places, config, working_folder) = (places()?, config::load()?, std::env::current_dir()?);
    let environment = |name: &str| std::env::var(name).ok();
    let launch = Launch {
        root: vault.root(),
        working_folder: &working_folder,
        places: &places,
        rules: &config.tools,
        environment: &environment,
    };
    let trust = VaultTrust::open_or_restricted(&places, vault.root());
    let mut configs = Vec::new();
    for server in servers {
        let grants = if all {
            allowed_for_one_run(&places, vault, &server);
            Some(Grants { network: true, home: true, unconfined: true })
        } else {
            trust.server(agent.unwrap_or_default(), &server)
        };
        let Some(grants) = grants else {
            note(format!(
                "tool server {} was not started, because you have not allowed it; see `foreword trust`",
                shown(&server.name)
            ));
            continue;
        };
        if let Transport::Http { url, .. } = &server.transport {
            // A failure to write the audit log must not block the tools.
            Audit::new(&places.state).url(url, "tool server");
        }
        let sandbox = (!grants.unconfined || sandbox::availability().is_ok()).then(|| confined(vault, grants));
        match server_config(&server, &launch, sandbox) {
            Ok(config) => configs.push(config),
            Err(why) => note(shown(&why.to_string())),
        }
    }
    Ok(configs)
}

/// Records `--trust-servers`, which is a decision without a question.
fn allowed_for_one_run(places: &Places, vault: &Vault, server: &ServerSpec) {
    let event = AuditEvent::Trusted {
        vault: vault.root().display().to_string(),
        what: format!("tool server {}, for one run (--trust-servers)", server.name),
        sha256: Hash::of(server.canonical()).to_string(),
    };
    if let Err(error) = Audit::new(&places.state).record(event) {
        note(shown(&format!("Failed to write the audit log: {error}")));
    }
}

/// A sandbox with access to the folder, except for files that other programs run or read as instructions.
fn confined(vault: &Vault, grants: Grants) -> Sandbox {
    let root = vault.root();
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_protected = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        is_instruction(&name) || is_instruction(&format!("{name}/x.md"))
    };
    let protected = entries.filter(is_protected).collect();
    Sandbox { network: grants.network, home: grants.home, folders: vec![root.to_owned()], protected, hidden: Vec::new() }
}

fn verdict(claim: &Claim, allowed: bool, grants: Grants) -> Verdict {
    let grants = if claim.program && allowed { grants } else { Grants::default() };
    Verdict { id: claim.id.clone(), sha256: claim.hash(), allowed, grants }
}

/// Stores the verdicts.
fn apply(trust: &mut VaultTrust, vault: &Vault, verdicts: &[Verdict]) -> Result<()> {
    if verdicts.is_empty() {
        return Ok(());
    }
    trust.decide(vault, verdicts)?;
    bring_in(trust)
}

/// Moves sessions that were stored outside of the vault into it, once its state folder is trusted.
pub(crate) fn bring_in(trust: &VaultTrust) -> Result<()> {
    let (moved, left) = trust.bring_in_sessions()?;
    if moved > 0 {
        note(format!("{} moved into the folder", count(moved, "session")));
    }
    if left > 0 {
        let folder = trust.outside_state().path.with_extension("moved");
        note(format!(
            "{} not moved, because the folder already has one with that name; see {}",
            count(left, "session"),
            folder.display()
        ));
    }
    Ok(())
}

/// Asks about all claims at once or about each one.
fn decide(claims: &[(Claim, Standing)]) -> Result<Vec<Verdict>> {
    let open: Vec<&Claim> = claims.iter().filter(|(_, standing)| standing.is_open()).map(|(claim, _)| claim).collect();
    let question = "Allow? [a]ll, [c]hoose one by one, [n]ot now (ask again), n[e]ver (until it changes):";
    match choose(question, &["a", "c", "n", "e"])?.as_str() {
        "a" => open.into_iter().map(|claim| Ok(verdict(claim, true, grants(claim)?))).collect(),
        "c" => {
            let mut verdicts = Vec::new();
            for claim in open {
                let question = format!("Allow the {}? [y]es, [n]ot now, n[e]ver:", shown(&claim.title));
                match choose(&question, &["y", "n", "e"])?.as_str() {
                    "y" => verdicts.push(verdict(claim, true, grants(claim)?)),
                    "e" => verdicts.push(verdict(claim, false, Grants::default())),
                    _ => {}
                }
            }
            Ok(verdicts)
        }
        "e" => Ok(open.into_iter().map(|claim| verdict(claim, false, Grants::default())).collect()),
        _ => Ok(Vec::new()),
    }
}

/// What the program of a tool server may access.
fn grants(claim: &Claim) -> Result<Grants> {
    if !claim.program {
        return Ok(Grants::default());
    }
    let question = format!(
        "What may the {} access? [1] this folder only, [2] also the network, [3] also the network and your home folder:",
        shown(&claim.title)
    );
    let answer = choose(&question, &["1", "2", "3"])?;
    Ok(Grants { network: answer != "1", home: answer == "3", ..Grants::default() })
}

/// Asks until the user types one of the answers. An error at the end of input, so nothing changes.
fn choose(question: &str, answers: &[&str]) -> Result<String> {
    let paint = Paint::stderr();
    loop {
        eprint!("{} ", paint.with("1", question));
        terminal::stderr().flush()?;
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line)? == 0 {
            bail!("no decision: end of input");
        }
        let answer = line.trim().to_lowercase();
        if answers.contains(&answer.as_str()) {
            return Ok(answer);
        }
    }
}

/// Describes the claims before the user decides.
fn described(paint: Paint, root: &Path, claims: &[(Claim, Standing)]) -> String {
    let folder = shown(&root.display().to_string());
    if claims.is_empty() {
        return format!("{folder} asks for no permissions.\n");
    }
    let mut text = format!("{} asks for:\n", paint.with("1", folder));
    if claims.iter().any(|(claim, _)| claim.program)
        && let Err(why) = sandbox::availability()
    {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{}",
            paint.with("33", format!("No sandbox for programs: {why}. They would run with all of your permissions."))
        );
    }
    for (claim, standing) in claims {
        let state = match standing {
            Standing::Allowed { grants } => match (claim.program, grants.network, grants.home) {
                (true, false, false) => "allowed, without network and home folder".to_owned(),
                (true, true, false) => "allowed, with the network".to_owned(),
                (true, false, true) => "allowed, with your home folder".to_owned(),
                (true, true, true) => "allowed, with the network and your home folder".to_owned(),
                (false, ..) => "allowed".to_owned(),
            },
            Standing::Declined => "not allowed".to_owned(),
            Standing::New => "waiting for your decision".to_owned(),
            Standing::Changed { .. } => "changed since you decided".to_owned(),
        };
        let title = paint.with("1", shown(&claim.title));
        let _ = writeln!(text, "\n{title}: {state} ({})", shown(&claim.file));
        for effect in &claim.effects {
            let _ = writeln!(text, "  {}", visible(effect));
        }
        if let Standing::Changed { diff } = standing {
            for line in diff.lines() {
                let line = visible(line);
                let colour = if line.starts_with('+') {
                    "32"
                } else if line.starts_with('-') {
                    "31"
                } else {
                    "0"
                };
                let _ = writeln!(text, "  {}", paint.with(colour, line));
            }
        }
    }
    // After a long text, only its end is visible when the question comes: list everything there again.
    let open: Vec<String> =
        claims.iter().filter(|(_, standing)| standing.is_open()).map(|(claim, _)| shown(&claim.title)).collect();
    if !open.is_empty() {
        let _ = writeln!(text, "\n{}", paint.with("1", format!("{} for your decision:", count(open.len(), "thing"))));
        for title in open {
            let _ = writeln!(text, "  {title}");
        }
    }
    text.push('\n');
    text
}

fn view(vault: &Vault, claims: Vec<(Claim, Standing)>) -> serde_json::Value {
    let claims: Vec<ClaimView> = claims.into_iter().map(ClaimView::from).collect();
    json!({"vault": vault.root(), "claims": claims})
}

fn print_list(as_json: bool) -> Result<ExitCode> {
    for record in foreword_trust::list(&places()?)? {
        if as_json {
            println!("{}", serde_json::to_string(&record)?);
            continue;
        }
        println!("{}", shown(&record.vault.display().to_string()));
        if record.state_id.is_some() {
            println!("  its .foreword folder is trusted");
        }
        let mut decided: BTreeMap<&str, bool> = BTreeMap::new();
        decided.extend(record.decisions.iter().map(|(id, decision)| (id.as_str(), decision.allowed)));
        for (id, allowed) in decided {
            println!("  {} {}", if allowed { "allowed:    " } else { "not allowed:" }, shown(id));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print_log(as_json: bool) -> Result<ExitCode> {
    let audit = Audit::new(&places()?.state);
    let (entries, unread) = audit.read().with_context(|| format!("Failed to read {}", audit.file().display()))?;
    let mut out = terminal::stdout();
    for entry in entries {
        if as_json {
            writeln!(out, "{}", serde_json::to_string(&entry)?)?;
        } else {
            writeln!(out, "{}", line(&entry))?;
        }
    }
    if unread > 0 {
        note(format!("{} of {} could not be read", count(unread, "line"), audit.file().display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn line(entry: &AuditEntry) -> String {
    let short = |sha256: &str| sha256.get(..12).unwrap_or(sha256).to_owned();
    let what = match &entry.event {
        AuditEvent::Trusted { vault, what, sha256 } => format!("allowed in {vault}: {what} ({})", short(sha256)),
        AuditEvent::Revoked { vault, what } => format!("not allowed in {vault}: {what}"),
        AuditEvent::Pinned { vault, tool, sha256 } => format!("accepted in {vault}: the tool {tool} ({})", short(sha256)),
        AuditEvent::Approval { session, tool, decision, sha256 } => {
            format!("asked in session {session}: {tool} ({}): {decision}", short(sha256))
        }
        AuditEvent::Host { host, purpose } => format!("contacted {host} ({purpose})"),
        AuditEvent::KeyCreated { name } => format!("created key {name}"),
        AuditEvent::KeyDeleted { name } => format!("deleted key {name}"),
    };
    format!("{}  {}", entry.at.strftime("%Y-%m-%d %H:%M:%S"), shown(&what))
}

/// Explains why the store is outside of the vault.
pub(crate) fn state_note(folder: &StateFolder) {
    if folder.outside {
        note(format!(
            "the .foreword folder here came with this folder (copied, unpacked or created by someone else) and is not used; sessions are stored in {}. To decide about it: foreword trust",
            shown(&folder.path.display().to_string())
        ));
    }
}
