//! Tool servers that speak MCP: started, spoken to, started again when they crash, and ended with us.
//!
//! `rmcp` knows the protocol; everything here is about not trusting the other side. `background` is the thread on which the talking
//! goes on, `process` a server's program, `bounded` its
//! output, `connect` the way to a connection, `client` one server over its life, `listing` and `content`
//! what comes from it as plain values.

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
