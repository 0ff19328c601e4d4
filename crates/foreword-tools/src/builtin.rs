//! Tools that come with Foreword.

use foreword_core::catalog::Tool;
use serde_json::Value;

use crate::Output;

/// The server under whose name they stand in a catalog.
pub const OWN_SERVER: &str = "foreword";

/// A tool that runs in this process. Its arguments were checked against its schema before it is asked.
pub trait Builtin: Send {
    /// How the catalog knows it; its server is [`OWN_SERVER`].
    fn tool(&self) -> Tool;

    /// What running it would do, for the person who is asked: a diff, say. An error keeps it from running and goes to the model.
    fn preview(&mut self, _arguments: &Value) -> Result<Option<String>, String> {
        Ok(None)
    }

    /// Runs it.
    fn run(&mut self, arguments: &Value) -> Output;
}
