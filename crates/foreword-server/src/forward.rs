//! What the gateway passes on untouched: bytes go to the provider as they came, and its answer comes back as it comes. Only the key is
//! ours, where the client brings none of its own.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use foreword_engine::config::Chosen;
use foreword_engine::gateway::{Forwarder, Front, Given, NotUnderstood, Passing, Route, SendError, model_of};
use hyper::body::Frame;
use tokio::sync::mpsc;

use crate::app::App;
use crate::caller::Caller;
use crate::clock::now_ms;
use crate::problem::{BAD_REQUEST, NO_ANSWER, NO_TOKEN, Problem};

/// Pieces of an answer that wait for a slow client.
const WAITING: usize = 16;

/// How long the last bytes of an answer that broke off have to go out.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_millis(100);

/// The longest name of a session.
const LONGEST_NAME: usize = 64;

/// Passes a request on. `why` says what of it was not understood, where it was read.
pub(crate) async fn forward(
    app: &Arc<App>,
    front: Front,
    (caller, headers): (&Caller, &HeaderMap),
    body: Bytes,
    why: Option<&NotUnderstood>,
) -> Result<Response, Problem> {
    let name = model_of(&body).map_err(|error| Problem::new(BAD_REQUEST, why.map_or(error, ToString::to_string)))?;
    let route = route(app, &name)?;
    may_use(app, caller, &route)?;
    if let Err(reason) = takes(app, &route, front) {
        let not_understood = why.map(|why| format!("{why}. ")).unwrap_or_default();
        return Err(Problem::new(BAD_REQUEST, format!("{not_understood}It could not be passed on untouched either: {reason}")));
    }
    let session = session(headers)?;
    if let Some(session) = &session {
        app.gateway.owners.may_name(caller, session)?;
    }
    let key = caller.key().cloned();
    let given = Given { front, body, headers: headers.clone(), key, session: session.clone() };
    let passing = forwarder(app).forward(&route, given, now_ms()).await?;
    let (sender, receiver) = mpsc::channel(WAITING);
    let mut response = Response::new(Body::new(Piped(receiver)));
    *response.status_mut() = StatusCode::from_u16(passing.status()).unwrap_or(StatusCode::BAD_GATEWAY);
    response.headers_mut().extend(passing.headers());
    let is_stored = stored(passing.unrecorded().is_none());
    let told = [
        ("mode", Some("forwarded")),
        ("session", session.as_deref()),
        ("stored", Some(is_stored)),
        ("unrecorded", passing.unrecorded()),
    ];
    for (name, value) in told {
        tell(response.headers_mut(), name, value.unwrap_or_default());
    }
    tokio::spawn(pump(passing, sender));
    Ok(response)
}

/// Adds a header of ours, where there is something to tell.
pub(crate) fn tell(headers: &mut HeaderMap, name: &str, value: &str) {
    let named = HeaderName::try_from(format!("x-foreword-{name}"));
    if let (false, Ok(name), Ok(value)) = (value.is_empty(), named, HeaderValue::try_from(value)) {
        headers.insert(name, value);
    }
}

/// What `x-foreword-stored` says.
pub(crate) fn stored(is_stored: bool) -> &'static str {
    if is_stored { "yes" } else { "no" }
}

/// Whether requests for that model in that API can be passed on.
pub(crate) fn can(app: &App, front: Front, model: &str) -> bool {
    route(app, model).is_ok_and(|route| takes(app, &route, front).is_ok())
}

fn forwarder(app: &App) -> &Forwarder {
    &app.gateway.forwarder
}

/// Where the requests for a model go.
pub(crate) fn route(app: &App, name: &str) -> Result<Arc<Route>, Problem> {
    let answers = &app.config.answers;
    forwarder(app).route(name, &answers.config, |name| {
        let Chosen { model, client, .. } = answers.choose(name)?;
        Ok((model, client.map(|config| app.common.client(config)).transpose()?))
    })
}

fn takes(app: &App, route: &Route, front: Front) -> Result<(), String> {
    match app.config.answers.script {
        Some(_) => Err("answers come from a script here".to_owned()),
        None => route.takes(front),
    }
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

/// Whether a caller may use a route: who brings nothing but a provider's key uses nothing else.
pub(crate) fn may_use(app: &App, caller: &Caller, route: &Route) -> Result<(), Problem> {
    if app.config.answers.script.is_some() {
        return caller.needs_our_key("a server that answers from a script");
    }
    match route.client() {
        None => caller.needs_our_key(&format!("the model {}, which runs on this machine,", route.model().name)),
        Some(client) if client.is_opened_by_key_alone() => Ok(()),
        Some(_) => caller.needs_our_key(&format!("the provider of {} as it is configured here", route.model().name)),
    }
}

/// Hands an answer on until its end, or until nobody wants more of it.
async fn pump(mut passing: Passing, sender: mpsc::Sender<io::Result<Bytes>>) {
    loop {
        let next = tokio::select! {
            next = passing.next() => next,
            () = sender.closed() => break,
        };
        let piece = match next {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => break,
            // An answer that broke off must not look whole; what came before goes out first, since the connection ends with it.
            Err(error) => {
                tokio::time::sleep(LAST_WORDS).await;
                Err(io::Error::other(error))
            }
        };
        let broke = piece.is_err();
        if sender.send(piece).await.is_err() || broke {
            break;
        }
    }
    passing.end();
}

/// A body that is written elsewhere and may break off.
struct Piped(mpsc::Receiver<io::Result<Bytes>>);

impl hyper::body::Body for Piped {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

impl From<SendError> for Problem {
    fn from(error: SendError) -> Self {
        // Another try would not find a key either.
        let kind = if matches!(error, SendError::Key(_)) { NO_TOKEN } else { NO_ANSWER };
        Self::new(kind, error)
    }
}
