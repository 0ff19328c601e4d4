//! The entries of a session's log: inputs of the core, and data for the transcript.

use foreword_core::message::ToolCall;
use foreword_core::pairing::CallOutput;
use foreword_core::session::{Input, PastMessage, TurnInput};
use foreword_core::settings::HistoryPolicy;
use foreword_store::{Document, Usage};
use foreword_vault::transcript::Role;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::chronicle::Line;
use super::ending::Ending;
use super::setup::Setup;
use super::turn::Mode;

/// A log entry.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum LogEntry {
    /// An input of the core.
    Input(Input),
    /// An imported conversation.
    Imported(Vec<Line>),
    /// The transcript after the user edited its file.
    Edited(Vec<Line>),
    /// The model changed.
    Model(Box<Setup>),
    /// The user's message while its searches run; the turn follows.
    Asked(Box<TurnInput>),
    /// A side request, beside the conversation.
    SideExchange(Box<SideExchange>),
    /// The mode changed.
    Mode(Mode),
    /// The history policy changed. Newer versions store it with the other settings.
    History(History),
    /// The settings changed.
    Settings(Box<Setup>),
    /// The turn ended although a request was due: the task is done, or the user stopped it.
    Ended,
    /// The engine put this under the last answer: a list of its sources, or the result of a task that the model handed over in a call.
    Cited(String),
    /// Why the last answer ended early or is missing.
    Ending(Ending),
}

/// A history policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct History {
    pub(super) policy: HistoryPolicy,
    /// The template of a managed history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) template: Option<String>,
}

/// A side request to the model and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SideExchange {
    /// Its purpose.
    pub purpose: String,
    /// The bytes that were sent.
    pub body: String,
    /// The answer or the error.
    pub answer: Result<String, String>,
    /// The usage and cost.
    pub usage: Usage,
}

const IMPORTED: &str = "imported";
const EDITED: &str = "edited";
/// The kind of [`LogEntry::Asked`].
pub(super) const ASKED: &str = "asked";
/// The kind of a summary.
pub(super) const MANAGED: &str = "managed";
/// The kind of [`LogEntry::SideExchange`], for searching logs without reading them.
pub(super) const ASIDE: &str = "aside";
const MODE: &str = "mode";
const HISTORY: &str = "history";
/// The kind of [`LogEntry::Settings`], which holds a whole setup.
pub(super) const SETTINGS: &str = "settings";
const CITED: &str = "cited";
/// The kind of [`LogEntry::Ending`], for searching logs without reading them.
pub(super) const ENDING: &str = "ending";
/// The kind of [`LogEntry::Ended`].
pub(super) const ENDED: &str = "ended";
/// The kind of [`LogEntry::Model`], which holds a whole setup.
pub(super) const MODEL: &str = "model";

/// Whether an entry of this kind is an input of the core. Message IDs count these inputs.
pub fn is_input(kind: &str) -> bool {
    ![EDITED, ASKED, ASIDE, MODE, HISTORY, SETTINGS, ENDED, CITED, ENDING, MODEL].contains(&kind)
}

/// The effect of a log entry on a session.
#[derive(Clone, Debug)]
pub enum Change {
    /// An input of the core.
    Input(Input),
    /// The model changes.
    Model(Box<Setup>),
    /// The settings change.
    Settings(Box<Setup>),
    /// The history policy changes.
    History(HistoryPolicy),
    /// No effect on requests.
    None,
}

/// Whether an entry of this kind ends a turn although a request was due.
pub fn is_end(kind: &str) -> bool {
    kind == ENDED
}

/// The effect of a log entry.
pub fn change(kind: &str, body: Value) -> serde_json::Result<Change> {
    Ok(match LogEntry::read(kind, body)? {
        LogEntry::Model(setup) => Change::Model(setup),
        LogEntry::Settings(setup) => Change::Settings(setup),
        LogEntry::History(history) => Change::History(history.policy),
        told => told.input().map_or(Change::None, Change::Input),
    })
}

impl LogEntry {
    /// The kind and body for storing the entry.
    pub(super) fn parts(&self) -> serde_json::Result<(String, Document)> {
        let (kind, body) = match self {
            Self::Input(input) => return Ok(Document::of(input)?.tagged()),
            Self::Imported(lines) => (IMPORTED, Document::of(lines)?),
            Self::Edited(lines) => (EDITED, Document::of(lines)?),
            Self::Asked(turn) => (ASKED, Document::of(turn)?),
            Self::SideExchange(aside) => (ASIDE, Document::of(aside)?),
            Self::Mode(mode) => (MODE, Document::of(mode)?),
            Self::History(history) => (HISTORY, Document::of(history)?),
            Self::Settings(setup) => (SETTINGS, Document::of(setup)?),
            Self::Ended => (ENDED, Document::of(&())?),
            Self::Cited(list) => (CITED, Document::of(list)?),
            Self::Ending(ending) => (ENDING, Document::of(ending)?),
            Self::Model(setup) => (MODEL, Document::of(setup)?),
        };
        Ok((kind.to_owned(), body))
    }

