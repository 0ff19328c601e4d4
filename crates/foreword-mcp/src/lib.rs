//! A vault as a server of the Model Context Protocol (MCP), over stdio or streamable HTTP.
//!
//! It answers from the notes as they are on disk: tools to search and read them and to recall past sessions, notes as resources, rules
//! and templates as prompts. It writes only with [`Writing::On`], and then only if the note is still the one that the client read.

mod http;
mod notes;
mod prompts;
mod resources;
mod server;
mod tools;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use rmcp::ServiceExt as _;

pub use notes::{Config, Writing};

use notes::Notes;
use server::Server;

/// Why the server ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A thread or a socket failed.
    #[error("cannot serve: {0}")]
    Io(#[from] io::Error),
    /// The client does not speak the protocol.
    #[error("the client did not begin as MCP asks: {0}")]
    Begin(String),
    /// The connection failed.
    #[error("the connection to the client failed: {0}")]
    Connection(String),
}

/// Serves one client on standard input and output, until it closes them.
pub async fn serve_stdio(config: Config) -> Result<(), ServeError> {
    serve(config, rmcp::transport::stdio()).await
}

/// Serves one client on a pair of streams, until it closes them.
pub async fn serve<R, W>(config: Config, streams: (R, W)) -> Result<(), ServeError>
where
    R: tokio::io::AsyncRead + Send + Unpin + 'static,
    W: tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let server = Server::new(Arc::new(Notes::start(config)?));
    let running = server.serve(streams).await.map_err(|error| ServeError::Begin(error.to_string()))?;
    running.waiting().await.map_err(|error| ServeError::Connection(error.to_string()))?;
    Ok(())
}

/// Decides whether a key may use the server.
pub type Admit = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Serves clients over streamable HTTP at `/mcp`. With `admit`, each request needs a key as `Authorization: Bearer KEY`.
pub async fn serve_http(config: Config, listener: TcpListener, admit: Option<Admit>) -> Result<(), ServeError> {
    let server = Server::new(Arc::new(Notes::start(config)?));
    http::serve(server, listener, admit).await?;
    Ok(())
}
