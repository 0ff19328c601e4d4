//! Approval of tool calls by the user.

use foreword_core::catalog::Permission;
use foreword_core::item::ItemId;
use serde_json::Value;

/// When tools require approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asking {
    /// Always.
    Always,
    /// Never.
    Never,
    /// As set for the tool or its server; by default always.
    #[default]
    Tool,
}

impl Asking {
    /// Whether a tool with this permission requires approval.
    pub fn asks(self, permission: Permission) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Tool => permission == Permission::Required,
        }
    }
}

/// A request for approval.
#[derive(Clone, Copy, Debug)]
pub struct Approval<'a> {
    /// The tool.
    pub tool: &'a ItemId,
    /// The call's arguments.
    pub arguments: &'a Value,
    /// A preview of the effect, such as a diff, if available.
    pub preview: Option<&'a str>,
    /// The difference between the tool and the accepted one, as a diff of description and schema. It must be shown, because an
    /// approval accepts the change.
    pub change: Option<&'a str>,
}

/// The user's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Allow this call.
    Once,
    /// Allow this tool for the rest of the session, as long as it does not change.
    Session,
    /// Decline.
    No,
    /// There is no user to ask.
    Absent,
}

/// Asks for approval.
pub trait Approve: Send {
    /// Asks and waits for the decision.
    fn ask(&mut self, approval: &Approval<'_>) -> Decision;
}

/// Declines everything, because there is no user to ask.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unattended;

impl Approve for Unattended {
    fn ask(&mut self, _: &Approval<'_>) -> Decision {
        Decision::Absent
    }
}
