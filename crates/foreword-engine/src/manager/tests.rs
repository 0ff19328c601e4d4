//! Sessions whose history is managed, from the user's words to the bytes of the request, with everything that can go wrong.

mod survival;

use std::cell::Cell;
use std::sync::{Arc, Mutex};

use foreword_core::catalog::Agent;
use foreword_core::message::{Message, Role};
use foreword_core::session::{Input, TurnInput};
use foreword_core::settings::Layout;
use foreword_core::tokens::Tokens;
use foreword_store::Sqlite;
use futures_util::{StreamExt as _, stream};
use tempfile::TempDir;

use super::*;
use crate::session::{
    CancellationToken, ChatModel, NoHands, Outgoing, Question, RecordedSession, ReplyPart, ReplyStream, Setup, Stopper,
    whole_reply,
};
use foreword_templates::{Shelf, parse};

/// What a model does when it is asked for a summary.
type Writes = Box<dyn FnMut(usize) -> Result<Reply, SpeakError> + Send>;

/// A model that answers questions, and writes summaries as it is told.
struct Model {
    writes: Writes,
    /// The prompts it was asked for a summary with, and those of the conversation.
    asked: Arc<Mutex<Vec<Vec<Arc<Message>>>>>,
    sent: Arc<Mutex<Vec<Vec<Arc<Message>>>>>,
    /// Whether it writes until it is stopped.
    waits: bool,
}

impl ChatModel for Model {
    fn answer(&mut self, request: Arc<Outgoing>, stop: CancellationToken) -> ReplyStream {
        let last = request.messages.last().map(|message| message.content().into_owned()).unwrap_or_default();
        if last.starts_with("Write the part of a record") {
            let mut asked = self.asked.lock().unwrap();
            asked.push(request.messages.clone());
            if self.waits {
                // Its answer ends only when it is stopped.
                let cut_off = Reply { text: "The plan is. And".to_owned(), cut_off: true, ..Reply::default() };
                return stream::once(async move {
                    stop.cancelled().await;
                    ReplyPart::End(Ok(cut_off))
                })
                .boxed();
            }
            return whole_reply((self.writes)(asked.len()));
        }
        self.sent.lock().unwrap().push(request.messages.clone());
        let text = format!("Answer {} about the plan.", self.sent.lock().unwrap().len());
        stream::iter([ReplyPart::Text(text.clone()), ReplyPart::End(Ok(Reply { text, ..Reply::default() }))]).boxed()
    }
}

struct Place {
    folder: TempDir,
    now: Cell<i64>,
}

impl Place {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), now: Cell::new(1_700_000_000_000) }
    }

    fn store(&self) -> Sqlite {
        Sqlite::open(&self.folder.path().join("foreword.db")).unwrap()
    }

    fn begin(&self, layout: Layout, prompt: u64, history: HistoryPolicy) -> RecordedSession {
        let mut setup = Setup::new("s", Some("claude-sonnet-5"), layout, 0, None).unwrap();
        setup.settings.budget.prompt = Tokens(prompt);
        setup.settings.history = history;
        let agent = Agent { system_prompt: "You help.".to_owned(), ..Agent::default() };
        RecordedSession::begin(Box::new(self.store()), "s", &agent, &setup, None, None, 0).unwrap()
    }

    fn open(&self) -> RecordedSession {
        RecordedSession::open(Box::new(self.store()), "s", None, None).unwrap()
    }

    fn send(&self, kept: &mut RecordedSession, model: &mut Model, words: &str) -> String {
        let turn = TurnInput { words: words.to_owned(), ..TurnInput::default() };
        let now = || {
            self.now.set(self.now.get() + 1000);
            self.now.get()
        };
        kept.send(Question { turn, ..Question::default() }, model, &mut NoHands, &now, &mut |_| {}).unwrap().text
    }
}

