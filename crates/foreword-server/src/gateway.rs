//! The gateway under `/v1` and `/v1beta`: clients that speak to OpenAI, Anthropic or Google speak to it as they are. What they send is passed
//! on (`forward`), or, at the level `manage`, carried by a session: budgeted, cached and on record.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Json, Router};
use foreword_engine::session::{
    BoxFuture, ChatModel, Client, ClientOptions, Ending, Event, FoldReason, Fork, Input, Line as Past, Outgoing,
    Progress as TurnProgress, Setup, Shared, Stopper, Store as _, StoreError, Turn as TurnOfClient, TurnError, TurnOutcome, fork,
    new_session_id, run_turn,
};
use foreword_engine::vault::Agent;
use foreword_gateway::{
    Asked, Chain, ClientApi, End, Endpoint, Family, FinishedAnswer as Answer, Forwarder, Kind, Memory, NotUnderstood, Plan,
    Refusal, ResponseWriter, manner, model_of, session_of, setup,
};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, mpsc, oneshot};

use crate::actor::{Locked, OpenSession, at, try_at};
use crate::answer::AnswerModel;
use crate::app::App;
use crate::arrival::{self, Arrival, read, session};
use crate::caller::Caller;
use crate::clock::now_ms;
use crate::forward::{self, pass, tell};
use crate::hub::Running;
use crate::owners::Owners;
use crate::problem::{BAD_REQUEST, Hearer, NO_ANSWER, NO_TOKEN, NOT_FOUND, Problem};
use crate::responses::Responses;
use crate::{sse, translated};
use foreword_engine::config::Level;

/// What is known of conversations, and the way on for what is not carried by a session.
pub(crate) struct Gateway {
    memory: Mutex<Memory>,
    pub(crate) forwarder: Forwarder,
    pub(crate) owners: Owners,
    responses: Responses,
    /// Set once what was known before the server's start is known again.
    pub(crate) restored: OnceCell<()>,
}

impl Gateway {
    /// With a store to record what is passed on.
    pub(crate) fn new(store: &Shared) -> Self {
        let (memory, owners, restored) = (Mutex::default(), Owners::default(), OnceCell::new());
        Self { memory, forwarder: Forwarder::new(store), owners, responses: Responses::default(), restored }
    }
}

/// The routes of the gateway: whatever a provider has under its version.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let any = any(|State(app): State<Arc<App>>, request: Request| async move {
        let hearer = Hearer::of(request.uri(), request.headers());
        arrive(&app, request).await.unwrap_or_else(|problem| hearer.told(problem))
    });
    Router::new().route("/v1/{*path}", any.clone()).route("/v1beta/{*path}", any).with_state(Arc::clone(app))
}

async fn arrive(app: &Arc<App>, request: Request) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    // Who may come in was let in by the guard.
    let caller = head.extensions.get::<Caller>().cloned().ok_or_else(|| Problem::new(NO_TOKEN, "this needs a key"))?;
    let is_anthropic = head.headers.contains_key("anthropic-version");
    let endpoint = Endpoint::of(head.method.as_str(), head.uri.path(), is_anthropic)
        .ok_or_else(|| Problem::new(NOT_FOUND, format!("there is nothing at {}", head.uri.path())))?;
    let limit = app.config.limits.gateway_body;
    let body = read(body, limit).await?;
    let arrival = Arrival::new(head.method, endpoint, head.uri.query(), head.headers, body, limit);
    serve(app, &caller, &arrival).await
}

/// The models that can be asked for here, or one of them; none where nobody here knows it.
fn models(app: &App, caller: &Caller, path: &str) -> Option<Response> {
    let model = |listed: foreword_engine::config::Listed| {
        let name = listed.model.name;
        json!({"id": name, "object": "model", "type": "model", "created": 0, "owned_by": listed.provider.unwrap_or_else(|| "foreword".to_owned()), "display_name": name})
    };
    let answers = &app.config.answers;
    let models = answers.config.models(&answers.is_set).into_iter();
    // Who has only its own key is not told which keys there are here.
    let mut all: Vec<Value> = match caller {
        Caller::Known(_) => models.filter(|listed| listed.has_key).map(model).collect(),
        Caller::OwnKey(_) => models.filter(|listed| listed.provider.is_some()).map(model).collect(),
    };
    let found = match path.strip_prefix("models/") {
        None => json!({"object": "list", "data": all, "has_more": false}),
        Some(name) => {
            let at = all.iter().position(|model| model["id"] == name)?;
            all.swap_remove(at)
        }
    };
    Some(Json(found).into_response())
}

