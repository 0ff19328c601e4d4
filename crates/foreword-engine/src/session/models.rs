//! The models: the embedded one, and those reached over the network.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use foreword_core::hash::Hash;
use foreword_core::message::{Message, Role, ToolCall};
use foreword_core::prompt::Prompt;
use foreword_core::tokens::{Tokenizer, Tokens};
use foreword_models::chat_model::{Chat, ChatModel as LocalModel, ChatModelError, End, Sampling};
use foreword_provider::client::{Answer as Events, Client, ClientConfig, Delivery, ExplicitCaches, SendError, SetupError};
use foreword_provider::dialect::Dialect;
use foreword_provider::model::{Capability, Model};
use foreword_provider::refusal::Fault;
use foreword_provider::render::gemini_cache_request;
use foreword_provider::reply::{Event, Part, Reply as Answer, Stop as Ended};
use foreword_provider::usage::CacheUse;
use serde_json::Value;

use super::ending::Ending;
use super::request::Outgoing;
use super::speak::{ChatModel, Reply, SpeakError, Spent};

/// A flag that stops an answer.
pub type Stop = Arc<AtomicBool>;

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

/// The model that comes with Foreword. It remembers the last prompt and evaluates only what is new in the next one.
pub struct Embedded {
    model: Arc<LocalModel>,
    chat: Chat,
    stop: Stop,
}

impl Embedded {
    /// Opens the model file.
    pub fn open(file: &Path, stop: Stop) -> Result<Self, ChatModelError> {
        let model = Arc::new(LocalModel::open(file)?);
        Ok(Self { chat: Chat::new(Arc::clone(&model)), model, stop })
    }

