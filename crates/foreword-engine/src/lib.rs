//! A conversation carried through the steps of a turn. For now offline: the simulator.

pub mod simulate;

pub use foreword_core::settings::Layout;

/// The names of the dialects, for settings and flags.
pub const PROVIDERS: [&str; 5] = ["openai-chat", "openai-responses", "anthropic", "gemini", "llamacpp"];
