//! Context templates: markdown files that say what a managed history is to keep, so that a person can read and edit it.
//!
//! `resolve` finds one by name, `parse` reads it into plain values and says what is wrong with it, `render` fills its placeholders in.

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

/// Where a template came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A file in the vault.
    Vault,
    /// A file in the user's configuration folder.
    User,
    /// It comes with Foreword.
    Builtin,
}

impl Origin {
    /// The word on the record.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Vault => "vault",
            Self::User => "user",
            Self::Builtin => "builtin",
        }
    }
}

/// How many runs, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// The last ones.
    Last(usize),
    /// Every one.
    All,
}

impl Runs {
    /// As a number.
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

/// Which model writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Writer {
    /// None: what comes in is what comes out.
    None,
    /// One by its name.
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

/// What a step is given besides the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Given {
    /// What.
    pub what: Named,
    /// Without it the step is left out.
    pub required: bool,
}

/// A file of the vault, or what an earlier step put out.
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

/// How long a step's output holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// So many seconds.
    Seconds(u64),
    /// Until the day is over.
    Daily,
    /// Until the week is over.
    Weekly,
    /// As long as the session lasts.
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

/// One `##` of a template: something to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Its heading.
    pub name: String,
    /// What is to be written, with placeholders.
    pub text: String,
    /// How many runs it looks at, where it says.
    pub recent_runs: Option<Runs>,
    /// How many earlier summaries it looks at, where it says.
    pub recent_summaries: Option<Runs>,
    /// Who writes, where it says.
    pub model: Option<Writer>,
    /// What it is given.
    pub input: Vec<Given>,
    /// The variable its output goes to; it then is no part of the summary.
    pub output: Option<String>,
    /// What stands above its output.
    pub header: Option<String>,
    /// How long its output holds.
    pub cache: Option<Hold>,
}

/// Something that a template asks for and does not get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flaw {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what to do.
    pub what: String,
}

/// A template as it is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Template {
    /// Its name, without `.md`.
    pub name: String,
    /// Where it came from.
    pub origin: Origin,
    /// Its file, in the vault or in the user's folder.
    pub path: Option<String>,
    /// The sha256 of its text.
    pub hash: Hash,
    /// What it says.
    #[serde(flatten)]
    pub parsed: Parsed,
}

impl Template {
    /// Tells an agent what the template says about the conversation.
    pub fn instruct(&self, agent: &mut Agent) {
        if let Some(instructions) = &self.parsed.chat_instructions {
            let both = [agent.system_prompt.trim(), instructions.trim()].join("\n\n");
            agent.system_prompt = both.trim().into();
        }
    }
}

/// The day a week begins with where nobody says.
pub const WEEK_START: Weekday = Weekday::Monday;

#[cfg(test)]
mod tests;
