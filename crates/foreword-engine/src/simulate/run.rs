//! Running a scenario: each event is told to the session, each request is put into the provider's words and shown to its cache.

use std::collections::BTreeMap;

use foreword_core::envelope::Envelope;
use foreword_core::layer::LayerId;
use foreword_core::message::ToolCall;
use foreword_core::prompt::CachePrices;
use foreword_core::session::{Due, Input, Session};
use foreword_core::settings::{HistoryPolicy, Layout, Settings};
use foreword_core::tokens::Tokens;
use foreword_provider::cache::CacheSim;
use foreword_provider::cost::{cost, uncached_cost};
use foreword_provider::render::{BodyOptions, Next, Renderer};
use foreword_provider::stream::PromptStream;
use serde_json::value::RawValue;

use super::hindsight::Hindsight;
use super::load::{Loaded, ScenarioError};
use super::report::{BreakReport, CacheReport, EnvelopeReport, MessageReport, Report, RequestReport, TokensReport, Totals};
use super::reuse::Earlier;
use super::scenario::Event;
use super::setup::{Overrides, Setup, setup, turn};
use crate::session::{Before, diagnose};

/// Runs a scenario. A request that cannot fit its budget ends it; the report then says why and holds what came before.
pub fn run(loaded: &Loaded, overrides: &Overrides) -> Result<Report, ScenarioError> {
    let setup = setup(loaded, overrides)?;
    let mut run = Run::new(loaded, setup)?;
    for at in 0..loaded.scenario.events.len() {
        if let Some(error) = run.event(at)? {
            run.report.error = Some(error);
            break;
        }
    }
    Ok(run.finish())
}

struct Run<'a> {
    loaded: &'a Loaded,
    setup: Setup,
    session: Session,
    inputs: Vec<Input>,
    /// The same conversation as one log that is never folded.
    unfolded: Session,
    unfolded_inputs: Vec<Input>,
    hindsight: Hindsight,
    renderer: Renderer,
    cache: CacheSim,
    earlier: Earlier,
    last_messages: Vec<std::sync::Arc<foreword_core::message::Message>>,
    last_cut: usize,
    now_s: u64,
    idle_s: u64,
    report: Report,
}

impl<'a> Run<'a> {
    fn new(loaded: &'a Loaded, setup: Setup) -> Result<Self, ScenarioError> {
        let agent = loaded.scenario.agent.clone();
        let start = |settings: Settings| {
            let session = Session::new(agent.clone(), settings, std::sync::Arc::clone(&setup.tokenizer));
            session.map_err(|error| loaded.error("agent", error))
        };
        let session = start(setup.settings.clone())?;
        let unfolded = start(never_folding(&setup.settings))?;
        let report = Report {
            name: loaded.scenario.name.clone(),
            layout: setup.settings.layout.as_str(),
            provider: setup.dialect.as_str(),
            model: setup.model.name.clone(),
            tokenizer: setup.tokenizer.name().to_owned(),
            requests: Vec::new(),
            totals: Totals::default(),
            error: None,
        };
        Ok(Self {
            loaded,
            session,
            inputs: Vec::new(),
            unfolded,
            unfolded_inputs: Vec::new(),
            hindsight: Hindsight::new(setup.model.cache_prices(), setup.settings.budget.clone()),
            renderer: Renderer::new(setup.dialect),
            cache: CacheSim::new(),
            earlier: Earlier::default(),
            last_messages: Vec::new(),
            last_cut: 0,
            now_s: 0,
            idle_s: 0,
            setup,
            report,
        })
    }

    /// Tells one event. Gives back why the run ends here, if it does.
    fn event(&mut self, at: usize) -> Result<Option<String>, ScenarioError> {
        let event = &self.loaded.scenario.events[at];
        if let Event::Fork(fork) = event {
            let place = format!("events[{at}].fork.at_turn");
            self.fork(fork.at_turn).map_err(|error| self.loaded.error(&place, error))?;
            return Ok(None);
        }
        if let Event::IdleS(seconds) = event {
            self.now_s = self.now_s.saturating_add(*seconds);
            self.idle_s = self.idle_s.saturating_add(*seconds);
        }
        for (place, input) in self.inputs(at)? {
            let due = self.session.apply(input.clone()).map_err(|error| self.loaded.error(&place, error))?;
            // What the real session knows, its unfolded twin may not: an item that a fold has dropped, say.
            if self.unfolded.apply(input.clone()).is_ok() {
                self.unfolded_inputs.push(input.clone());
            }
            self.inputs.push(input);
            if due == Due::Request
                && let Err(over) = self.request()
            {
                return Ok(Some(format!("{}: {place}: {over}", self.loaded.file)));
            }
        }
        Ok(None)
    }

