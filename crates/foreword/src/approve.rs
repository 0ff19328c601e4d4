//! Asking at the terminal before a tool runs.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use foreword_engine::tools::{Approval, Approve, Decision, Unattended};

use crate::paint::{Paint, shown};

/// What is shown of arguments and of what would be done; the rest is counted.
const MOST_LINES: usize = 40;

/// Whoever can be asked: the person at the terminal, or nobody.
pub(crate) fn approver() -> Box<dyn Approve> {
    if io::stdin().is_terminal() && io::stderr().is_terminal() { Box::new(Terminal) } else { Box::new(Unattended) }
}

/// The person at the terminal.
struct Terminal;

impl Approve for Terminal {
    fn ask(&mut self, approval: &Approval<'_>) -> Decision {
        let paint = Paint::stderr();
        eprintln!("\n{}", question(paint, approval));
        loop {
            eprint!("{} ", paint.with("1", "Allow it? [y]es, [a]lways in this session, [n]o:"));
            let _ = io::stderr().flush();
            let mut line = String::new();
            match io::stdin().lock().read_line(&mut line) {
                Ok(read) if read > 0 => {}
                _ => return Decision::No,
            }
            if let Some(decision) = decision(&line) {
                return decision;
            }
        }
    }
}

fn decision(line: &str) -> Option<Decision> {
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Some(Decision::Once),
        "a" | "always" => Some(Decision::Session),
        "n" | "no" => Some(Decision::No),
        _ => None,
    }
}

/// What a person has to see before saying yes.
fn question(paint: Paint, approval: &Approval<'_>) -> String {
    let name = paint.with("1", shown(approval.tool.name()));
    let arguments = serde_json::to_string_pretty(approval.arguments).unwrap_or_default();
    let mut lines = vec![format!("The model wants to use {name}:")];
    // What is to be done says more than what it is to be done with.
    match approval.preview {
        Some(preview) => lines.extend(bounded(preview).into_iter().map(|line| coloured(paint, &line))),
        None => lines.extend(bounded(&arguments).into_iter().map(|line| format!("  {line}"))),
    }
    lines.join("\n")
}

fn bounded(text: &str) -> Vec<String> {
    let count = text.lines().count();
    let mut lines: Vec<String> = text.lines().take(MOST_LINES).map(shown).collect();
    if count > MOST_LINES {
        lines.push(format!("… {} more lines", count - MOST_LINES));
    }
    lines
}

fn coloured(paint: Paint, line: &str) -> String {
    match line.chars().next() {
        Some('+') => format!("  {}", paint.with("32", line)),
        Some('-') => format!("  {}", paint.with("31", line)),
        _ => format!("  {line}"),
    }
}

#[cfg(test)]
mod tests {
    use foreword_engine::search::Kind;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_question_shows_what_would_be_done_and_nothing_moves_the_cursor() {
        let tool = foreword_engine::session::ItemId::tool("foreword", "writeNote");
        assert_eq!(tool.kind(), Kind::Tool);
        let arguments = json!({"path": "a\u{1b}[2J.md", "content": "x\n".repeat(100)});
        let check = |preview: Option<&str>, has: &[&str]| {
            let said = question(Paint::new(false), &Approval { tool: &tool, arguments: &arguments, preview });
            for words in has {
                assert!(said.contains(words), "{words:?} is not in {said}");
            }
            assert!(!said.contains('\u{1b}'), "{said}");
        };
        check(None, &["foreword/writeNote", "\"path\""]);
        check(Some("-a\n+\u{1b}b"), &["  -a\n", "+\u{fffd}b"]);
        check(Some(&"+x\n".repeat(100)), &["… 60 more lines"]);
    }

    #[test]
    fn answers() {
        for (line, expect) in
            [("y\n", Some(Decision::Once)), ("Always\n", Some(Decision::Session)), ("n", Some(Decision::No)), ("\n", None)]
        {
            assert_eq!(decision(line), expect);
        }
    }
}
