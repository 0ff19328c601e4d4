//! A scripted model for tests and experiments: its replies come from a file, and its cache follows the rules of the real model.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use foreword_core::message::ToolCall;
use foreword_core::tokens::{Chars, Tokenizer as _};
use foreword_prompt_cache::CacheSim;
use foreword_provider::stream::PromptStream;
use foreword_provider::usage::CacheUse;
use foreword_store::StoreError;
use foreword_tools::Output;
use futures_util::future::ready;
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::ending::Ending;
use super::recorded::RecordedSession;
use super::request::Outgoing;
use super::speak::{Call as Calling, ChatModel, Reply, ReplyPart, ReplyStream, SpeakError, Spent, ToolHost, whole_reply};

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
}

#[derive(Clone, Debug, Deserialize)]
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

#[derive(Clone, Debug, Deserialize)]
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

    /// Continues a session: skips the replies that it has had, and remembers its last prompt.
    pub fn go_on(mut self, session: &mut RecordedSession) -> Result<Self, StoreError> {
        self.skip(usize::try_from(session.counts().requests).unwrap_or(0));
        session.recall_prompt()?;
        if let Some((at_ms, prompt)) = session.last_prompt() {
            self.remember(at_ms, prompt, &session.setup().model);
        }
        Ok(self)
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
    fn answer(&mut self, request: Arc<Outgoing>, stop: CancellationToken) -> ReplyStream {
        let parts = self.0.answer(request, stop);
        parts.filter(|part| ready(matches!(part, ReplyPart::End(_)))).boxed()
    }
}

impl ChatModel for Script {
    fn answer(&mut self, request: Arc<Outgoing>, stop: CancellationToken) -> ReplyStream {
        let line = self.replies[self.next % self.replies.len()].clone();
        self.next += 1;
        if let Some(error) = line.error.as_ref().filter(|_| line.text.is_empty()) {
            return whole_reply(Err(SpeakError::new(error)));
        }
        let prompt = self.cache.request(seconds(request.at_ms), &request.body.prompt, &request.model);
        // Ids are unique in a conversation, and a script comes round.
        let round = (self.next > self.replies.len()).then_some(self.next);
        stream::unfold(Some((line, 0)), move |state| speak(state, prompt, round, stop.clone())).boxed()
    }
}

/// A line of the script, and how much of its text was said.
type Speaking = (Line, usize);

/// The next part of a line.
async fn speak(
    state: Option<Speaking>,
    prompt: CacheUse,
    round: Option<usize>,
    stop: CancellationToken,
) -> Option<(ReplyPart, Option<Speaking>)> {
    let (line, said) = state?;
    let word = line.text.get(said..).and_then(|rest| rest.split_inclusive(' ').next()).filter(|_| !stop.is_cancelled());
    if let Some(word) = word.map(str::to_owned) {
        pause(line.delay_ms).await;
        let said = said + word.len();
        return Some((ReplyPart::Text(word), Some((line, said))));
    }
    Some((ReplyPart::End(line.reply(said, prompt, round)), None))
}

/// Waits without a runtime.
async fn pause(ms: u64) {
    if ms > 0 {
        let (done, over) = oneshot::channel();
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(ms));
            let _ = done.send(()); // the reply may be dropped already
        });
        let _ = over.await; // it is sent before the thread ends
    }
}

impl Line {
    /// The reply of which so many bytes were said.
    fn reply(self, said: usize, prompt: CacheUse, round: Option<usize>) -> Result<Reply, SpeakError> {
        let cut_off = said < self.text.len();
        if let Some(error) = self.error.filter(|_| !cut_off) {
            return Err(SpeakError::new(error));
        }
        let ending = if cut_off { Some(Ending::Stopped) } else { self.length.then_some(Ending::Length) };
        let text = self.text.get(..said).unwrap_or_default().to_owned();
        let calls = self.calls.into_iter().take_while(|_| !cut_off).enumerate().map(|(at, call)| ToolCall {
            id: round.map_or(call.id.clone(), |round| format!("{}-{round}-{at}", call.id)),
            name: call.name,
            arguments: call.arguments,
        });
        let spent = Spent { prompt, output: Chars::FOUR.count(&text).0 };
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
    fn run(&mut self, call: &Calling<'_>, _stop: &CancellationToken) -> Output {
        let name = &call.call.name;
        match self.0.get(name) {
            Some(output) => Output::done(output),
            None => Output::failed(format!("The script has no output for the tool {name:?}.")),
        }
    }
}
