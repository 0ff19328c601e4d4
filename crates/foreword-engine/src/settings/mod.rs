//! The settings of a session: one type for flags, an agent's `agent.toml`, the user's `config.toml`, the API and scenario files.
//!
//! Each source sets some fields of [`SessionSettings`] (others are `None`), [`Layers`] merges them, and
//! [`Setup::set`](crate::session::Setup::set) applies the result to a session.

mod apply;
mod read;
mod search;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use foreword_core::settings::Layout;
use serde::{Deserialize, Serialize};

pub use apply::{SettingError, budget, history};
pub use read::{ReadError, agent_file, assignment, from_json};
pub(crate) use read::{checked, explained, joined, line_of, line_of_key};
pub use search::{DomainSettings, Preset, SearchSettings};

/// The settings of one source. Missing fields are decided elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionSettings {
    /// The prompt layout: `log` or `library`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
    /// Token budgets.
    #[serde(skip_serializing_if = "is_default")]
    pub budget: BudgetSettings,
    /// How older messages are sent.
    #[serde(skip_serializing_if = "is_default")]
    pub history: HistorySettings,
    /// How notes, items of the agent and tools are selected.
    #[serde(skip_serializing_if = "is_default")]
    pub search: SearchSettings,
    /// How selected tools are sent: `stable` (a constant list with a separate choice) or `native` (only the selected tools are
    /// listed).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolSetting>,
    /// The number of tool outputs that a fold keeps in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_outputs: Option<usize>,
    /// The number of turns that a requested fold keeps unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recent_runs: Option<usize>,
    /// Whether attached lines of a note move to the library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promote_selections: Option<bool>,
    /// Limits of plans.
    #[serde(skip_serializing_if = "is_default")]
    pub plan: PlanSettings,
    /// How long the provider is asked to cache a prompt: `5m` or `1h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_ttl: Option<CacheTtl>,
}

/// How selected tools are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolSetting {
    /// A constant list per epoch with a separate choice.
    #[default]
    Stable,
    /// Only the selected tools are listed.
    Native,
}

/// The lifetime of cache marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CacheTtl {
    /// Five minutes.
    #[default]
    #[serde(rename = "5m")]
    Short,
    /// One hour, if the provider supports it.
    #[serde(rename = "1h")]
    Long,
}

/// Token budgets. Missing fields come from the model.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct BudgetSettings {
    /// The limit for the whole prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Reserved for the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_tokens: Option<u64>,
    /// The limit for one tool output in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_output_chars: Option<usize>,
    /// Limits for the outputs of single tools in characters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_output_chars_by_tool: BTreeMap<String, usize>,
    /// The limit for one item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_tokens: Option<u64>,
    /// Limits for single layers, by ID: `L2_LIBRARY`, `L3_TURN`, `L4_HISTORY`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub layer_tokens: BTreeMap<String, u64>,
    /// The target size of a fold, as a share of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_water: Option<f64>,
}

/// How older messages are sent. Fields of other strategies are rejected.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct HistorySettings {
    /// `full`, `window`, `strip` or `managed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<HistoryStrategy>,
    /// `window`: the largest number of messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<usize>,
    /// `window`: the largest number of characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chars: Option<usize>,
    /// `window`: the largest number of characters of one message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_chars: Option<usize>,
    /// `strip`: the number of turns that stay unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_runs: Option<usize>,
    /// `strip`: the room for the summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary_tokens: Option<u64>,
    /// `managed`: the template's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// `managed`, in scenario files: the summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// `managed`: the number of turns that the summarizing model reads; 0 disables summaries. Default: the template's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recent_runs: Option<usize>,
    /// `managed`: the number of turns that stay unchanged. Default: the template's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passthrough_runs: Option<usize>,
    /// `managed`: the smallest history size for summaries. Default: the template's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_threshold: Option<u64>,
}

/// A strategy for older messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryStrategy {
    /// All messages.
    #[default]
    Full,
    /// The newest messages.
    Window,
    /// A summary by the engine and the last turns.
    Strip,
    /// A summary made from a template and the last turns.
    Managed,
}

impl HistoryStrategy {
    /// All strategies.
    pub const ALL: [Self; 4] = [Self::Full, Self::Window, Self::Strip, Self::Managed];

    /// The name in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Window => "window",
            Self::Strip => "strip",
            Self::Managed => "managed",
        }
    }
}

/// Limits of plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlanSettings {
    /// The largest number of steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<usize>,
    /// The largest size of a step in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_chars: Option<usize>,
}

/// Whether all fields are unset.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl SessionSettings {
    /// Fills in missing fields from `lower`. If both have a history strategy and they differ, the upper history is used alone.
    #[must_use]
    pub fn over(self, lower: Self) -> Self {
        Self {
            layout: self.layout.or(lower.layout),
            budget: self.budget.over(lower.budget),
            history: self.history.over(lower.history),
            search: self.search.over(lower.search),
            tools: self.tools.or(lower.tools),
            keep_outputs: self.keep_outputs.or(lower.keep_outputs),
            recent_runs: self.recent_runs.or(lower.recent_runs),
            promote_selections: self.promote_selections.or(lower.promote_selections),
            plan: PlanSettings {
                steps: self.plan.steps.or(lower.plan.steps),
                step_chars: self.plan.step_chars.or(lower.plan.step_chars),
            },
            cache_ttl: self.cache_ttl.or(lower.cache_ttl),
        }
    }

    /// The template's name for a managed history; `None` otherwise.
    pub fn template(&self) -> Option<&str> {
        let managed = self.history.strategy == Some(HistoryStrategy::Managed);
        managed.then(|| self.history.template.as_deref().unwrap_or(crate::manager::DEFAULT_TEMPLATE))
    }
}

