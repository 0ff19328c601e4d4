//! `foreword serve`.

use std::io::{self, IsTerminal as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args as ClapArgs;
use foreword_engine::prepare::ServerSpec;
use foreword_engine::vault::Vault;
use foreword_server::{Answers, Config, Level, Limits, Reach, Server, Token};
use foreword_vault_tools::ServerConfig;
use foreword_vault_tools::embedding::Fetch;

use crate::config;
use crate::keys;
use crate::model::ModelArgs;
use crate::paint::{Paint, note, shown};
use crate::places::places;
use crate::settings::SettingsArgs;
use crate::templates;
use crate::tree::open;
use crate::trust;

pub(crate) const LONG_ABOUT: &str = "\
A web page to chat over a folder of notes and to see what the model was given, and a gateway that programs which speak to OpenAI or Anthropic can speak \
to instead: http://127.0.0.1:4949/ is the page, http://127.0.0.1:4949/v1 the gateway, /api/v1/openapi.json describes the API. Where the embedding model is not here yet, it is fetched in the background \
when notes are first searched; until then they are searched by words alone.

At the start it prints an address for the browser. The address works once and for five minutes; Enter prints a new one, and so does `foreword keys url`. \
Programs that use the gateway bring their own provider key, or one from `foreword keys new` to use the keys that are configured here.

Only programs of this machine can reach it. With --listen others can too, and then each request needs a key of this server. What goes over the network \
is not encrypted: put a proxy with TLS in front where that matters. Keys are kept outside of the vault, in the folder for state (FOREWORD_STATE).";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword serve examples/vault
  foreword serve ~/Notes --model claude-sonnet-5
  foreword serve ~/Notes --listen 192.168.1.5 --host notes.home
  OPENAI_BASE_URL=http://127.0.0.1:4949/v1 OPENAI_API_KEY=$(foreword keys new) your-program";

/// Options of `foreword serve`.
#[allow(clippy::struct_excessive_bools)] // each is a flag of its own
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The folder of notes
    #[arg(default_value = ".")]
    vault: PathBuf,
    /// The port
    #[arg(long, default_value_t = 4949)]
    port: u16,
    /// Listen on this address, for other machines too
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<IpAddr>,
    /// A name by which the server is called from outside
    #[arg(long, value_name = "NAME", requires = "listen")]
    host: Vec<String>,
    /// Replace the server's token: all pages have to open a new address, and scripts have to read the new token
    #[arg(long)]
    new_token: bool,
    /// Ask for no token and no key: every user and program of this machine can read the notes and use the configured provider keys
    #[arg(long, conflicts_with_all = ["listen", "new_token"])]
    no_auth: bool,
    /// What the gateway may change of clients' requests: nothing, cache control, or the whole layout of their prompts [default: assist]
    #[arg(long, value_name = "observe|assist|manage")]
    level: Option<Level>,
    /// The old name of `--level observe`
    #[arg(long, hide = true, conflicts_with = "level")]
    pass_through: bool,
    /// Start the vault's own tool servers without asking; only for a vault that you trust
    #[arg(long)]
    trust_servers: bool,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    settings: SettingsArgs,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    anyhow::ensure!(args.vault.is_dir(), "{} is not a folder", args.vault.display());
    let config = config::load()?;
    args.model.prepare(&args.model.choose(&config)?)?;
    args.model.remember_address()?;
    let vault = args.vault.canonicalize().with_context(|| format!("the folder {} cannot be opened", args.vault.display()))?;
    let places = places()?;
    let reach = reach(args, &places.state)?;
    let token = reach.token().cloned();
    let limits = match reach {
        Reach::Open | Reach::Loopback { .. } => Limits::default(),
        Reach::Network { .. } => Limits { requests_per_s: Some(100), connections_per_address: 256, ..Limits::default() },
    };
    let answers = Answers {
        config,
        is_set: config::is_set,
        model: args.model.model.clone(),
        base_url: args.model.base_url.clone(),
        window: args.model.window,
        script: args.model.script.clone(),
        settings: args.settings.read()?,
    };
    let level = if args.pass_through { Some(Level::Observe) } else { args.level };
    let servers = if args.trust_servers { all_servers } else { allowed_servers };
    trust::before_session(&open(&vault)?)?;
    let templates = templates::user_folder();
    let weights = Fetch::InBackground { mirror: config::weights_mirror()?, tell: |line| note(shown(&line)) };
    let config = Config { vault, places, weights, templates, answers, servers, reach, limits, level };
    let address = SocketAddr::new(args.listen.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), args.port);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().max_blocking_threads(64).build()?;
    runtime.block_on(async {
        let server = Server::start(address, config)?;
        let address = server.address().unwrap_or(address);
        let shown = reachable(address, own_address(address));
        greet(address, shown, token.as_ref())?;
        if let Some(token) = token {
            print_addresses_on_enter(shown, token);
        }
        server.run(asked_to_end()?).await;
        Ok::<(), anyhow::Error>(())
    })?;
    // A turn that could not be stopped has been stored as far as it came.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// Who may come in. The token is never taken from the vault, which may come from anywhere.
