//! Sessions over HTTP: from the first message to what the model was given.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value, clippy::format_push_string)]

#[path = "../../foreword-models/tests/weights/mod.rs"]
mod test_weights;

mod common;

use std::fs;
use std::time::Duration;

use common::{Running, SCRIPT, loopback};
use foreword_server::{Level, Limits};
use serde_json::{Value, json};

fn text_of(events: &[(String, Value)]) -> String {
    events.iter().filter(|(name, _)| name == "part").map(|(_, data)| data["text"].as_str().unwrap()).collect()
}

fn names(events: &[(String, Value)]) -> Vec<&str> {
    let mut names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    names.dedup();
    names
}

#[test]
fn a_turn_streams_and_is_kept() {
    let server = Running::start();
    let id = server.begin();
    let events = server.say(&id, "Why was the loaf flat?", &["Kitchen/Bread.md"]);
    assert_eq!(names(&events), ["request", "part", "done"]);
    assert_eq!(text_of(&events), "The starter was **too young**.");
    let session = server.get(&format!("/api/v1/sessions/{id}"));
    assert_eq!(session["title"], "Why was the loaf flat?");
    let messages = session["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0]["attached"], json!(["Kitchen/Bread.md"]));
    assert_eq!((&messages[1]["role"], &messages[1]["request"]), (&json!("assistant"), &json!(0)));
    let request = server.get(&format!("/api/v1/sessions/{id}/requests/0"));
    assert_eq!(request["verified"], true);
    let items: Vec<&str> = request["context"].as_array().unwrap().iter().map(|entry| entry["item"].as_str().unwrap()).collect();
    assert_eq!(items, ["rule:units", "note:Kitchen/Bread.md"]);
    assert_eq!(
        request["items"]["rule:units"],
        json!({"kind": "rule", "name": "units", "server": null, "description": "Grams", "priority": 7})
    );
    let layers = server.get(&format!("/api/v1/sessions/{id}/requests/0/layers"));
    assert!(layers.to_string().contains("doubles in four hours"));
    let wire = server.get(&format!("/api/v1/sessions/{id}/requests/0/wire"));
    assert!(wire.to_string().contains("Why was the loaf flat?"));
    let bars = server.get(&format!("/api/v1/sessions/{id}/requests"));
    assert_eq!(bars[0]["layers"].as_array().unwrap().len(), 6);
    assert_eq!(bars[0]["tokens"], request["tokens"]);
    let ledger = server.get("/api/v1/ledger");
    assert_eq!(ledger["all"]["requests"], 1);
}

#[test]
fn what_was_found_is_told_and_kept() {
    let server = Running::start();
    let id = server.post("/api/v1/sessions", json!({"mode": "qa"}))["id"].as_str().unwrap().to_owned();
    let events = server.say(&id, "How fast does the starter double?", &[]);
    assert_eq!(names(&events)[..3], ["sources", "request", "part"]);
    let first = |sources: &Value| (sources[0]["number"].clone(), sources[0]["path"].clone(), sources[0]["text"].clone());
    let expect = (json!(1), json!("Kitchen/Bread.md"), json!("# Bread\n\nThe starter doubles in four hours. #baking"));
    assert_eq!(first(&events[0].1["sources"]), expect);
    // Without the embedding model the search goes by words alone: the user hears of it.
    let told = |(name, data): &(String, Value)| name == "note" && data["text"].as_str().unwrap().contains("by words alone");
    assert_eq!(events.iter().filter(|event| told(event)).count(), 1);
    let session = server.get(&format!("/api/v1/sessions/{id}"));
    assert_eq!(first(&session["messages"][1]["sources"]), expect);
    assert_eq!((&session["small"], &session["messages"][0]["sources"]), (&json!(true), &json!([])));
    let request = server.get(&format!("/api/v1/sessions/{id}/requests/0"));
    let context = request["context"].as_array().unwrap();
    let found = context.iter().find(|entry| entry["item"] == "note:Kitchen/Bread.md").unwrap();
    assert_eq!((&found["include"], &found["form"]), (&json!("agent"), &json!("passage")));
    assert!(found["score"].as_f64().unwrap() > 0.2 && !request.to_string().contains("output:"), "{request}");
    // How it was searched stays on the request's record.
    assert!(request["notes"].to_string().contains("the search went by words alone"), "{request}");
}

#[test]
fn the_images_of_the_open_note_are_sent() {
    let config = "model = 'claude-sonnet-5'\n";
    let server = Running::made(Some(SCRIPT), config, loopback(), Limits::default(), Level::Manage);
    let vault = server.folder.path().join("vault");
    fs::write(vault.join("pic.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    fs::write(vault.join("Open.md"), "# Open\n\n![[pic.png]]\n").unwrap();
    let new = json!({"mode": "chat", "model": "claude-sonnet-5"});
    let id = server.post("/api/v1/sessions", new)["id"].as_str().unwrap().to_owned();
    let message = json!({"words": "What is it?", "active_note": "Open"});
    let preview = server.post(&format!("/api/v1/sessions/{id}/preview"), message.clone());
    let has_image = |request: &Value| {
        let context = request["context"].as_array().unwrap();
        context.iter().any(|entry| entry["item"] == "image:pic.png")
            && context.iter().any(|entry| entry["item"] == "note:Open.md")
    };
    assert!(has_image(&preview), "{preview}");
    let begun = server.post(&format!("/api/v1/sessions/{id}/messages"), message);
    server.events(&id, begun["event"].as_str(), |name| name == "done");
    assert!(has_image(&server.get(&format!("/api/v1/sessions/{id}/requests/0"))));
    let wire = server.get(&format!("/api/v1/sessions/{id}/requests/0/wire")).to_string();
    assert!(wire.contains("iVBORw0KGgo=") && wire.contains("image/png"), "{wire}");
    let wrong =
        server.call("POST", &format!("/api/v1/sessions/{id}/messages"), Some(&json!({"words": "x", "active_note": "#garden"})));
    assert_eq!(wrong.status, 400);
    assert!(wrong.body.contains("one whole note"), "{}", wrong.body);
}

#[test]
fn a_second_turn_continues_the_first() {
    let server = Running::start();
    let id = server.begin();
    server.say(&id, "One", &[]);
    server.say(&id, "Two [[Beds]] and [[Nowhere]]", &[]);
    let diff = server.get(&format!("/api/v1/sessions/{id}/requests/1/diff"));
    assert_eq!(diff["cause"], "continued");
    let session = server.get(&format!("/api/v1/sessions/{id}"));
    assert_eq!(session["messages"][2]["attached"], json!(["Beds.md"]));
    assert_eq!(server.call("GET", &format!("/api/v1/sessions/{id}/requests/0/diff"), None).status, 404);
}

#[test]
fn a_stream_resumes_where_it_was_lost() {
    let server = Running::start();
    let id = server.begin();
    let begun = server.post(&format!("/api/v1/sessions/{id}/messages"), json!({"words": "Hello"}));
    let all = server.events_with_ids(&id, begun["event"].as_str(), |name| name == "done");
    for (at, (last, ..)) in all.iter().enumerate().take(all.len() - 1) {
        let rest = server.events_with_ids(&id, Some(last), |name| name == "done");
        assert_eq!(rest, all[at + 1..], "behind {last}");
    }
    // Events of another process, or ones that never were: whoever reads is told to look again.
    for unknown in ["elsewhere-3", &format!("{}9", all[0].0), "x", "-", "a-b"] {
        let told =
            if unknown.rsplit_once('-').is_some_and(|(_, number)| number.parse::<u64>().is_ok()) { "lost" } else { continue };
        let events = server.events(&id, Some(unknown), |name| name == "lost");
        assert_eq!(names(&events), [told], "{unknown}");
    }
}

#[test]
fn a_turn_can_be_stopped_and_one_at_a_time_runs() {
    let slow = r#"{"replies": [{"text": "one two three four five six seven eight nine ten", "delay_ms": 100}]}"#;
    let server = Running::with(slow, common::loopback(), Limits::default());
    let id = server.begin();
    server.post(&format!("/api/v1/sessions/{id}/messages"), json!({"words": "Count"}));
    let second = server.call("POST", &format!("/api/v1/sessions/{id}/messages"), Some(&json!({"words": "Quick"})));
    assert_eq!(second.status, 409, "{}", second.body);
    assert_eq!(server.get(&format!("/api/v1/sessions/{id}"))["running"], true);
    assert_eq!(server.call("DELETE", &format!("/api/v1/sessions/{id}"), None).status, 409);
    assert_eq!(server.call("POST", &format!("/api/v1/sessions/{id}/stop"), None).status, 204);
}

#[test]
fn edit_regenerate_fork_rewind_rename_delete() {
    let server = Running::start();
    let id = server.begin();
    let path = |rest: &str| format!("/api/v1/sessions/{id}{rest}");
    server.say(&id, "One", &[]);
    server.say(&id, "Two", &[]);
    let said = |session: &Value| -> Vec<String> {
        let messages = session["messages"].as_array().unwrap().iter();
        messages.filter(|message| message["role"] == "user").map(|message| message["text"].as_str().unwrap().to_owned()).collect()
    };
    let begun = server.call("PUT", &path("/messages/2"), Some(&json!({"words": "Two, otherwise"})));
    assert_eq!(begun.status, 202, "{}", begun.body);
    server.events(&id, begun.json()["event"].as_str(), |name| name == "done");
    assert_eq!(said(&server.get(&path(""))), ["One", "Two, otherwise"]);
    let begun = server.post(&path("/regenerate"), json!({}));
    server.events(&id, begun["event"].as_str(), |name| name == "done");
    assert_eq!(said(&server.get(&path(""))), ["One", "Two, otherwise"]);
    let fork = server.post(&path("/fork"), json!({"turn": 1, "title": "beside"}));
    assert_eq!((&fork["title"], &fork["forked_from"]), (&json!("beside"), &json!(id)));
    let other = fork["id"].as_str().unwrap();
    assert_eq!(said(&server.get(&format!("/api/v1/sessions/{other}"))), ["One"]);
    assert_eq!(server.call("POST", &path("/rewind"), Some(&json!({"turn": 1}))).status, 204);
    assert_eq!(said(&server.get(&path(""))), ["One"]);
    assert_eq!(server.call("POST", &path("/rewind"), Some(&json!({"turn": 9}))).status, 409);
    assert_eq!(server.call("PATCH", &path(""), Some(&json!({"title": "  About \n bread "}))).status, 204);
    assert_eq!(server.get(&path(""))["title"], "About bread");
    assert_eq!(server.call("PATCH", &path(""), Some(&json!({"title": " "}))).status, 400);
    assert_eq!(server.get("/api/v1/search?q=otherwise"), json!([]));
    assert_eq!(server.get("/api/v1/search?q=One")[0]["turn"], 1);
    assert_eq!(server.call("DELETE", &path(""), None).status, 204);
    assert_eq!(server.call("GET", &path(""), None).status, 404);
    assert_eq!(server.get("/api/v1/sessions").as_array().unwrap().len(), 1);
}

#[test]
fn items_come_and_go() {
    let server = Running::start();
    let id = server.begin();
    let items = |server: &Running| -> Vec<(String, Value)> {
        let items = server.get(&format!("/api/v1/sessions/{id}/items"));
        items
            .as_array()
            .unwrap()
            .iter()
            .map(|item| (item["item"].as_str().unwrap().to_owned(), item["in_session"].clone()))
            .collect()
    };
    assert_eq!(items(&server), [("rule:units".to_owned(), json!("always")), ("rule:tone".to_owned(), Value::Null)]);
    server.post(&format!("/api/v1/sessions/{id}/items"), json!({"item": "rule:tone"}));
    assert_eq!(server.call("DELETE", &format!("/api/v1/sessions/{id}/items?item=rule%3Aunits"), None).status, 204);
    assert_eq!(items(&server), [("rule:units".to_owned(), Value::Null), ("rule:tone".to_owned(), json!("manual"))]);
    let unknown = server.call("POST", &format!("/api/v1/sessions/{id}/items"), Some(&json!({"item": "rule:nobody"})));
    assert_eq!(unknown.status, 404, "{}", unknown.body);
    assert_eq!(server.call("POST", &format!("/api/v1/sessions/{id}/items"), Some(&json!({"item": "what"}))).status, 400);
}

#[test]
fn the_vault_and_nothing_else() {
    let server = Running::start();
    assert_eq!(server.get("/api/v1/vault/note?path=Kitchen/Bread.md")["path"], "Kitchen/Bread.md");
    // A note is called by its path, or as a link calls it; what is not there is not another one.
    for link in ["bread", "Kitchen/Bread", "Bread%23Flour", "Bread%7Cthe%20loaf"] {
        assert_eq!(server.get(&format!("/api/v1/vault/note?path={link}"))["path"], "Kitchen/Bread.md", "{link}");
    }
    for path in [
        "Brea",
        "read",
        "%23Flour",
        "../secret.md",
        "/etc/passwd",
        "Kitchen/../../secret.md",
        "..%2Fsecret.md",
        "Foreword/Agents/cook/agent.toml",
        ".foreword/foreword.db",
        "",
    ] {
        assert_eq!(server.call("GET", &format!("/api/v1/vault/note?path={path}"), None).status, 404, "{path}");
    }
    let labels = |query: &str| -> Vec<String> {
        let found = server.get(&format!("/api/v1/vault/complete?q={query}"));
        found.as_array().unwrap().iter().map(|one| one["attach"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(labels("brea"), ["Kitchen/Bread.md"]);
    assert_eq!(labels("gard"), ["#garden"]);
    assert_eq!(labels("kitch"), ["Kitchen/", "Kitchen/Bread.md"]);
    assert_eq!(labels("&kinds=tag"), ["#baking", "#garden"]);
    assert_eq!(labels("&kinds=folder,tag&limit=1"), ["#baking"]);
    assert_eq!(server.call("GET", "/api/v1/vault/complete?kinds=secret", None).status, 400);
    assert_eq!(server.get("/api/v1/vault/tree")["folders"][1]["name"], "Kitchen");
}

#[test]
fn tags_are_completed_in_a_vault_of_many_notes() {
    let server = Running::start();
    for number in 0..300 {
        fs::write(server.folder.path().join(format!("vault/garden {number}.md")), "Beans. #garden/beans\n").unwrap();
    }
    // The list of notes may be a moment old.
    std::thread::sleep(Duration::from_millis(2100));
    let found = server.get("/api/v1/vault/complete?q=garden&kinds=tag&limit=8");
    let labels: Vec<&str> = found.as_array().unwrap().iter().map(|one| one["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["#garden", "#garden/beans"]);
}

#[test]
fn what_is_wrong_is_said_before_anything_changes() {
    let server = Running::start();
    let id = server.begin();
    let check = |method: &str, path: &str, body: Value, expect: u16| {
        let reply = server.call(method, path, Some(&body));
        assert_eq!(reply.status, expect, "{method} {path} {body}: {}", reply.body);
        assert!(reply.json()["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
    };
    let messages = format!("/api/v1/sessions/{id}/messages");
    check("POST", &messages, json!({"words": "  "}), 400);
    check("POST", &messages, json!({"words": "Hi", "attach": ["No such note"]}), 400);
    check("POST", &messages, json!({"words": "Hi", "attach": vec!["Beds.md"; 300]}), 400);
    check("POST", "/api/v1/sessions/nobody/messages", json!({"words": "Hi"}), 404);
    check("PUT", &format!("{messages}/3"), json!({"words": "Hi"}), 409);
    check("POST", "/api/v1/sessions", json!({"model": "no-such-model"}), 404);
    check("POST", "/api/v1/sessions", json!({"agent": "nobody"}), 404);
    check("POST", "/api/v1/sessions", json!({"layout": "tower"}), 400);
    assert_eq!(server.get(&format!("/api/v1/sessions/{id}"))["messages"], json!([]));
}

#[test]
fn the_description_names_every_route() {
    let server = Running::start();
    let document = server.get("/api/v1/openapi.json");
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 20, "{}", paths.len());
    // Every route that is described is there.
    for (path, methods) in paths {
        let address = path
            .replace("{session}", "nobody")
            .replace("{turn}", "1")
            .replace("{request}", "0")
            .replace("{agent}", "nobody")
            .replace("{item}", "rule:x")
            .replace("{template}", "nothing")
            .replace("{approval}", "1")
            .replace("{number}", "1");
        for method in methods.as_object().unwrap().keys() {
            let status = server.call(&method.to_uppercase(), &address, (method != "get").then(|| json!({})).as_ref()).status;
            assert!(status != 405 && status != 0, "{method} {path}: {status}");
        }
    }
}

#[test]
fn an_end_keeps_what_was_said() {
    let slow = r#"{"replies": [{"text": "one two three four five six seven eight nine ten", "delay_ms": 80}]}"#;
    let mut server = Running::with(slow, common::loopback(), Limits::default());
    let id = server.begin();
    server.post(&format!("/api/v1/sessions/{id}/messages"), json!({"words": "Count"}));
    std::thread::sleep(std::time::Duration::from_millis(250));
    let started = std::time::Instant::now();
    server.end();
    assert!(started.elapsed() < std::time::Duration::from_secs(12));
    let store =
        foreword_engine::session::Sqlite::open_existing(&server.folder.path().join("vault/.foreword/foreword.db")).unwrap();
    let row = foreword_engine::session::Store::session(&store, &id).unwrap();
    let said = foreword_engine::session::transcript(&store, &row).unwrap();
    assert_eq!(said.messages[0].text, "Count");
    // Nobody stopped the answer: the server ended.
    let last = foreword_engine::session::named_messages(&store, &id).unwrap().pop().unwrap();
    assert!(last.entry.cut_off, "{last:?}");
    assert_eq!(last.ending, Some(foreword_engine::session::Ending::Interrupted));
    assert!(SCRIPT.len() > 10);
}

/// The messages of a session as pairs of their text and why they ended early.
fn endings(server: &Running, id: &str) -> Vec<(String, Value)> {
    let session = server.get(&format!("/api/v1/sessions/{id}"));
    let messages = session["messages"].as_array().unwrap().iter();
    messages.map(|message| (message["text"].as_str().unwrap().to_owned(), message["ending"].clone())).collect()
}

#[test]
fn why_an_answer_is_not_whole_is_on_record() {
    let script = r#"{"replies": [
        {"error": "asking a.example: 500"},
        {"text": "Half", "error": "asking a.example: it broke off"},
        {"text": "Long", "length": true},
        {"text": "one two three four five six seven eight nine ten", "delay_ms": 100}
    ]}"#;
    let server = Running::with(script, common::loopback(), Limits::default());
    let id = server.begin();
    let path = |rest: &str| format!("/api/v1/sessions/{id}{rest}");
    let done = |event: &Value| drop(server.events(&id, event.as_str(), |name| name == "done" || name == "problem"));
    let said = |words: &str, ending: Value| (words.to_owned(), ending);
    server.say(&id, "One", &[]);
    let failed = json!({"why": "failed", "detail": "no answer from the model: asking a.example: 500"});
    assert_eq!(endings(&server, &id), [said("One", failed)]);
    // Asked again, the question has an answer, which is half of one.
    done(&server.post(&path("/resume"), json!({}))["event"]);
    let broke = json!({"why": "failed", "detail": "no answer from the model: asking a.example: it broke off"});
    assert_eq!(endings(&server, &id), [said("One", Value::Null), said("Half", broke)]);
    // A script takes its replies by requests, and the one that was asked again counts once.
    server.say(&id, "Two", &[]);
    server.say(&id, "Three", &[]);
    assert_eq!(endings(&server, &id).pop(), Some(said("Long", json!({"why": "length"}))));
    let begun = server.post(&path("/messages"), json!({"words": "Count"}));
    server.events(&id, begun["event"].as_str(), |name| name == "part");
    server.post(&path("/stop"), json!({}));
    done(&begun["event"]);
    assert_eq!(endings(&server, &id).pop().unwrap().1, json!({"why": "stopped"}));
}

#[test]
fn an_answer_belongs_to_the_request_that_got_it() {
    let script = r#"{"replies": [{"error": "asking a.example: 500"}, {"text": "Better."}, {"text": "Better."}]}"#;
    let server = Running::with(script, common::loopback(), Limits::default());
    let id = server.begin();
    let path = |rest: &str| format!("/api/v1/sessions/{id}{rest}");
    server.say(&id, "One", &[]);
    // Another model has to have a request of its own.
    let model = json!({"model": "claude-sonnet-5"});
    assert_eq!(server.call("PATCH", &path("/settings"), Some(&model)).status, 200);
    let again = server.post(&path("/resume"), json!({}));
    server.events(&id, again["event"].as_str(), |name| name == "done");
    let shown = server.get(&path(""));
    let answer = &shown["messages"][1];
    assert_eq!((&answer["text"], &answer["request"]), (&json!("Better."), &json!(1)), "{shown}");
    assert_eq!(server.get(&path("/requests/1"))["model"], "claude-sonnet-5");
    // The session says which model it has now, and that it is not the small one.
    assert_eq!((&shown["model"], &shown["small"]), (&json!("claude-sonnet-5"), &json!(false)));
}

#[test]
fn what_does_not_fit_is_refused_and_not_recorded() {
    let config = "[providers.house]\nbase_url = \"http://127.0.0.1:9/v1\"\nkey = \"none\"\ndialect = \"openai-chat\"\n[models.\"house/small\"]\nwindow = 8192\n";
    let server = Running::made(Some(SCRIPT), config, common::loopback(), Limits::default(), foreword_server::Level::Manage);
    for mode in ["chat", "qa"] {
        let session = server.post("/api/v1/sessions", json!({"model": "house/small", "mode": mode}));
        let id = session["id"].as_str().unwrap();
        let words = "beans and slugs ".repeat(2000);
        let refused = server.call("POST", &format!("/api/v1/sessions/{id}/messages"), Some(&json!({"words": words})));
        assert_eq!(refused.status, 422, "{}", refused.body);
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("was not sent") && detail.contains("the message "), "{detail}");
        assert_eq!(endings(&server, id), [], "{mode}");
        server.say(id, "Short", &[]);
        assert_eq!(endings(&server, id).len(), 2, "{mode}");
    }
}

#[test]
fn links_that_lead_nowhere_are_told() {
    let server = Running::start();
    let id = server.begin();
    let body = json!({"words": "What of [[Beds]] and [[No Such Note]]?"});
    let preview = server.post(&format!("/api/v1/sessions/{id}/preview"), body.clone());
    let why = &preview["problems"][0];
    assert!(why.as_str().unwrap().starts_with("[[No Such Note]] attaches nothing: "), "{preview}");
    assert!(!preview["problems"].to_string().contains("Beds"), "{preview}");
    let events = server.say(&id, body["words"].as_str().unwrap(), &[]);
    assert!(events.iter().any(|(name, data)| name == "note" && data["text"] == *why), "{events:?}");
}

#[test]
fn sessions_are_found_by_their_title_and_by_the_start_of_a_word() {
    let server = Running::start();
    let id = server.begin();
    server.say(&id, "How do I prune the apple tree?", &[]);
    server.call("PATCH", &format!("/api/v1/sessions/{id}"), Some(&json!({"title": "Orchard work"})));
    let check = |words: &str, expect: Value| {
        let found = server.get(&format!("/api/v1/search?q={words}"));
        let turns: Value = found.as_array().unwrap().iter().map(|hit| hit["turn"].clone()).collect();
        assert_eq!(turns, expect, "{words}: {found}");
    };
    check("orch", json!([null]));
    check("work%20orchard", json!([null]));
    check("app%20pru", json!([1]));
    check("pple", json!([]));
}

#[test]
fn numbers_and_labels_agree() {
    let server = Running::start();
    let id = server.post("/api/v1/sessions", json!({"agent": "cook", "mode": "qa", "model": "claude-sonnet-5"}))["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = |rest: &str| format!("/api/v1/sessions/{id}{rest}");
    server.say(&id, "When does the starter double?", &[]);
    let again = server.post(&path("/regenerate"), json!({}));
    server.events(&id, again["event"].as_str(), |name| name == "done");
    server.say(&id, "And then?", &[]);
    // The size of a request is what its provider counted, in all of its parts.
    let bars = server.get(&path("/requests"));
    for (number, bar) in bars.as_array().unwrap().iter().enumerate() {
        let usage = &bar["usage"];
        let counted: u64 = ["read", "write", "uncached"].iter().map(|part| usage[part].as_u64().unwrap()).sum();
        let sum = |layers: &Value| -> u64 {
            layers.as_array().unwrap().iter().map(|layer| layer.as_u64().or(layer["tokens"].as_u64()).unwrap()).sum()
        };
        let request = server.get(&path(&format!("/requests/{number}")));
        assert_eq!([&bar["tokens"], &request["tokens"]], [&json!(counted), &json!(counted)]);
        assert_eq!((sum(&bar["layers"]), sum(&request["layers"])), (counted, counted));
        for entry in
            request["context"].as_array().unwrap().iter().filter(|entry| entry["item"].as_str().unwrap().starts_with("output:"))
        {
            assert_eq!(entry["include"], "tool", "no person chose what a search found");
            assert_eq!(request["items"][entry["item"].as_str().unwrap()]["name"], "tool output");
        }
    }
    // What was paid for an answer that was replaced is not part of the history.
    let ledger = server.get(&path("/ledger"));
    assert_eq!((&ledger["requests"], &ledger["history"]["requests"]), (&json!(3), &json!(2)));
    let fork = server.post(&path("/fork"), json!({"turn": 1}));
    let ledger = server.get(&format!("/api/v1/sessions/{}/ledger", fork["id"].as_str().unwrap()));
    assert_eq!((&ledger["requests"], &ledger["history"]["requests"]), (&json!(0), &json!(1)));
    // A rule that joins every session from now on is in this one by that, not by hand.
    let tag = server.call("GET", "/api/v1/agents/cook/items/rule:tone", None);
    let tag = tag.header("etag").unwrap().to_owned();
    let body = json!({"include": "always"});
    assert_eq!(server.call_with("PATCH", "/api/v1/agents/cook/items/rule:tone", &[("if-match", &tag)], Some(&body)).status, 204);
    server.post(&path("/agent"), json!({}));
    let items = server.get(&path("/items"));
    let tone = items.as_array().unwrap().iter().find(|item| item["item"] == "rule:tone").unwrap();
    assert_eq!(tone["in_session"], "always");
}

#[test]
fn weights_that_come_later_are_used() {
    let Some(models) = test_weights::test_models() else { return };
    let server = Running::start();
    let new = json!({"mode": "qa", "model": "claude-sonnet-5"});
    let id = server.post("/api/v1/sessions", new)["id"].as_str().unwrap().to_owned();
    let found = |number: u64| server.get(&format!("/api/v1/sessions/{id}/requests/{number}/layers")).to_string();
    server.say(&id, "When does the starter double?", &[]);
    let by_words = found(0);
    assert!(by_words.contains("keyword match: ") && by_words.contains("by words alone"), "{by_words}");
    // Another process fetches them.
    let from = std::path::Path::new(&models).join("all-MiniLM-L6-v2");
    let to = server.folder.path().join("models/all-MiniLM-L6-v2");
    fs::create_dir_all(&to).unwrap();
    for file in fs::read_dir(from).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    server.say(&id, "How long does the starter take?", &[]);
    let by_meaning = found(1);
    assert!(
        by_meaning.contains("similarity: ") && !by_meaning.contains("How long does the starter take?\n(no embedding"),
        "{by_meaning}"
    );
}
