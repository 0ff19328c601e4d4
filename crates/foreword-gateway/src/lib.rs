//! A client that sends all that was said each time: which session it means, and what is new in what it sends.
//!
//! Every answer is remembered by the hash of the conversation up to it. A request that begins with a conversation that is remembered
//! continues its session, or a fork of it; any other begins one and brings its past along.

mod aside;
mod assist;
mod client_texts;
mod conversation;
mod endpoint;
mod explain;
mod forward;
mod json_text;
mod record;
mod sessions;
mod spending;
mod what_if;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::Path;

use foreword_core::catalog::Agent;
use foreword_core::hash::Hash;
use foreword_core::message::ToolCall;
use foreword_core::prompt::ToolStyle;
use foreword_core::session::{Input, TurnInput};
use foreword_core::tokens::Tokens;
use foreword_vault::transcript::{Context, Role};
use serde_json::{Map, Value, json};

pub use assist::{Additions, plan as plan_additions, without};
pub use client_texts::{SessionMessage, client_messages};
pub use conversation::{Conversation, Who, is_id};
pub use endpoint::{Endpoint, Family, Kind};
pub use explain::{ClientBreak, ClientLayer, ClientRequest, ClientSession, client_diff, client_session, client_sessions};
pub use foreword_provider::client::Method;
pub use foreword_provider::client::{Secret, SendError};
pub use foreword_provider::dialect::Dialect;
pub use foreword_provider::front::{
    AnswerTranslator, Asked, ClientApi, ClientCall, ClientMessage, End, FinishedAnswer, ForwardedFields, NotUnderstood,
    ResponseWriter, Translation,
};
pub use foreword_provider::refusal::Refusal;
pub use forward::{About, Forwarder, Given, Passing, Recorded, Route, Way, is_any_model, model_of, renamed};
pub use sessions::{How, Names, Recognised, Sessions};
pub use spending::{Payer, Spending, Verdict};
pub use what_if::{ClientCost, ClientWhatIf, client_what_if};

use foreword_engine::Layout;
use foreword_engine::session::{ClientOptions, Line, Model, Setup};
use foreword_vault_tools::read_output;

/// Conversations that are remembered. Whoever comes back to one that was forgotten begins a session with a past.
const REMEMBERED: usize = 20_000;

/// What is to be told to which session.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// A session that stands where the client stands.
    Continue(String, Vec<Input>),
    /// A session that went on since; the client goes another way from the end of so many turns.
    Fork(String, u64, Vec<Input>),
    /// A new one, with what was said before.
    Begin(Vec<Line>, Vec<Input>),
}

/// Where a remembered conversation ended.
#[derive(Clone, Debug)]
struct Place {
    session: String,
    turns: u64,
    /// Whether calls wait for their results.
    open: bool,
}

/// Which conversation belongs to which session.
#[derive(Debug, Default)]
pub struct Memory {
    places: HashMap<Hash, Place>,
    order: VecDeque<Hash>,
    /// Where each session stands.
    heads: HashMap<String, Hash>,
    /// Where each answer that a client can name ended, and the hash of the conversation up to it.
    answers: HashMap<String, (Hash, Place)>,
    answer_order: VecDeque<String>,
    /// Conversations whose last request got no answer: they stand in their session as they are, to be sent again.
    unanswered: HashMap<Hash, String>,
}

