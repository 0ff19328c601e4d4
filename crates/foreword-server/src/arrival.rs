//! A request of a client as it arrives at the gateway: its bytes, what it asks for, and at which level.

use std::io::Read as _;
use std::pin::Pin;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Method};
use flate2::read::MultiGzDecoder;
use foreword_gateway::{Endpoint, Names, is_id};
use hyper::body::Body as _;

use crate::app::App;
use crate::caller::Caller;
use crate::problem::{BAD_REQUEST, Problem, TOO_LARGE};
use foreword_engine::config::Level;

/// So many times the limit is read of a body that is too large, so that its client hears why it is refused.
const DRAINED: usize = 4;

/// The longest name of a session.
const LONGEST_NAME: usize = 64;

/// Headers in which clients name their conversation: Claude Code, Codex (two spellings), opencode, xAI's clients.
const CLIENT_NAMES: [&str; 6] =
    ["x-claude-code-session-id", "session-id", "session_id", "x-session-affinity", "x-opencode-session", "x-grok-conv-id"];

/// A request.
pub(crate) struct Arrival {
    pub(crate) method: Method,
    pub(crate) endpoint: Endpoint,
    /// The path behind the version, with its query.
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The body as text, where it is one; else why it is not.
    text: Result<Text, &'static str>,
}

/// A body as text.
enum Text {
    /// As it came.
    Plain,
    /// As it was before it was packed.
    Unpacked(String),
}

impl Arrival {
    /// A request with its whole body.
    pub(crate) fn new(
        method: Method,
        endpoint: Endpoint,
        query: Option<&str>,
        headers: HeaderMap,
        body: Bytes,
        limit: usize,
    ) -> Self {
        let path = match query {
            Some(query) => format!("{}?{query}", endpoint.path),
            None => endpoint.path.clone(),
        };
        let text = text(&headers, &body, limit);
        Self { method, endpoint, path, headers, body, text }
    }

    /// The body as text; else why it is none.
    pub(crate) fn text(&self) -> Result<&str, &'static str> {
        match &self.text {
            // It was looked at once.
            Ok(Text::Plain) => Ok(std::str::from_utf8(&self.body).unwrap_or_default()),
            Ok(Text::Unpacked(text)) => Ok(text),
            Err(why) => Err(why),
        }
    }

    /// The body as text, where that is what is sent.
    pub(crate) fn plain(&self) -> Option<&str> {
        matches!(self.text, Ok(Text::Plain)).then(|| self.text().ok()).flatten()
    }

    /// What its client calls the conversation.
    pub(crate) fn names(&self, caller: &Caller) -> Result<Names, Problem> {
        let of = |name: &&str| self.headers.get(*name).and_then(|value| value.to_str().ok()).filter(|name| is_id(name));
        let client = CLIENT_NAMES.iter().find_map(of).map(str::to_owned);
        Ok(Names { session: session(&self.headers)?, client, owner: caller.owner() })
    }

    /// The program that it comes from, as that calls itself.
    pub(crate) fn client(&self) -> Option<String> {
        let agent = self.headers.get("user-agent")?.to_str().ok()?;
        let name: String = agent.split_whitespace().next()?.chars().take(48).collect();
        (!name.is_empty()).then_some(name)
    }
}

fn text(headers: &HeaderMap, body: &Bytes, limit: usize) -> Result<Text, &'static str> {
    match headers.get("content-encoding").map(HeaderValue::as_bytes) {
        None | Some(b"" | b"identity") => match std::str::from_utf8(body) {
            Ok(_) => Ok(Text::Plain),
            Err(_) => Err("the body is not text"),
        },
        Some(b"gzip" | b"x-gzip") => {
            let (mut text, most) = (String::new(), limit as u64 + 1);
            let read = MultiGzDecoder::new(&**body).take(most).read_to_string(&mut text);
            match read {
                Ok(read) if read as u64 == most => Err("the body is too large to be read"),
                Ok(_) => Ok(Text::Unpacked(text)),
                Err(_) => Err("the body could not be unpacked"),
            }
        }
        Some(_) => Err("the body has a coding that is not read here"),
    }
}

/// Reads a body of at most `limit` bytes. Of one that is longer the rest is thrown away first, up to a limit of its own: a client that
/// still writes would see a broken connection.
pub(crate) async fn read(mut body: Body, limit: usize) -> Result<Bytes, Problem> {
    let too_large = || Problem::new(TOO_LARGE, format!("the body has more than {limit} bytes, which is the most that is taken"));
    let told = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if told > limit.saturating_mul(DRAINED) {
        return Err(too_large());
    }
    let (mut whole, mut came) = (Vec::with_capacity(told.min(limit)), 0usize);
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|error| Problem::new(BAD_REQUEST, format!("the body broke off: {error}")))?;
        let Ok(bytes) = frame.into_data() else { continue };
        came = came.saturating_add(bytes.len());
        if came <= limit {
            whole.extend_from_slice(&bytes);
        } else {
            whole = Vec::new();
            if came > limit.saturating_mul(DRAINED) {
                break;
            }
        }
    }
    if came > limit { Err(too_large()) } else { Ok(whole.into()) }
}

