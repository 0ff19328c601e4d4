//! Tools: built-in ones and those of MCP servers, behind one toolbox that checks arguments, asks for approval and limits outputs.

mod approve;
mod builtin;
mod config;
mod mcp;
pub mod outbox;
mod output;
mod pattern;
mod pins;
pub mod program;
pub mod sandbox;
pub mod schema;
mod toolbox;
pub mod write;

pub use approve::{Approval, Approve, Asking, Decision, Unattended};
pub use builtin::{Builtin, OWN_SERVER};
pub use config::{SecretValues, ServerConfig, Timeouts, ToolConfig, Transport};
pub use output::{MAX_OUTPUT, Output};
pub use pattern::PatternError;
pub use pins::{PinnedTool, Pins, SessionPins};
pub use sandbox::Sandbox;
pub use toolbox::{Problem, Toolbox};
