//! The setup of a session: its settings and its model, stored with it.

use std::path::Path;
use std::sync::Arc;

use foreword_core::catalog::Agent;
use foreword_core::select::Select;
use foreword_core::settings::{Layout, Settings};
use foreword_core::tokens::{Tokenizer, Tokens};
use foreword_models::weights::SMOLLM2;
use foreword_provider::dialect::Dialect;
use foreword_provider::model::{Model, TokenizerName};
use foreword_provider::stream::Ttl;
use foreword_provider::table::{ModelTable, TableError, UnknownModel};
use serde::{Deserialize, Serialize};

use super::speak::Size;
use crate::settings::{SessionSettings, ToolSetting, is_default};
use foreword_vault_tools::find::NOTES;

/// The embedded model: its name, the name of its tokenizer in settings, and its file.
pub const EMBEDDED: (&str, &str, &str) = ("smollm2-135m-instruct", "smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf");

/// The settings, model and dialect of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The settings of the core.
    pub settings: Settings,
    /// The model, as it was in the model table at that time.
    pub model: Model,
    /// The provider's dialect.
    pub dialect: Dialect,
    /// The name of the tokenizer.
    pub tokenizer: String,
    /// The lifetime of cache marks.
    pub ttl: Ttl,
    /// The name of the agent that the session began with. Its tool servers are started each time the session is opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The project it began with, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The base URL that its requests go to; none where its model runs in this process, or where nothing was sent yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// The template by which its history is managed, by name: it is read anew whenever the session goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The requested settings, which are applied again if the model changes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wanted: SessionSettings,
    /// Whether a client of the gateway owns the conversation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub client: bool,
}

/// Why a setup is invalid.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The model table is invalid.
    #[error(transparent)]
    Table(#[from] TableError),
    /// There is no such model.
    #[error(transparent)]
    Model(#[from] UnknownModel),
    /// The tokenizer cannot be loaded.
    #[error("cannot load the tokenizer {0:?} of this session: {1}")]
    Tokenizer(String, String),
}

impl Setup {
    /// Whether the model is the embedded one.
    pub fn is_embedded(&self) -> bool {
        is_embedded(&self.model.name)
    }

    /// The model's size.
    pub fn size(&self) -> Size {
        if self.is_embedded() { Size::Small } else { Size::Large }
    }

    /// The setup for a model of the table, or for the embedded one. The embedded model's tokens are counted exactly if its file is
    /// present, and estimated otherwise.
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

    /// The setup for a model that was already chosen.
    pub fn of(session: &str, model: Model, layout: Layout, tools: usize, models: Option<&Path>) -> Self {
        let dialect = model.dialect;
        let settings = model.settings(session, dialect, layout, tools);
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
            project: None,
            destination: None,
            template: None,
            wanted: SessionSettings::default(),
            client: false,
        }
    }

    /// The room for search results, as a part of the budget.
    pub fn room_for_sources(&self) -> Tokens {
        self.model.window.min(Tokens(self.settings.budget.prompt.0.saturating_mul(2)))
    }

    /// The selection settings for searching notes, for `qa` and `localSearch`.
    pub fn select_notes(&self) -> Select {
        self.wanted.search.notes.select(NOTES)
    }

    /// Decides how the choice of tools is sent. If all tools are always included, the list is sent unchanged.
    pub fn choose_tool_style(&mut self, agent: &Agent) {
        let native = self.wanted.tools == Some(ToolSetting::Native);
        self.settings.tools = self.dialect.tool_style_of(&self.model, native, agent);
    }

    /// Opens the tokenizer; the embedded model's tokenizer needs its file.
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

/// Whether the embedded model has this name.
pub fn is_embedded(model: &str) -> bool {
    model == EMBEDDED.0
}

/// The path of the embedded model's file, if it exists.
pub fn embedded_file(models: Option<&Path>) -> Option<std::path::PathBuf> {
    let (_, _, file) = EMBEDDED;
    let places = models.iter().flat_map(|folder| [folder.join(file), folder.join(SMOLLM2.name).join(file)]);
    places.into_iter().find(|path| path.is_file())
}
