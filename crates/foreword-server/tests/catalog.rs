//! What a person changes: the items of an agent, the settings of a session, what it keeps and what it folds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value, clippy::format_push_string)]

mod common;

use std::fs;

use common::Running;
use foreword_server::Limits;
use serde_json::{Value, json};

const ITEM: &str = "/api/v1/agents/cook/items/rule%3Atone";

#[test]
fn an_item_is_changed_by_who_has_seen_it() {
    let server = Running::start();
    let file = server.folder.path().join("vault/Foreword/Agents/cook/rules/tone.md");
    fs::write(&file, "---\nowner: me\ninclude: manual\n---\nBe brief.\n").unwrap();
    let seen = server.call("GET", ITEM, None);
    assert_eq!((seen.json()["text"].as_str(), seen.json()["priority"].as_u64()), (Some("Be brief."), Some(500)));
    let tag = seen.header("etag").unwrap().to_owned();
    let change = |headers: &[(&str, &str)], body: Value| server.call_with("PATCH", ITEM, headers, Some(&body));
    assert_eq!(change(&[], json!({"priority": 7})).status, 428);
    assert_eq!(change(&[("if-match", "\"x\"")], json!({"priority": 7})).status, 412);
    assert_eq!(change(&[("if-match", &tag)], json!({"priority": 1000})).status, 400);
    assert_eq!(change(&[("if-match", &tag)], json!({"include": "sometimes"})).status, 400);
    let done = change(&[("if-match", &tag)], json!({"priority": 7, "include": "always"}));
    assert_eq!(done.status, 204, "{}", done.body);
    assert_eq!(fs::read_to_string(&file).unwrap(), "---\nowner: me\ninclude: always\npriority: 7\n---\nBe brief.\n");
    // Whoever has seen an older one is told, and nothing is overwritten.
    let late = change(&[("if-match", &tag)], json!({"text": "Be long."}));
    assert_eq!((late.status, late.json()["type"].as_str()), (412, Some("urn:foreword:problem:changed")));
    let tag = done.header("etag").unwrap();
    assert_eq!(server.call_with("DELETE", ITEM, &[("if-match", tag)], None).status, 204);
    assert_eq!((server.call("GET", ITEM, None).status, file.exists()), (404, false));
}

#[test]
fn items_and_agents_are_made() {
    let server = Running::start();
    let made = |path: &str, body: Value| server.call("POST", path, Some(&body)).status;
    let items = "/api/v1/agents/cook/items";
    assert_eq!(made(items, json!({"item": "reference:prices", "text": "Bread 4", "include": "agent", "priority": 30})), 201);
    assert_eq!(made(items, json!({"item": "reference:prices", "text": "Bread 5"})), 409);
    for item in ["rule:../../../secret", "rule:a/b", "rule:.x", "note:a.md", "tool:a/b", "what"] {
        assert_eq!(made(items, json!({"item": item, "text": "x"})), 400, "{item}");
    }
    assert_eq!(made(items, json!({"item": "rule:empty", "text": " "})), 409);
    assert_eq!(made("/api/v1/agents/nobody/items", json!({"item": "rule:a", "text": "x"})), 404);
    assert_eq!(fs::read_to_string(server.folder.path().join("secret.md")).unwrap(), "outside");
    assert_eq!(made("/api/v1/agents", json!({"name": "writer", "system_prompt": "You write."})), 201);
    assert_eq!(made("/api/v1/agents", json!({"name": "writer", "system_prompt": "You write."})), 409);
    assert_eq!(made("/api/v1/agents", json!({"name": "../x", "system_prompt": "You write."})), 400);
    assert_eq!(server.get("/api/v1/agents/writer")["system_prompt"], "You write.");
    let cook = server.get("/api/v1/agents/cook");
    assert_eq!((&cook["items"][0]["item"], &cook["items"][0]["priority"]), (&json!("reference:prices"), &json!(30)));
    assert!(cook["items"][0]["version"].as_str().is_some_and(|version| version.len() == 64));
}

