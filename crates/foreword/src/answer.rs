//! An answer on its way: shown while it comes, and what it took told below it.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use foreword_engine::session::{
    Event, FoundNote, Kept, Output, PaidFor, Payment, Question, Size, TurnError, Usage, dollars, payments, saved, turn_cost, usd,
};
use serde_json::{Value, json};

use crate::kept::now_ms;
use crate::markdown::Markdown;
use crate::model::Answering;
use crate::paint::{Paint, aside, count, grouped, note, one_line, shown, shown_lines, width};
use crate::terminal::{self, Stream};

/// Whether a person reads along.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The text as it comes.
    Live,
    /// One JSON object at the end.
    Json,
}

/// Where an answer appears while it comes: laid out on a terminal, as it is where there is none.
struct Screen {
    shown: Shown,
    /// None where nobody looks at it.
    markdown: Option<Markdown>,
    /// Whether the last line has no end yet.
    open: bool,
    /// What a small model says is less worth than what it read: that is shown first.
    size: Size,
    /// What was found in the notes.
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
            // A turn may take several replies: each begins on a line of its own.
            Event::Request(_) => self.end(),
            Event::Call(call) => {
                self.end();
                let arguments = one_line(&call.arguments.to_string(), 200);
                eprintln!("{}", Paint::stderr().with("2", format!("→ {}({arguments})", shown(&call.name))));
            }
            Event::Result(_, output) if output.failed => {
                self.end();
                eprintln!("{}", Paint::stderr().with("33", format!("✗ {}", failure(output))));
            }
            Event::Stored | Event::Result(..) | Event::Found(_) => {}
        }
    }

    /// Shows what fits the question best, word for word, above what a small model makes of it.
    fn passages(&mut self, found: &[FoundNote]) {
        let paint = Paint::stdout();
        let mut out = String::new();
        for note in found {
            out.push_str(&paint.with("1", &source_line(note)));
            out.push('\n');
            for line in note.text.lines() {
                out.push_str(&format_args!("> {}\n", shown(line)).to_string());
            }
            out.push('\n');
        }
        if found.is_empty() {
            out.push_str("No note fits the question.\n\n");
        }
        out.push_str(&paint.with("2", "Answer of the small model, often wrong; the notes above are what it read:"));
        out.push('\n');
        self.write(&out);
    }

    /// The notes that were found, below the answer of any other model.
    fn sources(&self) {
        if self.shown == Shown::Json || self.size == Size::Small || self.found.is_empty() {
            return;
        }
        aside("sources:");
        for note in &self.found {
            aside(&format!("  {}", source_line(note)));
        }
    }

    /// Shows what was kept back and ends the line.
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
        // Whoever stopped reading still has everything in the store.
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

/// Carries a turn, or the rest of one, and shows it.
pub(crate) fn run(kept: &mut Kept, question: Option<Question>, answering: &mut Answering, as_json: Shown) -> Result<ExitCode> {
    let paint = Paint::stderr();
    let mut screen = Screen::new(as_json, kept.setup().size());
    let mut each = |event: Event<'_>| screen.event(&event);
    let (speaker, hands) = (&mut *answering.speaker, &mut answering.hands);
    let began_ms = now_ms();
    // A question that has no answer yet is sent once more, as the request it was.
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
                    note(format!("the question is kept: foreword ask … --session {} --resume", kept.id()));
                }
                TurnError::Speak(_) if kept.is_stored() => {
                    note(format!("what was shown is kept: foreword sessions regenerate {} answers anew", kept.id()));
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
        note("there was nothing to answer");
    } else {
        screen.sources();
        aside(&status.line(kept));
        if let Some(hint) = status.reuse() {
            aside(&hint);
        }
    }
    if said.out_of_steps {
        note(format!(
            "the model was asked {} times and still wants to go on: foreword ask … --session {} --resume",
            said.requests,
            kept.id()
        ));
    }
    if !kept.is_stored() {
        note("this turn is NOT kept: nothing could be written to the store");
    }
    Ok(ExitCode::from(u8::from(said.out_of_steps || !kept.is_stored())))
}

/// What gives a request more room: the user's own budget comes before the model's window.
pub(crate) fn more_room(kept: &Kept) -> String {
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
    /// Of the last request.
    tokens: u64,
    cached: u64,
    /// Of the first request that is asked about.
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
    /// The session so far.
    pub(crate) fn of(kept: &Kept) -> Result<Self> {
        Self::since(kept, kept.counts().requests.saturating_sub(1), i64::MAX)
    }

    /// The same, where a turn began with that request and at that time.
    fn since(kept: &Kept, first: u64, began_ms: i64) -> Result<Self> {
        let ledger = kept.store().ledger(kept.id())?;
        let (tokens, cached) = ledger.last().map_or((0, 0), |(_, usage)| (usage.read + usage.write + usage.uncached, usage.read));
        let requests = || ledger.iter().filter(|(number, _)| *number >= first).map(|(_, usage)| usage);
        // A plan or a summary that the turn needed is part of what it cost.
        let paid = payments(kept.store(), kept.id())?;
        let is_aside = |payment: &&Payment| matches!(payment.what, PaidFor::Aside { .. }) && payment.at_ms >= began_ms;
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
    pub(crate) fn line(&self, kept: &Kept) -> String {
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

    /// What was not evaluated again, where that is worth a word.
    fn reuse(&self) -> Option<String> {
        let saved =
            if self.turn_saved >= 0.000_05 { format!(", which saved {}", dollars(self.turn_saved)) } else { String::new() };
        let (cached, tokens) = (grouped(self.cached), grouped(self.tokens));
        (self.cached > 0).then(|| format!("{cached} of {tokens} tokens were read from the cache{saved}"))
    }
}
