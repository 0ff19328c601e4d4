//! The engine's summary of conversation parts that are no longer shown, recorded as the conversation happens.
//!
//! It has four parts and needs no model: the messages (the start of each one), the progress (what was read, written, decided and
//! finished, at which Version, so that nothing is done twice), exact facts, and the user's pins. If a model has written a summary,
//! it comes first and the other parts add what it lacks. Each line ends with the ID of its message. The summary is a record inside
//! its own block, never an instruction.

mod check;
mod cite;
mod page;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use check::{Checked, Retained, check};
pub use cite::{Cited, Source, cite};
use page::Page;

use crate::hash::Hash;
use crate::history::MessageId;
use crate::item::ItemId;
use crate::tokens::{Tokenizer, Tokens};
use foreword_text::facts::{Fact, FactKind, Saying, closing_question, facts, key, statements};
use foreword_text::fence::Fence;
use foreword_text::normalise::normalise;
use foreword_text::summary_line::first_sentence;

/// Longest quote in a line.
const QUOTE_CHARS: usize = 160;

/// How far back to search for facts; older ones can be recalled.
const MOST_LOOKED_AT: usize = 4_096;

/// A line, the unit of history and the message it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    unit: usize,
    from: MessageId,
    text: String,
    /// What it is about; a newer line about the same thing takes its place.
    about: Option<String>,
    /// The question it ends with.
    asks: Option<String>,
}

/// A fact, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KnownFact {
    unit: usize,
    from: MessageId,
    fact: Fact,
}

/// A summary that somebody wrote, and how far it goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Its text; empty where the engine's own lines are to do.
    pub text: String,
    /// The first unit that it does not include; `None` for all hidden units.
    pub covers: Option<usize>,
}

/// Everything about a session that may have to stand in for it, oldest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RollingSummary {
    said: Vec<Line>,
    progress: Vec<Line>,
    exact: Vec<KnownFact>,
    pinned: Vec<KnownFact>,
    /// An unanswered request.
    unanswered: Option<KnownFact>,
}

impl RollingSummary {
    fn quote(&mut self, unit: usize, from: MessageId, who: &str, text: &str, asks: Option<String>) -> Option<String> {
        let quote = first_sentence(text, QUOTE_CHARS);
        if quote.is_empty() {
            return None;
        }
        self.said.push(Line { unit, from, text: format!("- {who}: {quote}"), about: None, asks });
        Some(quote)
    }

    fn keep(&mut self, unit: usize, from: MessageId, kind: FactKind, text: impl Into<String>) {
        self.exact.push(KnownFact { unit, from, fact: Fact { kind, text: text.into() } });
    }

    fn note(&mut self, unit: usize, from: MessageId, about: Option<String>, text: String) {
        self.progress.push(Line { unit, from, text, about, asks: None });
    }

    /// What a message has that must not be lost.
    fn look_at(&mut self, unit: usize, from: MessageId, text: &str) {
        for statement in statements(text) {
            match statement.kind {
                FactKind::Decision => self.note(unit, from, None, format!("- Decided: {}", statement.text)),
                kind => self.keep(unit, from, kind, statement.text),
            }
        }
        self.exact.extend(facts(text).into_iter().map(|fact| KnownFact { unit, from, fact }));
    }

    /// The user's request of a run.
    pub fn asked(&mut self, unit: usize, from: MessageId, words: &str) {
        let first = self.said.is_empty();
        self.exact.extend(self.unanswered.take());
        let Some(quote) = self.quote(unit, from, "User", words, None) else { return };
        if first {
            self.keep(unit, from, FactKind::Goal, quote.clone());
        }
        self.unanswered = Some(KnownFact { unit, from, fact: Fact { kind: FactKind::Question, text: quote } });
        self.look_at(unit, from, words);
    }

    /// The model's answer at the end of a run.
    pub fn answered(&mut self, unit: usize, from: MessageId, text: &str) {
        self.unanswered = None;
        if self.quote(unit, from, "Answer", text, closing_question(text)).is_some() {
            self.look_at(unit, from, text);
        }
    }

