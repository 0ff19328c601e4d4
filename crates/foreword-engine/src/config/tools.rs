//! The user's rules for tool servers of vaults: which environment variables they may receive, and which tools run without approval.
//! A vault may be untrusted, so only the user's configuration can set them.

use std::collections::{BTreeMap, BTreeSet};

use foreword_tools::OWN_SERVER;

/// The section `[tools]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolRules {
    variables: BTreeSet<String>,
    /// By server: names of tools, or `*`.
    unasked: BTreeMap<String, BTreeSet<String>>,
}

impl ToolRules {
    /// Whether a tool server may receive an environment variable.
    pub fn allows_variable(&self, name: &str) -> bool {
        self.variables.contains(name)
    }

    /// Whether a tool runs without approval; without a name, whether all tools of the server do.
    pub fn is_unasked(&self, server: &str, tool: Option<&str>) -> bool {
        self.unasked.get(server).is_some_and(|tools| tools.contains(tool.unwrap_or("*")))
    }

    /// The listed tools of a server.
    pub(crate) fn unasked_tools(&self, server: &str) -> impl Iterator<Item = &str> {
        self.unasked.get(server).into_iter().flatten().map(String::as_str).filter(|tool| *tool != "*")
    }

    /// Adds a variable's name.
    pub(super) fn allow_variable(&mut self, name: String) -> Result<(), String> {
        let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!("`variables` contains {name:?}, expected names of single variables, like \"GITHUB_TOKEN\""));
        }
        self.variables.insert(name);
        Ok(())
    }

    /// Adds `server/tool` or `server/*`.
    pub(super) fn allow_unasked(&mut self, written: &str) -> Result<(), String> {
        let wrong =
            || format!("`unasked` contains {written:?}, expected \"server/tool\", or \"server/*\" for all tools of a server");
        let (server, tool) = written.split_once('/').ok_or_else(wrong)?;
        if server.is_empty() || server.contains('*') || tool.is_empty() || (tool.contains('*') && tool != "*") {
            return Err(wrong());
        }
        if server == OWN_SERVER {
            return Err(format!(
                "`unasked` contains {written:?}; approval of built-in tools is set per session, with --ask or on the page"
            ));
        }
        self.unasked.entry(server.to_owned()).or_default().insert(tool.to_owned());
        Ok(())
    }
}
