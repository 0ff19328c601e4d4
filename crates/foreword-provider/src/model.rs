//! The properties of a model. Everything that providers may change without notice is data in the model table, not code.

use std::collections::BTreeSet;
use std::str::FromStr;

use foreword_core::budget::Budget;
use foreword_core::image_tokens::ImageTokens;
use foreword_core::prompt::{CachePrices, LongPrompt};
use foreword_core::settings::{Layout, Settings};
#[cfg(feature = "vocabularies")]
use foreword_core::tokens::OpenAi;
use foreword_core::tokens::{Chars, Tokenizer, Tokens};
use serde::{Deserialize, Serialize};

use crate::dialect::Dialect;

/// A row of the model table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// The row's name: the model's identity in settings, records and cache simulators.
    pub name: String,
    /// The name sent to the provider: the row's name, or the requested dated form.
    pub wire: String,
    /// Other names of the row.
    pub aliases: Vec<String>,
    /// The default dialect.
    pub dialect: Dialect,
    /// The context window: prompt and reply together.
    pub window: Tokens,
    /// The longest reply.
    pub reply_limit: Tokens,
    /// The tokenizer.
    pub tokenizer: TokenizerName,
    /// How its provider caches prompts.
    pub cache: CacheRules,
    /// Its prices; `None` for local models.
    pub prices: Option<Prices>,
    /// Its capabilities.
    pub can: BTreeSet<Capability>,
    /// The token cost of images, if it supports them.
    #[serde(default)]
    pub images: ImageTokens,
}

impl Model {
    /// Whether it has a capability.
    pub fn has(&self, capability: Capability) -> bool {
        self.can.contains(&capability)
    }

    /// The token cost of images.
    pub fn image_tokens(&self) -> ImageTokens {
        if self.has(Capability::Images) { self.images } else { ImageTokens::None }
    }

    /// What decides a fold: prices per token, the lifetime, and what is read of a prefix.
    pub fn cache_prices(&self) -> CachePrices {
        let rules = CachePrices {
            lifetime_s: self.cache.lifetime_s(),
            minimum: self.cache.minimum(),
            step: self.cache.step(),
            ..CachePrices::default()
        };
        let Some(prices) = self.prices else { return rules };
        CachePrices {
            input: prices.input / PER,
            read: prices.read() / PER,
            write: prices.write() / PER,
            long: prices.long.map(|long| LongPrompt { over: long.over, factor: long.input }),
            ..rules
        }
    }
}

/// The default room for a reply.
pub const DEFAULT_REPLY: Tokens = Tokens(4096);

impl Model {
    /// The default budget: the whole context window.
    pub fn budget(&self) -> Budget {
        let reply = self.reply_limit.min(DEFAULT_REPLY);
        Budget { prompt: self.window - reply, reply, ..Budget::default() }
    }

    /// The default settings of a session with this model, where `dialect` is its provider's.
    pub fn settings(&self, session: &str, dialect: Dialect, layout: Layout, tool_count: usize) -> Settings {
        Settings {
            layout,
            budget: self.budget(),
            tools: dialect.tool_style(self, false, tool_count),
            images: self.image_tokens(),
            ..Settings::new(session, self.cache_prices())
        }
    }
}

/// Prices are per this many tokens.
pub(crate) const PER: f64 = 1_000_000.0;

/// Prices in USD per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// For a prompt token that is not cached.
    pub input: f64,
    /// For a prompt token read from the cache. Default: the input price.
    pub read: Option<f64>,
    /// For a prompt token written to the cache. Default: the input price.
    pub write: Option<f64>,
    /// For a prompt token written with the long lifetime.
    pub write_long: Option<f64>,
    /// For a token of the reply.
    pub output: f64,
    /// Changes for long prompts.
    pub long: Option<LongContext>,
}

impl Prices {
    /// The price of a cache read.
    pub fn read(&self) -> f64 {
        self.read.unwrap_or(self.input)
    }

