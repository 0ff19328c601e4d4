//! What a path of the gateway asks for: the API it belongs to, and how its requests and answers are read.

use foreword_provider::dialect::Dialect;

use super::ClientApi;

/// Who has an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// OpenAI, and those that speak like it.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Google.
    Gemini,
}

impl Family {
    /// The provider that has the API, by its name in the configuration.
    pub fn provider(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    /// Whether those who speak a dialect are asked in this API.
    pub fn has(self, dialect: Dialect) -> bool {
        self == match dialect {
            Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::LlamaCpp => Self::OpenAi,
            Dialect::Anthropic => Self::Anthropic,
            Dialect::Gemini => Self::Gemini,
        }
    }

    /// An error as the API has it: a body that its clients read.
    pub fn error(self, status: u16, message: &str) -> serde_json::Value {
        match self {
            Self::OpenAi => ClientApi::Chat.error(status, message),
            Self::Anthropic => ClientApi::Messages.error(status, message),
            Self::Gemini => {
                let kind = match status {
                    400 | 413 => "INVALID_ARGUMENT",
                    401 => "UNAUTHENTICATED",
                    402 | 403 => "PERMISSION_DENIED",
                    404 => "NOT_FOUND",
                    429 => "RESOURCE_EXHAUSTED",
                    503 => "UNAVAILABLE",
                    _ => "INTERNAL",
                };
                serde_json::json!({"error": {"code": status, "message": message, "status": kind}})
            }
        }
    }
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An answer of a model to a conversation, in one of the APIs that Foreword reads.
    ClientApi(ClientApi),
    /// The same in Gemini's API.
    Generate,
    /// How many tokens a conversation has.
    Count,
    /// A text that goes on, without roles (`/v1/completions`).
    Completions,
    /// Vectors.
    Embeddings,
    /// The list of models, or one of them.
    Models,
    /// Whatever else a provider has.
    Other,
}

/// An address of the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Whose API it is.
    pub family: Family,
    /// What it asks for.
    pub kind: Kind,
    /// The path behind the version: `chat/completions`.
    pub path: String,
    /// The model, where the path names it.
    pub model: Option<String>,
}

impl Endpoint {
    /// What a path asks for; `is_anthropic` tells of a header that only clients of Anthropic send. None outside of the gateway.
    pub fn of(method: &str, path: &str, is_anthropic: bool) -> Option<Self> {
        let (rest, is_google) = match (path.strip_prefix("/v1beta/"), path.strip_prefix("/v1/")) {
            (Some(rest), _) => (rest, true),
            (None, Some(rest)) => (rest, false),
            (None, None) => return None,
        };
        let is_google = is_google || rest.strip_prefix("models/").is_some_and(|name| name.contains(':'));
        let is_post = method.eq_ignore_ascii_case("post");
        let under = |api: &str| rest == api || rest.strip_prefix(api).is_some_and(|rest| rest.starts_with('/'));
        let family = match () {
            () if is_google => Family::Gemini,
            () if under("messages") || is_anthropic => Family::Anthropic,
            () => Family::OpenAi,
        };
        let mut model = None;
        let kind = match rest {
            _ if is_google => match rest.strip_prefix("models/").and_then(|rest| rest.rsplit_once(':')) {
                Some((name, action)) if is_post => {
                    model = Some(name.to_owned());
                    match action {
                        "generateContent" | "streamGenerateContent" => Kind::Generate,
                        "countTokens" => Kind::Count,
                        "embedContent" | "batchEmbedContents" => Kind::Embeddings,
                        _ => Kind::Other,
                    }
                }
                _ if under("models") => Kind::Models,
                _ => Kind::Other,
            },
            "chat/completions" if is_post => Kind::ClientApi(ClientApi::Chat),
            "responses" if is_post => Kind::ClientApi(ClientApi::Responses),
            "messages" if is_post => Kind::ClientApi(ClientApi::Messages),
            "messages/count_tokens" | "responses/input_tokens" if is_post => Kind::Count,
            "completions" if is_post => Kind::Completions,
            "embeddings" if is_post => Kind::Embeddings,
            _ if under("models") && !is_post => Kind::Models,
            _ => Kind::Other,
        };
        Some(Self { family, kind, path: rest.to_owned(), model })
    }

