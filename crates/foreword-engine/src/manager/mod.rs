//! The managed history: a model writes the summary that a template defines; it is checked and replaces old turns.
//!
//! [`Writing`] depends only on a template, earlier summaries, the conversation and the latest message. If anything fails,
//! the turn continues with the full history, and the reason is recorded.

mod judge;
mod prompt;
mod recall;
mod record;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use foreword_core::session::Session;
use foreword_core::settings::HistoryPolicy;
use foreword_core::summary::{Source, check, cite};
use foreword_core::tokens::{Tokenizer, Tokens};
use foreword_store::Summary;
use foreword_vault::folder::Folder;
use jiff::tz::TimeZone;

pub use judge::judge;
pub use recall::{OpenStore, Past, Recall, Recalled, Remark, StoredPast};
pub use record::{Figures, Section, Unmanaged, View};

use crate::session::{Reply, Setup, SpeakError};
use foreword_templates::{Given, Named, NoTemplate, Runs, Shelf, Step, Template, Writer, render};

/// The default template.
pub const DEFAULT_TEMPLATE: &str = "freeform-chat";

/// The default number of turns that the summarizing model reads.
pub const RECENT_RUNS: usize = 3;
/// The default number of turns that stay unchanged.
pub const PASSTHROUGH_RUNS: usize = 1;
/// The default history size for summaries, in tokens.
pub const TOKEN_THRESHOLD: u64 = 4_000;
/// The threshold is at most this fraction of the prompt budget.
const THRESHOLD_SHARE: u64 = 16;
/// The time limit for a summary.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// The largest input of a step in bytes.
const MOST_INPUT: u64 = 64 << 10;

/// Writes the summaries of a session.
pub struct Manager {
    /// The template.
    pub template: Result<Template, NoTemplate>,
    /// The folder of the files that a template uses.
    pub files: Option<Folder>,
    /// The time zone, for outputs that are valid for a day.
    pub zone: TimeZone,
    /// The time limit for a summary.
    pub patience: Duration,
    /// The focus of the next summary.
    pub focus: Option<String>,
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager").field("template", &self.template).finish_non_exhaustive()
    }
}

impl Manager {
    /// The manager for a session's setup; `None` if its history is not managed.
    pub fn of(setup: &Setup, shelf: &Shelf, vault: Option<&Path>, zone: TimeZone) -> Option<Self> {
        if !matches!(setup.settings.history, HistoryPolicy::Managed { .. }) {
            return None;
        }
        let mut template = shelf.find(setup.template.as_deref().unwrap_or(DEFAULT_TEMPLATE));
        // What the settings say counts more than what the template says.
        if let (Ok(template), Some(runs)) = (&mut template, setup.wanted.history.recent_runs) {
            template.parsed.recent_runs = Some(Runs::Last(runs));
        }
        let files = vault.and_then(|vault| Folder::open(vault).ok());
        Some(Self { files, zone, ..Self::new(template) })
    }

    /// A manager with only a template.
    pub fn new(template: Result<Template, NoTemplate>) -> Self {
        Self { template, files: None, zone: TimeZone::UTC, patience: PATIENCE, focus: None }
    }
}

/// The history policy for a template and a prompt budget. In a small context window, notes and tool outputs need most of the room,
/// so the threshold is at most a fraction of it.
pub fn policy(template: Option<&Template>, prompt: Tokens) -> HistoryPolicy {
    let parsed = template.map(|template| &template.parsed);
    let threshold = parsed.and_then(|parsed| parsed.token_threshold).unwrap_or(TOKEN_THRESHOLD);
    HistoryPolicy::Managed {
        summary: None,
        passthrough_runs: parsed.and_then(|parsed| parsed.passthrough_runs).map_or(PASSTHROUGH_RUNS, Runs::count),
        token_threshold: Tokens(threshold.min(prompt.0 / THRESHOLD_SHARE)),
    }
}

