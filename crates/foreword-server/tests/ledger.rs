//! What the ledger says: all that was paid for, each part once, and only folds called folds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value, clippy::format_push_string)]

mod common;

use common::Running;
use foreword_server::Limits;
use serde_json::{Value, json};

/// A plan, then answers: each is the reply to whatever is asked next.
const PLANNED: &str = r#"{"replies": [{"text": "[]"}, {"text": "Planned."}]}"#;
const LONG: &str = concat!(
    r#"{"replies": [{"text": "The user asked for bread. The oven stands at 240 degrees. The flour is rye. "#,
    "The dough rests in the tin until it has doubled, which takes longer where the room is cold and the starter is young. ",
    "Whoever bakes it too early has a flat loaf, and whoever waits too long has a sour one, so it is looked at every half an hour. ",
    "A wet finger leaves a mark that comes back slowly, and then the tin goes into the oven with a bowl of water below it. ",
    r#"After a quarter of an hour the heat goes down and the loaf stays in until it sounds hollow."}]}"#
);

fn begin(server: &Running, more: Value) -> String {
    let mut new = json!({"model": "gpt-5.4", "mode": "chat"});
    new.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.post("/api/v1/sessions", new)["id"].as_str().unwrap().to_owned()
}

/// All rows together are everything, and every session's own figures are its row.
fn adds_up(server: &Running) -> Value {
    let ledger = server.get("/api/v1/ledger");
    let sessions = ledger["sessions"].as_array().unwrap();
    let days = ledger["days"].as_array().unwrap();
    for name in ledger["all"].as_object().unwrap().keys() {
        let sum = |rows: &[Value]| rows.iter().map(|row| row[name].as_f64().unwrap()).sum::<f64>();
        let all = ledger["all"][name].as_f64().unwrap();
        for (what, sum) in [("sessions", sum(sessions) + ledger["forwarded"][name].as_f64().unwrap()), ("days", sum(days))] {
            assert!((all - sum).abs() < 1e-9, "{what} {name}: {ledger}");
        }
    }
    for row in sessions {
        let own = server.get(&format!("/api/v1/sessions/{}/ledger", row["of"].as_str().unwrap()));
        // The history is what stands in the session now; the row is what it paid.
        let mut paid = own.as_object().unwrap().iter().filter(|(name, _)| *name != "history");
        assert!(paid.all(|(name, figure)| row[name] == *figure), "{own} {row}");
    }
    ledger
}

#[test]
fn a_plan_is_paid_for() {
    let server = Running::with(PLANNED, common::loopback(), Limits::default());
    let plain = begin(&server, json!({}));
    server.say(&plain, "What do my notes say of bread?", &[]);
    let planned = begin(&server, json!({"mode": "plan"}));
    server.say(&planned, "What do my notes say of bread?", &[]);
    let ledger = adds_up(&server);
    let row = |id: &str| ledger["sessions"].as_array().unwrap().iter().find(|row| row["of"] == id).unwrap().clone();
    let (plain, planned) = (row(&plain), row(&planned));
    assert_eq!((&plain["requests"], &plain["asides"], &plain["asides_cost"]), (&json!(1), &json!(0), &json!(0.0)));
    assert_eq!((&planned["requests"], &planned["asides"]), (&json!(1), &json!(1)), "{planned}");
    let dollars = |row: &Value, name: &str| row[name].as_f64().unwrap();
    // The report is about requests; what plans cost is only in the ledger.
    let report = server.get("/api/v1/ledger/report");
    assert_eq!((&report["calls"], report["drawn"].as_array().map(Vec::len)), (&json!(2), Some(2)), "{report}");
    let requests = dollars(&ledger["all"], "cost") - dollars(&ledger["all"], "asides_cost");
    assert!((dollars(&report, "cost") - requests).abs() < 1e-9, "{report}");
    assert!(dollars(&planned, "asides_cost") > 0.0 && dollars(&planned, "cost") > dollars(&planned, "asides_cost"), "{planned}");
    assert!(planned["fresh"].as_u64() > plain["fresh"].as_u64() && planned["output"].as_u64() > plain["output"].as_u64());
}

