//! Finds a model and its provider by name. Local servers accept any name; unknown models get cautious defaults.

use std::collections::BTreeSet;

use foreword_core::tokens::Tokens;
use foreword_provider::client::{ClientConfig, KeySource};
use foreword_provider::dialect::Dialect;
use foreword_provider::model::Model;
use foreword_provider::table::{TableError, UnknownModel};
use toml::Table;

use super::Config;
use super::gateway::Level;
use super::provider::Provider;
use crate::session::EMBEDDED;

/// The longest reply of an unknown model.
const LONGEST_REPLY: i64 = 4096;
/// The smallest context window for a request and its reply.
const SMALLEST_WINDOW: u64 = 1024;

/// Options for a server, given with the model's name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Server<'a> {
    /// The base URL.
    pub base_url: Option<&'a str>,
    /// The context window in tokens.
    pub window: Option<u64>,
}

/// A model and how to reach it.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The model.
    pub model: Model,
    /// The client configuration; `None` for the embedded model.
    pub client: Option<ClientConfig>,
    /// Whether the model is not in the table.
    pub is_assumed: bool,
    /// What may be changed of clients' requests to its provider.
    pub level: Option<Level>,
    /// Whether clients' own keys are used at its provider.
    pub client_keys: bool,
}

/// A model that can be used.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its provider; `None` for the embedded model.
    pub provider: Option<String>,
    /// The model.
    pub model: Model,
    /// Whether its provider has a key or needs none.
    pub has_key: bool,
}

/// Why no model was found.
#[derive(Debug, thiserror::Error)]
pub enum ChooseError {
    /// The model is unknown.
    #[error(
        "unknown model {:?}{}. Name a server's own model with its provider (`ollama/{}`; providers: {providers}) or use --base-url; \
         list known models with `foreword models --all`",
        unknown.name,
        if unknown.close.is_empty() { String::new() } else { format!("; close names: {}", unknown.close.join(", ")) },
        unknown.name
    )]
    Unknown {
        /// The requested name.
        unknown: UnknownModel,
        /// The names of the providers.
        providers: String,
    },
    /// The context window is too small.
    #[error("a context window of {0} tokens is too small: a request and its reply need at least {SMALLEST_WINDOW}")]
    Window(u64),
    /// The model table is invalid.
    #[error(transparent)]
    Table(#[from] TableError),
}

impl Config {
    /// Finds a model by name, or the configured or the embedded one without a name.
    pub fn choose(&self, name: Option<&str>, server: Server<'_>) -> Result<Chosen, ChooseError> {
        let name = name.or(self.model.as_deref()).unwrap_or(EMBEDDED.0);
        let mut chosen = match self.split(name) {
            Some((provider, short)) => self.at(provider, short, server)?,
            None => self.in_table(name, server)?,
        };
        if let Some(window) = server.window {
            if window < SMALLEST_WINDOW {
                return Err(ChooseError::Window(window));
            }
            chosen.model.window = Tokens(window);
            chosen.model.reply_limit = chosen.model.reply_limit.min(Tokens(window / 2));
        }
        Ok(chosen)
    }

    /// A model that nobody knows, at a provider of that name.
    pub fn choose_at(&self, provider: &str, name: &str, server: Server<'_>) -> Option<Chosen> {
        self.at(self.providers.get(provider)?, name, Server { window: None, ..server }).ok()
    }

