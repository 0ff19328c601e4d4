//! The record of a managed history: what was asked and answered, the result of the check, and why there is no summary.

use foreword_core::hash::Hash;
use foreword_core::summary::Checked;
use foreword_core::tokens::Tokens;
use foreword_store::Summary;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use foreword_templates::{Hold, Step, Template};

/// Why there is no summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "reason", content = "detail")]
pub enum Unmanaged {
    /// The template is missing or invalid.
    #[error("{0}")]
    Template(String),
    /// The model failed.
    #[error("the model gave no summary: {0}")]
    Model(String),
    /// The answer is empty.
    #[error("the model returned no usable summary")]
    Empty,
    /// The model refused.
    #[error("the model refused to write a summary: {0}")]
    Refusal(String),
    /// The model returned an error message.
    #[error("the model returned an error instead of a summary: {0}")]
    ErrorText(String),
    /// The time limit was exceeded.
    #[error("the summary took too long")]
    TimedOut,
    /// The answer ended before its first sentence.
    #[error("the summary ended before its first sentence was complete")]
    CutOff,
    /// The summary is not shorter than the messages.
    #[error("the summary has {after} tokens, but the messages it would replace have only {before}")]
    NotShorter {
        /// The size of the messages.
        before: Tokens,
        /// The size of the summary.
        after: Tokens,
    },
}

impl Unmanaged {
    /// The name in stored data.
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

/// The result of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Section {
    /// The step's name.
    pub name: String,
    /// Its heading in the summary.
    pub header: Option<String>,
    /// The question, after the current prompt.
    pub asked: String,
    /// The exact bytes of the request; empty in older records and if no model was asked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// The unchanged answer.
    pub raw: String,
    /// The output, with the source messages of each sentence.
    pub output: String,
    /// Whether it is part of the summary.
    pub in_view: bool,
    /// Whether a model wrote it.
    pub by_model: bool,
    /// Whether it was cached.
    pub cached: bool,
    /// When it was written.
    pub made_ms: i64,
    /// Why the step was skipped.
    pub skipped: Option<String>,
    /// Missing placeholders and inputs.
    pub missing: Vec<String>,
    /// Removed sentences that share no word with any message.
    pub unfounded: Vec<String>,
}

/// Sizes and costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// The size of the whole history.
    pub history: Tokens,
    /// The threshold for summaries.
    pub threshold: Tokens,
    /// The size of the summarized messages.
    pub before: Tokens,
    /// The size of the summary.
    pub after: Tokens,
    /// The size of the prompts.
    pub prompt: Tokens,
    /// Their cached tokens.
    pub read: Tokens,
    /// The size of the answers.
    pub output: Tokens,
    /// The cost in USD.
    pub cost: f64,
    /// The cost without a cache; 0 in older records.
    pub cost_uncached: f64,
}

/// A view of a managed history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// The template's name; `None` if it was not found.
    pub template: Option<String>,
    /// The template's origin.
    pub source: String,
    /// The hash of the template's text.
    pub hash: Hash,
    /// The template's file.
    pub path: Option<String>,
    /// The model; empty if none was asked.
    pub model: String,
    /// The beginning of the user's message.
    pub latest_input: String,
    /// The steps.
    pub sections: Vec<Section>,
    /// The first unit that the summary does not include.
    pub covers: usize,
    /// The summary, if there is one.
    pub summary: Option<String>,
    /// The result of the check.
    pub check: Checked,
    /// Sizes and costs.
    pub figures: Figures,
    /// Why there is no summary.
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

    /// The view for storing.
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

    /// A stored view.
    pub fn of(row: &Summary) -> serde_json::Result<Self> {
        serde_json::from_value(row.record.clone())
    }
}

/// A valid cached output of a step, with its time. The stored views are the cache.
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
