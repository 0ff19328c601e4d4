//! Reads the configuration file. Errors have line numbers; a key is never quoted.

use std::collections::BTreeMap;

use foreword_core::settings::Layout;
use foreword_provider::client::{KeySource, Secret};
use foreword_provider::dialect::Dialect;
use foreword_provider::table::{ModelTable, TableError};
use foreword_web::FileSource;
use serde::{Deserialize, Deserializer, de};
use toml::{Spanned, Table, Value};

use super::Config;
use super::gateway::{GatewayRules, Level, SpendingLimits};
use super::provider::{self, Provider};
use super::tools::ToolRules;
use crate::settings::{SearchSettings, SessionSettings, checked, explained, joined, line_of, line_of_key};

/// An invalid configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct ConfigError {
    /// The line, from 1.
    pub line: Option<usize>,
    /// The error and what is expected.
    pub what: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    model: Option<String>,
    layout: Option<Spanned<String>>,
    mode: Option<Spanned<String>>,
    #[serde(default)]
    settings: SessionSettings,
    search: Option<SearchSettings>,
    #[serde(default)]
    providers: BTreeMap<String, Spanned<Entry>>,
    #[serde(default)]
    models: BTreeMap<String, Spanned<Table>>,
    #[serde(default)]
    tools: Tools,
    weights: Option<WeightsEntry>,
    #[serde(default)]
    gateway: GatewayRules,
    #[serde(default)]
    limits: SpendingLimits,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Tools {
    variables: Vec<Spanned<String>>,
    unasked: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WeightsEntry {
    url: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    base_url: Option<String>,
    dialect: Option<Dialect>,
    #[serde(default, deserialize_with = "key")]
    key: Option<KeySource>,
    proxy: Option<String>,
    #[serde(default)]
    models: Vec<String>,
    level: Option<Level>,
    client_keys: Option<bool>,
}

/// `{ env = "NAME" }`, `{ command = "…" }`, `{ keyring = "ACCOUNT" }` or `"none"`. Any other value may be the key itself.
fn key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<KeySource>, D::Error> {
    let source = match Value::deserialize(deserializer)? {
        Value::String(word) if word == "none" => Some(KeySource::None),
        Value::Table(table) if table.len() == 1 => table.into_iter().next().and_then(|(kind, value)| {
            let Value::String(value) = value else { return None };
            match kind.as_str() {
                "env" => Some(KeySource::Env(value)),
                "command" => Some(KeySource::Command(value)),
                "keyring" => Some(KeySource::Keyring(value)),
                _ => None,
            }
        }),
        _ => None,
    };
    let wanted = "`key` must be the source of the API key: { env = \"NAME\" }, { command = \"…\" }, { keyring = \"ACCOUNT\" } or \"none\"; do not put the key itself into \
                  this file";
    source.map(Some).ok_or_else(|| de::Error::custom(wanted))
}

impl Config {
    /// The built-in configuration.
    pub fn builtin() -> Result<Self, TableError> {
        let table = ModelTable::builtin()?;
        let (tools, providers) = (ToolRules::default(), provider::known());
        let settings = SessionSettings::default();
        let (gateway, limits) = (GatewayRules::default(), SpendingLimits::default());
        Ok(Self { model: None, settings, mode: None, tools, weights_mirror: None, gateway, limits, providers, table })
    }

    /// Parses a configuration.
    pub fn read(text: &str) -> Result<Self, ConfigError> {
        let wrong = |at: usize, what: String| ConfigError { line: line_of(text, at), what };
        let file: File = toml::from_str(text).map_err(|error| ConfigError {
            line: error.span().and_then(|span| line_of(text, span.start)),
            what: explained(error.message()),
        })?;
        let mut config = Self::builtin().map_err(|error| ConfigError { line: None, what: error.to_string() })?;
        config.model = file.model;
        file.limits.check().map_err(|what| ConfigError { line: line_of_key(text, "limits"), what })?;
        (config.gateway, config.limits) = (file.gateway, file.limits);
        let settings = joined(file.settings, file.search);
        let settings = settings.map_err(|what| ConfigError { line: line_of_key(text, "search"), what })?;
        config.settings = checked(settings).map_err(|error| ConfigError {
            line: line_of_key(text, &error.path),
            what: format!("{error}; see docs/settings.md"),
        })?;
        if let Some(layout) = file.layout {
            let found = Layout::ALL.into_iter().find(|known| known.as_str() == layout.get_ref());
            let what = || format!("`layout` is {:?}, expected log or library", layout.get_ref());
            let found = found.ok_or_else(|| wrong(layout.span().start, what()))?;
            if config.settings.layout.replace(found).is_some() {
                return Err(wrong(
                    layout.span().start,
                    "`layout` is set twice, at the top and under [settings]; set it once".to_owned(),
                ));
            }
        }
        if let Some(mode) = file.mode {
            config.mode = Some(mode.get_ref().parse().map_err(|what| wrong(mode.span().start, format!("`mode`: {what}")))?);
        }
        if let Some(WeightsEntry { url }) = file.weights {
            let at = url.span().start;
            FileSource::new(url.get_ref()).map_err(|error| wrong(at, format!("`url` under [weights]: {error}")))?;
            config.weights_mirror = Some(url.into_inner());
        }
        for (name, entry) in file.providers {
            let at = entry.span().start;
            let provider = config.provider(&name, entry.into_inner()).map_err(|what| wrong(at, what))?;
            config.providers.insert(name, provider);
        }
        for (name, row) in file.models {
            let at = row.span().start;
            config.add_model(&name, row.into_inner()).map_err(|error| wrong(at, error.to_string()))?;
        }
        for name in file.tools.variables {
            let at = name.span().start;
            config.tools.allow_variable(name.into_inner()).map_err(|what| wrong(at, what))?;
        }
        for written in file.tools.unasked {
            config.tools.allow_unasked(written.get_ref()).map_err(|what| wrong(written.span().start, what))?;
        }
        Ok(config)
    }

    fn provider(&self, name: &str, entry: Entry) -> Result<Provider, String> {
        if name.is_empty() || name.contains('/') {
            return Err(format!("invalid provider name {name:?}: it is the part before the / in a model's name"));
        }
        let known = self.providers.get(name);
        if known.is_none() && entry.base_url.is_none() {
            return Err(format!("the provider {name:?} needs a `base_url` like \"http://127.0.0.1:8080/v1\""));
        }
        let mut provider = known.cloned().unwrap_or_else(|| Provider::at(name, entry.base_url.as_deref()));
        provider.base_url = entry.base_url.or(provider.base_url);
        if let Some(dialect) = entry.dialect {
            provider.dialect = dialect;
            provider.dialect_is_set = true;
        }
        provider.key = entry.key.unwrap_or(provider.key);
        provider.proxy = entry.proxy.map(Secret::new).or(provider.proxy);
        provider.models.extend(entry.models);
        provider.level = entry.level.or(provider.level);
        provider.client_keys = entry.client_keys.unwrap_or(provider.client_keys);
        provider.is_configured = true;
        Ok(provider)
    }

    /// Adds or changes a model.
    fn add_model(&mut self, name: &str, mut row: Table) -> Result<(), TableError> {
        let mut name = name;
        let known = self.table.find(name);
        if let Ok(known) = &known {
            row.entry("like").or_insert_with(|| known.name.clone().into());
            if known.aliases.iter().any(|alias| alias == name) {
                name = &known.name;
            }
            if known.name == name {
                row.entry("aliases").or_insert_with(|| known.aliases.clone().into());
            }
        }
        let row = match self.split(name) {
            Some((provider, _)) => provider.row(name, row),
            None => Provider::at("", None).row(name, row),
        };
        self.table.merge(row)
    }
}
