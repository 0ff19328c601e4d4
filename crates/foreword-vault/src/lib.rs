//! Step 1 for notes: a folder of markdown (with Obsidian's syntax) as items.
//!
//! `markdown` parses a [`note::Note`]; `folder` reads files safely; `index` holds the notes of a vault and resolves links between
//! them; `render` expands embedded files; `query` answers query blocks; `attach` resolves attachments to Versions. `web`, `pdf` and
//! `canvas` read other formats; `agents` reads agent files.
//!
//! All input is untrusted: its size is limited, it cannot escape its folder, and it never causes a panic.

pub mod agents;
#[cfg(any(feature = "pdf", feature = "web"))]
mod apart;
pub mod attach;
pub mod canvas;
pub mod config;
pub mod folder;
pub mod frontmatter;
#[cfg(feature = "pdf")]
pub mod helpers;
pub mod images;
pub mod index;
pub mod links;
pub mod markdown;
pub mod note;
mod own;
#[cfg(feature = "pdf")]
pub mod pdf;
pub mod query;
pub mod render;
pub mod transcript;
pub mod tree;
#[cfg(feature = "watch")]
pub mod watch;
#[cfg(feature = "web")]
pub mod web;
