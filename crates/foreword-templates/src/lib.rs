//! Context templates: markdown files that define the summary of a managed history.
//!
//! `resolve` finds a template by name, `parse` reads it and reports errors, `render` fills in its placeholders.

mod parse;
mod render;
mod resolve;

use std::fmt;
use std::str::FromStr;

use foreword_core::catalog::Agent;
use foreword_core::hash::Hash;
use jiff::civil::Weekday;
use serde::{Serialize, Serializer};

pub use parse::{Parsed, parse};
pub use render::{Rendered, render};
pub use resolve::{BUILTIN, Listed, NoTemplate, Shelf, TEMPLATE_FOLDERS, new_text};

/// The origin of a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A file in the vault.
    Vault,
    /// A file in the user's configuration folder.
    User,
    /// Built in.
    Builtin,
}

impl Origin {
    /// The name in stored data.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Vault => "vault",
            Self::User => "user",
            Self::Builtin => "builtin",
        }
    }
}

/// A number of turns, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// The last turns.
    Last(usize),
    /// All turns.
    All,
}

impl Runs {
    /// The number of turns.
    pub fn count(self) -> usize {
        match self {
            Self::Last(runs) => runs,
            Self::All => usize::MAX,
        }
    }
}

impl FromStr for Runs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "all" => Ok(Self::All),
            number => number.parse().map(Self::Last).map_err(|_| format!("{number:?} is neither a number nor `all`")),
        }
    }
}

impl Serialize for Runs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Last(runs) => serializer.serialize_u64(*runs as u64),
            Self::All => serializer.serialize_str("all"),
        }
    }
}

/// The model of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Writer {
    /// No model: the input is the output.
    None,
    /// A model by name.
    Named(String),
}

impl From<&str> for Writer {
    fn from(name: &str) -> Self {
        match name.trim() {
            name if name.eq_ignore_ascii_case("none") => Self::None,
            name => Self::Named(name.to_owned()),
        }
    }
}

/// An additional input of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Given {
    /// The input.
    pub what: Named,
    /// Whether the step is skipped without it.
    pub required: bool,
}

/// A file, or the output of an earlier step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Named {
    /// A file, by its path in the vault.
    File(String),
    /// A variable.
    Variable(String),
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file: {path}"),
            Self::Variable(name) => write!(f, "variable: {name}"),
        }
    }
}

/// How long a step's output is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// A number of seconds.
    Seconds(u64),
    /// Until the end of the day.
    Daily,
    /// Until the end of the week.
    Weekly,
    /// For the whole session.
    Session,
}

impl FromStr for Hold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("invalid duration {text:?}: write 30s, 10m, 2h, 1d, daily, weekly or session");
        match text.trim() {
            "daily" => Ok(Self::Daily),
            "weekly" => Ok(Self::Weekly),
            "session" => Ok(Self::Session),
            duration => {
                let digits = duration.trim_end_matches(|c: char| c.is_ascii_alphabetic());
                let number: u64 = digits.parse().map_err(|_| wrong())?;
                let unit = match &duration[digits.len()..] {
                    "s" => 1,
                    "m" => 60,
                    "h" => 3_600,
                    "d" => 86_400,
                    _ => return Err(wrong()),
                };
                number.checked_mul(unit).map(Self::Seconds).ok_or_else(wrong)
            }
        }
    }
}

/// A step of a template: a section (`##`) to write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Its heading.
    pub name: String,
    /// Its instructions, with placeholders.
    pub text: String,
    /// The number of turns to read, if set.
    pub recent_runs: Option<Runs>,
    /// The number of earlier summaries to read, if set.
    pub recent_summaries: Option<Runs>,
    /// The model, if set.
    pub model: Option<Writer>,
    /// Additional inputs.
    pub input: Vec<Given>,
    /// The variable for its output, which is then not part of the summary.
    pub output: Option<String>,
    /// The heading of its output.
    pub header: Option<String>,
    /// How long its output is valid.
    pub cache: Option<Hold>,
}

/// An error in a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flaw {
    /// The line, from 1.
    pub line: usize,
    /// The error and what to do.
    pub what: String,
}

/// A template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Template {
    /// Its name, without `.md`.
    pub name: String,
    /// Its origin.
    pub origin: Origin,
    /// Its file, in the vault or in the user's folder.
    pub path: Option<String>,
    /// The sha256 of its text.
    pub hash: Hash,
    /// The parsed content.
    #[serde(flatten)]
    pub parsed: Parsed,
}

impl Template {
    /// Adds the template's chat instructions to an agent.
    pub fn instruct(&self, agent: &mut Agent) {
        if let Some(instructions) = &self.parsed.chat_instructions {
            let both = [agent.system_prompt.trim(), instructions.trim()].join("\n\n");
            agent.system_prompt = both.trim().into();
        }
    }
}

/// The default first day of the week.
pub const WEEK_START: Weekday = Weekday::Monday;

#[cfg(test)]
mod tests;
