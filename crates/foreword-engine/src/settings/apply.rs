//! Converts settings to the values of a session.

use std::collections::BTreeMap;

use foreword_core::budget::Budget;
use foreword_core::layer::LayerId;
use foreword_core::settings::HistoryPolicy;
use foreword_core::tokens::Tokens;
use foreword_provider::stream::Ttl;

use super::HistoryStrategy::{Full, Managed, Strip, Window};
use super::{BudgetSettings, CacheTtl, HistorySettings, SessionSettings};
use crate::manager::{TOKEN_THRESHOLD, policy};
use crate::session::Setup;
use foreword_templates::Template;

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {what}")]
pub struct SettingError {
    /// Its path, like `budget.low_water`.
    pub path: String,
    /// The value and what is expected.
    pub what: String,
}

fn wrong(path: impl Into<String>, what: impl std::fmt::Display) -> SettingError {
    SettingError { path: path.into(), what: format!("{what}") }
}

impl SessionSettings {
    /// Checks everything that does not depend on the model.
    pub fn check(&self) -> Result<(), SettingError> {
        check_history(&self.history)?;
        self.check_values()
    }

    /// The same for partial settings, which may be incomplete.
    pub(super) fn check_values(&self) -> Result<(), SettingError> {
        budget(&self.budget, &Budget::default(), Tokens(u64::MAX))?;
        let search = &self.search;
        let domains = [
            ("search", search.general()),
            ("search.notes", search.notes),
            ("search.items", search.items),
            ("search.tools", search.tools),
        ];
        for (name, domain) in domains {
            domain.check().map_err(|(key, what)| wrong(format!("{name}.{key}"), what))?;
        }
        Ok(())
    }
}

impl Setup {
    /// Applies settings; missing ones are unchanged. `template` is the template of a managed history.
    pub fn set(&mut self, wanted: &SessionSettings, template: Option<&Template>) -> Result<(), SettingError> {
        wanted.check()?;
        let settings = &mut self.settings;
        settings.layout = wanted.layout.unwrap_or(settings.layout);
        // More than the model can say is no room for a reply.
        let reply_tokens = wanted.budget.reply_tokens.map(|tokens| tokens.min(self.model.reply_limit.0));
        let given = BudgetSettings { reply_tokens, ..wanted.budget.clone() };
        settings.budget = budget(&given, &settings.budget, self.model.window)?;
        if wanted.history.strategy.is_some() {
            settings.history = match wanted.template() {
                Some(_) => managed(&wanted.history, template, settings.budget.prompt),
                None => history(&wanted.history)?,
            };
            self.template = template.map(|template| template.name.clone());
        }
        let search = wanted.search.by_kind();
        settings.select = search.items.select(settings.select);
        let usual = settings.select_tools.unwrap_or(settings.select);
        settings.select_tools = Some(search.tools.select(usual)).filter(|tools| *tools != settings.select);
        settings.keep_outputs = wanted.keep_outputs.unwrap_or(settings.keep_outputs);
        settings.recent_runs = wanted.recent_runs.unwrap_or(settings.recent_runs);
        settings.promote_selections = wanted.promote_selections.unwrap_or(settings.promote_selections);
        settings.plan.steps = wanted.plan.steps.unwrap_or(settings.plan.steps);
        settings.plan.step_chars = wanted.plan.step_chars.unwrap_or(settings.plan.step_chars);
        self.ttl = match wanted.cache_ttl {
            Some(CacheTtl::Short) => Ttl::default(),
            Some(CacheTtl::Long) => Ttl::Long,
            None => self.ttl,
        };
        self.wanted = wanted.clone().over(std::mem::take(&mut self.wanted));
        self.wanted.search = self.wanted.search.by_kind();
        Ok(())
    }
}

