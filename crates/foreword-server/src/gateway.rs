//! The gateway under `/v1`: clients that speak to OpenAI or Anthropic speak to it as they are, and get sessions: recognised, budgeted,
//! cached and on record.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use foreword_engine::gateway::{Asked, End, Front, Memory, Plan, Teller, Told, setup};
use foreword_engine::session::{Event, FoldReason, Fork, Relayed, Sqlite, Store as _, fork, new_session_id};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::actor::Desk;
use crate::app::{App, blocking};
use crate::clock::now_ms;
use crate::hub::Running;
use crate::problem::{BAD_REQUEST, Problem, TOO_LARGE};
use crate::sse;

/// What is known of conversations.
#[derive(Default)]
pub(crate) struct Gateway {
    memory: Mutex<Memory>,
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
}

/// How an answer goes back to its client.
enum Back {
    /// As it comes.
    Stream(mpsc::Sender<Bytes>),
    /// When it is whole.
    Whole(oneshot::Sender<Value>),
}

async fn serve(
    app: &Arc<App>,
    front: Front,
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let body = body.map_err(|rejection| Problem::new(TOO_LARGE, rejection.body_text()))?;
    let value: Value =
        serde_json::from_slice(&body).map_err(|error| Problem::new(BAD_REQUEST, format!("the body is not JSON: {error}")))?;
    let asked = front.read(&value).map_err(|error| Problem::new(BAD_REQUEST, error))?;
    let Prepared { session, inputs, line } = prepare(app, headers, &asked).await?;
    let running = line.begin().ok_or_else(|| crate::hub::answering(&session))?;
    let (start, first) = oneshot::channel();
    let (whole, answer) = oneshot::channel();
    let (back, response) = if asked.stream {
        let (sender, response) = sse::stream();
        (Back::Stream(sender), Some(response))
    } else {
        (Back::Whole(whole), None)
    };
    let ignored = asked.extra.keys().map(String::as_str).collect::<Vec<_>>().join(",");
    let relay = Relay { app: Arc::clone(app), front, asked, session: session.clone(), begin: Some(start), back };
    app.hub.post(&session, Box::new(move |desk| relay.run(desk, inputs, running)))?;
    let begun = first.await.unwrap_or_else(|_| Err(crate::hub::ended()))?;
    let mut reply = match response {
        Some(response) => response,
        None => Json(answer.await.map_err(|_| crate::hub::ended())?).into_response(),
    };
    let fold = begun.fold.unwrap_or("none").to_owned();
    // Fields that mean something to a provider and nothing here are told, not swallowed.
    let told = [("session", begun.session), ("tokens", begun.tokens.to_string()), ("fold", fold), ("ignored", ignored)];
    for (name, value) in told.into_iter().filter(|(_, value)| !value.is_empty()) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(format!("x-foreword-{name}")), HeaderValue::try_from(value)) {
            reply.headers_mut().insert(name, value);
        }
    }
    Ok(reply)
}

/// A session that is ready to be told something.
struct Prepared {
    session: String,
    inputs: Vec<foreword_engine::session::Input>,
    line: crate::hub::Line,
}

/// Finds the session that a request belongs to, or begins one.
async fn prepare(app: &Arc<App>, headers: &HeaderMap, asked: &Asked) -> Result<Prepared, Problem> {
    let named = headers.get("x-foreword-session").and_then(|value| value.to_str().ok()).map(str::to_owned);
    // An answer's name tells its session: `resp_SESSION-REQUEST`.
    let previous =
        asked.previous.as_deref().map(|id| id.trim_start_matches("resp_").split('-').next().unwrap_or_default().to_owned());
    let named = named.or(previous);
    if let Some(session) = &named {
        let session = session.clone();
        app.common.with_store(move |store: &mut Sqlite| Ok(store.session(&session).map(drop)?)).await?;
    }
    let is_free = |session: &str| app.hub.known(session).is_none_or(|line| !line.running.load(Ordering::Acquire));
    let plan = {
        let memory = app.gateway.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.plan(asked, named.as_deref(), &is_free).map_err(|error| Problem::new(BAD_REQUEST, error))?
    };
    let (session, inputs) = match plan {
        Plan::Continue(session, inputs) => (session, inputs),
        Plan::Fork(parent, turns, inputs) => {
            let new = Fork { id: new_session_id()?, title: None, created_ms: now_ms() };
            let id = new.id.clone();
            app.common.with_store(move |store| Ok(fork(store, &parent, turns, &new)?)).await?;
            (id, inputs)
        }
        Plan::Begin(past, inputs) => {
            let id = new_session_id()?;
            let (common, asked, named) = (Arc::clone(&app.common), asked.clone(), id.clone());
            let begin = move || {
                // A client that must name a model and does not care.
                let model = Some(asked.model.as_str()).filter(|model| !matches!(*model, "foreword" | "default"));
                let chosen = common.config.answers.choose(model)?;
                let setup = setup(&named, &asked, chosen.model, &common.config.places.models);
                Ok((foreword_engine::gateway::agent(&asked), setup))
            };
            let (agent, setup) = blocking(begin).await?;
            app.hub
                .ask(&id, move |desk| {
                    desk.begin_apart(&agent, &setup)?;
                    if !past.is_empty() {
                        desk.kept()?.import(past, now_ms())?;
                    }
                    Ok(())
                })
                .await?;
            (id, inputs)
        }
    };
    let line = app.hub.line(&session)?;
    Ok(Prepared { session, inputs, line })
}

/// One answer on its way.
struct Relay {
    app: Arc<App>,
    front: Front,
    asked: Asked,
    session: String,
    begin: Option<oneshot::Sender<Result<Begun, Problem>>>,
    back: Back,
}

impl Relay {
    /// Runs on the session's thread.
    fn run(mut self, desk: &mut Desk, mut inputs: Vec<foreword_engine::session::Input>, running: Running) {
        let mut told = Begun { session: self.session.clone(), ..Begun::default() };
        let created = now_ms() / 1000;
        let mut teller = None;
        let outcome = self.relay(desk, &mut inputs, &mut told, &mut teller, created);
        let turns = desk.kept().map(|kept| kept.session().turns() as u64).unwrap_or_default();
        if let Ok(Some(reply)) = &outcome {
            let mut memory = self.app.gateway.memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory.remember(&self.asked, &reply.text, &reply.calls, &self.session, turns);
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
        inputs: &mut Vec<foreword_engine::session::Input>,
        told: &mut Begun,
        teller: &mut Option<Teller>,
        created_s: i64,
    ) -> Result<Option<Relayed>, Problem> {
        let stop = desk.stop();
        stop.store(false, Ordering::Relaxed);
        let agent = foreword_engine::gateway::agent(&self.asked);
        if *desk.kept()?.session().agent() != agent && self.asked.previous.is_none() {
            inputs.insert(0, foreword_engine::session::Input::Agent(Box::new(agent)));
        }
        let inputs = std::mem::take(inputs);
        desk.relay(inputs, &mut |event| match event {
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
        let usage = reply.usage.as_ref();
        let answer = Told {
            text: &reply.text,
            calls: &reply.calls,
            end,
            cached: usage.map_or((0, 0), |usage| (usage.read, usage.write)),
            prompt: usage.map_or(told.tokens, |usage| usage.read + usage.write + usage.uncached),
            output: usage.map_or(0, |usage| usage.output),
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
                let _ = whole.send(teller.whole(&answer));
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
