//! The managed history: a model writes the summary that a template defines; it is checked and replaces old turns.
//!
//! [`manage`] is a stateless function of a template, earlier summaries, the conversation and the latest message. If anything fails,
//! the turn continues with the full history, and the reason is recorded.

mod judge;
mod prompt;
mod recall;
mod record;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use foreword_core::session::{Session, Spoken};
use foreword_core::settings::HistoryPolicy;
use foreword_core::summary::{Source, check, cite};
use foreword_core::tokens::{Tokenizer, Tokens};
use foreword_provider::model::Model;
use foreword_store::Summary;
use foreword_vault::folder::Folder;
use jiff::tz::TimeZone;

pub use judge::judge;
pub use recall::{OpenStore, Past, Recall, Recalled, Remark, StoredPast};
pub use record::{Figures, Section, Unmanaged, View};

use crate::session::{ChatModel, Reply, Setup, SpeakError, Stop};
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

/// The model of a template, if it is not the session's.
pub struct Own {
    /// Which.
    pub model: Arc<Model>,
    /// The connection to the model.
    pub speaker: Box<dyn ChatModel + Send>,
}

/// Writes the summaries of a session.
pub struct Manager {
    /// The template.
    pub template: Result<Template, NoTemplate>,
    /// The template's own model.
    pub own: Option<Own>,
    /// The folder of the files that a template uses.
    pub files: Option<Folder>,
    /// The time zone, for outputs that are valid for a day.
    pub zone: TimeZone,
    /// The time limit for a summary.
    pub patience: Duration,
    /// Stops an answer that takes too long.
    pub stop: Option<Stop>,
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
    pub fn of(setup: &Setup, shelf: &Shelf, vault: Option<&Path>, zone: TimeZone, stop: Stop) -> Option<Self> {
        if !matches!(setup.settings.history, HistoryPolicy::Managed { .. }) {
            return None;
        }
        let mut template = shelf.find(setup.template.as_deref().unwrap_or(DEFAULT_TEMPLATE));
        // What the settings say counts more than what the template says.
        if let (Ok(template), Some(runs)) = (&mut template, setup.wanted.history.recent_runs) {
            template.parsed.recent_runs = Some(Runs::Last(runs));
        }
        let files = vault.and_then(|vault| Folder::open(vault).ok());
        Some(Self { files, zone, stop: Some(stop), ..Self::new(template) })
    }

