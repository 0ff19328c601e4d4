//! The modes and options of a session, as a client shows them.

use agent_client_protocol::v1::schema::{
    SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption, SessionMode, SessionModeState,
};
use serde_json::{Value, json};

use crate::backend::{Failure, Vault, text};

/// The modes: ID, name, description.
const MODES: [(&str, &str, &str); 4] = [
    ("chat", "Chat", "Talk about the notes; the model may use tools"),
    ("qa", "Questions", "Search the notes first, answer from them and cite them"),
    ("plan", "Plan", "Choose the tools in one go, then answer"),
    ("agent", "Agent", "Work with tools until the task is done"),
];

/// The value of the template option for a history without summaries.
const NO_TEMPLATE: &str = "none";

/// What a client is told about a session.
pub(crate) struct Options {
    pub(crate) modes: SessionModeState,
    pub(crate) config: Vec<SessionConfigOption>,
    /// The context window of the model in tokens.
    pub(crate) window: u64,
}

impl Options {
    pub(crate) async fn of(vault: &Vault, session: &str) -> Result<Self, Failure> {
        let settings = vault.settings(session).await?;
        Self::from_settings(vault, &settings).await
    }

    async fn from_settings(vault: &Vault, settings: &Value) -> Result<Self, Failure> {
        let (mut models, templates) = vault.choices().await?;
        let model = text(settings, "model").to_owned();
        if !models.contains(&model) {
            models.insert(0, model.clone());
        }
        let template = settings["template"].as_str().unwrap_or(NO_TEMPLATE).to_owned();
        let templates: Vec<String> = std::iter::once(NO_TEMPLATE.to_owned()).chain(templates).collect();
        let layouts = ["log", "library"].map(str::to_owned);
        let select = |id: &'static str, name: &'static str, current: String, all: &[String], description: &'static str| {
            let all: Vec<SessionConfigSelectOption> =
                all.iter().map(|value| SessionConfigSelectOption::new(value.as_str(), value.as_str())).collect();
            SessionConfigOption::select(id, name, current, all).description(description.to_owned())
        };
        let config = vec![
            select("model", "Model", model, &models, "The model that answers").category(SessionConfigOptionCategory::Model),
            select("template", "Summary", template, &templates, "The template for summaries of older messages"),
            select("layout", "Layout", text(settings, "layout").to_owned(), &layouts, "How the prompt is laid out"),
        ];
        let modes = MODES.map(|(id, name, description)| SessionMode::new(id, name).description(description.to_owned()));
        let modes = SessionModeState::new(text(settings, "mode").to_owned(), modes.to_vec());
        Ok(Self { modes, config, window: settings["window"].as_u64().unwrap_or_default() })
    }

    /// Changes an option; `None` if there is no such option.
    pub(crate) async fn set(vault: &Vault, session: &str, option: &str, value: &str) -> Result<Option<Self>, Failure> {
        let change = match (option, value) {
            ("model" | "layout" | "mode", value) => json!({option: value}),
            ("template", NO_TEMPLATE) => json!({"history": "full"}),
            ("template", value) => json!({"template": value}),
            _ => return Ok(None),
        };
        let settings = vault.set(session, &change).await?;
        Self::from_settings(vault, &settings).await.map(Some)
    }
}

/// Whether there is such a mode.
pub(crate) fn is_mode(id: &str) -> bool {
    MODES.iter().any(|(mode, ..)| *mode == id)
}
