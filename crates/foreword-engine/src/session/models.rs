//! The models: the embedded one, and those reached over the network.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use foreword_core::hash::Hash;
use foreword_core::message::{Message, Role};
use foreword_core::tokens::{Tokenizer, Tokens};
use foreword_models::chat_model::{Chat, ChatModel as LocalModel, ChatModelError, End, Sampling};
use foreword_provider::client::{Answer as Events, Client, ClientConfig, Delivery, ExplicitCaches, SendError, SetupError};
use foreword_provider::dialect::Dialect;
use foreword_provider::dialect::gemini::GeminiCacheRequest;
use foreword_provider::refusal::Fault;
use foreword_provider::reply::{Event, Reply as Answer, ReplyMessage, Stop as Ended};
use foreword_provider::usage::CacheUse;
use futures_util::future::{BoxFuture, ready};
use futures_util::{FutureExt as _, StreamExt as _, stream};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::ending::Ending;
use super::request::Outgoing;
use super::speak::{ChatModel, Reply, ReplyPart, ReplyStream, SpeakError, Spent, whole_reply};

/// What stands in a prompt between the notes and the question. A small model that writes it has answered and goes on with a prompt.
const PROMPT_MARKS: &[&str] = &[
    "---\n\n[User query]",
    "[User query]",
    "<note_context",
    "</note_context",
    "<active_note",
    "</active_note",
    "<selected_text",
    "<localSearch",
    "</localSearch",
    "<tool_result",
    "<conversation_summary",
    "<user_query",
    "</user_query",
];

/// Parts of a reply that may wait to be read.
const PARTS_WAITING: usize = 64;

/// The model that comes with Foreword. It remembers the last prompt and evaluates only what is new in the next one.
pub struct Embedded {
    model: Arc<LocalModel>,
    chat: Arc<Mutex<Chat>>,
}

impl Embedded {
    /// Opens the model file.
    pub fn open(file: &Path) -> Result<Self, ChatModelError> {
        Ok(Self::of(Arc::new(LocalModel::open(file)?)))
    }

    fn of(model: Arc<LocalModel>) -> Self {
        Self { chat: Arc::new(Mutex::new(Chat::new(Arc::clone(&model)))), model }
    }

    /// A second model with the same weights and its own cache.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self::of(Arc::clone(&self.model))
    }
}

/// The role and text of a message for the embedded model, which does not support tools: calls and results become plain text.
fn told(message: &Message) -> (Role, String) {
    let role = if message.role == Role::Tool { Role::User } else { message.role };
    let calls = message.calls.iter().map(|call| format!("[{}({})]", call.name, call.arguments));
    let text = std::iter::once(message.content().into_owned()).filter(|text| !text.is_empty()).chain(calls);
    (role, text.collect::<Vec<_>>().join("\n"))
}

/// The size of a prompt as the embedded model reads it: each message in its chat template, and the start of the reply.
pub(super) fn embedded_prompt_tokens(tokenizer: &dyn Tokenizer, messages: &[Arc<Message>]) -> Tokens {
    let marks = Tokens(2) + tokenizer.count("\n");
    let said = messages.iter().map(|message| {
        let (role, text) = told(message);
        marks + tokenizer.count(&format!("{}\n{text}", role.as_str()))
    });
    said.sum::<Tokens>() + Tokens(1) + tokenizer.count("assistant\n")
}

/// Answers on a thread of its own.
impl ChatModel for Embedded {
    fn answer(&mut self, request: Arc<Outgoing>, stop: CancellationToken) -> ReplyStream {
        let (model, chat) = (Arc::clone(&self.model), Arc::clone(&self.chat));
        let (sender, parts) = mpsc::channel(PARTS_WAITING);
        let work = move || {
            let reply = generate(&model, &chat, &request, &stop, &sender);
            let _ = sender.blocking_send(ReplyPart::End(reply)); // the reader may be gone
        };
        match thread::Builder::new().name("embedded model".to_owned()).spawn(work) {
            Ok(_) => received(parts),
            Err(error) => whole_reply(Err(SpeakError::new(format!("cannot start a thread for the model: {error}")))),
        }
    }
}

