//! A client's fields that mean nothing here and something to a provider: which of them go along, and in whose words.

use serde_json::{Map, Value, json};

use super::ClientApi;
use crate::dialect::Dialect;
use crate::dialect::names::wire_name;
use crate::render::is_ours;

/// What becomes of a client's other fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForwardedFields {
    /// Those that go along, in the provider's words.
    pub fields: Map<String, Value>,
    /// Those that do not, by name.
    pub ignored: Vec<String>,
}

impl ClientApi {
    /// Whether a provider's dialect is this API.
    pub fn is_spoken_in(self, dialect: Dialect) -> bool {
        match self {
            Self::Chat => matches!(dialect, Dialect::OpenAiChat | Dialect::LlamaCpp),
            Self::Responses => dialect == Dialect::OpenAiResponses,
            Self::Messages => dialect == Dialect::Anthropic,
        }
    }

    /// What of a client's other fields goes to a provider: all of them where both speak the same API, else the few that every API has.
    pub fn along(self, dialect: Dialect, extra: &Map<String, Value>) -> ForwardedFields {
        let mut along = ForwardedFields::default();
        // Null is how clients say nothing.
        for (name, value) in extra.iter().filter(|(_, value)| !value.is_null()) {
            let goes = if self.is_spoken_in(dialect) {
                (!is_ours(name)).then(|| (name.clone(), value.clone()))
            } else {
                self.translated(dialect, name, value)
            };
            match goes {
                None => along.ignored.push(name.clone()),
                // Gemini has some of them in one object.
                Some((name, Value::Object(more))) => {
                    match along.fields.entry(name).or_insert_with(|| Value::Object(Map::new())) {
                        Value::Object(fields) => fields.extend(more),
                        other => *other = Value::Object(more),
                    }
                }
                Some((name, value)) => {
                    along.fields.insert(name, value);
                }
            }
        }
        along
    }

    fn translated(self, dialect: Dialect, name: &str, value: &Value) -> Option<(String, Value)> {
        let (name, value) = match (name, dialect) {
            // Anthropic's scale ends at 1.
            ("temperature", Dialect::Anthropic) if value.as_f64().is_none_or(|value| value > 1.0) => return None,
            ("temperature" | "top_p", Dialect::Gemini) => {
                let name = if name == "top_p" { "topP" } else { name };
                ("generationConfig", json!({name: value}))
            }
            ("temperature" | "top_p", _) => (name, value.clone()),
            ("stop" | "stop_sequences", _) => {
                let words = if value.is_string() { json!([value]) } else { value.clone() };
                match dialect {
                    Dialect::OpenAiChat | Dialect::LlamaCpp => ("stop", words),
                    Dialect::Anthropic => ("stop_sequences", words),
                    Dialect::Gemini => ("generationConfig", json!({"stopSequences": words})),
                    Dialect::OpenAiResponses => return None,
                }
            }
            ("tool_choice", _) => self.choice(value)?.for_dialect(dialect),
            _ => return None,
        };
        Some((name.to_owned(), value))
    }

    /// Reads `tool_choice`; none where it says more than every API can.
    fn choice(self, value: &Value) -> Option<Choice> {
        let word = value.as_str().or_else(|| value.get("type")?.as_str())?;
        let name = match self {
            Self::Chat => value.pointer("/function/name"),
            Self::Responses | Self::Messages => value.get("name"),
        };
        match word {
            "auto" => Some(Choice::Auto),
            "none" => Some(Choice::None),
            "required" | "any" => Some(Choice::Any),
            "function" | "tool" => Some(Choice::One(name?.as_str()?.to_owned())),
            _ => None,
        }
    }
}

/// Whether tools are called.
enum Choice {
    /// As the model likes.
    Auto,
    /// None.
    None,
    /// At least one.
    Any,
    /// This one.
    One(String),
}

