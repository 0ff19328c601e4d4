//! From a name to a model and the way to it. Servers of one's own take any name: what nobody knows of a model is assumed with care.

use std::collections::BTreeSet;

use foreword_core::tokens::Tokens;
use foreword_provider::client::{ClientConfig, KeySource};
use foreword_provider::dialect::Dialect;
use foreword_provider::model::Model;
use foreword_provider::table::{TableError, UnknownModel};
use toml::Table;

use super::Config;
use super::provider::Provider;
use crate::session::EMBEDDED;

/// Room for the reply of a model that nobody knows, at most.
const LONGEST_REPLY: i64 = 4096;
/// A request with its reply needs this much at least.
const SMALLEST_WINDOW: u64 = 1024;

/// Where a model is, where a person says so beside its name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Server<'a> {
    /// The address.
    pub base_url: Option<&'a str>,
    /// Room for prompt and reply together.
    pub window: Option<u64>,
}

/// A model, and how it is spoken to.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The model.
    pub model: Model,
    /// The way to it; none for the one that runs in this process.
    pub client: Option<ClientConfig>,
    /// Whether its row was made up, because nobody knows the model.
    pub is_assumed: bool,
}

/// A model that could be used.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Who has it; none for the one that runs in this process.
    pub provider: Option<String>,
    /// What is known of it.
    pub model: Model,
    /// Whether its provider has a key or needs none, as far as can be told without asking.
    pub has_key: bool,
}

/// A name that leads to no model.
#[derive(Debug, thiserror::Error)]
pub enum ChooseError {
    /// Nobody knows it.
    #[error(
        "unknown model {:?}{}. Name a server's own model with its provider (`ollama/{}`; providers: {providers}) or use --base-url; \
         list known models with `foreword models --all`",
        unknown.name,
        if unknown.close.is_empty() { String::new() } else { format!("; close names: {}", unknown.close.join(", ")) },
        unknown.name
    )]
    Unknown {
        /// What was asked for.
        unknown: UnknownModel,
        /// The providers, by name.
        providers: String,
    },
    /// A window that is too small for anything.
    #[error("a context window of {0} tokens is too small: a request and its reply need at least {SMALLEST_WINDOW}")]
    Window(u64),
    /// The table.
    #[error(transparent)]
    Table(#[from] TableError),
}

impl Config {
    /// The model of that name; without one, the configured one, or the one that comes with Foreword.
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
        Ok(Chosen { client: Some(provider.client(model.dialect)), model, is_assumed })
    }

    fn in_table(&self, name: &str, server: Server<'_>) -> Result<Chosen, ChooseError> {
        let model = match (self.table.find(name), server.base_url) {
            (Ok(model), _) => model,
            (Err(_), Some(base_url)) => {
                let provider = Provider::at("", Some(base_url));
                let model = self.assumed(&provider, name)?;
                return Ok(Chosen { client: Some(provider.client(model.dialect)), model, is_assumed: true });
            }
            (Err(unknown), None) => {
                let providers = self.providers.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                return Err(ChooseError::Unknown { unknown, providers });
            }
        };
        let base_url = server.base_url.map(str::to_owned);
        let client = match self.home(&model) {
            Some(home) => {
                let client = home.client(model.dialect);
                Some(ClientConfig { base_url: base_url.or(client.base_url), ..client })
            }
            // The embedded model's own file, served by something else.
            None => base_url.map(|base_url| ClientConfig { base_url: Some(base_url), ..ClientConfig::new(model.dialect) }),
        };
        Ok(Chosen { model, client, is_assumed: false })
    }

    /// The provider whose own a model of the table is; none for the model that runs in this process.
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

    /// A model of which nothing is known but its provider.
    fn assumed(&self, provider: &Provider, name: &str) -> Result<Model, ChooseError> {
        let mut table = self.table.clone();
        table.merge(provider.row(name, Table::new()))?;
        let mut model = table.find(name).map_err(|unknown| ChooseError::Unknown { unknown, providers: String::new() })?;
        // A dated name finds the row without its date, but is what the server knows.
        name.clone_into(&mut model.wire);
        Ok(model)
    }

    /// Models that could be used: all of the table, and those of the user's providers. `is_set` tells of a variable of the environment.
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

/// Whether both are spoken by OpenAI and those that are like it.
fn both_openai(a: Dialect, b: Dialect) -> bool {
    [a, b].iter().all(|dialect| matches!(dialect, Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::LlamaCpp))
}

impl Provider {
    /// The row of a model for the model table, from what is said of it; what is not said is assumed with care.
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
