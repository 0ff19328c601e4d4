//! Parses templates. Errors are never fatal: invalid parts are ignored and reported.

use foreword_markdown::frontmatter;
use jiff::civil::Weekday;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{Flaw, Given, Named, Runs, Step, WEEK_START, Writer};

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parsed {
    /// Its description.
    pub description: Option<String>,
    /// The number of turns that stay unchanged, if set.
    pub passthrough_runs: Option<Runs>,
    /// The smallest history size for summaries, if set.
    pub token_threshold: Option<u64>,
    /// The number of turns to read, if set.
    pub recent_runs: Option<Runs>,
    /// The model, if set.
    pub model: Option<Writer>,
    /// The first day of the week, for placeholders and weekly outputs.
    #[serde(serialize_with = "weekday")]
    pub week_start_day: Weekday,
    /// Instructions for the chat model.
    pub chat_instructions: Option<String>,
    /// Instructions for the summarizing model.
    pub context_instructions: Option<String>,
    /// The steps.
    pub steps: Vec<Step>,
    /// The errors.
    pub flaws: Vec<Flaw>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn weekday<S: Serializer>(day: &Weekday, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(DAYS[day.to_monday_zero_offset().unsigned_abs() as usize % DAYS.len()])
}

const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

const CHAT: &str = "chat instructions";
const CONTEXT: &str = "context instructions";

/// The largest number of steps: each may be a model call.
const MOST_STEPS: usize = 16;

/// Parses a template.
pub fn parse(text: &str) -> Parsed {
    let head = frontmatter::read(text);
    let mut parsed = Parsed {
        description: None,
        passthrough_runs: None,
        token_threshold: None,
        recent_runs: None,
        model: None,
        week_start_day: WEEK_START,
        chat_instructions: None,
        context_instructions: None,
        steps: Vec::new(),
        flaws: Vec::new(),
    };
    if let Some(fault) = &head.fault {
        parsed.flaw(1, format!("invalid YAML in the frontmatter: {fault}"));
    }
    for (key, value) in &head.fields {
        if let Err(what) = parsed.setting(&plain(key), value) {
            parsed.flaw(1, format!("{key} in the frontmatter: {what}"));
        }
    }
    let body = text.get(head.range.end..).unwrap_or_default();
    let first_line = text.get(..head.range.end).unwrap_or_default().lines().count() + 1;
    let sections = sections(body, first_line);
    // A template without headings is one thing to write.
    if sections.iter().all(|section| section.name.is_none()) {
        for section in sections {
            parsed.step("Summary", &section);
        }
    } else {
        parsed.steps_of(&sections);
    }
    if parsed.steps.is_empty() {
        parsed.flaw(first_line, "there is no step, so nothing is kept by it: write what a summary is to say, under a heading");
    }
    parsed
}

/// Normalizes a name: case is ignored, and `-` equals `_`.
fn plain(name: &str) -> String {
    name.trim().to_lowercase().replace('-', "_")
}

fn said(lines: &[&str]) -> Option<String> {
    let text = lines.join("\n").trim().to_owned();
    (!text.is_empty()).then_some(text)
}

impl Parsed {
    fn steps_of(&mut self, sections: &[Section<'_>]) {
        for section in sections {
            let Some(name) = section.name else { continue };
            match plain(name).replace('_', " ").as_str() {
                CHAT => self.chat_instructions = said(&section.lines),
                CONTEXT => self.context_instructions = said(&section.lines),
                _ => self.step(name, section),
            }
        }
    }

    fn flaw(&mut self, line: usize, what: impl Into<String>) {
        self.flaws.push(Flaw { line, what: what.into() });
    }

    fn setting(&mut self, key: &str, value: &Value) -> Result<(), String> {
        let word = match value {
            Value::String(text) => text.clone(),
            Value::Null => return Ok(()),
            other => other.to_string(),
        };
        match key {
            "description" => self.description = Some(word),
            "passthrough_runs" => self.passthrough_runs = Some(word.parse()?),
            "recent_runs" => self.recent_runs = Some(word.parse()?),
            "token_threshold" => {
                let number = word.trim().replace('_', "").parse();
                self.token_threshold = Some(number.map_err(|_| format!("{word:?} is not a number of tokens"))?);
            }
            "model" => self.model = Some(Writer::from(word.as_str())),
            "week_start_day" => {
                let day = DAYS.iter().position(|day| *day == word.trim().to_lowercase());
                let day = day.and_then(|day| Weekday::from_monday_zero_offset(i8::try_from(day).ok()?).ok());
                self.week_start_day = day.ok_or_else(|| format!("{word:?} is not a day of the week, in English"))?;
            }
            // Other keys belong to whoever else reads the note.
            _ => {}
        }
        Ok(())
    }

    fn step(&mut self, name: &str, section: &Section<'_>) {
        if self.steps.len() == MOST_STEPS {
            if !self.flaws.iter().any(|flaw| flaw.what.starts_with("more than")) {
                self.flaw(section.line, format!("more than {MOST_STEPS} steps; this step and the following ones are ignored"));
            }
            return;
        }
        let mut step = Step { name: name.to_owned(), ..Step::default() };
        // Directives stand in front of the text.
        let mut lines = section.lines.iter().enumerate();
        let mut from = section.lines.len();
        for (at, line) in lines.by_ref() {
            if line.trim().is_empty() {
                continue;
            }
            let Some(directive) = line.trim().strip_prefix('@') else {
                from = at;
                break;
            };
            let (name, value) = directive.split_once([' ', ':', '\t']).unwrap_or((directive, ""));
            if let Err(what) = direct(&mut step, &plain(name), value.trim_start_matches(':').trim()) {
                self.flaw(section.line + at + 1, format!("@{name}: {what}"));
            }
        }
        section.lines[from..].join("\n").trim().clone_into(&mut step.text);
        if let Some((language, shape)) = shape(&step.text)
            && language == "json"
            && let Err(error) = serde_json::from_str::<Value>(shape)
        {
            self.flaw(section.line, format!("the schema of {name:?} is not valid JSON ({error}); it is used as text"));
        }
        self.steps.push(step);
    }
}

fn direct(step: &mut Step, name: &str, value: &str) -> Result<(), String> {
    if value.is_empty() {
        return Err("the value is missing".to_owned());
    }
    match name {
        "recent_runs" => step.recent_runs = Some(value.parse()?),
        "recent_summaries" => step.recent_summaries = Some(value.parse()?),
        "model" => step.model = Some(Writer::from(value)),
        "header" => step.header = Some(value.trim_matches('"').to_owned()),
        "cache" => step.cache = Some(value.parse()?),
        "input" => {
            let bare = value.replace("(required)", "");
            step.input.push(Given { what: named(bare.trim())?, required: bare.len() < value.len() });
        }
        "output" => match named(value)? {
            Named::Variable(name) => step.output = Some(name),
            Named::File(name) if name == "context" => step.output = None,
            Named::File(name) => {
                return Err(format!("{name:?}: templates cannot write files; use `variable: NAME` or remove it"));
            }
        },
        "tools" | "write_mode" => return Err("not supported; it is ignored".to_owned()),
        _ => return Err("unknown directive".to_owned()),
    }
    Ok(())
}

/// Parses `file: a.md`, `variable: x`, `a.md` or `[[a]]`.
fn named(value: &str) -> Result<Named, String> {
    let after = |word: &str| value.strip_prefix(word).map(|rest| rest.trim_start().trim_start_matches(':').trim());
    let what = match (after("variable"), after("file")) {
        (Some(name), _) => Named::Variable(name.to_owned()),
        (_, Some(path)) => Named::File(link(path).to_owned()),
        _ => Named::File(link(value).to_owned()),
    };
    match &what {
        Named::File(name) | Named::Variable(name) if name.is_empty() => Err("the name is missing".to_owned()),
        _ => Ok(what),
    }
}

fn link(path: &str) -> &str {
    path.strip_prefix("[[").and_then(|path| path.strip_suffix("]]")).unwrap_or(path).trim_matches('"')
}

/// The first JSON or YAML code block: the requested schema.
fn shape(text: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    while let Some(open) = text[from..].find("```").map(|at| at + from) {
        let inside = &text[open + 3..];
        let (language, rest) = inside.split_once('\n')?;
        let end = rest.find("```")?;
        let language = language.trim();
        if matches!(language, "json" | "yaml" | "yml") {
            return Some((language, &rest[..end]));
        }
        from = open + 3 + language.len() + 1 + end + 3;
        from = text.ceil_char_boundary(from.min(text.len()));
    }
    None
}

struct Section<'a> {
    name: Option<&'a str>,
    /// The line of its heading.
    line: usize,
    lines: Vec<&'a str>,
}

/// The sections (`##`), ignoring headings in code blocks.
fn sections(body: &str, first_line: usize) -> Vec<Section<'_>> {
    let mut found = vec![Section { name: None, line: first_line.saturating_sub(1), lines: Vec::new() }];
    let mut fenced = false;
    for (line, text) in (first_line..).zip(body.lines()) {
        let bare = text.trim_start();
        if bare.starts_with("```") || bare.starts_with("~~~") {
            fenced = !fenced;
        }
        if let Some(name) = text.strip_prefix("## ").filter(|_| !fenced) {
            found.push(Section { name: Some(name.trim()), line, lines: Vec::new() });
        } else if let Some(section) = found.last_mut() {
            section.lines.push(text);
        }
    }
    found.retain(|section| section.name.is_some() || section.lines.iter().any(|line| !line.trim().is_empty()));
    found
}
