//! `foreword serve`: the HTTP API, the gateway and the web page, in one process on one port.
//!
//! A request passes `guard` (access control), then one of `api`, `gateway` and `page`. Operations on an open session (`actor`) are
//! executed one after the other: on the session's thread if they may block, or by a gateway request that waits only for a provider.
//! Events are sent to the session's `feed`, which any number of streams can read.

mod actor;
mod answer;
mod api;
mod app;
mod approve;
mod arrival;
mod caller;
mod clock;
mod config;
mod connections;
mod feed;
mod forward;
mod gateway;
mod guard;
mod hub;
mod in_process;
mod keys;
mod listen;
mod owners;
mod page;
mod problem;
mod rate;
mod responses;
mod settings;
mod sse;
mod timed;
mod token;
mod translated;

pub use config::{Answers, Config, Limits, Reach, Rest};
pub use foreword_engine::config::Level;
pub use in_process::{CallError, Events, InProcess};
pub use keys::{KeyRow, Keys, KeysError};
pub use listen::{ServeError, Server};
pub use token::{Token, TokenError};
