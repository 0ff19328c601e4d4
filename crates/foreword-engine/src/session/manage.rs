//! Managed histories: requests a due summary beside the conversation and applies it.

use std::sync::Arc;

use foreword_core::layer::LayerId;
use foreword_core::prompt::Prompt;
use foreword_core::session::{Input, Session, SidePrompt, TurnInput};
use foreword_core::settings::Layout;
use foreword_core::tokens::Tokens;
use foreword_provider::cost::{cost, output_cost, uncached_cost};
use foreword_provider::model::Model;
use foreword_provider::render::body;
use foreword_store::{Summary, Write};

use super::machine::{Clock, ModelRequest, Phase, Step, StepResult, Turn};
use super::recorded::RecordedSession;
use super::request::Outgoing;
use super::speak::{Reply, SpeakError};
use super::turn::Mode;
use crate::manager::{Answered, Call, Manager, Next, SummaryInput, View, Writing, has_outgrown, is_due};

/// The longest summary.
const MAX_REPLY: Tokens = Tokens(1_024);

/// The number of earlier views to read.
const MAX_PRIOR: usize = 32;

/// The system prompt of a model that does not see the conversation.
const ALONE: &str = "You keep the record of a conversation.";

/// A summary that is being written.
#[derive(Debug)]
pub(super) struct Summarizing {
    writing: Writing,
    /// Earlier views.
    prior: Vec<Summary>,
    now_ms: i64,
}

impl Turn {
    /// Writes a summary before a turn if one is due.
    pub(super) fn begin_summary(&mut self, session: &mut RecordedSession, clock: &Clock<'_>) -> Phase {
        if !session.is_summary_due(&self.question.turn) {
            return Phase::Record;
        }
        // The words are stored before anybody is asked anything.
        if session.asked.is_none() && matches!(session.mode, Mode::Chat | Mode::Agent) {
            self.record_asked(session, clock);
        }
        Phase::Summarize
    }

    /// Begins the summary. Failures do not stop the turn.
    pub(super) fn summarize(&mut self, session: &mut RecordedSession, clock: &Clock<'_>) -> Phase {
        let prior = session.store.summaries(&session.row.id, MAX_PRIOR).unwrap_or_else(|error| {
            session.fail(error.to_string());
            Vec::new()
        });
        let now_ms = clock.now_ms();
        let Some(manager) = session.manager.take() else { return Phase::Record };
        let begun = Writing::begin(&manager, &input(&session.session, &prior, &self.question.turn.words, now_ms));
        session.manager = Some(manager);
        match begun {
            Ok(writing) => self.write_on(Summarizing { writing, prior, now_ms }, None, session),
            Err(view) => self.end_summary(*view, now_ms, session),
        }
    }

    /// Takes the model's answer for a part of the summary.
    pub(super) fn go_on_summarizing(
        &mut self,
        summarizing: Summarizing,
        result: StepResult,
        session: &mut RecordedSession,
        _clock: &Clock<'_>,
    ) -> Phase {
        match result {
            StepResult::Part(_) => {
                self.steps.push_back(Step::Receive { show: String::new(), store: false });
                Phase::Summarizing(Box::new(summarizing))
            }
            StepResult::Reply(reply, timed_out) => {
                let answered = reply.map(|reply| answered(&session.model, reply, timed_out));
                self.write_on(summarizing, Some(answered), session)
            }
            // A preview has no summary.
            _ => Phase::Record,
        }
    }

    /// Writes until the model is asked, or until the summary is complete.
    fn write_on(
        &mut self,
        mut summarizing: Summarizing,
        mut answer: Option<Result<Answered, SpeakError>>,
        session: &mut RecordedSession,
    ) -> Phase {
        let Some(manager) = session.manager.take() else { return Phase::Record };
        let (patience, words) = (manager.patience, self.question.turn.words.clone());
        let next = loop {
            let Summarizing { writing, prior, now_ms } = &mut summarizing;
            match writing.next(&manager, &input(&session.session, prior, &words, *now_ms), answer.take()) {
                Next::Done(view) => break Ok(*view),
                Next::Ask(call) => match session.summary_request(&call, *now_ms) {
                    Ok(outgoing) => {
                        writing.set_body(&outgoing.body.bytes);
                        break Err(outgoing);
                    }
                    Err(error) => answer = Some(Err(error)),
                },
            }
        };
        session.manager = Some(manager);
        match next {
            Ok(view) => self.end_summary(view, summarizing.now_ms, session),
            Err(outgoing) => {
                let request = ModelRequest { request: Arc::new(outgoing), is_side: true, patience: Some(patience) };
                self.steps.push_back(Step::Send(request));
                Phase::Summarizing(Box::new(summarizing))
            }
        }
    }

