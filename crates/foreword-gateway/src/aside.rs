//! What is read of an answer while it goes by: what it used, and what leads back to its conversation. Nothing of it holds the answer up.

use std::io::Write as _;

use flate2::write::MultiGzDecoder;
use foreword_core::hash::Hash;
use foreword_core::tokens::Tokens;
use foreword_provider::dialect::Dialect;
use foreword_provider::reply::{Event, Form, Reader};
use foreword_provider::usage::Usage;

use super::ClientApi;
use super::conversation::telling;
use super::endpoint::Kind;

/// An answer of more bytes is not read for what it cost.
const READ: usize = 32 << 20;

/// Bytes at its start in which an answer's id is looked for.
const START: usize = 8 << 10;

/// Bytes of a text that are kept to tell it again.
const TEXT: usize = 1 << 20;

/// Characters a token has, where a provider does not say what was used.
const CHARS_A_TOKEN: usize = 4;

enum Reads {
    /// A conversation's answer, as its events.
    Reply(Box<Reader>),
    /// A whole answer of which only the usage is of interest.
    Whole(Vec<u8>),
    Nothing,
}

/// Reads along.
pub(super) struct SideExchange {
    decoder: Option<MultiGzDecoder<Vec<u8>>>,
    reads: Reads,
    /// The start of an answer that its provider keeps.
    start: Option<Vec<u8>>,
    text: String,
    /// Characters of everything the model wrote.
    chars: usize,
    /// What leads back to the conversation and was not given out yet.
    made: Vec<Hash>,
}

impl std::fmt::Debug for SideExchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Aside").field("chars", &self.chars).finish_non_exhaustive()
    }
}

/// What came of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Came {
    /// What it used.
    pub(super) usage: Option<Usage>,
    /// Whether that is an estimate, since the provider did not say.
    pub(super) is_estimate: bool,
}

impl SideExchange {
    /// Of an answer to `kind`, in that form and coding.
    pub(super) fn new(kind: Kind, dialect: Option<Dialect>, (form, coding): (Form, Option<&str>)) -> Self {
        let decoder = match coding.map(str::trim) {
            None | Some("" | "identity") => Ok(None),
            Some("gzip" | "x-gzip") => Ok(Some(MultiGzDecoder::new(Vec::new()))),
            Some(_) => Err(()),
        };
        let reads = match (dialect, kind, form) {
            _ if decoder.is_err() => Reads::Nothing,
            (Some(dialect), ..) => Reads::Reply(Box::new(Reader::new(dialect, form, READ))),
            (None, Kind::Completions | Kind::Embeddings, Form::Whole) => Reads::Whole(Vec::new()),
            _ => Reads::Nothing,
        };
        let decoder = decoder.unwrap_or_default();
        let start = (kind == Kind::ClientApi(ClientApi::Responses)).then(Vec::new);
        Self { decoder, reads, start, text: String::new(), chars: 0, made: Vec::new() }
    }

