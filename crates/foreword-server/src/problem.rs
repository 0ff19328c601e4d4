//! What went wrong, as RFC 9457 has it: a document that people and programs can read.

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use foreword_audit::AuditError;
use foreword_engine::attach::WebError;
use foreword_engine::prepare::PrepareError;
use foreword_engine::session::{
    ChangeError, DiffError, FoldError, Health, InputError, NotAPoint, OpenSessionError, PinError, SetupError, StoreError,
    TurnError,
};
use foreword_gateway::{Endpoint, Family, Refusal};
use foreword_templates::NoTemplate;
use foreword_vault_tools::agents::EditError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A problem document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Problem {
    /// `urn:foreword:problem:` and a word for programs.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// What that word means.
    pub(crate) title: String,
    /// The status code.
    pub(crate) status: u16,
    /// What happened this time, and what to do.
    pub(crate) detail: String,
    /// Seconds after which another try may help, where a provider says so.
    #[serde(skip)]
    pub(crate) retry_after_s: Option<u64>,
}

/// What can go wrong: status, word, title.
pub(crate) type Kind = (StatusCode, &'static str, &'static str);

pub(crate) const BAD_REQUEST: Kind = (StatusCode::BAD_REQUEST, "bad-request", "The request cannot be understood");
pub(crate) const NO_TOKEN: Kind = (StatusCode::UNAUTHORIZED, "no-token", "A token or key is needed");
pub(crate) const NOT_FROM_HERE: Kind = (StatusCode::FORBIDDEN, "not-from-here", "The request comes from another site");
pub(crate) const SPENT: Kind = (StatusCode::PAYMENT_REQUIRED, "spent", "A spending limit is reached");
pub(crate) const NOT_FOUND: Kind = (StatusCode::NOT_FOUND, "not-found", "There is no such thing");
pub(crate) const WRONG_METHOD: Kind = (StatusCode::METHOD_NOT_ALLOWED, "wrong-method", "It is there for other methods");
pub(crate) const TIMEOUT: Kind = (StatusCode::REQUEST_TIMEOUT, "timeout", "It took too long");
pub(crate) const CONFLICT: Kind = (StatusCode::CONFLICT, "conflict", "It cannot be done now");
pub(crate) const CHANGED: Kind = (StatusCode::PRECONDITION_FAILED, "changed", "It is no longer what it was");
pub(crate) const NO_VERSION: Kind = (StatusCode::PRECONDITION_REQUIRED, "no-version", "Say which version you have seen");
pub(crate) const TOO_LARGE: Kind = (StatusCode::PAYLOAD_TOO_LARGE, "too-large", "It is too large");
pub(crate) const OVER_BUDGET: Kind = (StatusCode::UNPROCESSABLE_ENTITY, "over-budget", "It does not fit the model");
pub(crate) const TOO_MANY: Kind = (StatusCode::TOO_MANY_REQUESTS, "too-many", "Too much at once");
pub(crate) const NO_ANSWER: Kind = (StatusCode::BAD_GATEWAY, "no-answer", "The model gave no answer");
pub(crate) const UNAVAILABLE: Kind = (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "It cannot be done just now");
pub(crate) const NOT_STORED: Kind = (StatusCode::SERVICE_UNAVAILABLE, "not-stored", "Nothing can be stored just now");
pub(crate) const FULL: Kind = (StatusCode::INSUFFICIENT_STORAGE, "disk-full", "There is no room to store it");
pub(crate) const INTERNAL: Kind = (StatusCode::INTERNAL_SERVER_ERROR, "internal", "Something went wrong here");

impl Problem {
    #[allow(clippy::needless_pass_by_value)] // errors are handed over where they end
    pub(crate) fn new((status, word, title): Kind, detail: impl ToString) -> Self {
        Self {
            kind: format!("urn:foreword:problem:{word}"),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: detail.to_string(),
            retry_after_s: None,
        }
    }

