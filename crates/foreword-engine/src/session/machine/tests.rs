//! Tables of results and the steps that follow, without a model, a tool or a clock.

use std::cell::Cell;

use foreword_core::session::TurnInput;
use foreword_core::settings::Layout;
use foreword_store::Sqlite;
use serde_json::json;

use super::*;
use crate::session::{OpenSessionError, Setup};

/// A session whose agent has one tool.
fn session(mode: Mode) -> RecordedSession {
    let agent: Agent = serde_json::from_value(json!({
        "system_prompt": "You help.",
        "tools": [{"server": "fs", "name": "read", "include": "always", "read_only": true}],
    }))
    .unwrap();
    let setup = Setup::new("s", Some("claude-sonnet-5"), Layout::Log, 1, None).unwrap();
    let store = Box::new(Sqlite::in_memory().unwrap());
    let begun: Result<_, OpenSessionError> = RecordedSession::begin(store, "s", &agent, &setup, None, None, 0);
    let mut session = begun.unwrap();
    session.set_mode(mode, 0);
    session
}

fn message() -> Turn {
    let turn = TurnInput { words: "Why?".to_owned(), ..TurnInput::default() };
    Turn::question(Question { turn, ..Question::default() })
}

fn client() -> Turn {
    let turn = TurnInput { words: "Why?".to_owned(), ..TurnInput::default() };
    Turn::of_client(vec![Input::Turn(turn)], ClientOptions::default())
}

/// A step in one or two words.
fn name(step: &Step) -> String {
    match step {
        Step::Store => "store".to_owned(),
        Step::Checkpoint => "checkpoint".to_owned(),
        Step::Transcript => "transcript".to_owned(),
        Step::Show(Notice::Part(text)) => format!("show {text}"),
        Step::Show(Notice::Stored) => "show stored".to_owned(),
        Step::Show(Notice::Request(_)) => "show request".to_owned(),
        Step::Show(Notice::Call(call)) => format!("show call {}", call.id),
        Step::Show(Notice::Result(call, _)) => format!("show result {}", call.id),
        Step::Show(Notice::Found(_)) => "show found".to_owned(),
        Step::Show(Notice::ColdCache(_)) => "show cold cache".to_owned(),
        Step::Tools(ToolRequest::Scores(_)) => "score".to_owned(),
        Step::Tools(ToolRequest::Sources(..)) => "search".to_owned(),
        Step::Tools(ToolRequest::Check(calls)) => format!("check {}", calls.len()),
        Step::Tools(ToolRequest::Run(call, tool)) => format!("run {}{}", call.id, if tool.is_err() { " (unknown)" } else { "" }),
        Step::Cache(_) => "cache".to_owned(),
        Step::Send(request) if request.is_side => "ask beside".to_owned(),
        Step::Send(_) => "send".to_owned(),
        Step::Receive { show, store } => format!("receive {show}{}", if *store { ", store" } else { "" }),
        Step::Done(outcome) => format!("done: {}", outcome.text),
    }
}