#[test]
fn summaries_are_paid_for() {
    let server = Running::with(LONG, common::loopback(), Limits::default());
    let template = "---\npassthrough_runs: 1\ntoken_threshold: 0\nrecent_runs: 3\n---\n\n## Summary\n\nWhat was said?\n";
    let folder = server.folder.path().join("vault/Foreword/ContextTemplates");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("short.md"), template).unwrap();
    server.trust_everything();
    let id = begin(&server, json!({"layout": "library", "template": "short"}));
    let words = "The oven stands at 240 degrees, and the flour is rye, which takes more water than wheat does. ".repeat(8);
    for _ in 0..4 {
        server.say(&id, &words, &[]);
    }
    let views = server.get(&format!("/api/v1/sessions/{id}/summaries"))["views"].clone();
    let paid: f64 = views.as_array().unwrap().iter().map(|view| view["figures"]["cost"].as_f64().unwrap()).sum();
    let ledger = adds_up(&server);
    assert!(paid > 0.0 && (ledger["all"]["asides_cost"].as_f64().unwrap() - paid).abs() < 1e-12, "{ledger} {views}");
    assert_eq!((&ledger["all"]["requests"], ledger["all"]["asides"].as_u64() > Some(0)), (&json!(4), true));
}

#[test]
fn what_was_answered_anew_was_paid_twice_and_a_fork_pays_for_itself() {
    let server = Running::with(LONG, common::loopback(), Limits::default());
    let id = begin(&server, json!({}));
    let path = |rest: &str| format!("/api/v1/sessions/{id}{rest}");
    server.say(&id, "One", &[]);
    server.say(&id, "Two", &[]);
    let begun = server.post(&path("/regenerate"), json!({}));
    server.events(&id, begun["event"].as_str(), |name| name == "done");
    assert_eq!(adds_up(&server)["all"]["requests"], 3);
    let fork = server.post(&path("/fork"), json!({"turn": 1}))["id"].as_str().unwrap().to_owned();
    assert_eq!(server.get(&format!("/api/v1/sessions/{fork}/ledger"))["requests"], 0);
    server.say(&fork, "Three", &[]);
    let ledger = adds_up(&server);
    let requests =
        |of: &str| ledger["sessions"].as_array().unwrap().iter().find(|row| row["of"] == of).unwrap()["requests"].clone();
    assert_eq!((requests(&id), requests(&fork), &ledger["all"]["requests"]), (json!(3), json!(1), &json!(4)));
}

#[test]
fn only_folds_are_called_folds() {
    let server = Running::with(LONG, common::loopback(), Limits::default());
    let id = begin(&server, json!({"agent": "cook"}));
    let path = |rest: &str| format!("/api/v1/sessions/{id}{rest}");
    // What a step makes of the figures: folds and epochs.
    let check = |what: &str, expect: (u64, u64)| {
        server.say(&id, what, &["Kitchen/Bread.md"]);
        let ledger = server.get(&path("/ledger"));
        assert_eq!((ledger["folds"].as_u64().unwrap(), ledger["epochs"].as_u64().unwrap()), expect, "{what}");
        let bars = server.get(&path("/requests"));
        let count =
            |name: &str, is: &dyn Fn(&Value) -> bool| bars.as_array().unwrap().iter().filter(|bar| is(&bar[name])).count() as u64;
        let folded = count("folded", &|folded| folded == true);
        assert_eq!((folded, count("began", &|began| !began.is_null())), expect, "{what}: {bars}");
    };
    for words in ["Bread?", "And the oven?", "And the flour?", "And then?"] {
        check(words, (0, 0));
    }
    assert_eq!(server.call("POST", &path("/fold"), Some(&json!({}))).status, 204);
    check("Folded", (1, 1));
    assert_eq!(server.call("DELETE", &path("/fold"), None).status, 204);
    check("Undone", (1, 2));
    assert_eq!(server.call("PATCH", &path("/settings"), Some(&json!({"model": "gpt-5.4-mini"}))).status, 200);
    check("Another model", (1, 3));
    let fork = server.post(&path("/fork"), json!({"turn": 2}))["id"].as_str().unwrap().to_owned();
    server.say(&fork, "Elsewhere", &[]);
    let own = server.get(&format!("/api/v1/sessions/{fork}/ledger"));
    assert_eq!((&own["folds"], &own["epochs"]), (&json!(0), &json!(1)), "{own}");
    adds_up(&server);
}
