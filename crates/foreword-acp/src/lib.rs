//! Foreword as an agent of the Agent Client Protocol (ACP), version 1: editors start it and speak to it on standard input and output.
//!
//! Sessions are those of the server, called in this process, so they are the same in an editor, on the page and in the terminal. A file is
//! changed only after the client has allowed it. Files outside of the vault are read only through the client.

mod agent;
mod backend;
mod commands;
mod connection;
mod options;
mod prompt;
mod tool_calls;
mod turn;

use std::sync::Arc;

use tokio::io::BufReader;

pub use backend::{Config, Prepare};

use agent::Agent;
use backend::Backend;

/// Why the agent ended.
#[derive(Debug, thiserror::Error)]
#[error("the connection to the client failed: {0}")]
pub struct ServeError(#[from] std::io::Error);

/// Serves one client on standard input and output, until it closes them.
pub async fn serve_stdio(config: Config) -> Result<(), ServeError> {
    let agent = Arc::new(Agent::new(Backend::new(config)));
    let taking = Arc::clone(&agent);
    // Each request is a task of its own, so that a cancellation is heard meanwhile.
    let each = move |client, wanted| {
        let agent = Arc::clone(&taking);
        agent.arrived(&wanted);
        tokio::spawn(async move { agent.take(client, wanted).await });
    };
    let served = connection::serve(BufReader::new(tokio::io::stdin()), tokio::io::stdout(), each).await;
    // Turns that run are stopped and stored.
    agent.close_all().await;
    Ok(served?)
}