fn model(writes: impl FnMut(usize) -> Result<Reply, SpeakError> + Send + 'static) -> Model {
    Model { writes: Box::new(writes), asked: Arc::default(), sent: Arc::default(), waits: false }
}

#[allow(clippy::unnecessary_wraps, reason = "it is what a speaker gives")]
fn says(text: &str) -> Result<Reply, SpeakError> {
    Ok(Reply { text: text.to_owned(), ..Reply::default() })
}

fn template(text: &str) -> Template {
    let mut found = Shelf::default().find("freeform-chat").unwrap();
    found.parsed = parse(text);
    found
}

fn managed(threshold: u64) -> HistoryPolicy {
    HistoryPolicy::Managed { summary: None, passthrough_runs: 1, token_threshold: Tokens(threshold) }
}

fn words(turn: usize) -> String {
    format!("Question {turn} about the plan in plans/part{turn}.md, which has {} mm. {}", 100 + turn, "More words. ".repeat(20))
}

/// The managed summary in a prompt.
fn summary(messages: &[Arc<Message>]) -> Option<String> {
    let found = messages.iter().find(|message| message.content().starts_with("Context summary (managed):"))?;
    assert_eq!(found.role, Role::System);
    Some(found.content().into_owned())
}

#[test]
fn a_summary_takes_the_place_of_old_runs_and_what_it_lost_stands_below_it() {
    let place = Place::new();
    let mut kept = place.begin(Layout::Library, 50_000, managed(200));
    kept.set_manager(Some(Manager::new(Ok(template("## State\nWhat is the state?")))));
    let mut model = model(|_| says("<think>Hm.</think>The user has a plan in plans/part1.md. Elephants trumpet loudly."));
    for turn in 0..5 {
        place.send(&mut kept, &mut model, &words(turn));
    }
    assert_eq!(kept.take_failures(), []);
    let sent = model.sent.lock().unwrap();
    assert_eq!((summary(&sent[0]), summary(&sent[1])), (None, None), "there is nothing to leave out yet");
    let last = &sent[4];
    let text = summary(last).unwrap();
    // Ids stand behind the sentence, made-up sentences are gone, and what is missing is kept exactly.
    assert!(text.contains("The user has a plan in plans/part1.md. [m"), "{text}");
    assert!(!text.contains("Elephants") && !text.contains("Hm."), "{text}");
    assert!(text.contains("Kept exactly:") && text.contains("- plans/part2.md [m") && text.contains("- 102 mm [m"), "{text}");
    assert!(!text.contains("- plans/part1.md"), "{text}");
    // The last run stays word for word, the ones before it are gone.
    let shown: Vec<String> = last.iter().map(|message| message.content().into_owned()).collect();
    let has = |turn: usize| shown.iter().any(|text| text.starts_with(&format!("Question {turn} ")));
    assert_eq!([0, 1, 2, 3, 4].map(has), [false, false, false, true, true]);
    // The summary was asked for behind the prompt of the turn before, so that it is read from the cache.
    let asked = model.asked.lock().unwrap();
    let prefix = &sent[3];
    assert!(prefix.iter().zip(&asked[asked.len() - 1]).all(|(sent, asked)| sent.says_the_same(asked)));
    let view = kept.view().unwrap();
    assert!(view.check.survived.iter().any(|kept| kept.fact.text == "plans/part1.md"));
    assert!(view.check.missing.iter().any(|kept| kept.fact.text == "plans/part2.md"));
    assert_eq!(view.sections[0].unfounded, ["Elephants trumpet loudly."]);
    assert!(view.figures.after < view.figures.before && view.model == "claude-sonnet-5");
    let stored = kept.store().summaries("s", 99).unwrap();
    assert_eq!(stored.len(), asked.len());
    assert_eq!(View::of(stored.last().unwrap()).unwrap(), *view);
}

