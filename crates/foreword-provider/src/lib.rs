//! Steps 6 and 7 of a turn: a prompt in no provider's words becomes the bytes one provider is sent, and what it answers becomes events in
//! no provider's words.
//!
//! Only this crate knows a provider's JSON, prices and cache rules. All of it is pure (no IO, no clock, no async) but [`client`], which
//! sends, and `double`, the server that tests send to.

pub mod cache;
pub mod client;
pub mod clock;
pub mod cost;
pub mod diagnose;
pub mod dialect;
#[cfg(feature = "double")]
pub mod double;
pub mod front;
pub mod lifetime;
pub mod model;
pub mod refusal;
pub mod render;
pub mod reply;
pub mod rules;
pub mod sse;
pub mod stream;
pub mod table;
pub mod usage;

/// Compiles and runs the example in README.md.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct ReadmeExample;