/// The budget for a model with a context window, with `usual` as the default.
pub fn budget(given: &BudgetSettings, usual: &Budget, window: Tokens) -> Result<Budget, SettingError> {
    let mut layers: BTreeMap<LayerId, Tokens> = usual.layers.clone();
    for (name, tokens) in &given.layer_tokens {
        let capped = [LayerId::L2, LayerId::L3, LayerId::L4].into_iter().find(|layer| layer.as_str() == name);
        let expected = "expected L2_LIBRARY, L3_TURN or L4_HISTORY; L1 and L5 cannot be limited";
        let layer = capped.ok_or_else(|| wrong(format!("budget.layer_tokens.{name}"), expected))?;
        layers.insert(layer, Tokens(*tokens));
    }
    if let Some(share) = given.low_water
        && !(0.0..=1.0).contains(&share)
    {
        return Err(wrong("budget.low_water", format!("{share}; expected a number from 0 to 1")));
    }
    let reply = given.reply_tokens.map_or(usual.reply, Tokens);
    let most = window - reply;
    let usual_prompt = if given.reply_tokens.is_some() { most } else { usual.prompt };
    let by_tool = usual.output_chars_by_tool.iter().chain(&given.tool_output_chars_by_tool);
    Ok(Budget {
        prompt: given.prompt_tokens.map_or(usual_prompt, |tokens| Tokens(tokens).min(most)),
        reply,
        item: given.item_tokens.map(Tokens).or(usual.item),
        output_chars: given.tool_output_chars.unwrap_or(usual.output_chars),
        output_chars_by_tool: by_tool.map(|(tool, chars)| (tool.clone(), *chars)).collect(),
        layers,
        low_water: given.low_water.unwrap_or(usual.low_water),
    })
}

/// Rejects fields of other history strategies.
fn check_history(given: &HistorySettings) -> Result<(), SettingError> {
    let strategy = given.strategy.unwrap_or_default();
    let fields = [
        ("messages", given.messages.is_some(), Window),
        ("chars", given.chars.is_some(), Window),
        ("message_chars", given.message_chars.is_some(), Window),
        ("keep_runs", given.keep_runs.is_some(), Strip),
        ("summary_tokens", given.summary_tokens.is_some(), Strip),
        ("template", given.template.is_some(), Managed),
        ("summary", given.summary.is_some(), Managed),
        ("recent_runs", given.recent_runs.is_some(), Managed),
        ("passthrough_runs", given.passthrough_runs.is_some(), Managed),
        ("token_threshold", given.token_threshold.is_some(), Managed),
    ];
    for (name, is_given, owner) in fields {
        if is_given && owner != strategy {
            let what = format!("only for the strategy {}, not for {}", owner.as_str(), strategy.as_str());
            return Err(wrong(format!("history.{name}"), what));
        }
    }
    Ok(())
}

/// The history policy, if no model writes summaries.
pub fn history(given: &HistorySettings) -> Result<HistoryPolicy, SettingError> {
    check_history(given)?;
    Ok(match given.strategy.unwrap_or_default() {
        Full => HistoryPolicy::Full,
        Window => HistoryPolicy::Window {
            messages: given.messages.unwrap_or(40),
            chars: given.chars.unwrap_or(80_000),
            message_chars: given.message_chars.unwrap_or(8_000),
        },
        Strip => HistoryPolicy::Strip {
            keep_runs: given.keep_runs.unwrap_or(2),
            summary_tokens: Tokens(given.summary_tokens.unwrap_or(300)),
        },
        // Without recent runs to read there is no manager, and so no summary of its making.
        Managed => HistoryPolicy::Managed {
            summary: given.summary.clone().filter(|_| given.recent_runs != Some(0)),
            passthrough_runs: given.passthrough_runs.unwrap_or(1),
            token_threshold: Tokens(given.token_threshold.unwrap_or(TOKEN_THRESHOLD)),
        },
    })
}

/// A managed history with a template; explicit settings override the template's.
fn managed(given: &HistorySettings, template: Option<&Template>, prompt: Tokens) -> HistoryPolicy {
    let by_template = policy(template, prompt);
    let HistoryPolicy::Managed { passthrough_runs, token_threshold, .. } = by_template else { return by_template };
    HistoryPolicy::Managed {
        summary: None,
        passthrough_runs: given.passthrough_runs.unwrap_or(passthrough_runs),
        token_threshold: given.token_threshold.map_or(token_threshold, Tokens),
    }
}
