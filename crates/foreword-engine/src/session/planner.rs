//! Plan mode: asks the model which tools to run before the answer. The reply is treated as data, checked against the tools'
//! schemas, and may be corrected once.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

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

use super::aside::SideConversation;
use super::called::{Called, called};
use super::machine::{
    Clock, ModelRequest, Notice, PendingReply, Phase, Step as TurnStep, StepResult, ToolRequest, ToolResult, Turn,
};
use super::own::Own;
use super::recorded::RecordedSession;
use super::request::Outgoing;

/// The largest number of calls in a plan.
const MAX_CALLS: usize = 8;
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

/// A plan in the making.
#[derive(Debug)]
pub(super) struct Planning {
    beside: SideConversation,
    agent: Agent,
    tools: ToolPlan,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The model is asked. `is_last` is set for the correction.
    Asked { outgoing: Arc<Outgoing>, pending: PendingReply, is_last: bool },
    /// The tool host checks the calls before the first one that names no tool, whose error follows.
    Checked { calls: Vec<(String, Called)>, wrong: Option<String>, is_last: bool },
    /// The first call runs.
    Running { calls: VecDeque<(String, Called)>, results: Vec<TurnResult> },
}

impl Turn {
    /// Asks for a plan. If that fails, the turn continues without tool outputs and the reason is reported.
    pub(super) fn begin_planning(&mut self, session: &mut RecordedSession, clock: &Clock<'_>) -> Phase {
        let agent = session.session().agent().clone();
        let tools = offered(session, &agent);
        if tools.allowed.is_empty() {
            return Phase::Gathered;
        }
        let ask = question(&self.question.turn);
        match session.beside("plan", planner(&agent, &tools)) {
            Ok(beside) => self.ask_for_plan((beside, agent, tools), ask, false, session, clock),
            Err(error) => without_plan(session, &error.to_string()),
        }
    }

    fn ask_for_plan(
        &mut self,
        (mut beside, agent, tools): (SideConversation, Agent, ToolPlan),
        ask: TurnInput,
        is_last: bool,
        session: &mut RecordedSession,
        clock: &Clock<'_>,
    ) -> Phase {
        let outgoing = match beside.request(ask, session, clock.now_ms()) {
            Ok(outgoing) => Arc::new(outgoing),
            Err(error) => return without_plan(session, &error.to_string()),
        };
        let request = ModelRequest { request: Arc::clone(&outgoing), is_side: true, patience: None };
        self.steps.push_back(TurnStep::Send(request));
        let stage = Stage::Asked { outgoing, pending: PendingReply::new(clock, Duration::ZERO), is_last };
        Phase::Planning(Box::new(Planning { beside, agent, tools, stage }))
    }