    /// Applies the summary.
    fn end_summary(&mut self, view: View, now_ms: i64, session: &mut RecordedSession) -> Phase {
        if let Some(manager) = &mut session.manager {
            manager.focus = None;
        }
        match view.row(now_ms) {
            Ok(row) => session.backlog.push(Write::Summary(Box::new(row))),
            Err(error) => session.fail(format!("the record of a summary cannot be stored: {error}")),
        }
        match (&view.summary, &view.why) {
            (Some(summary), _) => {
                let told = Input::Managed { summary: summary.clone(), covers: view.covers };
                if let Err(error) = session.record(told, now_ms) {
                    session.fail(error.to_string());
                }
            }
            (None, why) => {
                let why = why.as_ref().map(ToString::to_string).unwrap_or_default();
                let again = if view.figures.history > Tokens::ZERO {
                    format!(
                        "; it is tried again from {} tokens of history on, which has {} now",
                        try_again_at(view.figures.history).0,
                        view.figures.history.0
                    )
                } else {
                    String::new()
                };
                session.fail(format!(
                    "there is no new summary of the history: {why}{again}. The turn continues with the full history"
                ));
            }
        }
        session.view = Some(view);
        self.steps.push_back(Step::Store);
        Phase::Record
    }
}

fn input<'a>(session: &'a Session, prior: &'a [Summary], latest_input: &'a str, now_ms: i64) -> SummaryInput<'a> {
    SummaryInput { session, prior, latest_input, tokenizer: &**session.tokenizer(), now_ms }
}

/// An answer with its cost.
fn answered(model: &Model, reply: Reply, timed_out: bool) -> Answered {
    let spent = reply.spent.unwrap_or_default();
    let total = spent.prompt.total();
    let written = output_cost(model, total, Tokens(spent.output));
    Answered {
        reply,
        timed_out,
        model: model.name.clone(),
        cost: cost(model, &spent.prompt) + written,
        cost_uncached: uncached_cost(model, total) + written,
    }
}

impl RecordedSession {
    /// Sets or removes the manager.
    pub fn set_manager(&mut self, manager: Option<Manager>) {
        self.manager = manager;
    }

    /// The result of the last summary since the session was opened.
    pub fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// Whether a summary is written before this turn.
    fn is_summary_due(&self, turn: &TurnInput) -> bool {
        let Some(manager) = &self.manager else { return false };
        // In `log` a changed view costs the cache: it changes where the cache breaks anyway, and where it has become worth a fold.
        let breaks = || {
            self.setup.settings.layout == Layout::Library
                || has_outgrown(&self.session)
                || self.session.would_fold(Input::Turn(turn.clone())).is_some()
        };
        is_due(manager, &self.session) && !self.waits_after_failure(manager) && breaks()
    }

    /// Whether the last summary that was paid for came to nothing and the history has hardly grown since. Who asks for a fold with a focus does
    /// not wait.
    fn waits_after_failure(&self, manager: &Manager) -> bool {
        if manager.focus.is_some() {
            return false;
        }
        let last = self.store.summaries(&self.row.id, 1).ok().and_then(|rows| View::of(rows.last()?).ok());
        let failed = last.filter(|view| view.why.is_some() && view.sections.iter().any(|section| section.by_model));
        failed.is_some_and(|view| self.session.history_tokens() < try_again_at(view.figures.history))
    }

    /// The request for a part of a summary. It follows the current prompt if it fits, so that the prompt is read from the provider's
    /// cache.
    fn summary_request(&self, call: &Call, at_ms: i64) -> Result<Outgoing, SpeakError> {
        let model = &self.model;
        let reply_tokens = MAX_REPLY.min(self.setup.settings.budget.reply);
        let fits = |aside: &SidePrompt| aside.envelope.tokens + reply_tokens <= model.window;
        let aside = Some(self.session.aside(&call.behind)).filter(fits);
        let SidePrompt { messages, envelope } = aside.unwrap_or_else(|| self.session.alone(ALONE, &call.alone));
        if envelope.tokens + reply_tokens > model.window {
            return Err(SpeakError::new(format!("the request for it has {} tokens", envelope.tokens)));
        }
        let prompt = Prompt {
            messages: &messages,
            tools: &envelope.tools,
            settled: envelope.settled,
            session: &self.setup.settings.session,
            l1: envelope.layers[LayerId::L1.index()].hash,
            l2: envelope.layers[LayerId::L2.index()].hash,
            reply_tokens,
        };
        let options = self.options(&self.session, &envelope, &self.next_at(at_ms, &envelope, &messages), None);
        let body = body(self.setup.dialect, model, &prompt, &options);
        let (number, model) = (self.counts.requests, Arc::clone(model));
        Ok(Outgoing { number, at_ms, body, stream: true, model, messages, reply_tokens, envelope, options })
    }
}

/// After a summary that came to nothing, the history grows by a quarter before another one is paid for.
fn try_again_at(history: Tokens) -> Tokens {
    Tokens(history.0 + history.0 / 4)
}
