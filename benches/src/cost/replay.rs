//! Telling a conversation to a session under a policy.

use std::sync::Arc;

use anyhow::{Context, Result};
use foreword_core::budget::Budget;
use foreword_core::catalog::Agent;
use foreword_core::layer::LayerId;
use foreword_core::message::{Message, Origin, Piece, Role};
use foreword_core::prompt::CachePrices;
use foreword_core::session::{Input, Session};
use foreword_core::settings::{Layout, Settings};
use foreword_core::tokens::{Chars, Tokens};

use crate::bill::{Request, size};
use crate::data::Conversation;

/// Large enough that the budget never asks for a fold.
const PROMPT: Tokens = Tokens(4_000_000);

/// At these prices no fold ever pays: folds come only when they are asked for.
const NEVER_PAYS: CachePrices =
    CachePrices { input: 1.0, read: 1.0, write: 1.0, lifetime_s: None, minimum: 0, step: 0, long: None };

/// More runs than any conversation has. A fold that is asked for leaves out older runs than the settings name, one that the engine
/// makes because it pays does not; with this both are the same fold, and only their times differ.
const ALL_RUNS: usize = u32::MAX as usize;

/// When the prompt is rewritten, and how it is laid out.
pub(crate) enum Policy<'a> {
    /// Everything is in one user message that is new every time.
    Glued,
    /// The engine's `library` layout.
    Library,
    /// The engine's `log` layout with its own folds, at some prices.
    Log(CachePrices),
    /// A log that is folded before the requests that are named by their place.
    Folded(&'a dyn Fn(usize) -> bool),
}

/// A session at the start of a conversation.
fn start(conversation: &Conversation, output_chars: usize, layout: Layout, prices: CachePrices) -> Result<Session> {
    let agent = Agent { system_prompt: conversation.system.clone(), ..Agent::default() };
    let budget = Budget { prompt: PROMPT, output_chars, ..Budget::default() };
    let settings = Settings { layout, budget, recent_runs: ALL_RUNS, ..Settings::new(&conversation.name, prices) };
    Session::new(agent, settings, Arc::new(Chars::FOUR)).with_context(|| conversation.name.clone())
}

/// A log that is only folded when it is asked to be.
pub(crate) fn start_unfolded(conversation: &Conversation, output_chars: usize) -> Result<Session> {
    start(conversation, output_chars, Layout::Log, NEVER_PAYS)
}

/// Tells a session what happens before a request, and makes the request.
pub(crate) fn round(session: &mut Session, inputs: &[Input]) -> Result<Request> {
    for input in inputs {
        session.apply(input.clone())?;
    }
    let envelope = session.request()?;
    Ok(Request { messages: session.messages().to_vec(), settled: envelope.settled, fold_len: session.before_next_fold() })
}

/// The requests of a conversation under a policy.
pub(crate) fn requests(conversation: &Conversation, output_chars: usize, policy: &Policy<'_>) -> Result<Vec<Request>> {
    let mut session = match policy {
        Policy::Library => start(conversation, output_chars, Layout::Library, NEVER_PAYS)?,
        Policy::Log(prices) => start(conversation, output_chars, Layout::Log, *prices)?,
        Policy::Glued | Policy::Folded(_) => start_unfolded(conversation, output_chars)?,
    };
    let mut requests = Vec::new();
    for (at, inputs) in conversation.rounds.iter().enumerate() {
        if let Policy::Folded(folds) = policy
            && at > 0
            && folds(at)
        {
            session.apply(Input::Fold)?;
        }
        let request = round(&mut session, inputs)?;
        requests.push(if matches!(policy, Policy::Glued) { glued(&request.messages) } else { request });
    }
    Ok(requests)
}

/// A request in which all behind the system message is one message.
fn glued(messages: &[Arc<Message>]) -> Request {
    let (system, rest) = messages.split_at(usize::from(messages.first().is_some_and(|first| first.role == Role::System)));
    let text: Vec<_> = rest.iter().map(|message| message.content()).collect();
    let piece = Piece { layer: LayerId::L5, origin: Origin::User, text: Arc::from(text.join("\n\n")), tokens: size(rest) };
    let message = Arc::new(Message::text(Role::User, vec![piece]));
    Request { messages: [system, &[message]].concat(), settled: system.len(), fold_len: None }
}
