//! The model table: facts that providers change. It is dated and embedded, and users can add rows.

use std::collections::{BTreeMap, BTreeSet};

use foreword_core::image_tokens::ImageTokens;
use foreword_core::tokens::Tokens;
use serde::Deserialize;

use crate::dialect::Dialect;
use crate::model::{CacheRules, Capability, Model, Prices, TokenizerName};

const BUILTIN: &str = include_str!("models.toml");
/// The number of similar names in an error.
const SUGGESTIONS: usize = 5;

/// All known models.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelTable {
    as_of: String,
    rules: BTreeMap<String, CacheRules>,
    rows: BTreeMap<String, Model>,
    /// Every name and alias, with the row's name.
    names: BTreeMap<String, String>,
}

/// An invalid table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// Invalid TOML.
    #[error("the model table is not valid TOML: {0}")]
    Syntax(String),
    /// A field of the table is invalid.
    #[error("model table, field `{field}`: {found}")]
    Field {
        /// Its path.
        field: String,
        /// The error.
        found: String,
    },
    /// A field of a row is invalid.
    #[error("model table, row {row}, field `{field}`: {found}")]
    Row {
        /// The row's name, or its position if it has none.
        row: String,
        /// The field's path in the row.
        field: String,
        /// The error.
        found: String,
    },
}

/// There is no such model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "model {name:?} is not in the model table{}. To use it, add a `[[model]]` row with `name = \"{name}\"`, `like = \"…\"` (a row to start from) and the differences",
    if close.is_empty() { String::new() } else { format!("; close names: {}", close.join(", ")) }
)]
pub struct UnknownModel {
    /// The requested name.
    pub name: String,
    /// Similar names, the closest first.
    pub close: Vec<String>,
}

/// A row as written: everything except the name can be inherited from another row with `like`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    like: Option<String>,
    #[serde(default)]
    aliases: Vec<String>,
    dialect: Option<Dialect>,
    window: Option<u64>,
    reply_limit: Option<u64>,
    tokenizer: Option<TokenizerName>,
    cache: Option<String>,
    cache_minimum: Option<u64>,
    price: Option<Prices>,
    can: Option<BTreeSet<Capability>>,
    images: Option<ImageTokens>,
}

impl ModelTable {
    /// The built-in table.
    pub fn builtin() -> Result<Self, TableError> {
        let mut table = Self::default();
        table.merge_toml(BUILTIN)?;
        Ok(table)
    }

    /// The date of its newest facts.
    pub fn as_of(&self) -> &str {
        &self.as_of
    }

    /// All rows, sorted by name.
    pub fn rows(&self) -> impl Iterator<Item = &Model> {
        self.rows.values()
    }

    /// Adds rows and cache rules; existing ones with the same name are replaced. An error changes nothing.
    pub fn merge_toml(&mut self, text: &str) -> Result<(), TableError> {
        self.merge(text.parse().map_err(|error: toml::de::Error| TableError::Syntax(error.to_string()))?)
    }

    /// The same for a parsed table.
    pub fn merge(&mut self, mut file: toml::Table) -> Result<(), TableError> {
        let mut next = self.clone();
        if let Some(value) = file.remove("as_of") {
            next.as_of = field("as_of", value)?;
        }
        if let Some(value) = file.remove("cache") {
            let sets: BTreeMap<String, toml::Value> = field("cache", value)?;
            for (name, value) in sets {
                let rules = field(&format!("cache.{name}"), value)?;
                next.rules.insert(name, rules);
            }
        }
        let rows: Vec<toml::Value> = match file.remove("model") {
            Some(value) => field("model", value)?,
            None => Vec::new(),
        };
        if let Some((name, _)) = file.iter().next() {
            return Err(TableError::Field { field: name.clone(), found: "unknown field; expected as_of, cache or model".into() });
        }
        for (index, value) in rows.into_iter().enumerate() {
            next.add(index, value)?;
        }
        *self = next;
        Ok(())
    }

