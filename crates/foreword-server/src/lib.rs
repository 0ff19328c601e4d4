//! `foreword serve`: the HTTP API, the gateway and the web page, in one process on one port.
//!
//! A request passes `guard` (who may come in), then one of `api`, `gateway` and `page`. At the desk of an open session (`actor`) one
//! thing is done after the other: by a thread of its own where that may wait, or by a request of the gateway that waits for nothing but
//! a provider. What happens there is told to its `feed`, which any number of streams read from.

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
mod keys;
mod listen;
mod owners;
mod page;
mod problem;
mod rate;
mod settings;
mod sse;
mod timed;
mod token;

pub use config::{Answers, Config, Limits, Reach, Rest};
pub use foreword_engine::config::Level;
pub use keys::{KeyRow, Keys, KeysError};
pub use listen::{ServeError, Server};
pub use token::{Token, TokenError};
