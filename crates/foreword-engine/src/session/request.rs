//! Builds a request: the layout, the provider's format, and storing it before it is sent.

use std::sync::Arc;
use std::time::Duration;

use foreword_core::budget::OverBudget;
use foreword_core::envelope::{ContextEntry, Envelope, FoldReason, Note};
use foreword_core::json::canonical;
use foreword_core::message::Message;
use foreword_core::session::Session;
use foreword_core::tokens::Tokens;
use foreword_prompt_cache::lifetime::{Asked, Terms};
use foreword_provider::dialect::gemini::GeminiCacheRequest;
use foreword_provider::model::Model;
use foreword_provider::render::{Body, BodyOptions, Next, explicit_cache};
use foreword_provider::stream::{PromptStream, Ttl};
use foreword_store::{Document, NewRequest, Request, StoreError, Write};

use super::breaks::unexplained;
use super::client::ClientOptions;
use super::inspect::{Record, Stored};
use super::recorded::RecordedSession;

/// A request that is ready to send.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The number of the request in the session, from 0.
    pub number: u64,
    /// When it was built, in milliseconds since 1970.
    pub at_ms: i64,
    /// The exact bytes.
    pub body: Body,
    /// Whether the reply is requested as a stream.
    pub stream: bool,
    /// The model.
    pub model: Arc<Model>,
    /// The provider-neutral messages.
    pub messages: Vec<Arc<Message>>,
    /// The limit for the reply.
    pub reply_tokens: Tokens,
    /// The record.
    pub envelope: Envelope,
    /// How the body was written.
    pub(super) options: BodyOptions,
}

/// The last request.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) number: u64,
    pub(super) at_ms: i64,
    pub(super) messages: Vec<Arc<Message>>,
    pub(super) cut: usize,
    pub(super) epoch: u64,
    /// `None` if the session was just opened and the prompt was not needed yet.
    pub(super) prompt: Option<PromptStream>,
    /// The request's items, under the same condition; empty if they are in another branch.
    pub(super) context: Option<Vec<ContextEntry>>,
    /// What its marks were chosen by.
    pub(super) asked: Asked,
    /// For how long its marks on messages are remembered.
    pub(super) ttl: Ttl,
}

/// What is known of a request before its cache marks are chosen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NextRequest {
    pub(super) asked: Asked,
    /// How many messages it has in common with the one before it.
    same: usize,
}

/// A request that is due.
pub(super) enum LaidOut {
    /// It was stored before and is sent again.
    Again(Box<Outgoing>),
    /// It is laid out and not yet rendered.
    New(Box<Draft>),
}

/// A request that is laid out.
#[derive(Debug)]
pub(super) struct Draft {
    envelope: Envelope,
    messages: Vec<Arc<Message>>,
    next: NextRequest,
    at_ms: i64,
}

/// A request without an answer.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) envelope: Envelope,
    /// Its number, if it is stored.
    pub(super) stored: Option<u64>,
}

impl RecordedSession {
    /// Builds the request that is due and stores its envelope. After an error the turn is still pending.
    pub fn request(&mut self, at_ms: i64) -> Result<Outgoing, OverBudget> {
        let outgoing = match self.lay_out(at_ms)? {
            LaidOut::Again(outgoing) => *outgoing,
            LaidOut::New(draft) => self.finish_request(*draft, None, None),
        };
        self.write([]);
        Ok(outgoing)
    }

    /// Lays out the request that is due, or finds the stored one that has no answer.
    pub(super) fn lay_out(&mut self, at_ms: i64) -> Result<LaidOut, OverBudget> {
        let mut envelope = match self.pending.take() {
            Some(Pending { envelope, stored: Some(number) }) => match self.again(&envelope, number) {
                Ok(Some(outgoing)) => return Ok(LaidOut::Again(Box::new(outgoing))),
                Ok(None) => envelope,
                Err(error) => {
                    self.fail(error.to_string());
                    envelope
                }
            },
            Some(Pending { envelope, stored: None }) => envelope,
            None => self.session.request()?,
        };
        self.due = false;
        let messages = self.session.messages().to_vec();
        if let Some(layer) = self.sent.as_ref().and_then(|before| unexplained(before, &envelope, &messages)) {
            let text = format!(
                "{} is not what it was in the request before, and nothing on record says why; the provider's cache is read only up to there",
                layer.as_str()
            );
            envelope.notes.push(Note { kind: "prefix_changed".into(), item: None, text: text.clone() });
            self.fail(text);
        }
        let next = self.next_at(at_ms, &envelope, &messages);
        Ok(LaidOut::New(Box::new(Draft { envelope, messages, next, at_ms })))
    }

