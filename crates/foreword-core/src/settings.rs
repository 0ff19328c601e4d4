//! What a session is set to do.

use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::image_tokens::ImageTokens;
use crate::plan::PlanLimits;
use crate::prompt::{CachePrices, ToolStyle};
use crate::select::Select;
use crate::tokens::Tokens;

/// How an envelope becomes messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// System = L1 + L2, then L4, then one user message with L3 and L5.
    #[default]
    Library,
    /// Never rewritten within an epoch: each turn is appended as it was sent.
    Log,
}

impl Layout {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Library, Self::Log];

    /// The word in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Library => "library",
            Self::Log => "log",
        }
    }
}

/// What L4 holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryPolicy {
    /// Everything, as far as the budget goes.
    #[default]
    Full,
    /// The newest messages.
    Window {
        /// Most messages, the user's own included.
        messages: usize,
        /// Most characters.
        chars: usize,
        /// Most characters of one message.
        message_chars: usize,
    },
    /// A summary and the last runs.
    Strip {
        /// How many runs stay word for word.
        keep_runs: usize,
        /// Room for the summary.
        summary_tokens: Tokens,
    },
    /// A summary from outside and the last runs.
    Managed {
        /// The summary; none leaves the history as it is.
        summary: Option<String>,
        /// How many runs stay word for word.
        passthrough_runs: usize,
        /// Below this size of the history nothing is managed.
        token_threshold: Tokens,
    },
}

/// All settings of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Names the session.
    pub session: String,
    /// How it is laid out.
    pub layout: Layout,
    /// How the choice of tools is sent.
    pub tools: ToolStyle,
    /// How much room there is.
    pub budget: Budget,
    /// What L4 holds.
    pub history: HistoryPolicy,
    /// How items are chosen.
    pub select: Select,
    /// How tools are chosen, where they do not compete with rules and references for the same places.
    #[serde(default)]
    pub select_tools: Option<Select>,
    /// What tokens cost.
    pub prices: CachePrices,
    /// How many tool outputs stay whole through a fold.
    pub keep_outputs: usize,
    /// The number of turns that a fold keeps before it keeps unused library items.
    pub recent_runs: usize,
    /// Room for the summary a fold leaves.
    pub summary_tokens: Tokens,
    /// Whether selections join the library.
    pub promote_selections: bool,
    /// Limits of a plan.
    pub plan: PlanLimits,
    /// What an image takes.
    #[serde(default)]
    pub images: ImageTokens,
    /// Whether an output that fits its cap is shown to the byte: a client that runs its own tools, and edits what it read, needs it so.
    #[serde(default)]
    pub verbatim_outputs: bool,
}

impl Settings {
    /// The defaults for a session of that name.
    pub fn new(session: &str, prices: CachePrices) -> Self {
        Self {
            session: session.to_owned(),
            layout: Layout::Library,
            tools: ToolStyle::UseTool,
            budget: Budget::default(),
            history: HistoryPolicy::Full,
            select: Select::default(),
            select_tools: None,
            prices,
            keep_outputs: 5,
            recent_runs: 2,
            summary_tokens: Tokens(300),
            promote_selections: false,
            plan: PlanLimits::default(),
            images: ImageTokens::default(),
            verbatim_outputs: false,
        }
    }
}