    /// The provider that a name says, or whose own it is, and what is left of the name.
    pub(super) fn split<'a>(&self, name: &'a str) -> Option<(&Provider, &'a str)> {
        let named = name.split_once('/').and_then(|(provider, short)| Some((self.providers.get(provider)?, short)));
        named.filter(|(_, short)| !short.is_empty()).or_else(|| {
            let owner = self.providers.values().find(|provider| provider.models.iter().any(|model| model == name))?;
            Some((owner, name))
        })
    }

    fn at(&self, provider: &Provider, short: &str, server: Server<'_>) -> Result<Chosen, ChooseError> {
        let base_url = server.base_url.map(str::to_owned).or_else(|| provider.base_url.clone());
        let provider = &Provider { base_url, ..provider.clone() };
        let full = format!("{}/{short}", provider.name);
        // What a company has under a name is not what a server at home has under it.
        let fits =
            |row: &Model| row.dialect == provider.dialect || (both_openai(row.dialect, provider.dialect) && !provider.is_local());
        let row = self.table.find(&full).ok().or_else(|| self.table.find(short).ok().filter(fits));
        let (mut model, is_assumed) = match row {
            Some(row) => (row, false),
            None => (self.assumed(provider, &full)?, true),
        };
        if is_assumed || provider.dialect_is_set {
            model.dialect = provider.dialect;
        }
        // What is at home there keeps its plain name.
        let is_home = self.home(&model).is_some_and(|home| home.name == provider.name) && !is_assumed;
        if model.name == full || is_assumed {
            short.clone_into(&mut model.wire);
        }
        if !is_home {
            model.name = full;
        }
        let (level, client_keys) = (provider.level, provider.client_keys);
        Ok(Chosen { client: Some(provider.client(model.dialect)), model, is_assumed, level, client_keys })
    }

    fn in_table(&self, name: &str, server: Server<'_>) -> Result<Chosen, ChooseError> {
        let model = match (self.table.find(name), server.base_url) {
            (Ok(model), _) => model,
            (Err(_), Some(base_url)) => {
                let provider = Provider::at("", Some(base_url));
                let model = self.assumed(&provider, name)?;
                let client = Some(provider.client(model.dialect));
                return Ok(Chosen { client, model, is_assumed: true, level: None, client_keys: true });
            }
            (Err(unknown), None) => {
                let providers = self.providers.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                return Err(ChooseError::Unknown { unknown, providers });
            }
        };
        let base_url = server.base_url.map(str::to_owned);
        let home = self.home(&model);
        let (level, client_keys) = home.map_or((None, true), |home| (home.level, home.client_keys));
        let client = match home {
            Some(home) => {
                let client = home.client(model.dialect);
                Some(ClientConfig { base_url: base_url.or(client.base_url), ..client })
            }
            // The embedded model's own file, served by something else.
            None => base_url.map(|base_url| ClientConfig { base_url: Some(base_url), ..ClientConfig::new(model.dialect) }),
        };
        Ok(Chosen { model, client, is_assumed: false, level, client_keys })
    }

    /// The provider of a model in the table; `None` for the embedded model.
    fn home(&self, model: &Model) -> Option<&Provider> {
        if model.name == EMBEDDED.0 {
            return None;
        }
        if let Some((provider, _)) = self.split(&model.name) {
            return Some(provider);
        }
        self.providers.get(match model.dialect {
            Dialect::OpenAiChat | Dialect::OpenAiResponses => "openai",
            Dialect::Anthropic => "anthropic",
            Dialect::Gemini => "gemini",
            Dialect::LlamaCpp => "llamacpp",
        })
    }

    /// An unknown model of a provider, with defaults.
    fn assumed(&self, provider: &Provider, name: &str) -> Result<Model, ChooseError> {
        let mut table = self.table.clone();
        table.merge(provider.row(name, Table::new()))?;
        let mut model = table.find(name).map_err(|unknown| ChooseError::Unknown { unknown, providers: String::new() })?;
        // A dated name finds the row without its date, but is what the server knows.
        name.clone_into(&mut model.wire);
        Ok(model)
    }

    /// All models that can be used: those in the table and those of the user's providers. `is_set` checks an environment variable.
    pub fn models(&self, is_set: &dyn Fn(&str) -> bool) -> Vec<Listed> {
        let of_providers = self
            .providers
            .values()
            .flat_map(|provider| provider.models.iter().map(move |name| format!("{}/{name}", provider.name)));
        let names: BTreeSet<String> = self.table.rows().map(|row| row.name.clone()).chain(of_providers).collect();
        let mut seen = BTreeSet::new();
        let mut listed = Vec::new();
        for name in names {
            let Ok(Chosen { model, .. }) = self.choose(Some(&name), Server::default()) else { continue };
            let home = self.home(&model);
            let has_key = home.is_none_or(|home| match &home.key {
                KeySource::None => home.is_configured,
                KeySource::Env(variable) => is_set(variable),
                _ => true,
            });
            if seen.insert(model.name.clone()) {
                listed.push(Listed { provider: home.map(|home| home.name.clone()), model, has_key });
            }
        }
        listed
    }
}

/// Whether both dialects are OpenAI's.
fn both_openai(a: Dialect, b: Dialect) -> bool {
    [a, b].iter().all(|dialect| matches!(dialect, Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::LlamaCpp))
}

impl Provider {
    /// A row for the model table from the given facts, with cautious defaults.
    pub(super) fn row(&self, name: &str, mut said: Table) -> Table {
        said.insert("name".to_owned(), name.into());
        if !said.contains_key("like") {
            let window = said.get("window").and_then(toml::Value::as_integer).unwrap_or(self.window);
            let careful: [(&str, toml::Value); 6] = [
                ("dialect", self.dialect.as_str().into()),
                ("window", window.into()),
                ("reply_limit", (window / 2).clamp(1, LONGEST_REPLY).into()),
                ("tokenizer", "chars3".into()),
                ("cache", self.cache.into()),
                ("can", vec!["tools_in_chat", "images", "max_tokens"].into()),
            ];
            for (field, value) in careful {
                said.entry(field).or_insert(value);
            }
        }
        Table::from_iter([("model".to_owned(), vec![said].into())])
    }
}