fn reach(args: &Args, state: &Path) -> Result<Reach> {
    if args.no_auth {
        note(
            "--no-auth: every user and every program of this machine can read the notes, write into the vault \
             and use the provider keys that are configured here",
        );
        return Ok(Reach::Open);
    }
    let token = if args.new_token { Token::renew(state)? } else { Token::open(state)? };
    Ok(match args.listen {
        None => Reach::Loopback { token },
        Some(_) => Reach::Network { token, hosts: args.host.clone() },
    })
}

/// The agent's tool servers that the user has allowed.
pub(crate) fn allowed_servers(vault: &Vault, agent: Option<&str>, servers: Vec<ServerSpec>) -> Vec<ServerConfig> {
    ready(vault, agent, servers, false)
}

/// All of the agent's tool servers.
fn all_servers(vault: &Vault, agent: Option<&str>, servers: Vec<ServerSpec>) -> Vec<ServerConfig> {
    ready(vault, agent, servers, true)
}

fn ready(vault: &Vault, agent: Option<&str>, servers: Vec<ServerSpec>, all: bool) -> Vec<ServerConfig> {
    trust::servers(vault, agent, servers, all).unwrap_or_else(|error| {
        note(shown(&format!("no tool server was started: {error:#}")));
        Vec::new()
    })
}

fn greet(listens: SocketAddr, shown: SocketAddr, token: Option<&Token>) -> Result<()> {
    let paint = Paint::stderr();
    let page = match token {
        Some(token) => keys::page(shown, &token.code(shown.port())?),
        None => format!("http://{shown}/"),
    };
    eprintln!("Foreword is at {}", paint.with("1;36", page));
    if shown != listens {
        note(format!("it listens on all addresses of this machine, port {}", listens.port()));
    }
    if token.is_some() {
        note("the address works once, for five minutes; `foreword keys url` prints a new one, and so does Enter here");
    }
    eprintln!("{}", paint.with("2", format!("gateway http://{shown}/v1, API http://{shown}/api/v1; Ctrl-C ends it")));
    Ok(())
}

/// Prints a new address for the page each time somebody presses Enter at the terminal.
fn print_addresses_on_enter(shown: SocketAddr, token: Token) {
    if !io::stdin().is_terminal() {
        return;
    }
    // Nothing waits for this thread: it ends with the program.
    std::thread::spawn(move || {
        for line in io::stdin().lines() {
            let (Ok(_), Ok(code)) = (line, token.code(shown.port())) else { return };
            eprintln!("{}", Paint::stderr().with("1;36", keys::page(shown, &code)));
        }
    });
}

/// An address that leads here: `0.0.0.0` and `::` mean all of them and lead nowhere.
fn reachable(listens: SocketAddr, own: Option<IpAddr>) -> SocketAddr {
    let loopback = || if listens.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
    let own = own.filter(|own| !own.is_unspecified());
    let ip = if listens.ip().is_unspecified() { own.unwrap_or_else(loopback) } else { listens.ip() };
    SocketAddr::new(ip, listens.port())
}

/// The address by which this machine would speak to others. Nothing is sent to find out.
fn own_address(listens: SocketAddr) -> Option<IpAddr> {
    // Addresses that are set aside for documents: the system only looks up the way there.
    let elsewhere = if listens.is_ipv4() { "192.0.2.1:9" } else { "[2001:db8::1]:9" };
    let socket = UdpSocket::bind(SocketAddr::new(listens.ip(), 0)).ok()?;
    socket.connect(elsewhere).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Comes true with Ctrl-C, or when the system asks for an end. Whoever asks a second time ends the program at once.
fn asked_to_end() -> Result<impl Future<Output = ()>> {
    let (asked, mut ends) = tokio::sync::watch::channel(false);
    let mut terminated = Terminated::new()?;
    tokio::spawn(async move {
        loop {
            let code = tokio::select! {
                heard = tokio::signal::ctrl_c() => match heard {
                    Ok(()) => 130,
                    Err(error) => return note(format!("Ctrl-C cannot be heard: {error}")),
                },
                () = terminated.wait() => 143,
            };
            if asked.send_replace(true) {
                std::process::exit(code);
            }
        }
    });
    Ok(async move {
        // Where nobody can ask any more there is no end.
        if ends.wait_for(|asked| *asked).await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

/// The signal by which systemd, docker and `kill` ask a program to end.
struct Terminated {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
}

impl Terminated {
    fn new() -> io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?,
        })
    }

    async fn wait(&mut self) {
        #[cfg(unix)]
        if self.signal.recv().await.is_some() {
            return;
        }
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_leads_here() {
        let check = |listens: &str, own: Option<&str>, expect: &str| {
            let own = own.map(|own| own.parse().unwrap());
            assert_eq!(reachable(listens.parse().unwrap(), own).to_string(), expect, "{listens} {own:?}");
        };
        check("127.0.0.1:4949", Some("10.0.0.7"), "127.0.0.1:4949");
        check("192.168.1.5:80", Some("10.0.0.7"), "192.168.1.5:80");
        check("0.0.0.0:4949", Some("10.0.0.7"), "10.0.0.7:4949");
        check("0.0.0.0:4949", None, "127.0.0.1:4949");
        check("[::]:4949", Some("2001:db8::7"), "[2001:db8::7]:4949");
        check("[::]:4949", None, "[::1]:4949");
        check("[::]:4949", Some("::"), "[::1]:4949");
    }
}
