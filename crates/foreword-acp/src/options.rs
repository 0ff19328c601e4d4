//! The modes and options of a session, as a client shows them.

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
    pub(crate) modes: Value,
    pub(crate) config: Value,
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
        let select = |id: &str, name: &str, category: &str, current: &str, all: &[String]| {
            let all: Vec<Value> = all.iter().map(|value| json!({"value": value, "name": value})).collect();
            json!({"id": id, "name": name, "category": category, "type": "select", "currentValue": current, "options": all})
        };
        let config = json!([
            select("model", "Model", "model", &model, &models),
            select("template", "Template for summaries", "_template", &template, &templates),
            select("layout", "Layout of the prompt", "_layout", text(settings, "layout"), &layouts),
        ]);
        let modes = MODES.map(|(id, name, description)| json!({"id": id, "name": name, "description": description}));
        let modes = json!({"currentModeId": text(settings, "mode"), "availableModes": modes});
        Ok(Self { modes, config })
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
