//! Step 1 for people's own notes: a folder of markdown, Obsidian flavoured, as items.
//!
//! `markdown` reads one note into a [`note::Note`]; `folder` reads files safely; `index` keeps the notes of a vault and resolves
//! links between them; `render` expands what a note embeds; `query` answers its query blocks; `attach` turns what a user
//! attached into Versions. `web`, `pdf` and `canvas` bring in what is not markdown; `agents` reads agent files.
//!
//! Everything read here comes from outside: it is bounded in size, cannot leave its folder, and never panics a reader.

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
