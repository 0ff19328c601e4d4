//! A scripted model for tests and experiments: its replies come from a file, and its cache follows the rules of the real model.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use foreword_core::message::ToolCall;
use foreword_core::tokens::{Chars, Tokenizer as _};
use foreword_prompt_cache::CacheSim;
use foreword_provider::stream::PromptStream;
use foreword_tools::Output;
use serde::Deserialize;
use serde_json::Value;

use super::ending::Ending;
use super::models::Stop;
use super::request::Outgoing;
use super::speak::{Call as Calling, ChatModel, Reply, SpeakError, Spent, ToolHost};

/// Replies in order, and tool outputs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    replies: Vec<Line>,
    /// By name.
    #[serde(default)]
    tools: BTreeMap<String, String>,
    #[serde(skip)]
    next: usize,
    #[serde(skip)]
    cache: CacheSim,
    /// Stops a reply.
    #[serde(skip)]
    stop: Option<Stop>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default)]
    text: String,
    #[serde(default)]
    calls: Vec<Call>,
    /// The delay between two words in milliseconds.
    #[serde(default)]
    delay_ms: u64,
    /// An error instead of an answer, or after its text.
    #[serde(default)]
    error: Option<String>,
    /// Whether the reply reaches its token limit after the text.
    #[serde(default)]
    length: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    id: String,
    name: String,
    #[serde(default)]
    arguments: Value,
}

/// An invalid script.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the script {file}: {why}. Expected JSON like {{\"replies\": [{{\"text\": \"Hello.\"}}]}}")]
pub struct ScriptError {
    file: String,
    why: String,
}

impl Script {
    /// Reads a script.
    pub fn read(file: &Path) -> Result<Self, ScriptError> {
        let wrong = |why: String| ScriptError { file: file.display().to_string(), why };
        let text = fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        let script: Self = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if script.replies.is_empty() {
            return Err(wrong("no replies".to_owned()));
        }
        Ok(script)
    }

    /// The same model with replies that are not streamed.
    pub fn whole(&mut self) -> Whole<'_> {
        Whole(self)
    }

    /// Sets the flag that stops a reply.
    pub fn heed(&mut self, stop: Stop) {
        self.stop = Some(stop);
    }

    /// Skips replies; after the last one follows the first.
    pub fn skip(&mut self, replies: usize) {
        self.next += replies;
    }

    /// Adds an earlier request to the simulated cache.
    pub fn remember(&mut self, at_ms: i64, prompt: &PromptStream, model: &foreword_provider::model::Model) {
        self.cache.request(seconds(at_ms), prompt, model);
    }
}

fn seconds(at_ms: i64) -> u64 {
    u64::try_from(at_ms / 1000).unwrap_or(0)
}

/// A scripted model with replies that are not streamed.
#[derive(Debug)]
pub struct Whole<'a>(&'a mut Script);

impl ChatModel for Whole<'_> {
    fn answer(&mut self, request: &Outgoing, _: &mut dyn FnMut(&str)) -> Result<Reply, SpeakError> {
        self.0.answer(request, &mut |_| {})
    }
}

impl ChatModel for Script {
    fn answer(&mut self, request: &Outgoing, part: &mut dyn FnMut(&str)) -> Result<Reply, SpeakError> {
        let line = &self.replies[self.next % self.replies.len()];
        self.next += 1;
        let broken = |error: &String| Err(SpeakError(error.clone()));
        if let Some(error) = line.error.as_ref().filter(|_| line.text.is_empty()) {
            return broken(error);
        }
        let used = self.cache.request(seconds(request.at_ms), &request.body.prompt, &request.model);
        let stopped = || self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed));
        let mut said = 0;
        for word in line.text.split_inclusive(' ').take_while(|_| !stopped()) {
            thread::sleep(Duration::from_millis(line.delay_ms));
            part(word);
            said += word.len();
        }
        let cut_off = said < line.text.len();
        if let Some(error) = line.error.as_ref().filter(|_| !cut_off) {
            return broken(error);
        }
        let ending = if cut_off { Some(Ending::Stopped) } else { line.length.then_some(Ending::Length) };
        let text = line.text.get(..said).unwrap_or_default().to_owned();
        let calls = line.calls.iter().take_while(|_| !cut_off).enumerate().map(|(at, call)| ToolCall {
            // Ids are unique in a conversation, and a script comes round.
            id: if self.next > self.replies.len() { format!("{}-{}-{at}", call.id, self.next) } else { call.id.clone() },
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        });
        let spent = Spent { prompt: used, output: Chars::FOUR.count(&text).0 };
        Ok(Reply { text, calls: calls.collect(), spent: Some(spent), cut_off, ending, ..Reply::default() })
    }
}

/// The tool outputs of a script.
#[derive(Clone, Debug)]
pub struct Outputs(BTreeMap<String, String>);

impl Script {
    /// The tool outputs of this script.
    pub fn hands(&self) -> Outputs {
        Outputs(self.tools.clone())
    }
}

impl Outputs {
    /// Whether there is an output for a tool.
    pub fn has(&self, tool: &str) -> bool {
        self.0.contains_key(tool)
    }
}

impl ToolHost for Outputs {
    fn run(&mut self, call: &Calling<'_>) -> Output {
        let name = &call.call.name;
        match self.0.get(name) {
            Some(output) => Output::done(output),
            None => Output::failed(format!("The script has no output for the tool {name:?}.")),
        }
    }
}
