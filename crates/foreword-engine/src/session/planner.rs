//! Plan mode: asks the model which tools to run before the answer. The reply is treated as data, checked against the tools'
//! schemas, and may be corrected once.

use std::collections::BTreeSet;
use std::sync::Arc;

use foreword_core::catalog::{Agent, Entry, Include, Priority};
use foreword_core::json;
use foreword_core::message::ToolCall;
use foreword_core::prompt::{ToolPlan, ToolStyle};
use foreword_core::session::{TurnInput, TurnResult};
use foreword_core::tokens::Tokens;
use foreword_core::version::Version;
use foreword_tools::Output;
use serde::Deserialize;
use serde_json::Value;

use super::called::{Called, called};
use super::found::found_notes;
use super::own::Own;
use super::recorded::RecordedSession;
use super::speak::{Call, ToolHost};
use super::turn::{Event, TurnContext, TurnError};

/// The largest number of calls in a plan.
const MOST_CALLS: usize = 8;
/// The part of an attachment that the planner sees, in characters.
const GLANCE: usize = 200;

const INSTRUCTIONS: &str = "\
You decide which tools to run before a question is answered. You do not answer it.
Reply with a JSON array and nothing else: [{\"tool\": \"name\", \"arguments\": {…}}], at most 8 calls, in the order in which they should run.
Use only the tools listed, with arguments that fit their schemas. Where no tool is needed, reply with [].";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    tool: String,
    #[serde(default)]
    arguments: Value,
}

impl RecordedSession {
    /// Requests a plan, runs it and returns the tool outputs. If that fails, the turn continues without them and the reason is
    /// reported.
    pub(super) fn planned(&mut self, turn: &TurnInput, party: &mut TurnContext<'_>) -> Vec<TurnResult> {
        match self.plan_calls(turn, party) {
            Ok(calls) => calls.into_iter().map(|(name, called)| run(&name, called, party)).collect(),
            Err(why) => {
                self.fail(format!("no tools were run before the answer: {why}"));
                Vec::new()
            }
        }
    }

    fn plan_calls(&mut self, turn: &TurnInput, party: &mut TurnContext<'_>) -> Result<Vec<(String, Called)>, String> {
        let agent = self.session().agent().clone();
        let tools = self.offered(&agent);
        if tools.allowed.is_empty() {
            return Ok(Vec::new());
        }
        let failed = |error: TurnError| error.to_string();
        let mut beside = self.beside("plan", planner(&agent, &tools)).map_err(failed)?;
        let mut ask = question(turn);
        for last in [false, true] {
            let answer = self.ask_beside(&mut beside, ask, party.speaker, party.now).map_err(failed)?;
            match self.read(&answer, &agent, &tools, party.hands) {
                Ok(calls) => return Ok(calls),
                Err(why) if last => return Err(format!("the model's plan could not be used: {why}")),
                Err(why) => {
                    let words = format!("That cannot be used: {why}\nReply with the corrected JSON array and nothing else.");
                    ask = TurnInput { words, ..TurnInput::default() };
                }
            }
        }
        Ok(Vec::new())
    }

    /// The tools that this turn may use.
    fn offered(&self, agent: &Agent) -> ToolPlan {
        let members: BTreeSet<_> = self.session().members().collect();
        let names = agent.wire_names().into_iter();
        let offered = names.filter(|(id, _)| members.contains(id) && Own::of(id).is_none());
        let allowed = offered.map(|(_, name)| name).collect();
        ToolPlan { style: ToolStyle::Native, list: Arc::default(), allowed, tokens: Tokens::ZERO }
    }

    fn read(
        &self,
        answer: &str,
        agent: &Agent,
        tools: &ToolPlan,
        hands: &mut dyn ToolHost,
    ) -> Result<Vec<(String, Called)>, String> {
        let steps = steps(answer)?;
        if steps.len() > MOST_CALLS {
            return Err(format!("it has {} calls, at most {MOST_CALLS} are allowed.", steps.len()));
        }
        let mut calls = Vec::new();
        for (at, step) in steps.into_iter().enumerate() {
            let call = ToolCall { id: format!("plan-{at}"), name: step.tool, arguments: step.arguments };
            let wrong = |why: String| format!("call {}: {why}", at + 1);
            let called = called(agent, self.setup().dialect, tools, &call).map_err(wrong)?;
            hands.check(&called).map_err(wrong)?;
            calls.push((call.name, called));
        }
        Ok(calls)
    }
}

fn run(name: &str, called: Called, party: &mut TurnContext<'_>) -> TurnResult {
    let call = ToolCall { id: format!("plan-{name}"), name: name.to_owned(), arguments: called.arguments.clone() };
    (party.each)(Event::Call(&call));
    // A time range is an attribute of its block, as the design has it.
    let range = called.arguments.get("timeRange").and_then(Value::as_str).map(|range| ("timeRange".to_owned(), range.to_owned()));
    let output = party.hands.run(&Call { call: &call, tool: Ok(called) });
    (party.each)(Event::Result(&call, &output));
    let Output { text: output, found, .. } = output;
    if !found.is_empty() {
        (party.each)(Event::Found(&found_notes(&output, &found)));
    }
    TurnResult { tool: name.to_owned(), attributes: range.into_iter().collect(), output, found, ..TurnResult::default() }
}

/// The planner's agent: its instructions, and the tools as data.
fn planner(agent: &Agent, tools: &ToolPlan) -> Agent {
    let names = agent.wire_names();
    let allowed: BTreeSet<&String> = tools.allowed.iter().collect();
    let entries = agent.tools.iter().filter_map(|tool| {
        let name = names.get(&tool.id()).filter(|name| allowed.contains(name))?;
        let about = serde_json::json!({"tool": name, "description": tool.description, "arguments": tool.schema()});
        Some(Entry {
            name: name.clone(),
            description: None,
            text: json::to_string(&about),
            priority: Priority::DEFAULT,
            include: Include::Always,
        })
    });
    Agent { system_prompt: INSTRUCTIONS.to_owned(), references: entries.collect(), ..Agent::default() }
}

/// The user's text, with the beginning of each attachment.
fn question(turn: &TurnInput) -> TurnInput {
    let glance = |version: &Version| {
        let glance: String = version.content.chars().take(GLANCE).collect();
        Version::note(&version.id.to_string(), None, &glance, Vec::new())
    };
    TurnInput { words: turn.words.clone(), attached: turn.attached.iter().map(glance).collect(), ..TurnInput::default() }
}

/// The JSON array in a reply, ignoring text around it.
fn steps(answer: &str) -> Result<Vec<Step>, String> {
    let mut last = "there is no JSON array in it.".to_owned();
    for (at, _) in answer.match_indices('[').take(16) {
        let mut values = serde_json::Deserializer::from_str(&answer[at..]).into_iter::<Vec<Step>>();
        match values.next() {
            Some(Ok(steps)) => return Ok(steps),
            Some(Err(error)) => last = format!("{error}."),
            None => {}
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_found_in_whatever_stands_around_it() {
        let check = |answer: &str, expect: Result<&[&str], &str>| match (steps(answer), expect) {
            (Ok(steps), Ok(names)) => {
                assert_eq!(steps.iter().map(|step| step.tool.as_str()).collect::<Vec<_>>(), names, "{answer}");
            }
            (Err(why), Err(words)) => assert!(why.contains(words), "{why}"),
            (found, expect) => panic!("{:?} instead of {expect:?}", found.map(|steps| steps.len())),
        };
        check("[]", Ok(&[]));
        check("[{\"tool\": \"a\", \"arguments\": {\"x\": 1}}, {\"tool\": \"b\"}]", Ok(&["a", "b"]));
        check("Sure [here it is]:\n```json\n[{\"tool\": \"a\"}]\n```\nDone.", Ok(&["a"]));
        check("I would search.", Err("no JSON array"));
        check("[{\"tool\": 1}]", Err("expected a string"));
        check("[{\"name\": \"a\"}]", Err("unknown field `name`"));
        check("[{\"tool\": \"a\"", Err("EOF"));
        check(&"[".repeat(100_000), Err("invalid type: sequence"));
    }
}