    /// The price of a cache write.
    pub fn write(&self) -> f64 {
        self.write.unwrap_or(self.input)
    }

    /// The price of a cache write with the long lifetime.
    pub fn write_long(&self) -> f64 {
        self.write_long.unwrap_or_else(|| self.write())
    }
}

/// A surcharge for prompts above a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongContext {
    /// The threshold in tokens.
    pub over: u64,
    /// The factor on input, cache reads and writes.
    pub input: f64,
    /// The factor on the reply.
    pub output: f64,
}

/// A capability of a model or its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// `tool_choice` can name a subset of the tools.
    AllowedTools,
    /// Text parts can have `prompt_cache_breakpoint`.
    Breakpoints,
    /// Requests can have `prompt_cache_key`.
    PromptCacheKey,
    /// A system message can be between other messages.
    MidConversationSystem,
    /// Chat Completions supports tools for this model.
    ToolsInChat,
    /// It supports images.
    Images,
    /// A prompt prefix can be cached as a separate resource.
    ExplicitCache,
    /// Cache marks can ask for the long lifetime.
    LongTtl,
    /// A function call without a thought signature is refused.
    ThoughtSignature,
    /// The room for the reply is called `max_tokens` in Chat Completions.
    MaxTokens,
    /// It thinks before it answers, and gives its thoughts encrypted where they are asked for (Responses).
    Reasoning,
    /// It decides itself how much it thinks, and is told an effort instead of a number of tokens (Messages).
    AdaptiveThinking,
    /// Its provider says why a prompt was not read from the cache, where it is asked to compare it with an earlier one.
    CacheDiagnostics,
    /// Its thoughts go back as `reasoning_content`, and each of its messages has that field (Chat Completions).
    ReasoningContent,
}

/// Which tokenizer counts for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenizerName {
    /// GPT-4o and later.
    O200k,
    /// GPT-4 and GPT-3.5.
    Cl100k,
    /// Four characters a token.
    Chars4,
    /// Three characters a token.
    Chars3,
}

impl TokenizerName {
    /// The name in settings and stored data.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::O200k => "o200k",
            Self::Cl100k => "cl100k",
            Self::Chars4 => "chars4",
            Self::Chars3 => "chars3",
        }
    }

    /// The tokenizer of that name. Without the feature `vocabularies`, OpenAI's tokens are estimated.
    pub fn tokenizer(self) -> &'static dyn Tokenizer {
        match self {
            #[cfg(feature = "vocabularies")]
            Self::O200k => &OpenAi::O200K,
            #[cfg(feature = "vocabularies")]
            Self::Cl100k => &OpenAi::CL100K,
            #[cfg(not(feature = "vocabularies"))]
            Self::O200k | Self::Cl100k => &Chars::FOUR,
            Self::Chars4 => &Chars::FOUR,
            Self::Chars3 => &Chars::THREE,
        }
    }
}

/// A name that is no tokenizer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown tokenizer {0:?}: expected one of o200k, cl100k, chars4, chars3")]
pub struct UnknownTokenizer(String);

impl FromStr for TokenizerName {
    type Err = UnknownTokenizer;

    fn from_str(text: &str) -> Result<Self, UnknownTokenizer> {
        [Self::O200k, Self::Cl100k, Self::Chars4, Self::Chars3]
            .into_iter()
            .find(|name| name.as_str() == text)
            .ok_or_else(|| UnknownTokenizer(text.to_owned()))
    }
}

