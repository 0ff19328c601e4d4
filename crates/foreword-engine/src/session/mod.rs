//! Recorded sessions: steps 2 to 8 of a turn, with every step stored.
//!
//! The log of a session's inputs is the source of truth. [`RecordedSession`] stores each input before applying it, each request before sending
//! it, and each part of a reply as it arrives. Opening a session replays its log from the last checkpoint.

mod aside;
mod breaks;
mod called;
mod change;
mod checkpoint;
mod chronicle;
mod cite;
mod client;
mod cold;
mod diff;
mod driver;
mod ending;
mod found;
mod hand;
mod history;
mod import;
mod inspect;
pub mod log_entry;
mod machine;
mod manage;
mod models;
mod money;
mod open;
mod own;
mod paid;
mod picture;
mod planner;
mod point;
mod preview;
mod recorded;
mod refresh;
mod request;
mod script;
mod setup;
mod side;
mod speak;
mod stop;
mod turn;
mod verify;

#[cfg(test)]
mod tests;

pub use breaks::{Before, BreakReport, diagnose};
pub use called::Called;
pub use change::ChangeError;
pub use chronicle::{Line, NamedMessage, current_setup, export, named_messages, transcript};
pub use cite::{Citable, Cited, cited, source_list};
pub use client::ClientOptions;
pub use cold::ColdCache;
pub use diff::{DiffError, Difference, diff};
pub use driver::{Progress, SessionAccess, SharedTools, receive, run_turn};
pub use ending::Ending;
pub use foreword_provider::client::{Client, ClientConfig};
pub use foreword_provider::model::Model;
pub use foreword_store::Fork;
pub use found::{FoundNote, found_by_turn};
pub use hand::{FoldError, PinError, Pinned};
pub use history::{fork, replace_turn, rewind, turn_of, turns};
pub use import::{TakenIn, library_of, not_brought_back, take_in};
pub use inspect::{CachedLayer, Inspection, Segment, inspect, wire};
pub use log_entry::SideExchange;
pub use log_entry::{Change, is_input};
pub use machine::{Clock, ModelRequest, Notice, Step, StepResult, ToolRequest, ToolResult, Turn};
pub use models::{Embedded, Remote, RemoteError};
pub use money::{dollars, saved, usd};
pub use open::OpenSessionError;
pub use own::Own;
pub use paid::{PaidFor, Payment, all_payments, is_fold, payments};
pub use picture::{Bar, LayerText, SegmentText, bars, layer_texts};
pub use point::{NotAPoint, Point};
pub use preview::{Expected, Preview};
pub use recorded::{Failure, RecordedSession};
pub use refresh::{changed_agent, refresh_notes};
pub use request::Outgoing;
pub use request::in_common;
pub use script::{Outputs, Script, ScriptError, Whole};
pub use setup::EMBEDDED;
pub use setup::{Setup, SetupError};
pub use setup::{embedded_file, is_embedded};
pub use side::{SideRequest, TurnCost, side_requests, turn_cost};
pub use speak::{
    Call, ChatModel, NoHands, Reply, ReplyPart, ReplyStream, Scores, Size, Sources, SpeakError, Spent, ToolHost, whole_reply,
};
pub use stop::Stopper;
pub use turn::{Event, Mode, Question, TurnError, TurnOutcome};
pub use verify::{Verified, verify};

pub use foreword_core::budget::OverBudget;
pub use foreword_core::catalog::{Agent, Permission};
pub use foreword_core::envelope::{FoldReason, Inclusion, LeftOut};
pub use foreword_core::hash::Hash;
pub use foreword_core::history::MessageId;
pub use foreword_core::item::ItemId;
pub use foreword_core::message::Role as Speaking;
pub use foreword_core::prompt::Prompt;
pub use foreword_core::session::{FoldPreview, Input, InputError, Spoken, TurnInput, TurnResult};
pub use foreword_core::settings::HistoryPolicy;
pub use foreword_core::tokens::Tokens;
pub use foreword_core::version::Version;
pub use foreword_provider::dialect::gemini::GeminiCacheRequest as CacheRequest;
pub use foreword_store::{
    Counts, Dump, Fault, Forwarded, Found, Health, SessionRow, Shared, Sqlite, Store, StoreError, Usage, Write, new_session_id,
};
pub use foreword_tools::Output;
pub use futures_util::future::BoxFuture;
pub use tokio_util::sync::CancellationToken;

/// The path of a vault's store.
pub const STORE: &str = ".foreword/foreword.db";
