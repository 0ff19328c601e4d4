//! Steps 6 and 7 of a turn: turns a provider-neutral prompt into the bytes of a provider's request, and its answer into
//! provider-neutral events.
//!
//! Only this crate knows the JSON, prices and cache rules of providers. Everything is pure (no IO, no clock, no async) except
//! the module `client`, which sends requests and is behind the feature of that name.

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "client")]
pub mod clock;
pub mod cost;
pub mod diagnose;
pub mod dialect;
pub mod endpoint;
pub mod front;
pub mod model;
pub mod refusal;
pub mod render;
pub mod reply;
pub mod sse;
pub mod stream;
pub mod table;
pub mod tool_call;
pub mod usage;
