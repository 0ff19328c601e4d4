//! Running a scenario: each event is told to the session, each request is put into the provider's words and shown to its cache.

use foreword_core::message::ToolCall;
use foreword_core::session::{Due, Input, Session};

use super::load::{Loaded, ScenarioError};
use super::report::Report;
use super::scenario::Event;
use super::setup::{Overrides, setup, turn};
use super::simulation::Simulation;

/// Runs a scenario. A request that cannot fit its budget ends it; the report then says why and holds what came before.
pub fn run(loaded: &Loaded, overrides: &Overrides) -> Result<Report, ScenarioError> {
    let setup = setup(loaded, overrides)?;
    let simulation = Simulation::new(&loaded.scenario.name, &loaded.scenario.agent, setup);
    let simulation = simulation.map_err(|error| loaded.error("agent", error))?;
    let mut run = Run { loaded, simulation, inputs: Vec::new(), unfolded_inputs: Vec::new() };
    for at in 0..loaded.scenario.events.len() {
        if let Some(error) = run.event(at)? {
            run.simulation.report.error = Some(error);
            break;
        }
    }
    Ok(run.simulation.finish())
}

struct Run<'a> {
    loaded: &'a Loaded,
    simulation: Simulation,
    inputs: Vec<Input>,
    unfolded_inputs: Vec<Input>,
}

impl Run<'_> {
    /// Tells one event. Gives back why the run ends here, if it does.
    fn event(&mut self, at: usize) -> Result<Option<String>, ScenarioError> {
        let event = &self.loaded.scenario.events[at];
        if let Event::Fork(fork) = event {
            let place = format!("events[{at}].fork.at_turn");
            self.fork(fork.at_turn).map_err(|error| self.loaded.error(&place, error))?;
            return Ok(None);
        }
        if let Event::IdleS(seconds) = event {
            self.simulation.pass(*seconds);
        }
        for (place, input) in self.inputs(at)? {
            let (due, both) = self.simulation.tell(&input).map_err(|error| self.loaded.error(&place, error))?;
            if both {
                self.unfolded_inputs.push(input.clone());
            }
            self.inputs.push(input);
            if due == Due::Request
                && let Err(over) = self.simulation.request()
            {
                return Ok(Some(format!("{}: {place}: {over}", self.loaded.file)));
            }
        }
        Ok(None)
    }

    /// Goes back to the end of a turn.
    fn fork(&mut self, at_turn: usize) -> Result<(), String> {
        let agent = &self.loaded.scenario.agent;
        let Simulation { session, unfolded, setup, .. } = &mut self.simulation;
        for (session, inputs) in [(session, &mut self.inputs), (unfolded, &mut self.unfolded_inputs)] {
            let Some(kept) = Input::until_turn(inputs, at_turn) else {
                return Err(format!("there is no turn {at_turn} to fork at; the session has {}", session.turns()));
            };
            inputs.truncate(kept.len());
            inputs.push(Input::Forked { epoch: session.epoch() + 1 });
            let tokenizer = std::sync::Arc::clone(&setup.tokenizer);
            let fork = Session::replay(agent.clone(), session.settings().clone(), tokenizer, &*inputs);
            *session = fork.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn inputs(&self, at: usize) -> Result<Vec<(String, Input)>, ScenarioError> {
        let event = &self.loaded.scenario.events[at];
        let place = |name: &str| format!("events[{at}].{name}");
        let one = |name: &str, input: Input| Ok(vec![(place(name), input)]);
        match event {
            Event::Turn(event) => one("turn", Input::Turn(turn(self.loaded, at, event)?)),
            Event::Assistant(event) => {
                let calls = event.tool_calls.iter();
                let calls = calls.map(|call| ToolCall {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    arguments: call.arguments.clone(),
                });
                one(
                    "assistant",
                    Input::Assistant { text: event.text.clone().unwrap_or_default(), calls: calls.collect(), opaque: Vec::new() },
                )
            }
            Event::ToolResult(event) => one(
                "tool_result",
                Input::ToolResult { id: event.id.clone(), output: event.output.clone(), failed: false, found: Vec::new() },
            ),
            Event::Session(event) => {
                let add = event
                    .add
                    .iter()
                    .enumerate()
                    .map(|(index, id)| (place(&format!("session.add[{index}]")), Input::Add(id.clone())));
                let remove = event
                    .remove
                    .iter()
                    .enumerate()
                    .map(|(index, id)| (place(&format!("session.remove[{index}]")), Input::Remove(id.clone())));
                Ok(add.chain(remove).collect())
            }
            Event::Agent(patch) => {
                one("agent", Input::Agent(Box::new(patch.as_ref().clone().apply(self.simulation.session.agent()))))
            }
            Event::Plan(event) => one("plan", Input::Plan { steps: event.steps.clone(), answered: self.is_answered(at) }),
            Event::TaskComplete(_) => one("task_complete", Input::TaskComplete { answered: self.is_answered(at) }),
            Event::ActionPrompt(_) => one("action_prompt", Input::ActionPrompt),
            Event::Summary(event) => one("summary", Input::Summary(event.text.clone())),
            Event::IdleS(seconds) => one("idle_s", Input::Idle(*seconds)),
            Event::Interrupt(_) => one("interrupt", Input::Interrupt),
            Event::Fold(_) => one("fold", Input::Fold),
            Event::UndoFold(_) => one("undo_fold", Input::UndoFold),
            Event::Fork(_) => Ok(Vec::new()),
        }
    }

    /// Whether the scenario itself brings a result for the calls that are open at an event.
    fn is_answered(&self, at: usize) -> bool {
        let later = self.loaded.scenario.events[at + 1..].iter();
        let mut later = later
            .take_while(|event| !matches!(event, Event::Turn(_) | Event::Assistant(_) | Event::Interrupt(_) | Event::Fork(_)));
        later.any(|event| matches!(event, Event::ToolResult(_)))
    }
}
