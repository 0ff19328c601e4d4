//! The description of the API: what the server says is what it says there, and everything that goes wrong is a problem document.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value, clippy::format_push_string)]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{Running, SCRIPT};
use foreword_server::{Limits, Reach, Token};
use serde_json::{Value, json};

/// The fields of an object as a schema has them, with those that must be there.
fn fields<'a>(document: &'a Value, schema: &'a Value, all: &mut BTreeMap<&'a str, &'a Value>, needed: &mut BTreeSet<&'a str>) {
    let schema = resolved(document, schema);
    for part in schema["allOf"].as_array().into_iter().flatten() {
        fields(document, part, all, needed);
    }
    all.extend(schema["properties"].as_object().into_iter().flatten().map(|(name, field)| (name.as_str(), field)));
    needed.extend(schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str));
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(name) => document.pointer(name.strip_prefix('#').unwrap()).unwrap_or_else(|| panic!("{name} is not there")),
        None => schema,
    }
}

/// Where a value is not what a schema says.
fn unlike(document: &Value, schema: &Value, value: &Value, place: &str) -> Option<String> {
    let schema = resolved(document, schema);
    if let Some(ways) = schema["oneOf"].as_array() {
        let found: Vec<Option<String>> = ways.iter().map(|way| unlike(document, way, value, place)).collect();
        return if found.iter().any(Option::is_none) { None } else { Some(format!("{place}: none of {found:?}")) };
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let kinds: Vec<&str> = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        kind => kind.as_str().into_iter().collect(),
    };
    let fits = kinds.is_empty() || kinds.contains(&kind) || (kind == "integer" && kinds.contains(&"number"));
    if !fits {
        return Some(format!("{place}: {kind} is none of {kinds:?}"));
    }
    match value {
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(at, item)| unlike(document, &schema["items"], item, &format!("{place}[{at}]")))
        }
        Value::Object(map) => {
            let (mut all, mut needed) = (BTreeMap::new(), BTreeSet::new());
            fields(document, schema, &mut all, &mut needed);
            if all.is_empty() {
                return None; // any object, or one with names that nobody knows before
            }
            if let Some(missing) = needed.iter().find(|name| !map.contains_key(**name)) {
                return Some(format!("{place}: {missing} is missing"));
            }
            map.iter().find_map(|(name, field)| match all.get(name.as_str()) {
                Some(schema) => unlike(document, schema, field, &format!("{place}.{name}")),
                None => Some(format!("{place}: {name} is not described")),
            })
        }
        _ => None,
    }
}

