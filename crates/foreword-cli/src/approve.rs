//! Asks at the terminal before a tool runs. The whole call is shown, page by page, before it can be approved.

use std::io::{self, BufRead as _, IsTerminal as _, Write};

use foreword_engine::hidden::visible;
use foreword_vault_tools::{Approval, Approve, Decision, Unattended};

use crate::paint::{Paint, count, width};
use crate::terminal::{self, Stream};

/// Lines per page.
const PAGE_LINES: usize = 40;

/// The indentation of a page's lines.
const INDENT: &str = "  ";

/// Asks the user at the terminal, or declines if there is none.
pub(crate) fn approver() -> Box<dyn Approve> {
    if io::stdin().is_terminal() && Stream::Stderr.is_terminal() { Box::new(Terminal) } else { Box::new(Unattended) }
}

/// The user at the terminal.
struct Terminal;

impl Approve for Terminal {
    fn ask(&mut self, approval: &Approval<'_>) -> Decision {
        let mut answer = || {
            let mut line = String::new();
            let read = io::stdin().lock().read_line(&mut line).unwrap_or(0);
            (read > 0).then_some(line)
        };
        ask(approval, Paint::stderr(), width(Stream::Stderr), &mut terminal::stderr(), &mut answer)
    }
}

/// An answer of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Decided(Decision),
    /// Show the next page.
    More,
    /// Show all of the rest.
    All,
}

/// Shows the call and asks for a decision. `answer` returns the next line that the user types, or `None` at the end of input.
fn ask(
    approval: &Approval<'_>,
    paint: Paint,
    width: usize,
    out: &mut dyn Write,
    answer: &mut dyn FnMut() -> Option<String>,
) -> Decision {
    let lines = lines(approval, width);
    let name = paint.with("1", visible(approval.tool.name()));
    let _ = writeln!(out, "\nThe model wants to use {name}:");
    let mut rest = lines.as_slice();
    let mut page = PAGE_LINES;
    loop {
        let (shown, unseen) = rest.split_at(page.min(rest.len()));
        rest = unseen;
        for line in shown {
            let _ = writeln!(out, "{INDENT}{}", coloured(paint, line));
        }
        let decided = loop {
            let question = if rest.is_empty() {
                "Allow it? [y]es, [a]lways in this session, [n]o:".to_owned()
            } else {
                format!("{} not shown yet. [m]ore, [v]iew all, [n]o:", count(rest.len(), "line"))
            };
            let _ = write!(out, "{} ", paint.with("1", question)).and_then(|()| out.flush());
            let Some(typed) = answer() else { return Decision::No };
            match self::answer(&typed) {
                // A call cannot be allowed before all of it was shown.
                Some(Answer::Decided(Decision::Once | Decision::Session)) if !rest.is_empty() => {
                    let _ = writeln!(out, "View the rest before you allow it.");
                }
                Some(Answer::Decided(decision)) => return decision,
                Some(Answer::More | Answer::All) if rest.is_empty() => {}
                Some(more) => break more,
                None => {}
            }
        };
        page = if decided == Answer::All { usize::MAX } else { PAGE_LINES };
    }
}

fn answer(line: &str) -> Option<Answer> {
    Some(match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Answer::Decided(Decision::Once),
        "a" | "always" => Answer::Decided(Decision::Session),
        "n" | "no" => Answer::Decided(Decision::No),
        "m" | "more" => Answer::More,
        "v" | "view" | "view all" => Answer::All,
        _ => return None,
    })
}

/// A line of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    text: String,
    /// In a diff, the first character of the line that it belongs to.
    mark: Option<char>,
}

/// The text to show before a decision, wrapped to the screen: each part of a long line counts as shown.
fn lines(approval: &Approval<'_>, width: usize) -> Vec<Line> {
    let room = width.saturating_sub(INDENT.len()).max(20);
    let mut lines = Vec::new();
    let mut add = |text: &str, is_diff: bool| wrap(&visible(text), is_diff, room, &mut lines);
    if let Some(change) = approval.change {
        add("This tool is new, or its server changed it since you allowed it. Its definition now:", false);
        add(change, true);
        add("Arguments:", false);
    }
    // A preview, such as a diff, says more than the arguments.
    match approval.preview {
        Some(preview) => add(preview, true),
        None => add(&serde_json::to_string_pretty(approval.arguments).unwrap_or_default(), false),
    }
    lines
}

fn wrap(text: &str, is_diff: bool, room: usize, lines: &mut Vec<Line>) {
    for line in text.lines() {
        let mark = line.chars().next().filter(|_| is_diff);
        let mut chars = line.chars().flat_map(|c| if c == '\t' { vec![' '; 4] } else { vec![c] }).peekable();
        loop {
            lines.push(Line { text: chars.by_ref().take(room).collect(), mark });
            if chars.peek().is_none() {
                break;
            }
        }
    }
}