    /// A second model with the same weights and its own cache.
    #[must_use]
    pub fn beside(&self, stop: Stop) -> Self {
        Self { chat: Chat::new(Arc::clone(&self.model)), model: Arc::clone(&self.model), stop }
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

impl ChatModel for Embedded {
    fn answer(&mut self, request: &Outgoing, part: &mut dyn FnMut(&str)) -> Result<Reply, SpeakError> {
        let told: Vec<_> = request.messages.iter().map(|message| told(message)).collect();
        let messages: Vec<_> = told.iter().map(|(role, text)| (*role, text.as_str())).collect();
        let prompt = self.model.prompt(&messages);
        let room = usize::try_from(request.reply_tokens.0).unwrap_or(usize::MAX);
        let usual = Sampling::default();
        let sampling = Sampling { max_tokens: room.min(usual.max_tokens), endings: PROMPT_MARKS, ..usual };
        let answer = self.chat.answer(&prompt, &sampling, &self.stop, part);
        if answer.end == End::Context && answer.text.is_empty() {
            return Err(SpeakError(format!("the prompt of {} tokens fills the context window", prompt.tokens())));
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
}

/// A model of a provider.
pub struct Remote {
    client: Arc<Client>,
    dialect: Dialect,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    stop: Stop,
    caches: Option<Caches>,
}

/// The async runtime for its requests.
enum Runtime {
    Own(tokio::runtime::Runtime),
    Shared(tokio::runtime::Handle),
}

impl Runtime {
    fn block_on<F: Future>(&self, work: F) -> F::Output {
        match self {
            Self::Own(runtime) => runtime.block_on(work),
            Self::Shared(runtime) => runtime.block_on(work),
        }
    }
}

/// A prompt prefix that the provider stores as a cache resource.
struct Caches {
    all: Arc<ExplicitCaches>,
    lifetime: Duration,
    /// The current cache: the hash of its content and its name.
    now: Option<(Hash, Option<String>)>,
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

/// How often to check whether the user has stopped the answer.
const LOOK: Duration = Duration::from_millis(50);
/// The time limit for creating or deleting a cache.
const CACHE_LIMIT: Duration = Duration::from_secs(20);

impl Remote {
    /// Creates the client. Nothing is sent yet.
    pub fn new(config: ClientConfig, stop: Stop) -> Result<Self, RemoteError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = Arc::new(Client::new(config)?);
        Ok(Self { dialect: client.dialect(), client, runtime: Some(Runtime::Own(runtime)), stop, caches: None })
    }

    /// Creates one of many models that share a client, its connections and its pending requests. Must be used on a thread outside
    /// of the runtime.
    pub fn shared(client: Arc<Client>, runtime: tokio::runtime::Handle, stop: Stop) -> Self {
        Self { dialect: client.dialect(), client, runtime: Some(Runtime::Shared(runtime)), stop, caches: None }
    }

    /// Allows provider-side caches for the session's tools and system message, if they are large enough and the provider supports
    /// it. Each cache lives (and costs) for `lifetime` after its last use; remaining ones are deleted when the model is dropped.
    #[must_use]
    pub fn with_caches(mut self, lifetime: Duration) -> Self {
        let all = Arc::new(ExplicitCaches::new(Arc::clone(&self.client), lifetime));
        self.caches = Some(Caches { all, lifetime, now: None });
        self
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let (Some(caches), Some(runtime)) = (self.caches.take().filter(|caches| caches.now.is_some()), self.runtime.take())
        else {
            return;
        };
        // In a thread of its own: whoever drops it may be inside another runtime.
        let clean = move || runtime.block_on(async { tokio::time::timeout(CACHE_LIMIT, caches.all.clean_up()).await.is_ok() });
        let _ = std::thread::spawn(clean).join(); // what is left dies with its lifetime
    }
}

impl ChatModel for Remote {
    fn cache(&mut self, model: &Model, prompt: &Prompt<'_>) -> Option<String> {
        let (caches, runtime) = (self.caches.as_mut()?, self.runtime.as_ref()?);
        let system = prompt.messages.first().filter(|message| message.role == Role::System);
        let size = prompt.tools.tokens + system.map_or(Tokens::ZERO, |message| message.tokens());
        if self.dialect != Dialect::Gemini || !model.has(Capability::ExplicitCache) || size.0 < model.cache.minimum() {
            return None;
        }
        let request = gemini_cache_request(model, prompt, caches.lifetime.as_secs());
        let replaces = caches.now.as_ref().is_some_and(|(key, _)| *key != request.key);
        let all = Arc::clone(&caches.all);
        let made = runtime.block_on(async {
            tokio::time::timeout(CACHE_LIMIT, async {
                if replaces {
                    let _ = all.clean_up().await; // what cannot be deleted now dies with its lifetime
                }
                all.get(&request).await
            })
            .await
        });
        // Without a cache the prompt goes out whole.
        let name = made.ok().and_then(Result::ok).flatten().map(|cached| cached.name);
        caches.now = Some((request.key, name.clone()));
        name
    }

    fn answer(&mut self, request: &Outgoing, part: &mut dyn FnMut(&str)) -> Result<Reply, SpeakError> {
        let failed = |error: SendError| {
            let gone = error.refusal().is_some_and(|refusal| refusal.fault == Fault::CacheGone);
            (gone, SpeakError(error.to_string()))
        };
        let Some(runtime) = &self.runtime else { return Err(SpeakError("the connection was closed".to_owned())) };
        let mut talk = Talk::new(Arc::clone(&self.client));
        // Whoever hears a part may wait, so it is told outside of the runtime.
        let talked = loop {
            match runtime.block_on(unless_stopped(&self.stop, talk.next(request))) {
                None => break Ok(true),
                Some(Ok(None)) => break Ok(false),
                Some(Ok(Some(text))) if text.is_empty() => {}
                Some(Ok(Some(text))) => part(&text),
                Some(Err(error)) => break Err(failed(error)),
            }
        };
        match talked {
            Ok(cut_off) => Ok(talk.reply(request, cut_off)),
            Err((gone, error)) => {
                if let (true, Some(Caches { all, now: Some((_, Some(name))), .. })) = (gone, &self.caches) {
                    runtime.block_on(all.forget(name));
                }
                Err(error)
            }
        }
    }
}

/// A streaming answer.
#[derive(Debug)]
pub struct Talk {
    client: Arc<Client>,
    events: Option<Events>,
    answer: Answer,
}

impl Talk {
    /// An answer that has not begun.
    pub fn new(client: Arc<Client>) -> Self {
        Self { client, events: None, answer: Answer::default() }
    }

    /// Waits for the next part of the answer and sends the request on the first call. Returns new text, which may be empty, or
    /// `None` at the end.
    pub async fn next(&mut self, request: &Outgoing) -> Result<Option<String>, SendError> {
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
    pub fn reply(self, request: &Outgoing, cut_off: bool) -> Reply {
        let id = self.events.as_ref().and_then(|events| events.id()).map(str::to_owned);
        Reply { id, ..reply(self.answer, request, self.client.dialect(), cut_off) }
    }
}

/// Returns the result of `work`, or `None` if the user stops it first.
pub async fn unless_stopped<F: Future>(stop: &Stop, work: F) -> Option<F::Output> {
    let stopped = async {
        while !stop.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        done = work => Some(done),
        () = stopped => None,
    }
}

fn reply(answer: Answer, request: &Outgoing, dialect: Dialect, cut_off: bool) -> Reply {
    let spent = answer.usage.map(|usage| Spent { prompt: usage.cache_use(), output: usage.output.0 });
    // Of half a reply nothing goes back but its words.
    let opaque = if cut_off { Vec::new() } else { answer.opaque(dialect, &request.model) };
    let ending = match &answer.stop {
        _ if cut_off => Some(Ending::Stopped),
        Some(Ended::Length | Ended::Window) => Some(Ending::Length),
        Some(Ended::Refused) => Some(Ending::Refused),
        _ => None,
    };
    let mut reply = Reply { spent, cut_off, ending, opaque, missed: answer.missed, ..Reply::default() };
    for (at, part) in answer.parts.into_iter().enumerate() {
        match part {
            Part::Text(text) => reply.text.push_str(&text),
            // Half a call is none.
            Part::Call { id, name, arguments } if !cut_off => {
                let arguments = serde_json::from_str(&arguments).unwrap_or(if arguments.trim().is_empty() {
                    Value::Object(serde_json::Map::new())
                } else {
                    Value::String(arguments)
                });
                reply.calls.push(ToolCall { id: id.unwrap_or_else(|| format!("call-{}-{at}", request.number)), name, arguments });
            }
            _ => {}
        }
    }
    reply
}
