//! Requests for a model of another API: an OpenAI client asks Claude, Claude Code asks GPT. The request is translated and then passed on
//! like any other; the answer is translated back from its first bytes on.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::{Json, http};
use foreword_engine::session::new_session_id;
use foreword_gateway::{AnswerTranslator, ClientApi, Dialect, Endpoint, Family, Kind, Passing, Refusal, Route, Translation};
use serde_json::json;
use tokio::sync::mpsc;

use crate::app::App;
use crate::arrival::Arrival;
use crate::caller::Caller;
use crate::clock::now_ms;
use crate::forward::{Piped, Sent, WAITING, send, tell};
use crate::problem::{BAD_REQUEST, NO_ANSWER, NO_TOKEN, Problem};
use foreword_engine::config::Level;

/// How long a stream may be silent before the client gets a ping.
const QUIET: Duration = Duration::from_secs(10);

/// Bytes of a refusal that are read.
const LONGEST_REFUSAL: usize = 1 << 20;

/// Headers of a client that mean something to its own provider only.
const OF_ITS_API: [&str; 7] = [
    "content-encoding",
    "accept-encoding",
    "anthropic-version",
    "anthropic-beta",
    "openai-beta",
    "openai-organization",
    "openai-project",
];

/// The dialect to translate to, where a model's provider speaks another API and can be asked in it.
pub(crate) fn dialect(route: &Route, front: ClientApi) -> Option<Dialect> {
    let dialect = route.client()?.dialect();
    (dialect != Dialect::Gemini && route.takes_family(family(front)).is_err()).then_some(dialect)
}

fn family(front: ClientApi) -> Family {
    if front == ClientApi::Messages { Family::Anthropic } else { Family::OpenAi }
}

/// Answers a request by a model of another API.
pub(crate) async fn answer(
    app: &Arc<App>,
    caller: &Caller,
    arrival: &Arrival,
    (route, front, dialect): (&Route, ClientApi, Dialect),
    (level, named): (Level, &str),
) -> Result<Response, Problem> {
    let caller = for_dialect(caller, dialect)?;
    let text = arrival.text().map_err(|why| Problem::new(BAD_REQUEST, why))?;
    let wire = route.wire().unwrap_or(named);
    let translation = front.translate(text, dialect, route.model(), wire).map_err(|error| Problem::new(BAD_REQUEST, error))?;
    let sent = translated(arrival, &caller, dialect, &translation);
    let Sent { passing, told } = send(app, &caller, &sent, route, level, None).await?;
    let mut response = if (200..300).contains(&passing.status()) {
        let id = new_session_id().unwrap_or_else(|_| now_ms().to_string());
        let (form, _) = passing.form();
        let translator = AnswerTranslator::new(front, dialect, form, &translation, (&id, named), now_ms() / 1000);
        if translation.stream { streamed(passing, translator) } else { whole(passing, translator).await? }
    } else {
        refused(passing, front).await?
    };
    for (name, value) in told {
        tell(response.headers_mut(), name, &value);
    }
    tell(response.headers_mut(), "translated", &format!("{} to {}", front.as_str(), dialect));
    tell(response.headers_mut(), "ignored", &translation.ignored.join(","));
    Ok(response)
}

/// How many tokens a request has, as far as that can be told without asking its provider.
pub(crate) fn count(arrival: &Arrival, (route, front, dialect): (&Route, ClientApi, Dialect)) -> Result<Response, Problem> {
    let text = arrival.text().map_err(|why| Problem::new(BAD_REQUEST, why))?;
    let translation = front.translate(text, dialect, route.model(), &route.model().name);
    let body = translation.map_err(|error| Problem::new(BAD_REQUEST, error))?.body;
    let tokens = route.model().tokenizer.tokenizer().count(&body);
    let mut response = Json(json!({"input_tokens": tokens.0})).into_response();
    tell(response.headers_mut(), "reason", "counted here: the model's provider speaks another API");
    Ok(response)
}

/// Who asks, for a provider of another API: a key of its own is only used where it can be one of that provider.
fn for_dialect(caller: &Caller, dialect: Dialect) -> Result<Caller, Problem> {
    let Some(key) = caller.key() else { return Ok(caller.clone()) };
    let is_anthropic = key.expose().starts_with("sk-ant-");
    if is_anthropic == (dialect == Dialect::Anthropic) {
        return Ok(caller.clone());
    }
    match caller {
        Caller::Known(_) => Ok(Caller::Known(None)),
        Caller::OwnKey(_) => {
            Err(Problem::new(NO_TOKEN, format!("this key is not one of the model's provider; {}", crate::caller::GATEWAY_HELP)))
        }
    }
}

