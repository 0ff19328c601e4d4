//! Shows an answer while it streams, and its usage and cost below it.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use foreword_engine::session::{
    Event, FoundNote, Output, PaidFor, Payment, Question, RecordedSession, Size, TurnError, Usage, dollars, payments, saved,
    turn_cost, usd,
};
use serde_json::{Value, json};

use crate::kept::now_ms;
use crate::markdown::Markdown;
use crate::model::Answering;
use crate::paint::{Paint, aside, count, grouped, note, one_line, shown, shown_lines, width};
use crate::terminal::{self, Stream};

/// How the answer is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The text as it streams.
    Live,
    /// One JSON object at the end.
    Json,
}

/// Prints a streaming answer: rendered markdown on a terminal, plain text elsewhere.
struct Screen {
    shown: Shown,
    /// `None` if the output is not a terminal.
    markdown: Option<Markdown>,
    /// Whether the last line has not ended yet.
    open: bool,
    /// A small model's answers are unreliable: the passages it read are shown first.
    size: Size,
    /// The passages that the search found.
    found: Vec<FoundNote>,
    /// The calls of tools, each with how it ended.
    calls: Vec<Value>,
}

impl Screen {
    fn new(shown: Shown, size: Size) -> Self {
        let markdown = Stream::Stdout.is_terminal().then(|| Markdown::new(width(Stream::Stdout), Paint::stdout().is_on()));
        Self { shown, markdown, open: false, size, found: Vec::new(), calls: Vec::new() }
    }

    fn event(&mut self, event: &Event<'_>) {
        if let Event::Found(found) = event {
            for note in *found {
                // Several searches of a turn may find the same.
                if !self.found.iter().any(|known| (&known.path, &known.heading) == (&note.path, &note.heading)) {
                    self.found.push(note.clone());
                }
            }
        }
        if let Event::Request(outgoing) = event {
            for unknown in outgoing.envelope.notes.iter().filter(|note| note.kind == "unknown_mention") {
                note(shown(&unknown.text));
            }
        }
        if let Event::Result(call, output) = event {
            let error = output.failed.then(|| failure(output));
            self.calls.push(json!({"name": call.name, "arguments": call.arguments, "failed": output.failed, "error": error}));
        }
        if self.shown == Shown::Json {
            return;
        }
        match event {
            Event::Found(found) if self.size == Size::Small => self.passages(found),
            Event::Part(part) => {
                let text = self.markdown.as_mut().map_or_else(|| (*part).to_owned(), |markdown| markdown.push(part));
                self.write(&text);
            }
            // A turn may take several replies: each begins on a new line.
            Event::Request(_) => self.end(),
            Event::Call(call) => {
                self.end();
                let arguments = one_line(&call.arguments.to_string(), 200);
                eprintln!("{}", Paint::stderr().with("2", format!("→ {}({arguments})", shown(&call.name))));
            }
            Event::ColdCache(cold) => {
                self.end();
                eprintln!("{}", Paint::stderr().with("2", cold.to_string()));
            }
            Event::Result(_, output) if output.failed => {
                self.end();
                eprintln!("{}", Paint::stderr().with("33", format!("✗ {}", failure(output))));
            }
            Event::Stored | Event::Result(..) | Event::Found(_) => {}
        }
    }

    /// Shows the best passages, word for word, above the answer of a small model.
    fn passages(&mut self, found: &[FoundNote]) {
        let paint = Paint::stdout();
        let mut out = String::new();
        for note in found {
            out.push_str(&paint.with("1", source_line(note)));
            out.push('\n');
            for line in note.text.lines() {
                out.push_str(&format_args!("> {}\n", shown(line)).to_string());
            }
            out.push('\n');
        }
        if found.is_empty() {
            out.push_str("No matching notes.\n\n");
        }
        out.push_str(&paint.with("2", "Answer of the small model (often wrong; it read the notes above):"));
        out.push('\n');
        self.write(&out);
    }

    /// Lists the notes that were found, below the answer.
    fn sources(&self) {
        if self.shown == Shown::Json || self.size == Size::Small || self.found.is_empty() {
            return;
        }
        aside("sources:");
        for note in &self.found {
            aside(&format!("  {}", source_line(note)));
        }
    }