#[test]
fn whatever_fails_the_turn_is_answered_with_the_history_as_it_is() {
    let long = "The plan has many words. ".repeat(400);
    let broken = template("## State\nWhat is {{ the state");
    let good = || Ok(template("## State\nWhat is the state?"));
    let missing = Shelf::default().find("nowhere");
    let cases: Vec<(&str, Result<Template, NoTemplate>, Writes)> = vec![
        ("template", missing, Box::new(|_| says("unasked"))),
        ("template", Ok(broken), Box::new(|_| says("unasked"))),
        ("model", good(), Box::new(|_| Err(SpeakError::new("503 overloaded")))),
        ("empty", good(), Box::new(|_| says(" \n"))),
        ("empty", good(), Box::new(|_| says("<think>The plan is"))),
        ("empty", good(), Box::new(|_| says("Elephants trumpet loudly."))),
        ("refusal", good(), Box::new(|_| says("I'm sorry, but I can't help with the plan."))),
        ("error_text", good(), Box::new(|_| says("Error: the plan could not be loaded"))),
        ("cut_off", good(), Box::new(|_| Ok(Reply { text: "The plan".to_owned(), cut_off: true, ..Reply::default() }))),
        ("not_shorter", good(), Box::new(move |_| says(&long))),
    ];
    for (why, template, writes) in cases {
        let place = Place::new();
        let mut kept = place.begin(Layout::Library, 50_000, managed(200));
        kept.set_manager(Some(Manager::new(template)));
        let mut model = Model { writes, asked: Arc::default(), sent: Arc::default(), waits: false };
        let answers: Vec<String> = (0..4).map(|turn| place.send(&mut kept, &mut model, &words(turn))).collect();
        assert_eq!(answers[3], "Answer 4 about the plan.", "{why}");
        let view = kept.view().unwrap();
        assert_eq!((view.why.as_ref().map(Unmanaged::word), &view.summary), (Some(why), &None));
        assert!(
            kept.take_failures().iter().any(|failure| failure.0.contains("The turn continues with the full history")),
            "{why}"
        );
        let stored = kept.store().summaries("s", 99).unwrap();
        assert!(!stored.is_empty() && stored.iter().all(|row| row.record["summary"].is_null()), "{why}");
        // The whole history, as if nobody had tried.
        let sent = model.sent.lock().unwrap();
        let last = sent[3].iter().map(|message| message.content().into_owned()).collect::<Vec<_>>();
        assert_eq!(summary(&sent[3]), None);
        assert_eq!(last.iter().filter(|text| text.starts_with("Question ")).count(), 4, "{why}");
        let entries = kept.store().log("s", 0).unwrap();
        let kinds: Vec<&str> = entries.iter().map(|entry| entry.kind.as_str()).filter(|kind| *kind != "asked").collect();
        assert_eq!(kinds, ["turn", "assistant"].repeat(4), "{why}: the log is what it would have been");
    }
}

#[test]
fn a_summary_that_takes_too_long_is_ended() {
    let place = Place::new();
    let mut kept = place.begin(Layout::Library, 50_000, managed(200));
    let stopper = Stopper::default();
    kept.set_stopper(stopper.clone());
    let mut manager = Manager::new(Ok(template("## State\nWhat?")));
    manager.patience = Duration::from_millis(30);
    kept.set_manager(Some(manager));
    let mut model = Model { waits: true, ..model(|_| says("")) };
    for turn in 0..3 {
        place.send(&mut kept, &mut model, &words(turn));
    }
    assert_eq!(kept.view().and_then(|view| view.why.as_ref()), Some(&Unmanaged::TimedOut));
    assert!(!stopper.is_stopped(), "what comes next is not ended");
}

