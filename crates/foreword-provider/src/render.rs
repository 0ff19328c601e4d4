//! Renders prompts as request bodies. A [`Renderer`] caches the bytes of a session, so that the next body costs only the encoding
//! of new messages and a copy of the rest.

mod body;
mod marks;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use foreword_core::hash::Hash;
use foreword_core::json;
use foreword_core::message::{Message, Role};
use foreword_core::prompt::Prompt;
use foreword_core::tokens::Tokens;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::dialect::gemini::GeminiCacheRequest;
use crate::dialect::openai_chat::{self, Flavour};
use crate::dialect::parts::{self, Blank};
use crate::dialect::system::{Frame, System};
use crate::dialect::tools::{self, Tools};
use crate::dialect::wire::Wire;
use crate::dialect::{Dialect, anthropic, gemini, openai_responses};
use crate::model::{CacheRules, Capability, Model};
use crate::stream::{ClientMark, Mark, PromptStream, Ttl};

pub use body::Body;
use body::{Assembly, HashState};

/// What kind of request is expected next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// The user's next turn: only settled messages stay unchanged.
    #[default]
    Turn,
    /// A step of the same turn, which begins with all of this request.
    Step,
}

/// Options of a request body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyOptions {
    /// How long marks on the system are to be remembered.
    pub ttl: Ttl,
    /// How long marks on messages are. Where that is long, so are the marks on the system.
    #[serde(default)]
    pub message_ttl: Ttl,
    /// How many messages of the previous request this one begins with.
    pub previous_len: Option<usize>,
    /// How many messages of this request the next fold will leave as they are, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold_len: Option<usize>,
    /// What comes after this request.
    pub next: Next,
    /// The name of a Gemini cache with the tools and the system message.
    pub cached_content: Option<String>,
    /// Whether the answer is requested as a stream.
    pub stream: bool,
    /// The provider's ID of the previous answer: on a cache miss the provider reports what has changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare_with: Option<String>,
    /// Extra fields of the client, in the provider's format. Fields set by the engine take precedence.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// The client's limit of this reply, where it is not the session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Tokens>,
    /// Cache marks of the client. They keep their places; the engine uses the remaining ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<ClientMark>,
    /// Extra fields of the client's tools in the provider's format, by tool name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_fields: BTreeMap<String, Map<String, Value>>,
}

/// Whether only the engine may set a field: it defines the prompt, the model or the delivery.
pub(crate) fn is_ours(field: &str) -> bool {
    matches!(
        field,
        "cache_control"
            | "cache_prompt"
            | "cachedContent"
            | "contents"
            | "include"
            | "input"
            | "instructions"
            | "max_completion_tokens"
            | "max_output_tokens"
            | "max_tokens"
            | "messages"
            | "model"
            | "previous_response_id"
            | "prompt_cache_key"
            | "prompt_cache_options"
            | "store"
            | "stream"
            | "stream_options"
            | "system"
            | "systemInstruction"
            | "tools"
    )
}

/// Renders a single request body without a cache.
pub fn body(dialect: Dialect, model: &Model, prompt: &Prompt<'_>, options: &BodyOptions) -> Body {
    Renderer::new(dialect).render(model, prompt, options)
}

/// The request for a cache resource with a prompt's tools and system message; `None` where the provider has no such resources or the
/// prompt is too small for one.
pub fn explicit_cache(dialect: Dialect, model: &Model, prompt: &Prompt<'_>, lifetime: Duration) -> Option<GeminiCacheRequest> {
    let system = prompt.messages.first().filter(|message| message.role == Role::System);
    let size = prompt.tools.tokens + system.map_or(Tokens::ZERO, |message| message.tokens());
    let fits = dialect == Dialect::Gemini && model.has(Capability::ExplicitCache) && size.0 >= model.cache.minimum();
    fits.then(|| gemini_cache_request(model, prompt, lifetime.as_secs()))
}