/// How a provider remembers prompts. One variant per kind of memory; its numbers come from the table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "regime",
    rename_all = "kebab-case",
    deny_unknown_fields,
    expecting = "a cache regime: one of none, breakpoints, interval, marks, slots, blocks"
)]
pub enum CacheRules {
    /// It does not.
    None {},
    /// At exact message ends, chosen by the provider and by explicit breakpoints; writes are charged (OpenAI from 5.6 on).
    Breakpoints {
        /// The shortest cacheable prefix.
        minimum: u64,
        /// Seconds without use until it is gone.
        lifetime_s: u64,
        /// Breakpoints a request can write, the implicit one included.
        writes: usize,
        /// Explicit breakpoints looked up from the start of the prompt.
        first_explicit: usize,
        /// Explicit breakpoints looked up from its end.
        latest_explicit: usize,
        /// Earlier message ends that are looked up.
        earlier_ends: usize,
    },
    /// At multiples of an interval; writes are free (OpenAI before 5.6, Gemini, DeepSeek).
    Interval {
        /// Shortest prefix that is served.
        minimum: u64,
        /// Distance between two places where a prefix can end.
        interval: u64,
        /// Reported cached tokens are rounded down to a multiple of this.
        #[serde(default = "one")]
        report: u64,
        /// Seconds without use until it is gone.
        lifetime_s: u64,
    },
    /// At marks set by the caller, found again by walking back; writes are charged (Anthropic).
    Marks {
        /// The shortest cacheable prefix.
        minimum: u64,
        /// Seconds without use until a mark's entry is gone, counted from the end of the last answer.
        lifetime_s: u64,
        /// The same for marks with the long lifetime.
        long_lifetime_s: u64,
        /// Positions walked back from a mark, the mark's own included.
        lookback: usize,
        /// Marks a request may carry.
        marks: usize,
    },
    /// In slots that hold the last prompt each served (llama.cpp, Ollama).
    Slots {
        /// Number of slots.
        slots: usize,
        /// Share of the prompt a slot must match to be chosen for it.
        similarity: f64,
        /// What the chat template adds, where it is known: such servers count it too.
        #[serde(default)]
        template: Template,
    },
    /// In full blocks of tokens, shared by all prompts (vLLM).
    Blocks {
        /// Tokens a block.
        block: u64,
    },
}

fn one() -> u64 {
    1
}

/// The tokens that a chat template writes around the texts of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// Before what the system, a user or a tool says.
    pub open: u64,
    /// Before what the model says, at the end of a prompt too.
    pub reply: u64,
    /// Behind every message.
    pub close: u64,
}

impl CacheRules {
    /// Shortest prefix that can be cached.
    pub fn minimum(&self) -> u64 {
        match *self {
            Self::Breakpoints { minimum, .. } | Self::Interval { minimum, .. } | Self::Marks { minimum, .. } => minimum,
            Self::None {} | Self::Slots { .. } | Self::Blocks { .. } => 0,
        }
    }

    /// The distance between two places where a prefix can end; 1 where it can end anywhere or at the end of every block.
    pub fn step(&self) -> u64 {
        match *self {
            Self::Interval { interval, report, .. } => interval.max(report).max(1),
            Self::Blocks { block } => block.max(1),
            Self::None {} | Self::Breakpoints { .. } | Self::Marks { .. } | Self::Slots { .. } => 1,
        }
    }

    /// The same rules with another minimum; none where the regime has no minimum.
    pub(crate) fn with_minimum(mut self, new: u64) -> Option<Self> {
        match &mut self {
            Self::Breakpoints { minimum, .. } | Self::Interval { minimum, .. } | Self::Marks { minimum, .. } => *minimum = new,
            Self::None {} | Self::Slots { .. } | Self::Blocks { .. } => return None,
        }
        Some(self)
    }

    /// The cache lifetime in seconds of idle time; `None` if unlimited.
    pub fn lifetime_s(&self) -> Option<u64> {
        match *self {
            Self::Breakpoints { lifetime_s, .. } | Self::Interval { lifetime_s, .. } | Self::Marks { lifetime_s, .. } => {
                Some(lifetime_s)
            }
            Self::None {} | Self::Slots { .. } | Self::Blocks { .. } => None,
        }
    }
}
