//! Reads settings. Errors have line numbers and suggest the nearest valid key.

use foreword_text::nearest::nearest;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{SearchSettings, SessionSettings, SettingError};

/// Invalid settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {what}; see docs/settings.md", line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct ReadError {
    /// The file or flag.
    pub file: String,
    /// The line, from 1.
    pub line: Option<usize>,
    /// The error.
    pub what: String,
}

/// The line of a byte offset, from 1.
pub(crate) fn line_of(text: &str, at: usize) -> Option<usize> {
    text.get(..at).map(|before| before.matches('\n').count() + 1)
}

/// A parser's message, with the nearest valid key for an unknown one.
pub(crate) fn explained(message: &str) -> String {
    let message = message.trim().replace('\n', ": ");
    let Some(rest) = message.strip_prefix("unknown field `") else { return message };
    let mut quoted = rest.split('`');
    let Some(unknown) = quoted.next() else { return message };
    // Behind it come `, expected one of `, a word in backticks, a comma, and so on.
    let known: Vec<&str> = quoted.skip(1).step_by(2).collect();
    let meant = nearest(unknown, known.iter().copied()).map(|known| format!(" (did you mean `{known}`?)")).unwrap_or_default();
    format!("unknown key `{unknown}`{meant}; valid keys: {}", known.join(", "))
}

/// The settings in an `agent.toml`. Its other keys are listed so that invalid keys are found.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AgentFile {
    settings: SessionSettings,
    search: Option<SearchSettings>,
    #[serde(rename = "name")]
    _name: Option<IgnoredAny>,
    #[serde(rename = "description")]
    _description: Option<IgnoredAny>,
    #[serde(rename = "model")]
    _model: Option<IgnoredAny>,
    #[serde(rename = "generation")]
    _generation: Option<IgnoredAny>,
    #[serde(rename = "tool_permission")]
    _tool_permission: Option<IgnoredAny>,
    #[serde(rename = "memory")]
    _memory: Option<IgnoredAny>,
    #[serde(rename = "system_prompt")]
    _system_prompt: Option<IgnoredAny>,
    #[serde(rename = "system_prompt_file")]
    _system_prompt_file: Option<IgnoredAny>,
}

/// The settings in the text of an `agent.toml`.
pub fn agent_file(file: &str, text: &str) -> Result<SessionSettings, ReadError> {
    let AgentFile { settings, search, .. } = parsed(file, text)?;
    let settings =
        joined(settings, search).map_err(|what| ReadError { file: file.to_owned(), line: line_of_key(text, "search"), what })?;
    checked(settings).map_err(|error| ReadError {
        file: file.to_owned(),
        line: line_of_key(text, &error.path),
        what: error.to_string(),
    })
}

/// The first line with the last part of a setting's path.
pub(crate) fn line_of_key(text: &str, path: &str) -> Option<usize> {
    let key = path.rsplit('.').next()?;
    text.lines().position(|line| line.split('#').next().is_some_and(|line| line.contains(key))).map(|at| at + 1)
}

/// Merges settings with a separate table `[search]`.
#[allow(clippy::large_types_passed_by_value)] // it comes from a reader and goes into the result
pub(crate) fn joined(mut settings: SessionSettings, search: Option<SearchSettings>) -> Result<SessionSettings, String> {
    match search {
        Some(_) if settings.search != SearchSettings::default() => {
            Err("both [search] and [settings.search] are set; use one of them".to_owned())
        }
        Some(search) => {
            settings.search = search;
            Ok(settings)
        }
        None => Ok(settings),
    }
}

pub(crate) fn checked(settings: SessionSettings) -> Result<SessionSettings, SettingError> {
    settings.check()?;
    Ok(settings)
}

/// Settings in JSON.
pub fn from_json(value: serde_json::Value) -> Result<SessionSettings, ReadError> {
    let wrong = |what: String| ReadError { file: "settings".to_owned(), line: None, what };
    let settings = serde_path_to_error::deserialize(value).map_err(|error: serde_path_to_error::Error<serde_json::Error>| {
        let place = error.path().to_string();
        let place = if place == "." { String::new() } else { format!("{place}: ") };
        wrong(format!("{place}{}", explained(&error.inner().to_string())))
    })?;
    SessionSettings::check_values(&settings).map_err(|error| wrong(error.to_string()))?;
    Ok(settings)
}

/// One setting of a flag, like `budget.prompt_tokens=2000`. A value that is not valid TOML is a string.
pub fn assignment(flag: &str, written: &str) -> Result<SessionSettings, ReadError> {
    let file = format!("{flag} {written}");
    let wrong = |what: String| ReadError { file: file.clone(), line: None, what };
    let (key, value) =
        written.split_once('=').ok_or_else(|| wrong("expected KEY=VALUE, like budget.prompt_tokens=2000".into()))?;
    let (key, value) = (key.trim(), value.trim());
    let is_value = toml::from_str::<toml::Table>(&format!("value = {value}")).is_ok();
    let value = if is_value { value.to_owned() } else { serde_json::Value::from(value).to_string() };
    let settings: SessionSettings = parsed(&file, &format!("{key} = {value}")).map_err(|error| {
        let is_table = error.what.contains("expected struct");
        let what = if is_table {
            format!("{key} is a group of settings, not one of them: name one in it, like {key}.{}", first_key(key))
        } else {
            format!("{key}: {}", error.what)
        };
        ReadError { line: None, what, ..error }
    })?;
    settings.check_values().map_err(|error| wrong(error.to_string()))?;
    Ok(settings)
}

/// A setting that is in a group.
fn first_key(group: &str) -> &'static str {
    match group {
        "budget" => "prompt_tokens=2000",
        "history" => "strategy=strip",
        "plan" => "steps=5",
        _ => "top_n=5",
    }
}

fn parsed<T: for<'a> Deserialize<'a>>(file: &str, text: &str) -> Result<T, ReadError> {
    toml::from_str(text).map_err(|error| ReadError {
        file: file.to_owned(),
        line: error.span().and_then(|span| line_of(text, span.start)),
        what: explained(error.message()),
    })
}