/// What is known of an answer when it begins.
#[derive(Clone, Debug, Default)]
struct Begun {
    session: String,
    /// Whether the request was stored before it was sent; of a whole answer, whether that was stored too.
    stored: bool,
    tokens: u64,
    fold: Option<&'static str>,
    /// Fields that mean something to a provider and were not passed on: they are told, not swallowed.
    ignored: String,
}

/// What a client is told while it is answered.
struct Progress {
    begun: Begun,
    /// In the words of its API, once there is a request.
    teller: Option<ResponseWriter>,
    created_s: i64,
    /// Stops the answer.
    stopper: Stopper,
    /// What the provider said where it refused.
    refusal: Option<Refusal>,
}

impl Progress {
    fn new(session: &str) -> Self {
        let begun = Begun { session: session.to_owned(), ..Begun::default() };
        Self { begun, teller: None, created_s: now_ms() / 1000, stopper: Stopper::default(), refusal: None }
    }

    /// A request goes out.
    fn request(&mut self, relay: &Relay, outgoing: &Outgoing) {
        let envelope = &outgoing.envelope;
        (self.begun.tokens, self.begun.fold) = (envelope.tokens.0, envelope.began.map(FoldReason::as_str));
        self.teller = Some(relay.teller(&outgoing.number.to_string(), self.created_s));
    }
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

async fn serve(app: &Arc<App>, caller: &Caller, arrival: &Arrival) -> Result<Response, Problem> {
    let endpoint = &arrival.endpoint;
    if let Some(found) = app.gateway.responses.answer(caller, &arrival.method, &endpoint.path) {
        return found;
    }
    // Who brings a key of its own asks its provider; everyone else has the models of this server.
    if endpoint.kind == Kind::Models
        && endpoint.family != Family::Gemini
        && (caller.key().is_none() || app.config.answers.script.is_some())
        && let Some(models) = models(app, caller, &endpoint.path)
    {
        return Ok(models);
    }
    let named = match (&endpoint.model, arrival.text()) {
        (Some(model), _) => Ok(model.clone()),
        (None, Ok(text)) => model_of(text.as_bytes()),
        (None, Err(why)) => Err(why.to_owned()),
    };
    if app.config.answers.script.is_some() {
        // No provider will say what is wrong.
        if endpoint.front().is_none() {
            let what = format!("{} {} is for a provider, and answers come from a script here", arrival.method, endpoint.path);
            return Err(Problem::new(NOT_FOUND, what));
        }
        named.as_ref().map_err(|why| Problem::new(BAD_REQUEST, why))?;
    }
    let route = forward::route(app, endpoint.family, named.as_deref().unwrap_or(NO_MODEL))?;
    let wanted = arrival::level(app, arrival, route.level())?;
    let here = forward::takes(app, &route, endpoint.family);
    // A model of another API: the request is translated, unless a session is asked for.
    let has_script = app.config.answers.script.is_some();
    if let (Err(_), false, Ok(named)) = (&here, has_script || wanted.level == Level::Manage, &named) {
        let counted = if endpoint.family == Family::Anthropic { ClientApi::Messages } else { ClientApi::Responses };
        let front = endpoint.front().or_else(|| (endpoint.kind == Kind::Count).then_some(counted));
        if let Some((front, dialect)) = front.and_then(|front| Some((front, translated::dialect(&route, front)?))) {
            return match endpoint.kind {
                Kind::Count => translated::count(arrival, (&route, front, dialect)),
                _ => translated::answer(app, caller, arrival, (&route, front, dialect), (wanted.level, named)).await,
            };
        }
    }
    let Some(front) = endpoint.front().filter(|_| wanted.level == Level::Manage || here.is_err()) else {
        return pass(app, caller, arrival, &route, wanted.level, None).await;
    };
    let headers = &arrival.headers;
    let body = arrival.text().map_err(|why| Problem::new(BAD_REQUEST, why))?;
    let value: Value =
        serde_json::from_str(body).map_err(|error| Problem::new(BAD_REQUEST, format!("the body is not JSON: {error}")))?;
    let observe = |why: String| async move { pass(app, caller, arrival, &route, Level::Observe, Some(&why)).await };
    let input = (front == ClientApi::Responses && value["store"] != false).then(|| value["input"].clone());
    let served = match front.read(value) {
        // Whoever lays its prompt out in a way that a session would change, or asks for what is not out yet, means this provider: it stays
        // as it is.
        Ok(asked) if !wanted.is_strict && is_laid_out(front, headers, &asked) && here.is_ok() => {
            return observe("the client lays its prompt out itself".to_owned()).await;
        }
        Ok(asked) => carry(app, front, (caller, headers), (asked, input)).await,
        Err(error) => Err(error.into()),
    };
    match served {
        Ok(mut response) => {
            tell(response.headers_mut(), "level", Level::Manage.as_str());
            if let (Err(why), true) = (here, wanted.level != Level::Manage) {
                tell(response.headers_mut(), "reason", &why);
            }
            Ok(response)
        }
        Err(Unserved::Problem(problem)) => Err(problem),
        Err(Unserved::NotUnderstood(error)) if wanted.is_strict => Err(Problem::new(BAD_REQUEST, error)),
        Err(Unserved::NotUnderstood(error)) => observe(error.to_string()).await,
    }
}

/// Stands for the model of a request that names none.
const NO_MODEL: &str = "none";

/// Whether a client has laid its prompt out itself.
fn is_laid_out(front: ClientApi, headers: &HeaderMap, asked: &Asked) -> bool {
    asked.laid_out || (front == ClientApi::Messages && headers.contains_key("anthropic-beta"))
}

/// Carries a request by a session.
async fn carry(
    app: &Arc<App>,
    front: ClientApi,
    (caller, headers): (&Caller, &HeaderMap),
    (asked, input): (Asked, Option<Value>),
) -> Result<Response, Unserved> {
    let chain = Chain::of_owner(&asked, caller.owner());
    let Prepared { session, model, begin, inputs, line } = prepare(app, front, (caller, headers), &asked, &chain).await?;
    app.gateway.owners.add(caller, &session);
    let running = line.begin().ok_or_else(|| crate::hub::answering(&session))?;
    let (start, first) = oneshot::channel();
    let (whole, answer) = oneshot::channel();
    let (back, response) = if asked.stream {
        let (sender, response) = sse::stream();
        (Back::Stream(sender), Some(response))
    } else {
        (Back::Whole(whole), None)
    };
    let relay = Relay {
        app: Arc::clone(app),
        front,
        asked,
        input,
        model,
        chain,
        session: session.clone(),
        caller: caller.clone(),
        begin: Some(start),
        back,
    };
    let desk = app.hub.desk(&session).ok_or_else(crate::hub::ended)?;
    // On its own: whoever asked may go away, and the answer is kept.
    // In a box, since a task is moved about, and this one is large.
    tokio::spawn(Box::pin(relay.carry(desk, begin, inputs, running)));
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
        ("stored", forward::stored(begun.stored).to_owned()),
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
    /// The model that was asked for.
    model: String,
    /// Where it is a new one: how it begins.
    begin: Option<Begin>,
    inputs: Vec<Input>,
    line: crate::hub::SessionHandle,
}

/// How a session of a client begins: its agent, its settings, what was said before, and the provider of its model.
struct Begin {
    agent: Agent,
    setup: Setup,
    past: Vec<Past>,
    client: Option<Arc<Client>>,
}

/// Finds the session that a request belongs to, or what it begins with.
async fn prepare(
    app: &Arc<App>,
    front: ClientApi,
    (caller, headers): (&Caller, &HeaderMap),
    asked: &Asked,
    chain: &Chain,
) -> Result<Prepared, Unserved> {
    let family = if front == ClientApi::Messages { Family::Anthropic } else { Family::OpenAi };
    let route = forward::route(app, family, &asked.model)?;
    forward::may_use(app, caller, &route)?;
    let mut named = session(headers)?;
    if let Some(previous) = &asked.previous {
        let unknown = || NotUnderstood {
            place: "previous_response_id".to_owned(),
            what: "it names no answer of a session here".to_owned(),
        };
        named = named.or(Some(session_of(previous).ok_or_else(unknown)?.to_owned()));
    }
    if let Some(session) = &named {
        app.gateway.owners.may_name(caller, session)?;
    }
    let is_open = |session: &str| {
        let desk = app.hub.desk(session);
        desk.is_some_and(|desk| try_at(&desk).is_some_and(|desk| desk.is_open()))
    };
    let is_failing = || !app.common.store().health().is_well();
    if let Some(session) = named.as_ref().filter(|session| app.hub.known(session).is_none()) {
        let session = session.clone();
        match app.common.with_store(move |store| Ok(store.session(&session).map(drop)?)).await {
            // What cannot be looked up just now is answered all the same.
            Err(problem) if problem.status().is_server_error() && is_failing() => named = None,
            found => found?,
        }
    }
    let is_free = |session: &str| !app.hub.is_running(session);
    let plan = {
        let memory = app.gateway.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.plan(asked, chain, named.as_deref(), &is_free)?
    };
    let plan = match plan {
        // A session that cannot be opened or forked just now: its client is answered by one of its own, which is stored when that works.
        Plan::Continue(session, _) if !is_open(&session) && is_failing() => fresh(asked, chain)?,
        Plan::Fork(..) if is_failing() => fresh(asked, chain)?,
        plan => plan,
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
            let setup = setup(&id, asked, route.model().clone(), &app.config.places.models);
            let (agent, client) = (foreword_gateway::agent(asked), route.client().cloned());
            (id, Some(Begin { agent, setup, past, client }), inputs)
        }
    };
    let line = app.hub.line(&session)?;
    Ok(Prepared { session, model: route.model().name.clone(), begin, inputs, line })
}

