//! Asking a person before something is done.

use foreword_core::catalog::Permission;
use foreword_core::item::ItemId;
use serde_json::Value;

/// A session's setting: when the person is asked before a tool runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asking {
    /// Before every call.
    Always,
    /// Before no call.
    Never,
    /// As the tool says, else its server, else before every call.
    #[default]
    Tool,
}

impl Asking {
    /// Whether a call of a tool with this permission waits for the person.
    pub fn asks(self, permission: Permission) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Tool => permission == Permission::Required,
        }
    }
}

/// What a person is asked to allow.
#[derive(Clone, Copy, Debug)]
pub struct Approval<'a> {
    /// The tool.
    pub tool: &'a ItemId,
    /// With what.
    pub arguments: &'a Value,
    /// What would be done, where that can be told beforehand: a diff, say.
    pub preview: Option<&'a str>,
    /// How the tool differs from what was accepted, as a diff of its description and schema. It must be shown: a yes accepts the change.
    pub change: Option<&'a str>,
}

/// What the person said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// This once.
    Once,
    /// From now on in this session, for this tool, as long as the tool stays what it is.
    Session,
    /// No.
    No,
    /// Nobody is there to be asked.
    Absent,
}

/// Someone who can be asked.
pub trait Approve: Send {
    /// Asks, and waits for the answer.
    fn ask(&mut self, approval: &Approval<'_>) -> Decision;
}

/// Nobody is there, so nothing is allowed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unattended;

impl Approve for Unattended {
    fn ask(&mut self, _: &Approval<'_>) -> Decision {
        Decision::Absent
    }
}