/// The request that creates a Gemini cache with a prompt's tools and system message, for `ttl_s` seconds.
pub fn gemini_cache_request(model: &Model, prompt: &Prompt<'_>, ttl_s: u64) -> GeminiCacheRequest {
    let mut renderer = Renderer::new(Dialect::Gemini);
    renderer.system.set(gemini::SYSTEM, split(prompt.messages).0);
    renderer.tools.set(Dialect::Gemini, prompt.tools, &BTreeMap::new());
    let tools = Hash::of(&renderer.tools.bytes);
    let (session, l1, l2) = (prompt.session, prompt.l1, prompt.l2);
    let key = Hash::of(format!("{session}\n{}\n{tools}\n{l1}\n{l2}", model.wire));
    let mut body = Vec::new();
    body.extend_from_slice(br#"{"displayName":"fw-"#);
    body.extend_from_slice(key.short().as_bytes());
    body.extend_from_slice(br#"","model":"#);
    json::write_str(&mut body, &format!("models/{}", model.wire));
    if !renderer.system.bytes.is_empty() {
        body.extend_from_slice(br#","systemInstruction":"#);
        body.extend_from_slice(&renderer.system.bytes);
    }
    if !renderer.tools.bytes.is_empty() {
        body.extend_from_slice(br#","tools":"#);
        body.extend_from_slice(&renderer.tools.bytes);
    }
    body.extend_from_slice(format!(r#","ttl":"{ttl_s}s"}}"#).as_bytes());
    GeminiCacheRequest { key, body }
}

/// Renders the requests of one session in one dialect.
#[derive(Debug)]
pub struct Renderer {
    dialect: Dialect,
    model: String,
    /// The author whose opaque blocks are sent.
    author: String,
    tools: Tools,
    system: System,
    wire: Wire,
    hash: HashState,
}

impl Renderer {
    /// Creates an empty renderer.
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            model: String::new(),
            author: String::new(),
            tools: Tools::default(),
            system: System::default(),
            wire: Wire::default(),
            hash: HashState::default(),
        }
    }

    /// The renderer's dialect.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Renders the body of the session's next request.
    pub fn render(&mut self, model: &Model, prompt: &Prompt<'_>, options: &BodyOptions) -> Body {
        let author = self.dialect.author(model);
        if self.model != model.name || self.author != author {
            *self = Self { model: model.name.clone(), author, ..Self::new(self.dialect) };
        }
        let (system, messages) = split(prompt.messages);
        self.tools.set(self.dialect, prompt.tools, &options.tool_fields);
        self.system.set(self.frame(model), system);
        let kept = self.messages(model, messages);
        let marks = marks::plan(
            &marks::Input {
                system: &self.system,
                wire: &self.wire,
                tools: prompt.tools.tokens,
                tool_count: prompt.tools.list.len(),
                messages: messages.len(),
                lead: prompt.messages.len() - messages.len(),
            },
            self.dialect,
            model,
            prompt.settled,
            options,
        );
        let stream = PromptStream::new(Arc::clone(&self.tools.blocks), Arc::clone(&self.system.blocks), &self.wire.blocks)
            .with_marks(marks.clone());
        let stream = if self.dialect == Dialect::Gemini && options.cached_content.is_some() {
            stream.with_explicit(prompt.tools.list.len() + self.system.len())
        } else {
            stream
        };
        let head = prompt.tools.list.len();
        let close = self.close();
        let [lead, middle, tail] = self.fields(model, prompt, options, &marks);
        let mut hash = std::mem::take(&mut self.hash);
        let body = Assembly {
            lead: &lead,
            inner_system: self.inner_system(),
            system_marks: marks::inserts(&marks, head, self.dialect, |block| self.system.start(block)),
            generation: self.system.generation,
            wire: &self.wire.bytes,
            wire_marks: marks::inserts(&marks, head + self.system.len(), self.dialect, |block| {
                self.wire.starts.get(block).copied()
            }),
            kept,
            close,
            middle: &middle,
            outer_system: self.outer_system(options),
            tail: &tail,
        }
        .finish(&mut hash, stream);
        self.hash = hash;
        body
    }

    fn frame(&self, model: &Model) -> Frame {
        match self.dialect {
            Dialect::OpenAiResponses => openai_responses::SYSTEM,
            Dialect::OpenAiChat if model.has(Capability::Breakpoints) => openai_chat::SYSTEM_PARTS,
            Dialect::OpenAiChat | Dialect::LlamaCpp => openai_chat::SYSTEM,
            Dialect::Anthropic => anthropic::SYSTEM,
            Dialect::Gemini => gemini::SYSTEM,
        }
    }

    /// Whether the system message is one of the messages in the request.
    fn system_is_message(&self) -> bool {
        matches!(self.dialect, Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::LlamaCpp)
    }

    fn outer_system(&self, options: &BodyOptions) -> &[u8] {
        if self.system_is_message() || options.cached_content.is_some() { &[] } else { &self.system.bytes }
    }

    fn inner_system(&self) -> &[u8] {
        if self.system_is_message() { &self.system.bytes } else { &[] }
    }

    fn blank(&self) -> Blank {
        match self.dialect {
            Dialect::Anthropic => Blank::Spaces,
            Dialect::Gemini => Blank::Empty,
            Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::LlamaCpp => Blank::Sent,
        }
    }

    fn close(&self) -> &'static str {
        let open = self.wire.now.open;
        match self.dialect {
            Dialect::OpenAiResponses => "",
            Dialect::OpenAiChat | Dialect::LlamaCpp => openai_chat::close(open),
            Dialect::Anthropic => anthropic::close(open),
            Dialect::Gemini => gemini::close(open),
        }
    }

    /// Writes new messages. Returns how many bytes of old messages are unchanged.
    fn messages(&mut self, model: &Model, messages: &[Arc<Message>]) -> usize {
        let base = usize::from(self.system_is_message() && !self.system.bytes.is_empty());
        if self.wire.base != base {
            self.wire = Wire::default();
            self.wire.base = base;
        }
        let blank = self.blank();
        let mut keep = self.wire.shared(messages);
        if self.dialect == Dialect::Anthropic {
            // How a system message is sent depends on who speaks after it.
            while keep > 0 && !settles(&messages[keep - 1], blank) {
                keep -= 1;
            }
        }
        self.wire.truncate(keep);
        let kept = self.wire.bytes.len();
        for (index, message) in messages.iter().enumerate().skip(keep) {
            if parts::is_sent(message, blank) {
                self.message(model, message, &messages[index + 1..]);
            }
            self.wire.done(message);
        }
        if self.wire.now.index == 0 {
            match self.dialect {
                Dialect::Anthropic => anthropic::TURNS.first_word(&mut self.wire),
                Dialect::Gemini => gemini::TURNS.first_word(&mut self.wire),
                Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::LlamaCpp => {}
            }
        }
        kept
    }

    fn message(&mut self, model: &Model, message: &Arc<Message>, rest: &[Arc<Message>]) {
        let blank = self.blank();
        let parts = parts::parts(message, blank, &self.author);
        let thoughtful = model.has(Capability::ReasoningContent);
        let wire = &mut self.wire;
        match self.dialect {
            Dialect::OpenAiResponses => openai_responses::message(wire, message, &parts),
            Dialect::OpenAiChat => openai_chat::message(wire, Flavour::OpenAi, message, &parts, thoughtful),
            Dialect::LlamaCpp => openai_chat::message(wire, Flavour::Local, message, &parts, thoughtful),
            Dialect::Anthropic => {
                let follower = rest.iter().find(|message| settles(message, blank)).map(|message| message.role);
                let systems = model.has(Capability::MidConversationSystem);
                anthropic::message(wire, message, &parts, systems, follower);
            }
            Dialect::Gemini => {
                let signed = model.has(Capability::ThoughtSignature);
                gemini::message(wire, message, &parts, signed);
            }
        }
    }

    /// The fields before the messages, after them, and after the system message if it is a separate field.
    fn fields(&self, model: &Model, prompt: &Prompt<'_>, options: &BodyOptions, marks: &[Mark]) -> [Vec<u8>; 3] {
        let reply = options.reply.unwrap_or(prompt.reply_tokens);
        let mut fields = Fields::default();
        let cached = self.dialect == Dialect::Gemini && options.cached_content.is_some();
        let (messages, system) = match self.dialect {
            Dialect::OpenAiChat | Dialect::LlamaCpp => {
                let local = self.dialect == Dialect::LlamaCpp;
                fields.raw_if(local, "cache_prompt", b"true");
                let name = if local || model.has(Capability::MaxTokens) { "max_tokens" } else { "max_completion_tokens" };
                fields.number(name, reply.0);
                fields.text("model", &model.wire);
                self.cache_key(&mut fields, model, prompt);
                fields.raw_if(options.stream, "stream", b"true");
                fields.raw_if(options.stream, "stream_options", br#"{"include_usage":true}"#);
                ("messages", "")
            }
            Dialect::OpenAiResponses => {
                fields.raw_if(model.has(Capability::Reasoning), "include", br#"["reasoning.encrypted_content"]"#);
                fields.number("max_output_tokens", reply.0);
                fields.text("model", &model.wire);
                self.cache_key(&mut fields, model, prompt);
                if let Some(id) = options.compare_with.as_ref().filter(|_| model.has(Capability::CacheDiagnostics)) {
                    fields.value("prompt_cache_options", &json!({"comparison_response_id": id}));
                }
                fields.raw("store", b"false");
                fields.raw_if(options.stream, "stream", b"true");
                ("input", "")
            }
            Dialect::Anthropic => {
                fields.number("max_tokens", reply.0);
                fields.text("model", &model.wire);
                fields.raw_if(options.stream, "stream", b"true");
                ("messages", "system")
            }
            Dialect::Gemini => {
                if let Some(name) = &options.cached_content {
                    fields.text("cachedContent", name);
                }
                let mut config = options.extra.get("generationConfig").and_then(Value::as_object).cloned().unwrap_or_default();
                config.insert("maxOutputTokens".to_owned(), reply.0.into());
                fields.value("generationConfig", &Value::Object(config));
                ("contents", "systemInstruction")
            }
        };
        if let Some(choice) = tools::choice(self.dialect, prompt.tools) {
            fields.value("tool_choice", &choice);
        }
        let mark = marks.iter().find(|mark| mark.block + 1 == prompt.tools.list.len());
        let tools = self.tools.with_mark(mark.map(|mark| anthropic::mark(mark.ttl)));
        fields.raw_if(!cached && !tools.is_empty(), "tools", &tools);
        for (name, value) in &options.extra {
            // What is said of tools has to stand beside them, and they are in the cache.
            let is_set = is_ours(name) || fields.0.contains_key(name.as_str()) || (cached && name == "toolConfig");
            if !is_set {
                fields.value(name, value);
            }
        }
        let is_field = !system.is_empty() && !cached && !self.system.bytes.is_empty();
        fields.around(messages, is_field.then_some(system))
    }

    fn cache_key(&self, fields: &mut Fields<'_>, model: &Model, prompt: &Prompt<'_>) {
        if self.dialect != Dialect::LlamaCpp && model.has(Capability::PromptCacheKey) {
            fields.text("prompt_cache_key", &prompt_cache_key(prompt.session));
        }
    }
}

/// Whether a message is sent with a role of its own.
fn settles(message: &Message, blank: Blank) -> bool {
    message.role != Role::System && parts::is_sent(message, blank)
}

/// The system message and the other messages.
fn split(messages: &[Arc<Message>]) -> (Option<&Arc<Message>>, &[Arc<Message>]) {
    match messages.split_first() {
        Some((first, rest)) if first.role == Role::System => (Some(first), rest),
        _ => (None, messages),
    }
}

/// The cache routing key of a session: stable, and without revealing the session's ID.
pub fn prompt_cache_key(session: &str) -> String {
    format!("fw-{}", &Hash::of(session).to_string()[..16])
}

/// Whether the model's cache uses explicit marks.
pub(crate) fn takes_marks(dialect: Dialect, model: &Model) -> bool {
    match dialect {
        Dialect::Anthropic => matches!(model.cache, CacheRules::Marks { .. }),
        Dialect::OpenAiChat | Dialect::OpenAiResponses => model.has(Capability::Breakpoints),
        Dialect::Gemini | Dialect::LlamaCpp => false,
    }
}

/// The fields of an object by name, with values as JSON.
#[derive(Debug, Default)]
struct Fields<'a>(BTreeMap<&'a str, Cow<'a, [u8]>>);

impl<'a> Fields<'a> {
    fn raw(&mut self, name: &'a str, value: &'a [u8]) {
        self.0.insert(name, Cow::Borrowed(value));
    }

    fn raw_if(&mut self, wanted: bool, name: &'a str, value: &'a [u8]) {
        if wanted {
            self.raw(name, value);
        }
    }

    fn value(&mut self, name: &'a str, value: &Value) {
        let mut bytes = Vec::new();
        json::write(&mut bytes, value);
        self.0.insert(name, Cow::Owned(bytes));
    }

    fn text(&mut self, name: &'a str, value: &str) {
        let mut bytes = Vec::new();
        json::write_str(&mut bytes, value);
        self.0.insert(name, Cow::Owned(bytes));
    }

    fn number(&mut self, name: &'a str, value: u64) {
        self.0.insert(name, Cow::Owned(value.to_string().into_bytes()));
    }

    /// The fields up to the bracket of the messages, those up to the system message if it is a field, and the rest.
    fn around(self, messages: &str, system: Option<&str>) -> [Vec<u8>; 3] {
        let (mut lead, mut middle, mut tail) = (Vec::new(), Vec::new(), Vec::new());
        for (name, value) in self.0 {
            let part = if name < messages {
                &mut lead
            } else if system.is_none_or(|system| name < system) {
                &mut middle
            } else {
                &mut tail
            };
            write_key(part, name);
            part.extend_from_slice(&value);
        }
        write_key(&mut lead, messages);
        lead.push(b'[');
        lead[0] = b'{';
        if let Some(system) = system {
            write_key(&mut middle, system);
        }
        [lead, middle, tail]
    }
}

/// Writes a field's name, after a comma.
fn write_key(out: &mut Vec<u8>, name: &str) {
    out.push(b',');
    json::write_str(out, name);
    out.push(b':');
}
