//! Providers: the built-in ones and the user's.

use std::collections::BTreeMap;

use foreword_provider::client::{ClientConfig, KeySource, Secret};
use foreword_provider::dialect::Dialect;

use super::gateway::Level;

/// The window of a model that nobody knows: what servers give where nothing else is said.
const CAREFUL_WINDOW: i64 = 8192;
/// The context window of unknown models of companies.
const COMPANY_WINDOW: i64 = 128_000;

/// A provider of models.
#[derive(Clone, Debug)]
pub struct Provider {
    /// Its name: the part before the `/` of a model's name.
    pub name: String,
    /// Its base URL, or `None` for the dialect's default.
    pub base_url: Option<String>,
    /// Its dialect. A model's row takes precedence, unless the user has set the dialect.
    pub dialect: Dialect,
    /// Whether the user set the dialect.
    pub(super) dialect_is_set: bool,
    /// The source of its API key.
    pub key: KeySource,
    /// A proxy.
    pub proxy: Option<Secret>,
    /// Its models.
    pub models: Vec<String>,
    /// The name of the cache rules for unknown models.
    pub(super) cache: &'static str,
    /// The context window of unknown models.
    pub(super) window: i64,
    /// Whether it is in the user's configuration.
    pub is_configured: bool,
    /// What may be changed of clients' requests to it.
    pub level: Option<Level>,
    /// Whether clients' own keys are used; else ours is.
    pub client_keys: bool,
}

impl Provider {
    /// A provider at a URL.
    pub(super) fn at(name: &str, base_url: Option<&str>) -> Self {
        Self {
            name: name.to_owned(),
            window: CAREFUL_WINDOW,
            base_url: base_url.map(str::to_owned),
            dialect: Dialect::LlamaCpp,
            dialect_is_set: false,
            key: KeySource::None,
            proxy: None,
            models: Vec::new(),
            cache: if base_url.is_some_and(is_local) { "llamacpp" } else { "none" },
            is_configured: false,
            level: None,
            client_keys: true,
        }
    }

    /// The client configuration with a dialect.
    pub fn client(&self, dialect: Dialect) -> ClientConfig {
        let (base_url, key, proxy) = (self.base_url.clone(), self.key.clone(), self.proxy.clone());
        ClientConfig { base_url, key, proxy, ..ClientConfig::new(dialect) }
    }

    /// Whether it runs on this machine.
    pub fn is_local(&self) -> bool {
        self.base_url.as_deref().is_some_and(is_local)
    }
}

fn is_local(address: &str) -> bool {
    ["http://127.", "http://localhost", "http://[::1]"].iter().any(|start| address.starts_with(start))
}

/// The built-in providers: companies with their usual keys, and local servers with their usual ports.
pub(super) fn known() -> BTreeMap<String, Provider> {
    let key = |name: &str| KeySource::Env(name.to_owned());
    let local = |name: &str, port: u16| Provider::at(name, Some(&format!("http://127.0.0.1:{port}/v1")));
    let compatible = |name: &str, base_url: &str, variable: &str| Provider {
        dialect: Dialect::OpenAiChat,
        key: key(variable),
        window: COMPANY_WINDOW,
        ..Provider::at(name, Some(base_url))
    };
    let own = |name: &str, dialect: Dialect, cache: &'static str| {
        let key = ClientConfig::new(dialect).key;
        Provider { dialect, key, cache, window: COMPANY_WINDOW, ..Provider::at(name, None) }
    };
    let all = [
        own("openai", Dialect::OpenAiResponses, "openai-breakpoints"),
        own("anthropic", Dialect::Anthropic, "anthropic"),
        own("gemini", Dialect::Gemini, "gemini"),
        Provider {
            models: vec!["deepseek-chat".to_owned()],
            cache: "deepseek",
            ..compatible("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY")
        },
        compatible("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        local("llamacpp", 8080),
        Provider { models: vec!["ollama".to_owned()], ..local("ollama", 11434) },
        local("lmstudio", 1234),
        Provider { models: vec!["vllm".to_owned()], cache: "vllm", ..local("vllm", 8000) },
    ];
    all.into_iter().map(|provider| (provider.name.clone(), provider)).collect()
}
