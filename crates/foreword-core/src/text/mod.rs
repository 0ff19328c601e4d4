//! Text processing for prompts: normalizing, escaping, shortening, and finding references.
//!
//! All functions are pure: text in, text out.

pub mod diff;
pub mod fence;
pub mod hidden;
pub mod images;
pub mod nearest;
pub mod normalise;
pub mod output;
pub mod summary_line;
