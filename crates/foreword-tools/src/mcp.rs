//! MCP tool servers: starting, calling, restarting after a crash, and stopping them.
//!
//! `rmcp` implements the protocol; this module protects against untrusted servers. `background` is the communication thread,
//! `process` a server's program, `bounded` its limited output, `connect` the connection, `client` one server with its restarts,
//! `listing` and `content` convert what it sends to plain values.

mod background;
mod bounded;
mod client;
mod connect;
mod content;
mod listing;
mod process;
mod secrets;

pub(crate) use background::Background;
pub(crate) use client::{Client, close_all, start_all};
