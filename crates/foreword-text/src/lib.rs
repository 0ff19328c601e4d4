//! Text for prompts: counting tokens, normalizing, escaping, shortening, and finding facts that a summary must keep.
//!
//! All functions are pure: text in, text out.

pub mod diff;
pub mod facts;
pub mod fence;
pub mod hidden;
pub mod images;
pub mod nearest;
pub mod normalise;
pub mod output;
pub mod reserved;
pub mod summary_line;
pub mod tokens;
