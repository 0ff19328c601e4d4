//! Prepares the tool servers of a vault for starting. A vault may be untrusted, so the user's configuration limits its environment
//! variables, permissions, program and working folder.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use foreword_core::catalog::Permission;
use foreword_core::hash::Hash;
use foreword_tools::{Sandbox, SecretValues, ServerConfig, ToolConfig, program};
use foreword_vault::agents::{Part, ServerSpec, Transport, template_parts};

use crate::config::ToolRules;
use crate::session::STORE;
use foreword_trust::places::Places;
use foreword_trust::private;

/// The program's environment variables.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The inputs for starting tool servers.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// The vault.
    pub root: &'a Path,
    /// The working directory; programs in it are not found by name, and no server runs there.
    pub working_folder: &'a Path,
    /// The program's folders.
    pub places: &'a Places,
    /// The rules of the user's configuration.
    pub rules: &'a ToolRules,
    /// The program's environment variables, including `PATH` and `HOME`.
    pub environment: Environment<'a>,
}

/// Why a tool server cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The environment variable is not allowed.
    #[error(
        "tool server {server} requires the environment variable {variable}, which is not allowed; to allow it, add it to [tools] variables in \
         config.toml"
    )]
    NotAllowed {
        /// The server.
        server: String,
        /// The variable.
        variable: String,
    },
    /// The environment variable is not set.
    #[error(
        "tool server {server} requires the environment variable {variable}, which is not set; set it, or add a default: ${{{variable}:-…}}"
    )]
    NotSet {
        /// The server.
        server: String,
        /// The variable.
        variable: String,
    },
    /// The program was not found.
    #[error(
        "tool server {server} requires the program {command:?}, which was not found; install it, or give its full path (folders of the vault and \
         relative folders in PATH are not searched)"
    )]
    NoProgram {
        /// The server.
        server: String,
        /// The command in the vault.
        command: String,
    },
    /// The working folder cannot be created.
    #[error("tool server {server}: cannot create its working folder {}: {error}", folder.display())]
    Folder {
        /// The server.
        server: String,
        /// The folder.
        folder: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

/// The absolute path of a server's program, for prompts; `None` for HTTP servers.
pub fn resolved_program(spec: &ServerSpec, launch: &Launch<'_>) -> Result<Option<PathBuf>, LaunchError> {
    let Transport::Stdio { command, cwd, .. } = &spec.transport else { return Ok(None) };
    let mut values = Values { server: &spec.name, launch, used: Vec::new() };
    let command = values.filled(command)?;
    let base = cwd.as_deref().map(|cwd| values.filled(cwd)).transpose()?;
    launch.program(spec, &command, &base.map_or_else(|| launch.root.to_owned(), |cwd| launch.root.join(cwd))).map(Some)
}

/// The configuration of a server, with its variables filled in. Without a `sandbox`, the program has all permissions of the user.
pub fn server_config(spec: &ServerSpec, launch: &Launch<'_>, sandbox: Option<Sandbox>) -> Result<ServerConfig, LaunchError> {
    let mut values = Values { server: &spec.name, launch, used: Vec::new() };
    let mut sandbox = sandbox.map(|sandbox| launch.hiding(sandbox));
    let transport = match &spec.transport {
        Transport::Stdio { command, args, env, cwd } => {
            let cwd = cwd.as_deref().map(|cwd| values.filled(cwd)).transpose()?.map(|cwd| launch.root.join(cwd));
            let command = values.filled(command)?;
            let command = launch.program(spec, &command, cwd.as_deref().unwrap_or(launch.root))?;
            let args = args.iter().map(|arg| values.filled(arg)).collect::<Result<_, _>>()?;
            let mut env = values.all_filled(&env.0)?;
            env.entry("PATH".to_owned()).or_insert_with(|| launch.search_path());
            let cwd = if let Some(cwd) = cwd {
                cwd
            } else {
                let own = launch.private_folder(spec)?;
                // It lies among what is hidden.
                if let Some(sandbox) = &mut sandbox {
                    sandbox.folders.push(own.clone());
                }
                own
            };
            foreword_tools::Transport::Stdio { command, args, env, cwd }
        }
        Transport::Http { url, headers } => {
            foreword_tools::Transport::Http { url: values.filled(url)?, headers: values.all_filled(&headers.0)? }
        }
    };
    let (permission, tools, notes) = permissions(spec, launch.rules);
    Ok(ServerConfig {
        include: spec.include,
        permission,
        tools,
        sandbox,
        notes,
        secrets: SecretValues(values.used),
        ..ServerConfig::new(&spec.name, transport)
    })
}

impl Launch<'_> {
    fn folders(&self) -> Vec<PathBuf> {
        let path = (self.environment)("PATH").unwrap_or_default();
        let home = (self.environment)("HOME").map(PathBuf::from);
        let avoided = [self.root.to_owned(), self.working_folder.to_owned()];
        program::search_folders(OsStr::new(&path), &avoided, home.as_deref())
    }

    /// The `PATH` of a server, without folders of the vault.
    fn search_path(&self) -> String {
        let joined = std::env::join_paths(self.folders()).unwrap_or_default();
        joined.into_string().unwrap_or_default()
    }

    fn program(&self, spec: &ServerSpec, command: &str, base: &Path) -> Result<PathBuf, LaunchError> {
        let found = program::find(command, base, &self.folders());
        found.ok_or_else(|| LaunchError::NoProgram { server: spec.name.clone(), command: command.to_owned() })
    }

    /// The default working folder of a server: a private folder per server and vault.
    fn private_folder(&self, spec: &ServerSpec) -> Result<PathBuf, LaunchError> {
        let all = self.places.cache.join("tool-servers");
        let name = Hash::of([self.root.as_os_str().as_encoded_bytes(), b"\0", spec.name.as_bytes()].concat());
        let folder = all.join(name.short());
        let made =
            private::create_folder(&all).and_then(|()| private::create_folder(&folder)).and_then(|()| folder.canonicalize());
        made.map_err(|error| LaunchError::Folder { server: spec.name.clone(), folder, error })
    }

    /// Hides Foreword's own files in a sandbox: decisions, tokens, caches and stores.
    fn hiding(&self, mut sandbox: Sandbox) -> Sandbox {
        let store = Path::new(STORE).parent().unwrap_or(Path::new(STORE));
        let stores = sandbox.folders.iter().map(PathBuf::as_path).chain([self.root]).map(|folder| folder.join(store));
        let own = [self.places.cache.clone(), self.places.state.clone()];
        let hidden: Vec<PathBuf> = stores.chain(own).collect();
        sandbox.hidden.extend(hidden);
        sandbox
    }
}