/// A request as it is sent on.
fn translated(arrival: &Arrival, caller: &Caller, dialect: Dialect, translation: &Translation) -> Arrival {
    let path = match dialect {
        Dialect::Anthropic => "messages",
        Dialect::OpenAiResponses => "responses",
        Dialect::OpenAiChat | Dialect::LlamaCpp | Dialect::Gemini => "chat/completions",
    };
    let front = match dialect {
        Dialect::Anthropic => ClientApi::Messages,
        Dialect::OpenAiResponses => ClientApi::Responses,
        Dialect::OpenAiChat | Dialect::LlamaCpp | Dialect::Gemini => ClientApi::Chat,
    };
    let endpoint = Endpoint { family: family(front), kind: Kind::ClientApi(front), path: path.to_owned(), model: None };
    let mut headers: HeaderMap = HeaderMap::with_capacity(arrival.headers.len());
    for (name, value) in &arrival.headers {
        let text = value.to_str().unwrap_or_default();
        // The key goes out as this provider wants it.
        let is_key = caller.key().is_some_and(|key| text == key.expose() || text.ends_with(&format!(" {}", key.expose())));
        if !is_key && !OF_ITS_API.contains(&name.as_str()) && !name.as_str().starts_with("x-stainless-") {
            headers.append(name, value.clone());
        }
    }
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let body = Bytes::from(translation.body.clone());
    Arrival::new(http::Method::POST, endpoint, None, headers, body, usize::MAX)
}

/// The head of an answer, without what only its body as it came had.
fn head(passing: &Passing, kind: &'static str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(passing.status()).unwrap_or(StatusCode::BAD_GATEWAY);
    for (name, value) in passing.headers() {
        if ![header::CONTENT_LENGTH, header::CONTENT_TYPE, header::CONTENT_ENCODING].contains(&name) {
            response.headers_mut().append(name, value);
        }
    }
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A refusal in the client's words, with the provider's status.
async fn refused(mut passing: Passing, front: ClientApi) -> Result<Response, Problem> {
    let mut response = head(&passing, "application/json");
    let mut bytes = Vec::new();
    while let Some(more) = passing.next().await? {
        bytes.extend_from_slice(&more[..more.len().min(LONGEST_REFUSAL - bytes.len())]);
    }
    let status = passing.status();
    passing.end();
    let refusal = Refusal::read(status, &bytes);
    *response.body_mut() = Body::from(front.error(status, &refusal.message).to_string());
    Ok(response)
}

/// An answer in one piece.
async fn whole(mut passing: Passing, mut translator: AnswerTranslator) -> Result<Response, Problem> {
    let mut response = head(&passing, "application/json");
    let read = async {
        while let Some(bytes) = passing.next().await? {
            translator.push(&bytes).map_err(|error| Problem::new(NO_ANSWER, error))?;
        }
        translator.whole().map_err(|error| Problem::new(NO_ANSWER, error))
    };
    let read: Result<_, Problem> = read.await;
    passing.end();
    *response.body_mut() = Body::from(read?.to_string());
    Ok(response)
}

/// An answer as it comes.
fn streamed(passing: Passing, translator: AnswerTranslator) -> Response {
    let mut response = head(&passing, "text/event-stream");
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    let (sender, receiver) = mpsc::channel(WAITING);
    *response.body_mut() = Body::new(Piped(receiver));
    tokio::spawn(pump(passing, translator, sender));
    response
}

async fn pump(mut passing: Passing, mut translator: AnswerTranslator, sender: mpsc::Sender<io::Result<Bytes>>) {
    loop {
        let next = tokio::select! {
            next = passing.next() => next,
            () = sender.closed() => break,
            () = tokio::time::sleep(QUIET) => {
                let _ = sender.send(Ok(Bytes::from_static(translator.ping().as_bytes()))).await;
                continue;
            }
        };
        let (frames, is_over) = match next {
            Ok(Some(bytes)) => match translator.push(&bytes) {
                Ok(frames) => (frames, false),
                Err(error) => (translator.failed(NO_ANSWER.0.as_u16(), &error.to_string()), true),
            },
            Ok(None) => match translator.finish() {
                Ok(frames) => (frames, true),
                Err(error) => (translator.failed(NO_ANSWER.0.as_u16(), &error.to_string()), true),
            },
            // An answer that broke off must not look whole.
            Err(error) => {
                let _ = sender.send(Err(io::Error::other(error))).await;
                break;
            }
        };
        let is_gone = !frames.is_empty() && sender.send(Ok(Bytes::from(frames))).await.is_err();
        if is_over || is_gone {
            break;
        }
    }
    passing.end();
}