impl Memory {
    /// What is to be done for a request. `session` is the one the client names, where it names one; `is_free` tells whether a session
    /// can be told something now.
    pub fn plan(
        &self,
        asked: &Asked,
        chain: &Chain,
        session: Option<&str>,
        is_free: &dyn Fn(&str) -> bool,
    ) -> Result<Plan, NotUnderstood> {
        check(asked)?;
        if let Some(waiting) = chain.0.last().and_then(|last| self.unanswered.get(last))
            && session.is_none_or(|session| session == waiting)
            && is_free(waiting)
        {
            return Ok(Plan::Continue(waiting.clone(), Vec::new()));
        }
        // An answer that a client names is gone on from where it stands, also where its session has gone on since.
        if let Some((hash, place)) = asked.previous.as_ref().and_then(|previous| self.answers.get(previous))
            && let Some(inputs) = tail(&asked.said, 0)
        {
            if self.heads.get(&place.session) == Some(hash) && is_free(&place.session) {
                return Ok(Plan::Continue(place.session.clone(), inputs));
            }
            if !place.open {
                return Ok(Plan::Fork(place.session.clone(), place.turns, inputs));
            }
        }
        // A session that a client names goes on where it stands. What the client sends tells where that is, if it is remembered.
        let head = session.and_then(|session| self.heads.get(session));
        let known = chain.0.iter().rposition(|hash| Some(hash) == head);
        if let (Some(session), Some(known)) = (session, known)
            && let Some(inputs) = tail(&asked.said, known)
            && is_free(session)
        {
            return Ok(Plan::Continue(session.to_owned(), inputs));
        }
        for (known, hash) in chain.0.iter().enumerate().rev() {
            let Some(place) = self.places.get(hash) else { continue };
            let Some(inputs) = tail(&asked.said, known) else { continue };
            if self.heads.get(&place.session) == Some(hash) && is_free(&place.session) {
                return Ok(Plan::Continue(place.session.clone(), inputs));
            }
            if !place.open {
                return Ok(Plan::Fork(place.session.clone(), place.turns, inputs));
            }
        }
        // Else only its last words are new to it.
        if let Some(session) = session
            && let Some(inputs) = tail(&asked.said, last_user(&asked.said).unwrap_or(0))
            && is_free(session)
        {
            return Ok(Plan::Continue(session.to_owned(), inputs));
        }
        Ok(begin(&asked.said))
    }

    /// A request got no answer. The same one is sent again as it stands in its session, unless a part of an answer came (`is_begun`). Any
    /// other goes on from before it, in a fork or a session of its own: what failed is in none of those.
    pub fn failed(&mut self, asked: &Chain, session: &str, is_begun: bool) {
        self.heads.remove(session);
        self.unanswered.retain(|_, waiting| waiting != session);
        if let Some(last) = asked.0.last().filter(|_| !is_begun) {
            if self.unanswered.len() >= REMEMBERED {
                self.unanswered.clear();
            }
            self.unanswered.insert(*last, session.to_owned());
        }
    }

    /// Remembers an answer, by its name where it has one: the conversation up to it leads to this session.
    pub fn remember(
        &mut self,
        asked: &Chain,
        (text, calls): (&str, &[ToolCall]),
        (session, turns): (&str, u64),
        name: Option<&str>,
    ) {
        let hash = asked.answered(text, calls);
        let place = Place { session: session.to_owned(), turns, open: !calls.is_empty() };
        if let Some(name) = name
            && self.answers.insert(name.to_owned(), (hash, place.clone())).is_none()
        {
            self.answer_order.push_back(name.to_owned());
            while self.answer_order.len() > REMEMBERED {
                let oldest = self.answer_order.pop_front();
                oldest.map(|oldest| self.answers.remove(&oldest));
            }
        }
        if self.places.insert(hash, place).is_none() {
            self.order.push_back(hash);
        }
        self.heads.insert(session.to_owned(), hash);
        self.unanswered.retain(|_, waiting| waiting != session);
        while self.order.len() > REMEMBERED {
            let Some(place) = self.order.pop_front().and_then(|oldest| self.places.remove(&oldest).map(|place| (oldest, place)))
            else {
                break;
            };
            if self.heads.get(&place.1.session) == Some(&place.0) {
                self.heads.remove(&place.1.session);
            }
        }
    }
}

/// The hash of a conversation up to each of its messages; the first is of none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain(Vec<Hash>);

impl Chain {
    /// Of what a client sent. What was said to another model, or under another system prompt, is another conversation.
    pub fn of(asked: &Asked) -> Self {
        Self::of_owner(asked, None)
    }

    /// The same for one of several clients that share nothing: equal words of two owners are two conversations.
    pub fn of_owner(asked: &Asked, owner: Option<Hash>) -> Self {
        let mut last = link(owner, &(&asked.model, &asked.system));
        let mut hashes = vec![last];
        for said in &asked.said {
            last = match said {
                ClientMessage::User(words) => link(Some(last), &("user", words)),
                ClientMessage::Assistant { text, calls } => {
                    assistant(last, text, calls.iter().map(|call| (&*call.id, &*call.name, &call.arguments)))
                }
                ClientMessage::Result { id, output, failed } => link(Some(last), &("result", id, output, failed)),
            };
            hashes.push(last);
        }
        Self(hashes)
    }

