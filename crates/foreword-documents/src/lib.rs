//! Files that are not markdown, read for a model: the text of PDFs and canvases, and images in a size that providers take.
//!
//! The files are untrusted: sizes and times are limited, and a library that panics or hangs does so in a thread of its own.

pub mod canvas;
pub mod images;
#[cfg(feature = "pdf")]
pub mod isolated;
#[cfg(feature = "pdf")]
pub mod pdf;
