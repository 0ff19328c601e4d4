//! What the façade promises beside the bytes.

#![allow(clippy::unwrap_used, clippy::panic)] // a test says what it expects by failing

use foreword::core::HistoryPolicy;
use foreword::core::Tokens;
use foreword::{Attachment, Error, History, HistoryMessage, Session, Tool, ToolChoice};
use serde_json::{Value, json};

/// A session, a request and what belongs to them can move between threads.
#[test]
fn everything_is_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<Session>();
    check::<foreword::SessionBuilder>();
    check::<foreword::Request>();
    check::<foreword::Reply>();
    check::<foreword::ReplyReader>();
    check::<foreword::History>();
    check::<foreword::Error>();
    #[cfg(feature = "client")]
    check::<foreword::Client>();
    #[cfg(feature = "search")]
    check::<foreword::Notes>();
}

fn agent(choice: ToolChoice) -> Session {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let builder = Session::builder("claude-sonnet-5").system("s").tool(Tool::new("read", "Reads a file", schema));
    builder.tool_choice(choice).build().unwrap()
}

fn answer(blocks: &Value) -> Vec<u8> {
    json!({"id": "m", "role": "assistant", "content": blocks, "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 5}})
    .to_string()
    .into_bytes()
}

#[test]
fn a_call_goes_round() {
    let calls = [
        (ToolChoice::Listed, json!({"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}})),
        (
            ToolChoice::Stable,
            json!({"type": "tool_use", "id": "t1", "name": "useTool", "input": {"name": "read", "arguments": {"path": "a"}}}),
        ),
    ];
    for (choice, call) in calls {
        let mut session = agent(choice);
        session.turn("Read a").request().unwrap();
        let reply = session.reply(answer(&json!([call]))).unwrap();
        let [call] = &reply.calls[..] else { panic!("{reply:?}") };
        assert_eq!((call.name.as_str(), &call.arguments, &call.problem), ("read", &json!({"path": "a"}), &None));
        assert!(matches!(session.request(), Err(Error::NothingDue)));
        assert!(session.tool_result(&call.id, "text of a").unwrap());
        let request = session.request().unwrap();
        assert!(request.text().contains("text of a") && request.text().contains("tool_use_id"), "{}", request.text());
        assert!(reply.cost.is_some_and(|cost| cost > 0.0));
    }
}

#[test]
fn an_unknown_tool_is_named() {
    let mut session = agent(ToolChoice::Listed);
    session.turn("Read a").request().unwrap();
    let reply = session.reply(answer(&json!([{"type": "tool_use", "id": "t1", "name": "burn", "input": {}}]))).unwrap();
    assert!(reply.calls[0].problem.as_ref().unwrap().contains("no tool \"burn\""));
    assert!(session.tool_failed("t1", reply.calls[0].problem.clone().unwrap()).unwrap());
    assert!(session.request().unwrap().text().contains("is_error"));
}

#[test]
fn a_request_stays_due_until_there_is_an_answer() {
    let mut session = agent(ToolChoice::Listed);
    let first = session.turn("Hello").request().unwrap();
    let refused = session.reply(br#"{"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}"#);
    assert!(matches!(refused, Err(Error::Reply(_))), "{refused:?}");
    assert_eq!(session.request().unwrap().body(), first.body());
    let mut reader = session.reply_reader();
    assert_eq!(reader.push(b"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n").unwrap(), "");
    assert!(session.finish_reply(reader).is_err());
    assert_eq!(session.request().unwrap().body(), first.body());
}

#[test]
fn what_was_said_of_a_cut_stream_stays() {
    let mut session = agent(ToolChoice::Listed);
    session.turn("Hello").request().unwrap();
    let mut reader = session.reply_reader();
    let event = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Half a "}}"#;
    let start = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let text = reader.push(format!("data: {start}\n\ndata: {event}\n\n").as_bytes()).unwrap();
    assert_eq!(text, "Half a ");
    let reply = session.finish_reply(reader).unwrap();
    assert_eq!((reply.text.as_str(), reply.stop), ("Half a ", None));
    assert!(session.turn("Go on").request().unwrap().text().contains("Half a "));
}

#[test]
fn forks_and_saved_sessions_send_the_same_bytes() {
    let mut session = agent(ToolChoice::Listed);
    for turn in 0..4 {
        let note = Attachment::note("a.md", &format!("text {}", turn / 2));
        session.turn(format!("question {turn}")).attach(note).request().unwrap();
        session.reply_text(format!("answer {turn}")).unwrap();
    }
    session.fold().unwrap();
    let mut others = [session.fork().unwrap(), Session::load(session.save()).unwrap(), session.fork_at(3).unwrap()];
    let expect = session.turn("next").request().unwrap();
    for other in &mut others[..2] {
        assert_eq!(other.turn("next").request().unwrap().body(), expect.body());
    }
    assert!(matches!(session.fork_at(9), Err(Error::NoTurn { turn: 9, turns: 5 })));
    let mut back = session.fork_at(1).unwrap();
    let text = back.turn("other").request().unwrap().text().to_owned();
    assert!(text.contains("question 1") && !text.contains("question 2"), "{text}");
}

#[test]
fn a_request_that_does_not_fit_can_be_made_to_fit() {
    let build = || Session::builder("claude-sonnet-5").settings(json!({"budget": {"prompt": 60}})).build().unwrap();
    let mut session = build();
    let words = "many words ".repeat(200);
    assert!(matches!(session.turn(words).request(), Err(Error::OverBudget(_))));
    assert!(session.is_due());
    let mut later = Session::load(session.save()).unwrap();
    assert!(later.is_due());
    assert!(later.turn("few words").request().is_ok());
}

#[test]
fn settings_are_checked() {
    let build = |patch: Value| Session::builder("claude-sonnet-5").settings(patch).build();
    let unknown = build(json!({"budget": {"promt": 1}})).unwrap_err().to_string();
    assert!(unknown.contains("budget.promt") && unknown.contains("low_water"), "{unknown}");
    assert!(build(json!({"budget": {"prompt": "x"}})).is_err());
    let session = build(json!({"history": {"strip": {"keep_runs": 1, "summary_tokens": 100}}, "keep_outputs": 2})).unwrap();
    assert_eq!(session.settings().keep_outputs, 2);
    assert_eq!(session.settings().history, HistoryPolicy::Strip { keep_runs: 1, summary_tokens: Tokens(100) });
    assert!(matches!(Session::builder("gtp-5").build(), Err(Error::UnknownModel(_))));
}

fn user(text: &str) -> HistoryMessage {
    serde_json::from_value(json!({"role": "user", "text": text})).unwrap()
}

fn said(text: &str) -> HistoryMessage {
    serde_json::from_value(json!({"role": "assistant", "text": text})).unwrap()
}

fn called(id: &str) -> HistoryMessage {
    serde_json::from_value(json!({"role": "assistant", "calls": [{"id": id, "name": "read", "arguments": {}}]})).unwrap()
}

fn result(id: &str, text: &str) -> HistoryMessage {
    serde_json::from_value(json!({"role": "tool", "id": id, "text": text})).unwrap()
}

#[test]
fn a_history_that_fits_is_sent_as_it_is() {
    let mut history = History::new(Session::builder("claude-sonnet-5")).unwrap();
    let mut messages = Vec::new();
    for turn in 0..5 {
        messages.push(user(&format!("question {turn}")));
        let managed = history.manage(&messages).unwrap();
        let sources: Vec<_> = managed.messages.iter().map(|message| (message.source, message.text.clone())).collect();
        assert_eq!(sources, (0..messages.len()).map(|at| (Some(at), None)).collect::<Vec<_>>());
        messages.push(called(&format!("c{turn}")));
        messages.push(result(&format!("c{turn}"), "the same output"));
        assert_eq!(history.manage(&messages).unwrap().messages.len(), messages.len());
        messages.push(said(&format!("answer {turn}")));
    }
    // One that comes whole, and one that is another, are sent as they are, too.
    messages.push(user("next"));
    for messages in [&messages[..], &messages[8..]] {
        let mut fresh = History::new(Session::builder("claude-sonnet-5")).unwrap();
        assert_eq!(fresh.manage(messages).unwrap().messages.len(), messages.len());
        assert_eq!(history.manage(messages).unwrap().messages.len(), messages.len());
    }
}

#[test]
fn a_long_history_keeps_its_pairs() {
    let settings = json!({"budget": {"prompt": 2_000}, "keep_outputs": 1});
    let mut history = History::new(Session::builder("claude-sonnet-5").settings(settings)).unwrap();
    let mut messages = Vec::new();
    let mut was_shortened = false;
    for turn in 0..12 {
        messages.push(user(&format!("question {turn}")));
        history.manage(&messages).unwrap();
        messages.push(called(&format!("c{turn}")));
        messages.push(result(&format!("c{turn}"), &format!("line {turn} of an output\n").repeat(60)));
        let managed = history.manage(&messages).unwrap();
        assert!(managed.explanation.tokens <= 2_000);
        let sources: Vec<usize> = managed.messages.iter().filter_map(|message| message.source).collect();
        assert!(sources.is_sorted() && sources.last() == Some(&(messages.len() - 1)), "{sources:?}");
        for source in &sources {
            // The messages of a turn are: the user's, the call, its result, the answer.
            let pair = if source % 4 == 1 { source + 1 } else { source - source % 4 + 1 };
            assert!(source % 4 == 0 || source % 4 == 3 || sources.contains(&pair), "{source} without {pair}: {sources:?}");
        }
        was_shortened |= managed.messages.len() < messages.len() || managed.messages.iter().any(|message| message.text.is_some());
        messages.push(said(&format!("answer {turn}")));
    }
    assert!(was_shortened);
}

#[test]
fn messages_that_come_in_bunches_keep_their_order() {
    let mut history = History::new(Session::builder("claude-sonnet-5")).unwrap();
    let mut messages = Vec::new();
    for turn in 0..4 {
        messages.extend([user(&format!("question {turn}")), called(&format!("c{turn}")), result(&format!("c{turn}"), "output")]);
        let managed = history.manage(&messages).unwrap();
        let sources: Vec<_> = managed.messages.iter().map(|message| message.source).collect();
        assert_eq!(sources, (0..messages.len()).map(Some).collect::<Vec<_>>());
        messages.push(said(&format!("answer {turn}")));
    }
}

#[test]
fn a_summary_takes_the_place_of_older_turns() {
    let policy = HistoryPolicy::Managed { summary: None, passthrough_runs: 1, token_threshold: Tokens(200) };
    let mut history = History::new(Session::builder("claude-sonnet-5").history(policy)).unwrap();
    let mut messages = Vec::new();
    for turn in 0..4 {
        messages.push(user(&format!("question {turn} {}", "about bread ".repeat(20))));
        messages.push(said(&format!("answer {turn} {}", "of bread ".repeat(20))));
    }
    messages.push(user("and now?"));
    let due = history.summary_due(&messages, "Write what the user asked.").unwrap().unwrap();
    assert!(due.prompt.contains("Write what the user asked.") && due.prompt.contains("question 0"));
    assert!(!due.prompt.contains("question 3"), "{}", due.prompt);
    history.summarised(&due, "The user asked about bread.").unwrap();
    let managed = history.manage(&messages).unwrap();
    assert_eq!(managed.messages[0].source, None);
    assert!(managed.messages[0].text.as_ref().unwrap().contains("The user asked about bread."));
    let sources: Vec<usize> = managed.messages.iter().filter_map(|message| message.source).collect();
    assert_eq!(sources, [6, 7, 8], "{managed:?}");
}

#[test]
fn a_conversation_that_cannot_be_sent_is_refused() {
    let mut history = History::new(Session::builder("claude-sonnet-5")).unwrap();
    let mut check = |messages: &[HistoryMessage], words: &str| {
        let error = history.manage(messages).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    check(&[], "needs a message");
    check(&[user("a"), said("b")], "the model said it");
    check(&[user("a"), result("x", "y")], "no message before it");
    check(&[user("a"), called("x"), result("x", "y"), result("x", "y")], "has a result already");
}
