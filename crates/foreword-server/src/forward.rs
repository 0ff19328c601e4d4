//! What the gateway passes on: bytes go to the provider as they came, at `assist` with cache control added, and its answer comes back as it
//! comes. Only the key is ours, where the client brings none of its own.

use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use foreword_engine::config::Chosen;
use foreword_engine::session::{Store as _, new_session_id};
use foreword_gateway::{
    About, Additions, Conversation, Endpoint, Family, Forwarder, Given, Kind, Passing, Payer, Recognised, Recorded, Route,
    Secret, SendError, Verdict, Way, plan_additions, renamed,
};
use hyper::body::Frame;
use tokio::sync::mpsc;

use crate::app::App;
use crate::arrival::Arrival;
use crate::caller::Caller;
use crate::clock::now_ms;
use crate::problem::{BAD_REQUEST, NO_ANSWER, NO_TOKEN, NOT_FROM_HERE, Problem, SPENT};
use foreword_engine::config::Level;

/// Pieces of an answer that wait for a slow client.
pub(crate) const WAITING: usize = 16;

/// How long the last bytes of an answer that broke off have to go out.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_millis(100);

/// Paths that an operator's key is not lent for: they are about its account.
const OF_THE_ACCOUNT: &str = "organization";

/// Sessions from before a restart that are recognised again, the newest first.
const RESTORED: usize = 500;

/// Requests among which those are looked for.
const LOOKED_AT: usize = 20_000;

/// Bytes of their bodies.
const RESTORED_BYTES: usize = 64 << 20;

