//! A provider for tests: one HTTP server that speaks every dialect, refuses what the real ones refuse in their own words, accounts its
//! cache by the simulators, and otherwise does what a [`Script`] says.
//!
//! It listens on this machine only. Each dialect has its own base: `http://127.0.0.1:PORT/anthropic/v1`.

mod caches;
mod errors;
mod http;
pub mod rules;
mod script;
mod thoughts;
mod wire;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::rules::{Endpoint, validate};
use foreword_prompt_cache::CacheSim;
use foreword_provider::dialect::Dialect;
use foreword_provider::model::Model;
use foreword_provider::stream::PromptStream;
use foreword_provider::table::ModelTable;
use foreword_provider::usage::CacheUse;

pub use foreword_prompt_cache::body_prompt::read as prompt_of;
pub use script::{Script, ScriptError, Scripted, ScriptedCall, ScriptedError, ScriptedStop};

use caches::Caches;
use http::{Request, Response};

/// Requests that are remembered.
const MAX_SEEN: usize = 1024;

/// A request as it came in.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Whom it asked.
    pub dialect: Dialect,
    /// The path behind the dialect's base, with its query.
    pub path: String,
    /// Its bytes.
    pub body: Vec<u8>,
    /// What it was answered with.
    pub status: u16,
    /// What the cache made of it, where it was answered by the model.
    pub cache: Option<CacheUse>,
    /// When it came, since the server started.
    pub at: Duration,
}

/// A running server. It ends when it is dropped.
#[derive(Debug)]
pub struct MockServer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    server: JoinHandle<()>,
}

impl MockServer {
    /// Starts on a free port.
    pub async fn start(script: Script) -> io::Result<Self> {
        Self::start_at(script, 0).await
    }

    /// Starts on `port`.
    pub async fn start_at(script: Script, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State::new(script).map_err(io::Error::other)?));
        let server = tokio::spawn(listen(listener, Arc::clone(&state)));
        Ok(Self { address, state, server })
    }

    /// The base URL of a dialect.
    pub fn base_url(&self, dialect: Dialect) -> String {
        let version = if dialect == Dialect::Gemini { "v1beta" } else { "v1" };
        format!("http://{}/{dialect}/{version}", self.address)
    }

    /// The requests so far, the oldest first.
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.state).seen.iter().cloned().collect()
    }

    /// Answers that nobody wanted to hear to their end.
    pub fn dropped(&self) -> usize {
        lock(&self.state).dropped
    }

    /// Explicit caches that are alive.
    pub fn caches(&self) -> usize {
        let mut state = lock(&self.state);
        let now = state.now();
        state.caches.count(now)
    }

    /// Serves until the task ends.
    pub async fn wait(mut self) {
        // A task that was stopped has ended too.
        let _ = (&mut self.server).await;
    }
}

impl Drop for MockServer {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn listen(listener: TcpListener, state: Arc<Mutex<State>>) {
    // Connections end with the server.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        if let Ok((socket, _)) = listener.accept().await {
            connections.spawn(serve(socket, Arc::clone(&state)));
        }
        while connections.try_join_next().is_some() {}
    }
}

/// One request; what goes wrong with the connection is the other side's matter.
async fn serve(mut socket: TcpStream, state: Arc<Mutex<State>>) {
    let Ok(request) = http::read(&mut socket).await else { return };
    let plan = lock(&state).plan(&request);
    tokio::time::sleep(plan.response.delay).await;
    if let Some(Asked { model, prompt, .. }) = plan.asked {
        // Only now can others read what this request wrote.
        let mut state = lock(&state);
        let now = state.now();
        state.sim.request(now, &prompt, &model);
    }
    if plan.response.write(&mut socket).await.is_err() {
        lock(&state).dropped += 1;
    }
}

/// What is to be done about a request.
struct Plan {
    response: Response,
    asked: Option<Asked>,
}

/// What the model was asked, and what of it the cache held.
struct Asked {
    model: Model,
    prompt: PromptStream,
    cache: CacheUse,
}

impl From<Response> for Plan {
    fn from(response: Response) -> Self {
        Self { response, asked: None }
    }
}

#[derive(Debug)]
struct State {
    script: Script,
    /// The next reply of the script.
    next: usize,
    /// Answers so far: it makes ids unique.
    serial: u64,
    sim: CacheSim,
    caches: Caches,
    seen: VecDeque<Seen>,
    dropped: usize,
    table: ModelTable,
    started: Instant,
}

