//! `foreword run -- claude …`: a program with the gateway between it and its provider, for as long as it runs.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context as _, Result};
use clap::Args as ClapArgs;
use foreword_engine::session::{Sqlite, Store as _};
use foreword_engine::settings::SessionSettings;
use foreword_gateway::{ClientSession, client_session, client_sessions};
use foreword_server::{Answers, Config, Level, Limits, Reach, Server, Token};
use foreword_trust::VaultTrust;
use foreword_vault_tools::embedding::Fetch;
use serde_json::json;

use crate::clients::{explained, share};
use crate::config;
use crate::kept::now_ms;
use crate::paint::{note, one_line, shown};
use crate::places::places;

pub(crate) const LONG_ABOUT: &str = "\
Start a gateway on a free port of this machine, run a program that speaks to it instead of its provider, and tell at the end what that used: tokens, the share \
that came from the provider's cache, the cost, and each place where the cache broke. The program keeps its own keys. Only this process gets the gateway's \
addresses: ANTHROPIC_BASE_URL, OPENAI_BASE_URL, OPENAI_API_BASE, OPENAI_HOST and GOOGLE_GEMINI_BASE_URL; codex and opencode get them as \
configuration too. An address that is set already is where the gateway sends that provider's requests.

The requests are kept like those of `foreword serve`, in a folder of their own unless --vault names one.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword run -- claude
  foreword run -- codex exec \"fix the failing test\"
  foreword run --level observe -- aider --model sonnet
  foreword run -- python agent.py
The exit code is the program's.";

/// Breaks that are told at the end.
const BREAKS: usize = 5;

/// Options of `foreword run`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// What may be changed of its requests [default: assist]
    #[arg(long, value_name = "observe|assist|manage")]
    level: Option<Level>,
    /// The folder whose sessions these become
    #[arg(long, value_name = "FOLDER")]
    vault: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// A provider's API, the variable in which programs look for its address, and what of the address stands behind the host.
const ADDRESSES: [(&str, &str, &str); 3] = [
    ("anthropic", "ANTHROPIC_BASE_URL", "/v1"),
    ("openai", "OPENAI_BASE_URL", ""),
    ("gemini", "GOOGLE_GEMINI_BASE_URL", "/v1beta"),
];

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let places = places()?;
    let vault = if let Some(vault) = &args.vault {
        vault.clone()
    } else {
        let own = places.state.join("clients");
        std::fs::create_dir_all(&own).with_context(|| format!("cannot make the folder {}", own.display()))?;
        own
    };
    let vault = vault.canonicalize().with_context(|| format!("the folder {} cannot be opened", vault.display()))?;
    let mut config = config::load()?;
    for (provider, variable, version) in ADDRESSES {
        if let Some(address) = std::env::var(variable).ok().filter(|address| !address.is_empty()) {
            config.set_base_url(provider, &with_version(&address, version));
        }
    }
    let answers = Answers {
        config: config.clone(),
        is_set: config::is_set,
        model: None,
        base_url: None,
        window: None,
        script: None,
        settings: SessionSettings::default(),
    };
    let config = Config {
        vault: vault.clone(),
        places: places.clone(),
        weights: Fetch::Never,
        templates: None,
        answers,
        servers: |_, _, _| Vec::new(),
        reach: Reach::Loopback { token: Token::open(&places.state)? },
        limits: Limits::default(),
        level: args.level,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().max_blocking_threads(16).build()?;
    let since = now_ms();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (address, served) = runtime.block_on(async {
        let gateway = Server::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), config)?;
        let address = gateway.address().context("the gateway has no address")?;
        let served = tokio::spawn(gateway.run(async { drop(stopped.await) }));
        // Ctrl-C is the program's: it goes to all of the terminal's programs, and this one ends when that has.
        tokio::spawn(async { while tokio::signal::ctrl_c().await.is_ok() {} });
        anyhow::Ok((address, served))
    })?;
    note(shown(&format!("the gateway is at http://{address}, level {}", args.level.unwrap_or_default().as_str())));
    let status = started(args, address);
    // It fails only if the gateway has ended already.
    let _ = stop.send(());
    // It ends within its grace.
    let _ = runtime.block_on(served);
    runtime.shutdown_background();
    let status = status?;
    let trust = VaultTrust::open_or_restricted(&places, &vault);
    if let Err(error) = tell(&trust.state().store(), &vault, since) {
        note(shown(&format!("what the program used cannot be told: {error:#}")));
    }
    Ok(ExitCode::from(code(status)))
}

