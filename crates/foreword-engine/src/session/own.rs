//! The engine's own tools `plan` and `task_complete`, with which an agent plans its work and completes steps.

use foreword_core::catalog::{Agent, Include, Permission, Tool};
use foreword_core::item::ItemId;
use foreword_core::plan::Plan;
use foreword_core::session::{Input, InputError, Session};
use foreword_tools::{OWN_SERVER, Output};
use serde_json::{Value, json};

use super::recorded::RecordedSession;
use super::turn::TurnError;

/// A tool of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// Submits a plan.
    Plan,
    /// Completes a step, or the whole task.
    TaskComplete,
}

impl Own {
    const ALL: [Self; 2] = [Self::Plan, Self::TaskComplete];

    fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::TaskComplete => "task_complete",
        }
    }

    /// The tool's ID.
    pub fn id(self) -> ItemId {
        ItemId::tool(OWN_SERVER, self.name())
    }

    /// The engine's tool with this ID, if any.
    pub fn of(tool: &ItemId) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.id() == *tool)
    }

    /// The tool's definition.
    pub fn tool(self) -> Tool {
        let (description, schema) = match self {
            Self::Plan => (
                "Hand over your plan before you begin work of several steps: short steps in the order in which you will do them. \
                 You are then told which step to work on.",
                json!({
                    "type": "object",
                    "properties": {"steps": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 10}},
                    "required": ["steps"],
                    "additionalProperties": false,
                }),
            ),
            Self::TaskComplete => (
                "Call this when the current step of your plan is done, or, where there is no plan, when the whole task is done.",
                json!({
                    "type": "object",
                    "properties": {"result": {"type": "string", "description": "what came of it, in a sentence or two for the user"}},
                    "additionalProperties": false,
                }),
            ),
        };
        Tool {
            server: OWN_SERVER.to_owned(),
            name: self.name().to_owned(),
            description: Some(description.to_owned()),
            schema,
            include: Some(Include::Always),
            permission: Some(Permission::NotRequired),
            read_only: true,
        }
    }

    /// The tools that an agent lacks.
    pub fn missing(agent: &Agent) -> Vec<Tool> {
        Self::ALL.into_iter().filter(|own| agent.find(&own.id()).is_none()).map(Self::tool).collect()
    }
}

/// The steps to add the tools to a session.
#[derive(Clone, Copy)]
pub(super) enum Joining {
    /// Add them to the agent.
    Agent,
    /// Add one to the session.
    Member(Own),
}

impl Joining {
    pub(super) const ALL: [Self; 3] = [Self::Agent, Self::Member(Own::Plan), Self::Member(Own::TaskComplete)];

    /// The input for this step, or `None` if it was already done.
    pub(super) fn input(self, session: &Session) -> Option<Input> {
        match self {
            Self::Agent => {
                let missing = Own::missing(session.agent());
                (!missing.is_empty()).then(|| {
                    let mut agent = session.agent().clone();
                    agent.tools.extend(missing);
                    Input::Agent(Box::new(agent))
                })
            }
            Self::Member(own) => (!session.members().any(|member| *member == own.id())).then(|| Input::Add(own.id())),
        }
    }
}

/// The result of a call.
pub(super) struct Done {
    pub(super) output: Output,
    /// The final message to the user, if the task is done.
    pub(super) finished: Option<String>,
}

impl RecordedSession {
    /// Adds the engine's tools to the session.
    pub(super) fn join_own_tools(&mut self, at_ms: i64) -> Result<(), InputError> {
        for step in Joining::ALL {
            if let Some(input) = step.input(self.session()) {
                self.record(input, at_ms)?;
            }
        }
        Ok(())
    }

    /// Executes a call of an engine tool.
    pub(super) fn own_tool(&mut self, own: Own, arguments: &Value, at_ms: i64) -> Result<Done, TurnError> {
        Ok(match own {
            Own::Plan => Done { output: self.take_plan(arguments, at_ms)?, finished: None },
            Own::TaskComplete => self.complete(arguments, at_ms)?,
        })
    }

    fn take_plan(&mut self, arguments: &Value, at_ms: i64) -> Result<Output, TurnError> {
        let steps = arguments.get("steps").cloned().unwrap_or_default();
        let Ok(steps) = serde_json::from_value::<Vec<String>>(steps) else {
            return Ok(Output::failed("The plan was refused: steps must be a list of texts. Call plan again."));
        };
        match Plan::new(&steps, self.session().settings().plan) {
            Err(refused) => Ok(Output::failed(refused.to_string())),
            Ok(plan) => {
                self.record(Input::Plan { steps, answered: true }, at_ms)?;
                Ok(Output::done(plan.accepted()))
            }
        }
    }

    fn complete(&mut self, arguments: &Value, at_ms: i64) -> Result<Done, TurnError> {
        let result = arguments.get("result").and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some((step, of)) = self.session().current_plan().map(Plan::position) else {
            return Ok(Done { output: Output::done("The task is complete."), finished: Some(result) });
        };
        self.record(Input::TaskComplete { answered: true }, at_ms)?;
        let finished = (step == of).then_some(result);
        Ok(Done { output: Output::done(format!("Step {step} of {of} is complete.")), finished })
    }
}
