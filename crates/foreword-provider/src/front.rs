//! The other side of a provider's API: what a client asks in OpenAI's or Anthropic's words, in no provider's words, and an answer in the
//! client's. A gateway stands between the two.

mod ask;
mod chat;
mod extra;
mod messages;
mod responses;
mod tell;
#[cfg(test)]
mod tests;
mod translate;

use std::collections::BTreeSet;

use crate::dialect::Dialect;

pub use ask::{Asked, ClientCall, ClientMessage, MAX_TOOLS, NotUnderstood};
pub use extra::ForwardedFields;
pub use tell::{End, FinishedAnswer, ResponseWriter};
pub use translate::{AnswerTranslator, ClientTool, Translation};

/// The API a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientApi {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/responses`
    Responses,
    /// `/v1/messages`
    Messages,
}

impl ClientApi {
    /// Reads what a client asks.
    pub fn read(self, body: serde_json::Value) -> Result<Asked, NotUnderstood> {
        let asked = match self {
            Self::Chat => chat::read(body),
            Self::Responses => responses::read(body),
            Self::Messages => messages::read(body),
        }?;
        let mut names = BTreeSet::new();
        if let Some(tool) = asked.tools.iter().find(|tool| !names.insert(&tool.name)) {
            return Err(NotUnderstood::new("tools", format!("two tools are called {:?}", tool.name)));
        }
        Ok(asked)
    }

    /// The dialect of those who speak it.
    pub fn dialect(self) -> Dialect {
        match self {
            Self::Chat => Dialect::OpenAiChat,
            Self::Responses => Dialect::OpenAiResponses,
            Self::Messages => Dialect::Anthropic,
        }
    }

    /// Its name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
        }
    }

    /// An error as the API has it: a body that its clients read.
    pub fn error(self, status: u16, message: &str) -> serde_json::Value {
        let kind = match status {
            401 => "authentication_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            _ => "api_error",
        };
        match self {
            Self::Chat | Self::Responses => {
                serde_json::json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
            }
            Self::Messages => serde_json::json!({"type": "error", "error": {"type": kind, "message": message}}),
        }
    }
}