/// A request that is on its way, and what its client is told of it.
pub(crate) struct Sent {
    pub(crate) passing: Passing,
    pub(crate) told: Vec<(&'static str, String)>,
}

/// Passes a request on at a level. `why` says why it is not carried by a session, where its client asked for one.
pub(crate) async fn pass(
    app: &Arc<App>,
    caller: &Caller,
    arrival: &Arrival,
    route: &Route,
    level: Level,
    why: Option<&str>,
) -> Result<Response, Problem> {
    Ok(handed_on(send(app, caller, arrival, route, level, why).await?))
}

/// Sends a request on at a level.
pub(crate) async fn send(
    app: &Arc<App>,
    caller: &Caller,
    arrival: &Arrival,
    route: &Route,
    level: Level,
    why: Option<&str>,
) -> Result<Sent, Problem> {
    let endpoint = &arrival.endpoint;
    may_use(app, caller, route)?;
    if let Err(reason) = takes(app, route, endpoint.family) {
        let not_understood = why.map(|why| format!("{why}. ")).unwrap_or_default();
        return Err(Problem::new(BAD_REQUEST, format!("{not_understood}It could not be passed on untouched either: {reason}")));
    }
    let key = client_key(caller, route, endpoint)?;
    let names = arrival.names(caller)?;
    if let Some(session) = &names.session {
        app.gateway.owners.may_name(caller, session)?;
    }
    restore(app).await;
    let sessions = &forwarder(app).sessions;
    let at_ms = now_ms();
    // What it says, by the name that the provider has for its model.
    let renamed = match (arrival.plain(), route.wire()) {
        (Some(text), Some(wire)) if endpoint.model.is_none() => Some(renamed(text, wire)),
        _ => None,
    };
    let text = renamed.as_deref().map_or_else(|| arrival.text(), Ok);
    let conversation = endpoint.dialect().zip(text.ok()).and_then(|(dialect, text)| Conversation::read(dialect, text));
    let recognised = conversation.as_ref().map(|asked| sessions.recognise(&names, asked, at_ms, new_name));
    let session = recognised.as_ref().map(|found| found.session.clone()).or_else(|| sessions.named(&names));
    if let Some(session) = &session {
        app.gateway.owners.add(caller, session);
    }
    let key_name = Caller::key_name(&app.keys, &arrival.headers);
    let payer = Payer { session: session.clone(), key: key_name.clone(), at_ms };
    let verdict = forwarder(app).spending.verdict(&app.config.answers.config.limits, &payer);
    let warning = match verdict {
        // Looking at models or at what was answered costs nothing.
        Verdict::Refuse(why) if arrival.method != Method::POST => Some(why),
        Verdict::Refuse(why) => return Err(Problem::new(SPENT, why)),
        Verdict::Warn(why) => Some(why),
        Verdict::Fine => None,
    };
    let added = match (level, text, &conversation, &recognised) {
        (Level::Assist, Ok(text), Some(asked), Some(found)) => additions(arrival, route, (text, asked), found, at_ms),
        (Level::Assist, Err(why), ..) if endpoint.dialect().is_some() => Err(why),
        _ => Ok(Additions::default()),
    };
    let reason = why.map(str::to_owned).or_else(|| added.as_ref().err().map(|why| format!("nothing added: {why}")));
    let additions = added.unwrap_or_default();
    let (whole, added) = match text {
        Ok(text) if !additions.insertions.is_empty() => {
            let (whole, added) = additions.apply(text);
            (Some(whole), added)
        }
        _ => (renamed.clone(), Vec::new()),
    };
    let is_recorded = arrival.method == Method::POST && endpoint.kind != Kind::Models;
    let body = whole.as_deref().or(text.ok()).unwrap_or_default();
    let record = is_recorded.then(|| {
        let mut about = about(arrival, level, conversation.as_ref(), recognised.as_ref());
        about.named = names.client.clone().or(about.named);
        Recorded { session: session.clone(), body: body.to_owned(), about: About { key: key_name, added, ..about } }
    });
    let words = additions.words();
    let path = match (&endpoint.model, route.wire()) {
        (Some(model), Some(wire)) => arrival.path.replacen(model, wire, 1),
        _ => arrival.path.clone(),
    };
    let parent = recognised.as_ref().and_then(|found| found.parent.clone());
    let given = Given {
        endpoint: endpoint.clone(),
        method: arrival.method.clone(),
        path,
        body: whole.map_or_else(|| arrival.body.clone(), Bytes::from),
        headers: Caller::without_ours(&app.config.reach, &arrival.headers),
        key,
        record,
        recognised,
        additions,
    };
    let passing = forwarder(app).forward(route, given, at_ms).await?;
    let is_stored = is_recorded.then(|| stored(passing.unrecorded().is_none()));
    let told = vec![
        ("mode", "forwarded".to_owned()),
        ("level", level.as_str().to_owned()),
        ("session", session.unwrap_or_default()),
        ("parent", parent.unwrap_or_default()),
        ("added", words),
        ("reason", reason.unwrap_or_default()),
        ("spending", warning.unwrap_or_default()),
        ("stored", is_stored.unwrap_or_default().to_owned()),
        ("unrecorded", passing.unrecorded().unwrap_or_default().to_owned()),
    ];
    Ok(Sent { passing, told })
}

/// The key of its own with which a request goes out; none where ours does.
fn client_key(caller: &Caller, route: &Route, endpoint: &Endpoint) -> Result<Option<Secret>, Problem> {
    if let Some(key) = caller.key().filter(|_| route.takes_client_keys()) {
        return Ok(Some(key.clone()));
    }
    caller.needs_our_key("this provider, which takes no keys of clients,")?;
    if endpoint.path.split('/').next() == Some(OF_THE_ACCOUNT) {
        return Err(Problem::new(NOT_FROM_HERE, "this path is about the provider's account: use a key of your own for it"));
    }
    Ok(None)
}

/// What is added to a request at `assist`; or why nothing is.
fn additions(
    arrival: &Arrival,
    route: &Route,
    (text, asked): (&str, &Conversation),
    found: &Recognised,
    at_ms: i64,
) -> Result<Additions, &'static str> {
    if arrival.plain().is_none() {
        return Err("the body is packed");
    }
    if route.is_assumed() {
        return Err("the model is not known here");
    }
    let dialect = arrival.endpoint.dialect().ok_or("it is no conversation")?;
    plan_additions(dialect, route.model(), (text, asked), &found.before, (&found.session, found.rate, at_ms))
}