    /// Takes the result that the plan waits for.
    pub(super) fn go_on_planning(
        &mut self,
        planning: Planning,
        result: StepResult,
        session: &mut RecordedSession,
        clock: &Clock<'_>,
    ) -> Phase {
        let Planning { mut beside, agent, tools, stage } = planning;
        match (stage, result) {
            (Stage::Asked { outgoing, mut pending, is_last }, StepResult::Part(_)) => {
                pending.first_ms(clock);
                self.steps.push_back(TurnStep::Receive { show: String::new(), store: false });
                let stage = Stage::Asked { outgoing, pending, is_last };
                Phase::Planning(Box::new(Planning { beside, agent, tools, stage }))
            }
            (Stage::Asked { outgoing, pending, is_last }, StepResult::Reply(reply, _)) => {
                let took = (pending.first(), pending.elapsed_ms(clock));
                let answer = session.record_side(&mut beside, &outgoing, reply, took, clock.now_ms());
                self.steps.push_back(TurnStep::Store);
                let (calls, wrong) = match answer.map(|answer| read(&answer, &agent, &tools, session)) {
                    Ok(read) => read,
                    Err(error) => return without_plan(session, &error.to_string()),
                };
                let check = calls.iter().map(|(_, called)| called.clone()).collect();
                self.steps.push_back(TurnStep::Tools(ToolRequest::Check(check)));
                let stage = Stage::Checked { calls, wrong, is_last };
                Phase::Planning(Box::new(Planning { beside, agent, tools, stage }))
            }
            (Stage::Checked { calls, wrong, is_last }, StepResult::Tools(ToolResult::Checked(checked), _)) => {
                let refused = checked.into_iter().enumerate().find_map(|(at, checked)| Some(wrong_call(at, &checked.err()?)));
                match refused.or(wrong) {
                    None => self.run_plan(Planning {
                        beside,
                        agent,
                        tools,
                        stage: Stage::Running { calls: calls.into(), results: Vec::new() },
                    }),
                    Some(why) if is_last => without_plan(session, &format!("the model's plan could not be used: {why}")),
                    Some(why) => {
                        let words = format!("That cannot be used: {why}\nReply with the corrected JSON array and nothing else.");
                        let ask = TurnInput { words, ..TurnInput::default() };
                        self.ask_for_plan((beside, agent, tools), ask, true, session, clock)
                    }
                }
            }
            (Stage::Running { mut calls, mut results }, StepResult::Tools(ToolResult::Output(output), _)) => {
                if let Some((name, called)) = calls.pop_front() {
                    self.show_output(&call_of(&name, &called), &output);
                    // A time range is an attribute of its block, as the design has it.
                    let range = called.arguments.get("timeRange").and_then(Value::as_str);
                    let attributes = range.map(|range| ("timeRange".to_owned(), range.to_owned())).into_iter().collect();
                    let Output { text: output, found, .. } = output;
                    results.push(TurnResult { tool: name, attributes, output, found, ..TurnResult::default() });
                }
                self.run_plan(Planning { beside, agent, tools, stage: Stage::Running { calls, results } })
            }
            // A preview is not planned.
            _ => Phase::Gathered,
        }
    }

    /// Runs the next call of the plan.
    fn run_plan(&mut self, planning: Planning) -> Phase {
        let Planning { beside, agent, tools, stage } = planning;
        let Stage::Running { calls, results } = stage else { return Phase::Gathered };
        let Some((name, called)) = calls.front() else {
            self.question.turn.results.extend(results);
            return Phase::Gathered;
        };
        let call = call_of(name, called);
        self.show(Notice::Call(call.clone()));
        self.steps.push_back(TurnStep::Tools(ToolRequest::Run(call, Ok(called.clone()))));
        Phase::Planning(Box::new(Planning { beside, agent, tools, stage: Stage::Running { calls, results } }))
    }
}

fn without_plan(session: &mut RecordedSession, why: &str) -> Phase {
    session.fail(format!("no tools were run before the answer: {why}"));
    Phase::Gathered
}

fn call_of(name: &str, called: &Called) -> ToolCall {
    ToolCall { id: format!("plan-{name}"), name: name.to_owned(), arguments: called.arguments.clone() }
}

fn wrong_call(at: usize, why: &str) -> String {
    format!("call {}: {why}", at + 1)
}

/// The tools that this turn may use.
fn offered(session: &RecordedSession, agent: &Agent) -> ToolPlan {
    let members: BTreeSet<_> = session.session().members().collect();
    let names = agent.wire_names().into_iter();
    let offered = names.filter(|(id, _)| members.contains(id) && Own::of(id).is_none());
    let allowed = offered.map(|(_, name)| name).collect();
    ToolPlan { style: ToolStyle::Native, list: Arc::default(), allowed, tokens: Tokens::ZERO }
}

/// The calls in an answer that name a tool, up to the first one that does not, and what is wrong with that one or with the answer.
fn read(answer: &str, agent: &Agent, tools: &ToolPlan, session: &RecordedSession) -> (Vec<(String, Called)>, Option<String>) {
    let steps = match steps(answer) {
        Ok(steps) => steps,
        Err(why) => return (Vec::new(), Some(why)),
    };
    if steps.len() > MAX_CALLS {
        return (Vec::new(), Some(format!("it has {} calls, at most {MAX_CALLS} are allowed.", steps.len())));
    }
    let mut calls = Vec::new();
    for (at, step) in steps.into_iter().enumerate() {
        let call = ToolCall { id: format!("plan-{at}"), name: step.tool, arguments: step.arguments };
        match called(agent, session.setup().dialect, tools, &call) {
            Ok(called) => calls.push((call.name, called)),
            Err(why) => return (calls, Some(wrong_call(at, &why))),
        }
    }
    (calls, None)
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
