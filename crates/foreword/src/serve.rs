//! `foreword serve`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io};

use anyhow::{Context as _, Result};
use clap::Args as ClapArgs;
use foreword_engine::prepare::{ServerSpec, server_config};
use foreword_engine::tools::ServerConfig;
use foreword_server::{Answers, Config, GatewayMode, Limits, Reach, Server, Token};

use crate::config;
use crate::model::ModelArgs;
use crate::paint::{Paint, note, shown};
use crate::places::places;
use crate::templates;
use crate::trust;

pub(crate) const LONG_ABOUT: &str = "\
A web page to chat over a folder of notes and to see what the model was given, and a gateway that programs which speak to OpenAI or Anthropic can speak \
to instead: http://127.0.0.1:4949/ is the page, http://127.0.0.1:4949/v1 the gateway, /api/v1/openapi.json describes the API.

Only programs of this machine can reach it. With --listen others can too, and then each request needs a token: it is shown once, and its hash is kept \
in the vault's .foreword folder. What goes over the network is not encrypted: put a proxy with TLS in front where that matters.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword serve examples/vault
  foreword serve ~/Notes --model claude-sonnet-5
  foreword serve ~/Notes --listen 192.168.1.5 --host notes.home
  OPENAI_BASE_URL=http://127.0.0.1:4949/v1 your-program";

/// Options of `foreword serve`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The folder of notes
    #[arg(default_value = ".")]
    vault: PathBuf,
    /// The port
    #[arg(long, default_value_t = 4949)]
    port: u16,
    /// Listen on this address, for other machines too; a token is needed then
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<IpAddr>,
    /// A name by which the server is called from outside
    #[arg(long, value_name = "NAME", requires = "listen")]
    host: Vec<String>,
    /// Forget the token there is and show a new one
    #[arg(long, requires = "listen")]
    new_token: bool,
    /// Let the gateway pass every request on untouched, and only record it
    #[arg(long)]
    pass_through: bool,
    /// Start the vault's own tool servers without asking; only for a vault that you trust
    #[arg(long)]
    trust_servers: bool,
    #[command(flatten)]
    model: ModelArgs,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    anyhow::ensure!(args.vault.is_dir(), "{} is not a folder", args.vault.display());
    let config = config::load()?;
    args.model.prepare(&args.model.choose(&config)?)?;
    let vault = args.vault.canonicalize().with_context(|| format!("the folder {} cannot be opened", args.vault.display()))?;
    let (reach, shown) = reach(args, &vault)?;
    let limits = match reach {
        Reach::Loopback => Limits::default(),
        Reach::Token { .. } => Limits { requests_per_s: Some(100), ..Limits::default() },
    };
    let answers = Answers {
        config,
        is_set: config::is_set,
        model: args.model.model.clone(),
        base_url: args.model.base_url.clone(),
        window: args.model.window,
        script: args.model.script.clone(),
    };
    let gateway = if args.pass_through { GatewayMode::PassThrough } else { GatewayMode::Session };
    let servers = if args.trust_servers { all_servers } else { known_servers };
    let templates = templates::user_folder();
    let config = Config { vault, places: places()?, templates, answers, servers, reach, limits, gateway };
    let address = SocketAddr::new(args.listen.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), args.port);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().max_blocking_threads(64).build()?;
    runtime.block_on(async {
        let server = Server::start(address, config)?;
        let address = server.address().unwrap_or(address);
        greet(address, shown.as_deref());
        server.run(interrupted()?).await;
        Ok::<(), anyhow::Error>(())
    })?;
    // A turn that could not be stopped has been stored as far as it came.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// Who may come in, and the token where it is new.
fn reach(args: &Args, vault: &Path) -> Result<(Reach, Option<String>)> {
    if args.listen.is_none() {
        return Ok((Reach::Loopback, None));
    }
    let file = vault.join(".foreword/server-token");
    if args.new_token {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("the old token in {} cannot be forgotten", file.display()));
            }
            _ => {}
        }
    }
    let (token, shown) = Token::keep(&file)?;
    Ok((Reach::Token { token, hosts: args.host.clone() }, shown))
}

/// The vault's tool servers that the user has allowed before.
fn known_servers(root: &Path, servers: Vec<ServerSpec>) -> Vec<ServerConfig> {
    ready(trust::known(root, servers))
}

/// All of the vault's tool servers.
fn all_servers(_: &Path, servers: Vec<ServerSpec>) -> Vec<ServerConfig> {
    ready(servers)
}

fn ready(servers: Vec<ServerSpec>) -> Vec<ServerConfig> {
    let ready = |server: ServerSpec| match server_config(&server, &|name| std::env::var(name).ok()) {
        Ok(config) => Some(config),
        Err(why) => {
            note(shown(&format!("the tool server {} was not started: {why}", server.name)));
            None
        }
    };
    servers.into_iter().filter_map(ready).collect()
}

fn greet(address: SocketAddr, token: Option<&str>) {
    let paint = Paint::stderr();
    let page = match token {
        Some(token) => format!("http://{address}/#token={token}"),
        None => format!("http://{address}/"),
    };
    eprintln!("Foreword is at {}", paint.with("1;36", page));
    if token.is_some() {
        note("this is the only time the token is shown; --new-token makes another one");
    }
    eprintln!("{}", paint.with("2", format!("gateway http://{address}/v1, API http://{address}/api/v1; Ctrl-C ends it")));
}

/// Comes true with Ctrl-C. A second one ends the program at once.
fn interrupted() -> Result<impl Future<Output = ()>> {
    static ASKED: AtomicBool = AtomicBool::new(false);
    let (sender, receiver) = tokio::sync::watch::channel(false);
    ctrlc::set_handler(move || {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        sender.send_replace(true);
    })?;
    Ok(async move {
        let mut receiver = receiver;
        let _ = receiver.wait_for(|asked| *asked).await;
    })
}