    /// The API, where Foreword reads it itself.
    pub fn front(&self) -> Option<ClientApi> {
        if let Kind::ClientApi(front) = self.kind { Some(front) } else { None }
    }

    /// Its name in records.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::ClientApi(front) => front.as_str(),
            Kind::Generate => "gemini",
            Kind::Count => "count_tokens",
            Kind::Completions => "completions",
            Kind::Embeddings => "embeddings",
            Kind::Models => "models",
            Kind::Other => "other",
        }
    }

    /// The dialect of a conversation that stands on record under that name.
    pub fn of_record(name: &str) -> Option<Dialect> {
        match name {
            "chat" => Some(Dialect::OpenAiChat),
            "responses" => Some(Dialect::OpenAiResponses),
            "messages" => Some(Dialect::Anthropic),
            "gemini" => Some(Dialect::Gemini),
            _ => None,
        }
    }

    /// The dialect in which a body of a conversation is written; none where it is no conversation.
    pub fn dialect(&self) -> Option<Dialect> {
        match self.kind {
            Kind::ClientApi(front) => Some(front.dialect()),
            Kind::Generate => Some(Dialect::Gemini),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_apart() {
        let check = |method: &str, path: &str, expect: Option<(Family, &str)>| {
            let found = Endpoint::of(method, path, false);
            assert_eq!(found.as_ref().map(|found| (found.family, found.name())), expect, "{method} {path}");
        };
        check("POST", "/v1/chat/completions", Some((Family::OpenAi, "chat")));
        check("GET", "/v1/chat/completions", Some((Family::OpenAi, "other")));
        check("POST", "/v1/responses", Some((Family::OpenAi, "responses")));
        check("GET", "/v1/responses/resp_1/input_items", Some((Family::OpenAi, "other")));
        check("POST", "/v1/responses/compact", Some((Family::OpenAi, "other")));
        check("POST", "/v1/responses/input_tokens", Some((Family::OpenAi, "count_tokens")));
        check("POST", "/v1/messages", Some((Family::Anthropic, "messages")));
        check("POST", "/v1/messages/count_tokens", Some((Family::Anthropic, "count_tokens")));
        check("GET", "/v1/messages/batches/b1/results", Some((Family::Anthropic, "other")));
        check("GET", "/v1/models", Some((Family::OpenAi, "models")));
        check("GET", "/v1/models/gpt-5.4", Some((Family::OpenAi, "models")));
        check("POST", "/v1/embeddings", Some((Family::OpenAi, "embeddings")));
        check("POST", "/v1/completions", Some((Family::OpenAi, "completions")));
        check("POST", "/v1/audio/transcriptions", Some((Family::OpenAi, "other")));
        check("POST", "/v1beta/models/gemini-2.5-flash:generateContent", Some((Family::Gemini, "gemini")));
        check("POST", "/v1beta/models/gemini-2.5-flash:countTokens", Some((Family::Gemini, "count_tokens")));
        check("POST", "/v1/models/gemini-2.5-flash:streamGenerateContent", Some((Family::Gemini, "gemini")));
        check("GET", "/v1beta/models", Some((Family::Gemini, "models")));
        check("POST", "/api/v1/sessions", None);
        check("GET", "/v1", None);
        let found = Endpoint::of("POST", "/v1beta/models/tuned/x:y:generateContent", false).unwrap();
        assert_eq!(found.model.as_deref(), Some("tuned/x:y"));
        assert_eq!(Endpoint::of("GET", "/v1/models", true).unwrap().family, Family::Anthropic);
    }
}
