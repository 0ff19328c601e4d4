//! What calls cost, by the model table: prices stand there and nowhere else.

use std::collections::HashMap;

use foreword_core::tokens::Tokens as Count;
use foreword_provider::cost;
use foreword_provider::model::{CacheRules, Model};
use foreword_provider::table::ModelTable;
use foreword_provider::usage::CacheUse;

use crate::log::{Call, Name, Tokens};
use crate::sessions::Sessions;

/// The models of some sessions, found once.
#[derive(Clone, Debug)]
pub struct Prices<'t> {
    table: &'t ModelTable,
    models: HashMap<Name, Option<Model>>,
}

/// How a provider's cache charges and forgets, as far as logs show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regime {
    /// What is written is charged, for one of two lifetimes (Anthropic).
    Marks,
    /// What is written is charged and kept for a promised time (OpenAI from GPT-5.6 on).
    Breakpoints,
    /// The provider keeps what it likes for as long as it likes, and writing is free.
    Automatic,
}

impl<'t> Prices<'t> {
    /// Those of all models that `sessions` name.
    pub fn new(table: &'t ModelTable, sessions: &Sessions) -> Self {
        let models = sessions.models().into_iter().map(|name| (name, find(table, sessions.name(name)))).collect();
        Self { table, models }
    }

    /// The date of the prices.
    pub fn as_of(&self) -> &str {
        self.table.as_of()
    }

    /// The table.
    pub fn table(&self) -> &'t ModelTable {
        self.table
    }

    /// A model; none where the table does not have it.
    pub fn model(&self, name: Name) -> Option<&Model> {
        self.models.get(&name).and_then(Option::as_ref)
    }

    /// How its cache works. What the table does not know is told by whether anything was written.
    pub fn regime(&self, call: &Call) -> Regime {
        match self.model(call.model).map(|model| model.cache) {
            Some(CacheRules::Marks { .. }) => Regime::Marks,
            Some(CacheRules::Breakpoints { .. }) => Regime::Breakpoints,
            Some(_) if call.tokens.written() == 0 => Regime::Automatic,
            Some(_) => Regime::Marks,
            None if call.tokens.written() > 0 => Regime::Marks,
            None => Regime::Automatic,
        }
    }

    /// What a call cost, in USD; none where the table has no price.
    pub fn call(&self, call: &Call) -> Option<f64> {
        let model = self.model(call.model)?;
        Some(charge(model, &call.tokens, call.percent))
    }

    /// The part of it that its prompt cost.
    pub fn prompt(&self, call: &Call) -> Option<f64> {
        let model = self.model(call.model)?;
        Some(charge(model, &Tokens { output: 0, ..call.tokens }, call.percent))
    }

    /// What one token more in the prompt of a call costs, by how it got there: fresh or written as the call wrote, and read.
    pub fn each(&self, call: &Call) -> Option<Each> {
        let model = self.model(call.model)?;
        // A second prompt that is one token longer would cross no threshold: the price is taken at this prompt's size.
        let whole = call.tokens.prompt().max(1);
        let one = |tokens: Tokens| charge(model, &tokens, call.percent) / whole as f64;
        let read = one(Tokens { cache_read: whole, ..Tokens::default() });
        let long = call.tokens.cache_write_1h > call.tokens.cache_write_5m;
        let write = match self.regime(call) {
            Regime::Automatic => one(Tokens { input: whole, ..Tokens::default() }),
            _ if long => one(Tokens { cache_write_1h: whole, ..Tokens::default() }),
            Regime::Marks => one(Tokens { cache_write_5m: whole, ..Tokens::default() }),
            Regime::Breakpoints if call.tokens.written() > 0 => one(Tokens { cache_write_5m: whole, ..Tokens::default() }),
            Regime::Breakpoints => one(Tokens { input: whole, ..Tokens::default() }),
        };
        Some(Each { read, write })
    }
}

/// Prices of a single token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Each {
    /// Read from the cache.
    pub read: f64,
    /// Not read: written, or plain.
    pub write: f64,
}

/// What tokens cost.
pub fn charge(model: &Model, tokens: &Tokens, percent: u16) -> f64 {
    let used = CacheUse {
        read: Count(tokens.cache_read),
        write: Count(tokens.written()),
        write_long: Count(tokens.cache_write_1h),
        uncached: Count(tokens.input),
    };
    let sum = cost::cost(model, &used) + cost::output_cost(model, Count(tokens.prompt()), Count(tokens.output));
    sum * f64::from(percent) / 100.0
}

/// A model by the name that a log gives it: with a provider's name in front of it, a region, a date or a variant behind it.
pub fn find(table: &ModelTable, name: &str) -> Option<Model> {
    let name = name.trim();
    if name.is_empty() {
        return None;
    }
    let bare = name.rsplit_once('/').map_or(name, |(_, bare)| bare);
    let bare = bare.split_once("anthropic.").map_or(bare, |(_, bare)| bare);
    let bare = bare.split(['@', '[', ':']).next().unwrap_or(bare);
    let bare = bare.strip_suffix("-v1").unwrap_or(bare);
    let bare = bare.strip_suffix("-latest").unwrap_or(bare);
    // Older models of Anthropic have their version in front of the family's name.
    [name, bare].into_iter().find_map(|name| table.find(name).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_logs() {
        let table = ModelTable::builtin().unwrap();
        let check = |name: &str, expect: Option<&str>| {
            assert_eq!(find(&table, name).map(|model| model.name).as_deref(), expect, "{name}");
        };
        check("claude-sonnet-4-5-20250929", Some("claude-sonnet-4-5"));
        check("anthropic/claude-sonnet-4.6", Some("claude-sonnet-4-6"));
        check("us.anthropic.claude-opus-4-5-20251101-v1:0", Some("claude-opus-4-5"));
        check("claude-opus-4-6[1m]", Some("claude-opus-4-6"));
        check("models/gemini-2.5-flash", Some("gemini-2.5-flash"));
        check("openai/gpt-5.4", Some("gpt-5.4"));
        check("gpt-5-codex", Some("gpt-5-codex"));
        check("", None);
        check("something-else", None);
    }
}