/// What becomes of a request of which nothing is known.
fn fresh(asked: &Asked, chain: &Chain) -> Result<Plan, NotUnderstood> {
    Memory::default().plan(asked, chain, None, &|_| true)
}

fn nothing() -> Problem {
    Problem::new(BAD_REQUEST, "there was nothing to answer")
}

fn turns(desk: &mut OpenSession) -> Option<u64> {
    desk.kept().ok().map(|kept| kept.session().turns() as u64)
}

/// Tells the client what happens.
struct Teller<'a> {
    relay: &'a mut Relay,
    told: &'a mut Progress,
}

impl TurnProgress for Teller<'_> {
    fn event<'a>(&'a mut self, event: Event<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            match event {
                Event::Stored => self.told.begun.stored = true,
                Event::Request(outgoing) => self.told.request(self.relay, outgoing),
                Event::Part(text) => {
                    if let Some((sender, frames)) = self.relay.part(text, self.told)
                        && sender.send(frames).await.is_err()
                    {
                        // The client is gone: what was said until now is kept.
                        self.told.stopper.stop();
                    }
                }
                _ => {}
            }
        })
    }
}

/// One answer on its way.
struct Relay {
    app: Arc<App>,
    front: ClientApi,
    asked: Asked,
    /// What it gave a response to, where that is kept.
    input: Option<Value>,
    model: String,
    chain: Chain,
    session: String,
    /// Who asks. A key of its own is used for this answer and nothing else.
    caller: Caller,
    begin: Option<oneshot::Sender<Result<Begun, Problem>>>,
    back: Back,
}

