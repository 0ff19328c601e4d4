//! What the tokens of a prompt are. Logs do not say it: sizes come from what each call adds to the prompt, shared out among what stands
//! between two calls by the length of its text.

use crate::log::{Name, Signs};
use crate::sessions::{Chain, Step};

/// What tokens are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// What stands in front of the conversation: system prompt, tools, files of the user.
    Start,
    /// Words of the user.
    User,
    /// Replies of the model.
    Reply,
    /// What stands for an earlier conversation.
    Summary,
    /// What a tool gave back.
    Tool(Name),
    /// What the program adds by itself.
    Other,
}

/// How a prompt differs from the one before it.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It is longer: what it had stays.
    Grown,
    /// It is shorter: that share of all but the start is left.
    Left(f64),
    /// A summary stands for all but the start.
    Compacted,
}

/// What a call brings into its prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// What became of what was there.
    pub change: Change,
    /// What is new, in tokens.
    pub added: Vec<(Kind, f64)>,
}

/// Characters a token, where the log has nothing better.
const CHARS: f64 = 4.0;

/// No text has more tokens than that share of its bytes.
const DENSEST: f64 = 0.5;

/// What each call of a chain brings.
pub fn flows(chain: &Chain) -> Vec<Flow> {
    let mut start = 0.0;
    let mut before: Option<&Step> = None;
    chain
        .steps
        .iter()
        .map(|step| {
            let prompt = step.call.tokens.prompt() as f64;
            let flow = match before {
                None => {
                    let user = (step.call.user_chars as f64 / CHARS).min(prompt);
                    start = prompt - user;
                    Flow { change: Change::Grown, added: vec![(Kind::Start, start), (Kind::User, user)] }
                }
                Some(was) => {
                    let earlier = was.call.tokens.prompt() as f64;
                    if step.call.signs.has(Signs::COMPACTED) && prompt < earlier {
                        start = start.min(prompt);
                        Flow { change: Change::Compacted, added: vec![(Kind::Summary, prompt - start)] }
                    } else if prompt < earlier {
                        start = start.min(prompt);
                        let rest = (earlier - start).max(1.0);
                        Flow { change: Change::Left(((prompt - start) / rest).clamp(0.0, 1.0)), added: Vec::new() }
                    } else {
                        Flow { change: Change::Grown, added: added(was, step, prompt - earlier) }
                    }
                }
            };
            before = Some(step);
            flow
        })
        .collect()
}

fn added(was: &Step, step: &Step, grown: f64) -> Vec<(Kind, f64)> {
    let mut found = Vec::new();
    let reply = (was.call.tokens.output as f64).min(grown);
    if reply > 0.0 {
        found.push((Kind::Reply, reply));
    }
    let rest = grown - reply;
    let chars = step.call.user_chars as f64 + step.results.iter().map(|(_, chars)| *chars as f64).sum::<f64>();
    if rest <= 0.0 {
        return found;
    }
    let mut told = 0.0;
    let texts = step.results.iter().map(|(tool, chars)| (Kind::Tool(*tool), *chars as f64));
    for (kind, text) in texts.chain([(Kind::User, step.call.user_chars as f64)]) {
        let tokens = if chars > 0.0 { (rest * text / chars).min(text * DENSEST) } else { 0.0 };
        if tokens > 0.0 {
            found.push((kind, tokens));
            told += tokens;
        }
    }
    if rest - told > 0.5 {
        found.push((Kind::Other, rest - told));
    }
    found
}

/// What a prompt holds, as it goes from call to call.
#[derive(Clone, Debug, Default)]
pub struct Holding {
    /// Tokens by what they are.
    pub parts: Vec<(Kind, f64)>,
}

impl Holding {
    /// Takes over a change. What is new is added by [`Holding::add`].
    pub fn change(&mut self, change: &Change) {
        let share = match change {
            Change::Grown => return,
            Change::Left(share) => *share,
            Change::Compacted => 0.0,
        };
        for (kind, tokens) in &mut self.parts {
            if *kind != Kind::Start {
                *tokens *= share;
            }
        }
        self.parts.retain(|(_, tokens)| *tokens > 0.5);
    }

    /// Adds what is new.
    pub fn add(&mut self, added: &[(Kind, f64)]) {
        for (kind, tokens) in added {
            match self.parts.iter_mut().find(|(there, _)| there == kind) {
                Some((_, sum)) => *sum += tokens,
                None => self.parts.push((*kind, *tokens)),
            }
        }
    }

    /// All of it.
    pub fn tokens(&self) -> f64 {
        self.parts.iter().map(|(_, tokens)| tokens).sum()
    }
}
