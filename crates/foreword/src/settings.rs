//! Flags that say how a session's requests are put together.

use anyhow::Result;
use clap::Args as ClapArgs;
use foreword_engine::Layout;
use foreword_engine::settings::{
    BudgetSettings, HistorySettings, HistoryStrategy, Preset, SearchSettings, SessionSettings, assignment,
};

/// Options that set what one can also set in `agent.toml` and in the configuration.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct SettingsArgs {
    /// The layout: log or library; else the agent's, else the configured one, else log
    #[arg(long, value_parser = layout)]
    layout: Option<Layout>,
    /// What is sent of older messages: full (as far as the budget goes), window (the newest), strip (the last runs and a summary of the
    /// engine's) or managed (the last runs and a checked summary by a template)
    #[arg(long, value_name = "HOW", value_parser = strategy)]
    history: Option<HistoryStrategy>,
    /// The template of a managed history (see `foreword templates list`)
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// The most tokens of a request
    #[arg(long, value_name = "TOKENS")]
    budget: Option<u64>,
    /// How much the search brings in: aggressive, normal or conservative
    #[arg(long, value_name = "PRESET", value_parser = preset)]
    search: Option<Preset>,
    /// Any setting, like budget.tool_output_chars=4000; may be given several times (docs/settings.md lists them)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl SettingsArgs {
    /// The settings that these flags ask for. A flag of its own counts more than `--set`; `--history` names the strategy that the
    /// `history.` keys of `--set` belong to.
    pub(crate) fn read(&self) -> Result<SessionSettings> {
        let managed = self.template.as_ref().map(|_| HistoryStrategy::Managed);
        let settings = SessionSettings {
            layout: self.layout,
            budget: BudgetSettings { prompt_tokens: self.budget, ..BudgetSettings::default() },
            history: HistorySettings {
                strategy: self.history.or(managed),
                template: self.template.clone(),
                ..HistorySettings::default()
            },
            search: SearchSettings { preset: self.search, ..SearchSettings::default() },
            ..SessionSettings::default()
        };
        let mut set = SessionSettings::default();
        for written in &self.set {
            set = assignment("--set", written)?.over(set);
        }
        set.history.strategy = settings.history.strategy.or(set.history.strategy);
        Ok(settings.over(set))
    }
}

fn layout(word: &str) -> Result<Layout, String> {
    one_of(word, Layout::ALL, Layout::as_str)
}

fn strategy(word: &str) -> Result<HistoryStrategy, String> {
    one_of(word, HistoryStrategy::ALL, HistoryStrategy::as_str)
}

fn preset(word: &str) -> Result<Preset, String> {
    one_of(word, Preset::ALL, Preset::as_str)
}

fn one_of<T: Copy, const N: usize>(word: &str, all: [T; N], name: fn(T) -> &'static str) -> Result<T, String> {
    let found = all.into_iter().find(|value| name(*value) == word);
    found.ok_or_else(|| format!("expected {}", all.map(name).join(", ")))
}