    /// Prints what was held back and ends the line.
    fn end(&mut self) {
        if let Some(rest) = self.markdown.as_mut().map(Markdown::finish) {
            self.write(&rest);
        }
        if self.open {
            self.write("\n");
        }
    }

    fn write(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.open = !text.ends_with('\n');
        let mut out = terminal::stdout();
        // If the output is closed, the answer is still in the store.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

/// Why a tool gave nothing, for a person; the model is told what to do about it, which is nobody else's business.
fn failure(output: &Output) -> String {
    let text = one_line(&output.text, 300);
    let asides = [" Go on without it.", " Do not try it again unless the user asks for it."];
    asides.iter().fold(text, |text, aside| text.trim_end_matches(aside).to_owned())
}

/// The number, the place and the fit of a passage.
fn source_line(note: &FoundNote) -> String {
    let place = [note.path.as_str(), &note.heading].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" > ");
    format!("[{}] {} ({:.2})", note.number, shown(&place), note.score)
}

/// Runs a turn, or continues one, and shows it.
pub(crate) fn run(
    kept: &mut RecordedSession,
    question: Option<Question>,
    answering: &mut Answering,
    as_json: Shown,
) -> Result<ExitCode> {
    let paint = Paint::stderr();
    let mut screen = Screen::new(as_json, kept.setup().size());
    let mut each = |event: Event<'_>| screen.event(&event);
    let (speaker, hands) = (&mut *answering.speaker, &mut answering.hands);
    let began_ms = now_ms();
    // A question without an answer is sent again as the same request.
    let first = kept.counts().requests.saturating_sub(u64::from(question.is_none()));
    let outcome = match question {
        Some(question) => kept.send(question, speaker, hands, &now_ms, &mut each),
        None => kept.go_on(speaker, hands, &now_ms, &mut each),
    };
    screen.end();
    for failure in kept.take_failures() {
        note(shown(&failure.0));
    }
    let said = match outcome {
        Ok(said) => said,
        Err(error) => {
            eprintln!("{} {}", paint.with("31", "error:"), shown_lines(&error.to_string()));
            match error {
                TurnError::OverBudget(_) => note(more_room(kept)),
                TurnError::Speak(_) if kept.is_unanswered() && kept.is_stored() => {
                    note(format!("the question is saved; to retry: foreword ask … --session {} --resume", kept.id()));
                }
                TurnError::Speak(_) if kept.is_stored() => {
                    note(format!("the partial answer is saved; to retry: foreword sessions regenerate {}", kept.id()));
                }
                _ => {}
            }
            return Ok(ExitCode::from(1));
        }
    };
    let status = Status::since(kept, first, began_ms)?;
    if as_json == Shown::Json {
        let report = json!({
            "session": kept.id(), "turn": kept.session().turns(), "requests": said.requests, "text": said.text,
            "tokens": status.tokens, "cached": status.cached, "first_token_ms": status.first_token_ms,
            "cost": usd(status.turn_cost), "calls": screen.calls,
            "side_requests": turn_cost(kept.store(), kept.id(), kept.session().turns() as u64)?.side_requests, "stored": kept.is_stored(), "sources": screen.found,
        });
        writeln!(terminal::stdout(), "{report}")?;
    } else if said.requests == 0 {
        note("there is no question to answer");
    } else {
        screen.sources();
        aside(&status.line(kept));
        if let Some(hint) = status.reuse() {
            aside(&hint);
        }
    }
    if said.out_of_steps {
        note(format!(
            "the turn stopped after {} requests; to continue: foreword ask … --session {} --resume",
            said.requests,
            kept.id()
        ));
    }
    if !kept.is_stored() {
        note("this turn is NOT saved: writing to the store failed");
    }
    Ok(ExitCode::from(u8::from(said.out_of_steps || !kept.is_stored())))
}

/// What gives a request more room: the user's own budget comes before the model's window.
pub(crate) fn more_room(kept: &RecordedSession) -> String {
    let (setup, window) = (kept.setup(), grouped(kept.setup().model.window.0));
    match setup.wanted.budget.prompt_tokens {
        Some(tokens) => {
            format!(
                "the budget of {} tokens was chosen; the window of {} has {window}",
                grouped(tokens),
                shown(&setup.model.name)
            )
        }
        None => format!("the window of {} has {window} tokens; another model may have a larger one", shown(&setup.model.name)),
    }
}

/// What the last request used, the turn, and the session so far.
pub(crate) struct Status {
    /// Tokens of the last request.
    tokens: u64,
    cached: u64,
    /// The first request's time to first token.
    first_token_ms: Option<u64>,
    turn_cost: f64,
    turn_saved: f64,
    cost: f64,
    saved: f64,
    /// Requests of the whole session, and what was asked beside it.
    requests: usize,
    side_requests: u64,
}

impl Status {
    /// The usage of the session so far.
    pub(crate) fn of(kept: &RecordedSession) -> Result<Self> {
        Self::since(kept, kept.counts().requests.saturating_sub(1), i64::MAX)
    }

