//! Models as speakers: the one that runs in this process, and those that are spoken to over the network.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use foreword_core::message::{Message, Role, ToolCall};
use foreword_models::chat_model::{Chat, ChatModel, ChatModelError, End, Sampling};
use foreword_provider::cache::CacheUse;
use foreword_provider::client::{Client, ClientConfig, Delivery, SetupError};
use foreword_provider::reply::{Event, Part, Reply as Answer};
use serde_json::Value;

use super::kept::Outgoing;
use super::speak::{Reply, SpeakError, Speaker, Spent};

/// Set when the user wants no more of an answer.
pub type Stop = Arc<AtomicBool>;

/// The model that comes with Foreword. It remembers the last prompt and evaluates only what is new in the next one.
pub struct Embedded {
    model: Arc<ChatModel>,
    chat: Chat,
    stop: Stop,
}

impl Embedded {
    /// Opens its file.
    pub fn open(file: &Path, stop: Stop) -> Result<Self, ChatModelError> {
        let model = Arc::new(ChatModel::open(file)?);
        Ok(Self { chat: Chat::new(Arc::clone(&model)), model, stop })
    }

    /// Another speaker with the same weights and a memory of its own.
    pub fn beside(&self, stop: Stop) -> Self {
        Self { chat: Chat::new(Arc::clone(&self.model)), model: Arc::clone(&self.model), stop }
    }
}

/// What the model in use reads of a message. It knows no tools: a call is told in words, and a result is something the user says.
fn told(message: &Message) -> (Role, String) {
    let role = if message.role == Role::Tool { Role::User } else { message.role };
    let calls = message.calls.iter().map(|call| format!("[{}({})]", call.name, call.arguments));
    let text = std::iter::once(message.content().into_owned()).filter(|text| !text.is_empty()).chain(calls);
    (role, text.collect::<Vec<_>>().join("\n"))
}

impl Speaker for Embedded {
    fn answer(&mut self, request: &Outgoing, part: &mut dyn FnMut(&str)) -> Result<Reply, SpeakError> {
        let told: Vec<_> = request.messages.iter().map(|message| told(message)).collect();
        let messages: Vec<_> = told.iter().map(|(role, text)| (*role, text.as_str())).collect();
        let prompt = self.model.prompt(&messages);
        let room = usize::try_from(request.reply_tokens.0).unwrap_or(usize::MAX);
        let sampling = Sampling { max_tokens: room.min(Sampling::default().max_tokens), ..Sampling::default() };
        let answer = self.chat.answer(&prompt, &sampling, &self.stop, part);
        if answer.end == End::Context && answer.text.is_empty() {
            return Err(SpeakError(format!("the prompt of {} tokens fills the model's context", prompt.tokens())));
        }
        let prompt = CacheUse { read: answer.cached_tokens, uncached: answer.new_tokens, ..CacheUse::default() };
        Ok(Reply {
            text: answer.text,
            spent: Some(Spent { prompt, output: answer.output_tokens.0 }),
            cut_off: answer.end != End::Done,
            ..Reply::default()
        })
    }
}

/// A model behind a provider's API.
pub struct Remote {
    client: Client,
    runtime: tokio::runtime::Runtime,
    stop: Stop,
}

/// Why a provider cannot be spoken to at all.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// Its settings.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The system.
    #[error("cannot speak to a provider: {0}")]
    Runtime(#[from] std::io::Error),
}

/// How often a wait looks whether the user wants no more.
const LOOK: Duration = Duration::from_millis(50);

impl Remote {
    /// Gets ready; nothing is sent yet.
    pub fn new(config: ClientConfig, stop: Stop) -> Result<Self, RemoteError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { client: Client::new(config)?, runtime, stop })
    }
}

impl Speaker for Remote {
    fn answer(&mut self, request: &Outgoing, part: &mut dyn FnMut(&str)) -> Result<Reply, SpeakError> {
        let failed = |error: &dyn std::fmt::Display| SpeakError(error.to_string());
        let mut answer = Answer::default();
        let talk = async {
            let mut events =
                self.client.send(&request.model, &request.body, Delivery::Stream).await.map_err(|error| failed(&error))?;
            while let Some(event) = events.next().await.map_err(|error| failed(&error))? {
                if let Event::Text(text) = &event {
                    part(text);
                }
                answer.add(event);
            }
            Ok::<(), SpeakError>(())
        };
        let stopped = async {
            while !self.stop.load(Ordering::Relaxed) {
                tokio::time::sleep(LOOK).await;
            }
        };
        let cut_off = self.runtime.block_on(async {
            tokio::select! {
                done = talk => done.map(|()| false),
                () = stopped => Ok(true),
            }
        })?;
        Ok(reply(answer, request.number, cut_off))
    }
}

fn reply(answer: Answer, request: u64, cut_off: bool) -> Reply {
    let spent = answer.usage.map(|usage| Spent { prompt: usage.cache_use(), output: usage.output.0 });
    let mut reply = Reply { spent, cut_off, ..Reply::default() };
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
                reply.calls.push(ToolCall { id: id.unwrap_or_else(|| format!("call-{request}-{at}")), name, arguments });
            }
            _ => {}
        }
    }
    reply
}