    /// A Version was put in front of the model.
    pub fn read(&mut self, unit: usize, from: MessageId, item: &ItemId, hash: Hash) {
        self.note(unit, from, Some(item.to_string()), format!("- Read {item} at {}", hash.short()));
    }

    /// A tool gave something back. What it was called with counts only for the files and pages it names.
    pub fn ran(&mut self, unit: usize, from: MessageId, run: &Run<'_>) {
        let tool: String = run.tool.chars().filter(|c| !c.is_control()).take(64).collect();
        let named = facts(run.arguments).into_iter().filter(|fact| matches!(fact.kind, FactKind::Path | FactKind::Url));
        let named: Vec<String> = named.map(|fact| fact.text).take(4).collect();
        let on = if named.is_empty() { String::new() } else { format!(" on {}", named.join(", ")) };
        let hash = Hash::of(run.output).short();
        match run.effect {
            Effect::Reads if named.is_empty() => {}
            Effect::Reads => {
                let about = format!("{tool}{on}");
                self.note(unit, from, Some(about), format!("- Ran {tool}{on}: its output was {hash}"));
            }
            Effect::Changes => {
                let quote = first_sentence(run.output, QUOTE_CHARS);
                if !quote.is_empty() {
                    self.note(unit, from, None, format!("- Ran {tool}{on}: {quote}"));
                }
            }
        }
    }

    /// A plan was taken.
    pub fn planned(&mut self, unit: usize, from: MessageId, steps: usize) {
        self.note(unit, from, None, format!("- Plan accepted with {steps} steps."));
    }

    /// A step was finished.
    pub fn finished(&mut self, unit: usize, from: MessageId, step: usize, of: usize) {
        self.note(unit, from, None, format!("- Completed step {step} of {of}."));
    }

    /// Pins a text.
    pub fn pin(&mut self, unit: usize, from: MessageId, text: &str) {
        let text = normalise(text).split_whitespace().collect::<Vec<_>>().join(" ");
        let is_new = !self.pinned.iter().any(|pin| pin.fact.text == text);
        if is_new && !text.is_empty() {
            self.pinned.push(KnownFact { unit, from, fact: Fact { kind: FactKind::Pinned, text } });
        }
    }

    /// The user lets go of what was pinned of a message.
    pub fn unpin(&mut self, from: MessageId) {
        self.pinned.retain(|pin| pin.from != from);
    }

    /// The pinned texts with their messages.
    pub fn pins(&self) -> impl Iterator<Item = (MessageId, &str)> {
        self.pinned.iter().map(|pin| (pin.from, pin.fact.text.as_str()))
    }

    /// What a summary of the units before `cut` has to keep, newest first, each once.
    pub fn required(&self, cut: usize) -> Vec<Retained> {
        self.to_keep(cut).collect()
    }

    /// The same, found one by one: a summary with little room looks at few of them.
    fn to_keep(&self, cut: usize) -> impl Iterator<Item = Retained> {
        let pinned = before(&self.pinned, cut, |found| found.unit);
        let asks = self.last_said(cut).and_then(|line| {
            let fact = Fact { kind: FactKind::Question, text: line.asks.clone()? };
            Some(Retained { from: line.from, fact })
        });
        let kept = |found: &KnownFact| Retained { from: found.from, fact: found.fact.clone() };
        let exact = before(&self.exact, cut, |found| found.unit).iter().rev().take(MOST_LOOKED_AT);
        let mut seen = BTreeSet::new();
        let all = pinned.iter().map(kept).chain(asks).chain(exact.map(kept));
        all.filter(move |kept| seen.insert(key(kept.fact.kind, &kept.fact.text)))
    }

    fn last_said(&self, cut: usize) -> Option<&Line> {
        before(&self.said, cut, |line| line.unit).last()
    }

