//! The client against the double, in every dialect.

#![allow(clippy::unwrap_used, clippy::panic)] // a test says what it expects by failing

#[path = "../../foreword-provider/tests/common/mod.rs"]
mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{calls, default_name, model, no_tools, plan, prompt, result, system, user};
use foreword_core::hash::Hash;
use foreword_core::message::Message;
use foreword_core::prompt::{Prompt, ToolPlan, ToolStyle};
use foreword_core::tokens::Tokens;
use foreword_mock_provider::{MockServer, Script, Scripted, ScriptedCall, ScriptedError, ScriptedStop};
use foreword_prompt_cache::CacheSim;
use foreword_provider::client::{
    Client, ClientConfig, Delivery, ExplicitCaches, KeySource, Retry, Secret, SendError, Timeouts, Waited,
};
use foreword_provider::dialect::Dialect;
use foreword_provider::refusal::Fault;
use foreword_provider::render::{Body, BodyOptions, body, gemini_cache_request};
use foreword_provider::reply::{Event, Part, Place, ReadError, Reply, Stop};
use serde_json::json;

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

fn config(double: &MockServer, dialect: Dialect) -> ClientConfig {
    ClientConfig {
        base_url: Some(double.base_url(dialect)),
        key: KeySource::Given(Secret::new("sk-test-1234")),
        retry: Retry { tries: 3, first_wait: Duration::from_millis(5), max_wait: Duration::from_secs(1) },
        ..ClientConfig::new(dialect)
    }
}

fn client(double: &MockServer, dialect: Dialect) -> Client {
    Client::new(config(double, dialect)).unwrap()
}

fn request(dialect: Dialect, delivery: Delivery, messages: &[Arc<Message>], tools: &ToolPlan) -> Body {
    let options = BodyOptions { stream: delivery == Delivery::Stream, ..BodyOptions::default() };
    body(dialect, &model(&default_name(dialect)), &prompt(messages, tools, messages.len()), &options)
}

fn hello(dialect: Dialect, delivery: Delivery) -> Body {
    request(dialect, delivery, &[system("Be brief.", &[]), user("Hello")], &no_tools())
}

async fn ask(client: &Client, delivery: Delivery) -> Result<Reply, SendError> {
    let dialect = client.dialect();
    let body = hello(dialect, delivery);
    client.send(&model(&default_name(dialect)), &body, delivery).await?.reply().await
}

fn each(mut test: impl AsyncFnMut(Dialect, Delivery)) {
    for dialect in Dialect::ALL {
        for delivery in [Delivery::Stream, Delivery::Whole] {
            run(test(dialect, delivery));
        }
    }
}

fn error(status: u16, message: &str, retry_after: Option<f64>) -> Scripted {
    let error = ScriptedError { status, message: message.to_owned(), retry_after, kind: None };
    Scripted { error: Some(error), ..Scripted::default() }
}

fn says(text: &str) -> Scripted {
    Scripted { text: text.to_owned(), ..Scripted::default() }
}