    /// The cache resource that a request would use at its provider, if that is possible.
    pub(super) fn cache_request(&self, draft: &Draft, lifetime: Duration) -> Option<GeminiCacheRequest> {
        explicit_cache(self.setup.dialect, &self.model, &self.session.prompt(&draft.envelope), lifetime)
    }

    /// Renders a request and records it. `cached` is the name of a cache resource at the provider with its tools and system message.
    pub(super) fn finish_request(&mut self, draft: Draft, client: Option<&ClientOptions>, cached: Option<String>) -> Outgoing {
        let Draft { envelope, messages, next, at_ms } = draft;
        let asked = next.asked;
        let before = self.sent.take();
        let mut options = self.options(&self.session, &envelope, &next, client);
        options.cached_content = cached;
        let body = self.renderer.render(&self.model, &self.session.prompt(&envelope), &options);
        let number = before.as_ref().map_or(self.counts.requests, |sent| sent.number + 1).max(self.counts.requests);
        let began = envelope.began.map(FoldReason::as_str);
        let (tokens, epoch, bytes) = (envelope.tokens.0, envelope.epoch, body.bytes.len());
        tracing::debug!(session = self.id(), request = number, tokens, epoch, began, bytes, "request laid out");
        let context = self.session.context(&envelope);
        let stood = self.items_of(before.as_ref());
        let mut record = Record::new(&self.setup, &self.model, &self.session, &envelope, &options);
        record.lifetimes = Terms::of(&self.model).map(|_| (self.lifetimes, asked));
        let written = Document::of(&record).and_then(|record| {
            let changed = changed(before.as_ref(), &messages)?;
            let moved = context.iter().enumerate().filter(|(at, entry)| stood.get(*at) != Some(*entry));
            let moved = moved.map(|(at, entry)| Ok((at as u64, entry.item.to_string(), canonical(entry)?)));
            Ok(NewRequest {
                request: Request {
                    number,
                    input: 0,
                    run: envelope.turn as u64,
                    epoch: envelope.epoch as u64,
                    began: envelope.began.map(|reason| reason.as_str().to_owned()),
                    at_ms,
                    combined: envelope.combined,
                    wire: body.sha256(),
                    tokens: envelope.tokens.0,
                    messages: None,
                    record,
                },
                messages: messages.len() as u64,
                changed,
                items: context.len() as u64,
                context: moved.collect::<serde_json::Result<_>>()?,
            })
        });
        match written {
            Ok(new) => {
                self.keep_outputs();
                self.backlog.push(Write::Request(Box::new(new)));
            }
            Err(error) => self.fail(format!("the record of a request cannot be stored: {error}")),
        }
        self.before_last = before.map(|sent| (sent.at_ms, sent.cut, sent.prompt));
        let reply_tokens = self.setup.settings.budget.reply;
        let (stream, model) = (options.stream, Arc::clone(&self.model));
        let ttl = options.message_ttl;
        let outgoing = Outgoing { number, at_ms, body, stream, model, messages, reply_tokens, envelope, options };
        let messages = outgoing.messages.clone();
        let prompt = Some(outgoing.body.prompt.clone());
        let (cut, epoch) = (outgoing.envelope.cut, outgoing.envelope.epoch as u64);
        self.sent = Some(Sent { number, at_ms, messages, cut, epoch, prompt, context: Some(context), asked, ttl });
        outgoing
    }

    /// The items of a request, read from the store if needed.
    pub(super) fn items_of(&self, sent: Option<&Sent>) -> Vec<ContextEntry> {
        let Some(sent) = sent else { return Vec::new() };
        let stored = || {
            let items = self.store.context(&self.row.id, sent.number).ok()?.into_iter();
            items.map(|item| serde_json::from_value(item).ok()).collect()
        };
        // Where they cannot be read, all are written again.
        sent.context.clone().or_else(stored).unwrap_or_default()
    }