    fn add(&mut self, index: usize, value: toml::Value) -> Result<(), TableError> {
        let label = match value.get("name").and_then(toml::Value::as_str) {
            Some(name) => format!("{name:?}"),
            None => format!("{} (without a name)", index + 1),
        };
        let wrong = |field: &str, found: String| TableError::Row { row: label.clone(), field: field.to_owned(), found };
        let row: Row =
            serde_path_to_error::deserialize(value).map_err(|error| wrong(&error.path().to_string(), one_line(error.inner())))?;
        let base = match &row.like {
            Some(name) => Some(self.find(name).map_err(|error| wrong("like", error.to_string()))?),
            None => None,
        };
        let missing = |name: &str| wrong(name, "missing".into());
        let cache = match &row.cache {
            Some(name) => *self.rules.get(name).ok_or_else(|| {
                let known: Vec<&str> = self.rules.keys().map(String::as_str).collect();
                wrong("cache", format!("unknown cache rules {name:?}; known: {}", known.join(", ")))
            })?,
            None => base.as_ref().map(|base| base.cache).ok_or_else(|| missing("cache"))?,
        };
        let cache = match row.cache_minimum {
            Some(minimum) => cache
                .with_minimum(minimum)
                .ok_or_else(|| wrong("cache_minimum", "these cache rules have no minimum; remove the field".into()))?,
            None => cache,
        };
        let base = base.as_ref();
        let model = Model {
            wire: row.name.clone(),
            dialect: row.dialect.or(base.map(|base| base.dialect)).ok_or_else(|| missing("dialect"))?,
            window: row.window.map(Tokens).or(base.map(|base| base.window)).ok_or_else(|| missing("window"))?,
            reply_limit: row
                .reply_limit
                .map(Tokens)
                .or(base.map(|base| base.reply_limit))
                .ok_or_else(|| missing("reply_limit"))?,
            tokenizer: row.tokenizer.or(base.map(|base| base.tokenizer)).ok_or_else(|| missing("tokenizer"))?,
            cache,
            prices: row.price.or(base.and_then(|base| base.prices)),
            can: row.can.or(base.map(|base| base.can.clone())).unwrap_or_default(),
            images: row.images.or(base.map(|base| base.images)).unwrap_or_default(),
            name: row.name,
            aliases: row.aliases,
        };
        check(&model).map_err(|(field, found)| wrong(field, found))?;
        self.insert(model).map_err(|(field, found)| wrong(field, found))
    }

    fn insert(&mut self, model: Model) -> Result<(), (&'static str, String)> {
        if let Some(old) = self.rows.remove(&model.name) {
            self.names.retain(|_, row| *row != old.name);
        }
        for (field, name) in std::iter::once(("name", &model.name)).chain(model.aliases.iter().map(|alias| ("aliases", alias))) {
            if let Some(taken) = self.names.insert(plain(name), model.name.clone()) {
                return Err((field, format!("{name:?} is already the name of the row {taken:?}; choose another")));
            }
        }
        self.rows.insert(model.name.clone(), model);
        Ok(())
    }

    /// Finds a model by name, alias or dated name.
    pub fn find(&self, name: &str) -> Result<Model, UnknownModel> {
        let asked = plain(name);
        if let Some(model) = self.row(&asked) {
            return Ok(model.clone());
        }
        if let Some(model) = undated(&asked).and_then(|name| self.row(name)) {
            return Ok(Model { wire: asked, ..model.clone() });
        }
        Err(UnknownModel { name: name.to_owned(), close: self.close(&asked) })
    }

    fn row(&self, plain: &str) -> Option<&Model> {
        self.names.get(plain).and_then(|name| self.rows.get(name))
    }

    /// The default model of a dialect.
    pub fn default_for(&self, dialect: Dialect) -> Result<Model, UnknownModel> {
        self.find(match dialect {
            Dialect::OpenAiChat => "gpt-5.4",
            Dialect::OpenAiResponses => "gpt-6.1-sol",
            Dialect::Anthropic => "claude-sonnet-5-5",
            Dialect::Gemini => "gemini-3.8-flash",
            Dialect::LlamaCpp => "llama.cpp",
        })
    }

