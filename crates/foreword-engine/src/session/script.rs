//! A model that says what a file tells it to: for trying things out and for tests. Its cache follows the rules of the model it stands for.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use foreword_core::message::ToolCall;
use foreword_core::tokens::{Chars, Tokenizer as _};
use foreword_provider::cache::CacheSim;
use foreword_provider::stream::PromptStream;
use foreword_tools::Output;
use serde::Deserialize;
use serde_json::Value;

use super::ending::Ending;
use super::models::Stop;
use super::request::Outgoing;
use super::speak::{Call as Calling, Hands, Reply, SpeakError, Speaker, Spent};

/// Replies in order, and what tools give back.
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
    /// Ends a reply, where somebody can.
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
    /// Between two words.
    #[serde(default)]
    delay_ms: u64,
    /// It gives no answer, for this reason; or breaks off behind its words.
    #[serde(default)]
    error: Option<String>,
    /// Whether the room for the reply is used up behind its words.
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

/// A script that cannot be used.
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

    /// The same speaker, whose replies come all at once, in no parts.
    pub fn whole(&mut self) -> Whole<'_> {
        Whole(self)
    }

    /// Ends a reply between two words when it is told to.
    pub fn heed(&mut self, stop: Stop) {
        self.stop = Some(stop);
    }

    /// Begins with a later reply; behind the last comes the first again.
    pub fn skip(&mut self, replies: usize) {
        self.next += replies;
    }

    /// Lets its cache remember an earlier request.
    pub fn remember(&mut self, at_ms: i64, prompt: &PromptStream, model: &foreword_provider::model::Model) {
        self.cache.request(seconds(at_ms), prompt, model);
    }
}

fn seconds(at_ms: i64) -> u64 {
    u64::try_from(at_ms / 1000).unwrap_or(0)
}

/// A script whose replies come all at once.
#[derive(Debug)]
pub struct Whole<'a>(&'a mut Script);

impl Speaker for Whole<'_> {
    fn answer(&mut self, request: &Outgoing, _: &mut dyn FnMut(&str)) -> Result<Reply, SpeakError> {
        self.0.answer(request, &mut |_| {})
    }
}

impl Speaker for Script {
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

/// The tools of a script.
#[derive(Clone, Debug)]
pub struct Outputs(BTreeMap<String, String>);

impl Script {
    /// What its tools give back.
    pub fn hands(&self) -> Outputs {
        Outputs(self.tools.clone())
    }
}

impl Outputs {
    /// Whether it has an output for a tool.
    pub fn has(&self, tool: &str) -> bool {
        self.0.contains_key(tool)
    }
}

impl Hands for Outputs {
    fn run(&mut self, call: &Calling<'_>) -> Output {
        let name = &call.call.name;
        match self.0.get(name) {
            Some(output) => Output::done(output),
            None => Output::failed(format!("The script has no output for the tool {name:?}.")),
        }
    }
}
