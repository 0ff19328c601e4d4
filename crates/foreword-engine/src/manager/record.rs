//! What is kept of a managed view: enough to see what was asked, what came back, what the check found, and why nothing came of it.

use foreword_core::hash::Hash;
use foreword_core::summary::Checked;
use foreword_core::tokens::Tokens;
use foreword_store::Summary;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::templates::{Hold, Step, Template};

/// Why a turn goes on with the history as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "reason", content = "detail")]
pub enum Unmanaged {
    /// The template is not there, or broken.
    #[error("{0}")]
    Template(String),
    /// The model gave no answer.
    #[error("the model gave no summary: {0}")]
    Model(String),
    /// It said nothing.
    #[error("the model returned no usable summary")]
    Empty,
    /// It did not want to.
    #[error("the model refused to write a summary: {0}")]
    Refusal(String),
    /// It answered with an error.
    #[error("the model returned an error instead of a summary: {0}")]
    ErrorText(String),
    /// It took too long.
    #[error("the summary took too long")]
    TimedOut,
    /// It ended before its first sentence did.
    #[error("the summary ended before its first sentence was complete")]
    CutOff,
    /// It saves nothing.
    #[error("the summary has {after} tokens, but the messages it would replace have only {before}")]
    NotShorter {
        /// What it would replace.
        before: Tokens,
        /// The summary.
        after: Tokens,
    },
}

impl Unmanaged {
    /// The word on the record.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Template(_) => "template",
            Self::Model(_) => "model",
            Self::Empty => "empty",
            Self::Refusal(_) => "refusal",
            Self::ErrorText(_) => "error_text",
            Self::TimedOut => "timed_out",
            Self::CutOff => "cut_off",
            Self::NotShorter { .. } => "not_shorter",
        }
    }
}

/// What one step gave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Section {
    /// The step.
    pub name: String,
    /// What stands above it.
    pub header: Option<String>,
    /// What was asked behind the live prompt.
    pub asked: String,
    /// What the model answered, as it came.
    pub raw: String,
    /// What became of it: each sentence with the messages it came from.
    pub output: String,
    /// Whether it stands in the summary.
    pub in_view: bool,
    /// Whether a model wrote it.
    pub by_model: bool,
    /// Whether it was kept from before.
    pub cached: bool,
    /// When it was written.
    pub made_ms: i64,
    /// Why it was left out.
    pub skipped: Option<String>,
    /// Placeholders and inputs that nothing was there for.
    pub missing: Vec<String>,
    /// Sentences that share no word with any message; they were left out.
    pub unfounded: Vec<String>,
}

/// Sizes and prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// The whole history.
    pub history: Tokens,
    /// From which size on it is managed.
    pub threshold: Tokens,
    /// What the summary stands for.
    pub before: Tokens,
    /// The summary.
    pub after: Tokens,
    /// The prompts it was asked with.
    pub prompt: Tokens,
    /// What of them came from the cache.
    pub read: Tokens,
    /// The answers.
    pub output: Tokens,
    /// What it cost, in USD.
    pub cost: f64,
    /// What it would have cost without a cache; 0 in records that are older than this figure.
    pub cost_uncached: f64,
}

/// A managed view of a history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// The template's name; none where it was not found.
    pub template: Option<String>,
    /// Where it came from.
    pub source: String,
    /// The hash of its text.
    pub hash: Hash,
    /// Its file.
    pub path: Option<String>,
    /// Who wrote; empty where nobody was asked.
    pub model: String,
    /// What the user had said, its start.
    pub latest_input: String,
    /// Each step.
    pub sections: Vec<Section>,
    /// The first unit that the summary does not stand for.
    pub covers: usize,
    /// The summary; none where the history stays as it is.
    pub summary: Option<String>,
    /// What the check found.
    pub check: Checked,
    /// Sizes and prices.
    pub figures: Figures,
    /// Why there is none.
    pub why: Option<Unmanaged>,
}

impl View {
    pub(super) fn new(template: &Template, covers: usize) -> Self {
        Self {
            template: Some(template.name.clone()),
            source: template.origin.as_str().to_owned(),
            hash: template.hash,
            path: template.path.clone(),
            model: String::new(),
            latest_input: String::new(),
            sections: Vec::new(),
            covers,
            summary: None,
            check: Checked::default(),
            figures: Figures::default(),
            why: None,
        }
    }

    pub(super) fn failed(template: Option<&str>, why: Unmanaged) -> Self {
        Self {
            template: template.map(str::to_owned),
            source: String::new(),
            hash: Hash::of(""),
            path: None,
            model: String::new(),
            latest_input: String::new(),
            sections: Vec::new(),
            covers: 0,
            summary: None,
            check: Checked::default(),
            figures: Figures::default(),
            why: Some(why),
        }
    }

    /// As it is stored.
    pub fn row(&self, at_ms: i64) -> serde_json::Result<Summary> {
        Ok(Summary {
            number: 0,
            at_ms,
            template: self.template.clone().unwrap_or_default(),
            source: self.source.clone(),
            hash: self.hash,
            model: self.model.clone(),
            record: serde_json::to_value(self)?,
        })
    }

    /// As it was stored.
    pub fn of(row: &Summary) -> serde_json::Result<Self> {
        serde_json::from_value(row.record.clone())
    }
}

/// What a step put out before, where that still holds: when, and what. The stored views are the cache.
pub(super) fn held(
    prior: &[Summary],
    template: &Template,
    at: usize,
    step: &Step,
    hold: Hold,
    now_ms: i64,
    zone: &TimeZone,
) -> Option<(i64, String)> {
    let of_template = prior.iter().rev().filter(|row| row.hash == template.hash && row.template == template.name);
    let sections = of_template.filter_map(|row| View::of(row).ok()?.sections.into_iter().nth(at));
    let mut made = sections.filter(|section| section.name == step.name && section.by_model && !section.output.is_empty());
    let section = made.next()?;
    let day = |ms: i64| Timestamp::from_millisecond(ms).ok().map(|time| time.to_zoned(zone.clone()).date());
    let week = |ms: i64| {
        let day = day(ms)?;
        let since = day.weekday().since(template.parsed.week_start_day);
        day.checked_sub(jiff::Span::new().try_days(i64::from(since)).ok()?).ok()
    };
    let holds = match hold {
        Hold::Session => true,
        Hold::Seconds(seconds) => {
            now_ms.checked_sub(section.made_ms).is_some_and(|age| u64::try_from(age).is_ok_and(|age| age / 1000 < seconds))
        }
        Hold::Daily => day(section.made_ms) == day(now_ms),
        Hold::Weekly => week(section.made_ms) == week(now_ms),
    };
    holds.then_some((section.made_ms, section.output))
}
