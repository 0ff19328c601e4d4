//! Side requests: questions to the model beside the conversation. Each uses a temporary session, so that it has the same budget,
//! escaping and layout as any request, and leaves only a record in the conversation.

use std::sync::Arc;

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
use super::speak::{Reply, SpeakError};
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

    /// Records a question with its answer. Returns the text of the answer.
    pub(super) fn record_side(
        &mut self,
        beside: &mut SideConversation,
        outgoing: &Outgoing,
        answer: Result<Reply, SpeakError>,
        (first_ms, total_ms): (Option<u64>, u64),
        at_ms: i64,
    ) -> Result<String, TurnError> {
        let spent = answer.as_ref().ok().and_then(|reply| reply.spent);
        // Where there was no answer nobody says what it cost, and nothing was saved.
        let usage = match &answer {
            Ok(_) => self.priced(outgoing, spent, first_ms, total_ms),
            Err(_) => Usage { model: self.model.name.clone(), total_ms: Some(total_ms), ..Usage::default() },
        };
        let aside = SideExchange {
            purpose: beside.purpose.to_owned(),
            body: String::from_utf8_lossy(&outgoing.body.bytes).into_owned(),
            answer: answer.as_ref().map(|reply| reply.text.clone()).map_err(|error| error.message.clone()),
            usage,
        };
        self.record_entry(&LogEntry::SideExchange(Box::new(aside)), at_ms, false, Vec::new());
        let reply = answer?;
        beside.session.apply(Input::Assistant { text: reply.text.clone(), calls: Vec::new(), opaque: Vec::new() })?;
        Ok(reply.text)
    }
}

impl SideConversation {
    /// The request for a question.
    pub(super) fn request(&mut self, turn: TurnInput, session: &RecordedSession, at_ms: i64) -> Result<Outgoing, TurnError> {
        self.session.apply(Input::Turn(turn))?;
        let envelope = self.session.request()?;
        let options = BodyOptions {
            ttl: session.setup().ttl,
            previous_len: None,
            next: Next::Turn,
            stream: true,
            ..BodyOptions::default()
        };
        Ok(Outgoing {
            number: session.counts().requests,
            at_ms,
            body: self.renderer.render(&session.model, &self.session.prompt(&envelope), &options),
            stream: true,
            model: Arc::clone(&session.model),
            messages: self.session.messages().to_vec(),
            reply_tokens: self.session.settings().budget.reply,
            envelope,
            options,
        })
    }
}