    /// The hash of all of it with an answer behind it.
    fn answered(&self, text: &str, calls: &[ToolCall]) -> Hash {
        let last = self.0.last().copied().unwrap_or_else(|| Hash::of(""));
        assistant(last, text, calls.iter().map(|call| (&*call.id, &*call.name, &call.arguments)))
    }
}

fn assistant<'a>(before: Hash, text: &str, calls: impl Iterator<Item = (&'a str, &'a str, &'a Value)>) -> Hash {
    link(Some(before), &("assistant", text, calls.collect::<Vec<_>>()))
}

fn link(before: Option<Hash>, said: &impl serde::Serialize) -> Hash {
    let mut bytes = before.map(|before| before.bytes().to_vec()).unwrap_or_default();
    // Texts, numbers and JSON values can always be written, and memory takes all of it.
    let _ = serde_json::to_writer(&mut bytes, said);
    Hash::of(bytes)
}

fn check(asked: &Asked) -> Result<(), NotUnderstood> {
    let wrong = |what: &str| Err(NotUnderstood { place: "messages".to_owned(), what: what.to_owned() });
    match asked.said.last() {
        None => wrong("nothing was said; a message of the user is needed"),
        Some(ClientMessage::Assistant { .. }) => {
            wrong("the last message is the model's own; send the user's, or the results of its calls")
        }
        Some(_) if last_user(&asked.said).is_none() && asked.previous.is_none() => wrong("there is no message of the user"),
        Some(_) => Ok(()),
    }
}

fn last_user(said: &[ClientMessage]) -> Option<usize> {
    said.iter().rposition(|said| matches!(said, ClientMessage::User(_)))
}

/// What is new behind the first `known` messages, as a session is told it: results, then the user's words. None where a message of the
/// model is among it that the session never gave.
fn tail(said: &[ClientMessage], known: usize) -> Option<Vec<Input>> {
    let mut inputs = Vec::new();
    let mut words: Vec<&str> = Vec::new();
    for said in said.get(known..)? {
        match said {
            ClientMessage::User(text) => words.push(text),
            ClientMessage::Result { id, output, failed } if words.is_empty() => {
                let (id, output) = (id.clone(), output.clone());
                inputs.push(Input::ToolResult { id, output, failed: *failed, found: Vec::new() });
            }
            ClientMessage::Result { .. } | ClientMessage::Assistant { .. } => return None,
        }
    }
    if !words.is_empty() {
        inputs.push(Input::Turn(TurnInput { words: words.join("\n\n"), ..TurnInput::default() }));
    }
    (!inputs.is_empty()).then_some(inputs)
}

/// A session that begins with a past. Where tools have the last word, all of it is: the session goes on from there.
fn begin(said: &[ClientMessage]) -> Plan {
    let mut lines = past(said);
    match lines.pop_if(|line| line.role == Role::User) {
        Some(last) => Plan::Begin(lines, vec![Input::Turn(TurnInput { words: last.text, ..TurnInput::default() })]),
        None => Plan::Begin(lines, Vec::new()),
    }
}

/// What was said, a line for each message; what tools gave back stands with their calls. What nobody asked for is left out.
fn past(said: &[ClientMessage]) -> Vec<Line> {
    let line = |role, text: &str| Line {
        role,
        text: text.to_owned(),
        at_ms: None,
        context: Context::default(),
        calls: Vec::new(),
        cut_off: false,
        goes_on: true,
        failed: Vec::new(),
    };
    let mut lines: Vec<Line> = Vec::new();
    for said in said {
        match said {
            ClientMessage::User(words) => lines.push(line(Role::User, words)),
            ClientMessage::Assistant { text, calls } => {
                let calls = calls.iter().map(|call| (call.id.clone(), call.name.clone(), call.arguments.clone(), None));
                lines.push(Line { calls: calls.collect(), ..line(Role::Assistant, text) });
            }
            ClientMessage::Result { id, output, failed } => {
                let waits = |line: &&mut Line| line.calls.iter().any(|(call, .., result)| call == id && result.is_none());
                let Some(line) = lines.iter_mut().rev().find(waits) else { continue };
                if let Some((.., result)) = line.calls.iter_mut().find(|(call, .., result)| call == id && result.is_none()) {
                    *result = Some(json!(output));
                }
                if *failed {
                    line.failed.push(id.clone());
                }
            }
        }
    }
    lines
}

