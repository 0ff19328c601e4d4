//! Which context a request carries, where it stands, and how much room it gets.
//!
//! Steps 2 to 5 of a turn: items go in, an envelope comes out. No IO, no clock, no randomness, no async, no global state.

pub mod hash;
pub mod item;
pub mod json;
pub mod layer;
pub mod message;
pub mod prompt;
pub mod tokens;