    /// The same as a provider put it: its status and its words.
    pub(crate) fn refused_by(mut self, refusal: &Refusal) -> Self {
        self.status = refusal.status.filter(|status| (400..600).contains(status)).unwrap_or(self.status);
        self.retry_after_s = refusal.wait.map(|wait| wait.as_secs().max(1));
        if !refusal.message.is_empty() {
            self.detail.clone_from(&refusal.message);
        }
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// The format of error responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hearer {
    /// A client of the gateway: it reads the errors of the API it speaks.
    Client(Family),
    /// Everyone else.
    Anyone,
}

impl Hearer {
    /// The format for a request.
    pub(crate) fn of(uri: &Uri, headers: &HeaderMap) -> Self {
        // What both have, like the list of models, is asked for with this header by Anthropic's clients only.
        let endpoint = Endpoint::of("POST", uri.path(), headers.contains_key("anthropic-version"));
        endpoint.map_or(Self::Anyone, |endpoint| Self::Client(endpoint.family))
    }

    /// The response for a problem.
    pub(crate) fn told(self, problem: Problem) -> Response {
        match self {
            Self::Client(family) => {
                let mut response = (problem.status(), Json(family.error(problem.status, &problem.detail))).into_response();
                if let Some(seconds) = problem.retry_after_s {
                    response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
                }
                response
            }
            Self::Anyone => problem.into_response(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        let body = serde_json::to_string(&self).unwrap_or_default();
        (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"))], body).into_response()
    }
}

impl Problem {
    /// A store that does not take what it is given: nothing was changed.
    pub(crate) fn not_stored(health: &Health) -> Self {
        let kind = if matches!(health, Health::Failing { full: true, .. }) { FULL } else { NOT_STORED };
        let why = health.why();
        Self::new(kind, format!("nothing was changed, because storing it failed: {why}. Fix the cause and try again"))
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let kind = match &error {
            StoreError::NoSession(_) | StoreError::NoRequest { .. } | StoreError::NoTurn { .. } => NOT_FOUND,
            StoreError::Ambiguous(..) => BAD_REQUEST,
            StoreError::Exists(_) | StoreError::Leased(_) | StoreError::Refused(_) => CONFLICT,
            StoreError::Full { .. } => FULL,
            StoreError::ReadOnly { .. } | StoreError::Disk { .. } | StoreError::Gone { .. } | StoreError::Busy { .. } => {
                NOT_STORED
            }
            _ => INTERNAL,
        };
        Self::new(kind, error)
    }
}

impl From<AuditError> for Problem {
    fn from(error: AuditError) -> Self {
        match error {
            AuditError::Store(error) => error.into(),
            error @ AuditError::Prices(_) => Self::new(INTERNAL, error),
        }
    }
}

impl From<OpenSessionError> for Problem {
    fn from(error: OpenSessionError) -> Self {
        match error {
            OpenSessionError::Store(error) => error.into(),
            OpenSessionError::Setup(error) => error.into(),
            error => Self::new(INTERNAL, error),
        }
    }
}

impl From<SetupError> for Problem {
    fn from(error: SetupError) -> Self {
        let kind = if matches!(error, SetupError::Model(_)) { BAD_REQUEST } else { INTERNAL };
        Self::new(kind, error)
    }
}

impl From<InputError> for Problem {
    fn from(error: InputError) -> Self {
        let gone = matches!(error, InputError::UnknownItem(_) | InputError::NotPinned(_));
        let kind = if gone { NOT_FOUND } else { CONFLICT };
        Self::new(kind, error)
    }
}

impl From<FoldError> for Problem {
    fn from(error: FoldError) -> Self {
        match error {
            FoldError::Input(error) => error.into(),
            FoldError::OverBudget(error) => Self::new(OVER_BUDGET, error),
            FoldError::NotSmaller { .. } => Self::new(CONFLICT, error),
        }
    }
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Setting(error) => Self::new(BAD_REQUEST, error),
            ChangeError::Template(error) => error.into(),
            ChangeError::Setup(error) => error.into(),
            ChangeError::Input(error) => error.into(),
        }
    }
}

impl From<PinError> for Problem {
    fn from(error: PinError) -> Self {
        match error {
            PinError::Input(error) => error.into(),
            error => Self::new(NOT_FOUND, error),
        }
    }
}

impl From<NoTemplate> for Problem {
    fn from(error: NoTemplate) -> Self {
        let kind = match error {
            NoTemplate::NotFound(..) => NOT_FOUND,
            NoTemplate::NotAName(_) => BAD_REQUEST,
            NoTemplate::NotTrusted(_) => CONFLICT,
            NoTemplate::Unreadable(..) => UNAVAILABLE,
        };
        Self::new(kind, error)
    }
}

impl From<EditError> for Problem {
    fn from(error: EditError) -> Self {
        let kind = match error {
            EditError::NoAgent(_) | EditError::NoItem(_) => NOT_FOUND,
            EditError::Name(_) | EditError::Kind(_) | EditError::Fixed(_) | EditError::Write(_) => BAD_REQUEST,
            EditError::Changed(_) => CHANGED,
            EditError::OneFile(..) | EditError::NoPromptFile(_) | EditError::Exists(_) | EditError::Otherwise(..) => CONFLICT,
            EditError::Unreadable(..) => UNAVAILABLE,
        };
        Self::new(kind, error)
    }
}

impl From<TurnError> for Problem {
    fn from(error: TurnError) -> Self {
        match error {
            TurnError::Input(error) => error.into(),
            TurnError::OverBudget(error) => Self::new(OVER_BUDGET, error),
            TurnError::NotStored(health) => Self::not_stored(&health),
            TurnError::Speak(error) => Self::new(NO_ANSWER, error),
            TurnError::Store(error) => error.into(),
            error @ (TurnError::Closed | TurnError::UnexpectedResult) => Self::new(INTERNAL, error),
        }
    }
}

impl From<DiffError> for Problem {
    fn from(error: DiffError) -> Self {
        match error {
            DiffError::Store(error) => error.into(),
            error @ DiffError::Same => Self::new(CONFLICT, error),
        }
    }
}

impl From<NotAPoint> for Problem {
    fn from(error: NotAPoint) -> Self {
        Self::new(BAD_REQUEST, error)
    }
}

impl From<WebError> for Problem {
    fn from(error: WebError) -> Self {
        Self::new(UNAVAILABLE, error)
    }
}

impl From<PrepareError> for Problem {
    fn from(error: PrepareError) -> Self {
        match error {
            PrepareError::Web(error) => error.into(),
            PrepareError::Template(error) => error.into(),
            error @ (PrepareError::Settings(_) | PrepareError::Setting(_)) => Self::new(BAD_REQUEST, error),
            error => Self::new(NOT_FOUND, error),
        }
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        let too_large = rejection.status() == StatusCode::PAYLOAD_TOO_LARGE;
        Self::new(if too_large { TOO_LARGE } else { BAD_REQUEST }, rejection.body_text())
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(BAD_REQUEST, rejection.body_text())
    }
}

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Self {
        Self::new(BAD_REQUEST, rejection.body_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_in_their_own_words() {
        let check = |path: &'static str, header: Option<&'static str>, expect: Hearer| {
            let headers = header.map(|name| (name.parse().unwrap(), HeaderValue::from_static("x"))).into_iter().collect();
            assert_eq!(Hearer::of(&Uri::from_static(path), &headers), expect, "{path} {header:?}");
        };
        check("/v1/chat/completions", None, Hearer::Client(Family::OpenAi));
        check("/v1/responses", None, Hearer::Client(Family::OpenAi));
        check("/v1/responses/resp_1", None, Hearer::Client(Family::OpenAi));
        check("/v1/messages", None, Hearer::Client(Family::Anthropic));
        check("/v1/messages/count_tokens", None, Hearer::Client(Family::Anthropic));
        check("/v1/messagesandmore", None, Hearer::Client(Family::OpenAi));
        check("/v1/models", None, Hearer::Client(Family::OpenAi));
        check("/v1/models", Some("anthropic-version"), Hearer::Client(Family::Anthropic));
        check("/v1beta/models/m:generateContent", None, Hearer::Client(Family::Gemini));
        check("/v1/models?x=/v1/messages", Some("x-api-key"), Hearer::Client(Family::OpenAi));
        check("/api/v1/sessions", Some("anthropic-version"), Hearer::Anyone);
        check("/", None, Hearer::Anyone);
    }
}
