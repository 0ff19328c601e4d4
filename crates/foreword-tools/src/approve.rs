//! Asking a person before something is done.

use foreword_core::item::ItemId;
use serde_json::Value;

/// What a person is asked to allow.
#[derive(Clone, Copy, Debug)]
pub struct Approval<'a> {
    /// The tool.
    pub tool: &'a ItemId,
    /// With what.
    pub arguments: &'a Value,
    /// What would be done, where that can be told beforehand: a diff, say.
    pub preview: Option<&'a str>,
}

/// What the person said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// This once.
    Once,
    /// From now on in this session, for this tool.
    Session,
    /// No.
    No,
}

/// Someone who can be asked.
pub trait Approve: Send {
    /// Asks, and waits for the answer.
    fn ask(&mut self, approval: &Approval<'_>) -> Decision;
}

/// Nobody is there, so the answer is no.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unattended;

impl Approve for Unattended {
    fn ask(&mut self, _: &Approval<'_>) -> Decision {
        Decision::No
    }
}