impl State {
    fn new(script: Script) -> Result<Self, foreword_provider::table::TableError> {
        Ok(Self {
            script,
            next: 0,
            serial: 0,
            sim: CacheSim::new(),
            caches: Caches::default(),
            seen: VecDeque::new(),
            dropped: 0,
            table: ModelTable::builtin()?,
            started: Instant::now(),
        })
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    fn plan(&mut self, request: &Request) -> Plan {
        let Some((dialect, path)) = request.route() else {
            return Response::json(404, &serde_json::json!({"error": "no such provider"})).into();
        };
        let plan = self.answer(dialect, path, request).unwrap_or_else(Plan::from);
        let cache = plan.asked.as_ref().map(|asked| asked.cache);
        if self.seen.len() == MAX_SEEN {
            self.seen.pop_front();
        }
        let (path, body) = (path.to_owned(), request.body.clone());
        self.seen.push_back(Seen { dialect, path, body, status: plan.response.status, cache, at: self.started.elapsed() });
        plan
    }

    /// The answer; the refusal as an error.
    fn answer(&mut self, dialect: Dialect, path: &str, request: &Request) -> Result<Plan, Response> {
        if dialect != Dialect::LlamaCpp {
            self.check_key(dialect, request)?;
        }
        let (endpoint, _) = path.split_once('?').unwrap_or((path, ""));
        if dialect == Dialect::Gemini && endpoint.starts_with("cachedContents") {
            let (now, table) = (self.now(), &self.table);
            return self.caches.answer(endpoint, request, now, table).map(Plan::from);
        }
        let body: Value = serde_json::from_slice(&request.body).map_err(|error| {
            errors::response(dialect, 400, &format!("We could not parse the JSON body of your request. ({error})"))
        })?;
        let (model, stream) = self.target(dialect, endpoint, &body)?;
        let scripted = self.script.replies.get(self.next).or(self.script.replies.last()).cloned().unwrap_or_default();
        if let Some(error) = &scripted.error {
            self.next += 1;
            let mut response = errors::scripted(dialect, error);
            response.delay = Duration::from_millis(scripted.delay_ms);
            return Err(response);
        }
        validate(dialect, Endpoint::of(&model), &body).map_err(|text| errors::response(dialect, 400, &text))?;
        thoughts::check(dialect, &body, self.script.binds_thoughts).map_err(|text| errors::response(dialect, 400, &text))?;
        let prompt = match body["cachedContent"].as_str() {
            Some(name) => self.caches.prompt(name, &body, &model, self.now())?,
            None => prompt_of(dialect, &body, &model),
        };
        self.next += 1;
        self.serial += 1;
        // A look at the cache as it is; the prompt goes into it when the answer begins.
        let cache = self.sim.clone().request(self.now(), &prompt, &model);
        let told = wire::WireReply { dialect, model: &model, reply: &scripted, serial: self.serial, cache, body: &body };
        let mut response = if stream { Response::events(&wire::frames(&told)) } else { Response::json(200, &wire::whole(&told)) };
        response.delay = Duration::from_millis(scripted.delay_ms);
        response.pause = Duration::from_millis(scripted.pause_ms);
        if let Some(pieces) = scripted.cut_after {
            response.cut(pieces);
        }
        Ok(Plan { response, asked: Some(Asked { model, prompt, cache }) })
    }

    fn check_key(&self, dialect: Dialect, request: &Request) -> Result<(), Response> {
        let given = match dialect {
            Dialect::Anthropic => request.header("x-api-key"),
            Dialect::Gemini => request.header("x-goog-api-key"),
            _ => request.header("authorization").and_then(|value| value.strip_prefix("Bearer ")),
        };
        let wanted = self.script.key.as_deref();
        if given.is_some_and(|given| !given.is_empty() && wanted.is_none_or(|wanted| wanted == given)) {
            return Ok(());
        }
        Err(errors::bad_key(dialect, given))
    }

    /// The model that is asked, and whether its answer is to be a stream.
    fn target(&self, dialect: Dialect, endpoint: &str, body: &Value) -> Result<(Model, bool), Response> {
        let missing = |name: &str| errors::response(dialect, 404, &errors::no_model(dialect, name));
        let own = match dialect {
            Dialect::OpenAiChat | Dialect::LlamaCpp => "chat/completions",
            Dialect::OpenAiResponses => "responses",
            Dialect::Anthropic => "messages",
            Dialect::Gemini => "",
        };
        let (name, stream) = match endpoint.strip_prefix("models/").and_then(|rest| rest.split_once(':')) {
            Some((name, "generateContent")) if dialect == Dialect::Gemini => (name, false),
            Some((name, "streamGenerateContent")) if dialect == Dialect::Gemini => (name, true),
            None if endpoint == own => (body["model"].as_str().unwrap_or_default(), body["stream"] == true),
            _ => return Err(errors::response(dialect, 404, &format!("Invalid URL (POST /v1/{endpoint})"))),
        };
        let model = self.table.find(name).or_else(|error| match dialect {
            // Local servers answer for whatever model they have.
            Dialect::LlamaCpp => self.table.default_for(dialect),
            _ => Err(error),
        });
        Ok((model.map_err(|_| missing(name))?, stream))
    }
}
