//! Providers: those that everyone knows, and what a user says of theirs.

use std::collections::BTreeMap;

use foreword_provider::client::{ClientConfig, KeySource, Secret};
use foreword_provider::dialect::Dialect;

use super::gateway::Level;

/// The window of a model that nobody knows: what servers give where nothing else is said.
const CAREFUL_WINDOW: i64 = 8192;
/// The same at a company, whose models all have more.
const COMPANY_WINDOW: i64 = 128_000;

/// Someone who answers requests for models.
#[derive(Clone, Debug)]
pub struct Provider {
    /// What stands before the `/` of a model's name.
    pub name: String,
    /// Where it is; the dialect's own place where it is left out.
    pub base_url: Option<String>,
    /// How it is spoken to; where a model's row says otherwise, that counts, unless the user has set it.
    pub dialect: Dialect,
    /// Whether the user set the dialect.
    pub(super) dialect_is_set: bool,
    /// Where its key comes from.
    pub key: KeySource,
    /// A proxy on the way to it.
    pub proxy: Option<Secret>,
    /// Models that are its own.
    pub models: Vec<String>,
    /// The cache rules of models that nobody knows, as the model table calls them.
    pub(super) cache: &'static str,
    /// Their window.
    pub(super) window: i64,
    /// Whether the user's configuration names it.
    pub is_configured: bool,
    /// What may be changed of clients' requests to it.
    pub level: Option<Level>,
    /// Whether clients' own keys are used; else ours is.
    pub client_keys: bool,
}

impl Provider {
    /// One at an address, of which nothing else is known.
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

    /// What a client for it has to be told, to speak in `dialect`.
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

/// Those that need no configuration: companies by their usual keys, servers of one's own by their usual ports.
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