    fn close(&self, asked: &str) -> Vec<String> {
        let mut scored: Vec<(usize, &String)> = self
            .names
            .iter()
            .map(|(name, row)| (name, distance(asked, name), row))
            // An alias may be far shorter than the name of its row.
            .filter(|(name, far, _)| *far <= name.len().max(asked.len()) / 3)
            .map(|(_, far, row)| (far, row))
            .collect();
        scored.sort();
        let mut close: Vec<String> = Vec::new();
        for (_, row) in scored {
            if !close.contains(row) && close.len() < SUGGESTIONS {
                close.push(row.clone());
            }
        }
        close
    }
}

fn field<T: serde::de::DeserializeOwned>(name: &str, value: toml::Value) -> Result<T, TableError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        TableError::Field {
            field: if path == "." { name.to_owned() } else { format!("{name}.{path}") },
            found: one_line(error.inner()),
        }
    })
}

fn one_line(error: &toml::de::Error) -> String {
    error.message().trim().replace('\n', " ")
}

fn check(model: &Model) -> Result<(), (&'static str, String)> {
    if model.name.is_empty() {
        return Err(("name", "empty".into()));
    }
    if model.reply_limit == Tokens::ZERO || model.reply_limit > model.window {
        return Err(("reply_limit", format!("{} is not between 1 and the window of {}", model.reply_limit, model.window)));
    }
    if let Some(prices) = model.prices {
        for (field, price) in [
            ("price.input", prices.input),
            ("price.read", prices.read()),
            ("price.write", prices.write()),
            ("price.write_long", prices.write_long()),
            ("price.output", prices.output),
        ] {
            if !price.is_finite() || price < 0.0 {
                return Err((field, format!("{price} is not a price")));
            }
        }
    }
    Ok(())
}

/// Normalizes a name: case is ignored, and dots in Claude's versions become dashes.
fn plain(name: &str) -> String {
    let lower = name.trim().to_ascii_lowercase();
    if lower.starts_with("claude-") { lower.replace('.', "-") } else { lower }
}

/// The name without a date suffix (`-20251001` or `-2024-08-06`).
fn undated(name: &str) -> Option<&str> {
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    let (rest, last) = name.rsplit_once('-')?;
    if digits(last, 8) {
        return Some(rest);
    }
    let (rest, month) = rest.rsplit_once('-')?;
    let (rest, year) = rest.rsplit_once('-')?;
    (digits(last, 2) && digits(month, 2) && digits(year, 4)).then_some(rest)
}

