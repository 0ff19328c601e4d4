//! What is done to texts on their way into a prompt: made uniform, fenced in, shortened, read for what they refer to.
//!
//! Everything here is text in, text out.

pub mod diff;
pub mod fence;
pub mod hidden;
pub mod images;
pub mod nearest;
pub mod normalise;
pub mod output;
pub mod summary_line;
