//! The gateway under `/v1`: clients that speak to OpenAI or Anthropic speak to it as they are, and get sessions: recognised, budgeted,
//! cached and on record.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use foreword_engine::gateway::{
    Asked, Chain, End, Forwarder, Front, Memory, NotUnderstood, Plan, Teller, Told, along, session_of, setup,
};
use foreword_engine::session::{
    Event, FoldReason, Fork, Input, Line as Past, Manner, Relayed, Setup, Shared, Sqlite, Store as _, StoreError, fork,
    new_session_id,
};
use foreword_engine::vault::Agent;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::actor::Desk;
use crate::app::App;
use crate::clock::now_ms;
use crate::config::GatewayMode;
use crate::forward::{self, forward, tell};
use crate::hub::Running;
use crate::problem::{BAD_REQUEST, Problem, TOO_LARGE};
use crate::sse;

/// What is known of conversations, and the way on for what is not carried by a session.
pub(crate) struct Gateway {
    memory: Mutex<Memory>,
    pub(crate) forwarder: Forwarder,
}

impl Gateway {
    /// With a store to record what is passed on.
    pub(crate) fn new(store: &Shared) -> Self {
        Self { memory: Mutex::default(), forwarder: Forwarder::new(store) }
    }
}

/// The routes of the gateway.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let ask = |front: Front| {
        post(move |State(app): State<Arc<App>>, headers: HeaderMap, body: Result<Bytes, BytesRejection>| async move {
            serve(&app, front, &headers, body).await.unwrap_or_else(|problem| {
                let body = front.error(problem.status, &problem.detail);
                (problem.status(), Json(body)).into_response()
            })
        })
    };
    Router::new()
        .route("/v1/chat/completions", ask(Front::Chat))
        .route("/v1/responses", ask(Front::Responses))
        .route("/v1/messages", ask(Front::Messages))
        .route("/v1/models", get(models))
        .with_state(Arc::clone(app))
}

#[allow(clippy::unused_async)] // a handler is a future
async fn models(State(app): State<Arc<App>>) -> Json<Value> {
    let model = |listed: foreword_engine::config::Listed| {
        let name = listed.model.name;
        json!({"id": name, "object": "model", "type": "model", "created": 0, "owned_by": listed.provider.unwrap_or_else(|| "foreword".to_owned()), "display_name": name})
    };
    let answers = &app.config.answers;
    let all: Vec<Value> = answers.config.models(&answers.is_set).into_iter().filter(|listed| listed.has_key).map(model).collect();
    Json(json!({"object": "list", "data": all, "has_more": false}))
}

/// What is known of an answer when it begins.
#[derive(Clone, Debug, Default)]
struct Begun {
    session: String,
    tokens: u64,
    fold: Option<&'static str>,
    /// Fields that mean something to a provider and were not passed on: they are told, not swallowed.
    ignored: String,
}

/// How an answer goes back to its client.
enum Back {
    /// As it comes.
    Stream(mpsc::Sender<Bytes>),
    /// When it is whole.
    Whole(oneshot::Sender<Whole>),
}

/// A whole answer, and how many tokens of its prompt came from a cache.
struct Whole {
    body: Value,
    cached: u64,
}

/// Names of fields that are told as ignored; a client can send any number of any size.
const IGNORED: usize = 32;

/// What is to become of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// A session, where it is understood.
    Either,
    /// A session, or nothing.
    Session,
    /// To be passed on.
    PassThrough,
}

impl Wanted {
    fn read(headers: &HeaderMap, usual: GatewayMode) -> Result<Self, Problem> {
        match (headers.get("x-foreword-mode").map(HeaderValue::as_bytes), usual) {
            (None, GatewayMode::Session) => Ok(Self::Either),
            (None, GatewayMode::PassThrough) | (Some(b"pass-through"), _) => Ok(Self::PassThrough),
            (Some(b"session"), _) => Ok(Self::Session),
            (Some(_), _) => Err(Problem::new(BAD_REQUEST, "x-foreword-mode: it can be `session` or `pass-through`")),
        }
    }
}

/// Why a request is not carried by a session.
enum Unserved {
    NotUnderstood(NotUnderstood),
    Problem(Problem),
}

impl From<NotUnderstood> for Unserved {
    fn from(error: NotUnderstood) -> Self {
        Self::NotUnderstood(error)
    }
}