#[test]
fn a_session_takes_its_agent_anew() {
    let server = Running::start();
    let id = server.begin();
    server.say(&id, "One", &[]);
    let tag = server.call("GET", ITEM, None).header("etag").unwrap().to_owned();
    let done =
        server.call_with("PATCH", ITEM, &[("if-match", &tag)], Some(&json!({"include": "always", "text": "Be very brief."})));
    assert_eq!(done.status, 204);
    let tone = |server: &Running| -> Value {
        let items = server.get(&format!("/api/v1/sessions/{id}/items"));
        items.as_array().unwrap().iter().find(|item| item["item"] == "rule:tone").unwrap().clone()
    };
    assert_eq!(tone(&server)["in_session"], Value::Null);
    assert_eq!(server.call("POST", &format!("/api/v1/sessions/{id}/agent"), Some(&json!({}))).status, 204);
    assert_eq!((&tone(&server)["text"], tone(&server)["in_session"].is_null()), (&json!("Be very brief."), false));
    server.say(&id, "Two", &[]);
    let wire = server.get(&format!("/api/v1/sessions/{id}/requests/1/wire"));
    assert!(wire.to_string().contains("Be very brief."));
}

#[test]
fn the_context_of_a_request_tells_of_its_rules_as_they_were_then() {
    let server = Running::start();
    let id = server.begin();
    server.say(&id, "One", &[]);
    // A rule of the first day is edited, and one is made that was not there.
    let folder = server.folder.path().join("vault/Foreword/Agents/cook/rules");
    fs::write(folder.join("units.md"), "---\npriority: 9\ninclude: always\ndescription: Ounces\n---\nUse ounces.\n").unwrap();
    fs::write(folder.join("late.md"), "---\npriority: 3\ninclude: always\ndescription: Late\n---\nBe late.\n").unwrap();
    assert_eq!(server.call("POST", &format!("/api/v1/sessions/{id}/agent"), Some(&json!({}))).status, 204);
    server.say(&id, "Two", &[]);
    let told = |request: u64, item: &str| {
        let items = server.get(&format!("/api/v1/sessions/{id}/requests/{request}"))["items"].clone();
        (items[item]["priority"].clone(), items[item]["description"].clone())
    };
    assert_eq!(told(0, "rule:units"), (json!(7), json!("Grams")));
    assert_eq!(told(0, "rule:late"), (Value::Null, Value::Null));
    assert_eq!(told(1, "rule:units"), (json!(9), json!("Ounces")));
    assert_eq!(told(1, "rule:late"), (json!(3), json!("Late")));
    // What was said to the model, in order: the first request is the start of the second.
    let sent = |request: u64| server.get(&format!("/api/v1/sessions/{id}/requests/{request}/messages"));
    let roles = |sent: &Value| -> Vec<String> {
        let all = sent.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap().to_owned());
        all.filter(|role| role != "tools").collect()
    };
    assert_eq!(roles(&sent(0)), ["system", "user"]);
    assert_eq!(roles(&sent(1)), ["system", "user", "assistant", "user"]);
    assert!(sent(1).as_array().unwrap().last().unwrap()["text"].as_str().unwrap().contains("Two"));
}

#[test]
fn a_session_that_has_not_begun_is_looked_at() {
    let server = Running::start();
    let new = json!({"words": "How long?", "attach": ["Kitchen/Bread.md"], "session": {"agent": "cook", "mode": "chat", "model": "gpt-5.4"}});
    let preview = server.post("/api/v1/preview", new);
    assert!(preview["tokens"].as_u64() > Some(0) && preview["expected"]["cost"].as_f64() > Some(0.0), "{preview}");
    let items: Vec<&str> = preview["context"].as_array().unwrap().iter().map(|entry| entry["item"].as_str().unwrap()).collect();
    assert!(items.contains(&"rule:units") && items.contains(&"note:Kitchen/Bread.md"), "{items:?}");
    assert_eq!(server.call("POST", "/api/v1/preview", Some(&json!({"words": " "}))).status, 400);
    assert_eq!(server.call("POST", "/api/v1/preview", Some(&json!({"words": "x", "session": {"agent": "nobody"}}))).status, 404);
    assert_eq!(server.call("POST", "/api/v1/preview", Some(&json!({"words": "x", "attach": ["Nothing.md"]}))).status, 400);
    let tools = server.get("/api/v1/tools?agent=cook&model=gpt-5.4");
    assert_eq!((&tools["used"], &tools["servers"][0]["server"]), (&json!(true), &json!("foreword")));
    // Nothing is kept of any of it.
    assert_eq!(server.get("/api/v1/sessions"), json!([]));
    assert!(!server.folder.path().join("vault/Foreword/Chats").exists());
}