/// The session that a client names.
pub(crate) fn session(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get("x-foreword-session") else { return Ok(None) };
    let plain = |name: &&str| !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(|byte| byte.is_ascii_graphic());
    match value.to_str().ok().filter(plain) {
        Some(name) => Ok(Some(name.to_owned())),
        None => Err(Problem::new(BAD_REQUEST, "x-foreword-session: expected the name of a session")),
    }
}

/// What may be changed of a request, and whether nothing but a session will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) level: Level,
    /// Where the request itself says so: whoever asks for a session by its old name gets one or an error.
    pub(crate) is_strict: bool,
}

/// What a request says itself of its level.
pub(crate) fn wanted(headers: &HeaderMap) -> Result<Option<Wanted>, Problem> {
    let wrong = |name: &str, expect: &str| Problem::new(BAD_REQUEST, format!("{name}: it can be {expect}"));
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if let Some(level) = text("x-foreword-level") {
        let level = level.parse().map_err(|_| wrong("x-foreword-level", "`observe`, `assist` or `manage`"))?;
        return Ok(Some(Wanted { level, is_strict: false }));
    }
    match text("x-foreword-mode") {
        None => Ok(None),
        Some("pass-through") => Ok(Some(Wanted { level: Level::Observe, is_strict: false })),
        Some("session") => Ok(Some(Wanted { level: Level::Manage, is_strict: true })),
        Some(_) => Err(wrong("x-foreword-mode", "`session` or `pass-through`")),
    }
}

/// The level of a request: what it says itself, else what is configured for its key, for its provider, for the server.
pub(crate) fn level(app: &App, arrival: &Arrival, of_provider: Option<Level>) -> Result<Wanted, Problem> {
    if let Some(wanted) = wanted(&arrival.headers)? {
        return Ok(wanted);
    }
    let rules = &app.config.answers.config.gateway;
    let of_key = || {
        let name = (!rules.keys.is_empty()).then(|| Caller::key_name(&app.keys, &arrival.headers)).flatten()?;
        rules.keys.get(&name).copied()
    };
    let level = of_key().or(of_provider).or(app.config.level).or(rules.level).unwrap_or_default();
    Ok(Wanted { level, is_strict: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_its_level() {
        let check = |name: &'static str, value: &'static str, expect: Option<(Level, bool)>| {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static(value))]);
            let found = wanted(&headers).ok().flatten().map(|wanted| (wanted.level, wanted.is_strict));
            assert_eq!(found, expect, "{name}: {value}");
        };
        check("x-foreword-level", "observe", Some((Level::Observe, false)));
        check("x-foreword-level", "assist", Some((Level::Assist, false)));
        check("x-foreword-level", "manage", Some((Level::Manage, false)));
        check("x-foreword-level", "other", None);
        check("x-foreword-mode", "pass-through", Some((Level::Observe, false)));
        check("x-foreword-mode", "session", Some((Level::Manage, true)));
        check("x-foreword-mode", "other", None);
        assert_eq!(wanted(&HeaderMap::new()).unwrap(), None);
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_is_read_before_it_is_refused() {
        let check = async |size: usize, expect: bool| {
            let found = read(Body::from(vec![b'x'; size]), 1000).await;
            assert_eq!(found.as_ref().ok().map(Bytes::len), expect.then_some(size), "{size}");
            if let Err(problem) = found {
                assert_eq!(problem.status, 413);
            }
        };
        check(0, true).await;
        check(1000, true).await;
        check(1001, false).await;
        check(100_000, false).await;
    }

    #[test]
    fn packed_bodies_are_read() {
        use std::io::Write as _;
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(b"{\"model\":\"m\"}").unwrap();
        let packed = Bytes::from(packed.finish().unwrap());
        let of = |coding: &'static str, body: &Bytes, limit: usize| {
            let endpoint = Endpoint::of("POST", "/v1/messages", false).unwrap();
            let headers = HeaderMap::from_iter([("content-encoding".parse().unwrap(), HeaderValue::from_static(coding))]);
            let arrival = Arrival::new(Method::POST, endpoint, Some("beta=true"), headers, body.clone(), limit);
            assert_eq!(arrival.path, "messages?beta=true");
            (arrival.text().map(str::to_owned), arrival.plain().is_some())
        };
        assert_eq!(of("gzip", &packed, 100), (Ok("{\"model\":\"m\"}".to_owned()), false));
        assert_eq!(of("gzip", &packed, 5), (Err("the body is too large to be read"), false));
        assert_eq!(of("zstd", &packed, 100), (Err("the body has a coding that is not read here"), false));
        assert_eq!(of("identity", &packed, 100), (Err("the body is not text"), false));
        assert_eq!(of("identity", &Bytes::from_static(b"{}"), 100), (Ok("{}".to_owned()), true));
    }
}