/// Fills in variables.
struct Values<'a> {
    server: &'a str,
    launch: &'a Launch<'a>,
    /// The values used, which are removed from messages.
    used: Vec<String>,
}

impl Values<'_> {
    fn filled(&mut self, value: &str) -> Result<String, LaunchError> {
        let mut out = String::new();
        for part in template_parts(value) {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Variable { name, default } => {
                    let (server, variable) = (self.server.to_owned(), name.to_owned());
                    if !self.launch.rules.allows_variable(name) {
                        return Err(LaunchError::NotAllowed { server, variable });
                    }
                    if let Some(value) = (self.launch.environment)(name) {
                        out.push_str(&value);
                        self.used.push(value);
                    } else {
                        out.push_str(default.ok_or(LaunchError::NotSet { server, variable })?);
                    }
                }
            }
        }
        Ok(out)
    }

    fn all_filled(&mut self, values: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, LaunchError> {
        values.iter().map(|(name, value)| Ok((name.clone(), self.filled(value)?))).collect()
    }
}

/// The permissions of a server and its tools, and remarks for the user: a vault may make permissions stricter, only the user may
/// relax them.
fn permissions(spec: &ServerSpec, rules: &ToolRules) -> (Option<Permission>, BTreeMap<String, ToolConfig>, Vec<String>) {
    let all_unasked = rules.is_unasked(&spec.name, None);
    let unasked = all_unasked.then_some(Permission::NotRequired);
    let raised = |permission: Option<Permission>| permission.filter(|permission| *permission == Permission::Required);
    let mut refused = Vec::new();
    if spec.permission == Some(Permission::NotRequired) && !all_unasked {
        refused.push(format!("{}/*", spec.name));
    }
    let mut tools: BTreeMap<String, ToolConfig> = BTreeMap::new();
    for (name, tool) in &spec.tools {
        let permission = if rules.is_unasked(&spec.name, Some(name)) {
            Some(Permission::NotRequired)
        } else {
            if tool.permission == Some(Permission::NotRequired) && !all_unasked {
                refused.push(format!("{}/{name}", spec.name));
            }
            // Where the server's own word was raised, so is that of a tool which wanted less.
            raised(tool.permission)
        };
        tools.insert(name.clone(), ToolConfig { include: tool.include, permission });
    }
    for name in rules.unasked_tools(&spec.name) {
        tools.entry(name.to_owned()).or_default().permission = Some(Permission::NotRequired);
    }
    let notes = (!refused.is_empty()).then(|| {
        let listed: Vec<String> = refused.iter().map(|name| format!("{name:?}")).collect();
        format!(
            "its entry in the vault asks to run tools without approval, which only you can allow. To allow it, add to config.toml: \
             [tools] unasked = [{}]",
            listed.join(", ")
        )
    });
    (unasked.or(raised(spec.permission)), tools, notes.into_iter().collect())
}

#[cfg(test)]
mod tests;
