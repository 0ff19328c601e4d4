//! Questions about the example vault whose answers are known, as a person would ask them, through the real binary: what answers them is on
//! the screen, above the words of the small model. `cargo xtask bench answers` asks the model itself too.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../foreword-models/tests/weights/mod.rs"]
mod test_weights;

use std::path::Path;
use std::process::{Command, Output};
use std::{fs, thread};

use serde_json::{Value, json};
use tempfile::TempDir;

const LABEL: &str = "Answer of the small model (often wrong";

/// A copy of the example vault; nothing of the user's own is seen.
struct Place {
    folder: TempDir,
}

impl Place {
    /// None where the weights are not here; `cargo xtask test` sees to them.
    fn new() -> Option<Self> {
        test_weights::test_models()?;
        let folder = TempDir::new().unwrap();
        let vault = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/vault");
        copy(&vault, &folder.path().join("vault"));
        let script = json!({"replies": [{"text": "These are the model's words."}]});
        fs::write(folder.path().join("script.json"), script.to_string()).unwrap();
        Some(Self { folder })
    }

    fn ask(&self, question: &str, more: &[&str]) -> Output {
        let path = |name: &str| self.folder.path().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreword"));
        command.arg("ask").arg(path("vault")).args([question, "--mode", "qa"]).args(more);
        command.env("FOREWORD_CACHE", path("cache")).env("FOREWORD_STATE", path("state")).env("XDG_CONFIG_HOME", path("config"));
        command.env_remove("FOREWORD_CONFIG").current_dir(self.folder.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{question}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }

    fn screen(&self, question: &str, more: &[&str]) -> String {
        String::from_utf8(self.ask(question, more).stdout).unwrap()
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() { copy(&from, &to) } else { fs::copy(&from, &to).map(drop).unwrap() }
    }
}

/// A text on one line without quote marks, in lower case.
fn flat(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim_start_matches("> "));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ").to_lowercase()
}

#[test]
fn what_answers_a_question_is_on_the_screen() {
    let Some(place) = Place::new() else { return };
    let questions = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/questions/vault.jsonl")).unwrap();
    let questions: Vec<Value> = questions.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(questions.len(), 40);
    let script = ["--script", "script.json"];
    // The first one reads the vault; the others find it read.
    place.screen("What is there?", &script);
    let missed = |questions: &[Value]| -> Vec<String> {
        let wanted = questions.iter().filter_map(|question| {
            let (asked, fact) = (question["question"].as_str().unwrap(), question["fact"].as_str().unwrap());
            let screen = place.screen(asked, &script);
            let (above, below) = screen.split_once(LABEL).unwrap();
            assert!(above.starts_with("[1] ") && below.ends_with("These are the model's words.\n"), "{asked}: {screen}");
            (!flat(above).contains(&flat(fact))).then(|| format!("{asked} ({fact})"))
        });
        wanted.collect()
    };
    let missed: Vec<String> = thread::scope(|scope| {
        let parts: Vec<_> = questions.chunks(20).map(|part| scope.spawn(|| missed(part))).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    assert!(missed.len() <= 2, "{missed:#?}");
}

#[test]
fn the_small_model_answers_below_what_it_read() {
    let Some(place) = Place::new() else { return };
    let screen = place.screen("Why did my loaf come out so flat?", &[]);
    let (above, below) = screen.split_once(LABEL).unwrap();
    assert!(above.contains("[1] Kitchen/Bread.md") && above.contains("it proved too long"), "{screen}");
    assert!(below.lines().count() > 1, "{screen}");
}

#[test]
fn other_models_answer_first() {
    let Some(place) = Place::new() else { return };
    let output = place.ask("Why did my loaf come out so flat?", &["--script", "script.json", "--model", "gpt-5.4"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "These are the model's words.\n");
    let beside = String::from_utf8(output.stderr).unwrap();
    assert!(beside.contains("sources:") && beside.contains("[1] Kitchen/Bread.md > When it fails (0."), "{beside}");
    let script = ["--script", "script.json", "--model", "gpt-5.4", "--json"];
    let report: Value = serde_json::from_str(&place.screen("Why did my loaf come out so flat?", &script)).unwrap();
    let first = &report["sources"][0];
    assert_eq!((&first["path"], &first["number"]), (&json!("Kitchen/Bread.md"), &json!(1)));
    assert!(first["text"].as_str().unwrap().contains("it proved too long"), "{report}");
}
