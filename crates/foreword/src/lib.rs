#![doc = include_str!("../guide.md")]

mod attachment;
mod builder;
#[cfg(feature = "client")]
mod client;
mod error;
mod explanation;
mod history;
mod items;
mod json;
mod reply;
mod request;
mod saved;
#[cfg(feature = "search")]
mod search;
mod session;
mod turn;
mod what_if;

pub use attachment::Attachment;
pub use builder::{CacheLifetime, SessionBuilder, ToolChoice};
#[cfg(feature = "client")]
pub use client::{Client, StreamedReply};
pub use error::Error;
pub use explanation::{Expected, Explanation, LayerSize};
pub use history::{History, HistoryCall, HistoryMessage, Managed, ManagedMessage, SummaryRequest};
pub use items::{Include, Reference, Rule, Tool};
pub use reply::{Call, Reply, ReplyReader};
pub use request::Request;
#[cfg(feature = "search")]
pub use search::{Match, Notes};
pub use session::Session;
pub use turn::Turn;
pub use what_if::WhatIf;

/// The types of the core that the façade shows, for those who need more than it offers.
pub mod core {
    pub use foreword_core::budget::{Budget, OverBudget};
    pub use foreword_core::catalog::Agent;
    pub use foreword_core::envelope::{ContextEntry, FoldReason, LeftOut, Note};
    pub use foreword_core::item::{ItemId, Kind};
    pub use foreword_core::message::ToolCall;
    pub use foreword_core::session::{Due, Input, InputError, LayerView, PastMessage};
    pub use foreword_core::settings::{HistoryPolicy, Layout, Settings};
    pub use foreword_core::tokens::{Tokenizer, Tokens, Vocabulary};
}

/// The types of the provider half that the façade shows.
pub mod provider {
    #[cfg(feature = "client")]
    pub use foreword_provider::client::{ClientConfig, KeySource, Secret, SendError, SetupError};
    pub use foreword_provider::dialect::Dialect;
    pub use foreword_provider::model::Model;
    pub use foreword_provider::reply::{Event, ReadError, Stop};
    pub use foreword_provider::table::{ModelTable, TableError, UnknownModel};
    pub use foreword_provider::usage::Usage;
}

#[cfg(feature = "search")]
pub use foreword_search::{DIMENSIONS, EmbedError, Embedder, Vector};

/// Compiles and runs the examples in README.md and docs/library.md.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/library.md")]
pub struct Documentation;
