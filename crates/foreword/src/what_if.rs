//! What a conversation would have cost with another model, or with other settings.

use std::sync::Arc;

use foreword_core::session::Input;
use foreword_core::settings::Settings;
use foreword_prompt_cache::CacheSim;
use foreword_provider::cost::{cost, uncached_cost};
use foreword_provider::table::ModelTable;
use serde::Serialize;

use crate::builder::defaults;
use crate::session::{Setup, Step};
use crate::{Error, Session};

/// The cost of a conversation, by the published rules of the provider's cache. Replies are not included.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WhatIf {
    /// The number of requests.
    pub requests: usize,
    /// All prompt tokens.
    pub tokens: u64,
    /// Those that were read from the cache.
    pub read: u64,
    /// Those that were written to it, where that is charged.
    pub write: u64,
    /// The price in USD.
    pub cost: f64,
    /// The price without a cache.
    pub cost_uncached: f64,
    /// The number of requests that did not fit.
    pub over_budget: usize,
}

impl Session {
    /// Runs the session's conversation again with another model of the built-in table. `change` may adjust its settings, which have
    /// that model's defaults.
    ///
    /// ```
    /// # fn main() -> Result<(), foreword::Error> {
    /// let mut session = foreword::Session::builder("claude-sonnet-5").build()?;
    /// for question in ["What is sourdough?", "And how do I keep it?"] {
    ///     session.turn(question).request()?;
    ///     session.reply_text("Flour, water and patience.")?;
    /// }
    /// let other = session.what_if("gpt-5.4", |_| {})?;
    /// assert_eq!(other.requests, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn what_if(&self, model: &str, change: impl FnOnce(&mut Settings)) -> Result<WhatIf, Error> {
        let model = ModelTable::builtin()?.find(model)?;
        let old = &self.setup;
        let dialect = if model.name == old.model.name { old.dialect } else { model.dialect };
        let name = &old.settings.session;
        let mut settings = defaults(&model, name, dialect, old.settings.layout, old.tools, &old.agent);
        settings.history = old.settings.history.clone();
        change(&mut settings);
        let tokenizer = Arc::new(model.tokenizer.tokenizer());
        let setup = Setup { model, dialect, settings, ..Setup::clone(old) };
        let mut session = Self::begin(setup, tokenizer)?;
        let (mut cache, mut now_s, mut sum) = (CacheSim::new(), 0, WhatIf::default());
        for step in &self.log {
            match step {
                Step::Input(input) => {
                    if let Input::Idle(seconds) = input {
                        now_s += seconds;
                    }
                    session.apply(input.clone())?;
                }
                Step::Request => {
                    match session.request() {
                        Ok(_) => {}
                        Err(Error::OverBudget(_)) => {
                            sum.over_budget += 1;
                            continue;
                        }
                        Err(error) => return Err(error),
                    }
                    let Some(sent) = &session.sent else { continue };
                    let model = session.model();
                    let used = cache.request(now_s, &sent.prompt, model);
                    sum.requests += 1;
                    sum.tokens += used.total().0;
                    sum.read += used.read.0;
                    sum.write += used.write.0;
                    sum.cost += cost(model, &used);
                    sum.cost_uncached += uncached_cost(model, used.total());
                }
            }
        }
        Ok(sum)
    }
}