impl Choice {
    fn for_dialect(&self, dialect: Dialect) -> (&'static str, Value) {
        let word = match (dialect, self) {
            (Dialect::Gemini, Self::Auto) => "AUTO",
            (Dialect::Gemini, Self::None) => "NONE",
            (Dialect::Gemini, Self::Any | Self::One(_)) => "ANY",
            (Dialect::Anthropic, Self::One(_)) => "tool",
            (Dialect::Anthropic, Self::Any) => "any",
            (_, Self::One(_)) => "function",
            (_, Self::Any) => "required",
            (_, Self::Auto) => "auto",
            (_, Self::None) => "none",
        };
        let one = if let Self::One(name) = self { Some(wire_name(dialect, name)) } else { None };
        match (dialect, one) {
            (Dialect::Gemini, None) => ("toolConfig", json!({"functionCallingConfig": {"mode": word}})),
            (Dialect::Gemini, Some(name)) => {
                ("toolConfig", json!({"functionCallingConfig": {"mode": word, "allowedFunctionNames": [name]}}))
            }
            (Dialect::Anthropic, None) => ("tool_choice", json!({"type": word})),
            (Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::LlamaCpp, None) => ("tool_choice", json!(word)),
            (Dialect::OpenAiChat | Dialect::LlamaCpp, Some(name)) => {
                ("tool_choice", json!({"type": word, "function": {"name": name}}))
            }
            (Dialect::OpenAiResponses | Dialect::Anthropic, Some(name)) => ("tool_choice", json!({"type": word, "name": name})),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_go_along() {
        let check = |front: ClientApi, dialect: Dialect, extra: Value, fields: Value, ignored: &[&str]| {
            let Value::Object(extra) = extra else { panic!("{extra}") };
            let along = front.along(dialect, &extra);
            assert_eq!(Value::Object(along.fields), fields, "{front:?} {dialect} {extra:?}");
            assert_eq!(along.ignored, ignored, "{front:?} {dialect} {extra:?}");
        };
        // The same API: everything but what the engine sets.
        let all = json!({"temperature": 1.5, "response_format": {"type": "json_object"}, "seed": 7, "stop": null, "user": "u"});
        let told = json!({"temperature": 1.5, "response_format": {"type": "json_object"}, "seed": 7, "user": "u"});
        check(ClientApi::Chat, Dialect::OpenAiChat, all.clone(), told.clone(), &[]);
        check(ClientApi::Chat, Dialect::LlamaCpp, all.clone(), told, &[]);
        check(
            ClientApi::Messages,
            Dialect::Anthropic,
            json!({"thinking": {"type": "enabled", "budget_tokens": 9}, "input": "x", "contents": []}),
            json!({"thinking": {"type": "enabled", "budget_tokens": 9}}),
            &["contents", "input"],
        );
        check(
            ClientApi::Responses,
            Dialect::OpenAiResponses,
            json!({"reasoning": {"effort": "low"}, "store": true, "metadata": {"a": "b"}}),
            json!({"reasoning": {"effort": "low"}, "metadata": {"a": "b"}}),
            &["store"],
        );
        // Another: what every API has.
        check(ClientApi::Chat, Dialect::Anthropic, all.clone(), json!({}), &["response_format", "seed", "temperature", "user"]);
        check(
            ClientApi::Chat,
            Dialect::Anthropic,
            json!({"temperature": 0.5, "top_p": 1, "stop": "END", "tool_choice": "required"}),
            json!({"temperature": 0.5, "top_p": 1, "stop_sequences": ["END"], "tool_choice": {"type": "any"}}),
            &[],
        );
        check(
            ClientApi::Messages,
            Dialect::OpenAiChat,
            json!({"stop_sequences": ["a"], "top_k": 4, "tool_choice": {"type": "tool", "name": "read"}}),
            json!({"stop": ["a"], "tool_choice": {"type": "function", "function": {"name": "read"}}}),
            &["top_k"],
        );
        check(
            ClientApi::Chat,
            Dialect::OpenAiResponses,
            json!({"stop": ["a"], "tool_choice": {"type": "function", "function": {"name": "read"}}}),
            json!({"tool_choice": {"type": "function", "name": "read"}}),
            &["stop"],
        );
        check(
            ClientApi::Responses,
            Dialect::Gemini,
            json!({"temperature": 0, "top_p": 0.5, "tool_choice": {"type": "function", "name": "read"}}),
            json!({
                "generationConfig": {"temperature": 0, "topP": 0.5},
                "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["read"]}},
            }),
            &[],
        );
        check(ClientApi::Chat, Dialect::Gemini, json!({"tool_choice": {"type": "allowed_tools"}}), json!({}), &["tool_choice"]);
    }
}