#[test]
fn in_the_log_layout_a_view_changes_only_at_a_fold() {
    let place = Place::new();
    let mut kept = place.begin(Layout::Log, 1_500, managed(200));
    kept.set_manager(Some(Manager::new(Ok(template("## State\nWhat?")))));
    let mut model = model(|_| says("The user asks about the plan."));
    for turn in 0..40 {
        place.send(&mut kept, &mut model, &words(turn));
    }
    assert_eq!(kept.take_failures(), []);
    let requests = kept.store().requests("s").unwrap();
    let folds = requests.iter().filter(|request| request.began.is_some()).count();
    let asked = model.asked.lock().unwrap().len();
    assert!(folds > 2 && asked > 0 && asked <= folds, "{asked} summaries for {folds} folds");
    let sent = model.sent.lock().unwrap();
    let mut same = 0;
    for (request, pair) in requests[1..].iter().zip(sent.windows(2)) {
        let grown = pair[0].iter().zip(&pair[1]).all(|(before, now)| before.says_the_same(now)) && pair[0].len() < pair[1].len();
        assert_eq!(grown, request.began.is_none(), "request {}", request.number);
        same += usize::from(grown);
    }
    assert!(same + folds >= 39);
    assert!(requests.iter().all(|request| request.tokens <= 1_500));
    assert!(summary(sent.last().unwrap()).is_some());
}

#[test]
fn a_session_that_is_opened_again_goes_on_with_the_same_bytes() {
    for layout in Layout::ALL {
        let wires = |reopened: bool| {
            let place = Place::new();
            let mut kept = place.begin(layout, 1_500, managed(200));
            let mut model = model(|call| says(&format!("The user asks about the plan, time {call}.")));
            for turn in 0..12 {
                if reopened {
                    drop(kept);
                    kept = place.open();
                }
                kept.set_manager(Some(Manager::new(Ok(template("## State\nWhat?")))));
                if turn == 4 {
                    let pin =
                        foreword_core::session::Pin::Text { from: "m0".parse().unwrap(), text: "plans/part0.md".to_owned() };
                    kept.tell(Input::Pin(pin), 5).unwrap();
                }
                place.send(&mut kept, &mut model, &words(turn));
            }
            kept.store().requests("s").unwrap().into_iter().map(|request| request.wire).collect::<Vec<_>>()
        };
        assert_eq!(wires(false), wires(true), "{layout:?}");
    }
}

#[test]
fn steps_have_inputs_variables_headers_and_a_memory() {
    let place = Place::new();
    std::fs::create_dir_all(place.folder.path().join("vault")).unwrap();
    std::fs::write(place.folder.path().join("vault/Goal.md"), "Finish the plan by Friday.").unwrap();
    let text = "\
## Goal
@model none
@input file: Goal (required)
@header The goal
## Facts
@output variable: facts
@cache session
List facts.
## Gone
@input file: Nowhere.md (required)
Never asked.
## State
@input variable: facts
Tell of {{ latest_input }} and {{ nothing }}.";
    let mut kept = place.begin(Layout::Library, 50_000, managed(200));
    let mut manager = Manager::new(Ok(template(text)));
    manager.files = Some(Folder::open(&place.folder.path().join("vault")).unwrap());
    kept.set_manager(Some(manager));
    let mut model = model(|call| says(&format!("Plan number {call} about the plan.")));
    for turn in 0..4 {
        place.send(&mut kept, &mut model, &words(turn));
    }
    assert_eq!(kept.take_failures(), []);
    let view = kept.view().unwrap();
    let names: Vec<(&str, bool, bool)> =
        view.sections.iter().map(|section| (section.name.as_str(), section.in_view, section.cached)).collect();
    assert_eq!(names, [("Goal", true, false), ("Facts", false, true), ("Gone", false, false), ("State", true, false)]);
    assert!(view.sections[2].skipped.as_ref().is_some_and(|why| why.contains("Nowhere.md")));
    assert_eq!(view.sections[3].missing, ["nothing"]);
    assert!(view.sections[3].asked.contains("Plan number 1") && view.sections[3].asked.contains("Question 3 about"));
    let summary = view.summary.as_ref().unwrap();
    assert!(summary.starts_with("The goal:\nFinish the plan by Friday.\n\nState:\nPlan number "), "{summary}");
}
