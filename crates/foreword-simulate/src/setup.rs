//! From what a scenario says to what a session needs.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreword_core::item::{ItemId, Kind};
use foreword_core::message::Image;
use foreword_core::session::{TurnInput, TurnResult};
use foreword_core::settings::{Layout, Settings};
use foreword_core::tokens::Tokenizer;
use foreword_core::version::Version;
use foreword_documents::images::pixels;
use foreword_provider::dialect::Dialect;
use foreword_provider::model::{Model, TokenizerName};
use foreword_provider::stream::Ttl;
use foreword_provider::table::ModelTable;

use super::images::images_of;
use super::load::{Loaded, ScenarioError};
use super::scenario::{AttachEvent, AttachKind, Event, TurnEvent};
use foreword_engine::session::{EMBEDDED, embedded_file};
use foreword_engine::settings::{self, SettingError, ToolSetting};

/// What the command line says over the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Another layout.
    pub layout: Option<Layout>,
    /// Another provider.
    pub provider: Option<String>,
    /// Another model.
    pub model: Option<String>,
    /// The folder that holds local models.
    pub models: Option<std::path::PathBuf>,
}

/// Everything a run needs beside the events.
pub(super) struct Setup {
    pub(super) settings: Settings,
    pub(super) tokenizer: Arc<dyn Tokenizer>,
    pub(super) dialect: Dialect,
    pub(super) model: Model,
    pub(super) ttl: Ttl,
}

pub(super) fn setup(loaded: &Loaded, overrides: &Overrides) -> Result<Setup, ScenarioError> {
    let given = &loaded.scenario.settings;
    let table = ModelTable::builtin().map_err(|error| loaded.error("settings.model", error))?;
    // Another model on the command line brings its own dialect, unless that is named too.
    let provider = overrides.provider.as_ref().or(given.provider.as_ref().filter(|_| overrides.model.is_none()));
    let dialect: Option<Dialect> = match provider {
        Some(name) => Some(name.parse().map_err(|error| loaded.error("settings.provider", error))?),
        None => None,
    };
    // Another provider on the command line does not go with the file's model.
    let model_name = match (&overrides.model, &overrides.provider) {
        (Some(model), _) => Some(model),
        (None, Some(_)) => None,
        (None, None) => given.model.as_ref(),
    };
    let model = match (model_name, dialect) {
        (Some(name), _) => table.find(name),
        (None, dialect) => table.default_for(dialect.unwrap_or(Dialect::OpenAiChat)),
    };
    let model = model.map_err(|error| loaded.error("settings.model", error))?;
    let dialect = dialect.unwrap_or(if model_name.is_some() { model.dialect } else { Dialect::OpenAiChat });
    let tokenizer = tokenizer(loaded, &model, overrides)?;
    let ttl = match given.cache_ttl.as_deref() {
        None | Some("5m") => Ttl::default(),
        Some("1h") => Ttl::Long,
        Some(other) => return Err(loaded.error("settings.cache_ttl", format!("{other:?}; expected \"5m\" or \"1h\""))),
    };
    let native = given.tools == ToolSetting::Native;
    let wrong = |error: &SettingError| loaded.error(format!("settings.{}", error.path), &error.what);
    if given.history.template.is_some() {
        return Err(loaded.error("settings.history.template", "no model is asked here; give the `summary` instead"));
    }
    let settings = Settings {
        layout: overrides.layout.unwrap_or(given.layout),
        tools: dialect.tool_style(&model, native, loaded.scenario.agent.tools.len()),
        budget: settings::budget(&given.budget, &model.budget(), model.window).map_err(|error| wrong(&error))?,
        history: settings::history(&given.history).map_err(|error| wrong(&error))?,
        select: given.select,
        select_tools: given.select_tools,
        keep_outputs: given.keep_outputs.unwrap_or(5),
        promote_selections: given.promote_selections,
        plan: given.plan,
        images: model.image_tokens(),
        ..Settings::new(&loaded.scenario.name, model.cache_prices())
    };
    Ok(Setup { settings, tokenizer, dialect, model, ttl })
}

/// The tokenizer the scenario asks for, else the model's own; the embedded model's where its file is there.
fn tokenizer(loaded: &Loaded, model: &Model, overrides: &Overrides) -> Result<Arc<dyn Tokenizer>, ScenarioError> {
    let (embedded_model, embedded, file) = EMBEDDED;
    let given = loaded.scenario.settings.tokenizer.as_deref();
    let path = embedded_file(overrides.models.as_deref());
    let wrong = |error: &dyn std::fmt::Display| loaded.error("settings.tokenizer", error);
    match (given, path) {
        (name, Some(path)) if name.map_or(model.name == embedded_model, |name| name == embedded) => {
            let opened = foreword_models::open(&path).map_err(|error| wrong(&error))?;
            Ok(Arc::new(opened.named(embedded)))
        }
        (Some(name), None) if name == embedded => {
            let message = format!("{embedded:?} needs the file {file}; set FOREWORD_MODELS to the folder that holds it");
            Err(loaded.error("settings.tokenizer", message))
        }
        (Some(name), _) => Ok(Arc::new(name.parse::<TokenizerName>().map_err(|error| wrong(&error))?.tokenizer())),
        (None, _) => Ok(Arc::new(model.tokenizer.tokenizer())),
    }
}