fn generate(
    model: &Arc<LocalModel>,
    chat: &Mutex<Chat>,
    request: &Outgoing,
    stop: &CancellationToken,
    parts: &mpsc::Sender<ReplyPart>,
) -> Result<Reply, SpeakError> {
    let told: Vec<_> = request.messages.iter().map(|message| told(message)).collect();
    let messages: Vec<_> = told.iter().map(|(role, text)| (*role, text.as_str())).collect();
    let prompt = model.prompt(&messages);
    let room = usize::try_from(request.reply_tokens.0).unwrap_or(usize::MAX);
    let usual = Sampling::default();
    let sampling = Sampling { max_tokens: room.min(usual.max_tokens), endings: PROMPT_MARKS, ..usual };
    let mut chat = chat.lock().unwrap_or_else(|poisoned| {
        // Its cache may be incomplete.
        let mut chat = poisoned.into_inner();
        *chat = Chat::new(Arc::clone(model));
        chat
    });
    let is_stopped = || stop.is_cancelled() || parts.is_closed();
    let answer = chat.answer(&prompt, &sampling, &is_stopped, &mut |text| {
        let _ = parts.blocking_send(ReplyPart::Text(text.to_owned())); // the reader may be gone
    });
    if answer.end == End::Context && answer.text.is_empty() {
        return Err(SpeakError::new(format!("the prompt of {} tokens fills the context window", prompt.tokens())));
    }
    let prompt = CacheUse { read: answer.cached_tokens, uncached: answer.new_tokens, ..CacheUse::default() };
    Ok(Reply {
        text: answer.text,
        spent: Some(Spent { prompt, output: answer.output_tokens.0 }),
        cut_off: answer.end != End::Done,
        ending: match answer.end {
            End::Done => None,
            End::Length | End::Context => Some(Ending::Length),
            End::Repeating => Some(Ending::Repeating),
            End::Stopped => Some(Ending::Stopped),
        },
        ..Reply::default()
    })
}

/// The parts of a reply that somebody sends.
fn received(parts: mpsc::Receiver<ReplyPart>) -> ReplyStream {
    let next = |parts: Option<mpsc::Receiver<ReplyPart>>| async {
        let mut parts = parts?;
        match parts.recv().await {
            Some(part @ ReplyPart::Text(_)) => Some((part, Some(parts))),
            Some(end) => Some((end, None)),
            None => Some((ReplyPart::End(Err(SpeakError::new("the model ended unexpectedly"))), None)),
        }
    };
    stream::unfold(Some(parts), next).boxed()
}

/// A model of a provider. Its requests run on a runtime of their own, so that any thread can wait for them.
pub struct Remote {
    client: Arc<Client>,
    runtime: Runtime,
    caches: Option<Caches>,
}

/// The async runtime for its requests.
enum Runtime {
    /// `None` only while it is dropped.
    Own(Option<tokio::runtime::Runtime>),
    Shared(Handle),
}

impl Runtime {
    fn handle(&self) -> Option<&Handle> {
        match self {
            Self::Own(runtime) => runtime.as_ref().map(tokio::runtime::Runtime::handle),
            Self::Shared(handle) => Some(handle),
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Self::Own(runtime) = self
            && let Some(runtime) = runtime.take()
        {
            // A runtime must not wait for its threads inside of another one.
            runtime.shutdown_background();
        }
    }
}

/// The hash of a cache's content and its name, if the provider made it.
type CurrentCache = Option<(Hash, Option<String>)>;

/// A prompt prefix that the provider stores as a cache resource.
#[derive(Clone)]
struct Caches {
    all: Arc<ExplicitCaches>,
    lifetime: Duration,
    /// The current cache.
    now: Arc<Mutex<CurrentCache>>,
}

impl Caches {
    fn current(&self) -> CurrentCache {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_current(&self, current: CurrentCache) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = current;
    }
}

/// Why a provider cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The client configuration is invalid.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The async runtime cannot be started.
    #[error("cannot connect to the provider: {0}")]
    Runtime(#[from] std::io::Error),
}

/// The time limit for creating or deleting a cache.
const CACHE_LIMIT: Duration = Duration::from_secs(20);

impl Remote {
    /// Creates the client. Nothing is sent yet.
    pub fn new(config: ClientConfig) -> Result<Self, RemoteError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        Ok(Self { client: Arc::new(Client::new(config)?), runtime: Runtime::Own(Some(runtime)), caches: None })
    }

    /// Creates one of many models that share a client, its connections and its pending requests.
    pub fn shared(client: Arc<Client>, runtime: Handle) -> Self {
        Self { client, runtime: Runtime::Shared(runtime), caches: None }
    }

    /// Allows provider-side caches for the session's tools and system message, if they are large enough and the provider supports
    /// it. Each cache lives (and costs) for `lifetime` after its last use; remaining ones are deleted when the model is dropped.
    #[must_use]
    pub fn with_caches(mut self, lifetime: Duration) -> Self {
        let all = Arc::new(ExplicitCaches::new(Arc::clone(&self.client), lifetime));
        self.caches = Some(Caches { all, lifetime, now: Arc::default() });
        self
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let (Some(caches), Some(runtime)) = (self.caches.take(), self.runtime.handle()) else { return };
        if caches.current().is_none() {
            return;
        }
        let (done, deleted) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            let deleting = tokio::time::timeout(CACHE_LIMIT, caches.all.clean_up()).await;
            let _ = done.send(deleting.is_ok()); // the model may be dropped already
        });
        let _ = deleted.recv_timeout(CACHE_LIMIT); // remaining caches expire after their lifetime
    }
}

