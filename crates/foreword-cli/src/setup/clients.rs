//! The programs that can use Foreword, where they keep their configuration, and what stands there.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};
use toml_edit::{DocumentMut, Item, Table};

use super::jsonc;

/// A program that is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Client {
    /// Claude Code
    ClaudeCode,
    /// Codex
    Codex,
    /// opencode
    Opencode,
    /// Zed
    Zed,
    /// Cursor
    Cursor,
}

/// How Foreword is started.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The program: its name, or its path if it is not on the search path.
    pub(super) program: String,
    /// The vault.
    pub(super) vault: String,
    /// Whether the MCP server may write.
    pub(super) write: bool,
}

impl Entry {
    fn mcp(&self) -> Vec<String> {
        let mut arguments = vec!["mcp".to_owned(), self.vault.clone()];
        if self.write {
            arguments.push("--write".to_owned());
        }
        arguments
    }

    fn acp(&self) -> Vec<String> {
        vec!["acp".to_owned(), self.vault.clone()]
    }
}

/// The folders that belong to the user.
pub(super) struct Home {
    /// The home folder.
    pub(super) home: PathBuf,
    /// The configuration folder.
    pub(super) config: PathBuf,
}

impl Client {
    pub(super) const ALL: [Self; 5] = [Self::ClaudeCode, Self::Codex, Self::Opencode, Self::Zed, Self::Cursor];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::Opencode => "opencode",
            Self::Zed => "Zed",
            Self::Cursor => "Cursor",
        }
    }

    /// The names of its program.
    pub(super) fn programs(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeCode => &["claude"],
            Self::Codex => &["codex"],
            Self::Opencode => &["opencode"],
            Self::Zed => &["zed", "zeditor"],
            Self::Cursor => &["cursor", "cursor-agent"],
        }
    }

    /// Whether it is an editor that starts agents.
    pub(super) fn is_editor(self) -> bool {
        self == Self::Zed
    }

    /// Its configuration file.
    pub(super) fn file(self, home: &Home) -> PathBuf {
        match self {
            Self::ClaudeCode => home.home.join(".claude.json"),
            Self::Codex => home.home.join(".codex/config.toml"),
            Self::Opencode => {
                let folder = home.config.join("opencode");
                let commented = folder.join("opencode.jsonc");
                if commented.exists() { commented } else { folder.join("opencode.json") }
            }
            Self::Zed => home.config.join("zed/settings.json"),
            Self::Cursor => home.home.join(".cursor/mcp.json"),
        }
    }

    /// The file with Foreword's entries; nothing else in it changes.
    pub(super) fn with(self, text: &str, entry: &Entry) -> Result<String, String> {
        let mcp = json!({"command": entry.program, "args": entry.mcp()});
        match self {
            Self::ClaudeCode => {
                let server = json!({"type": "stdio", "command": entry.program, "args": entry.mcp(), "env": {}});
                jsonc::set(text, &["mcpServers", "foreword"], &server)
            }
            Self::Cursor => jsonc::set(text, &["mcpServers", "foreword"], &mcp),
            Self::Opencode => {
                let command: Vec<String> = std::iter::once(entry.program.clone()).chain(entry.mcp()).collect();
                jsonc::set(text, &["mcp", "foreword"], &json!({"type": "local", "command": command, "enabled": true}))
            }
            Self::Zed => {
                let agent = json!({"type": "custom", "command": entry.program, "args": entry.acp(), "env": {}});
                let text = jsonc::set(text, &["context_servers", "foreword"], &with_env(mcp))?;
                jsonc::set(&text, &["agent_servers", "Foreword"], &agent)
            }
            Self::Codex => codex(text, entry),
        }
    }

    /// Whether a text may stand in its file.
    pub(super) fn check(self, text: &str) -> Result<(), String> {
        match self {
            Self::Codex => text.parse::<DocumentMut>().map(drop).map_err(|error| error.to_string()),
            _ if text.trim().is_empty() => Ok(()),
            _ => jsonc::parse(text).map(drop),
        }
    }
}

fn with_env(mut server: Value) -> Value {
    server["env"] = json!({});
    server
}

fn codex(text: &str, entry: &Entry) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    let servers = document.entry("mcp_servers").or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let servers = servers.as_table_like_mut().ok_or("mcp_servers is not a table")?;
    let mut server = Table::new();
    server["command"] = toml_edit::value(&entry.program);
    server["args"] = toml_edit::value(entry.mcp().into_iter().collect::<toml_edit::Array>());
    servers.insert("foreword", Item::Table(server));
    Ok(document.to_string())
}

/// The user's own configuration with this model and where its key is read from.
pub(super) fn configuration(text: &str, model: Option<&str>, key: Option<(&str, &str)>) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    if let Some(model) = model {
        document["model"] = toml_edit::value(model);
    }
    if let Some((provider, variable)) = key {
        let providers = document.entry("providers").or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        });
        let providers = providers.as_table_like_mut().ok_or("providers is not a table")?;
        let provider = providers.entry(provider).or_insert_with(|| Item::Table(Table::new()));
        let provider = provider.as_table_like_mut().ok_or("the provider is not a table")?;
        let mut source = toml_edit::InlineTable::new();
        source.insert("env", variable.into());
        provider.insert("key", toml_edit::value(source));
    }
    Ok(document.to_string())
}

/// Whether a program is on the search path.
pub(super) fn on_path(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|folder| folder.join(program)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    }
    #[cfg(not(unix))]
    {
        file.is_file() || file.with_extension("exe").is_file() || file.with_extension("cmd").is_file()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry { program: "foreword".to_owned(), vault: "/home/you/Notes".to_owned(), write: false }
    }

    #[test]
    fn codex_keeps_comments_and_order() {
        let text = "# mine\nmodel = \"m\" # best\n\n[mcp_servers.other]\ncommand = 'x'\n\n[profiles.a]\nb = 1\n";
        let changed = Client::Codex.with(text, &entry()).unwrap();
        let added = "[mcp_servers.foreword]\ncommand = \"foreword\"\nargs = [\"mcp\", \"/home/you/Notes\"]\n";
        assert!(changed.contains(added), "{changed}");
        assert_eq!(changed.replace(&format!("\n{added}"), ""), text);
        assert_eq!(Client::Codex.with(&changed, &entry()).unwrap(), changed);
    }

    #[test]
    fn a_second_time_changes_nothing() {
        for client in Client::ALL {
            let once = client.with("", &entry()).unwrap();
            client.check(&once).unwrap();
            assert_eq!(client.with(&once, &entry()).unwrap(), once, "{client:?}");
        }
    }

    #[test]
    fn our_own_configuration_keeps_what_it_has() {
        let text = "# mine\nlayout = \"log\" # as ever\n\n[providers.work]\nbase_url = \"https://llm.example/v1\"\n";
        let changed = configuration(text, Some("claude-sonnet-5"), Some(("anthropic", "MY_KEY"))).unwrap();
        for line in text.lines().chain(["model = \"claude-sonnet-5\"", "[providers.anthropic]", "key = { env = \"MY_KEY\" }"]) {
            assert!(changed.contains(line), "{line}: {changed}");
        }
        foreword_engine::config::Config::read(&changed).unwrap();
    }
}
