//! Who a request comes from, by the secrets it brings.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use foreword_engine::session::Hash;
use foreword_gateway::Secret;

use crate::config::Reach;
use crate::keys::Keys;
use crate::problem::{BAD_REQUEST, NO_TOKEN, Problem};
use crate::token::PREFIX;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    /// The notes, the sessions, the settings.
    Api,
    /// The gateway.
    Gateway,
}

/// Who a request of the gateway comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// It has the token or one of our keys (or none is required), and may use the whole gateway. If it also brings a provider key,
    /// that key is used.
    Known(Option<Secret>),
    /// It brings a provider's key and nothing else: only that key is used for it, and sessions of others are closed to it.
    OwnKey(Secret),
}

/// What to do, for a person or a program that the API refuses.
const API_HELP: &str = "in a browser, open the address that `foreword serve` printed, or run `foreword keys url` for a new one; \
                        programs send `Authorization: Bearer TOKEN`, where `foreword keys token` prints the token";

/// What to do, for a client that the gateway refuses.
pub(crate) const GATEWAY_HELP: &str =
    "run `foreword keys new` on the server's machine and use the printed key as your client's API key";

impl Caller {
    /// Who may ask for this with these headers.
    pub(crate) fn of(reach: &Reach, keys: &Keys, wants: Wants, headers: &HeaderMap) -> Result<Self, Problem> {
        let secrets = secrets(headers)?;
        let own =
            || secrets.iter().find(|text| !text.starts_with(PREFIX) && !is_token(reach, text)).map(|text| Secret::new(*text));
        let Some(token) = reach.token() else { return Ok(Self::Known(own())) };
        let opens = |text: &&&str| token.is(text) || token.is_page_key(text) || (wants == Wants::Gateway && keys.has(text));
        if secrets.iter().any(|text| opens(&text)) {
            return Ok(Self::Known(own()));
        }
        if wants == Wants::Api {
            return Err(match secrets.iter().any(|text| keys.has(text)) {
                true => Problem::new(NO_TOKEN, "this key is only for the gateway under /v1, not for the API"),
                false if secrets.is_empty() => Problem::new(NO_TOKEN, format!("the server's token is required: {API_HELP}")),
                false => Problem::new(NO_TOKEN, format!("invalid or expired token: {API_HELP}")),
            });
        }
        // A key of ours that is wrong or deleted is not sent to a provider.
        if secrets.iter().any(|text| text.starts_with(PREFIX)) {
            return Err(Problem::new(NO_TOKEN, format!("unknown or deleted key: {GATEWAY_HELP}")));
        }
        match (reach, own()) {
            (Reach::Loopback { .. }, Some(key)) => Ok(Self::OwnKey(key)),
            (Reach::Loopback { .. }, None) => Err(Problem::new(
                NO_TOKEN,
                format!("a key is required: {GATEWAY_HELP}. A client that sends its own provider key does not need one"),
            )),
            _ => Err(Problem::new(NO_TOKEN, format!("a key of this server is required: {GATEWAY_HELP}"))),
        }
    }

    /// The provider key that it brings.
    pub(crate) fn key(&self) -> Option<&Secret> {
        match self {
            Self::Known(key) => key.as_ref(),
            Self::OwnKey(key) => Some(key),
        }
    }

    /// A name for who has only its own key: clients with different keys share no session. It is never stored.
    pub(crate) fn owner(&self) -> Option<Hash> {
        match self {
            Self::Known(_) => None,
            Self::OwnKey(key) => Some(Hash::of(key.expose())),
        }
    }

    /// The headers of a request without secrets of this server in them.
    pub(crate) fn without_ours(reach: &Reach, headers: &HeaderMap) -> HeaderMap {
        let is_ours = |value: &HeaderValue| {
            let Ok(text) = value.to_str() else { return false };
            let text = bearer(text).unwrap_or(text).trim();
            text.starts_with(PREFIX) || is_token(reach, text)
        };
        let mut headers = headers.clone();
        for name in SECRETS {
            if headers.get(&name).is_some_and(is_ours) {
                headers.remove(&name);
            }
        }
        headers
    }

    /// The name of the key of this server that a request comes with.
    pub(crate) fn key_name(keys: &Keys, headers: &HeaderMap) -> Option<String> {
        secrets(headers).ok()?.into_iter().find_map(|text| keys.name(text))
    }

    /// Refuses what only a key of this server opens.
    pub(crate) fn needs_our_key(&self, what: &str) -> Result<(), Problem> {
        match self {
            Self::Known(_) => Ok(()),
            Self::OwnKey(_) => Err(Problem::new(NO_TOKEN, format!("{what} needs a key of this server: {GATEWAY_HELP}"))),
        }
    }
}

fn is_token(reach: &Reach, text: &str) -> bool {
    reach.token().is_some_and(|token| token.is(text))
}