/// A turn with everything it attaches.
pub(super) fn turn(loaded: &Loaded, at: usize, event: &TurnEvent) -> Result<TurnInput, ScenarioError> {
    let mut attached = Vec::new();
    for (index, attach) in event.attach.iter().enumerate() {
        attached.push(attachment(loaded, &format!("events[{at}].turn.attach[{index}]"), attach)?);
    }
    let active_note = event.active_note.as_deref().map(ItemId::note);
    if let (Some(id), Some(path)) = (&active_note, &event.active_note)
        && !attached.iter().any(|version| version.id == *id)
    {
        // The open note comes along even where nobody attached it, if it can be read.
        let place = format!("events[{at}].turn.active_note");
        let earlier = earlier_text(loaded, at, path);
        let content = earlier.map_or_else(|| read(loaded, &place, path), |content| Ok(content.to_owned()))?;
        attached.push(Version::note(path, None, &content, images_of(loaded, path, &content)));
    }
    let results = event.tool_results.iter().map(|result| TurnResult {
        tool: result.tool.clone(),
        attributes: result.attributes.0.clone(),
        output: result.output.clone(),
        ..TurnResult::default()
    });
    let scores = event.scores.iter().map(|(id, scores)| (id.clone(), scores.clone().into_chunks()));
    let (results, scores) = (results.collect(), scores.collect());
    Ok(TurnInput { words: event.user.clone(), attached, active_note, results, scores, ..TurnInput::default() })
}

/// A note's text as it was last attached before event `at`.
fn earlier_text<'a>(loaded: &'a Loaded, at: usize, path: &str) -> Option<&'a str> {
    let turns = loaded.scenario.events[..at].iter().rev();
    let attached = turns.flat_map(|event| if let Event::Turn(turn) = event { turn.attach.as_slice() } else { &[] });
    let mut notes = attached.filter(|attach| attach.kind == AttachKind::Note && attach.path.as_deref() == Some(path));
    notes.find_map(|attach| attach.content.as_deref())
}

fn attachment(loaded: &Loaded, place: &str, attach: &AttachEvent) -> Result<Version, ScenarioError> {
    let needs = |name: &str, value: &Option<String>| {
        value.clone().ok_or_else(|| {
            loaded.error(format!("{place}.{name}"), format!("missing; a {:?} needs it", attach.kind).to_lowercase())
        })
    };
    let belongs: &[(&str, bool)] = match attach.kind {
        AttachKind::Note => {
            &[("url", attach.url.is_some()), ("lines", attach.lines.is_some()), ("query", attach.query.is_some())]
        }
        AttachKind::Url => {
            &[("path", attach.path.is_some()), ("lines", attach.lines.is_some()), ("query", attach.query.is_some())]
        }
        AttachKind::Selection => &[("url", attach.url.is_some()), ("query", attach.query.is_some())],
        AttachKind::Query => &[("url", attach.url.is_some()), ("lines", attach.lines.is_some())],
    };
    if let Some((name, _)) = belongs.iter().find(|(_, is_given)| *is_given) {
        return Err(loaded.error(format!("{place}.{name}"), format!("a {:?} has no such field", attach.kind).to_lowercase()));
    }
    match attach.kind {
        AttachKind::Note => {
            let path = needs("path", &attach.path)?;
            let content = attach.content.clone().map_or_else(|| read(loaded, &format!("{place}.path"), &path), Ok)?;
            let given = attach.images.iter().map(|image| Image {
                id: ItemId::new(Kind::Image, &image.name),
                media_type: image.media_type.clone(),
                data: Arc::from(image.data.as_str()),
                pixels: STANDARD.decode(&image.data).ok().and_then(|bytes| pixels(&bytes)),
            });
            let images = given.chain(images_of(loaded, &path, &content));
            Ok(Version::note(&path, attach.title.as_deref(), &content, images.collect()))
        }
        AttachKind::Url => {
            let content = needs("content", &attach.content)?;
            Ok(Version::url(&needs("url", &attach.url)?, attach.title.as_deref(), &content))
        }
        AttachKind::Selection => {
            let path = needs("path", &attach.path)?;
            let [first, last] =
                attach.lines.ok_or_else(|| loaded.error(format!("{place}.lines"), "missing; a selection needs [first, last]"))?;
            if first == 0 || last < first {
                return Err(loaded.error(
                    format!("{place}.lines"),
                    format!("[{first}, {last}]; expected a first line from 1 and a last line not before it"),
                ));
            }
            let content = if let Some(content) = &attach.content {
                content.clone()
            } else {
                let whole = read(loaded, &format!("{place}.path"), &path)?;
                let count = (last - first + 1) as usize;
                whole.lines().skip(first as usize - 1).take(count).collect::<Vec<_>>().join("\n")
            };
            Ok(Version::selection(&path, first, last, &content))
        }
        AttachKind::Query => {
            let content = needs("content", &attach.content)?;
            Ok(Version::query(&needs("path", &attach.path)?, &needs("query", &attach.query)?, &content))
        }
    }
}

/// A note of the scenario's vault. A path that leads out of it is refused.
fn read(loaded: &Loaded, place: &str, path: &str) -> Result<String, ScenarioError> {
    let Some(vault) = &loaded.scenario.vault else {
        return Err(loaded.error(place, format!("{path:?} has no content, and there is no vault to read it from")));
    };
    let cannot = |error: std::io::Error| loaded.error(place, format!("{path:?} cannot be read from the vault: {error}"));
    let root =
        fs::canonicalize(loaded.folder.join(vault)).map_err(|error| loaded.error("vault", format!("{vault:?}: {error}")))?;
    let file = fs::canonicalize(root.join(Path::new(path))).map_err(cannot)?;
    if !file.starts_with(&root) {
        return Err(loaded.error(place, format!("{path:?} leads out of the vault")));
    }
    let bytes = fs::read(&file).map_err(cannot)?;
    String::from_utf8(bytes).map_err(|error| loaded.error(place, format!("{path:?} is not UTF-8: {error}")))
}