/// An address that ends with the version of its API.
fn with_version(address: &str, version: &str) -> String {
    let address = address.trim_end_matches('/');
    if address.ends_with(version) { address.to_owned() } else { format!("{address}{version}") }
}

/// Runs the program until it ends.
fn started(args: &Args, address: SocketAddr) -> Result<ExitStatus> {
    let (program, rest) = args.program.split_first().context("no program is named")?;
    let base = format!("http://{address}");
    let v1 = format!("{base}/v1");
    let mut command = Command::new(program);
    let name = Path::new(program).file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if name == "codex" {
        command.args(codex(&v1, std::env::var_os("OPENAI_API_KEY").is_some()));
    }
    command.args(rest);
    command.env("ANTHROPIC_BASE_URL", &base).env("GOOGLE_GEMINI_BASE_URL", &base).env("OPENAI_HOST", &base);
    command.env("OPENAI_BASE_URL", &v1).env("OPENAI_API_BASE", &v1);
    // The server's own address needs no proxy.
    for variable in ["NO_PROXY", "no_proxy"] {
        let others = std::env::var(variable).unwrap_or_default();
        command.env(variable, if others.is_empty() { "127.0.0.1".to_owned() } else { format!("{others},127.0.0.1") });
    }
    if name == "opencode" && std::env::var_os("OPENCODE_CONFIG_CONTENT").is_none() {
        let at = |address: &str| json!({"options": {"baseURL": address}});
        let providers = json!({"anthropic": at(&v1), "openai": at(&v1), "google": at(&format!("{base}/v1beta"))});
        command.env("OPENCODE_CONFIG_CONTENT", json!({"provider": providers}).to_string());
    }
    let what = shown(&program.to_string_lossy());
    command.status().with_context(|| format!("{what} could not be started; is it installed and in PATH?"))
}

/// Codex reads its provider from its configuration only.
fn codex(v1: &str, has_key: bool) -> Vec<String> {
    let login = if has_key { "env_key=\"OPENAI_API_KEY\"" } else { "requires_openai_auth=true" };
    let provider =
        format!("model_providers.foreword={{name=\"OpenAI by Foreword\",base_url=\"{v1}\",{login},wire_api=\"responses\"}}");
    ["-c", "model_provider=\"foreword\"", "-c", &provider].map(str::to_owned).to_vec()
}

fn code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(255);
    }
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Tells what was used since then.
fn tell(store: &Path, vault: &Path, since: i64) -> Result<()> {
    let store = Sqlite::open_existing(store)?;
    let rows: Vec<_> = store.forwarded()?.into_iter().filter(|row| row.at_ms >= since).collect();
    if rows.is_empty() {
        note("the program asked no model through the gateway");
        return Ok(());
    }
    let mut all = ClientSession::default();
    for row in &rows {
        let used = &row.usage;
        all.read += used.read;
        all.write += used.write;
        all.uncached += used.uncached;
        all.output += used.output;
        all.cost += used.cost;
        all.cost_uncached += used.cost_uncached;
    }
    let sessions: Vec<ClientSession> =
        client_sessions(&store)?.into_iter().filter(|session| session.touched_ms >= since).collect();
    note(format!(
        "{} in {}: {} prompt tokens, {} of them from the cache, {} reply tokens, ${:.4} (${:.4} without a cache)",
        count(rows.len(), "request"),
        count(sessions.len(), "session"),
        all.read + all.write + all.uncached,
        share(&all),
        all.output,
        all.cost,
        all.cost_uncached
    ));
    let config = config::load()?;
    let mut breaks = Vec::new();
    for session in &sessions {
        let requests = client_session(&store, &session.id, &config)?.into_iter().filter(|request| request.at_ms >= since);
        breaks.extend(requests.filter_map(|request| Some((session.id.clone(), request.place, request.broke?))));
    }
    breaks.sort_by_key(|(.., broke)| std::cmp::Reverse(broke.tokens));
    for (session, place, broke) in breaks.iter().take(BREAKS) {
        note(format!("{}@{place}  {}", shown(session), explained(broke)));
    }
    if breaks.len() > BREAKS {
        note(format!("and {} more breaks", breaks.len() - BREAKS));
    }
    note(one_line(&format!("foreword sessions --vault {}", vault.display()), 300));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_version_once() {
        let check = |address: &str, version: &str, expect: &str| assert_eq!(with_version(address, version), expect);
        check("http://a", "/v1", "http://a/v1");
        check("http://a/v1/", "/v1", "http://a/v1");
        check("http://a/", "/v1beta", "http://a/v1beta");
        check("http://a/v1", "", "http://a/v1");
    }
}