impl ChatModel for Remote {
    fn cache_lifetime(&self) -> Option<Duration> {
        self.caches.as_ref().map(|caches| caches.lifetime)
    }

    fn cache(&mut self, request: GeminiCacheRequest) -> BoxFuture<'static, Option<String>> {
        let (Some(caches), Some(runtime)) = (self.caches.clone(), self.runtime.handle()) else { return ready(None).boxed() };
        let made = runtime.spawn(async move {
            let replaces = caches.current().is_some_and(|(key, _)| key != request.key);
            let made = tokio::time::timeout(CACHE_LIMIT, async {
                if replaces {
                    let _ = caches.all.clean_up().await; // remaining caches expire after their lifetime
                }
                caches.all.get(&request).await
            });
            // Without a cache the prompt goes out whole.
            let name = made.await.ok().and_then(Result::ok).flatten().map(|cached| cached.name);
            caches.set_current(Some((request.key, name.clone())));
            name
        });
        async { made.await.ok().flatten() }.boxed()
    }

    fn answer(&mut self, request: Arc<Outgoing>, stop: CancellationToken) -> ReplyStream {
        let Some(runtime) = self.runtime.handle() else {
            return whole_reply(Err(SpeakError::new("the connection was closed")));
        };
        let (sender, parts) = mpsc::channel(PARTS_WAITING);
        let (client, caches) = (Arc::clone(&self.client), self.caches.clone());
        runtime.spawn(async move {
            let answer = tokio::select! {
                biased;
                () = sender.closed() => return,
                answer = exchange(client, &request, &stop, &sender) => answer,
            };
            let reply = match answer {
                Ok(reply) => Ok(reply),
                Err(error) => {
                    let is_gone = error.refusal().is_some_and(|refusal| refusal.fault == Fault::CacheGone);
                    if let (true, Some(caches)) = (is_gone, caches)
                        && let Some((_, Some(name))) = caches.current()
                    {
                        caches.all.forget(&name).await;
                    }
                    Err(SpeakError { message: error.to_string(), refusal: error.refusal().cloned().map(Box::new) })
                }
            };
            let _ = sender.send(ReplyPart::End(reply)).await; // the reader may be gone
        });
        received(parts)
    }
}

/// Sends a request and passes on its reply until it ends or is stopped.
async fn exchange(
    client: Arc<Client>,
    request: &Outgoing,
    stop: &CancellationToken,
    parts: &mpsc::Sender<ReplyPart>,
) -> Result<Reply, SendError> {
    let mut talk = Talk::new(client);
    loop {
        let next = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(talk.reply(request, true)),
            next = talk.next(request) => next?,
        };
        match next {
            None => return Ok(talk.reply(request, false)),
            Some(text) if text.is_empty() => {}
            Some(text) => {
                let _ = parts.send(ReplyPart::Text(text)).await; // the reader may be gone
            }
        }
    }
}

/// A streaming answer.
#[derive(Debug)]
struct Talk {
    client: Arc<Client>,
    events: Option<Events>,
    answer: Answer,
}

impl Talk {
    /// An answer that has not begun.
    fn new(client: Arc<Client>) -> Self {
        Self { client, events: None, answer: Answer::default() }
    }

    /// Waits for the next part of the answer and sends the request on the first call. Returns new text, which may be empty, or
    /// `None` at the end.
    async fn next(&mut self, request: &Outgoing) -> Result<Option<String>, SendError> {
        let events = if let Some(events) = &mut self.events {
            events
        } else {
            let delivery = if request.stream { Delivery::Stream } else { Delivery::Whole };
            self.events.insert(self.client.send(&request.model, &request.body, delivery).await?)
        };
        let mut next = events.next().await?;
        if next.is_none() {
            return Ok(None);
        }
        let mut words = String::new();
        while let Some(event) = next {
            if let Event::Text(text) = &event {
                words.push_str(text);
            }
            self.answer.add(event);
            next = events.waiting();
        }
        Ok(Some(words))
    }

    /// The reply received so far.
    fn reply(self, request: &Outgoing, cut_off: bool) -> Reply {
        let id = self.events.as_ref().and_then(|events| events.id()).map(str::to_owned);
        Reply { id, ..reply(self.answer, request, self.client.dialect(), cut_off) }
    }
}

fn reply(answer: Answer, request: &Outgoing, dialect: Dialect, cut_off: bool) -> Reply {
    let spent = answer.usage.map(|usage| Spent { prompt: usage.cache_use(), output: usage.output.0 });
    let ending = match &answer.stop {
        _ if cut_off => Some(Ending::Stopped),
        Some(Ended::Length | Ended::Window) => Some(Ending::Length),
        Some(Ended::Refused) => Some(Ending::Refused),
        _ => None,
    };
    let ReplyMessage { text, calls, opaque } = answer.message(dialect, &request.model, request.number, cut_off);
    Reply { text, calls, opaque, spent, cut_off, ending, missed: answer.missed, ..Reply::default() }
}
