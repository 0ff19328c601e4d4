//! Steps 6 and 7 of a turn: turns a provider-neutral prompt into the bytes of a provider's request, and its answer into
//! provider-neutral events.
//!
//! Only this crate knows the JSON, prices and cache rules of providers. Everything is pure (no IO, no clock, no async) except
//! [`client`], which sends requests, and `mock_server`, the mock server for tests.

pub mod client;
pub mod clock;
pub mod cost;
pub mod diagnose;
pub mod dialect;
pub mod front;
pub mod model;
pub mod refusal;
pub mod render;
pub mod reply;
pub mod sse;
pub mod stream;
pub mod table;
pub mod usage;

/// Compiles and runs the example in README.md.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct ReadmeExample;