/// The agent that a client's request describes. Where it has tools, the model can read on in what they gave back.
pub fn agent(asked: &Asked) -> Agent {
    let mut tools = asked.tools.clone();
    if !tools.is_empty() {
        let reads = read_output::tool();
        if tools.iter().all(|tool| tool.name != reads.name) {
            tools.push(reads);
        }
    }
    Agent { system_prompt: asked.system.clone(), tools, ..Agent::default() }
}

/// A session for a client: its tools are the tool list, and replies have the room it asks for.
pub fn setup(session: &str, asked: &Asked, model: Model, models: &Path) -> Setup {
    let mut setup = Setup::of(session, model, Layout::Log, asked.tools.len(), Some(models));
    setup.settings.tools = ToolStyle::Native;
    setup.settings.verbatim_outputs = true;
    // A client that reads files expects to see them: one output may take a sixteenth of the window.
    let chars = usize::try_from(setup.model.window.0 / 4).unwrap_or(usize::MAX);
    setup.settings.budget.output_chars = setup.settings.budget.output_chars.max(chars);
    // Who sets no limit has the model's own.
    let limit = setup.model.reply_limit.0;
    let reply = asked.reply_tokens.unwrap_or(limit).min(limit).min(setup.model.window.0 / 2).max(1);
    setup.settings.budget.reply = Tokens(reply);
    setup.settings.budget.prompt = Tokens(setup.model.window.0.saturating_sub(reply));
    setup
}

/// How a client wants its answer, as far as the model of a session can be told, and what of it is ignored, by name.
pub fn manner(front: ClientApi, setup: &Setup, asked: &Asked) -> (ClientOptions, Vec<String>) {
    let stream = asked.stream;
    let same = front.is_spoken_in(setup.dialect) && !setup.is_embedded();
    // The client's limit is this request's; without one it is the model's own.
    let limit = setup.model.reply_limit;
    let reply = (!setup.is_embedded()).then(|| asked.reply_tokens.map_or(limit, |tokens| Tokens(tokens.max(1)).min(limit)));
    let (extra, mut ignored) = if setup.is_embedded() {
        (Map::new(), asked.extra.keys().cloned().collect())
    } else {
        let ForwardedFields { fields, ignored } = front.along(setup.dialect, &asked.extra);
        (fields, ignored)
    };
    if (!same && !asked.marks.is_empty()) || (front == ClientApi::Messages && asked.laid_out) {
        ignored.push("cache_control".to_owned());
    }
    if !same {
        let fields = asked.tool_fields.values().flat_map(Map::keys).collect::<BTreeSet<_>>();
        ignored.extend(fields.into_iter().map(|field| format!("tools.{field}")));
        return (ClientOptions { extra, stream, reply, ..ClientOptions::default() }, ignored);
    }
    (ClientOptions { extra, stream, reply, marks: asked.marks.clone(), tool_fields: asked.tool_fields.clone() }, ignored)
}