/// What a test answers when a step has a result.
enum Answer {
    Scores,
    Found(&'static str),
    NotFound(&'static str),
    Part(&'static str),
    Reply(&'static str),
    Calls(&'static str, &'static [(&'static str, &'static str)]),
    Refused(&'static str),
    Output(&'static str),
    Checked,
    /// The user stops the turn, then the reply ends.
    StopAndCalls(&'static [(&'static str, &'static str)]),
}

fn reply(text: &str, calls: &[(&str, &str)]) -> StepResult {
    let calls = calls.iter().map(|(id, name)| ToolCall { id: (*id).to_owned(), name: (*name).to_owned(), arguments: json!({}) });
    StepResult::Reply(Ok(Reply { text: text.to_owned(), calls: calls.collect(), ..Reply::default() }), false)
}

/// Runs a turn. Returns its steps, separated by `; `, and how it failed.
fn steps(session: &mut RecordedSession, mut turn: Turn, answers: &[Answer]) -> String {
    let (mut all, mut answers, stopped) = (Vec::new(), answers.iter(), Cell::new(false));
    let mut result = StepResult::Done;
    loop {
        let clock = Clock { now: &|| 1_700_000_000_000, instant: Instant::now(), stopped: stopped.get() };
        let step = match turn.next(session, result, &clock) {
            Ok(step) => step,
            Err(error) => {
                all.push(format!("failed: {error}"));
                session.settle();
                return all.join("; ");
            }
        };
        all.push(name(&step));
        result = match step {
            Step::Done(_) => {
                assert!(answers.next().is_none(), "{all:?}");
                return all.join("; ");
            }
            Step::Store | Step::Checkpoint => {
                session.settle();
                StepResult::Done
            }
            Step::Receive { store: true, .. } => {
                session.settle();
                answer(answers.next(), &stopped, &all)
            }
            Step::Transcript | Step::Show(_) => StepResult::Done,
            Step::Tools(_) | Step::Cache(_) | Step::Send(_) | Step::Receive { .. } => answer(answers.next(), &stopped, &all),
        };
    }
}

/// The result that answers a step.
fn answer(answer: Option<&Answer>, stopped: &Cell<bool>, all: &[String]) -> StepResult {
    match answer {
        Some(Answer::Scores) => StepResult::Tools(ToolResult::Scores(Ok(Scores::new())), Vec::new()),
        Some(Answer::Found(text)) => {
            let result = foreword_core::session::TurnResult {
                tool: "localSearch".to_owned(),
                output: (*text).to_owned(),
                ..foreword_core::session::TurnResult::default()
            };
            let citable = vec![Citable { number: 1, path: "Bread.md".to_owned() }];
            StepResult::Tools(ToolResult::Sources(Ok(Sources { result, citable })), Vec::new())
        }
        Some(Answer::NotFound(why)) => StepResult::Tools(ToolResult::Sources(Err((*why).to_owned())), Vec::new()),
        Some(Answer::Part(text)) => StepResult::Part((*text).to_owned()),
        Some(Answer::Reply(text)) => reply(text, &[]),
        Some(Answer::Calls(text, calls)) => reply(text, calls),
        Some(Answer::Refused(why)) => StepResult::Reply(Err(SpeakError::new(*why)), false),
        Some(Answer::Output(text)) => StepResult::Tools(ToolResult::Output(Output::done(*text)), Vec::new()),
        Some(Answer::Checked) => StepResult::Tools(ToolResult::Checked(vec![Ok(())]), Vec::new()),
        Some(Answer::StopAndCalls(calls)) => {
            stopped.set(true);
            reply("", calls)
        }
        None => panic!("nothing answers {all:?}"),
    }
}

fn log(session: &RecordedSession) -> String {
    let log = session.store().log("s", 0).unwrap().into_iter().filter(|entry| entry.kind != "mode");
    log.map(|entry| if entry.cut_off { format!("{} (cut off)", entry.kind) } else { entry.kind }).collect::<Vec<_>>().join(" ")
}

const MESSAGE: &str = "score; store; show stored; transcript; store; show request; send";

#[test]
fn a_turn_of_the_user() {
    use Answer::{Calls, Checked, Found, NotFound, Output, Part, Refused, Reply, Scores, StopAndCalls};
    let check = |mode: Mode, answers: &[Answer], expect: &str, expect_log: &str| {
        let mut session = session(mode);
        assert_eq!(steps(&mut session, message(), answers), expect);
        assert_eq!(log(&session), expect_log, "{expect}");
        assert_eq!(session.store().check().unwrap(), [], "{expect}");
    };
    check(
        Mode::Chat,
        &[Scores, Part("Be"), Part("cause."), Reply("Because.")],
        &format!(
            "{MESSAGE}; receive Be, store; receive cause., store; checkpoint; transcript; store; store; transcript; done: Because."
        ),
        "turn assistant",
    );
    // The model is asked again with a tool's output. A call of a tool that is not there gets an error as its output.
    check(
        Mode::Chat,
        &[Scores, Calls("", &[("a", "read"), ("b", "gone")]), Output("Flour."), Output("There is no such tool."), Reply("Done.")],
        &format!(
            "{MESSAGE}; checkpoint; transcript; show call a; run a; show result a; store; show call b; run b (unknown); show result b; store; \
             store; store; show request; send; checkpoint; transcript; store; store; transcript; done: Done."
        ),
        "turn assistant tool_result tool_result assistant",
    );
    // Without an answer the request can be sent again.
    check(Mode::Chat, &[Scores, Refused("503")], &format!("{MESSAGE}; failed: no answer from the model: 503"), "turn ending");
    // What was shown stays.
    check(
        Mode::Chat,
        &[Scores, Part("Be"), Refused("reset")],
        &format!("{MESSAGE}; receive Be, store; checkpoint; transcript; failed: no answer from the model: reset"),
        "turn assistant (cut off) ending",
    );
    // The calls of a turn that was stopped have outputs, and the model is not asked again.
    check(
        Mode::Chat,
        &[Scores, StopAndCalls(&[("a", "read")]), Output("Stopped.")],
        &format!("{MESSAGE}; checkpoint; transcript; show call a; run a; show result a; store; store; store; done: "),
        "turn assistant tool_result ended ending",
    );
    // The message is stored before the notes are searched. A failed search is no failed turn.
    check(
        Mode::Qa,
        &[Scores, Found("[1] Bread"), Reply("Salt [^1].")],
        "store; show stored; score; search; show found; store; transcript; store; show request; send; checkpoint; transcript; store; \
         show \n\n[^1]: [[Bread]]; store; transcript; done: Salt [^1].\n\n[^1]: [[Bread]]",
        "asked turn assistant cited",
    );
    check(
        Mode::Qa,
        &[Scores, NotFound("no index"), Reply("I do not know.")],
        "store; show stored; score; search; store; transcript; store; show request; send; checkpoint; transcript; store; store; transcript; \
         done: I do not know.",
        "asked turn assistant",
    );
    // A plan is a side request. Without one the turn goes on.
    let plan = "store; show stored; score; ask beside; store";
    let rest = "store; transcript; store; show request; send; checkpoint; transcript; store; store; transcript; done: Yes.";
    check(
        Mode::Plan,
        &[Scores, Reply("[{\"tool\": \"read\"}]"), Checked, Output("Flour."), Reply("Yes.")],
        &format!("{plan}; check 1; show call plan-read; run plan-read; show result plan-read; {rest}"),
        "asked aside turn assistant",
    );
    check(Mode::Plan, &[Scores, Refused("503"), Reply("Yes.")], &format!("{plan}; {rest}"), "asked aside turn assistant");
    // In agent mode the model goes on until it says that the task is done.
    check(
        Mode::Agent,
        &[Scores, Reply("I begin."), Calls("Baked.", &[("a", "task_complete")])],
        &format!(
            "{MESSAGE}; checkpoint; transcript; store; store; show request; send; checkpoint; transcript; show call a; show result a; store; \
             store; store; transcript; done: Baked."
        ),
        "agent add add turn assistant action_prompt assistant tool_result ended",
    );
}

#[test]
fn a_turn_of_a_client() {
    use Answer::{Calls, Part, Refused, Reply};
    let check = |answers: &[Answer], expect: &str, expect_log: &str| {
        let mut session = session(Mode::Chat);
        assert_eq!(steps(&mut session, client(), answers), expect);
        assert_eq!(log(&session), expect_log, "{expect}");
    };
    let begin = "store; show stored; show request; send";
    // Parts are stored from time to time.
    check(
        &[Part("Be"), Part("cause."), Reply("Because.")],
        &format!("{begin}; receive Be; receive cause.; checkpoint; transcript; store; store; transcript; done: Because."),
        "turn assistant",
    );
    // The client runs the tools.
    check(&[Calls("", &[("a", "read")])], &format!("{begin}; checkpoint; transcript; store; store; done: "), "turn assistant");
    // A failure is the client's to handle.
    check(&[Refused("503")], &format!("{begin}; failed: no answer from the model: 503"), "turn");
}

#[test]
fn a_turn_goes_on_where_it_was_left() {
    let mut session = session(Mode::Chat);
    steps(&mut session, message(), &[Answer::Scores, Answer::Refused("503")]);
    let again = "show stored; store; show request; send";
    assert_eq!(
        steps(&mut session, Turn::resume(), &[Answer::Refused("503")]),
        format!("{again}; failed: no answer from the model: 503")
    );
    assert_eq!(
        steps(&mut session, Turn::resume(), &[Answer::Reply("Yes.")]),
        format!("{again}; checkpoint; transcript; store; store; transcript; done: Yes.")
    );
    assert_eq!(steps(&mut session, Turn::resume(), &[]), "show stored; store; done: ");
    assert_eq!(session.counts().requests, 1, "the same request is sent again");
}

#[test]
fn a_message_that_must_be_stored_and_cannot_be_is_not_sent() {
    let check = |mode: Mode, expect: &str| {
        let mut session = session(mode);
        session.must_store();
        // Another process took the session, so that writing to it fails.
        session.lease = foreword_store::Lease::default();
        session.row.id = "gone".to_owned();
        assert_eq!(steps(&mut session, message(), &[Answer::Scores][..usize::from(mode == Mode::Chat)]), expect);
        session.discard_unstored();
    };
    let failed = "failed: storing the message failed, so it was not sent: there is no session \"gone\"; list them with `foreword sessions`";
    check(Mode::Chat, &format!("score; store; {failed}"));
    check(Mode::Qa, &format!("store; {failed}"));
}