#[test]
fn answers_are_what_the_description_says() {
    let server = Running::start();
    let document = server.get("/api/v1/openapi.json");
    let id = server.post("/api/v1/sessions", json!({"agent": "cook", "model": "gpt-5.4", "mode": "chat"}))["id"]
        .as_str()
        .unwrap()
        .to_owned();
    server.say(&id, "One", &["Kitchen/Bread.md"]);
    server.say(&id, "Two", &[]);
    let message = server.get(&format!("/api/v1/sessions/{id}"))["messages"][0]["id"].clone();
    server.post(&format!("/api/v1/sessions/{id}/pins"), json!({"what": message}));
    let check = |method: &str, path: &str, address: &str, body: Option<Value>| {
        let address = address.replace("{id}", &id);
        let reply = server.call(method, &format!("/api/v1{address}"), body.as_ref());
        let status = reply.status.to_string();
        let responses = &document["paths"][format!("/api/v1{path}")][method.to_lowercase()]["responses"];
        let content = responses[&status]["content"].as_object().unwrap_or_else(|| panic!("{path} {status}: {}", reply.body));
        let schema = &content.values().next().unwrap()["schema"];
        assert_eq!(unlike(&document, schema, &reply.json(), address.as_str()), None);
        assert!(schema != &json!({"type": "object"}), "{path} says nothing");
    };
    check("GET", "/agents", "/agents", None);
    check("GET", "/agents/{agent}", "/agents/cook", None);
    check("GET", "/agents/{agent}", "/agents/nobody", None);
    check("GET", "/agents/{agent}/items/{item}", "/agents/cook/items/rule%3Atone", None);
    check("GET", "/models", "/models", None);
    check("GET", "/sessions", "/sessions", None);
    check("GET", "/sessions", "/sessions?before=x", None);
    check("GET", "/sessions/{session}", "/sessions/{id}", None);
    check("GET", "/sessions/{session}/items", "/sessions/{id}/items", None);
    check("GET", "/sessions/{session}/settings", "/sessions/{id}/settings", None);
    check("GET", "/sessions/{session}/tools", "/sessions/{id}/tools", None);
    check("GET", "/sessions/{session}/fold", "/sessions/{id}/fold", None);
    check("GET", "/sessions/{session}/pins", "/sessions/{id}/pins", None);
    check("GET", "/sessions/{session}/summaries", "/sessions/{id}/summaries", None);
    check("GET", "/sessions/{session}/requests", "/sessions/{id}/requests", None);
    check("GET", "/sessions/{session}/requests/{request}", "/sessions/{id}/requests/1", None);
    check("GET", "/sessions/{session}/requests/{request}/layers", "/sessions/{id}/requests/1/layers", None);
    check("GET", "/sessions/{session}/requests/{request}/diff", "/sessions/{id}/requests/1/diff", None);
    check("GET", "/sessions/{session}/requests/{request}/diff", "/sessions/{id}/requests/1/diff?before=1", None);
    check("GET", "/sessions/{session}/ledger", "/sessions/{id}/ledger", None);
    check("POST", "/sessions/{session}/preview", "/sessions/{id}/preview", Some(json!({"words": "Three"})));
    check("GET", "/ledger", "/ledger", None);
    check("GET", "/forwarded", "/forwarded", None);
    check("GET", "/forwarded/{number}", "/forwarded/1", None);
    check("GET", "/clients", "/clients", None);
    check("GET", "/search", "/search?q=One", None);
    check("GET", "/health", "/health", None);
}

#[test]
fn the_description_says_how_to_come_in() {
    let server = Running::start();
    let document = server.get("/api/v1/openapi.json");
    let schemes = &document["components"]["securitySchemes"];
    assert_eq!((&schemes["token"]["type"], &schemes["token"]["scheme"]), (&json!("http"), &json!("bearer")), "{schemes}");
    assert_eq!((&schemes["key"]["in"], &schemes["key"]["name"]), (&json!("header"), &json!("x-api-key")), "{schemes}");
    assert_eq!(document["security"], json!([{"token": []}, {"key": []}]));
    assert_eq!(document["paths"]["/api/v1/health"]["get"]["security"], json!([{}]));
    // Every name that is pointed to is there, and no route is described twice.
    let text = document.to_string();
    for name in text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(document.pointer(name).is_some(), "{name}");
    }
    let mut described = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let named: BTreeSet<&str> = parameters
                .filter(|parameter| parameter["in"] == "path")
                .filter_map(|parameter| parameter["name"].as_str())
                .collect();
            let expected: BTreeSet<&str> = path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect();
            assert_eq!(named, expected, "{method} {path}");
            assert!(described.insert((path, method)));
        }
    }
}

