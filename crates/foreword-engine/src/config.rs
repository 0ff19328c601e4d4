//! The user's configuration: defaults, providers and models. Together with the model table, it resolves a name to a model and a
//! client configuration.
//!
//! ```toml
//! model = "ollama/qwen3:8b"
//! layout = "log"
//!
//! [settings]
//! budget = { prompt_tokens = 32000 }
//!
//! [search]
//! preset = "conservative"
//!
//! [providers.work]
//! base_url = "https://llm.example/v1"
//! dialect = "openai-chat"
//! key = { command = "pass show llm" }
//! models = ["house-model"]
//!
//! [models."ollama/qwen3:8b"]
//! window = 32768
//!
//! [tools]
//! variables = ["GITHUB_TOKEN"]
//! unasked = ["weather/get_forecast", "files/*"]
//!
//! [gateway]
//! level = "assist"
//! keys = { ci = "observe" }
//!
//! [limits.session]
//! warn = 2.0
//! refuse = 5.0
//!
//! [weights]
//! url = "https://mirror.example/weights"
//! ```
//!
//! The text is handed in: where it lies is known to who starts the program.

mod choose;
mod gateway;
mod provider;
mod read;
mod tools;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use foreword_provider::table::ModelTable;

use crate::session::Mode;
use crate::settings::SessionSettings;

pub use choose::{ChooseError, Chosen, Listed, Server};
pub use foreword_provider::client::{ClientConfig, KeySource};
pub use foreword_provider::dialect::Dialect;
pub use foreword_provider::model::{CacheRules, Model, Prices};
pub use gateway::{GatewayRules, Level, SpendingLimit, SpendingLimits};
pub use provider::Provider;
pub use read::ConfigError;
pub use tools::ToolRules;

/// The user's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The default model.
    pub model: Option<String>,
    /// The default settings of new sessions.
    pub settings: SessionSettings,
    /// The default mode of new sessions.
    pub mode: Option<Mode>,
    /// Limits for the tool servers of vaults.
    pub tools: ToolRules,
    /// The download mirror for the files of local models.
    pub weights_mirror: Option<String>,
    /// What the gateway may do.
    pub gateway: GatewayRules,
    /// What clients may spend.
    pub limits: SpendingLimits,
    /// By name: those that are configured, and those that are known without.
    providers: BTreeMap<String, Provider>,
    /// The model table with the user's changes.
    table: ModelTable,
}

impl Config {
    /// The providers, sorted by name.
    pub fn providers(&self) -> impl Iterator<Item = &Provider> {
        self.providers.values()
    }

    /// Sends what goes to a provider elsewhere.
    pub fn set_base_url(&mut self, provider: &str, address: &str) {
        if let Some(provider) = self.providers.get_mut(provider) {
            provider.base_url = Some(address.to_owned());
        }
    }

    /// The date of the newest facts in the model table.
    pub fn as_of(&self) -> &str {
        self.table.as_of()
    }
}
