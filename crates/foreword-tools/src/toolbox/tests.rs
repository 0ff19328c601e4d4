#![allow(clippy::needless_pass_by_value)] // a table of cases reads better without ampersands

use std::sync::Mutex;

use foreword_core::catalog::Permission::{NotRequired, Required};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::SessionPins;

/// A tool that says what it was given.
struct Echo {
    name: &'static str,
    permission: Option<Permission>,
}

impl Builtin for Echo {
    fn tool(&self) -> Tool {
        Tool {
            server: "ignored".to_owned(),
            name: self.name.to_owned(),
            description: None,
            schema: json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}),
            include: None,
            permission: self.permission,
            read_only: true,
        }
    }

    fn preview(&mut self, arguments: &Value) -> Result<Option<String>, String> {
        if arguments["text"] == "bad" {
            Err("cannot be done".to_owned())
        } else {
            Ok(Some(format!("would say {}", arguments["text"])))
        }
    }

    fn run(&mut self, arguments: &Value) -> Output {
        Output::done(arguments["text"].as_str().unwrap())
    }
}

/// Someone who answers always the same, and keeps what was asked.
struct Person(Decision, Arc<Mutex<Vec<String>>>);

impl Approve for Person {
    fn ask(&mut self, approval: &Approval<'_>) -> Decision {
        self.1.lock().unwrap().push(format!("{} {} {}", approval.tool, approval.arguments, approval.preview.unwrap_or_default()));
        self.0
    }
}

fn toolbox(permission: Option<Permission>, asking: Asking, decision: Decision) -> (Toolbox, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::default();
    let builtins: Vec<Box<dyn Builtin>> =
        vec![Box::new(Echo { name: "say", permission }), Box::new(Echo { name: "echo", permission })];
    (
        Toolbox::new(builtins, Vec::new(), asking, Box::new(Person(decision, Arc::clone(&asked))), Box::<SessionPins>::default()),
        asked,
    )
}

fn call(toolbox: &mut Toolbox, tool: &str, arguments: Value) -> Output {
    toolbox.call(&tool.parse().unwrap(), &arguments, &CancellationToken::new())
}

#[test]
fn built_in_tools_stand_under_our_own_server_in_order() {
    let (mut toolbox, _) = toolbox(None, Asking::Tool, Decision::No);
    let ids: Vec<_> = toolbox.tools().iter().map(|tool| tool.id().to_string()).collect();
    assert_eq!(ids, ["tool:foreword/echo", "tool:foreword/say"]);
    assert_eq!(toolbox.servers(), [Server { name: "foreword".into(), include: None, permission: None }]);
    assert!(!toolbox.changed());
}

#[test]
fn who_is_asked_when() {
    #[track_caller]
    fn check(permission: Option<Permission>, asking: Asking, decision: Decision, expect: (usize, &str)) {
        let (mut toolbox, asked) = toolbox(permission, asking, decision);
        let output = call(&mut toolbox, "tool:foreword/say", json!({"text": "hi"}));
        assert_eq!((asked.lock().unwrap().len(), output.text.as_str()), expect);
        assert_eq!(output.failed, expect.1 != "hi");
    }
    const NO: &str = "foreword/say was not run: the user did not allow it. Do not try it again unless the user asks for it.";
    const ABSENT: &str =
        "foreword/say was not run: it needs the user's approval, and nobody is there to give it. Go on without it.";
    check(None, Asking::Tool, Decision::Once, (1, "hi"));
    check(None, Asking::Tool, Decision::No, (1, NO));
    check(None, Asking::Tool, Decision::Absent, (1, ABSENT));
    check(Some(Required), Asking::Tool, Decision::No, (1, NO));
    check(Some(NotRequired), Asking::Tool, Decision::No, (0, "hi"));
    check(Some(NotRequired), Asking::Always, Decision::No, (1, NO));
    check(Some(NotRequired), Asking::Always, Decision::Session, (1, "hi"));
    check(Some(Required), Asking::Never, Decision::No, (0, "hi"));
}

#[test]
fn an_approval_for_the_session_is_for_one_tool() {
    let (mut toolbox, asked) = toolbox(None, Asking::Tool, Decision::Session);
    for tool in ["say", "say", "echo", "say"] {
        assert!(!call(&mut toolbox, &format!("tool:foreword/{tool}"), json!({"text": "hi"})).failed);
    }
    let shown = asked.lock().unwrap().clone();
    assert_eq!(
        shown,
        [r#"tool:foreword/say {"text":"hi"} would say "hi""#, r#"tool:foreword/echo {"text":"hi"} would say "hi""#]
    );
}

#[test]
fn what_cannot_run_says_why() {
    #[track_caller]
    fn check(tool: &str, arguments: Value, expect: &str) {
        let (mut toolbox, asked) = toolbox(None, Asking::Tool, Decision::Once);
        assert_eq!(call(&mut toolbox, tool, arguments), Output::failed(expect));
        assert!(asked.lock().unwrap().is_empty(), "nobody is asked about what cannot run");
    }
    let fit = "foreword/say was not run: its arguments do not fit its schema.\n";
    check("tool:foreword/say", json!({"text": 1}), &format!("{fit}/text: found the number 1, expected a string"));
    check("tool:foreword/say", Value::Null, &format!("{fit}arguments: required and missing: \"text\""));
    check("tool:foreword/say", json!({"text": "bad"}), "cannot be done");
    check("tool:foreword/sing", json!({}), "There is no tool \"foreword/sing\". The tools are: foreword/echo, foreword/say.");
    check("note:foreword/say", json!({}), "There is no tool \"foreword/say\". The tools are: foreword/echo, foreword/say.");
}

#[test]
fn a_stopped_turn_runs_nothing() {
    let (mut toolbox, _) = toolbox(Some(NotRequired), Asking::Tool, Decision::Once);
    let stop = CancellationToken::new();
    stop.cancel();
    let output = toolbox.call(&"tool:foreword/say".parse().unwrap(), &json!({"text": "hi"}), &stop);
    assert_eq!(output, Output::failed("foreword/say was not run: the user stopped this turn."));
}