#[test]
fn everything_that_goes_wrong_is_a_problem_document() {
    let server = Running::start();
    let id = server.begin();
    let check = |method: &str, path: &str, status: u16, word: &str| {
        let path = path.replace("{id}", &id);
        let reply = server.call(method, &path, (method != "GET").then(|| json!({})).as_ref());
        assert_eq!(reply.status, status, "{method} {path}: {}", reply.body);
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{method} {path}: {}", reply.body);
        let problem = reply.json();
        assert_eq!(
            (&problem["status"], problem["type"].as_str()),
            (&json!(status), Some(&*format!("urn:foreword:problem:{word}")))
        );
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()) && problem["title"].is_string(), "{problem}");
        if status == 405 {
            assert!(reply.header("allow").is_some_and(|allow| !allow.is_empty()), "{method} {path}: {}", reply.head);
        }
    };
    check("POST", "/api/v1/health", 405, "wrong-method");
    check("PUT", "/api/v1/sessions", 405, "wrong-method");
    check("DELETE", "/api/v1/ledger", 405, "wrong-method");
    check("POST", "/api/v1/openapi.json", 405, "wrong-method");
    check("POST", "/", 405, "wrong-method");
    check("GET", "/api/v1/sessions/{id}/requests/one", 400, "bad-request");
    check("GET", "/api/v1/sessions/{id}/requests/-1/wire", 400, "bad-request");
    check("GET", "/api/v1/sessions/{id}/requests/99999999999999999999/layers", 400, "bad-request");
    check("GET", "/api/v1/sessions/{id}/requests/x/diff", 400, "bad-request");
    check("PUT", "/api/v1/sessions/{id}/messages/first", 400, "bad-request");
    check("POST", "/api/v1/sessions/{id}/approvals/x", 400, "bad-request");
    check("GET", "/api/v1/forwarded/x", 400, "bad-request");
    check("GET", "/api/v1/forwarded/7", 404, "not-found");
    check("GET", "/api/v1/forwarded?before=x", 400, "bad-request");
    check("GET", "/api/v1/sessions/%ff", 400, "bad-request");
    check("GET", "/api/v1/agents/%ff", 400, "bad-request");
    check("GET", "/api/v1/templates/%ff", 400, "bad-request");
    check("GET", "/api/v1/sessions/%ff/settings", 400, "bad-request");
    check("GET", "/api/v1/sessions?limit=x", 400, "bad-request");
    check("GET", "/api/v1/sessions?client=maybe", 400, "bad-request");
    check("GET", "/api/v1/nothing", 404, "not-found");
    check("POST", "/api/v1/sessions/{id}/messages", 400, "bad-request");
}

#[test]
fn a_message_names_a_limited_number_of_attachments() {
    let server = Running::start();
    let id = server.begin();
    for path in ["/api/v1/preview", "/api/v1/sessions/{id}/preview", "/api/v1/sessions/{id}/messages"] {
        for number in [257, 100_000] {
            let body = json!({"words": "hello", "attach": vec!["Garden.md"; number]});
            let reply = server.call("POST", &path.replace("{id}", &id), Some(&body));
            assert_eq!(reply.status, 400, "{path}: {}", reply.body);
            let detail = reply.json()["detail"].as_str().unwrap_or_default().to_owned();
            assert!(detail.contains(&format!("has {number} attachments; the limit is 256")), "{path}: {detail}");
        }
    }
}

#[test]
fn a_client_of_the_gateway_is_refused_in_its_own_words() {
    let reach = Reach::Network { token: Token::of("sesame"), hosts: Vec::new() };
    let server = Running::with(SCRIPT, reach, Limits::default());
    let token = ("authorization", "Bearer sesame");
    let check = |method: &str, path: &str, headers: &[(&str, &str)], status: u16, anthropic: bool| {
        let reply = server.call_with(method, path, headers, (method == "POST").then(|| json!({})).as_ref());
        assert_eq!(reply.status, status, "{method} {path}: {}", reply.body);
        assert_eq!(reply.header("content-type"), Some("application/json"), "{method} {path}");
        let body = reply.json();
        assert!(body["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
        assert!(body["error"]["type"].is_string() && (body["type"] == "error") == anthropic, "{path}: {body}");
    };
    check("POST", "/v1/chat/completions", &[], 401, false);
    check("POST", "/v1/responses", &[], 401, false);
    check("POST", "/v1/messages", &[], 401, true);
    check("GET", "/v1/models", &[], 401, false);
    check("GET", "/v1/models", &[("anthropic-version", "2023-06-01")], 401, true);
    check("POST", "/v1/messages", &[token, ("origin", "http://evil.example")], 403, true);
    check("GET", "/v1/messages", &[token], 404, true);
    check("GET", "/v1/chat/completions", &[token], 404, false);
    check("POST", "/v1/embeddings", &[token], 404, false);
    let outside = server.call("GET", "/api/v1/sessions", None);
    assert_eq!((outside.status, outside.header("content-type")), (401, Some("application/problem+json")));
}
