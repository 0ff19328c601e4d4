//! Step 6 of a turn: a prompt in no provider's words becomes the bytes one provider is sent.
//!
//! Only this crate knows a provider's JSON, prices and cache rules. This half of it is pure: no IO, no clock, no async.

pub mod cache;
pub mod cost;
pub mod diagnose;
pub mod dialect;
pub mod model;
pub mod render;
pub mod stream;
pub mod table;
pub mod usage;
