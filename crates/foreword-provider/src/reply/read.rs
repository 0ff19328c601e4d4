//! From the bytes of an answer to events.

use std::collections::VecDeque;

use serde_json::Value;

use super::anthropic::Anthropic;
use super::chat::Chat;
use super::gemini::Gemini;
use super::responses::Responses;
use super::{CacheMiss, Event, Opaque, Place, Stop};
use crate::dialect::Dialect;
use crate::refusal::Refusal;
use crate::sse::{Frame, SseReader};
use crate::usage::Usage;

/// How an answer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As server-sent events.
    Stream,
    /// As one JSON value.
    Whole,
}

/// An answer that could not be read to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The provider refused, or broke off with a reason.
    #[error("{0}")]
    Refused(Refusal),
    /// It ended before the model had ended.
    #[error("the answer ended early; try again")]
    Cut,
    /// Too large.
    #[error("the answer is longer than {max} bytes; ask for a shorter one")]
    TooLarge {
        /// The limit.
        max: usize,
    },
    /// Not what the provider's documents say.
    #[error("cannot read the answer: {why}; check that `base_url` and `dialect` match")]
    Strange {
        /// The error.
        why: String,
    },
}

/// Reads one answer. Events do not depend on where its bytes were cut.
#[derive(Debug)]
pub struct Reader {
    input: Input,
    words: Words,
    sink: Sink,
    max: usize,
    taken: usize,
    finished: bool,
}

#[derive(Debug)]
enum Input {
    Stream(SseReader),
    Whole(Vec<u8>),
}

#[derive(Debug)]
enum Words {
    Chat(Chat),
    Responses(Responses),
    Anthropic(Anthropic),
    Gemini(Gemini),
}

impl Words {
    fn event(&mut self, sink: &mut Sink, value: Value) -> Result<(), Refusal> {
        match self {
            Self::Chat(chat) => chat.event(sink, &value),
            Self::Responses(responses) => responses.event(sink, &value),
            Self::Anthropic(anthropic) => anthropic.event(sink, value),
            Self::Gemini(gemini) => gemini.event(sink, &value),
        }
    }

    fn whole(&mut self, sink: &mut Sink, value: &Value) -> Result<(), Refusal> {
        match self {
            Self::Chat(chat) => chat.event(sink, value),
            Self::Responses(responses) => responses.whole(sink, value),
            Self::Anthropic(anthropic) => anthropic.whole(sink, value),
            Self::Gemini(gemini) => gemini.event(sink, value),
        }
    }

    fn finish(&mut self, sink: &mut Sink) {
        if let Self::Chat(chat) = self {
            chat.finish(sink);
        }
    }
}

impl Reader {
    /// A reader of one answer in `dialect`, of at most `max` bytes.
    pub fn new(dialect: Dialect, form: Form, max: usize) -> Self {
        let words = match dialect {
            Dialect::OpenAiChat | Dialect::LlamaCpp => Words::Chat(Chat::new(dialect)),
            Dialect::OpenAiResponses => Words::Responses(Responses::default()),
            Dialect::Anthropic => Words::Anthropic(Anthropic::default()),
            Dialect::Gemini => Words::Gemini(Gemini),
        };
        let input = match form {
            Form::Stream => Input::Stream(SseReader::new(max)),
            Form::Whole => Input::Whole(Vec::new()),
        };
        Self { input, words, sink: Sink::default(), max, taken: 0, finished: false }
    }

