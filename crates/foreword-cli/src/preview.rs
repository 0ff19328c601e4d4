//! `foreword ask --dry-run` and `/context next` of the chat: the next request, not sent.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use foreword_engine::session::{Expected, Preview, Question, RecordedSession, ToolHost, TurnError, dollars};

use crate::answer::more_room;
use crate::inspect;
use crate::kept::now_ms;
use crate::paint::{Paint, grouped, note, one_line, shown};
use crate::terminal;

/// How a request is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Table,
    Json,
    /// Its exact bytes.
    Wire,
}

/// Shows the request for a question without sending it.
pub(crate) fn run(kept: &RecordedSession, question: Question, hands: &mut dyn ToolHost, form: Form) -> Result<ExitCode> {
    let preview = match kept.preview(question, hands, now_ms()) {
        Ok(preview) => preview,
        Err(error) => {
            eprintln!("{} {}", Paint::stderr().with("31", "error:"), shown(&error.to_string()));
            if let TurnError::OverBudget(_) = error {
                note(more_room(kept));
            }
            return Ok(ExitCode::from(1));
        }
    };
    preview.problems.iter().for_each(|problem| note(shown(problem)));
    let mut out = terminal::stdout();
    match form {
        Form::Table => show(&mut out, kept, &preview)?,
        Form::Json => writeln!(out, "{}", serde_json::to_string(&preview)?)?,
        Form::Wire => out.write_all(&preview.body)?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn show(out: &mut impl Write, kept: &RecordedSession, preview: &Preview) -> io::Result<()> {
    let paint = Paint::stdout();
    let found = &preview.request;
    let session = match found.turn {
        1 => "a new session".to_owned(),
        turn => format!("turn {turn} of session {}", kept.id()),
    };
    let began = found.began.as_ref().map(|reason| format!(", started by {}", shown(reason))).unwrap_or_default();
    writeln!(out, "{}", paint.with("1", format!("not sent: {session}")))?;
    let dialect = <&str>::from(found.provider);
    writeln!(out, "{} ({dialect}), {} layout, epoch {}{began}", shown(&found.model), shown(&found.layout), found.epoch)?;
    writeln!(
        out,
        "{} of {} tokens (counted by {}), {} bytes",
        grouped(preview.expected.total().0),
        grouped(found.budget.0),
        shown(&kept.setup().tokenizer),
        grouped(preview.bytes as u64)
    )?;
    writeln!(out, "{}", expected(&preview.expected))?;
    if let Some(broke) = &preview.expected.broke {
        let text = |part: &Option<String>| shown(part.as_deref().unwrap_or("-"));
        let lost = format!("{} tokens, {}", grouped(broke.tokens_lost.0), dollars(broke.cost_lost));
        let line = format!("cache break: {} at {} ({}): {lost}", shown(&broke.cause), text(&broke.path), text(&broke.item));
        writeln!(out, "{}", paint.with("33", line))?;
    }
    if !preview.tools.is_empty() {
        writeln!(out, "tools: {}", one_line(&preview.tools.join(", "), 200))?;
    }
    inspect::contents(out, found)?;
    writeln!(out, "\nwire sha256 {}", found.wire_sha256)
}

/// The expected cache hits and the cost.
fn expected(expected: &Expected) -> String {
    let Expected { read, write, cost, cost_uncached, .. } = expected;
    let mut line = format!("expected from the cache: {} of {} tokens", grouped(read.0), grouped(expected.total().0));
    if write.0 > 0 {
        line.extend([", ", &grouped(write.0), " written to it"]);
    }
    if *cost_uncached > 0.0 {
        line.push_str(
            &format_args!("; {} for the prompt ({} without a cache)", dollars(*cost), dollars(*cost_uncached)).to_string(),
        );
    }
    line
}
