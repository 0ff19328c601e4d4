//! What a user has configured: defaults, providers, models. From it, and from the model table, a name becomes a model and the way to it.
//!
//! ```toml
//! model = "ollama/qwen3:8b"
//! layout = "log"
//!
//! [providers.work]
//! base_url = "https://llm.example/v1"
//! dialect = "openai-chat"
//! key = { command = "pass show llm" }
//! models = ["house-model"]
//!
//! [models."ollama/qwen3:8b"]
//! window = 32768
//! ```
//!
//! The text is handed in: where it lies is known to who starts the program.

mod choose;
mod provider;
mod read;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use foreword_core::settings::Layout;
use foreword_provider::table::ModelTable;

use crate::session::Mode;

pub use choose::{ChooseError, Chosen, Listed, Server};
pub use foreword_provider::client::{ClientConfig, KeySource};
pub use foreword_provider::dialect::Dialect;
pub use foreword_provider::model::{CacheRules, Model, Prices};
pub use provider::Provider;
pub use read::ConfigError;

/// A user's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The model where none is named.
    pub model: Option<String>,
    /// The layout of new sessions.
    pub layout: Option<Layout>,
    /// The mode of new sessions.
    pub mode: Option<Mode>,
    /// By name: those that are configured, and those that are known without.
    providers: BTreeMap<String, Provider>,
    /// The models that are known, the user's own and changed ones included.
    table: ModelTable,
}

impl Config {
    /// The providers, by name.
    pub fn providers(&self) -> impl Iterator<Item = &Provider> {
        self.providers.values()
    }

    /// The date of the newest facts in the model table.
    pub fn as_of(&self) -> &str {
        self.table.as_of()
    }
}