impl Relay {
    /// Carries the request to a model. What has to be waited for before that is done on the session's thread.
    async fn carry(mut self, desk: Arc<Mutex<OpenSession>>, begin: Option<Begin>, inputs: Vec<Input>, running: Running) {
        let mut told = Progress::new(&self.session);
        // The guard must not be there while something is waited for.
        let script = &self.app.config.answers.script;
        let has_client = begin.as_ref().map(|begin| begin.client.is_some() && script.is_none());
        let here = match try_at(&desk).as_deref_mut() {
            Some(desk) if has_client.unwrap_or_else(|| desk.is_ready()) => Ok(self.ready(desk, begin, inputs, &mut told)),
            _ => Err((begin, inputs)),
        };
        let ready = match here {
            Ok(ready) => ready,
            Err((begin, inputs)) => {
                let (done, ready) = oneshot::channel();
                let (hub, session) = (Arc::clone(&self.app.hub), self.session.clone());
                let job = move |desk: &mut OpenSession| {
                    let ready = self.ready(desk, begin, inputs, &mut told);
                    let _ = done.send((self, told, ready)); // the task may be gone
                };
                // Where it is not taken, the client hears that the session's thread ended.
                let Ok(relay) = hub.post(&session, Box::new(job)).map(|()| ready) else { return };
                let Ok((relay, progress, ready)) = relay.await else { return };
                (self, told) = (relay, progress);
                ready
            }
        };
        let (mut model, turn) = match ready {
            Ok(ready) => ready,
            Err(problem) => return self.end(Err(problem), None, told, running).await,
        };
        let mut session = Locked(Arc::clone(&desk));
        let outcome =
            run_turn(&mut session, turn, &mut *model, None, now_ms, &mut Teller { relay: &mut self, told: &mut told }).await;
        if let Err(TurnError::Speak(error)) = &outcome {
            told.refusal = error.refusal.as_deref().cloned();
        }
        let turns = {
            let mut desk = at(&desk);
            desk.end_relay(model);
            told.begun.stored = desk.is_stored();
            turns(&mut desk)
        };
        self.end(outcome.map_err(Problem::from), turns, told, running).await;
    }

