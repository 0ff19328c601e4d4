//! `foreword keys`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args as ClapArgs, Subcommand};
use foreword_server::{Keys, Token};
use jiff::Timestamp;

use crate::paint::note;
use crate::places::places;

pub(crate) const LONG_ABOUT: &str = "\
Manage keys for `foreword serve`. Each kind gives access to one thing:

  url     a URL that opens the page in a browser. It works once, within five minutes; the page then stays signed in for 30 days.
  new     a key for a program that uses the gateway under /v1. It gives access to the gateway only.
  token   the server's token, for scripts that use the API under /api/v1. It gives full access.

Keys are stored in the state folder (see FOREWORD_STATE), outside of every vault: the token in a file that only you can read, the others as hashes.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword keys url
  OPENAI_BASE_URL=http://127.0.0.1:4949/v1 OPENAI_API_KEY=$(foreword keys new --name laptop) your-program
  foreword keys list
  foreword keys delete laptop
  curl -H \"Authorization: Bearer $(foreword keys token)\" http://127.0.0.1:4949/api/v1/sessions";

/// Options of `foreword keys`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create a gateway key and print it; it is shown only once
    New {
        /// The key's name
        #[arg(long)]
        name: Option<String>,
    },
    /// List the gateway keys
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a key; programs that use it lose access
    Delete {
        /// The key's name
        name: String,
    },
    /// Print a URL that opens the page once
    Url {
        /// The server's port
        #[arg(long, default_value_t = 4949)]
        port: u16,
        /// The server's address, as given to `--listen`
        #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
        listen: IpAddr,
    },
    /// Print the server's token
    Token,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let state = places()?.state;
    let keys = Keys::new(&state);
    match &args.command {
        Command::New { name } => {
            let (name, text) = keys.create(name.as_deref())?;
            println!("{text}");
            note(format!(
                "key {name} gives access to the gateway under /v1 and is shown only once; to revoke it: foreword keys delete {name}"
            ));
        }
        Command::List { json } => list(&keys, *json)?,
        Command::Delete { name } => {
            keys.delete(name)?;
            note(format!("key {name} deleted"));
        }
        Command::Url { port, listen } => {
            println!("{}", page(SocketAddr::new(*listen, *port), &Token::read(&state)?.code(*port)?));
        }
        Command::Token => println!("{}", Token::read(&state)?.expose()),
    }
    Ok(ExitCode::SUCCESS)
}

/// A URL that opens the page with a one-time code.
pub(crate) fn page(server: SocketAddr, code: &str) -> String {
    format!("http://{server}/#code={code}")
}

fn list(keys: &Keys, json: bool) -> Result<()> {
    let keys = keys.list()?;
    if json {
        let rows: Vec<_> = keys.iter().map(|key| serde_json::json!({"name": key.name, "created_ms": key.created_ms})).collect();
        println!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(());
    }
    if keys.is_empty() {
        note("no gateway keys; create one with `foreword keys new`");
    }
    for key in keys {
        let created = Timestamp::from_millisecond(key.created_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        println!("{:<24} created {}", key.name, created.strftime("%Y-%m-%d"));
    }
    Ok(())
}