const LONG: &str = concat!(
    r#"{"replies": [{"text": "The user asked for bread. The oven stands at 240 degrees. The flour is rye. "#,
    "The dough rests in the tin until it has doubled, which takes longer where the room is cold and the starter is young. ",
    "Whoever bakes it too early has a flat loaf, and whoever waits too long has a sour one, so it is looked at every half an hour. ",
    "A wet finger leaves a mark that comes back slowly, and then the tin goes into the oven with a bowl of water below it. ",
    r#"After a quarter of an hour the heat goes down and the loaf stays in until it sounds hollow."}]}"#
);

#[test]
fn folds_are_shown_before_they_happen_and_pins_stay() {
    let server = Running::with(LONG, common::loopback(), Limits::default());
    let id = server.begin();
    let path = |rest: &str| format!("/api/v1/sessions/{id}{rest}");
    for words in
        ["Remember: the tin is blue.", "And the oven?", "And the flour?", "And then?", "Is it done?", "Sure?", "Well?", "Why?"]
    {
        server.say(&id, words, &["Kitchen/Bread.md"]);
    }
    let messages = server.get(&path(""))["messages"].clone();
    let first = messages[0]["id"].as_str().unwrap().to_owned();
    assert!(first.starts_with('m'), "{first}");
    let pinned = server.post(&path("/pins"), json!({"what": first}));
    assert_eq!((&pinned[0]["what"], &pinned[0]["text"]), (&json!(first), &json!("Remember: the tin is blue.")));
    server.post(&path("/pins"), json!({"what": "Kitchen/Bread"}));
    assert_eq!(server.get(&path("/pins"))[1]["what"], "note:Kitchen/Bread.md");
    assert_eq!(server.call("POST", &path("/pins"), Some(&json!({"what": "m999"}))).status, 404);
    let fold = server.get(&path("/fold"));
    assert!(fold["after"].as_u64() < fold["before"].as_u64(), "{fold}");
    // What is pinned does not leave.
    let leaves = fold["messages"][0]["text"].as_str().unwrap();
    assert!(leaves.starts_with("The user asked for bread."), "{fold}");
    assert!(fold["summary"].as_str().unwrap().contains("the tin is blue"), "{fold}");
    assert_eq!(server.call("POST", &path("/fold"), Some(&json!({"focus": "the tin"}))).status, 204);
    server.say(&id, "Go on", &[]);
    let bars = server.get(&path("/requests"));
    assert_eq!(bars.as_array().unwrap().last().unwrap()["began"], "asked");
    assert!(server.get(&path("/summaries"))["shown"].as_str().unwrap().contains("the tin is blue"));
    assert_eq!(server.call("DELETE", &path("/fold"), None).status, 204);
    assert_eq!(server.call("DELETE", &path(&format!("/pins?what={first}")), None).status, 204);
    assert_eq!(server.call("DELETE", &path(&format!("/pins?what={first}")), None).status, 404);
    assert_eq!(server.get(&path("/pins")).as_array().unwrap().len(), 1);
}