    /// A manager with only a template.
    pub fn new(template: Result<Template, NoTemplate>) -> Self {
        Self { template, own: None, files: None, zone: TimeZone::UTC, patience: PATIENCE, stop: None, focus: None }
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
    /// Whether it goes to the template's own model.
    pub own: bool,
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

/// Sends a question, and writes the exact bytes of its request to the second argument, also if there is no answer.
pub type Ask<'a> = dyn FnMut(&Call, &mut String) -> Result<Answered, SpeakError> + 'a;

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
    let manager = Manager::of(setup, shelf, None, TimeZone::UTC, Stop::default());
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

/// Writes the due summary.
pub fn manage(manager: &Manager, ground: &SummaryInput<'_>, ask: &mut Ask<'_>) -> View {
    let template = match &manager.template {
        Ok(template) => template,
        Err(error) => return View::failed(None, Unmanaged::Template(error.to_string())),
    };
    let token_threshold = match ground.session.settings().history {
        HistoryPolicy::Managed { token_threshold, .. } => token_threshold,
        _ => Tokens::ZERO,
    };
    let history = ground.session.history_tokens();
    let covers = ground.session.managed_cut();
    let (prior, from) = ground.session.written().unwrap_or_default();
    let mut view = View::new(template, covers);
    view.latest_input = ground.latest_input.chars().take(2_000).collect();
    view.figures.history = history;
    view.figures.threshold = token_threshold;
    view.figures.before = ground.session.units_tokens(from..covers) + ground.tokenizer.count(prior);
    let sources = ground.session.said(from..covers);
    let written = write(manager, template, ground, &sources, &mut view, ask);
    match written {
        Ok(text) => {
            view.figures.after = ground.tokenizer.count(&text);
            if view.figures.after >= view.figures.before {
                view.why = Some(Unmanaged::NotShorter { before: view.figures.before, after: view.figures.after });
            } else {
                view.check = check(&text, ground.session.required(covers));
                view.summary = Some(text);
            }
        }
        Err(why) => view.why = Some(why),
    }
    view
}

/// Runs all steps, in order.
fn write(
    manager: &Manager,
    template: &Template,
    ground: &SummaryInput<'_>,
    sources: &[Spoken],
    view: &mut View,
    ask: &mut Ask<'_>,
) -> Result<String, Unmanaged> {
    let mut values = prompt::values(ground, template, &manager.zone);
    let mut cited: Vec<Source<'_>> = sources.iter().map(|spoken| Source { id: spoken.id, text: &spoken.text }).collect();
    // What the last summary says came from messages that are not among these any more.
    let (prior, _) = ground.session.written().unwrap_or_default();
    let earlier = prompt::cited_lines(prior);
    cited.extend(earlier.iter().map(|(id, text)| Source { id: *id, text }));
    for (at, step) in template.parsed.steps.iter().enumerate() {
        let mut section = Section { name: step.name.clone(), header: step.header.clone(), ..Section::default() };
        let outcome = one(manager, template, ground, at, step, &values, &mut section, view, ask);
        if let Ok(text) = &outcome {
            section.output = if section.by_model && !section.cached {
                let named = cite(text, &cited);
                section.unfounded = named.unfounded;
                named.text
            } else {
                text.clone()
            };
            if let Some(variable) = &step.output {
                values.insert(variable.clone(), section.output.clone());
            }
        }
        section.in_view = step.output.is_none() && section.skipped.is_none() && !section.output.is_empty();
        view.sections.push(section);
        outcome?;
    }
    let shown: Vec<&Section> = view.sections.iter().filter(|section| section.in_view).collect();
    // A model was asked, and nothing that it said has a source.
    if shown.is_empty() && view.sections.iter().any(|section| section.by_model) {
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

/// Runs one step and returns its text, before sources are added.
#[expect(clippy::too_many_arguments, reason = "everything a step can see; a struct for one call would only hide it")]
fn one(
    manager: &Manager,
    template: &Template,
    ground: &SummaryInput<'_>,
    at: usize,
    step: &Step,
    values: &BTreeMap<String, String>,
    section: &mut Section,
    view: &mut View,
    ask: &mut Ask<'_>,
) -> Result<String, Unmanaged> {
    let rendered = render(&step.text, values);
    section.missing = rendered.missing;
    if let Some(why) = rendered.failed {
        return Err(Unmanaged::Template(format!("{}: {why}", step.name)));
    }
    let mut given = Vec::new();
    for Given { what, required } in &step.input {
        match self::given(manager, what, values) {
            Ok(text) if !text.trim().is_empty() => given.push((what.to_string(), text)),
            missing => {
                let why = missing.err().unwrap_or_else(|| "it is empty".to_owned());
                section.missing.push(format!("{what}: {why}"));
                if *required {
                    section.skipped = Some(format!("{what} is required, and {why}"));
                    return Ok(String::new());
                }
            }
        }
    }
    if let Some(held) =
        step.cache.and_then(|hold| record::held(ground.prior, template, at, step, hold, ground.now_ms, &manager.zone))
    {
        section.cached = true;
        section.by_model = true;
        section.made_ms = held.0;
        return Ok(held.1);
    }
    section.made_ms = ground.now_ms;
    let writer = step.model.as_ref().or(template.parsed.model.as_ref());
    if writer == Some(&Writer::None) {
        // An instruction that nobody follows is no summary: the engine's own lines do.
        let texts = given.into_iter().map(|(_, text)| text);
        return Ok(texts.collect::<Vec<_>>().join("\n\n"));
    }
    section.by_model = true;
    let runs = step.recent_runs.or(template.parsed.recent_runs).map_or(RECENT_RUNS, Runs::count);
    let summaries = step.recent_summaries.map_or(1, Runs::count);
    let mut call = prompt::call(ground, manager, template, &rendered.text, &given, runs, summaries);
    call.own = matches!(writer, Some(Writer::Named(_))) && manager.own.is_some();
    section.asked.clone_from(&call.behind);
    let answered = ask(&call, &mut section.body).map_err(|error| Unmanaged::Model(error.0))?;
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
