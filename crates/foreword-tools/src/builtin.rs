//! Built-in tools.

use foreword_core::catalog::Tool;
use serde_json::Value;

use crate::Output;

/// The server name of built-in tools.
pub const OWN_SERVER: &str = "foreword";

/// A tool that runs in this process. Its arguments are checked against its schema first.
pub trait Builtin: Send {
    /// The tool's definition; its server is [`OWN_SERVER`].
    fn tool(&self) -> Tool;

    /// A preview for the approval, such as a diff. An error is returned to the model, and the tool does not run.
    fn preview(&mut self, _arguments: &Value) -> Result<Option<String>, String> {
        Ok(None)
    }

    /// Runs the tool.
    fn run(&mut self, arguments: &Value) -> Output;
}