#[test]
fn an_endless_session_has_summaries_with_their_sources() {
    let server = Running::with(LONG, common::loopback(), Limits::default());
    let template = "---\npassthrough_runs: 1\ntoken_threshold: 0\nrecent_runs: 3\n---\n\n## Summary\n\nWhat was said?\n";
    let folder = server.folder.path().join("vault/Foreword/ContextTemplates");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("short.md"), template).unwrap();
    let new = json!({"agent": "cook", "mode": "chat", "layout": "library", "template": "short"});
    assert_eq!(server.call("POST", "/api/v1/sessions", Some(&new)).status, 409);
    server.trust_everything();
    let id = server.post("/api/v1/sessions", new)["id"].as_str().unwrap().to_owned();
    let path = |rest: &str| format!("/api/v1/sessions/{id}{rest}");
    let settings = server.get(&path("/settings"));
    assert_eq!((&settings["history"], &settings["template"]), (&json!("managed"), &json!("short")));
    let words = "The oven stands at 240 degrees, and the flour is rye, which takes more water than wheat does. ".repeat(8);
    for _ in 0..4 {
        server.say(&id, &words, &[]);
    }
    let summaries = server.get(&path("/summaries"));
    let views = summaries["views"].as_array().unwrap();
    assert!(!views.is_empty(), "{summaries}");
    assert!(views.iter().any(|view| view["summary"].as_str().is_some_and(|summary| summary.contains("[m"))), "{summaries}");
    assert_eq!(views[0]["template"], "short");
    // It ends, and begins again with another template.
    let off = server.call("PATCH", &path("/settings"), Some(&json!({"history": "full"}))).json();
    assert_eq!((&off["history"], &off["template"]), (&json!("full"), &Value::Null));
    let on = server.call("PATCH", &path("/settings"), Some(&json!({"template": "freeform-chat"}))).json();
    assert_eq!((&on["history"], &on["template"]), (&json!("managed"), &json!("freeform-chat")));
}

#[test]
fn settings_are_checked_before_any_is_set() {
    let server = Running::start();
    let id = server.begin();
    let path = format!("/api/v1/sessions/{id}/settings");
    let check = |body: Value, expect: u16| {
        let reply = server.call("PATCH", &path, Some(&body));
        assert_eq!(reply.status, expect, "{body}: {}", reply.body);
    };
    check(json!({"mode": "plan", "asking": "sometimes"}), 400);
    check(json!({"mode": "plan", "model": "nobody-knows-it"}), 404);
    check(json!({"mode": "plan", "template": "none-such"}), 404);
    check(json!({"mode": "plan", "template": "../x"}), 400);
    check(json!({"mode": "plan", "history": "full", "template": "freeform-chat"}), 400);
    check(json!({"mode": "walk"}), 400);
    check(json!({"mood": "good"}), 400);
    let settings = server.get(&path);
    assert_eq!((&settings["mode"], &settings["asking"], &settings["agent"]), (&json!("chat"), &json!("tool"), &json!("cook")));
    check(json!({"mode": "agent", "asking": "always", "model": "gpt-5.4"}), 200);
    let settings = server.get(&path);
    assert_eq!(
        (&settings["mode"], &settings["asking"], &settings["model"]),
        (&json!("agent"), &json!("always"), &json!("gpt-5.4"))
    );
    assert_eq!(server.say(&id, "Hello", &[]).last().unwrap().0, "done");
}

