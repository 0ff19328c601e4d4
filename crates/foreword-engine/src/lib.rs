//! The engine: recorded sessions and turns, the vault's search and tools, settings, templates, trust, and the simulator.

pub mod attach;
pub mod config;
pub mod destination;
pub mod doctor;
pub mod launch;
pub mod manager;
pub mod prepare;
pub mod session;
pub mod session_builder;
pub mod settings;
pub mod vault;
pub mod workbench;

pub use foreword_core::settings::Layout;
/// Unified diffs.
pub use foreword_text::diff;
/// Makes hidden characters visible.
pub use foreword_text::hidden;

/// The clock for callers of the engine.
pub use foreword_provider::clock;

/// Counting tokens.
pub mod tokens {
    pub use foreword_core::tokens::{OpenAi, Tokenizer, Tokens};
}

/// The search API.
pub mod search {
    pub use foreword_core::item::Kind;
    pub use foreword_search::Embedder;
    pub use foreword_search::index::{Answer, Hit, Query, Strategy};
    pub use foreword_search::period;
}

/// The names of the dialects, for settings and flags.
pub const PROVIDERS: [&str; 5] = ["openai-chat", "openai-responses", "anthropic", "gemini", "llamacpp"];
