//! `foreword serve`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
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
        server.run(asked_to_end()?).await;
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

fn greet(listens: SocketAddr, token: Option<&str>) {
    let paint = Paint::stderr();
    let address = reachable(listens, own_address(listens));
    let page = match token {
        Some(token) => format!("http://{address}/#token={token}"),
        None => format!("http://{address}/"),
    };
    eprintln!("Foreword is at {}", paint.with("1;36", page));
    if address != listens {
        note(format!("it listens on all addresses of this machine, port {}", listens.port()));
    }
    if token.is_some() {
        note("this is the only time the token is shown; --new-token makes another one");
    }
    eprintln!("{}", paint.with("2", format!("gateway http://{address}/v1, API http://{address}/api/v1; Ctrl-C ends it")));
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