/// The session that an answer's name tells: `resp_SESSION-REQUEST`. None for an answer that a provider named.
pub fn session_of(answer: &str) -> Option<&str> {
    let (session, request) = answer.strip_prefix("resp_")?.rsplit_once('-')?;
    let named = (1..=64).contains(&session.len()) && session.bytes().all(|byte| byte.is_ascii_alphabetic());
    (named && !request.is_empty() && request.bytes().all(|byte| byte.is_ascii_digit())).then_some(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(said: Vec<ClientMessage>) -> Asked {
        Asked { model: "m".to_owned(), system: "s".to_owned(), said, ..Asked::default() }
    }

    fn user(words: &str) -> ClientMessage {
        ClientMessage::User(words.to_owned())
    }

    fn ai(text: &str) -> ClientMessage {
        ClientMessage::Assistant { text: text.to_owned(), calls: Vec::new() }
    }

    fn turn(words: &str) -> Input {
        Input::Turn(TurnInput { words: words.to_owned(), ..TurnInput::default() })
    }

    #[test]
    fn a_conversation_leads_to_its_session() {
        let mut memory = Memory::default();
        let free = |_: &str| true;
        let first = asked(vec![user("a")]);
        assert_eq!(memory.plan(&first, &Chain::of(&first), None, &free), Ok(Plan::Begin(Vec::new(), vec![turn("a")])));
        memory.remember(&Chain::of(&first), ("b", &[]), ("one", 1), None);
        let second = asked(vec![user("a"), ai("b"), user("c")]);
        assert_eq!(memory.plan(&second, &Chain::of(&second), None, &free), Ok(Plan::Continue("one".to_owned(), vec![turn("c")])));
        // While the session is busy, and once it has gone on, another way is a fork.
        let fork = Plan::Fork("one".to_owned(), 1, vec![turn("c")]);
        assert_eq!(memory.plan(&second, &Chain::of(&second), None, &|_| false), Ok(fork.clone()));
        memory.remember(&Chain::of(&second), ("d", &[]), ("one", 2), None);
        assert_eq!(memory.plan(&second, &Chain::of(&second), None, &free), Ok(fork));
        // Another system prompt is another conversation.
        let other = Asked { system: "t".to_owned(), ..second };
        assert!(matches!(memory.plan(&other, &Chain::of(&other), None, &free), Ok(Plan::Begin(past, _)) if past.len() == 2));
    }

    #[test]
    fn calls_are_answered_in_the_session_that_made_them() {
        let mut memory = Memory::default();
        let free = |_: &str| true;
        let first = asked(vec![user("a")]);
        let call = ToolCall { id: "c1".to_owned(), name: "read".to_owned(), arguments: json!({"p": 1}) };
        memory.remember(&Chain::of(&first), ("", std::slice::from_ref(&call)), ("one", 1), None);
        let made = ClientMessage::Assistant {
            text: String::new(),
            calls: vec![ClientCall { id: call.id.clone(), name: call.name.clone(), arguments: call.arguments.clone() }],
        };
        let result = ClientMessage::Result { id: "c1".to_owned(), output: "text".to_owned(), failed: true };
        let (id, output) = ("c1".to_owned(), "text".to_owned());
        let told = Input::ToolResult { id, output, failed: true, found: Vec::new() };
        let second = asked(vec![user("a"), made, result]);
        assert_eq!(memory.plan(&second, &Chain::of(&second), None, &free), Ok(Plan::Continue("one".to_owned(), vec![told])));
        // Open calls are not forked: the conversation begins anew, and goes on from the result.
        let Ok(Plan::Begin(past, inputs)) = memory.plan(&second, &Chain::of(&second), None, &|_| false) else {
            panic!("not begun anew")
        };
        assert_eq!(inputs, []);
        let [words, made] = &past[..] else { panic!("{past:?}") };
        assert_eq!((words.text.as_str(), &made.calls[0].2, &made.calls[0].3), ("a", &json!({"p": 1}), &Some(json!("text"))));
        assert_eq!((made.goes_on, &made.failed[..]), (true, &["c1".to_owned()][..]));
    }

    #[test]
    fn what_makes_no_request_is_refused() {
        let memory = Memory::default();
        for said in [
            vec![],
            vec![ai("b")],
            vec![user("a"), ai("b")],
            vec![ClientMessage::Result { id: "x".to_owned(), output: String::new(), failed: false }],
        ] {
            assert!(memory.plan(&asked(said.clone()), &Chain::of(&asked(said.clone())), None, &|_| true).is_err(), "{said:?}");
        }
    }

    #[test]
    fn answers_tell_their_session() {
        let check = |answer: &str, expect: Option<&str>| assert_eq!(session_of(answer), expect, "{answer}");
        check("resp_bcdfghjkmn-3", Some("bcdfghjkmn"));
        check("resp_bcdfghjkmn-", None);
        check("resp_-3", None);
        check("resp_bc-df-3", None);
        check("resp_0123456789abcdef", None);
        check("bcdfghjkmn-3", None);
        check("", None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut memory = Memory::default();
        for number in 0..REMEMBERED + 100 {
            memory.remember(&Chain::of(&asked(vec![user(&number.to_string())])), ("b", &[]), (&number.to_string(), 1), None);
        }
        assert_eq!((memory.places.len(), memory.order.len(), memory.heads.len()), (REMEMBERED, REMEMBERED, REMEMBERED));
    }
}