#[test]
fn tools_templates_and_notes_are_found() {
    let server = Running::start();
    let id = server.post("/api/v1/sessions", json!({"model": "gpt-5.4", "mode": "chat"}))["id"].as_str().unwrap().to_owned();
    let tools = server.get(&format!("/api/v1/sessions/{id}/tools"));
    assert_eq!(
        (&tools["used"], &tools["asking"], &tools["servers"][0]["server"]),
        (&json!(true), &json!("tool"), &json!("foreword"))
    );
    let named =
        |name: &str| tools["servers"][0]["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap().clone();
    assert_eq!(
        (&named("writeNote")["asks"], &named("recall")["asks"], &named("readNote")["in_session"]),
        (&json!(true), &json!(false), &json!("always"))
    );
    let templates = server.get("/api/v1/templates");
    assert_eq!(templates.as_array().unwrap().iter().filter(|template| template["default"] == true).count(), 1);
    let shown = server.get("/api/v1/templates/freeform-chat");
    assert!(shown["text"].as_str().unwrap().contains("## "), "{shown}");
    assert_eq!(server.call("GET", "/api/v1/templates/..%2F..%2Fsecret", None).status, 400);
    assert_eq!(server.call("GET", "/api/v1/templates/nothing", None).status, 404);
    let flaws = server.post("/api/v1/templates/check", json!({"text": "---\npassthrough_runs: many\n---\n\n## Summary\n\nx\n"}));
    assert_eq!(flaws["flaws"].as_array().unwrap().len(), 1, "{flaws}");
    let found = server.get("/api/v1/vault/search?q=starter%20doubles");
    assert_eq!(found["results"][0]["path"], "Kitchen/Bread.md", "{found}");
    assert!(found["results"][0]["text"].as_str().unwrap().contains("four hours"));
    let found = server.get("/api/v1/vault/search?q=grams&kinds=rule");
    assert_eq!(found["results"][0]["path"], "rule:units", "{found}");
    assert_eq!(server.call("GET", "/api/v1/vault/search?q=%20", None).status, 400);
    assert_eq!(server.call("GET", "/api/v1/vault/search?q=x&kinds=secret", None).status, 400);
}

#[test]
fn a_system_prompt_is_changed_by_who_has_seen_it() {
    let server = Running::start();
    let path = "/api/v1/agents/cook";
    let change = |headers: &[(&str, &str)], prompt: &str| {
        server.call_with("PATCH", path, headers, Some(&json!({"system_prompt": prompt})))
    };
    let seen = server.call("GET", path, None);
    let tag = seen.header("etag").unwrap().to_owned();
    assert_eq!(
        (seen.json()["system_prompt"].as_str(), format!("{:?}", seen.json()["prompt_version"].as_str().unwrap())),
        (Some(""), tag.clone())
    );
    assert_eq!(change(&[], "You cook.").status, 428);
    assert_eq!(change(&[("if-match", "\"x\"")], "You cook.").status, 412);
    assert_eq!(change(&[("if-match", &tag)], "  ").status, 400);
    let done = change(&[("if-match", &tag)], "You cook.\n");
    assert_eq!(done.status, 204, "{}", done.body);
    assert_eq!(change(&[("if-match", &tag)], "You bake.").status, 412);
    let file = server.folder.path().join("vault/Foreword/Agents/cook/prompt.md");
    assert_eq!(fs::read_to_string(&file).unwrap(), "You cook.\n");
    let seen = server.call("GET", path, None);
    assert_eq!((seen.json()["system_prompt"].as_str(), seen.header("etag")), (Some("You cook."), done.header("etag")));
    // A session takes it when it takes its agent anew.
    let id = server.begin();
    let tag = done.header("etag").unwrap();
    assert_eq!(change(&[("if-match", tag)], "You bake.").status, 204);
    assert_eq!(server.call("POST", &format!("/api/v1/sessions/{id}/agent"), Some(&json!({}))).status, 204);
    server.say(&id, "One", &[]);
    let wire = server.get(&format!("/api/v1/sessions/{id}/requests/0/wire")).to_string();
    assert!(wire.contains("You bake.") && !wire.contains("You cook."), "{wire}");
    let nobody = server.call_with("PATCH", "/api/v1/agents/nobody", &[("if-match", tag)], Some(&json!({"system_prompt": "x"})));
    assert_eq!(nobody.status, 404);
}

#[test]
fn a_tools_include_mode_is_changed_by_who_has_seen_its_file() {
    let server = Running::start();
    let file = server.folder.path().join("vault/Foreword/Agents/cook/mcp.json");
    let text = "{\"mcpServers\": {\"fs\": {\"command\": \"x\"}}}\n";
    fs::write(&file, text).unwrap();
    let tag = foreword_engine::session::Hash::of(text).to_string();
    let change = |item: &str, tag: &str, body: Value| {
        server.call_with("PATCH", &format!("/api/v1/agents/cook/items/tool%3A{item}"), &[("if-match", tag)], Some(&body))
    };
    assert_eq!(change("fs%2Fread", &tag, json!({"priority": 3})).status, 400);
    assert_eq!(change("fs%2Fread", &tag, json!({"include": "agent", "text": "x"})).status, 400);
    assert_eq!(change("web%2Fread", &tag, json!({"include": "agent"})).status, 404);
    assert_eq!(change("fs%2Fread", "\"x\"", json!({"include": "agent"})).status, 412);
    let done = change("fs%2Fread", &tag, json!({"include": "manual"}));
    assert_eq!(done.status, 204, "{}", done.body);
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        "{\"mcpServers\": {\"fs\": {\"command\": \"x\", \"tools\": {\"read\": {\"include\": \"manual\"}}}}}\n"
    );
    assert_eq!(change("fs%2Fread", &tag, json!({"include": "agent"})).status, 412);
    assert_eq!(change("fs%2Fread", done.header("etag").unwrap(), json!({"include": "agent"})).status, 204);
    assert!(fs::read_to_string(&file).unwrap().contains("\"include\": \"agent\""));
}