/// The edit distance of two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_rows() {
        let table = ModelTable::builtin().unwrap();
        for (asked, row, wire) in [
            ("gpt-6.1-sol", "gpt-6.1-sol", "gpt-6.1-sol"),
            ("GPT-4o", "gpt-4o", "gpt-4o"),
            ("gpt-4o-2024-08-06", "gpt-4o", "gpt-4o-2024-08-06"),
            ("claude-opus-5.5", "claude-opus-5-5", "claude-opus-5-5"),
            ("claude-haiku-4-5-20251001", "claude-haiku-4-5", "claude-haiku-4-5-20251001"),
            ("gemini-3.8-flash", "gemini-3.8-flash", "gemini-3.8-flash"),
            ("llama.cpp", "llama.cpp", "llama.cpp"),
        ] {
            let model = table.find(asked).unwrap();
            assert_eq!((model.name.as_str(), model.wire.as_str()), (row, wire));
        }
        for dialect in Dialect::ALL {
            assert_eq!(table.default_for(dialect).unwrap().dialect, dialect);
        }
    }

    #[test]
    fn an_unknown_name_lists_close_ones_and_the_way_out() {
        let error = ModelTable::builtin().unwrap().find("gpt-5.44").unwrap_err();
        assert_eq!(error.close[0], "gpt-5.4");
        assert!(error.to_string().contains("[[model]]"), "{error}");
        let far = ModelTable::builtin().unwrap().find("zzzzzzzz").unwrap_err();
        assert!(far.close.is_empty());
    }

    fn check_error(toml: &str, expect: &str) {
        let mut table = ModelTable::builtin().unwrap();
        let before = table.clone();
        let error = table.merge_toml(toml).unwrap_err().to_string();
        assert!(error.contains(expect), "{toml}\n{error}\nwanted: {expect}");
        assert_eq!(table, before);
    }

    #[test]
    fn errors_name_row_and_field() {
        check_error("a = = 1", "not valid TOML");
        check_error("modell = 1", "field `modell`: unknown field");
        check_error("as_of = 3", "field `as_of`: invalid type");
        check_error("[cache.x]\nregime = 'warp'", "field `cache.x");
        check_error("[cache.x]\nregime = 'blocks'\nblock = 16\nblok = 1", "blok");
        check_error("[[model]]\nwindow = 1", "row 1 (without a name)");
        check_error("[[model]]\nname = 'x'\nwindow = 'big'", r#"row "x", field `window`: invalid type"#);
        check_error("[[model]]\nname = 'x'\nwindoww = 1", "windoww");
        check_error("[[model]]\nname = 'x'", r#"row "x", field `cache`: missing"#);
        check_error("[[model]]\nname = 'x'\nlike = 'gpt-5.44'", "field `like`: model \"gpt-5.44\" is not in the model table");
        check_error("[[model]]\nname = 'x'\nlike = 'gpt-5.4'\ncache = 'q'", "unknown cache rules \"q\"; known: ");
        check_error("[[model]]\nname = 'x'\nlike = 'llama.cpp'\ncache_minimum = 4", "field `cache_minimum`");
        check_error("[[model]]\nname = 'x'\nlike = 'gpt-5.4'\nreply_limit = 0", "field `reply_limit`: 0 is not");
        check_error("[[model]]\nname = 'x'\nlike = 'gpt-5.4'\nprice = {input = -1, output = 1}", "field `price.input`");
        check_error("[[model]]\nname = 'x'\nlike = 'gpt-5.4'\naliases = ['gpt-4o']", "already the name of the row \"gpt-4o\"");
        check_error("[[model]]\nname = 'x'\nlike = 'gpt-5.4'\ncan = ['fly']", "field `can[0]`");
    }

    #[test]
    fn users_add_and_replace_rows() {
        let mut table = ModelTable::builtin().unwrap();
        table
            .merge_toml("[[model]]\nname = 'mine'\nlike = 'gpt-5.4'\nwindow = 9000\nreply_limit = 1000\n[[model]]\nname = 'gpt-4o'\nlike = 'mine'")
            .unwrap();
        assert_eq!(table.find("gpt-4o").unwrap().window, Tokens(9000));
        assert_eq!(table.find("mine").unwrap().tokenizer, TokenizerName::O200k);
    }

    #[test]
    fn cache_prices_are_per_token() {
        let table = ModelTable::builtin().unwrap();
        let check = |name: &str, input: f64, read: f64, write: f64, lifetime_s| {
            let prices = table.find(name).unwrap().cache_prices();
            let near = |a: f64, b: f64| assert!((a * 1e6 - b).abs() < 1e-9, "{name}: {a} is not {b}");
            near(prices.input, input);
            near(prices.read, read);
            near(prices.write, write);
            assert_eq!(prices.lifetime_s, lifetime_s);
        };
        check("gpt-6.1-sol", 2.0, 0.1, 2.5, Some(1800));
        check("gpt-5.4", 2.5, 0.25, 2.5, Some(1800));
        check("claude-opus-5-5", 4.0, 0.2, 5.0, Some(310));
        check("llama.cpp", 0.0, 0.0, 0.0, None);
    }

    #[test]
    fn every_row_is_sane() {
        let table = ModelTable::builtin().unwrap();
        assert_eq!(table.as_of(), "2026-11-15");
        for model in table.rows() {
            if let Some(prices) = model.prices {
                assert!(prices.read() <= prices.input, "{}", model.name);
                assert!(prices.write() >= prices.input, "{}", model.name);
                assert!(prices.write_long() >= prices.write(), "{}", model.name);
            }
            assert!(
                !model.has(Capability::Breakpoints) || matches!(model.cache, CacheRules::Breakpoints { .. }),
                "{}",
                model.name
            );
        }
    }
}
