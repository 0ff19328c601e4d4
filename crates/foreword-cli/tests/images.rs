//! Images through the real binary: which go out, in each provider's words, and what the user is told where none can.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A PNG of one pixel.
const DOT: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, 0x49, 0x48, 0x44, 0x52, 0, 0, 0, 1, 0, 0, 0, 1, 8, 6, 0, 0, 0,
    0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 0x0d, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0x64, 0xf8, 0xcf, 0x50, 0x0f, 0, 3, 0x86, 1,
    0x80, 0x5a, 0x34, 0x7d, 0x6b, 0, 0, 0, 0, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];
/// How the base64 of it begins.
const SENT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB";

struct Place {
    vault: TempDir,
    other: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { vault: TempDir::new().unwrap(), other: TempDir::new().unwrap() };
        for (name, bytes) in [
            ("Home/pic.png", DOT),
            // Its name says something else than its bytes.
            ("Home/photo.jpg", DOT),
            ("Home/Plan.md", b"# Plan\n\n![[pic.png]] and once more ![[pic.png]]\n".as_slice()),
            ("Diary.md", b"# Diary\n\n![[pic.png]]\n".as_slice()),
            ("Bad.md", b"# Bad\n\n```dataview\nLIST WHERE foo(\n```\n\n```dataview\nLIST WHERE foo(\n```\n".as_slice()),
        ] {
            let path = place.vault.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        fs::write(place.script(), json!({"replies": [{"text": "A dot."}]}).to_string()).unwrap();
        place
    }

    fn script(&self) -> String {
        self.other.path().join("script.json").to_str().unwrap().to_owned()
    }

    /// What a command prints on stdout and on stderr.
    fn run(&self, arguments: &[&str], typed: &str) -> (String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreword"));
        command.args(arguments).current_dir(self.vault.path());
        command
            .env("FOREWORD_CACHE", self.other.path().join("cache"))
            .env("FOREWORD_STATE", self.other.path().join("state"))
            .env("XDG_CONFIG_HOME", self.other.path().join("config"))
            .env("PIP_NO_INDEX", "1");
        for variable in ["FOREWORD_MODELS", "FOREWORD_CONFIG", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"] {
            command.env_remove(variable);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let [out, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(output.status.success(), "{arguments:?}: {out}{errors}");
        (out, errors)
    }

    /// How often the image is in the request that a question would lead to, and what is said about it.
    fn images(&self, model: &str, more: &[&str]) -> (usize, String) {
        let ask = ["ask", ".", "What is it?", "--model", model, "--dry-run", "--wire"];
        let (wire, errors) = self.run(&[&ask, more].concat(), "");
        (wire.matches(SENT).count(), errors)
    }
}

#[test]
fn images_reach_every_provider_that_takes_them() {
    let place = Place::new();
    let check = |more: &[&str], expect: usize| {
        for model in ["gpt-5.4", "gpt-6.1-sol", "claude-sonnet-5", "gemini-3.8-flash", "ollama/llava"] {
            assert_eq!(place.images(model, more).0, expect, "{model} {more:?}");
        }
    };
    check(&["--attach", "Home/pic.png"], 1);
    check(&["--attach", "Home/photo.jpg"], 1);
    check(&["--active", "Plan"], 1);
    check(&["--active", "Home/Plan.md", "--attach", "Home/pic.png", "--attach", "Home/photo.jpg"], 1);
    // Only the open note's images are sent along.
    check(&["--attach", "Diary"], 0);
}

#[test]
fn the_type_of_an_image_is_that_of_its_bytes() {
    let place = Place::new();
    let ask = ["ask", ".", "What?", "--model", "claude-sonnet-5", "--dry-run", "--wire", "--attach", "Home/photo.jpg"];
    let (wire, _) = place.run(&ask, "");
    assert!(wire.contains(r#""media_type":"image/png""#) && !wire.contains("image/jpeg"), "{wire}");
}

#[test]
fn a_model_without_images_is_named_to_the_user() {
    let place = Place::new();
    let (sent, errors) = place.images("deepseek-chat", &["--attach", "Home/pic.png"]);
    assert_eq!(sent, 0);
    assert!(errors.contains("the model deepseek-chat does not support images, so these were not sent: Home/pic.png"), "{errors}");
    let ask = ["ask", ".", "What?", "--model", "deepseek-chat", "--active", "Plan", "--script", &place.script()];
    let (_, errors) = place.run(&ask, "");
    assert_eq!(errors.matches("does not support images").count(), 1, "{errors}");
}

#[test]
fn a_chat_has_an_open_note() {
    let place = Place::new();
    let (_, errors) = place.run(
        &["chat", ".", "--model", "claude-sonnet-5", "--script", &place.script()],
        "/active\n/active Plan\nWhat is it?\nAnd now?\n/active none\nWithout it?\n",
    );
    let request = |point: &str| -> Value { serde_json::from_str(&place.run(&["inspect", point, "--json"], "").0).unwrap() };
    let has = |point: &str, item: &str| {
        let context = request(point)["context"].clone();
        context.as_array().unwrap().iter().any(|entry| entry["item"] == item)
    };
    assert!(has("last@1", "note:Home/Plan.md") && has("last@1", "image:Home/pic.png"), "{errors}");
    // It stands above, and is neither sent nor counted again.
    assert!(has("last@2", "note:Home/Plan.md") && !has("last@2", "image:Home/pic.png"), "{errors}");
    let image =
        request("last@1")["context"].as_array().unwrap().iter().find(|entry| entry["item"] == "image:Home/pic.png").cloned();
    assert_eq!(image.unwrap()["tokens"], 1);
}

#[test]
fn a_warning_about_a_query_is_given_once() {
    let place = Place::new();
    let ask = ["ask", ".", "What?", "--script", &place.script(), "--model", "gpt-5.4", "--attach", "Bad", "--active", "Bad"];
    let (_, errors) = place.run(&ask, "");
    assert_eq!(errors.matches("a query block was left as it is").count(), 1, "{errors}");
    let chat = ["chat", ".", "--script", &place.script(), "--model", "gpt-5.4", "--attach", "Bad"];
    let (_, errors) = place.run(&chat, "[[Bad]] what?\n[[Bad]] again?\n");
    assert_eq!(errors.matches("a query block was left as it is").count(), 1, "{errors}");
}

#[test]
fn a_missing_embedding_model_is_told_to_the_user_once() {
    let place = Place::new();
    let chat = ["chat", ".", "--mode", "qa", "--script", &place.script(), "--model", "gpt-5.4"];
    let (_, errors) = place.run(&chat, "What is the plan?\nAnd the diary?\n");
    assert_eq!(errors.matches("the notes are searched by words alone").count(), 1, "{errors}");
    assert!(errors.contains("foreword models fetch"), "{errors}");
}
