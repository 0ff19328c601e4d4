//! What was said in a client's session, as text for people and for search.

use foreword_provider::dialect::Dialect;
use foreword_store::{Result, Store};
use serde_json::Value;

use super::conversation::{Conversation, Who};

/// A message of a client's session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionMessage {
    /// Who speaks.
    pub who: Who,
    /// Its text; for tools, what they returned.
    pub text: String,
}

/// The messages of a client's session as its last request has them; empty if there is no such session. The reply to that request is
/// part of the next one only.
pub fn client_messages(store: &dyn Store, session: &str) -> Result<Vec<SessionMessage>> {
    let Some(last) = store.forwarded_of(session)?.pop() else { return Ok(Vec::new()) };
    Ok(messages(&store.forwarded_body(last.number)?))
}

/// The messages of a request's body, whatever API it is written for.
fn messages(body: &str) -> Vec<SessionMessage> {
    let has = |name: &str| body.contains(&format!("\"{name}\""));
    let dialect = match () {
        () if has("contents") => Dialect::Gemini,
        () if has("messages") => Dialect::Anthropic,
        () => Dialect::OpenAiResponses,
    };
    let said = Conversation::read(dialect, body).map(|conversation| conversation.said).unwrap_or_default();
    let texts = said.into_iter().filter_map(|spoken| {
        let mut text = String::new();
        collect(&serde_json::from_str(body.get(spoken.at)?).ok()?, &mut text);
        (!text.is_empty()).then_some(SessionMessage { who: spoken.who, text })
    });
    texts.collect()
}

/// The texts in a message, one below the other. Keys of signatures, images and arguments are left out.
fn collect(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => {
            if !out.is_empty() {
                out.push('\n');
            }
            out.push_str(text);
        }
        Value::Array(parts) => parts.iter().for_each(|part| collect(part, out)),
        Value::Object(members) => {
            const TEXTS: [&str; 6] = ["content", "parts", "text", "output", "functionResponse", "response"];
            TEXTS.iter().filter_map(|name| members.get(*name)).for_each(|value| collect(value, out));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_each_api() {
        let check = |body: &str, expect: &[(Who, &str)]| {
            let found = messages(body);
            let found: Vec<_> = found.iter().map(|message| (message.who, message.text.as_str())).collect();
            assert_eq!(found, expect, "{body}");
        };
        check(
            r#"{"model": "m", "messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": [{"type": "text", "text": "Hi"},
               {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x"}}]},
               {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "it says"}]}]}]}"#,
            &[(Who::User, "Hello"), (Who::Model, "Hi"), (Who::Tools, "it says")],
        );
        check(
            r#"{"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}, {"type": "function_call_output", "call_id": "a", "output": "42"}]}"#,
            &[(Who::User, "Hello"), (Who::Tools, "42")],
        );
        check(r#"{"input": "Hello"}"#, &[(Who::User, "Hello")]);
        check(r#"{"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}"#, &[(Who::User, "Hello")]);
        check("no json", &[]);
        check(r#"{"messages": [{"role": "user", "content": [{"type": "image", "source": {"data": "AAAA"}}]}]}"#, &[]);
    }
}
