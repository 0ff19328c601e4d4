//! Public agent runs, read as conversations: what a session is told before each of its requests.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result};
use flate2::read::GzDecoder;
use foreword_core::message::ToolCall;
use foreword_core::session::{Input, TurnInput};
use serde::Deserialize;
use serde_json::{Value, json};

/// How a data set writes down what its tools gave back.
#[derive(Clone, Copy)]
pub(crate) enum Observations {
    /// As user messages behind the model's answers. They are told as results of a call, so that the rules for outputs hold.
    AsUser,
    /// As tool messages in `OpenAI`'s form.
    AsTool,
}

/// One agent run.
pub(crate) struct Conversation {
    pub(crate) name: String,
    pub(crate) system: String,
    /// What happens before each request. One request is made for each answer of the model.
    pub(crate) rounds: Vec<Vec<Input>>,
}

#[derive(Deserialize)]
struct Run {
    name: String,
    messages: Vec<RunMessage>,
}

#[derive(Deserialize)]
struct RunMessage {
    role: String,
    content: Option<String>,
    #[serde(default)]
    tool_calls: Vec<RunCall>,
    tool_call_id: Option<String>,
}

#[derive(Deserialize)]
struct RunCall {
    id: String,
    function: RunFunction,
}

#[derive(Deserialize)]
struct RunFunction {
    name: String,
    arguments: String,
}

/// Reads a file of one run a line.
pub(crate) fn read(file: &Path, observations: Observations) -> Result<Vec<Conversation>> {
    let opened = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    let lines = BufReader::new(GzDecoder::new(opened)).lines();
    let conversation = |(at, line): (usize, std::io::Result<String>)| {
        let place = || format!("{}: line {}", file.display(), at + 1);
        let run: Run = serde_json::from_str(&line.with_context(place)?).with_context(place)?;
        Ok(Converter::new(observations).conversation(run))
    };
    lines.enumerate().map(conversation).collect()
}

/// Conversations joined to longer ones, `count` at a time; what is left over is not used. Calls get names of their own again.
pub(crate) fn chained(conversations: Vec<Conversation>, count: usize) -> Vec<Conversation> {
    if count <= 1 {
        return conversations;
    }
    let join = |some: &[Conversation]| {
        let rounds = some.iter().enumerate().flat_map(|(at, one)| one.rounds.iter().map(move |inputs| renamed(inputs, at)));
        Conversation { name: some[0].name.clone(), system: some[0].system.clone(), rounds: rounds.collect() }
    };
    conversations.chunks_exact(count).map(join).collect()
}

fn renamed(inputs: &[Input], at: usize) -> Vec<Input> {
    let name = |id: &str| format!("{at}-{id}");
    let renamed = |input: &Input| match input.clone() {
        Input::Assistant { text, calls, opaque } => {
            let calls = calls.into_iter().map(|call| ToolCall { id: name(&call.id), ..call }).collect();
            Input::Assistant { text, calls, opaque }
        }
        Input::ToolResult { id, output, failed, found } => Input::ToolResult { id: name(&id), output, failed, found },
        other => other,
    };
    inputs.iter().map(renamed).collect()
}

/// Turns messages into inputs.
struct Converter {
    observations: Observations,
    rounds: Vec<Vec<Input>>,
    /// What was told since the last request.
    told: Vec<Input>,
    calls: usize,
}

impl Converter {
    fn new(observations: Observations) -> Self {
        Self { observations, rounds: Vec::new(), told: Vec::new(), calls: 0 }
    }

    /// What comes behind the last answer was never sent, and is left out.
    fn conversation(mut self, run: Run) -> Conversation {
        let mut system = String::new();
        for message in run.messages {
            let text = message.content.unwrap_or_default();
            match (message.role.as_str(), self.observations) {
                ("system", _) => system = text,
                ("assistant", observations) => self.assistant(text, observations, &message.tool_calls),
                ("user", Observations::AsUser) if !self.rounds.is_empty() => self.observed(text),
                ("tool", _) => self.told.push(Input::ToolResult {
                    id: message.tool_call_id.unwrap_or_default(),
                    output: text,
                    failed: false,
                    found: Vec::new(),
                }),
                _ => self.user(text),
            }
        }
        Conversation { name: run.name, system, rounds: self.rounds }
    }

    /// The user speaks. Messages in a row are one turn: a request is made once they are all said.
    fn user(&mut self, text: String) {
        if let Some(Input::Turn(turn)) = self.told.last_mut() {
            turn.words.push_str("\n\n");
            turn.words.push_str(&text);
        } else {
            self.told.push(Input::Turn(TurnInput { words: text, ..TurnInput::default() }));
        }
    }

    fn assistant(&mut self, text: String, observations: Observations, calls: &[RunCall]) {
        self.rounds.push(std::mem::take(&mut self.told));
        let calls = match observations {
            Observations::AsUser => {
                self.calls += 1;
                vec![ToolCall { id: self.calls.to_string(), name: "bash".to_owned(), arguments: json!({}) }]
            }
            Observations::AsTool => calls.iter().map(call).collect(),
        };
        self.told.push(Input::Assistant { text, calls, opaque: Vec::new() });
    }

    fn observed(&mut self, output: String) {
        self.told.push(Input::ToolResult { id: self.calls.to_string(), output, failed: false, found: Vec::new() });
    }
}

fn call(call: &RunCall) -> ToolCall {
    let given = &call.function.arguments;
    let arguments = serde_json::from_str(given).unwrap_or_else(|_| Value::String(given.clone()));
    ToolCall { id: call.id.clone(), name: call.function.name.clone(), arguments }
}
