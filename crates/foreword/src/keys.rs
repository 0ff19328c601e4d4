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
Keys for `foreword serve`. Each opens one thing:

  url     an address for the browser. It works once and for five minutes; the page then keeps a key of its own for 30 days.
  new     a key for a program that uses the gateway under /v1. It opens the gateway and nothing else.
  token   the server's token, for scripts that use the API under /api/v1. It opens everything.

They are kept in the folder for state (see FOREWORD_STATE), outside of every vault: the token in a file that only you can read, keys as hashes.";

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
    /// Print a new key for the gateway; it is shown this once
    New {
        /// What you call it
        #[arg(long)]
        name: Option<String>,
    },
    /// List the keys for the gateway
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a key; programs that use it are refused from then on
    Delete {
        /// What it is called
        name: String,
    },
    /// Print an address that opens the page, once
    Url {
        /// The server's port
        #[arg(long, default_value_t = 4949)]
        port: u16,
        /// The server's address, where it was started with `--listen`
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
                "the key {name} opens the gateway under /v1; it is not shown again, `foreword keys delete {name}` ends it"
            ));
        }
        Command::List { json } => list(&keys, *json)?,
        Command::Delete { name } => {
            keys.delete(name)?;
            note(format!("the key {name} is deleted"));
        }
        Command::Url { port, listen } => {
            println!("{}", page(SocketAddr::new(*listen, *port), &Token::read(&state)?.code(*port)?));
        }
        Command::Token => println!("{}", Token::read(&state)?.expose()),
    }
    Ok(ExitCode::SUCCESS)
}

/// An address that opens the page with a code.
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
        note("there are no keys for the gateway; `foreword keys new` makes one");
    }
    for key in keys {
        let created = Timestamp::from_millisecond(key.created_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        println!("{:<24} created {}", key.name, created.strftime("%Y-%m-%d"));
    }
    Ok(())
}