    /// Gets the session and its model ready.
    fn ready(
        &self,
        desk: &mut OpenSession,
        begin: Option<Begin>,
        mut inputs: Vec<Input>,
        told: &mut Progress,
    ) -> Result<(Box<dyn ChatModel>, TurnOfClient), Problem> {
        self.begin(desk, begin)?;
        let options = self.prepare(desk, &mut inputs, told)?;
        let model = desk.begin_relay(&self.caller)?.ok_or_else(nothing)?;
        Ok((model, TurnOfClient::of_client(inputs, options)))
    }

    /// Begins the session, where it is new.
    fn begin(&self, desk: &mut OpenSession, begin: Option<Begin>) -> Result<(), Problem> {
        let Some(Begin { agent, setup, past, client }) = begin else { return Ok(()) };
        desk.voice = client.map(AnswerModel::There);
        // There is no such session otherwise.
        desk.begin_apart(&agent, &setup, past).inspect_err(|_| self.app.hub.forget(&self.session))
    }

    /// What goes along with a request, and what of it is not understood.
    fn prepare(&self, desk: &mut OpenSession, inputs: &mut Vec<Input>, told: &mut Progress) -> Result<ClientOptions, Problem> {
        told.stopper = desk.stopper().clone();
        told.stopper.reset();
        let agent = foreword_gateway::agent(&self.asked);
        let model = &desk.kept()?.setup().model.name;
        if *model != self.model {
            let what = format!("model: this session goes on with {model}; begin another one for {}", self.model);
            return Err(Problem::new(BAD_REQUEST, what));
        }
        let (manner, ignored) = manner(self.front, desk.kept()?.setup(), &self.asked);
        let plain = |name: &&str| name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
        let names = ignored.iter().map(String::as_str).filter(plain);
        told.begun.ignored = names.take(IGNORED).collect::<Vec<_>>().join(",");
        if *desk.kept()?.session().agent() != agent {
            inputs.insert(0, Input::Agent(Box::new(agent)));
        }
        Ok(manner)
    }

