//! Request formats. The dialect decides the shape of the JSON; the model's row decides which features are used.

use std::fmt;
use std::str::FromStr;

use foreword_core::catalog::{Agent, Include};
use foreword_core::prompt::ToolStyle;
use serde::{Deserialize, Serialize};

use crate::model::{Capability, Model};

pub(crate) mod anthropic;
pub mod gemini;
pub mod names;
pub(crate) mod openai_chat;
pub(crate) mod openai_responses;
pub(crate) mod parts;
pub(crate) mod system;
pub(crate) mod tools;
pub(crate) mod turns;
pub(crate) mod wire;

/// With more tools than this, `useTool` replaces the full list.
pub const MAX_LISTED_TOOLS: usize = 64;

/// A provider's request format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Dialect {
    /// OpenAI Responses.
    OpenAiResponses,
    /// OpenAI Chat Completions.
    OpenAiChat,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini generateContent.
    Gemini,
    /// Chat Completions as supported by llama.cpp, Ollama and vLLM.
    LlamaCpp,
}

impl From<Dialect> for &'static str {
    fn from(dialect: Dialect) -> Self {
        dialect.as_str()
    }
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 5] = [Self::OpenAiResponses, Self::OpenAiChat, Self::Anthropic, Self::Gemini, Self::LlamaCpp];

    /// The name in settings and stored data.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAiResponses => "openai-responses",
            Self::OpenAiChat => "openai-chat",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::LlamaCpp => "llamacpp",
        }
    }

    /// The author of a model's opaque blocks. Only the same author can read them.
    pub fn author(self, model: &Model) -> String {
        format!("{self}/{}", model.wire)
    }

    /// How the choice of tools is sent to `model` in this dialect, given the number of tools.
    pub fn tool_style(self, model: &Model, native: bool, tool_count: usize) -> ToolStyle {
        let allowed = matches!(self, Self::OpenAiChat | Self::OpenAiResponses) && model.has(Capability::AllowedTools);
        if native {
            ToolStyle::Native
        } else if allowed && tool_count <= MAX_LISTED_TOOLS {
            ToolStyle::Allowed
        } else {
            ToolStyle::UseTool
        }
    }
}

impl Dialect {
    /// How the choice of an agent's tools is sent. If all tools are always included, the list is sent unchanged.
    pub fn tool_style_of(self, model: &Model, native: bool, agent: &Agent) -> ToolStyle {
        let listed = agent.tools.len() <= MAX_LISTED_TOOLS && !native;
        let chosen_by_search = agent.tools.iter().any(|tool| agent.tool_include(tool) == Include::Agent);
        if listed && !chosen_by_search { ToolStyle::Allowed } else { self.tool_style(model, native, agent.tools.len()) }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An unknown dialect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown provider {0:?}: expected one of openai-responses, openai-chat, anthropic, gemini, llamacpp")]
pub struct UnknownDialect(String);

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(text: &str) -> Result<Self, UnknownDialect> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == text).ok_or_else(|| UnknownDialect(text.to_owned()))
    }
}

impl TryFrom<String> for Dialect {
    type Error = UnknownDialect;

    fn try_from(text: String) -> Result<Self, UnknownDialect> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::ModelTable;

    #[test]
    fn names_read_back_and_errors_list_them() {
        for dialect in Dialect::ALL {
            assert_eq!(dialect.as_str().parse(), Ok(dialect));
        }
        let error = "openai".parse::<Dialect>().unwrap_err().to_string();
        for dialect in Dialect::ALL {
            assert!(error.contains(dialect.as_str()));
        }
    }

    #[test]
    fn tool_styles() {
        let table = ModelTable::builtin().unwrap();
        let check = |dialect: Dialect, native, count, expect| {
            let model = table.default_for(dialect).unwrap();
            assert_eq!(dialect.tool_style(&model, native, count), expect);
        };
        check(Dialect::OpenAiChat, false, 64, ToolStyle::Allowed);
        check(Dialect::OpenAiChat, false, 65, ToolStyle::UseTool);
        check(Dialect::OpenAiResponses, false, 3, ToolStyle::Allowed);
        check(Dialect::OpenAiResponses, true, 3, ToolStyle::Native);
        check(Dialect::Anthropic, false, 3, ToolStyle::UseTool);
        check(Dialect::Gemini, false, 3, ToolStyle::UseTool);
        check(Dialect::LlamaCpp, true, 3, ToolStyle::Native);
    }
}
