//! The core of the context engine: which context a request contains, where it is placed, and how much room it gets.
//!
//! Steps 2 to 5 of a turn: items go in, an [`envelope::Envelope`] comes out. No IO, no clock, no randomness, no async and no global
//! state.

pub mod budget;
pub mod catalog;
pub mod envelope;
pub mod hash;
pub mod history;
pub mod image_tokens;
pub mod item;
pub mod json;
pub mod layer;
pub mod library;
pub mod message;
pub mod pairing;
pub mod passage;
pub mod plan;
pub mod prompt;
pub mod select;
pub mod session;
pub mod settings;
pub mod summary;
pub mod version;

/// Token counts are part of most types here.
pub use foreword_text::tokens;
