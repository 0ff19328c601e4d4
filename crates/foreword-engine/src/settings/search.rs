//! How search results are selected: notes, rules and references, and tools.

use foreword_core::select::{Select, Strategy};
use serde::{Deserialize, Serialize};

/// A preset for the amount of search results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// More results, including weaker matches.
    Aggressive,
    /// The default.
    Normal,
    /// Few results, only good matches.
    Conservative,
}

impl Preset {
    /// All presets.
    pub const ALL: [Self; 3] = [Self::Aggressive, Self::Normal, Self::Conservative];

    /// The name in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Aggressive => "aggressive",
            Self::Normal => "normal",
            Self::Conservative => "conservative",
        }
    }

    /// The preset's settings.
    fn settings(self) -> DomainSettings {
        let (top_k, top_n, include_score, floor) = match self {
            Self::Aggressive => (40, 10, 0.5, 0.1),
            Self::Normal => (20, 5, 0.7, 0.2),
            Self::Conservative => (10, 2, 0.85, 0.35),
        };
        DomainSettings {
            top_k: Some(top_k),
            top_n: Some(top_n),
            include_score: Some(include_score),
            floor: Some(floor),
            ..DomainSettings::default()
        }
    }
}

/// Selection settings for one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct DomainSettings {
    /// A preset for the other fields, which override it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// `hybrid` (by meaning and by words), `semantic` (by meaning alone) or `keyword` (by words alone).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// The number of matches to consider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<usize>,
    /// The number of results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_n: Option<usize>,
    /// Items with at least this score are selected even beyond `top_n`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_score: Option<f64>,
    /// Items below this score are never selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
}

/// Selection settings for all kinds, with overrides for notes, items (rules and references) and tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SearchSettings {
    /// A preset for the other fields, which override it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// `hybrid` (by meaning and by words), `semantic` (by meaning alone) or `keyword` (by words alone).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// The number of matches to consider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<usize>,
    /// The number of results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_n: Option<usize>,
    /// Items with at least this score are selected even beyond `top_n`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_score: Option<f64>,
    /// Items below this score are never selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
    /// For notes: in `qa` mode and in the tool `localSearch`.
    #[serde(skip_serializing_if = "super::is_default")]
    pub notes: DomainSettings,
    /// For the agent's rules and references.
    #[serde(skip_serializing_if = "super::is_default")]
    pub items: DomainSettings,
    /// For tools.
    #[serde(skip_serializing_if = "super::is_default")]
    pub tools: DomainSettings,
}

impl DomainSettings {
    fn over(self, lower: Self) -> Self {
        Self {
            preset: None,
            strategy: self.strategy.or(lower.strategy),
            top_k: self.top_k.or(lower.top_k),
            top_n: self.top_n.or(lower.top_n),
            include_score: self.include_score.or(lower.include_score),
            floor: self.floor.or(lower.floor),
        }
    }

    /// The settings with the preset applied.
    fn spelled_out(self) -> Self {
        self.over(self.preset.map(Preset::settings).unwrap_or_default())
    }

    /// The selection, with defaults from `usual`.
    pub fn select(self, usual: Select) -> Select {
        let said = self.spelled_out();
        Select {
            strategy: said.strategy.unwrap_or(usual.strategy),
            top_k: said.top_k.unwrap_or(usual.top_k),
            top_n: said.top_n.unwrap_or(usual.top_n),
            include_score: said.include_score.unwrap_or(usual.include_score),
            floor: said.floor.or(usual.floor),
        }
    }

    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let share = |name, value: Option<f64>| match value {
            Some(share) if !(0.0..=1.0).contains(&share) => Err((name, format!("{share}; expected a score from 0 to 1"))),
            _ => Ok(()),
        };
        share("include_score", self.include_score)?;
        share("floor", self.floor)
    }
}

impl SearchSettings {
    /// The settings for all kinds.
    pub(super) fn general(&self) -> DomainSettings {
        let Self { preset, strategy, top_k, top_n, include_score, floor, .. } = *self;
        DomainSettings { preset, strategy, top_k, top_n, include_score, floor }
    }

    /// The settings per kind, which override those for all kinds.
    #[must_use]
    pub fn by_kind(self) -> Self {
        let general = self.general().spelled_out();
        let kind = |own: DomainSettings| own.spelled_out().over(general);
        Self { notes: kind(self.notes), items: kind(self.items), tools: kind(self.tools), ..Self::default() }
    }

    pub(super) fn over(self, lower: Self) -> Self {
        if self == Self::default() {
            return lower;
        }
        let (upper, lower) = (self.by_kind(), lower.by_kind());
        Self {
            notes: upper.notes.over(lower.notes),
            items: upper.items.over(lower.items),
            tools: upper.tools.over(lower.tools),
            ..Self::default()
        }
    }
}