    /// A part of the answer for a client that wants it as it comes.
    fn part(&mut self, text: &str, told: &mut Progress) -> Option<(&mpsc::Sender<Bytes>, Bytes)> {
        // Whoever wants it whole is woken once, by all of it.
        let Back::Stream(sender) = &self.back else { return None };
        let teller = told.teller.as_mut()?;
        let mut frames = String::new();
        if let Some(begin) = self.begin.take() {
            let _ = begin.send(Ok(told.begun.clone()));
            frames = teller.begin(told.begun.tokens);
        }
        frames += &teller.part(text);
        Some((sender, Bytes::from(frames)))
    }

    /// Tells the client how it ended.
    async fn end(self, outcome: Result<TurnOutcome, Problem>, turns: Option<u64>, told: Progress, running: Running) {
        if let (Ok(reply), Some(turns)) = (&outcome, turns)
            && reply.requests > 0
        {
            let mut memory = self.app.gateway.memory.lock().unwrap_or_else(PoisonError::into_inner);
            let name = told.teller.as_ref().map(ResponseWriter::id);
            memory.remember(&self.chain, (&reply.text, &reply.calls), (&self.session, turns), name);
        }
        let outcome = outcome.map_err(|problem| {
            let is_begun = self.begin.is_none() || problem.status != NO_ANSWER.0.as_u16();
            self.app.gateway.memory.lock().unwrap_or_else(PoisonError::into_inner).failed(&self.chain, &self.session, is_begun);
            match &told.refusal {
                Some(refusal) if problem.status == NO_ANSWER.0.as_u16() => problem.refused_by(refusal),
                _ => problem,
            }
        });
        // Whoever has the answer may go on at once.
        drop(running);
        // Whoever looks at the session on the page has to look again.
        self.app.hub.changed(&self.session);
        match outcome {
            Ok(reply) if reply.requests > 0 => self.finish(&reply, told).await,
            Ok(_) => self.fail(nothing(), told).await,
            Err(problem) => self.fail(problem, told).await,
        }
    }

    fn teller(&self, request: &str, created_s: i64) -> ResponseWriter {
        ResponseWriter::new(self.front, &format!("{}-{request}", self.session), &self.asked.model, created_s, self.asked.usage)
    }

    async fn finish(self, reply: &TurnOutcome, told: Progress) {
        let Progress { begun, teller, created_s, .. } = told;
        let mut teller = teller.unwrap_or_else(|| self.teller("0", created_s));
        let end = match (&reply.ending, reply.calls.is_empty()) {
            (Some(Ending::Refused), _) => End::Refused,
            (Some(Ending::Length), _) => End::Cut,
            _ if reply.cut_off => End::Cut,
            (_, false) => End::Calls,
            (_, true) => End::Done,
        };
        let usage = &reply.usage;
        let answer = Answer {
            text: &reply.text,
            calls: &reply.calls,
            end,
            cached: (usage.read, usage.write),
            prompt: usage.read + usage.write + usage.uncached,
            output: usage.output,
            reasoning: 0,
        };
        if let Some(input) = &self.input {
            // In a writer of its own: the other one may be in the middle of a stream.
            let mut writer =
                ResponseWriter::new(self.front, teller.id().trim_start_matches("resp_"), &self.asked.model, created_s, true);
            self.app.gateway.responses.keep(&self.caller, &writer.whole(&answer), input);
        }
        // Whoever asked may be gone; the answer is kept.
        match self.back {
            Back::Stream(sender) => {
                let mut frames = String::new();
                if let Some(begin) = self.begin {
                    frames = teller.begin(begun.tokens);
                    let _ = begin.send(Ok(begun));
                }
                let _ = sender.send(Bytes::from(frames + &teller.end(&answer))).await;
            }
            Back::Whole(whole) => {
                let _ = whole.send(Whole { body: teller.whole(&answer), cached: answer.cached.0 });
                let _ = self.begin.map(|begin| begin.send(Ok(begun)));
            }
        }
    }

    async fn fail(self, problem: Problem, told: Progress) {
        match (self.begin, self.back, told.teller) {
            (Some(begin), ..) => {
                let _ = begin.send(Err(problem));
            }
            (None, Back::Stream(sender), Some(mut teller)) => {
                let _ = sender.send(Bytes::from(teller.failed(problem.status, &problem.detail))).await;
            }
            _ => {}
        }
    }
}