    /// Takes in bytes. After an error it takes no more.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), ReadError> {
        if self.finished {
            return Ok(());
        }
        let (bytes, over) = bytes.split_at(bytes.len().min(self.max - self.taken));
        self.taken += bytes.len();
        let read = self.take(bytes);
        let read = if over.is_empty() { read } else { read.and(Err(ReadError::TooLarge { max: self.max })) };
        self.closing(read)
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), ReadError> {
        let sse = match &mut self.input {
            Input::Stream(sse) => sse,
            Input::Whole(buffer) => {
                buffer.extend_from_slice(bytes);
                return Ok(());
            }
        };
        let mut frames = Vec::new();
        let pushed = sse.push(bytes, |frame| frames.push(frame));
        frames.iter().try_for_each(|frame| self.frame(frame))?;
        pushed.map_err(|error| ReadError::TooLarge { max: error.max })
    }

    fn frame(&mut self, frame: &Frame) -> Result<(), ReadError> {
        if self.sink.ended || frame.data.is_empty() {
            return Ok(());
        }
        if frame.data.trim() == "[DONE]" {
            self.sink.ended = true;
            return Ok(());
        }
        let value = json(frame.data.as_bytes())?;
        self.words.event(&mut self.sink, value).map_err(ReadError::Refused)
    }

    /// Ends the input and returns the remaining events: the usage, and the end if it was reached.
    pub fn finish(&mut self) -> Result<(), ReadError> {
        if self.finished {
            return Ok(());
        }
        let read = match &mut self.input {
            Input::Whole(buffer) => {
                let buffer = std::mem::take(buffer);
                json(&buffer).and_then(|value| self.words.whole(&mut self.sink, &value).map_err(ReadError::Refused))
            }
            Input::Stream(sse) => match sse.finish().map(|frame| self.frame(&frame)) {
                // Half an event is none.
                Some(Err(ReadError::Strange { .. })) | None => Ok(()),
                Some(read) => read,
            },
        };
        let read = if self.sink.stop.is_none() { read.and(Err(ReadError::Cut)) } else { read };
        self.closing(read)?;
        self.close();
        Ok(())
    }

    /// Closes where `read` is an error.
    fn closing(&mut self, read: Result<(), ReadError>) -> Result<(), ReadError> {
        if read.is_err() {
            self.sink.stop = None;
            self.close();
        }
        read
    }

    fn close(&mut self) {
        self.finished = true;
        self.words.finish(&mut self.sink);
        let missed = self.sink.missed.take().map(Event::Missed);
        let last = [missed, self.sink.usage.map(Event::Usage), self.sink.stop.take().map(Event::Stop)];
        self.sink.events.extend(last.into_iter().flatten());
    }

    /// The next event.
    pub fn next_event(&mut self) -> Option<Event> {
        self.sink.events.pop_front()
    }

    /// The provider's name for the answer, once it is known.
    pub fn id(&self) -> Option<&str> {
        self.sink.id.as_deref()
    }

    /// The usage known so far.
    pub fn usage(&self) -> Option<Usage> {
        self.sink.usage
    }
}

/// What the client needs to know of an answer that is still arriving.
#[cfg(feature = "client")]
impl Reader {
    /// Whether the model has begun to answer.
    pub(crate) fn has_begun(&self) -> bool {
        !self.sink.events.is_empty()
    }

    /// Whether there is content to return.
    pub(crate) fn has_content(&self) -> bool {
        self.sink.events.iter().any(|event| !matches!(event, Event::Missed(_) | Event::Usage(_) | Event::Stop(_)))
    }

    /// Whether all events are known.
    pub(crate) fn has_finished(&self) -> bool {
        self.finished
    }

    /// Whether the provider has sent the end.
    pub(crate) fn has_ended(&self) -> bool {
        self.sink.ended || self.finished
    }

    /// Whether the model has ended; something may still follow.
    pub(crate) fn has_stopped(&self) -> bool {
        self.sink.stop.is_some()
    }
}

fn json(bytes: &[u8]) -> Result<Value, ReadError> {
    serde_json::from_slice(bytes).map_err(|error| {
        let start: String = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).chars().filter(|c| !c.is_control()).collect();
        ReadError::Strange { why: format!("{start:?} is not JSON ({error})") }
    })
}

/// Where the dialects put what they read.
#[derive(Debug, Default)]
pub(super) struct Sink {
    events: VecDeque<Event>,
    calls: usize,
    id: Option<String>,
    pub(super) missed: Option<CacheMiss>,
    pub(super) usage: Option<Usage>,
    pub(super) stop: Option<Stop>,
    /// Nothing more comes.
    pub(super) ended: bool,
}

impl Sink {
    /// The provider's name for the answer; the first one counts.
    pub(super) fn name(&mut self, id: &Value) {
        if self.id.is_none() {
            self.id = id.as_str().map(str::to_owned);
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.events.push_back(Event::Text(text.to_owned()));
        }
    }

    pub(super) fn reasoning(&mut self, text: &str) {
        if !text.is_empty() {
            self.events.push_back(Event::Reasoning(text.to_owned()));
        }
    }

    /// Begins a call and gives its place.
    pub(super) fn call(&mut self, id: Option<&str>, name: &str) -> usize {
        let call = self.calls;
        self.calls += 1;
        let id = id.filter(|id| !id.is_empty()).map(str::to_owned);
        self.events.push_back(Event::CallBegin { call, id, name: name.to_owned() });
        call
    }

    pub(super) fn arguments(&mut self, call: usize, text: &str) {
        if !text.is_empty() {
            self.events.push_back(Event::CallPart { call, arguments: text.to_owned() });
        }
    }

    pub(super) fn opaque(&mut self, place: Place, json: Value) {
        self.events.push_back(Event::Opaque(Opaque { place, json }));
    }

    /// An end that a provider calls by the same name whether there are calls or not.
    pub(super) fn end(&self) -> Stop {
        if self.calls == 0 { Stop::End } else { Stop::Calls }
    }
}