impl From<Problem> for Unserved {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<StoreError> for Unserved {
    fn from(error: StoreError) -> Self {
        Self::Problem(error.into())
    }
}

async fn serve(
    app: &Arc<App>,
    front: Front,
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let body = body.map_err(|rejection| Problem::new(TOO_LARGE, rejection.body_text()))?;
    let wanted = Wanted::read(headers, app.config.gateway)?;
    if wanted == Wanted::PassThrough {
        return forward(app, front, headers, body, None).await;
    }
    let value: Value =
        serde_json::from_slice(&body).map_err(|error| Problem::new(BAD_REQUEST, format!("the body is not JSON: {error}")))?;
    let served = match front.read(value) {
        // Whoever sets marks or asks for what is not out yet has laid its prompt out for this provider: it stays as it is.
        Ok(asked)
            if wanted == Wanted::Either && is_laid_out(front, headers, &asked) && forward::can(app, front, &asked.model) =>
        {
            return forward(app, front, headers, body, None).await;
        }
        Ok(asked) => carry(app, front, headers, asked).await,
        Err(error) => Err(error.into()),
    };
    match served {
        Ok(response) => Ok(response),
        Err(Unserved::Problem(problem)) => Err(problem),
        Err(Unserved::NotUnderstood(error)) if wanted == Wanted::Session => Err(Problem::new(BAD_REQUEST, error)),
        Err(Unserved::NotUnderstood(error)) => forward(app, front, headers, body, Some(&error)).await,
    }
}

/// Whether a client of Anthropic's has laid its prompt out itself.
fn is_laid_out(front: Front, headers: &HeaderMap, asked: &Asked) -> bool {
    front == Front::Messages && (asked.marked || headers.contains_key("anthropic-beta"))
}

/// Carries a request by a session.
async fn carry(app: &Arc<App>, front: Front, headers: &HeaderMap, asked: Asked) -> Result<Response, Unserved> {
    let chain = Chain::of(&asked);
    let Prepared { session, begin, inputs, line } = prepare(app, headers, &asked, &chain).await?;
    let running = line.begin().ok_or_else(|| crate::hub::answering(&session))?;
    let (start, first) = oneshot::channel();
    let (whole, answer) = oneshot::channel();
    let (back, response) = if asked.stream {
        let (sender, response) = sse::stream();
        (Back::Stream(sender), Some(response))
    } else {
        (Back::Whole(whole), None)
    };
    let relay = Relay { app: Arc::clone(app), front, asked, chain, session: session.clone(), begin: Some(start), back };
    app.hub.post(&session, Box::new(move |desk| relay.run(desk, begin, inputs, running)))?;
    let begun = first.await.unwrap_or_else(|_| Err(crate::hub::ended()))?;
    // What a stream used is told at its end.
    let (mut reply, cached) = if let Some(response) = response {
        (response, None)
    } else {
        let whole = answer.await.map_err(|_| crate::hub::ended())?;
        (Json(whole.body).into_response(), Some(whole.cached.to_string()))
    };
    let told = [
        ("session", begun.session),
        ("tokens", begun.tokens.to_string()),
        ("cached", cached.unwrap_or_default()),
        ("fold", begun.fold.unwrap_or("none").to_owned()),
        ("ignored", begun.ignored),
    ];
    for (name, value) in told {
        tell(reply.headers_mut(), name, &value);
    }
    Ok(reply)
}

/// A session that is ready to be told something.
struct Prepared {
    session: String,
    /// Where it is a new one: how it begins.
    begin: Option<Begin>,
    inputs: Vec<Input>,
    line: crate::hub::Line,
}

/// How a session of a client begins: its agent, its settings, and what was said before.
struct Begin {
    agent: Agent,
    setup: Setup,
    past: Vec<Past>,
}

/// Finds the session that a request belongs to, or what it begins with.
async fn prepare(app: &Arc<App>, headers: &HeaderMap, asked: &Asked, chain: &Chain) -> Result<Prepared, Unserved> {
    let mut named = forward::session(headers)?;
    if let Some(previous) = &asked.previous {
        let unknown = || NotUnderstood {
            place: "previous_response_id".to_owned(),
            what: "it names no answer of a session here".to_owned(),
        };
        named = named.or(Some(session_of(previous).ok_or_else(unknown)?.to_owned()));
    }
    if let Some(session) = &named {
        let session = session.clone();
        app.common.with_store(move |store: &mut Sqlite| Ok(store.session(&session).map(drop)?)).await?;
    }
    let is_free = |session: &str| app.hub.known(session).is_none_or(|line| !line.running.load(Ordering::Acquire));
    let plan = {
        let memory = app.gateway.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.plan(asked, chain, named.as_deref(), &is_free)?
    };
    let (session, begin, inputs) = match plan {
        Plan::Continue(session, inputs) => (session, None, inputs),
        Plan::Fork(parent, turns, inputs) => {
            let new = Fork { id: new_session_id()?, title: None, created_ms: now_ms() };
            let id = new.id.clone();
            app.common.with_store(move |store| Ok(fork(store, &parent, turns, &new)?)).await?;
            (id, None, inputs)
        }
        Plan::Begin(past, inputs) => {
            let id = new_session_id()?;
            let route = forward::route(app, &asked.model)?;
            let setup = setup(&id, asked, route.model().clone(), &app.config.places.models);
            (id, Some(Begin { agent: foreword_engine::gateway::agent(asked), setup, past }), inputs)
        }
    };
    let line = app.hub.line(&session)?;
    Ok(Prepared { session, begin, inputs, line })
}

/// One answer on its way.
struct Relay {
    app: Arc<App>,
    front: Front,
    asked: Asked,
    chain: Chain,
    session: String,
    begin: Option<oneshot::Sender<Result<Begun, Problem>>>,
    back: Back,
}

impl Relay {
    /// Runs on the session's thread.
    fn run(mut self, desk: &mut Desk, begin: Option<Begin>, mut inputs: Vec<Input>, running: Running) {
        let mut told = Begun { session: self.session.clone(), ..Begun::default() };
        let created = now_ms() / 1000;
        let mut teller = None;
        let ready = begin.map_or(Ok(()), |Begin { agent, setup, past }| desk.begin_apart(&agent, &setup, past));
        if ready.is_err() {
            // There is no such session.
            self.app.hub.forget(&self.session);
        }
        let outcome = ready.and_then(|()| self.relay(desk, &mut inputs, &mut told, &mut teller, created));
        if let Ok(Some(reply)) = &outcome {
            let turns = desk.kept().map(|kept| kept.session().turns() as u64).unwrap_or_default();
            let mut memory = self.app.gateway.memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory.remember(&self.chain, &reply.text, &reply.calls, &self.session, turns);
        }
        // Whoever has the answer may go on at once.
        drop(running);
        match outcome {
            Ok(Some(reply)) => {
                let mut teller = teller.unwrap_or_else(|| self.teller("0", created));
                self.finish(&reply, &told, &mut teller);
            }
            Ok(None) => self.fail(Problem::new(BAD_REQUEST, "there was nothing to answer"), teller),
            Err(problem) => self.fail(problem, teller),
        }
    }

