//! What the double answers: a file of replies, one a request, in order. The last one is repeated.

use serde::Deserialize;
use serde_json::Value;

/// A script.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// The only key that is taken; any where it is left out.
    pub key: Option<String>,
    /// A signed thought is taken back only behind the very messages it was thought after, as by Anthropic's newest models.
    pub binds_thoughts: bool,
    /// The replies.
    pub replies: Vec<Scripted>,
}

/// A reply: reasoning, then text, then calls; or an error.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scripted {
    /// What the model thinks.
    pub reasoning: String,
    /// What it says.
    pub text: String,
    /// What it calls.
    pub calls: Vec<ScriptedCall>,
    /// Why it ends; by itself where it is left out.
    pub stop: Option<ScriptedStop>,
    /// A refusal in place of all that.
    pub error: Option<ScriptedError>,
    /// Milliseconds before the first byte.
    pub delay_ms: u64,
    /// Milliseconds between two events.
    pub pause_ms: u64,
    /// Characters of an event.
    pub piece: usize,
    /// After so many events the connection breaks.
    pub cut_after: Option<usize>,
    /// After all events but the last ones, an error comes within the stream.
    pub breaks: Option<ScriptedError>,
}

impl Default for Scripted {
    fn default() -> Self {
        Self {
            reasoning: String::new(),
            text: "ok".to_owned(),
            calls: Vec::new(),
            stop: None,
            error: None,
            delay_ms: 0,
            pause_ms: 0,
            piece: 8,
            cut_after: None,
            breaks: None,
        }
    }
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// The tool's name.
    pub name: String,
    /// Its arguments.
    pub arguments: Value,
}

/// An end that is not the model's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptedStop {
    /// There was no more room.
    Length,
    /// The provider stepped in.
    Refused,
}

/// A refusal.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedError {
    /// The HTTP status.
    pub status: u16,
    /// The provider's word for it; the status' own where it is left out.
    pub kind: Option<String>,
    /// What it says.
    pub message: String,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<f64>,
}

/// A script that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("reading a script of the provider double: {why}; correct the field")]
pub struct ScriptError {
    why: String,
}

impl Script {
    /// Reads a script from JSON.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        let mut json = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut json).map_err(|error| ScriptError { why: error.to_string() })
    }

    /// A script of these replies.
    pub fn of(replies: impl IntoIterator<Item = Scripted>) -> Self {
        Self { replies: replies.into_iter().collect(), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_read_and_mistakes_are_named() {
        let script = Script::from_json(
            r#"{"replies": [{"text": "Hi", "calls": [{"name": "read", "arguments": {"path": "a"}}]},
                {"error": {"status": 429, "message": "slow", "retry_after": 0.1}}]}"#,
        );
        let script = script.unwrap();
        assert_eq!((&*script.replies[0].text, script.replies[0].piece), ("Hi", 8));
        assert_eq!(script.replies[1].error.as_ref().unwrap().status, 429);
        assert_eq!(Script::from_json(include_str!("../examples/script.json")).unwrap().replies.len(), 4);
        let error = Script::from_json(r#"{"replies": [{"txt": "Hi"}]}"#).unwrap_err().to_string();
        assert!(error.contains("replies[0].txt"), "{error}");
    }
}
