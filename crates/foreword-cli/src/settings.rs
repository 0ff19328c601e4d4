//! Flags that set how requests are built.

use anyhow::Result;
use clap::Args as ClapArgs;
use foreword_engine::Layout;
use foreword_engine::settings::{
    BudgetSettings, HistorySettings, HistoryStrategy, Preset, SearchSettings, SessionSettings, assignment,
};

/// Options that override `agent.toml` and the configuration.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct SettingsArgs {
    /// The prompt layout: log or library [default: the agent's, the configured one, or log]
    #[arg(long, value_parser = layout)]
    layout: Option<Layout>,
    /// How older messages are sent: full (up to the token budget), window (the newest ones), strip (the last turns and an automatic
    /// summary) or managed (the last turns and a checked summary made from a template)
    #[arg(long, value_name = "HOW", value_parser = strategy)]
    history: Option<HistoryStrategy>,
    /// The template for `--history managed` (see `foreword templates list`)
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// The largest prompt, in tokens
    #[arg(long, value_name = "TOKENS")]
    budget: Option<u64>,
    /// How much the search includes: aggressive, normal or conservative
    #[arg(long, value_name = "PRESET", value_parser = preset)]
    search: Option<Preset>,
    /// Override any setting, e.g. `budget.tool_output_chars=4000`; can be repeated (see docs/settings.md)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl SettingsArgs {
    /// The settings that these flags ask for. A dedicated flag overrides `--set`. `--history` names the strategy that the
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