    fn teller(&self, request: &str, created_s: i64) -> Teller {
        Teller::new(self.front, &format!("{}-{request}", self.session), &self.asked.model, created_s, self.asked.usage)
    }

    fn relay(
        &mut self,
        desk: &mut Desk,
        inputs: &mut Vec<Input>,
        told: &mut Begun,
        teller: &mut Option<Teller>,
        created_s: i64,
    ) -> Result<Option<Relayed>, Problem> {
        let stop = desk.stop();
        stop.store(false, Ordering::Relaxed);
        let agent = foreword_engine::gateway::agent(&self.asked);
        let along = along(self.front, desk.kept()?.setup(), &self.asked.extra);
        let plain = |name: &&str| name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
        let names = along.ignored.iter().map(String::as_str).filter(plain);
        told.ignored = names.take(IGNORED).collect::<Vec<_>>().join(",");
        if *desk.kept()?.session().agent() != agent && self.asked.previous.is_none() {
            inputs.insert(0, Input::Agent(Box::new(agent)));
        }
        let inputs = std::mem::take(inputs);
        let manner = Manner { extra: along.fields, stream: self.asked.stream };
        desk.relay(inputs, manner, &mut |event| match event {
            Event::Request(outgoing) => {
                (told.tokens, told.fold) = (outgoing.envelope.tokens.0, outgoing.envelope.began.map(FoldReason::as_str));
                *teller = Some(self.teller(&outgoing.number.to_string(), created_s));
            }
            Event::Part(text) => {
                let Some(teller) = teller else { return };
                let mut frames = String::new();
                if let Some(begin) = self.begin.take() {
                    let _ = begin.send(Ok(told.clone()));
                    frames = teller.begin(told.tokens);
                }
                if let Back::Stream(sender) = &self.back {
                    frames += &teller.part(text);
                    if sender.blocking_send(Bytes::from(frames)).is_err() {
                        // The client is gone: what was said until now is kept.
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            }
            _ => {}
        })
    }

    fn finish(self, reply: &Relayed, told: &Begun, teller: &mut Teller) {
        let end = match (reply.cut_off, reply.calls.is_empty()) {
            (true, _) => End::Cut,
            (false, false) => End::Calls,
            (false, true) => End::Done,
        };
        let usage = &reply.usage;
        let answer = Told {
            text: &reply.text,
            calls: &reply.calls,
            end,
            cached: (usage.read, usage.write),
            prompt: usage.read + usage.write + usage.uncached,
            output: usage.output,
        };
        let mut frames = String::new();
        if let Some(begin) = self.begin {
            let _ = begin.send(Ok(told.clone()));
            frames = teller.begin(told.tokens);
        }
        // Whoever asked may be gone; the answer is kept.
        match self.back {
            Back::Stream(sender) => {
                let _ = sender.blocking_send(Bytes::from(frames + &teller.end(&answer)));
            }
            Back::Whole(whole) => {
                let _ = whole.send(Whole { body: teller.whole(&answer), cached: answer.cached.0 });
            }
        }
    }

    fn fail(self, problem: Problem, teller: Option<Teller>) {
        match (self.begin, self.back, teller) {
            (Some(begin), ..) => {
                let _ = begin.send(Err(problem));
            }
            (None, Back::Stream(sender), Some(mut teller)) => {
                let _ = sender.blocking_send(Bytes::from(teller.failed(problem.status, &problem.detail)));
            }
            _ => {}
        }
    }
}