/// Where a request brings its secrets.
const SECRETS: [HeaderName; 3] =
    [header::AUTHORIZATION, HeaderName::from_static("x-api-key"), HeaderName::from_static("x-goog-api-key")];

/// The secrets of a request, in the ways of OpenAI's, Anthropic's and Google's clients.
fn secrets(headers: &HeaderMap) -> Result<Vec<&str>, Problem> {
    let mut found = Vec::new();
    for name in SECRETS {
        let mut values = headers.get_all(&name).iter();
        let (value, more) = (values.next(), values.next());
        if more.is_some() {
            return Err(Problem::new(BAD_REQUEST, format!("several {name} headers; send only one")));
        }
        let text = value.map(HeaderValue::to_str).transpose();
        let text = text.map_err(|_| Problem::new(BAD_REQUEST, format!("the {name} header is not text")))?;
        let text = if name == header::AUTHORIZATION { text.and_then(bearer) } else { text };
        found.extend(text.map(str::trim).filter(|text| !text.is_empty()));
    }
    Ok(found)
}

/// The value after `Bearer`, ignoring case.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, text) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Token;

    #[test]
    fn who_may_do_what() {
        let folder = tempfile::tempdir().unwrap();
        let keys = Keys::new(folder.path());
        let (_, key) = keys.create(None).unwrap();
        let token = Token::of("fw-server-tok");
        let page = token.take_code(1, &token.code(1).unwrap()).unwrap().unwrap();
        let (loopback, network) =
            (Reach::Loopback { token: token.clone() }, Reach::Network { token: token.clone(), hosts: Vec::new() });
        let check = |reach: &Reach, wants: Wants, headers: &[(&'static str, &str)], expect: Option<&Caller>| {
            let map: HeaderMap =
                headers.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect();
            let found = Caller::of(reach, &keys, wants, &map);
            assert_eq!(found.as_ref().ok(), expect, "{headers:?} {found:?}");
            if let Err(problem) = found {
                assert!(problem.detail.contains("foreword keys") || problem.detail.contains("/v1"), "{problem:?}");
                assert!(headers.iter().all(|(_, value)| !problem.detail.contains(value)), "{problem:?}");
            }
        };
        let own = |key: &str| Caller::OwnKey(Secret::new(key));
        let known = |key: Option<&str>| Caller::Known(key.map(Secret::new));
        let bearer = |text: &str| format!("Bearer {text}");
        for reach in [&loopback, &network] {
            check(reach, Wants::Api, &[], None);
            check(reach, Wants::Gateway, &[], None);
            for wants in [Wants::Api, Wants::Gateway] {
                for text in ["fw-server-tok", &page] {
                    check(reach, wants, &[("authorization", &bearer(text))], Some(&known(None)));
                    check(reach, wants, &[("x-api-key", text)], Some(&known(None)));
                    check(reach, wants, &[("authorization", text)], None);
                    check(reach, wants, &[("authorization", &format!("Basic {text}"))], None);
                }
            }
            check(reach, Wants::Gateway, &[("authorization", &bearer(&key))], Some(&known(None)));
            check(reach, Wants::Gateway, &[("x-goog-api-key", &key)], Some(&known(None)));
            check(reach, Wants::Api, &[("authorization", &bearer(&key))], None);
            // A key of the client's own beside one of ours.
            check(reach, Wants::Gateway, &[("authorization", &bearer(&key)), ("x-api-key", "sk-2")], Some(&known(Some("sk-2"))));
            let both = [("authorization", "Bearer sk-1"), ("x-api-key", &*key)];
            check(reach, Wants::Gateway, &both, Some(&known(Some("sk-1"))));
            // A wrong key of ours goes nowhere, also beside another one.
            check(reach, Wants::Gateway, &[("x-api-key", "fw-wrong")], None);
            check(reach, Wants::Gateway, &[("x-api-key", "fw-wrong"), ("authorization", "Bearer sk-1")], None);
            check(reach, Wants::Api, &[("authorization", "Bearer sk-1")], None);
        }
        check(&loopback, Wants::Gateway, &[("authorization", "Bearer sk-1")], Some(&own("sk-1")));
        check(&loopback, Wants::Gateway, &[("x-api-key", "sk-2")], Some(&own("sk-2")));
        check(&loopback, Wants::Gateway, &[("x-goog-api-key", "g")], Some(&own("g")));
        check(&loopback, Wants::Gateway, &[("authorization", "Basic x")], None);
        check(&network, Wants::Gateway, &[("x-api-key", "sk-2")], None);
        check(&Reach::Open, Wants::Api, &[], Some(&known(None)));
        check(&Reach::Open, Wants::Gateway, &[("x-api-key", "sk-2")], Some(&known(Some("sk-2"))));
        check(&Reach::Open, Wants::Gateway, &[("x-api-key", "fw-old")], Some(&known(None)));
    }
}