#[test]
fn a_reply_is_the_same_streamed_and_whole() {
    let call = |name: &str, path: &str| ScriptedCall { name: name.to_owned(), arguments: json!({"path": path}) };
    let scripted = Scripted {
        reasoning: "Let me think about it.".to_owned(),
        text: "I will read both: é 🎹.".to_owned(),
        calls: vec![call("read", "a.md"), call("list", "b")],
        piece: 3,
        ..Scripted::default()
    };
    let tools = plan(ToolStyle::Native, &["list", "read"], &["list", "read"]);
    for dialect in Dialect::ALL {
        let replies = [Delivery::Stream, Delivery::Whole].map(|delivery| {
            run(async {
                let double = MockServer::start(Script::of([scripted.clone()])).await.unwrap();
                let body = request(dialect, delivery, &[user("Read a and b")], &tools);
                let client = client(&double, dialect);
                let answer = client.send(&model(&default_name(dialect)), &body, delivery).await.unwrap();
                let reply = answer.reply().await.unwrap();
                // What was sent is what was rendered.
                assert_eq!(double.seen()[0].body, body.bytes, "{dialect}");
                let used = double.seen()[0].cache.unwrap();
                assert_eq!(reply.usage.unwrap().cache_use(), used, "{dialect}");
                reply
            })
        });
        let [streamed, whole] = replies;
        assert_eq!(streamed, whole, "{dialect}");
        assert_eq!(whole.stop, Some(Stop::Calls), "{dialect}");
        assert_eq!(whole.text(), scripted.text, "{dialect}");
        let named: Vec<(&str, &str)> = whole
            .parts
            .iter()
            .filter_map(|part| if let Part::Call { name, arguments, .. } = part { Some((&**name, &**arguments)) } else { None })
            .collect();
        assert_eq!(named, [("read", r#"{"path":"a.md"}"#), ("list", r#"{"path":"b"}"#)], "{dialect}");
        assert!(whole.parts.contains(&Part::Reasoning(scripted.reasoning.clone())), "{dialect}");
        let places: Vec<Place> = whole
            .parts
            .iter()
            .filter_map(|part| if let Part::Opaque(opaque) = part { Some(opaque.place) } else { None })
            .collect();
        let expect = match dialect {
            Dialect::OpenAiResponses | Dialect::Anthropic => Place::Here,
            Dialect::Gemini => Place::Call(0),
            Dialect::OpenAiChat | Dialect::LlamaCpp => Place::Message,
        };
        assert_eq!(places, [expect], "{dialect}");
    }
}

#[test]
fn ends_that_are_not_the_models_own() {
    each(async |dialect, delivery| {
        let end = |stop| Scripted { stop: Some(stop), ..says("Well") };
        let script = Script::of([end(ScriptedStop::Length), end(ScriptedStop::Refused), says("Well")]);
        let double = MockServer::start(script).await.unwrap();
        let client = client(&double, dialect);
        for stop in [Stop::Length, Stop::Refused, Stop::End] {
            assert_eq!(ask(&client, delivery).await.unwrap().stop, Some(stop), "{dialect}");
        }
    });
}

#[test]
fn what_passes_is_tried_again_and_what_does_not_is_not() {
    each(async |dialect, delivery| {
        let double =
            MockServer::start(Script::of([error(529, "Overloaded", None), error(503, "Busy", None), says("Hi")])).await.unwrap();
        assert_eq!(ask(&client(&double, dialect), delivery).await.unwrap().text(), "Hi", "{dialect}");
        assert_eq!(double.seen().len(), 3);

        let double = MockServer::start(Script::of([error(400, "messages: bad \u{1b}[31m request", None)])).await.unwrap();
        let failed = ask(&client(&double, dialect), delivery).await.unwrap_err();
        let refusal = failed.refusal().unwrap();
        assert_eq!((refusal.status, refusal.fault, &*refusal.message), (Some(400), Fault::Request, "messages: bad [31m request"));
        assert_eq!(double.seen().len(), 1, "{dialect}");

        let double = MockServer::start(Script::of([error(500, "Broken", None)])).await.unwrap();
        assert_eq!(ask(&client(&double, dialect), delivery).await.unwrap_err().refusal().unwrap().status, Some(500));
        assert_eq!(double.seen().len(), 3, "{dialect}");
    });
}

#[test]
fn the_provider_says_how_long_to_wait() {
    run(async {
        let double = MockServer::start(Script::of([error(429, "Slow down", Some(0.3)), says("Hi")])).await.unwrap();
        ask(&client(&double, Dialect::Anthropic), Delivery::Stream).await.unwrap();
        let seen = double.seen();
        assert!(seen[1].at >= seen[0].at + Duration::from_millis(300), "{seen:?}");
        // Longer than anyone wants to wait.
        let double = MockServer::start(Script::of([error(429, "Slow down", Some(60.0)), says("Hi")])).await.unwrap();
        let failed = ask(&client(&double, Dialect::Anthropic), Delivery::Stream).await.unwrap_err();
        assert_eq!(failed.refusal().unwrap().wait, Some(Duration::from_mins(1)));
        assert_eq!(double.seen().len(), 1);
    });
}

#[test]
fn a_stream_that_breaks_off_is_not_begun_again() {
    for dialect in Dialect::ALL {
        run(async {
            let cut = Scripted { cut_after: Some(6), piece: 1, ..says("A long answer that is cut") };
            let double = MockServer::start(Script::of([cut, says("Hi")])).await.unwrap();
            let body = hello(dialect, Delivery::Stream);
            let client = client(&double, dialect);
            let mut answer = client.send(&model(&default_name(dialect)), &body, Delivery::Stream).await.unwrap();
            let mut text = String::new();
            let failed = loop {
                match answer.next().await {
                    Ok(Some(Event::Text(more))) => text.push_str(&more),
                    Ok(Some(Event::Usage(_))) => {}
                    Ok(other) => panic!("{dialect}: {other:?}"),
                    Err(error) => break error,
                }
            };
            assert!(!text.is_empty() && "A long answer that is cut".starts_with(&text), "{dialect}: {text}");
            assert!(failed.is_passing(), "{dialect}: {failed}");
            assert_eq!(double.seen().len(), 1);
            assert_eq!(answer.next().await, Ok(None));
        });
    }
}

#[test]
fn a_stream_that_breaks_off_before_the_first_word_is_begun_again() {
    each(async |dialect, delivery| {
        let cut = Scripted { cut_after: Some(0), ..says("never seen") };
        let double = MockServer::start(Script::of([cut, says("Hi")])).await.unwrap();
        let asked = ask(&client(&double, dialect), delivery).await;
        // A whole answer is sent when the model is done.
        match delivery {
            Delivery::Stream => assert_eq!(asked.unwrap().text(), "Hi", "{dialect}"),
            Delivery::Whole => assert!(matches!(asked, Err(SendError::BrokeOff { .. })), "{dialect}: {asked:?}"),
        }
        assert_eq!(double.seen().len(), if delivery == Delivery::Stream { 2 } else { 1 });
    });
}

#[test]
fn an_error_within_a_stream_keeps_what_was_said() {
    for dialect in Dialect::ALL {
        run(async {
            let overloaded = ScriptedError { status: 529, message: "Overloaded".to_owned(), ..ScriptedError::default() };
            let breaks = Scripted { breaks: Some(overloaded), piece: 1, ..says("A long answer") };
            let double = MockServer::start(Script::of([breaks])).await.unwrap();
            let body = hello(dialect, Delivery::Stream);
            let client = client(&double, dialect);
            let mut answer = client.send(&model(&default_name(dialect)), &body, Delivery::Stream).await.unwrap();
            assert_eq!(answer.next().await, Ok(Some(Event::Text("A".to_owned()))), "{dialect}");
            let failed = answer.reply().await.unwrap_err();
            assert_eq!(
                failed.refusal().map(|refusal| (refusal.status, &*refusal.message)),
                Some((None, "Overloaded")),
                "{dialect}"
            );
        });
    }
}

#[test]
fn a_wrong_key_is_not_repeated() {
    each(async |dialect, delivery| {
        if dialect == Dialect::LlamaCpp {
            return;
        }
        let script = Script { key: Some("sk-right".to_owned()), ..Script::default() };
        let double = MockServer::start(script).await.unwrap();
        let client = client(&double, dialect);
        let failed = ask(&client, delivery).await.unwrap_err();
        assert_eq!(failed.refusal().unwrap().fault, Fault::Key, "{dialect}: {failed}");
        for text in [failed.to_string(), format!("{failed:?}"), format!("{client:?}"), format!("{:?}", config(&double, dialect))]
        {
            assert!(!text.contains("1234"), "{text}");
        }
        let none = ClientConfig { key: KeySource::Env("NO_SUCH_KEY_ANYWHERE".to_owned()), ..config(&double, dialect) };
        let failed = ask(&Client::new(none).unwrap(), delivery).await.unwrap_err();
        assert!(matches!(failed, SendError::Key(_)), "{failed}");
    });
}

#[test]
fn nobody_waits_for_ever() {
    let timeouts = Timeouts { begin: Duration::from_millis(150), idle: Duration::from_millis(150), ..Timeouts::default() };
    let slow =
        |double: &MockServer, timeouts| Client::new(ClientConfig { timeouts, ..config(double, Dialect::Anthropic) }).unwrap();
    let waited = |error: SendError| match error {
        SendError::TooSlow { waited, .. } => waited,
        other => panic!("{other}"),
    };
    run(async {
        let late = Script::of([Scripted { delay_ms: 60_000, ..Scripted::default() }]);
        let double = MockServer::start(late.clone()).await.unwrap();
        assert_eq!(waited(ask(&slow(&double, timeouts), Delivery::Stream).await.unwrap_err()), Waited::Begin);
        assert_eq!(double.seen().len(), 1);

        let paused = Script::of([Scripted { pause_ms: 60_000, piece: 1, ..says("slow") }]);
        let double = MockServer::start(paused.clone()).await.unwrap();
        assert_eq!(waited(ask(&slow(&double, timeouts), Delivery::Stream).await.unwrap_err()), Waited::Begin);

        let total = Timeouts { total: Duration::from_millis(150), ..Timeouts::default() };
        let double = MockServer::start(late).await.unwrap();
        assert_eq!(waited(ask(&slow(&double, total), Delivery::Whole).await.unwrap_err()), Waited::Whole);

        let gemini = MockServer::start(paused).await.unwrap();
        let timeouts = Timeouts { idle: Duration::from_millis(150), ..Timeouts::default() };
        let client = Client::new(ClientConfig { timeouts, ..config(&gemini, Dialect::Gemini) }).unwrap();
        assert_eq!(waited(ask(&client, Delivery::Stream).await.unwrap_err()), Waited::Next);
    });
}

#[test]
fn no_limit_is_a_limit_too() {
    run(async {
        let double = MockServer::start(Script::of([error(503, "Busy", None), says("Hi")])).await.unwrap();
        let for_ever = Duration::MAX;
        let timeouts = Timeouts { connect: for_ever, begin: for_ever, idle: for_ever, total: for_ever };
        let retry = Retry { tries: u32::MAX, first_wait: Duration::from_millis(1), max_wait: for_ever };
        let config = ClientConfig { timeouts, retry, ..config(&double, Dialect::OpenAiChat) };
        assert_eq!(ask(&Client::new(config).unwrap(), Delivery::Stream).await.unwrap().text(), "Hi");
    });
}

#[test]
fn a_server_that_is_not_there_is_said() {
    run(async {
        let double = MockServer::start(Script::default()).await.unwrap();
        let config = config(&double, Dialect::OpenAiResponses);
        drop(double);
        let failed = ask(&Client::new(config).unwrap(), Delivery::Stream).await.unwrap_err();
        assert!(matches!(failed, SendError::Network { .. }), "{failed}");
    });
}

#[test]
fn a_proxy_is_asked_in_place_of_the_provider() {
    run(async {
        let double = MockServer::start(Script::of([says("Hi")])).await.unwrap();
        let config = ClientConfig {
            base_url: Some("http://provider.invalid/anthropic/v1".to_owned()),
            proxy: Some(Secret::new(format!("http://me:secret@{}", host(&double)))),
            ..config(&double, Dialect::Anthropic)
        };
        assert!(!format!("{config:?}").contains("secret"));
        assert_eq!(ask(&Client::new(config).unwrap(), Delivery::Stream).await.unwrap().text(), "Hi");
    });
}

#[test]
fn dropping_an_answer_ends_it() {
    run(async {
        let double =
            MockServer::start(Script::of([Scripted { pause_ms: 20, piece: 1, ..says(&"x".repeat(1000)) }])).await.unwrap();
        let client = client(&double, Dialect::OpenAiChat);
        let body = hello(Dialect::OpenAiChat, Delivery::Stream);
        let start = Instant::now();
        let model = model(&default_name(Dialect::OpenAiChat));
        let mut answer = client.send(&model, &body, Delivery::Stream).await.unwrap();
        assert_eq!(answer.next().await, Ok(Some(Event::Text("x".to_owned()))));
        drop(answer);
        // So does dropping what was to bring it.
        let _ = tokio::time::timeout(Duration::from_millis(5), client.send(&model, &body, Delivery::Stream)).await;
        while double.dropped() < double.seen().len() {
            assert!(start.elapsed() < Duration::from_secs(10));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn what_a_provider_refuses_is_refused() {
    each(async |dialect, delivery| {
        let double = MockServer::start(Script::default()).await.unwrap();
        let client = client(&double, dialect);
        let half = request(dialect, delivery, &[user("x"), calls("", &[("c1", "read", json!({}))])], &no_tools());
        let failed = client.send(&model(&default_name(dialect)), &half, delivery).await.unwrap_err();
        assert_eq!(failed.refusal().unwrap().status, Some(400), "{dialect}: {failed}");
        let answered = [user("x"), calls("", &[("c1", "read", json!({}))]), result("c1", "done")];
        let good = request(dialect, delivery, &answered, &no_tools());
        client.send(&model(&default_name(dialect)), &good, delivery).await.unwrap();
    });
}

#[test]
fn a_second_turn_reads_the_cache() {
    for dialect in Dialect::ALL {
        run(async {
            let double = MockServer::start(Script::default()).await.unwrap();
            let client = client(&double, dialect);
            let model = model(&default_name(dialect));
            let mut messages = vec![system(&"Rules of the house. ".repeat(4000), &[]), user("Hello")];
            let mut usages = Vec::new();
            let mut sim = CacheSim::new();
            for turn in 0..2 {
                let body = request(dialect, Delivery::Stream, &messages, &no_tools());
                let expect = sim.request(0, &body.prompt, &model);
                usages.push(client.send(&model, &body, Delivery::Stream).await.unwrap().reply().await.unwrap().usage.unwrap());
                // The double counts what it reads from the bytes, the simulator what the engine knows; both count the same.
                let share = |read: Tokens, input: Tokens| read.0 * 1000 / input.0;
                let (found, expect) = (share(usages[turn].cache_read, usages[turn].input), share(expect.read, expect.total()));
                assert!(found.abs_diff(expect) <= 1, "{dialect}, turn {turn}: {found} and {expect} of 1000");
                messages.extend([common::model_says("ok"), user(&format!("And {turn}?"))]);
            }
            assert_eq!(usages[0].cache_read, Tokens::ZERO, "{dialect}");
            assert!(usages[1].cache_read.0 * 10 > usages[1].input.0 * 9, "{dialect}: {usages:?}");
        });
    }
}

#[test]
fn requests_that_start_together_write_the_cache_once() {
    for dialect in [Dialect::Anthropic, Dialect::OpenAiResponses, Dialect::Gemini] {
        run(async {
            let double = MockServer::start(Script::of([Scripted { delay_ms: 50, ..Scripted::default() }])).await.unwrap();
            let client = Arc::new(client(&double, dialect));
            let model = model(&default_name(dialect));
            let first = system(&"Rules of the house. ".repeat(4000), &[]);
            let mut tasks = tokio::task::JoinSet::new();
            for task in 0..4 {
                let body =
                    request(dialect, Delivery::Stream, &[Arc::clone(&first), user(&format!("Question {task}"))], &no_tools());
                let (client, model) = (Arc::clone(&client), model.clone());
                tasks.spawn(async move { client.send(&model, &body, Delivery::Stream).await.unwrap().reply().await.unwrap() });
            }
            let cold = tasks.join_all().await.iter().filter(|reply| reply.usage.unwrap().cache_read == Tokens::ZERO).count();
            assert_eq!(cold, 1, "{dialect}");
        });
    }
}

#[test]
fn when_the_first_one_fails_the_next_goes_ahead() {
    run(async {
        let script = Script::of([Scripted { delay_ms: 30, ..error(400, "no", None) }, says("Hi")]);
        let double = MockServer::start(script).await.unwrap();
        let client = Arc::new(client(&double, Dialect::Anthropic));
        let model = model(&default_name(Dialect::Anthropic));
        let first = system(&"Rules of the house. ".repeat(4000), &[]);
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let body = request(Dialect::Anthropic, Delivery::Stream, &[Arc::clone(&first), user("Question")], &no_tools());
            let (client, model) = (Arc::clone(&client), model.clone());
            tasks.spawn(async move { client.send(&model, &body, Delivery::Stream).await.is_ok() });
        }
        assert_eq!(tasks.join_all().await.iter().filter(|good| **good).count(), 2);
    });
}

#[test]
fn explicit_caches_are_made_once_kept_alive_and_deleted() {
    run(async {
        let double = MockServer::start(Script::default()).await.unwrap();
        let client = Arc::new(client(&double, Dialect::Gemini));
        let model = model("gemini-3.8-flash");
        let (messages, tools) = ([system(&"Rules of the house. ".repeat(4000), &[]), user("Hello")], no_tools());
        let prompt = prompt(&messages, &tools, 2);
        let caches = ExplicitCaches::new(Arc::clone(&client), Duration::from_mins(5));
        let asked = gemini_cache_request(&model, &prompt, 300);
        let made = caches.get(&asked).await.unwrap().unwrap();
        assert_eq!(caches.get(&asked).await.unwrap().unwrap(), made);
        assert_eq!(double.caches(), 1);

        let options = BodyOptions { cached_content: Some(made.name.clone()), ..BodyOptions::default() };
        let body = body(Dialect::Gemini, &model, &prompt, &options);
        let usage = client.send(&model, &body, Delivery::Whole).await.unwrap().reply().await.unwrap().usage.unwrap();
        assert_eq!(usage.cache_read, made.tokens);

        // Half of its life is over.
        let short = gemini_cache_request(&model, &prompt, 100);
        let other = ExplicitCaches::new(Arc::clone(&client), Duration::from_mins(5));
        let young = other.get(&short).await.unwrap().unwrap();
        let old = other.get(&short).await.unwrap().unwrap();
        assert!(old.name == young.name && old.expires > young.expires);

        assert_eq!((caches.clean_up().await.unwrap(), other.clean_up().await.unwrap(), double.caches()), (1, 1, 0));
        let gone = client.send(&model, &body, Delivery::Whole).await.unwrap_err();
        assert_eq!(gone.refusal().unwrap().fault, Fault::CacheGone);
        caches.get(&asked).await.unwrap().unwrap();
        assert_eq!(double.caches(), 1);

        let small = [user("Hello")];
        let small = Prompt { l1: Hash::of("small"), ..common::prompt(&small, &tools, 1) };
        let small = gemini_cache_request(&model, &small, 300);
        assert_eq!(caches.get(&small).await.unwrap(), None);
    });
}

#[test]
fn an_answer_can_be_too_long() {
    run(async {
        let double = MockServer::start(Script::of([says(&"x".repeat(20_000))])).await.unwrap();
        let config = ClientConfig { max_bytes: 10_000, ..config(&double, Dialect::OpenAiChat) };
        let failed = ask(&Client::new(config).unwrap(), Delivery::Whole).await.unwrap_err();
        assert_eq!(failed, SendError::Unread { host: host(&double), error: ReadError::TooLarge { max: 10_000 } });
    });
}

fn host(double: &MockServer) -> String {
    double.base_url(Dialect::OpenAiChat).split('/').nth(2).unwrap().to_owned()
}

/// A whole answer that breaks off has been paid for; a stream that breaks off before it says anything has not.
#[test]
fn a_whole_answer_that_breaks_off_is_not_asked_for_again() {
    use std::io::{Read as _, Write as _};
    let check = |kind: &str, start: &str, delivery, expect_asked: usize| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: 1000\r\n\r\n{start}");
        let server = std::thread::spawn(move || {
            let mut asked = 0;
            while let Ok((mut stream, _)) = listener.accept() {
                let mut bytes = [0; 4096];
                let read = stream.read(&mut bytes).unwrap();
                if bytes[..read].starts_with(b"END") {
                    break;
                }
                asked += 1;
                stream.write_all(answer.as_bytes()).unwrap();
            }
            asked
        });
        let config = ClientConfig {
            base_url: Some(format!("http://{address}/v1")),
            key: KeySource::Given(Secret::new("sk-test-1234")),
            retry: Retry { tries: 3, first_wait: Duration::from_millis(5), max_wait: Duration::from_secs(1) },
            ..ClientConfig::new(Dialect::OpenAiChat)
        };
        let failed = run(async { ask(&Client::new(config).unwrap(), delivery).await.unwrap_err() });
        std::net::TcpStream::connect(address).unwrap().write_all(b"END").unwrap();
        assert_eq!(server.join().unwrap(), expect_asked, "{kind}: {failed}");
        assert_eq!(matches!(failed, SendError::BrokeOff { .. }), expect_asked == 1, "{failed}");
    };
    check("application/json", "{\"id\": \"c1\", \"cho", Delivery::Whole, 1);
    check("application/json", "", Delivery::Whole, 3);
    check("text/event-stream", ": hello\n\n", Delivery::Stream, 3);
}
