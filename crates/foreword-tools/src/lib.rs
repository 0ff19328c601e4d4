//! The hands of a model: tools that come with Foreword and tools of MCP servers, behind one toolbox that checks arguments, asks where it
//! must, and bounds what comes back.

mod approve;
mod builtin;

pub use approve::{Approval, Approve, Decision, Unattended};
pub use builtin::{Builtin, OWN_SERVER};

/// What a tool gives back. There always is something: what went wrong is said in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// What the model reads.
    pub text: String,
    /// Whether it tells of a failure.
    pub failed: bool,
}

impl Output {
    /// It worked.
    pub fn done(text: impl Into<String>) -> Self {
        Self { text: text.into(), failed: false }
    }

    /// It did not, for the reason in the text, which the model can act on.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { text: text.into(), failed: true }
    }
}