    /// A stored request to be sent again with the same bytes. `None` if it needs a cache that may have expired.
    fn again(&mut self, envelope: &Envelope, number: u64) -> Result<Option<Outgoing>, StoreError> {
        let stored = Stored::read(&*self.store, &self.row.id, number)?;
        if stored.needs_cache() {
            return Ok(None);
        }
        let (body, options) = (stored.body(), stored.options().clone());
        if let Some(sent) = self.sent.as_mut() {
            sent.prompt = Some(body.prompt.clone());
        }
        Ok(Some(Outgoing {
            number,
            at_ms: stored.request.at_ms,
            body,
            stream: stored.streams(),
            model: Arc::clone(&self.model),
            messages: stored.messages,
            reply_tokens: self.setup.settings.budget.reply,
            envelope: envelope.clone(),
            options,
        }))
    }

    /// What is known of a request before its marks are chosen.
    pub(super) fn next_at(&self, at_ms: i64, envelope: &Envelope, messages: &[Arc<Message>]) -> NextRequest {
        let before = self.sent.as_ref();
        let last_ms = self.answered_ms.or(before.map(|before| before.at_ms)).unwrap_or(at_ms);
        let same = before.map_or(0, |before| in_common(&before.messages, messages));
        let new: Tokens = messages[same..].iter().map(|message| message.tokens()).sum();
        let asked = Asked {
            idle_s: u64::try_from(at_ms.saturating_sub(last_ms) / 1000).unwrap_or(0),
            total: envelope.tokens,
            kept: if same == 0 { Tokens::ZERO } else { envelope.tokens - new },
        };
        NextRequest { asked, same }
    }

    /// For how long the marks on messages are to be remembered: what the user set, else what has paid in this session.
    fn message_ttl(&self, asked: &Asked, client: Option<&ClientOptions>) -> Ttl {
        let of_client = client.is_some_and(|client| !client.marks.is_empty());
        let terms = Terms::of(&self.model).filter(|_| self.setup.wanted.cache_ttl.is_none() && !of_client);
        terms.map_or(Ttl::Short, |terms| self.lifetimes.choose(&terms, asked))
    }

    /// How a request's body is written. `client` is set for a request of a client.
    pub(super) fn options(
        &self,
        session: &Session,
        envelope: &Envelope,
        next: &NextRequest,
        client: Option<&ClientOptions>,
    ) -> BodyOptions {
        BodyOptions {
            ttl: self.setup.ttl,
            message_ttl: self.message_ttl(&next.asked, client),
            previous_len: Some(next.same).filter(|len| *len > 0),
            fold_len: session.before_next_fold(),
            // Where tools can be called, the next request most likely continues this one.
            next: if envelope.tools.allowed.is_empty() { Next::Turn } else { Next::Step },
            cached_content: None,
            stream: client.is_none_or(|client| client.stream),
            compare_with: self.last_answer.clone(),
            extra: client.map(|client| client.extra.clone()).unwrap_or_default(),
            reply: client.and_then(|manner| manner.reply),
            marks: client.map(|client| client.marks.clone()).unwrap_or_default(),
            tool_fields: client.map(|client| client.tool_fields.clone()).unwrap_or_default(),
        }
    }
}

/// How many messages two requests begin with in common.
pub fn in_common(before: &[Arc<Message>], now: &[Arc<Message>]) -> usize {
    before.iter().zip(now).take_while(|(before, now)| Arc::ptr_eq(before, now) || before.says_the_same(now)).count()
}

/// The messages that do not stand at the same place in the request before.
fn changed(before: Option<&Sent>, messages: &[Arc<Message>]) -> serde_json::Result<Vec<(u64, Document)>> {
    let before = before.map(|sent| &sent.messages[..]).unwrap_or_default();
    let differs = |at: usize, message: &Arc<Message>| {
        before.get(at).is_none_or(|before| !(Arc::ptr_eq(before, message) || before == message))
    };
    let changed = messages.iter().enumerate().filter(|(at, message)| differs(*at, message));
    changed.map(|(at, message)| Ok((at as u64, Document::of(&**message)?))).collect()
}
