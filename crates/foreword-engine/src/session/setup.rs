//! What a session runs with: its settings and its model, as they are stored with it.

use std::path::Path;
use std::sync::Arc;

use foreword_core::budget::Budget;
use foreword_core::catalog::{Agent, Include};
use foreword_core::prompt::ToolStyle;
use foreword_core::select::Select;
use foreword_core::settings::{Layout, Settings};
use foreword_core::tokens::{Tokenizer, Tokens};
use foreword_models::weights::SMOLLM2;
use foreword_provider::dialect::{Dialect, MAX_LISTED_TOOLS};
use foreword_provider::model::{Model, TokenizerName};
use foreword_provider::stream::Ttl;
use foreword_provider::table::{ModelTable, TableError, UnknownModel};
use serde::{Deserialize, Serialize};

use super::speak::Size;
use crate::settings::{SessionSettings, ToolSetting, is_default};
use crate::tools::find::NOTES;

/// Room for a reply where nothing else is said.
pub(crate) const DEFAULT_REPLY: u64 = 4096;

/// The embedded model, the word for its tokenizer in settings, and the file that holds it.
pub(crate) const EMBEDDED: (&str, &str, &str) = ("smollm2-135m-instruct", "smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf");

/// Settings, model and dialect of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// What the core needs.
    pub settings: Settings,
    /// The model, as the table had it then.
    pub model: Model,
    /// How it is spoken to.
    pub dialect: Dialect,
    /// How its text is counted.
    pub tokenizer: String,
    /// How long marks are remembered.
    pub ttl: Ttl,
    /// The agent it began with, by name: its tool servers are started anew whenever the session goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The template by which its history is managed, by name: it is read anew whenever the session goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The settings that it was given, for when another model answers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wanted: SessionSettings,
    /// Whether it is the conversation of a client of the gateway.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub client: bool,
}

/// Why a session cannot run as asked.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// No such model.
    #[error(transparent)]
    Model(#[from] UnknownModel),
    /// No such tokenizer.
    #[error("cannot load the tokenizer {0:?} of this session: {1}")]
    Tokenizer(String, String),
}

impl Setup {
    /// Whether the model is the one that runs in this process.
    pub fn is_embedded(&self) -> bool {
        is_embedded(&self.model.name)
    }

    /// How much the model can take in.
    pub fn size(&self) -> Size {
        if self.is_embedded() { Size::Small } else { Size::Large }
    }

    /// A session with a model of the table; without a name, the one that comes with Foreword.
    /// The embedded model is counted exactly where its file is there, and estimated where it is not.
    pub fn new(
        session: &str,
        model: Option<&str>,
        layout: Layout,
        tools: usize,
        models: Option<&Path>,
    ) -> Result<Self, SetupError> {
        let model = ModelTable::builtin()?.find(model.unwrap_or(EMBEDDED.0))?;
        Ok(Self::of(session, model, layout, tools, models))
    }

    /// A session with a model that was chosen already.
    pub fn of(session: &str, model: Model, layout: Layout, tools: usize, models: Option<&Path>) -> Self {
        let budget = usual_budget(&model);
        let dialect = model.dialect;
        let settings = Settings {
            layout,
            budget,
            tools: dialect.tool_style(&model, false, tools),
            images: model.image_tokens(),
            ..Settings::new(session, model.cache_prices())
        };
        let (embedded, its_own, _) = EMBEDDED;
        let exact = model.name == embedded && embedded_file(models).is_some();
        let tokenizer = if exact { its_own } else { model.tokenizer.tokenizer().name() }.to_owned();
        Self {
            settings,
            model,
            dialect,
            tokenizer,
            ttl: Ttl::default(),
            agent: None,
            template: None,
            wanted: SessionSettings::default(),
            client: false,
        }
    }

    /// The part of a window that what is found in the notes is measured by: a small budget is a small window.
    pub fn room_for_sources(&self) -> Tokens {
        self.model.window.min(Tokens(self.settings.budget.prompt.0.saturating_mul(2)))
    }

    /// How notes are found, for `qa` and `localSearch`.
    pub fn select_notes(&self) -> Select {
        self.wanted.search.notes.select(NOTES)
    }

    /// Decides how the choice of tools is told. Where every tool is always in there is no choice to tell, and the list is sent as it is.
    pub fn choose_tool_style(&mut self, agent: &Agent) {
        let native = self.wanted.tools == Some(ToolSetting::Native);
        let listed = agent.tools.len() <= MAX_LISTED_TOOLS && !native;
        let chosen_by_search = agent.tools.iter().any(|tool| agent.tool_include(tool) == Include::Agent);
        self.settings.tools = if listed && !chosen_by_search {
            ToolStyle::Allowed
        } else {
            self.dialect.tool_style(&self.model, native, agent.tools.len())
        };
    }

    /// The tokenizer; the embedded model's own needs its file among the models.
    pub fn open_tokenizer(&self, models: Option<&Path>) -> Result<Arc<dyn Tokenizer>, SetupError> {
        let (_, embedded, file) = EMBEDDED;
        if self.tokenizer == embedded {
            let wrong = |why: String| SetupError::Tokenizer(embedded.to_owned(), why);
            let path = embedded_file(models).ok_or_else(|| wrong(format!("the model file {file} is missing")))?;
            let opened = foreword_models::open(&path).map_err(|error| wrong(error.to_string()))?;
            return Ok(Arc::new(opened.named(embedded)));
        }
        let name: TokenizerName =
            self.tokenizer.parse().map_err(|error| SetupError::Tokenizer(self.tokenizer.clone(), format!("{error}")))?;
        Ok(Arc::new(name.tokenizer()))
    }
}

/// Whether a model of that name is the one that runs in this process.
pub fn is_embedded(model: &str) -> bool {
    model == EMBEDDED.0
}

/// The budget of a session with that model where nothing is said: all of its window.
pub(crate) fn usual_budget(model: &Model) -> Budget {
    let reply = model.reply_limit.min(Tokens(DEFAULT_REPLY));
    Budget { prompt: model.window - reply, reply, ..Budget::default() }
}

/// The file of the embedded model, where it is there.
pub fn embedded_file(models: Option<&Path>) -> Option<std::path::PathBuf> {
    let (_, _, file) = EMBEDDED;
    let places = models.iter().flat_map(|folder| [folder.join(file), folder.join(SMOLLM2.name).join(file)]);
    places.into_iter().find(|path| path.is_file())
}