/// The inputs of a summary.
pub struct SummaryInput<'a> {
    /// The conversation.
    pub session: &'a Session,
    /// Earlier views, oldest first.
    pub prior: &'a [Summary],
    /// The user's current message.
    pub latest_input: &'a str,
    /// Counts tokens.
    pub tokenizer: &'a dyn Tokenizer,
    /// The current time in milliseconds since 1970.
    pub now_ms: i64,
}

/// A question to the model.
pub struct Call {
    /// The text after the current prompt.
    pub behind: String,
    /// The same question for a model without the current prompt.
    pub alone: String,
}

/// A model's answer with its cost.
pub struct Answered {
    /// The reply.
    pub reply: Reply,
    /// Whether it was stopped because of the time limit.
    pub timed_out: bool,
    /// The model.
    pub model: String,
    /// The cost in USD.
    pub cost: f64,
    /// The cost without a cache.
    pub cost_uncached: f64,
}

/// Whether a summary is due: the history is managed, long enough, and partly not summarized.
pub fn is_due(manager: &Manager, session: &Session) -> bool {
    let off = |template: &Template| template.parsed.recent_runs == Some(Runs::Last(0));
    let HistoryPolicy::Managed { token_threshold, .. } = session.settings().history else { return false };
    let covered = session.written().map_or(0, |(_, covers)| covers);
    !manager.template.as_ref().is_ok_and(off) && session.managed_cut() > covered && session.history_tokens() >= token_threshold
}

/// Whether messages without a summary have reached the threshold again.
pub fn has_outgrown(session: &Session) -> bool {
    let HistoryPolicy::Managed { token_threshold, .. } = session.settings().history else { return false };
    let covered = session.written().map_or(0, |(_, covers)| covers);
    session.history_tokens() - session.units_tokens(0..covered) >= token_threshold
}

/// Why a session has no summary, for the user.
pub fn why_none(setup: &Setup, shelf: &Shelf, session: &Session) -> String {
    let manager = Manager::of(setup, shelf, None, TimeZone::UTC);
    let (HistoryPolicy::Managed { token_threshold, passthrough_runs, .. }, Some(manager)) =
        (&session.settings().history, manager)
    else {
        return "this session has no managed history, so no summary is written; enable it with `--history managed`".to_owned();
    };
    let template = match &manager.template {
        Ok(template) => template,
        Err(error) => return format!("no summary was written: {error}"),
    };
    let size = session.history_tokens();
    if template.parsed.recent_runs == Some(Runs::Last(0)) {
        format!("template {} has 0 recent runs, which disables summaries", template.name)
    } else if size < *token_threshold {
        format!("the messages have {size} tokens; {} writes a summary from {token_threshold} tokens on", template.name)
    } else if session.managed_cut() == 0 {
        format!("{} keeps the last {passthrough_runs} turns unchanged, and there are no older ones yet", template.name)
    } else {
        "a summary will be written with the next question".to_owned()
    }
}

/// A summary that is being written. Steps that need no model are done at once; for the others, [`Writing::next`] returns a question
/// and takes its answer.
#[derive(Debug)]
pub struct Writing {
    view: View,
    values: BTreeMap<String, String>,
    /// The number of steps that are done.
    done: usize,
    /// The section for which the model is asked.
    asked: Option<Section>,
}

/// What comes next in a summary.
pub enum Next {
    /// Ask the model.
    Ask(Box<Call>),
    /// The summary, or why there is none.
    Done(Box<View>),
}

/// The text of a step, or a question to the model.
enum Drafted {
    Text(String),
    Ask(Box<Call>),
}

impl Writing {
    /// Begins the due summary.
    pub fn begin(manager: &Manager, ground: &SummaryInput<'_>) -> Result<Self, Box<View>> {
        let template = match &manager.template {
            Ok(template) => template,
            Err(error) => return Err(Box::new(View::failed(None, Unmanaged::Template(error.to_string())))),
        };
        let token_threshold = match ground.session.settings().history {
            HistoryPolicy::Managed { token_threshold, .. } => token_threshold,
            _ => Tokens::ZERO,
        };
        let covers = ground.session.managed_cut();
        let (prior, from) = ground.session.written().unwrap_or_default();
        let mut view = View::new(template, covers);
        view.latest_input = ground.latest_input.chars().take(2_000).collect();
        view.figures.history = ground.session.history_tokens();
        view.figures.threshold = token_threshold;
        view.figures.before = ground.session.units_tokens(from..covers) + ground.tokenizer.count(prior);
        let values = prompt::values(ground, template, &manager.zone);
        Ok(Self { view, values, done: 0, asked: None })
    }

