//! Side requests: questions to the model beside the conversation. Each uses a temporary session, so that it has the same budget,
//! escaping and layout as any request, and leaves only a record in the conversation.

use std::sync::Arc;
use std::time::Instant;

use foreword_core::catalog::Agent;
use foreword_core::prompt::ToolStyle;
use foreword_core::session::{Input, Session, TurnInput};
use foreword_core::settings::{HistoryPolicy, Layout, Settings};
use foreword_core::tokens::Tokens;
use foreword_provider::render::{BodyOptions, Next, Renderer};
use foreword_store::Usage;

use super::log_entry::{LogEntry, SideExchange};
use super::recorded::RecordedSession;
use super::request::Outgoing;
use super::speak::ChatModel;
use super::turn::TurnError;

/// The longest reply to a side request.
const MOST_REPLY: Tokens = Tokens(1024);

/// A temporary session for one or more questions.
#[derive(Debug)]
pub(super) struct SideConversation {
    purpose: &'static str,
    session: Session,
    renderer: Renderer,
}

impl RecordedSession {
    /// Opens a temporary session with its own instructions and material.
    pub(super) fn beside(&self, purpose: &'static str, agent: Agent) -> Result<SideConversation, TurnError> {
        let mut settings = Settings {
            layout: Layout::Log,
            tools: ToolStyle::Native,
            history: HistoryPolicy::Full,
            session: format!("{}-{purpose}", self.id()),
            ..self.setup().settings.clone()
        };
        settings.budget.reply = settings.budget.reply.min(MOST_REPLY);
        let session = Session::new(agent, settings, Arc::clone(self.session().tokenizer()))?;
        Ok(SideConversation { purpose, session, renderer: Renderer::new(self.setup().dialect) })
    }

    /// Sends a question and records it with its answer.
    pub(super) fn ask_beside(
        &mut self,
        beside: &mut SideConversation,
        turn: TurnInput,
        speaker: &mut dyn ChatModel,
        now: &dyn Fn() -> i64,
    ) -> Result<String, TurnError> {
        beside.session.apply(Input::Turn(turn))?;
        let envelope = beside.session.request()?;
        let options =
            BodyOptions { ttl: self.setup().ttl, previous_len: None, next: Next::Turn, stream: true, ..BodyOptions::default() };
        let outgoing = Outgoing {
            number: self.counts().requests,
            at_ms: now(),
            body: beside.renderer.render(&self.model, &beside.session.prompt(&envelope), &options),
            stream: true,
            model: Arc::clone(&self.model),
            messages: beside.session.messages().to_vec(),
            reply_tokens: beside.session.settings().budget.reply,
            envelope,
        };
        let start = Instant::now();
        let mut first = None;
        let elapsed = || u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let answer = speaker.answer(&outgoing, &mut |_| {
            first.get_or_insert_with(elapsed);
        });
        let spent = answer.as_ref().ok().and_then(|reply| reply.spent);
        // Where there was no answer nobody says what it cost, and nothing was saved.
        let usage = match &answer {
            Ok(_) => self.priced(&outgoing, spent, first, elapsed()),
            Err(_) => Usage { model: self.model.name.clone(), total_ms: Some(elapsed()), ..Usage::default() },
        };
        let aside = SideExchange {
            purpose: beside.purpose.to_owned(),
            body: String::from_utf8_lossy(&outgoing.body.bytes).into_owned(),
            answer: answer.as_ref().map(|reply| reply.text.clone()).map_err(|error| error.0.clone()),
            usage,
        };
        self.store_told(&LogEntry::SideExchange(Box::new(aside)), now(), false, Vec::new());
        let reply = answer?;
        beside.session.apply(Input::Assistant { text: reply.text.clone(), calls: Vec::new(), opaque: Vec::new() })?;
        Ok(reply.text)
    }
}