    /// The same for a turn that began with request `first` at time `began_ms`.
    fn since(kept: &RecordedSession, first: u64, began_ms: i64) -> Result<Self> {
        let ledger = kept.store().ledger(kept.id())?;
        let (tokens, cached) = ledger.last().map_or((0, 0), |(_, usage)| (usage.read + usage.write + usage.uncached, usage.read));
        let requests = || ledger.iter().filter(|(number, _)| *number >= first).map(|(_, usage)| usage);
        // A plan or a summary that the turn needed is part of its cost.
        let paid = payments(kept.store(), kept.id())?;
        let is_aside = |payment: &&Payment| matches!(payment.what, PaidFor::SideExchange { .. }) && payment.at_ms >= began_ms;
        let turn = || requests().chain(paid.iter().filter(is_aside).map(|payment| &payment.usage));
        let less = |usage: &Usage| usage.cost_uncached - usage.cost;
        Ok(Self {
            tokens,
            cached,
            first_token_ms: requests().next().and_then(|usage| usage.first_token_ms),
            turn_cost: turn().map(|usage| usage.cost).sum(),
            turn_saved: turn().map(less).sum(),
            cost: paid.iter().map(|payment| payment.usage.cost).sum(),
            saved: paid.iter().map(|payment| less(&payment.usage)).sum(),
            requests: paid.iter().filter(|payment| matches!(payment.what, PaidFor::Request { .. })).count(),
            side_requests: paid.iter().map(|payment| payment.what.questions()).sum(),
        })
    }

    /// What the whole session took.
    pub(crate) fn total(&self) -> String {
        let side = match self.side_requests {
            0 => String::new(),
            number => format!(" and {}", count(usize::try_from(number).unwrap_or(usize::MAX), "side request")),
        };
        format!("{}{side} so far, {}, {}", count(self.requests, "request"), dollars(self.cost), saved(self.saved))
    }

    /// One line for people.
    pub(crate) fn line(&self, kept: &RecordedSession) -> String {
        let budget = grouped(kept.setup().settings.budget.prompt.0);
        let share = (self.cached * 100).checked_div(self.tokens).unwrap_or(0);
        let (id, turn, tokens) = (kept.id(), kept.session().turns(), grouped(self.tokens));
        let mut line = format!("session {id}, turn {turn}: {tokens} of {budget} tokens, {share} % from the cache");
        if self.turn_cost > 0.0 {
            line.push_str(&format_args!(", {}", dollars(self.turn_cost)).to_string());
        }
        if let Some(ms) = self.first_token_ms {
            line.push_str(&format_args!(", first token after {:.1} s", ms as f64 / 1000.0).to_string());
        }
        line
    }

    /// How much of the prompt was read from the cache, if any.
    fn reuse(&self) -> Option<String> {
        let saved =
            if self.turn_saved >= 0.000_05 { format!(", which saved {}", dollars(self.turn_saved)) } else { String::new() };
        let (cached, tokens) = (grouped(self.cached), grouped(self.tokens));
        (self.cached > 0).then(|| format!("{cached} of {tokens} tokens were read from the cache{saved}"))
    }
}