    /// Goes on until the model is asked or the summary is complete. `answer` is the answer to the last question.
    pub fn next(&mut self, manager: &Manager, ground: &SummaryInput<'_>, answer: Option<Result<Answered, SpeakError>>) -> Next {
        match self.write(manager, ground, answer) {
            Ok(Some(call)) => return Next::Ask(call),
            Ok(None) => match self.text() {
                Ok(text) => self.check(ground, text),
                Err(why) => self.view.why = Some(why),
            },
            Err(why) => self.view.why = Some(why),
        }
        Next::Done(Box::new(self.view.clone()))
    }

    /// Keeps the exact bytes of the request for the last question, also if there is no answer.
    pub fn set_body(&mut self, body: &[u8]) {
        if let Some(section) = &mut self.asked {
            section.body = String::from_utf8_lossy(body).into_owned();
        }
    }

    /// Runs the steps, in order, until one of them needs the model.
    fn write(
        &mut self,
        manager: &Manager,
        ground: &SummaryInput<'_>,
        mut answer: Option<Result<Answered, SpeakError>>,
    ) -> Result<Option<Box<Call>>, Unmanaged> {
        let Ok(template) = &manager.template else { return Ok(None) };
        while let Some(step) = template.parsed.steps.get(self.done) {
            let mut section = self.asked.take().unwrap_or_else(|| Section {
                name: step.name.clone(),
                header: step.header.clone(),
                ..Section::default()
            });
            let outcome = match answer.take() {
                Some(answer) => self.take(answer, &mut section),
                None => match self.draft(manager, template, ground, step, &mut section) {
                    Ok(Drafted::Ask(call)) => {
                        self.asked = Some(section);
                        return Ok(Some(call));
                    }
                    Ok(Drafted::Text(text)) => Ok(text),
                    Err(why) => Err(why),
                },
            };
            if let Ok(text) = &outcome {
                section.output =
                    if section.by_model && !section.cached { with_sources(ground, text, &mut section) } else { text.clone() };
                if let Some(variable) = &step.output {
                    self.values.insert(variable.clone(), section.output.clone());
                }
            }
            section.in_view = step.output.is_none() && section.skipped.is_none() && !section.output.is_empty();
            self.view.sections.push(section);
            self.done += 1;
            outcome?;
        }
        Ok(None)
    }

    /// The text of all sections.
    fn text(&self) -> Result<String, Unmanaged> {
        let shown: Vec<&Section> = self.view.sections.iter().filter(|section| section.in_view).collect();
        // A model was asked, and nothing that it said has a source.
        if shown.is_empty() && self.view.sections.iter().any(|section| section.by_model) {
            return Err(Unmanaged::Empty);
        }
        let titled = shown.len() > 1;
        let text = shown.iter().map(|section| match (&section.header, titled) {
            (Some(header), _) => format!("{header}:\n{}", section.output),
            (None, true) => format!("{}:\n{}", section.name, section.output),
            (None, false) => section.output.clone(),
        });
        Ok(text.collect::<Vec<_>>().join("\n\n"))
    }

    /// Uses the text if it is shorter than what it replaces.
    fn check(&mut self, ground: &SummaryInput<'_>, text: String) {
        let figures = &mut self.view.figures;
        figures.after = ground.tokenizer.count(&text);
        if figures.after >= figures.before {
            self.view.why = Some(Unmanaged::NotShorter { before: figures.before, after: figures.after });
        } else {
            self.view.check = check(&text, ground.session.required(self.view.covers));
            self.view.summary = Some(text);
        }
    }

