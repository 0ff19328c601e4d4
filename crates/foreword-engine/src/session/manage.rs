//! Managed histories: requests a due summary beside the conversation and applies it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;

use foreword_core::layer::LayerId;
use foreword_core::prompt::Prompt;
use foreword_core::session::{Input, SidePrompt, TurnInput};
use foreword_core::settings::Layout;
use foreword_core::tokens::Tokens;
use foreword_provider::cost::{cost, output_cost, uncached_cost};
use foreword_provider::model::Model;
use foreword_provider::render::{BodyOptions, body};
use foreword_store::Write;

use super::log_entry::LogEntry;
use super::recorded::RecordedSession;
use super::request::Outgoing;
use super::speak::{ChatModel, SpeakError};
use super::turn::{Mode, TurnContext, TurnError};
use crate::manager::{Answered, Call, Manager, SummaryInput, View, has_outgrown, is_due, manage};

/// The longest summary.
const MOST_REPLY: Tokens = Tokens(1_024);

/// The number of earlier views to read.
const MOST_PRIOR: usize = 32;

/// The system prompt of a model that does not see the conversation.
const ALONE: &str = "You keep the record of a conversation.";

impl RecordedSession {
    /// Sets or removes the manager.
    pub fn set_manager(&mut self, manager: Option<Manager>) {
        self.manager = manager;
    }