    /// The size of the pins, which are never left out.
    pub fn pinned_tokens(&self, tokenizer: &dyn Tokenizer, fence: &mut Fence) -> Tokens {
        let page = self.pinned_page(usize::MAX, tokenizer, fence);
        if page.is_empty() { Tokens::ZERO } else { tokenizer.count(&page.text(None)) }
    }

    /// The pins in the units before `cut`.
    pub fn pinned_before(&self, cut: usize, tokenizer: &dyn Tokenizer, fence: &mut Fence) -> Option<String> {
        let page = self.pinned_page(cut, tokenizer, fence);
        (!page.is_empty()).then(|| page.text(None))
    }

    fn pinned_page<'a>(&self, cut: usize, tokenizer: &'a dyn Tokenizer, fence: &'a mut Fence) -> Page<'a> {
        let mut page = Page::new(Tokens(u64::MAX), tokenizer, fence);
        for pin in before(&self.pinned, cut, |found| found.unit) {
            page.take(page::PINNED, &format!("- {}", pin.fact.text), pin.from);
        }
        page
    }

    /// The summary of the units before `cut`: the written summary, the pins, and as much of the other parts as fits `cap` tokens,
    /// the goal and the newest first. `None` if it would be empty.
    pub fn before(
        &self,
        cut: usize,
        cap: Tokens,
        written: Option<&Written>,
        tokenizer: &dyn Tokenizer,
        fence: &mut Fence,
    ) -> Option<String> {
        let mut page = self.pinned_page(cut, tokenizer, fence);
        page.limit(cap);
        let text = written.map(|written| normalise(&written.text)).filter(|text| !text.is_empty());
        let mut saying = Saying::of(text.as_deref().unwrap_or_default());
        for (_, pin) in self.pins() {
            saying.add(pin);
        }
        let covered = written.filter(|_| text.is_some()).and_then(|written| written.covers).unwrap_or(0);
        let said = before(&self.said, cut, |line| line.unit);
        let said = &said[said.partition_point(|line| line.unit < covered)..];
        let (goal, later) = match said.split_first() {
            Some((goal, later)) if covered == 0 => (Some(goal), later),
            _ => (None, said),
        };
        if let Some(goal) = goal.filter(|goal| page.take(page::GOAL, &goal.text, goal.from)) {
            saying.add(&goal.text);
        }
        let mut said = later.iter().rev();
        let mut about = BTreeSet::new();
        let progress = before(&self.progress, cut, |line| line.unit).iter().rev().take(MOST_LOOKED_AT);
        let mut progress = progress.filter(|line| line.about.as_ref().is_none_or(|thing| about.insert(thing.clone())));
        let mut exact = self.to_keep(cut).filter(|kept| kept.fact.kind != FactKind::Pinned);
        let mut open = [true; 3];
        // One of each in turn, so that no part shuts out another; the lines of exact things are short.
        while open.contains(&true) {
            open[0] = open[0]
                && said.next().is_some_and(|line| {
                    saying.add(&line.text);
                    page.take(page::SAID, &line.text, line.from)
                });
            open[1] = open[1] && progress.next().is_some_and(|line| page.take(page::PROGRESS, &line.text, line.from));
            for _ in 0..2 {
                open[2] = open[2]
                    && exact
                        .find(|kept| !saying.has(&kept.fact))
                        .is_some_and(|kept| page.take(page::EXACT, &format!("- {}", kept.fact.text), kept.from));
            }
        }
        (text.is_some() || !page.is_empty()).then(|| page.text(text.as_deref()))
    }
}

/// What a tool did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It only looked.
    Reads,
    /// It may have changed something.
    Changes,
}

/// A tool that ran.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Its name.
    pub tool: &'a str,
    /// What it was called with.
    pub arguments: &'a str,
    /// The output.
    pub output: &'a str,
    /// What it did.
    pub effect: Effect,
}

/// Those of a list in order of units that stand before `cut`.
fn before<T>(all: &[T], cut: usize, unit: impl Fn(&T) -> usize) -> &[T] {
    &all[..all.partition_point(|one| unit(one) < cut)]
}

#[cfg(test)]
mod tests;
