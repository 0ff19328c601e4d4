//! An answer of one API, told in another as it comes.

use serde_json::Value;

use super::super::ClientApi;
use super::super::tell::{End, FinishedAnswer, ResponseWriter};
use super::Translation;
use crate::dialect::Dialect;
use crate::reply::{Event, Form, Place, ReadError, Reader, Stop};
use crate::usage::Usage;

/// Bytes of an answer that are read; a longer one is cut.
const LONGEST: usize = 64 << 20;

/// Reads an answer of a provider and tells it to a client of another API.
#[derive(Debug)]
pub struct AnswerTranslator {
    reader: Reader,
    writer: ResponseWriter,
    /// How large the prompt is thought to be, until the beginning was told.
    prompt: Option<u64>,
    usage: Usage,
    stop: Option<Stop>,
}

impl AnswerTranslator {
    /// Of the answer to a translated request, for a client that calls the model by this name.
    pub fn new(front: ClientApi, dialect: Dialect, form: Form, of: &Translation, (id, model): (&str, &str), now_s: i64) -> Self {
        let writer = ResponseWriter::new(front, id, model, now_s, of.usage).with_tools(of.tools.clone());
        let prompt = Some(of.body.len() as u64 / 4);
        Self { reader: Reader::new(dialect, form, LONGEST), writer, prompt, usage: Usage::default(), stop: None }
    }

    /// Takes in bytes; what the client is told for them.
    pub fn push(&mut self, bytes: &[u8]) -> Result<String, ReadError> {
        let mut out = match self.prompt.take() {
            Some(prompt) => self.writer.begin(prompt),
            None => String::new(),
        };
        let read = self.reader.push(bytes);
        out += &self.events();
        read.map(|()| out)
    }

    /// The end of the bytes; what the client is told at last.
    pub fn finish(&mut self) -> Result<String, ReadError> {
        self.reader.finish()?;
        let rest = self.events();
        Ok(rest + &self.writer.end(&self.finished()))
    }

    /// The end of the bytes; the whole answer.
    pub fn whole(&mut self) -> Result<Value, ReadError> {
        self.reader.finish()?;
        self.events();
        Ok(self.writer.whole(&self.finished()))
    }

    /// What tells a client that waits that the answer is on its way.
    pub fn ping(&self) -> &'static str {
        self.writer.ping()
    }

    /// What a client is told of an answer that ended badly.
    pub fn failed(&mut self, status: u16, message: &str) -> String {
        self.writer.failed(status, message)
    }

    fn events(&mut self) -> String {
        let (mut out, writer) = (String::new(), &mut self.writer);
        while let Some(event) = self.reader.next_event() {
            match event {
                Event::Text(text) => out += &writer.part(&text),
                Event::Reasoning(text) => out += &writer.think(&text),
                Event::CallBegin { call, id, name } => out += &writer.call(call, id.as_deref(), &name),
                Event::CallPart { call, arguments } => out += &writer.arguments(call, &arguments),
                Event::Opaque(opaque) if opaque.place == Place::Here => out += &writer.opaque(&opaque.json),
                Event::Opaque(_) | Event::Missed(_) => {}
                Event::Usage(usage) => self.usage = usage,
                Event::Stop(stop) => self.stop = Some(stop),
            }
        }
        out
    }

    fn finished(&self) -> FinishedAnswer<'static> {
        let prompt = self.usage.cache_use();
        FinishedAnswer {
            text: "",
            calls: &[],
            end: self.stop.as_ref().map_or(End::Done, End::of),
            cached: (prompt.read.0, prompt.write.0),
            prompt: prompt.total().0,
            output: self.usage.output.0,
            reasoning: self.usage.reasoning.0,
        }
    }
}

impl End {
    /// Why an answer ended, as its provider said.
    pub fn of(stop: &Stop) -> Self {
        match stop {
            Stop::End | Stop::Other(_) => Self::Done,
            Stop::Sequence(sequence) => Self::Sequence(sequence.clone()),
            Stop::Calls => Self::Calls,
            Stop::Length => Self::Cut,
            Stop::Window => Self::Window,
            Stop::Refused => Self::Refused,
            Stop::Paused => Self::Paused,
        }
    }
}