fn coloured(paint: Paint, line: &Line) -> String {
    match line.mark {
        Some('+') => paint.with("32", &line.text),
        Some('-') => paint.with("31", &line.text),
        _ => line.text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use foreword_engine::session::ItemId;
    use serde_json::json;

    use super::*;

    /// Asks with these answers: what was decided, what was shown, and how many answers were left.
    fn asked(preview: Option<&str>, answers: &[&str]) -> (Decision, String, usize) {
        let tool = ItemId::tool("foreword", "writeNote");
        let arguments = json!({"path": "a\u{1b}[2J\u{202e}.md", "content": "x\n".repeat(100)});
        let approval = Approval { tool: &tool, arguments: &arguments, preview, change: None };
        let (mut out, mut left) = (Vec::new(), answers.iter());
        let mut next = || left.next().map(|&line| line.to_owned());
        let decision = ask(&approval, Paint::new(false), 80, &mut out, &mut next);
        (decision, String::from_utf8(out).unwrap(), left.count())
    }

    #[test]
    fn all_of_a_change_is_shown_before_it_can_be_allowed() {
        let long: Vec<String> = (0..100).map(|line| format!("+line {line}")).collect();
        let long = long.join("\n");
        let check = |answers: &[&str], expect: Decision, shown: usize| {
            let (decision, said, left) = asked(Some(&long), answers);
            assert_eq!((decision, left), (expect, 0), "{answers:?}");
            assert_eq!(said.matches("  +line ").count(), shown, "{answers:?}");
        };
        check(&["y"], Decision::No, 40);
        check(&["y", "a", "always", "yes", "n"], Decision::No, 40);
        check(&["m", "y", "n"], Decision::No, 80);
        check(&["m", "m", "y"], Decision::Once, 100);
        check(&["v", "a"], Decision::Session, 100);
        check(&["", "what", "view", "more", "y"], Decision::Once, 100);
        check(&["n"], Decision::No, 40);
        check(&[], Decision::No, 40);
        let (_, said, _) = asked(Some(&long), &["y", "n"]);
        assert!(said.contains("60 lines not shown yet") && said.contains("View the rest before"), "{said}");
        assert_eq!(asked(Some("+short\n"), &["y"]).0, Decision::Once);
    }

    #[test]
    fn a_changed_tool_is_shown_with_all_of_its_change() {
        let (tool, arguments) = (ItemId::tool("weather", "get"), json!({"where": "Bern"}));
        let change = "+x\n".repeat(100) + "-old\n+\u{1b}[2Jnew";
        let approval = Approval { tool: &tool, arguments: &arguments, preview: None, change: Some(&change) };
        let check = |answers: &[&str], expect: Decision| {
            let (mut out, mut left) = (Vec::new(), answers.iter());
            let mut next = || left.next().map(|&line| line.to_owned());
            assert_eq!(ask(&approval, Paint::new(false), 80, &mut out, &mut next), expect, "{answers:?}");
            String::from_utf8(out).unwrap()
        };
        check(&["y", "n"], Decision::No);
        let said = check(&["v", "y"], Decision::Once);
        for words in ["changed it since you allowed it", "  -old\n  +<U+001B>[2Jnew", "\"where\": \"Bern\""] {
            assert!(said.contains(words), "{words:?} is not in {said}");
        }
        assert_eq!(said.matches("+x").count(), 100);
    }

    #[test]
    fn a_long_line_is_broken_and_counts_as_many() {
        let long = format!("+{}END", "x".repeat(80 * 60));
        let (decision, said, _) = asked(Some(&long), &["y", "n"]);
        assert_eq!(decision, Decision::No);
        assert!(!said.contains("END"), "{said}");
        let (decision, said, _) = asked(Some(&long), &["v", "y"]);
        assert_eq!(decision, Decision::Once);
        assert!(
            said.contains("END") && said.lines().filter(|line| line.starts_with(INDENT)).all(|line| line.chars().count() <= 80),
            "{said}"
        );
    }

    #[test]
    fn what_cannot_be_seen_is_made_visible() {
        let (_, said, _) = asked(None, &["v", "n"]);
        assert!(
            said.contains("foreword/writeNote") && said.contains("\"path\"") && said.contains("a\\u001b[2J<U+202E>.md"),
            "{said}"
        );
        let (_, said, _) = asked(Some("-a\n+\u{1b}[8mb\u{200b}c\r\u{9b}\u{2066}\n"), &["n"]);
        assert!(said.contains("  -a\n") && said.contains("+<U+001B>[8mb<U+200B>c<U+000D><U+009B><U+2066>"), "{said}");
        assert!(!said.contains('\u{1b}'));
    }
}