impl BudgetSettings {
    fn over(mut self, lower: Self) -> Self {
        let mut by_tool = lower.tool_output_chars_by_tool;
        by_tool.append(&mut self.tool_output_chars_by_tool);
        let mut layers = lower.layer_tokens;
        layers.append(&mut self.layer_tokens);
        Self {
            prompt_tokens: self.prompt_tokens.or(lower.prompt_tokens),
            reply_tokens: self.reply_tokens.or(lower.reply_tokens),
            tool_output_chars: self.tool_output_chars.or(lower.tool_output_chars),
            tool_output_chars_by_tool: by_tool,
            item_tokens: self.item_tokens.or(lower.item_tokens),
            layer_tokens: layers,
            low_water: self.low_water.or(lower.low_water),
        }
    }
}

impl HistorySettings {
    fn over(self, lower: Self) -> Self {
        if self.strategy.is_some() && self.strategy != lower.strategy {
            return self;
        }
        Self {
            strategy: self.strategy.or(lower.strategy),
            messages: self.messages.or(lower.messages),
            chars: self.chars.or(lower.chars),
            message_chars: self.message_chars.or(lower.message_chars),
            keep_runs: self.keep_runs.or(lower.keep_runs),
            summary_tokens: self.summary_tokens.or(lower.summary_tokens),
            template: self.template.or(lower.template),
            summary: self.summary.or(lower.summary),
            recent_runs: self.recent_runs.or(lower.recent_runs),
            passthrough_runs: self.passthrough_runs.or(lower.passthrough_runs),
            token_threshold: self.token_threshold.or(lower.token_threshold),
        }
    }
}

/// The settings of a new session by source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layers {
    /// From flags or an API request. These take precedence.
    pub flags: SessionSettings,
    /// From the agent's file, which is in the vault and may be untrusted.
    pub agent: SessionSettings,
    /// From the user's configuration.
    pub config: SessionSettings,
}

/// The default limit of a tool output.
const OUTPUT_CHARS: usize = 8_000;

impl Layers {
    /// The merged settings, and remarks about values of the agent's file that exceed limits.
    pub fn merged(self) -> (SessionSettings, Vec<String>) {
        let (agent, refused) = limited(self.agent, &self.config);
        (self.flags.over(agent.over(self.config)), refused)
    }
}

/// The agent's settings without values that relax a limit: its file may lower a limit of the user or the program, but not raise it.
fn limited(mut agent: SessionSettings, user: &SessionSettings) -> (SessionSettings, Vec<String>) {
    let mut refused = Vec::new();
    let defaults = foreword_core::plan::PlanLimits::default();
    let of = |number: usize| Some(number as u64);
    let mut hold = |name: &str, asked: Option<u64>, most: Option<u64>| {
        let (Some(asked), Some(most)) = (asked, most) else { return asked };
        if asked > most {
            refused.push(format!(
                "{name} = {asked} exceeds {most}, which only you can allow (in config.toml or with --set); using {most}"
            ));
        }
        Some(asked.min(most))
    };
    let size = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok());
    let (own, theirs) = (&mut agent.budget, &user.budget);
    own.prompt_tokens = hold("budget.prompt_tokens", own.prompt_tokens, theirs.prompt_tokens);
    let reply = theirs.reply_tokens.or(Some(foreword_provider::model::DEFAULT_REPLY.0));
    own.reply_tokens = hold("budget.reply_tokens", own.reply_tokens, reply);
    own.item_tokens = hold("budget.item_tokens", own.item_tokens, theirs.item_tokens);
    let output = theirs.tool_output_chars.or(Some(OUTPUT_CHARS)).and_then(of);
    own.tool_output_chars = size(hold("budget.tool_output_chars", own.tool_output_chars.and_then(of), output));
    for (tool, chars) in &mut own.tool_output_chars_by_tool {
        let most = theirs.tool_output_chars_by_tool.get(tool).copied().and_then(of).or(output);
        let name = format!("budget.tool_output_chars_by_tool.{tool}");
        *chars = size(hold(&name, of(*chars), most)).unwrap_or(*chars);
    }
    for (layer, tokens) in &mut own.layer_tokens {
        let name = format!("budget.layer_tokens.{layer}");
        *tokens = hold(&name, Some(*tokens), theirs.layer_tokens.get(layer).copied()).unwrap_or(*tokens);
    }
    let steps = of(user.plan.steps.unwrap_or(defaults.steps));
    agent.plan.steps = size(hold("plan.steps", agent.plan.steps.and_then(of), steps));
    let chars = of(user.plan.step_chars.unwrap_or(defaults.step_chars));
    agent.plan.step_chars = size(hold("plan.step_chars", agent.plan.step_chars.and_then(of), chars));
    (agent, refused)
}
