//! The blocks of a page that show commands.

use std::ops::Range;

use anyhow::{Result, bail, ensure};

/// Begins a line that a person types into the chat.
pub(super) const PROMPT: &str = "› ";

/// A fenced block of commands and outputs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The line of its fence, from 1.
    pub(super) line: usize,
    pub(super) kind: Kind,
    pub(super) runs: Vec<Run>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is run, and each command ends with this exit code.
    Run { exit: i32 },
    /// It is not run, for this reason.
    Skipped(String),
}

/// A command and what it prints.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The line of the command, from 1.
    pub(super) line: usize,
    pub(super) command: String,
    /// What is typed into it.
    pub(super) typed: Vec<String>,
    pub(super) expected: Vec<String>,
    /// Where the output stands among the lines of the page, from 0.
    pub(super) output: Range<usize>,
}

/// All blocks of a page that begin with `console`.
pub(super) fn blocks(text: &str) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut open: Option<(&str, Option<Block>)> = None;
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        match &mut open {
            None => {
                let fence = line.trim_start();
                let ticks = fence.len() - fence.trim_start_matches('`').len();
                if ticks < 3 {
                    continue;
                }
                let (fence, info) = fence.split_at(ticks);
                let block = match info.trim().strip_prefix("console") {
                    Some(rest) => Some(Block { line: number, kind: kind(rest.trim(), number)?, runs: Vec::new() }),
                    None => None,
                };
                open = Some((fence, block));
            }
            Some((fence, block)) if line.trim() == *fence => {
                blocks.extend(block.take());
                open = None;
            }
            Some((_, None)) => {}
            Some((_, Some(block))) => add(block, line, at)?,
        }
    }
    ensure!(open.is_none(), "a fenced block has no end");
    Ok(blocks)
}

fn kind(info: &str, line: usize) -> Result<Kind> {
    if info.is_empty() {
        return Ok(Kind::Run { exit: 0 });
    }
    if let Some(reason) = info.strip_prefix("skip:").map(str::trim).filter(|reason| !reason.is_empty()) {
        return Ok(Kind::Skipped(reason.to_owned()));
    }
    match info.strip_prefix("exit=").map(str::parse) {
        Some(Ok(exit)) => Ok(Kind::Run { exit }),
        _ => bail!("line {line}: {info:?} after `console`: expected `exit=N` or `skip: REASON`"),
    }
}

fn add(block: &mut Block, line: &str, at: usize) -> Result<()> {
    if let Some(command) = line.strip_prefix("$ ") {
        let is_ours = command == "foreword" || command.starts_with("foreword ");
        ensure!(
            is_ours || matches!(block.kind, Kind::Skipped(_)),
            "line {}: only `foreword` is run in a console block; use `sh` for other commands",
            at + 1
        );
        let run =
            Run { line: at + 1, command: command.to_owned(), typed: Vec::new(), expected: Vec::new(), output: at + 1..at + 1 };
        block.runs.push(run);
        return Ok(());
    }
    let Some(run) = block.runs.last_mut() else { bail!("line {}: an output without a command above it", at + 1) };
    if let Some(typed) = line.strip_prefix(PROMPT) {
        run.typed.push(typed.to_owned());
    }
    run.expected.push(line.to_owned());
    run.output.end = at + 1;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_outputs() {
        let text = "Text\n```console\n$ foreword a\none\n$ foreword chat\n› hi\ntwo\n```\n```sh\n$ other\n```\n";
        let found = blocks(text).unwrap();
        assert_eq!(found.len(), 1);
        let runs: Vec<_> = found[0].runs.iter().map(|run| (run.line, run.command.as_str(), run.output.clone())).collect();
        assert_eq!(runs, [(3, "foreword a", 3..4), (5, "foreword chat", 5..7)]);
        assert_eq!(found[0].runs[1].typed, ["hi"]);
        assert_eq!(found[0].runs[1].expected, ["› hi", "two"]);
    }

    #[test]
    fn kinds_of_blocks() {
        let check = |info: &str, expect: Option<Kind>| {
            let found = blocks(&format!("```{info}\n$ foreword\n```\n"));
            assert_eq!(found.ok().and_then(|mut blocks| Some(blocks.pop()?.kind)), expect, "{info}");
        };
        check("console", Some(Kind::Run { exit: 0 }));
        check("console exit=2", Some(Kind::Run { exit: 2 }));
        check("console skip: needs a key", Some(Kind::Skipped("needs a key".to_owned())));
        check("console skip:", None);
        check("console exit=", None);
        check("console skipp: x", None);
        check("sh", None);
    }

    #[test]
    fn what_is_refused() {
        let check = |text: &str| assert!(blocks(text).is_err(), "{text}");
        check("```console\nno command\n```\n");
        check("```console\n$ rm file\n```\n");
        check("```console\n$ forewordish\n```\n");
        check("```console\n$ foreword\n");
        assert!(blocks("```console skip: shows another program\n$ cargo run\n```\n").is_ok());
    }

    #[test]
    fn a_longer_fence_can_show_a_block() {
        assert_eq!(blocks("````md\n```console\nanything\n```\n````\n").unwrap(), []);
    }
}