    /// Takes in bytes as they came.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if matches!(self.reads, Reads::Nothing) {
            return;
        }
        match self.decoder.take() {
            None => self.take(bytes),
            Some(mut decoder) => {
                let written = decoder.write_all(bytes).and_then(|()| decoder.flush());
                let plain = std::mem::take(decoder.get_mut());
                self.take(&plain);
                if written.is_err() {
                    self.reads = Reads::Nothing;
                }
                self.decoder = Some(decoder);
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        if let Some(start) = &mut self.start {
            start.extend_from_slice(&bytes[..bytes.len().min(START - start.len())]);
        }
        let read = match &mut self.reads {
            Reads::Reply(reader) => reader.push(bytes).is_ok(),
            Reads::Whole(whole) => {
                whole.extend_from_slice(bytes);
                whole.len() <= READ
            }
            Reads::Nothing => true,
        };
        self.events();
        if !read {
            self.reads = Reads::Nothing;
        }
    }

    fn events(&mut self) {
        let Reads::Reply(reader) = &mut self.reads else { return };
        while let Some(event) = reader.next_event() {
            match event {
                Event::Text(text) => {
                    self.chars += text.len();
                    if self.text.len() + text.len() <= TEXT {
                        self.text.push_str(&text);
                    }
                }
                Event::Reasoning(text) => self.chars += text.len(),
                Event::CallPart { arguments, .. } => self.chars += arguments.len(),
                Event::CallBegin { id, name, .. } => {
                    self.chars += name.len();
                    // A text ends where a call begins.
                    self.made.extend(telling(&std::mem::take(&mut self.text)));
                    self.made.extend(id.filter(|id| id.len() >= 8).map(Hash::of));
                }
                Event::Stop(_) => self.made.extend(telling(&std::mem::take(&mut self.text))),
                Event::Opaque(_) | Event::Missed(_) | Event::Usage(_) => {}
            }
        }
    }

    /// What leads back to the conversation, each once.
    pub(super) fn made(&mut self) -> Vec<Hash> {
        if let Some(id) = self.answer_id() {
            self.made.push(id);
            self.start = None;
        }
        std::mem::take(&mut self.made)
    }

    /// The id that a provider gives its answer, where it keeps it (Responses).
    fn answer_id(&self) -> Option<Hash> {
        let text = String::from_utf8_lossy(self.start.as_ref()?);
        let (_, behind) = text.split_once("\"resp_")?;
        let (id, _) = behind.split_once('"')?;
        Some(Hash::of(format!("resp_{id}")))
    }

    /// The end of it: what it used. `prompt` is the length of the body that was answered.
    pub(super) fn end(&mut self, prompt: usize) -> Came {
        let is_reply = matches!(self.reads, Reads::Reply(_));
        let mut is_whole = true;
        let usage = match &mut self.reads {
            Reads::Reply(reader) => {
                // Of half an answer, what is known.
                is_whole = reader.finish().is_ok();
                reader.usage()
            }
            Reads::Whole(whole) => serde_json::from_slice(whole).ok().and_then(|value| Usage::read(Dialect::OpenAiChat, &value)),
            Reads::Nothing => None,
        };
        self.events();
        let wrote = Tokens(u64::try_from(self.chars / CHARS_A_TOKEN).unwrap_or(u64::MAX));
        match usage {
            Some(usage) if is_whole || wrote <= usage.output => Came { usage: Some(usage), is_estimate: false },
            // Who goes away in mid-answer pays for what was written until then.
            Some(usage) => Came { usage: Some(Usage { output: wrote, ..usage }), is_estimate: true },
            None if is_reply => {
                let input = Tokens(u64::try_from(prompt / CHARS_A_TOKEN).unwrap_or(u64::MAX));
                Came { usage: Some(Usage { input, output: wrote, ..Usage::default() }), is_estimate: true }
            }
            None => Came::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClientApi;

    const WHOLE: &str = r#"{"id":"c","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"An answer that is long enough"}}],"usage":{"prompt_tokens":9,"completion_tokens":2}}"#;

    fn aside(form: Form, coding: Option<&str>) -> SideExchange {
        SideExchange::new(Kind::ClientApi(ClientApi::Chat), Some(Dialect::OpenAiChat), (form, coding))
    }

    #[test]
    fn usage_and_what_was_made_are_read_in_any_coding() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(WHOLE.as_bytes()).unwrap();
        for (bytes, coding) in [(WHOLE.as_bytes().to_vec(), None), (packed.finish().unwrap(), Some("gzip"))] {
            for size in [1, 7, bytes.len()] {
                let mut aside = aside(Form::Whole, coding);
                bytes.chunks(size).for_each(|piece| aside.push(piece));
                let came = aside.end(100);
                assert_eq!((came.usage.unwrap().input, came.is_estimate), (Tokens(9), false));
                assert_eq!(aside.made(), telling("An answer that is long enough").into_iter().collect::<Vec<_>>());
            }
        }
        let mut strange = aside(Form::Whole, Some("br"));
        strange.push(WHOLE.as_bytes());
        assert_eq!(strange.end(100), Came::default());
    }

    #[test]
    fn what_is_not_told_is_estimated() {
        let mut cut = aside(Form::Stream, None);
        cut.push(b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"12345678\"}}]}\n\n");
        let came = cut.end(400);
        assert_eq!((came.usage.unwrap().input, came.usage.unwrap().output, came.is_estimate), (Tokens(100), Tokens(2), true));
    }

    #[test]
    fn an_answer_that_is_kept_is_known_by_its_id() {
        let mut aside =
            SideExchange::new(Kind::ClientApi(ClientApi::Responses), Some(Dialect::OpenAiResponses), (Form::Stream, None));
        aside.push(b"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_0a1\",\"object\":\"response\"}}\n\n");
        assert_eq!(aside.made(), [Hash::of("resp_0a1")]);
        assert_eq!(aside.made(), []);
    }
}
