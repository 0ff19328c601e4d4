//! Answers of the provider, whole or as they stream.

use foreword_core::session::Input;
use foreword_provider::cost::{cost, output_cost};
use foreword_provider::reply::{Event, Form, ReadError, Reader, Reply as Parts, ReplyMessage, Stop};
use foreword_provider::tool_call::resolve;
use foreword_provider::usage::Usage;
use serde::Serialize;
use serde_json::Value;

use crate::{Error, Session};

/// The largest answer in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// What the model answered.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Reply {
    /// The text for the user.
    pub text: String,
    /// The tool calls. Give each a result with [`Session::tool_result`], then send the next request.
    pub calls: Vec<Call>,
    /// Why it ended; `None` if the stream was cut off.
    pub stop: Option<Stop>,
    /// The token counts of the provider.
    pub usage: Option<Usage>,
    /// The price of prompt and reply in USD, by the provider's counts and the model table.
    pub cost: Option<f64>,
}

/// A tool call of the model.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Call {
    /// The ID for its result.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments: an object, unless the model made an error.
    pub arguments: Value,
    /// Why the call cannot be run, worded for the model: pass it to [`Session::tool_failed`]. The name is unknown, or the tool was
    /// not in the request.
    pub problem: Option<String>,
}

/// Reads an answer as its bytes arrive, in pieces of any size.
///
/// ```
/// # fn main() -> Result<(), foreword::Error> {
/// let mut session = foreword::Session::builder("gpt-5.4").stream().build()?;
/// session.turn("Hello").request()?;
/// let mut reader = session.reply_reader();
/// for piece in ["data: {\"choices\":[{\"delta\":{\"content\":\"Hi", " there\"}}]}\n\n", "data: [DONE]\n\n"] {
///     print!("{}", reader.push(piece.as_bytes())?);
/// }
/// let reply = session.finish_reply(reader)?;
/// assert_eq!(reply.text, "Hi there");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ReplyReader {
    reader: Reader,
    parts: Parts,
    failed: bool,
}

impl ReplyReader {
    /// Takes bytes of the answer. Returns the new text for the user.
    pub fn push(&mut self, bytes: &[u8]) -> Result<String, Error> {
        let read = self.reader.push(bytes);
        let text = self.drain();
        self.failed |= read.is_err();
        read?;
        Ok(text)
    }

    fn drain(&mut self) -> String {
        let mut text = String::new();
        while let Some(event) = self.reader.next_event() {
            if let Event::Text(more) = &event {
                text.push_str(more);
            }
            self.parts.add(event);
        }
        text
    }
}

impl Session {
    /// Takes a whole answer: the bytes of the response. An error of the provider changes nothing, so the request can be sent again.
    pub fn reply(&mut self, response: impl AsRef<[u8]>) -> Result<Reply, Error> {
        let mut reader = self.reader(Form::Whole);
        reader.push(response.as_ref())?;
        self.finish_reply(reader)
    }

    /// A reader for an answer that arrives as server-sent events.
    pub fn reply_reader(&self) -> ReplyReader {
        self.reader(Form::Stream)
    }

    fn reader(&self, form: Form) -> ReplyReader {
        ReplyReader { reader: Reader::new(self.dialect(), form, MAX_ANSWER), parts: Parts::default(), failed: false }
    }

    /// Takes the answer that a reader has read. If the stream was cut off, the text so far becomes the reply and its `stop` is `None`;
    /// without any text the error is returned and nothing changes.
    pub fn finish_reply(&mut self, mut reader: ReplyReader) -> Result<Reply, Error> {
        let ended = if reader.failed { Err(ReadError::Cut) } else { reader.reader.finish() };
        reader.drain();
        let parts = reader.parts;
        match ended {
            Err(error) if parts.text().is_empty() => Err(error.into()),
            ended => self.take(&parts, ended.is_err()),
        }
    }

    /// Takes an answer, or as much of it as there is.
    pub(crate) fn take(&mut self, parts: &Parts, cut_off: bool) -> Result<Reply, Error> {
        let number = self.requests().saturating_sub(1);
        let ReplyMessage { text, calls, opaque } = parts.message(self.dialect(), self.model(), number, cut_off);
        let resolved = calls.iter().map(|call| {
            let tools = self.sent.as_ref().map(|sent| &sent.envelope.tools);
            let found = tools.map(|tools| resolve(self.agent(), self.dialect(), tools, call));
            let (id, plain) = (call.id.clone(), || (call.name.clone(), call.arguments.clone()));
            match found {
                Some(Ok(found)) => {
                    let name = self.agent().wire_names().get(&found.tool).cloned().unwrap_or_else(|| call.name.clone());
                    Call { id, name, arguments: found.arguments, problem: None }
                }
                Some(Err(problem)) => {
                    let (name, arguments) = plain();
                    Call { id, name, arguments, problem: Some(problem) }
                }
                None => {
                    let (name, arguments) = plain();
                    Call { id, name, arguments, problem: Some("There was no request.".to_owned()) }
                }
            }
        });
        let reply = Reply {
            text: text.clone(),
            calls: resolved.collect(),
            stop: if cut_off { None } else { parts.stop.clone() },
            usage: parts.usage,
            cost: parts.usage.map(|usage| {
                let model = self.model();
                cost(model, &usage.cache_use()) + output_cost(model, usage.input, usage.output)
            }),
        };
        self.apply(Input::Assistant { text, calls, opaque })?;
        Ok(reply)
    }
}
