//! What the gateway may do with the requests of clients, and what they may spend.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Deserialize;

/// What may be changed of a client's request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing: it is recorded and explained.
    Observe,
    /// Cache control may be added; what the model reads stays.
    #[default]
    Assist,
    /// The engine lays the prompt out.
    Manage,
}

impl Level {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Observe, Self::Assist, Self::Manage];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Assist => "assist",
            Self::Manage => "manage",
        }
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|level| level.as_str() == text);
        found.ok_or_else(|| "it can be `observe`, `assist` or `manage`".to_owned())
    }
}

/// The table `[gateway]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GatewayRules {
    /// The level where nothing else says one.
    pub level: Option<Level>,
    /// The level of requests that come with a key of this server, by the key's name.
    pub keys: BTreeMap<String, Level>,
}

/// How much may be spent, in USD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SpendingLimit {
    /// From here on, answers say so.
    pub warn: Option<f64>,
    /// From here on, requests are refused.
    pub refuse: Option<f64>,
}

/// The table `[limits]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SpendingLimits {
    /// In one session.
    pub session: SpendingLimit,
    /// With one key of this server, in a day (UTC).
    pub key: SpendingLimit,
    /// By all clients, in a day (UTC).
    pub day: SpendingLimit,
}

impl SpendingLimits {
    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What is wrong with it.
    pub(super) fn check(&self) -> Result<(), String> {
        for (name, SpendingLimit { warn, refuse }) in [("session", self.session), ("key", self.key), ("day", self.day)] {
            for (field, value) in [("warn", warn), ("refuse", refuse)] {
                if value.is_some_and(|value| !value.is_finite() || value < 0.0) {
                    return Err(format!("`{field}` under [limits.{name}]: expected dollars, for example 5.0"));
                }
            }
        }
        Ok(())
    }
}