/// What is recorded of a request beside its bytes.
fn about(arrival: &Arrival, level: Level, asked: Option<&Conversation>, found: Option<&Recognised>) -> About {
    About {
        level: level.as_str().to_owned(),
        path: arrival.endpoint.path.clone(),
        client: arrival.client(),
        named: asked.and_then(|asked| asked.named.clone()),
        parent: found.and_then(|found| found.parent.clone()),
        how: found.map(|found| found.how.as_str().to_owned()),
        title: found.filter(|found| found.before.answered == 0).and(asked).and_then(|asked| asked.title.clone()),
        ..About::default()
    }
}

/// An answer on its way to the client.
fn handed_on(Sent { passing, told }: Sent) -> Response {
    let (sender, receiver) = mpsc::channel(WAITING);
    let mut response = Response::new(Body::new(Piped(receiver)));
    *response.status_mut() = StatusCode::from_u16(passing.status()).unwrap_or(StatusCode::BAD_GATEWAY);
    for (name, value) in passing.headers() {
        response.headers_mut().append(name, value);
    }
    for (name, value) in told {
        tell(response.headers_mut(), name, &value);
    }
    tokio::spawn(pump(passing, sender));
    response
}

fn new_name() -> String {
    // Without randomness there is still time.
    new_session_id().unwrap_or_else(|_| format!("at{}", now_ms()))
}

/// Reads what is needed to recognise sessions from before the server's start, once.
async fn restore(app: &Arc<App>) {
    let read = || async {
        let forwarder = Arc::clone(app);
        let read = app.common.with_store(move |store| {
            let rows = store.forwarded_before(None, LOOKED_AT)?;
            let Forwarder { sessions, spending, .. } = self::forwarder(&forwarder);
            spending.restore(&rows, now_ms());
            let (mut last, mut bytes) = (HashSet::new(), 0);
            let mut newest = Vec::new();
            for row in rows {
                let (Some(session), Some(front)) = (row.session.clone(), Endpoint::of_record(&row.front)) else { continue };
                if last.len() >= RESTORED || bytes > RESTORED_BYTES || !last.insert(session.clone()) {
                    continue;
                }
                let (body, about) = (store.forwarded_body(row.number)?, About::read(row.about.as_deref()));
                bytes += body.len();
                if let Some(asked) = Conversation::read(front, &body) {
                    newest.push((session, about, asked, row.at_ms));
                }
            }
            for (session, about, asked, at_ms) in newest.into_iter().rev() {
                sessions.restore(&session, about.parent.as_deref(), &asked, about.named.as_deref(), at_ms);
            }
            Ok(())
        });
        // Without the store, sessions begin anew.
        let _ = read.await;
    };
    app.gateway.restored.get_or_init(read).await;
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

fn forwarder(app: &App) -> &Forwarder {
    &app.gateway.forwarder
}

/// Where the requests for a model go.
pub(crate) fn route(app: &App, family: Family, name: &str) -> Result<Arc<Route>, Problem> {
    let answers = &app.config.answers;
    forwarder(app).route(family, name, &answers.config, |name| {
        let Chosen { model, client, level, is_assumed, client_keys } = answers.choose_for(family, name)?;
        let client = client.map(|config| app.common.client(config)).transpose()?;
        Ok(Way { model, client, level, is_assumed, client_keys })
    })
}

/// Whether requests in that API can be passed on; else why not.
pub(crate) fn takes(app: &App, route: &Route, family: Family) -> Result<(), String> {
    match app.config.answers.script {
        Some(_) => Err("answers come from a script here".to_owned()),
        None => route.takes_family(family),
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
pub(crate) struct Piped(pub(crate) mpsc::Receiver<io::Result<Bytes>>);

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