    /// The text of a step, before sources are added, or the question that gives it.
    fn draft(
        &self,
        manager: &Manager,
        template: &Template,
        ground: &SummaryInput<'_>,
        step: &Step,
        section: &mut Section,
    ) -> Result<Drafted, Unmanaged> {
        let rendered = render(&step.text, &self.values);
        section.missing = rendered.missing;
        if let Some(why) = rendered.failed {
            return Err(Unmanaged::Template(format!("{}: {why}", step.name)));
        }
        let mut given = Vec::new();
        for Given { what, required } in &step.input {
            match self::given(manager, what, &self.values) {
                Ok(text) if !text.trim().is_empty() => given.push((what.to_string(), text)),
                missing => {
                    let why = missing.err().unwrap_or_else(|| "it is empty".to_owned());
                    section.missing.push(format!("{what}: {why}"));
                    if *required {
                        section.skipped = Some(format!("{what} is required, and {why}"));
                        return Ok(Drafted::Text(String::new()));
                    }
                }
            }
        }
        let held = |hold| record::held(ground.prior, template, self.done, step, hold, ground.now_ms, &manager.zone);
        if let Some((made_ms, text)) = step.cache.and_then(held) {
            section.cached = true;
            section.by_model = true;
            section.made_ms = made_ms;
            return Ok(Drafted::Text(text));
        }
        section.made_ms = ground.now_ms;
        if step.model.as_ref().or(template.parsed.model.as_ref()) == Some(&Writer::None) {
            // An instruction that nobody follows is no summary: the engine's own lines do.
            let texts = given.into_iter().map(|(_, text)| text);
            return Ok(Drafted::Text(texts.collect::<Vec<_>>().join("\n\n")));
        }
        section.by_model = true;
        let runs = step.recent_runs.or(template.parsed.recent_runs).map_or(RECENT_RUNS, Runs::count);
        let summaries = step.recent_summaries.map_or(1, Runs::count);
        let call = prompt::call(ground, manager, template, &rendered.text, &given, runs, summaries);
        section.asked.clone_from(&call.behind);
        Ok(Drafted::Ask(Box::new(call)))
    }

    /// The text in the model's answer.
    fn take(&mut self, answer: Result<Answered, SpeakError>, section: &mut Section) -> Result<String, Unmanaged> {
        let answered = answer.map_err(|error| Unmanaged::Model(error.message))?;
        let view = &mut self.view;
        view.model.clone_from(&answered.model);
        view.figures.cost += answered.cost;
        view.figures.cost_uncached += answered.cost_uncached;
        if let Some(spent) = answered.reply.spent {
            view.figures.read += spent.prompt.read;
            view.figures.prompt += spent.prompt.total();
            view.figures.output += Tokens(spent.output);
        }
        section.raw.clone_from(&answered.reply.text);
        if answered.timed_out {
            return Err(Unmanaged::TimedOut);
        }
        judge(&answered.reply)
    }
}

/// The text with the sources of each sentence. Sentences without a source are left out.
fn with_sources(ground: &SummaryInput<'_>, text: &str, section: &mut Section) -> String {
    let (prior, from) = ground.session.written().unwrap_or_default();
    let sources = ground.session.said(from..ground.session.managed_cut());
    let mut cited: Vec<Source<'_>> = sources.iter().map(|spoken| Source { id: spoken.id, text: &spoken.text }).collect();
    // What the last summary says came from messages that are not among these any more.
    let earlier = prompt::cited_lines(prior);
    cited.extend(earlier.iter().map(|(id, text)| Source { id: *id, text }));
    let named = cite(text, &cited);
    section.unfounded = named.unfounded;
    named.text
}

/// The inputs of a step.
fn given(manager: &Manager, what: &Named, values: &BTreeMap<String, String>) -> Result<String, String> {
    match what {
        Named::Variable(name) => values.get(name).cloned().ok_or_else(|| "nothing has put it out".to_owned()),
        Named::File(path) => {
            let files = manager.files.as_ref().ok_or("there is no vault")?;
            let read =
                |path: &str| files.read_bytes(path, MOST_INPUT).map(|bytes| foreword_vault::folder::Text::decode(bytes).text);
            read(path).or_else(|error| read(&format!("{path}.md")).map_err(|_| error.to_string()))
        }
    }
}

#[cfg(test)]
mod tests;
