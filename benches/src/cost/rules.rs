//! Whose rules and prices a conversation is priced by.

use anyhow::{Context, Result};
use foreword_core::prompt::CachePrices;
use foreword_core::tokens::Tokens;
use foreword_provider::dialect::Dialect;
use foreword_provider::model::{CacheRules, Model, Prices};
use foreword_provider::table::ModelTable;

/// A cache with its prices.
pub(crate) struct Rules {
    /// The head of its column.
    pub(crate) title: &'static str,
    /// None is the ideal cache: whatever a request begins with in common with the one before it is read.
    pub(crate) model: Option<Model>,
}

/// Of the ideal cache, relative to a token that no cache serves.
const IDEAL: CachePrices = CachePrices { input: 1.0, read: 0.1, write: 1.25, lifetime_s: None, minimum: 0, step: 0, long: None };

/// Local servers cost time: a token that is evaluated costs one, a token in the cache nothing.
const LOCAL: Prices = Prices { input: 1.0, read: Some(0.0), write: None, write_long: None, output: 0.0, long: None };

/// The columns, each with the model whose rules they are.
const COLUMNS: [(&str, Option<&str>); 11] = [
    ("ideal", None),
    ("opus-5", Some("claude-opus-5")),
    ("sonnet5.5", Some("claude-sonnet-5-5")),
    ("fable5.1", Some("claude-fable-5-1")),
    ("gpt-5.6", Some("gpt-5.6-sol")),
    ("gpt-6.1", Some("gpt-6.1-sol")),
    ("gpt-5.5", Some("gpt-5.5")),
    ("gpt-5.4", Some("gpt-5.4")),
    ("gemini", Some("gemini-3.8-flash")),
    ("llama.cpp", Some("llama.cpp")),
    ("vllm", Some("vllm")),
];

/// All of them.
pub(crate) fn all() -> Result<Vec<Rules>> {
    let table = ModelTable::builtin()?;
    let column = |(title, name): (&'static str, Option<&str>)| {
        let model = name.map(|name| table.find(name).with_context(|| name.to_owned())).transpose()?;
        let model = model.map(|model| Model { prices: model.prices.or(Some(LOCAL)), ..model });
        Ok(Rules { title, model })
    };
    COLUMNS.into_iter().map(column).collect()
}

impl Rules {
    /// What decides a fold.
    pub(crate) fn prices(&self) -> CachePrices {
        self.model.as_ref().map_or(IDEAL, Model::cache_prices)
    }

    /// The dialect its requests are rendered in.
    pub(crate) fn dialect(&self) -> Dialect {
        self.model.as_ref().map_or(Dialect::Anthropic, |model| model.dialect)
    }

    /// The most that could be read of a prompt of `total` tokens that begins with `common` tokens of an earlier one, `ended` of them up to
    /// the end of what a user or a tool says.
    pub(crate) fn readable(&self, common: Tokens, ended: Tokens, total: Tokens) -> Tokens {
        let prefix = match self.model.as_ref().map(|model| model.cache) {
            Some(CacheRules::Breakpoints { .. }) => ended,
            Some(CacheRules::Blocks { .. } | CacheRules::Slots { .. }) => common.min(total - Tokens(1)),
            _ => common,
        };
        self.prices().served(prefix)
    }

    /// The least a prompt can cost of which so much is read.
    pub(crate) fn price(&self, read: Tokens, total: Tokens) -> f64 {
        let prices = self.prices();
        if read == Tokens::ZERO && total.0 < prices.minimum {
            return total * prices.input * prices.factor(total);
        }
        prices.prompt(read, total)
    }
}