    /// Reads a stored entry.
    pub(super) fn read(kind: &str, body: Value) -> serde_json::Result<Self> {
        Ok(match kind {
            IMPORTED => Self::Imported(serde_json::from_value(body)?),
            EDITED => Self::Edited(serde_json::from_value(body)?),
            ASKED => Self::Asked(serde_json::from_value(body)?),
            ASIDE => Self::SideExchange(serde_json::from_value(body)?),
            MODE => Self::Mode(serde_json::from_value(body)?),
            HISTORY => Self::History(serde_json::from_value(body)?),
            SETTINGS => Self::Settings(serde_json::from_value(body)?),
            ENDED => Self::Ended,
            CITED => Self::Cited(serde_json::from_value(body)?),
            ENDING => Self::Ending(serde_json::from_value(body)?),
            MODEL => Self::Model(serde_json::from_value(body)?),
            kind if body.is_null() && kind != "summary" => Self::Input(serde_json::from_value(Value::String(kind.to_owned()))?),
            kind => Self::Input(serde_json::from_value(Value::Object([(kind.to_owned(), body)].into_iter().collect()))?),
        })
    }

    /// The core's input, if the entry has one.
    pub(super) fn input(self) -> Option<Input> {
        match self {
            Self::Input(input) => Some(input),
            Self::Edited(_)
            | Self::Asked(_)
            | Self::SideExchange(_)
            | Self::Mode(_)
            | Self::History(_)
            | Self::Settings(_)
            | Self::Ended
            | Self::Cited(_)
            | Self::Ending(_)
            | Self::Model(_) => None,
            Self::Imported(lines) => {
                let said = |line: Line| match line.role {
                    Role::User => PastMessage::User(line.text),
                    Role::Assistant if line.goes_on && line.calls.is_empty() => PastMessage::Assistant(line.text),
                    Role::Assistant if line.goes_on => {
                        let output = |id: &str, result: Value| CallOutput {
                            failed: line.failed.iter().any(|failed| failed == id),
                            text: if let Value::String(text) = result { text } else { foreword_core::json::to_string(&result) },
                        };
                        let calls = line.calls.into_iter().map(|(id, name, arguments, result)| {
                            let output = result.map(|result| output(&id, result));
                            (ToolCall { id, name, arguments }, output)
                        });
                        PastMessage::Called { text: line.text, calls: calls.collect() }
                    }
                    // What a program saved of thoughts and failures is no answer.
                    Role::Assistant => {
                        PastMessage::Assistant(without(&without(&line.text, "think"), "errorChunk").trim().to_owned())
                    }
                };
                Some(Input::Past(lines.into_iter().map(said).collect()))
            }
        }
    }
}

/// The text without the blocks of a tag. An unclosed block extends to the end.
fn without(text: &str, tag: &str) -> String {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(&open) {
        out.push_str(before);
        rest = after.split_once(&close).map_or("", |(_, behind)| behind);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thoughts_and_failures_of_other_programs_are_not_told() {
        let check = |text: &str, expect: &str| assert_eq!(without(&without(text, "think"), "errorChunk").trim(), expect);
        check("<think>hm</think>\nYes.", "Yes.");
        check("a <think>b</think> c <think>d", "a  c");
        check("<errorChunk>Model request failed</errorChunk>", "");
        check("no tags, 1 < 2", "no tags, 1 < 2");
    }

    #[test]
    fn entries_read_back() {
        let turn = TurnInput { words: "a".to_owned(), ..TurnInput::default() };
        let inputs = [
            Input::Turn(turn),
            Input::Assistant { text: "b".to_owned(), calls: Vec::new(), opaque: Vec::new() },
            Input::Fold,
            Input::Interrupt,
            Input::Summary(None),
            Input::Summary(Some("s".to_owned())),
            Input::Idle(3),
            Input::Forked { epoch: 4 },
            Input::Add("rule:a".parse().unwrap()),
        ];
        let aside = SideExchange {
            purpose: "plan".to_owned(),
            body: "{}".to_owned(),
            answer: Err("no answer".to_owned()),
            usage: Usage::default(),
        };
        let setup = Setup::new("s", Some("gpt-5.4"), foreword_core::settings::Layout::Log, 0, None).unwrap();
        let others = [
            LogEntry::Imported(Vec::new()),
            LogEntry::Edited(Vec::new()),
            LogEntry::Asked(Box::default()),
            LogEntry::SideExchange(Box::new(aside)),
            LogEntry::Model(Box::new(setup.clone())),
            LogEntry::Settings(Box::new(setup)),
            LogEntry::Mode(Mode::Agent),
            LogEntry::History(History { policy: HistoryPolicy::Full, template: Some("freeform-chat".to_owned()) }),
            LogEntry::Ended,
            LogEntry::Cited("\n\n[^1]: [[a]]".to_owned()),
            LogEntry::Ending(Ending::Length),
            LogEntry::Ending(Ending::Failed("asking a.b: 500".to_owned())),
        ];
        for told in inputs.into_iter().map(LogEntry::Input).chain(others) {
            let (kind, body) = told.parts().unwrap();
            assert_eq!(LogEntry::read(&kind, body.value().unwrap()).unwrap(), told);
        }
    }
}