    /// Goes back to the end of a turn.
    fn fork(&mut self, at_turn: usize) -> Result<(), String> {
        let agent = &self.loaded.scenario.agent;
        for (session, inputs) in [(&mut self.session, &mut self.inputs), (&mut self.unfolded, &mut self.unfolded_inputs)] {
            let Some(kept) = Input::until_turn(inputs, at_turn) else {
                return Err(format!("there is no turn {at_turn} to fork at; the session has {}", session.turns()));
            };
            inputs.truncate(kept.len());
            inputs.push(Input::Forked { epoch: session.epoch() + 1 });
            let tokenizer = std::sync::Arc::clone(&self.setup.tokenizer);
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
            Event::ToolResult(event) => {
                one("tool_result", Input::ToolResult { id: event.id.clone(), output: event.output.clone(), failed: false, found: Vec::new() })
            }
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
            Event::Agent(patch) => one("agent", Input::Agent(Box::new(patch.as_ref().clone().apply(self.session.agent())))),
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

    fn request(&mut self) -> Result<(), foreword_core::budget::OverBudget> {
        let envelope = self.session.request()?;
        let lifetime = self.setup.model.cache_prices().lifetime_s;
        let cold = self.report.requests.is_empty() || lifetime.is_some_and(|lifetime| self.idle_s >= lifetime);
        if self.unfolded.request().is_ok() {
            self.hindsight.push(&self.unfolded, envelope.tools.tokens, cold);
        }
        let same = self.last_messages.len() <= self.session.messages().len()
            && self.last_messages.iter().zip(self.session.messages()).all(|(before, now)| before.says_the_same(now));
        let options = BodyOptions {
            ttl: self.setup.ttl,
            previous_len: same.then_some(self.last_messages.len()).filter(|len| *len > 0),
            // Where tools can be called, the next request most likely continues this one.
            next: if envelope.tools.allowed.is_empty() { Next::Turn } else { Next::Step },
            ..BodyOptions::default()
        };
        let body = self.renderer.render(&self.setup.model, &self.session.prompt(&envelope), &options);
        let used = self.cache.request(self.now_s, &body.prompt, &self.setup.model);
        let reusable = self.earlier.reusable(&body.prompt);
        let broke = self.diagnose(&envelope, &body.prompt, used.read, cold);
        let sha256 = body.sha256().to_string();
        let cost = cost(&self.setup.model, &used);
        let totals = &mut self.report.totals;
        totals.requests += 1;
        totals.input_tokens += used.total();
        totals.read += used.read;
        totals.write += used.write;
        totals.uncached += used.uncached;
        totals.cost += cost;
        totals.cost_uncached += uncached_cost(&self.setup.model, used.total());
        self.last_cut = envelope.cut;
        let cache = CacheReport { reusable, read: used.read, write: used.write, uncached: used.uncached, cost, broke };
        let text = String::from_utf8_lossy(&body.bytes).into_owned();
        self.report.requests.push(RequestReport {
            index: self.report.requests.len(),
            turn: envelope.turn,
            epoch: envelope.epoch,
            messages: self.session.messages().iter().map(|message| MessageReport::from(&**message)).collect(),
            context: self.session.context(&envelope),
            tools: envelope.tools.allowed.clone(),
            body: RawValue::from_string(text).unwrap_or_default(),
            body_sha256: sha256,
            tokens: self.tokens(&envelope),
            cache,
            envelope: EnvelopeReport {
                layers: self.session.layers(&envelope).into_iter().map(Into::into).collect(),
                combined_sha256: envelope.combined,
            },
            left_out: envelope.left_out,
            notes: envelope.notes,
        });
        self.last_messages = self.session.messages().to_vec();
        self.earlier.push(body.prompt);
        self.idle_s = 0;
        Ok(())
    }

    fn tokens(&self, envelope: &Envelope) -> TokensReport {
        let layers = LayerId::ALL.iter().map(|layer| (layer.as_str(), envelope.layers[layer.index()].tokens));
        let by_layer: BTreeMap<_, _> = layers.chain([("TOOLS", envelope.tools.tokens)]).collect();
        TokensReport { total: envelope.tokens, budget: self.session.settings().budget.prompt, by_layer }
    }

    fn diagnose(&self, envelope: &Envelope, prompt: &PromptStream, read: Tokens, cold: bool) -> Option<BreakReport> {
        let before = Before { prompt: self.earlier.last()?, cut: self.last_cut, cold };
        let head = self.session.messages().first().map(|message| &**message);
        diagnose(&before, envelope, head, prompt, &self.setup.model, read)
    }

    fn finish(mut self) -> Report {
        let cost = self.report.totals.cost;
        self.report.totals.hindsight_cost = self.hindsight.cost().map_or(cost, |best| best.min(cost));
        self.report
    }
}

/// The same settings for a log that grows without end.
fn never_folding(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    settings.layout = Layout::Log;
    settings.budget.item = Some(settings.budget.item_cap());
    settings.budget.prompt = Tokens(u64::MAX / 4);
    settings.history = HistoryPolicy::Full;
    settings.prices = CachePrices { input: 0.0, read: 0.0, write: 0.0, lifetime_s: None };
    settings
}