    /// The result of the last summary since the session was opened.
    pub fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// Writes a summary before a turn if one is due. Failures do not stop the turn.
    pub(super) fn manage(&mut self, turn: &TurnInput, party: &mut TurnContext<'_>) -> Result<(), TurnError> {
        let Some(mut manager) = self.manager.take() else { return Ok(()) };
        // In `log` a changed view costs the cache: it changes where the cache breaks anyway, and where it has become worth a fold.
        let breaks = || {
            self.setup.settings.layout == Layout::Library
                || has_outgrown(&self.session)
                || self.session.would_fold(Input::Turn(turn.clone())).is_some()
        };
        let due = is_due(&manager, &self.session) && !self.waits_after_failure(&manager) && breaks();
        let written = if due { self.write_view(turn, &mut manager, party) } else { Ok(()) };
        self.manager = Some(manager);
        written
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

    fn write_view(&mut self, turn: &TurnInput, manager: &mut Manager, party: &mut TurnContext<'_>) -> Result<(), TurnError> {
        // The words are stored before anybody is asked anything.
        if self.asked.is_none() && matches!(self.mode, Mode::Chat | Mode::Agent) {
            self.store_told(&LogEntry::Asked(Box::new(turn.clone())), (party.now)(), false, Vec::new());
        }
        self.tell_stored(party)?;
        let (speaker, now) = (&mut *party.speaker, party.now);
        let prior = self.store.summaries(&self.row.id, MOST_PRIOR).unwrap_or_else(|error| {
            self.fail(error.to_string());
            Vec::new()
        });
        let now_ms = now();
        let mut own = manager.own.take();
        let tokenizer = Arc::clone(self.session.tokenizer());
        let ground =
            SummaryInput { session: &self.session, prior: &prior, latest_input: &turn.words, tokenizer: &*tokenizer, now_ms };
        let view = manage(manager, &ground, &mut |call: &Call, body: &mut String| {
            let (speaker, model, alone): (&mut dyn ChatModel, _, _) = match own.as_mut().filter(|_| call.own) {
                Some(own) => (&mut *own.speaker, Arc::clone(&own.model), Some(call.alone.as_str())),
                None => (&mut *speaker, Arc::clone(&self.model), None),
            };
            let outgoing = self.summary_request(&model, alone, call, now_ms)?;
            *body = String::from_utf8_lossy(&outgoing.body.bytes).into_owned();
            answer(manager, speaker, &outgoing)
        });
        manager.own = own;
        manager.focus = None;
        match view.row(now_ms) {
            Ok(row) => self.backlog.push(Write::Summary(Box::new(row))),
            Err(error) => self.fail(format!("the record of a summary cannot be stored: {error}")),
        }
        match (&view.summary, &view.why) {
            (Some(summary), _) => {
                let told = Input::Managed { summary: summary.clone(), covers: view.covers };
                if let Err(error) = self.tell(told, now_ms) {
                    self.fail(error.to_string());
                }
            }
            (None, why) => {
                self.write([]);
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
                self.fail(format!(
                    "there is no new summary of the history: {why}{again}. The turn continues with the full history"
                ));
            }
        }
        self.view = Some(view);
        Ok(())
    }

    /// The side request, after the current prompt if it fits, so that the prompt is read from the provider's cache.
    fn summary_request(&self, model: &Arc<Model>, alone: Option<&str>, call: &Call, at_ms: i64) -> Result<Outgoing, SpeakError> {
        let reply_tokens = MOST_REPLY.min(self.setup.settings.budget.reply);
        let live = alone.is_none().then(|| self.session.aside(&call.behind));
        let fits = |aside: &SidePrompt| aside.envelope.tokens + reply_tokens <= model.window;
        let aside = live.filter(fits).unwrap_or_else(|| self.session.alone(ALONE, &call.alone));
        if !fits(&aside) {
            return Err(SpeakError(format!("the request for it has {} tokens", aside.envelope.tokens)));
        }
        Ok(self.put_beside(aside, model, alone.is_some(), reply_tokens, at_ms))
    }

    fn put_beside(&self, aside: SidePrompt, model: &Arc<Model>, own: bool, reply_tokens: Tokens, at_ms: i64) -> Outgoing {
        let SidePrompt { messages, envelope } = aside;
        let prompt = Prompt {
            messages: &messages,
            tools: &envelope.tools,
            settled: envelope.settled,
            session: &self.setup.settings.session,
            l1: envelope.layers[LayerId::L1.index()].hash,
            l2: envelope.layers[LayerId::L2.index()].hash,
            reply_tokens,
        };
        let options = if own {
            BodyOptions { stream: true, ..BodyOptions::default() }
        } else {
            self.options(&self.session, &envelope, &self.next_at(at_ms, &envelope, self.sent.as_ref(), &messages))
        };
        let dialect = if own { model.dialect } else { self.setup.dialect };
        let body = body(dialect, model, &prompt, &options);
        Outgoing {
            number: self.counts.requests,
            at_ms,
            body,
            stream: true,
            model: Arc::clone(model),
            messages,
            reply_tokens,
            envelope,
        }
    }
}

/// Sends a side request and waits for its reply, at most as long as the manager allows.
fn answer(manager: &Manager, speaker: &mut dyn ChatModel, outgoing: &Outgoing) -> Result<Answered, SpeakError> {
    let (reply, timed_out) = with_patience(manager, || speaker.answer(outgoing, &mut |_| {}));
    let (reply, model) = (reply?, &*outgoing.model);
    let spent = reply.spent.unwrap_or_default();
    let total = spent.prompt.total();
    let written = output_cost(model, total, Tokens(spent.output));
    Ok(Answered {
        reply,
        timed_out,
        model: model.name.clone(),
        cost: cost(model, &spent.prompt) + written,
        cost_uncached: uncached_cost(model, total) + written,
    })
}

/// After a summary that came to nothing, the history grows by a quarter before another one is paid for.
fn try_again_at(history: Tokens) -> Tokens {
    Tokens(history.0 + history.0 / 4)
}

/// Ends an answer that takes too long, where somebody can.
fn with_patience<T>(manager: &Manager, answer: impl FnOnce() -> T) -> (T, bool) {
    let Some(stop) = manager.stop.clone() else { return (answer(), false) };
    let (done, wait) = channel::<()>();
    let patience = manager.patience;
    let watch = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || {
            let late = wait.recv_timeout(patience) == Err(RecvTimeoutError::Timeout);
            if late {
                stop.store(true, Ordering::Relaxed);
            }
            late
        })
    };
    let answered = answer();
    drop(done);
    let late = watch.join().unwrap_or(false);
    if late {
        // Only this answer was to end.
        stop.store(false, Ordering::Relaxed);
    }
    (answered, late)
}
