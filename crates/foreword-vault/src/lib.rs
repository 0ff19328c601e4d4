//! Step 1 for notes: a folder of markdown (with Obsidian's syntax) as items.
//!
//! `folder` reads files safely; `index` holds the notes of a vault and resolves links between them; `render` expands embedded files
//! and queries; `attach` resolves attachments to Versions; `agents` reads agent files; `transcript` reads and writes chats.
//!
//! All input is untrusted: its size is limited, it cannot escape its folder, and it never causes a panic.

pub mod agents;
pub mod attach;
pub mod config;
pub mod folder;
#[cfg(feature = "pdf")]
pub mod helpers;
pub mod index;
pub mod links;
pub mod render;
pub mod transcript;
pub mod tree;
#[cfg(feature = "watch")]
pub mod watch;
