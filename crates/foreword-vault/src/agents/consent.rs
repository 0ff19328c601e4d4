//! What a decision about a tool server is bound to: its whole entry, the variables it wants and where they go, and the files of the vault
//! that it runs.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use foreword_core::catalog::{Include, Permission};
use foreword_core::json;
use serde_json::{Value, json};

use super::servers::{ServerSpec, Transport};
use super::template::{Part, template_parts};

/// Where the value of a variable goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Into the name of the program.
    Command,
    /// Into an argument, counted from 1.
    Argument(usize),
    /// Into this variable of the program's environment.
    Env(String),
    /// Into the program's working folder.
    WorkingFolder,
    /// Into the address of a server.
    Url,
    /// Into this header of every request.
    Header(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command => f.write_str("the command"),
            Self::Argument(number) => write!(f, "argument {number}"),
            Self::Env(name) => write!(f, "environment variable {name}"),
            Self::WorkingFolder => f.write_str("the working folder"),
            Self::Url => f.write_str("the address"),
            Self::Header(name) => write!(f, "header {name}"),
        }
    }
}

/// A variable of the user's environment that a server wants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VariableUse {
    /// Its name.
    pub name: String,
    /// The value where the variable is not set.
    pub default: Option<String>,
    /// Where its value goes.
    pub place: Place,
}

impl ServerSpec {
    /// The whole entry as canonical JSON: two entries that differ in anything differ here. Values of variables are not in it, only their
    /// names.
    pub fn canonical(&self) -> String {
        let settings =
            |include: Option<Include>, permission: Option<Permission>| json!({"include": include, "permission": permission});
        let tools: serde_json::Map<String, Value> =
            self.tools.iter().map(|(name, tool)| (name.clone(), settings(tool.include, tool.permission))).collect();
        let transport = match &self.transport {
            Transport::Stdio { command, args, env, cwd } => {
                json!({"type": "stdio", "command": command, "args": args, "env": env.0, "cwd": cwd})
            }
            Transport::Http { url, headers } => json!({"type": "http", "url": url, "headers": headers.0}),
        };
        json::to_string(&json!({
            "name": self.name,
            "transport": transport,
            "defaults": settings(self.include, self.permission),
            "tools": tools,
        }))
    }

    /// The variables that it wants, each with where its value goes, in the order of the entry.
    pub fn variables(&self) -> Vec<VariableUse> {
        self.values()
            .into_iter()
            .flat_map(|(place, value)| {
                template_parts(value).into_iter().filter_map(move |part| match part {
                    Part::Text(_) => None,
                    Part::Variable { name, default } => {
                        Some(VariableUse { name: name.to_owned(), default: default.map(str::to_owned), place: place.clone() })
                    }
                })
            })
            .collect()
    }

    /// Every value of the entry that may hold a variable, and where it goes.
    fn values(&self) -> Vec<(Place, &str)> {
        match &self.transport {
            Transport::Stdio { command, args, env, cwd } => {
                let mut values = vec![(Place::Command, command.as_str())];
                values.extend(args.iter().enumerate().map(|(at, arg)| (Place::Argument(at + 1), arg.as_str())));
                values.extend(cwd.as_deref().map(|cwd| (Place::WorkingFolder, cwd)));
                values.extend(env.0.iter().map(|(name, value)| (Place::Env(name.clone()), value.as_str())));
                values
            }
            Transport::Http { url, headers } => {
                let mut values = vec![(Place::Url, url.as_str())];
                values.extend(headers.0.iter().map(|(name, value)| (Place::Header(name.clone()), value.as_str())));
                values
            }
        }
    }

    /// Its working folder where the entry names one; a relative one is in the vault.
    pub fn working_folder(&self, root: &Path) -> Option<PathBuf> {
        match &self.transport {
            Transport::Stdio { cwd: Some(cwd), .. } => Some(root.join(cwd)),
            _ => None,
        }
    }

    /// The files inside the vault that its command line names, sorted: the command, an argument, or what stands behind the `=` of an argument. A
    /// relative name is looked for in the working folder and in the vault. A consent is bound to their content.
    ///
    /// A server may read other files when it runs; what a folder of code holds cannot be told from a command line.
    pub fn local_files(&self, root: &Path) -> Vec<PathBuf> {
        let Transport::Stdio { command, args, .. } = &self.transport else { return Vec::new() };
        let Ok(vault) = root.canonicalize() else { return Vec::new() };
        let folders: Vec<PathBuf> = self.working_folder(&vault).into_iter().chain([vault.clone()]).collect();
        let words = [command].into_iter().chain(args).flat_map(|word| {
            let behind = word.split_once('=').map(|(_, value)| value);
            [Some(word.as_str()), behind]
        });
        let mut found = BTreeSet::new();
        for word in words.flatten().filter(|word| !word.is_empty()) {
            for folder in &folders {
                let file = folder.join(word).canonicalize();
                found.extend(file.ok().filter(|file| file.starts_with(&vault) && file.is_file()));
            }
        }
        found.into_iter().collect()
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value)] // a table of cases reads better without ampersands
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use proptest::prelude::*;

    use super::super::Problems;
    use super::super::servers::{ToolSpec, Withheld, read};
    use super::*;

    fn spec(entry: &Value) -> ServerSpec {
        let mut problems = Problems::of("mcp.json");
        let found = read(&json!({"weather": entry}), &mut problems);
        assert!(problems.list.is_empty(), "{:?}", problems.list);
        found.into_iter().next().unwrap()
    }

    /// An entry that was allowed, and what a vault may make of it: none of them may pass for the first.
    #[test]
    fn an_entry_cannot_pass_for_another_one() {
        #[track_caller]
        fn check(allowed: Value, then: &[Value]) {
            let allowed_form = spec(&allowed).canonical();
            assert_eq!(allowed_form, spec(&allowed).canonical());
            for entry in then {
                assert_ne!(allowed_form, spec(entry).canonical(), "{entry}");
            }
        }
        check(
            json!({"url": "https://weather.example/mcp", "headers": {"1": "plain"}}),
            &[
                json!({"command": "https://weather.example/mcp", "args": ["plain"]}),
                json!({"command": "https://weather.example/mcp", "args": ["1", "plain"]}),
                json!({"command": "https://weather.example/mcp", "env": {"1": "plain"}}),
                json!({"command": "https://weather.example/mcp", "args": ["plain"], "cwd": "1"}),
                json!({"url": "https://weather.example/mcp", "headers": {"1": "${ANTHROPIC_API_KEY}"}}),
                json!({"url": "https://weather.example/mcp", "headers": {"1plain": ""}}),
                json!({"url": "https://weather.example/mcp"}),
            ],
        );
        check(
            json!({"command": "python3", "args": ["-m", "weather"]}),
            &[
                json!({"command": "python3", "args": ["-m", "weather"], "cwd": "."}),
                json!({"command": "python3", "args": ["-m weather"]}),
                json!({"command": "python3", "args": ["weather", "-m"]}),
                json!({"command": "python3 -m", "args": ["weather"]}),
                json!({"command": "python3", "args": ["-m", "weather", ""]}),
                json!({"command": "python3", "args": ["-m", "weather"], "env": {"PYTHONPATH": "."}}),
                json!({"command": "python3", "args": ["-m", "weather"], "permission": "not_required"}),
                json!({"command": "python3", "args": ["-m", "weather"], "permission": "required"}),
                json!({"command": "python3", "args": ["-m", "weather"], "include": "always"}),
                json!({"command": "python3", "args": ["-m", "weather"], "tools": {"t": {}}}),
                json!({"command": "python3", "args": ["-m", "weather"], "tools": {"t": {"permission": "not_required"}}}),
                json!({"url": "python3", "headers": {"-m": "weather"}}),
            ],
        );
        let named = |name: &str| read(&json!({name: {"command": "x"}}), &mut Problems::of("mcp.json"))[0].canonical();
        assert_ne!(named("a"), named("b"));
    }

    #[test]
    fn variables_are_told_with_where_they_go() {
        #[track_caller]
        fn check(entry: Value, expect: &[&str]) {
            let shown = |wanted: VariableUse| match wanted.default {
                Some(default) => format!("{} in {}, else {default:?}", wanted.name, wanted.place),
                None => format!("{} in {}", wanted.name, wanted.place),
            };
            assert_eq!(spec(&entry).variables().into_iter().map(shown).collect::<Vec<_>>(), expect);
        }
        check(
            json!({"url": "https://a.example/${WHERE:-x}", "headers": {"X-Locale": "${ANTHROPIC_API_KEY}"}}),
            &["WHERE in the address, else \"x\"", "ANTHROPIC_API_KEY in header X-Locale"],
        );
        check(
            json!({"command": "${SHELL}", "args": ["-c", "${A}${B}"], "env": {"TOKEN": "x${C}"}, "cwd": "${PWD}"}),
            &[
                "SHELL in the command",
                "A in argument 2",
                "B in argument 2",
                "PWD in the working folder",
                "C in environment variable TOKEN",
            ],
        );
        check(json!({"command": "$HOME", "env": {"${NAME}": "${OPEN"}}), &[]);
    }

    #[cfg(unix)]
    #[test]
    fn files_of_the_vault_are_found_in_the_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let vault = folder.path().canonicalize().unwrap().join("vault");
        fs::create_dir_all(vault.join("code/inner")).unwrap();
        for file in ["server.py", "code/server.py", "code/inner/run.sh"] {
            fs::write(vault.join(file), "x").unwrap();
        }
        fs::write(folder.path().join("outside.py"), "x").unwrap();
        std::os::unix::fs::symlink(vault.join("server.py"), vault.join("link.py")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("outside.py"), vault.join("out.py")).unwrap();
        let check = |entry: Value, expect: &[&str]| {
            let found: Vec<_> = spec(&entry).local_files(&vault);
            assert_eq!(found, expect.iter().map(|file| vault.join(file)).collect::<Vec<_>>(), "{entry}");
        };
        check(json!({"command": "python3", "args": ["server.py"]}), &["server.py"]);
        check(json!({"command": "python3", "args": ["server.py"], "cwd": "code"}), &["code/server.py", "server.py"]);
        check(json!({"command": "./inner/run.sh", "cwd": "code"}), &["code/inner/run.sh"]);
        check(
            json!({"command": vault.join("code/inner/run.sh"), "args": ["--config=server.py"]}),
            &["code/inner/run.sh", "server.py"],
        );
        check(
            json!({"command": "python3", "args": ["link.py", "out.py", "../outside.py", "code", "none.py", ""]}),
            &["server.py"],
        );
        check(json!({"url": "server.py"}), &[]);
    }

    fn word() -> impl Strategy<Value = String> {
        prop::sample::select(&["", "a", "b", "ab", "\"", "\\", ",", ":", "\u{0}", "null", "[]", "${a}"][..])
            .prop_map(str::to_owned)
    }

    fn words() -> impl Strategy<Value = BTreeMap<String, String>> {
        prop::collection::btree_map(word(), word(), 0..3)
    }

    fn settings() -> impl Strategy<Value = ToolSpec> {
        let include = prop::option::of(prop::sample::select(&[Include::Always, Include::Manual, Include::Agent][..]));
        let permission = prop::option::of(prop::sample::select(&[Permission::Required, Permission::NotRequired][..]));
        (include, permission).prop_map(|(include, permission)| ToolSpec { include, permission })
    }

    fn any_spec() -> impl Strategy<Value = ServerSpec> {
        let stdio = (word(), prop::collection::vec(word(), 0..3), words(), prop::option::of(word()))
            .prop_map(|(command, args, env, cwd)| Transport::Stdio { command, args, env: Withheld(env), cwd });
        let http = (word(), words()).prop_map(|(url, headers)| Transport::Http { url, headers: Withheld(headers) });
        let tools = prop::collection::btree_map(word(), settings(), 0..3);
        (word(), prop_oneof![stdio, http], settings(), tools).prop_map(
            |(name, transport, ToolSpec { include, permission }, tools)| ServerSpec {
                name,
                transport,
                include,
                permission,
                tools,
            },
        )
    }

    /// One thing of an entry is another one, taken from `other`.
    fn with_one_of(spec: &ServerSpec, other: &ServerSpec, which: usize) -> ServerSpec {
        let mut new = spec.clone();
        match which {
            0 => new.name.clone_from(&other.name),
            1 => new.transport = other.transport.clone(),
            2 => new.include = other.include,
            3 => new.permission = other.permission,
            4 => new.tools.clone_from(&other.tools),
            _ => match (&mut new.transport, &other.transport) {
                (
                    Transport::Stdio { command, args, env, cwd },
                    Transport::Stdio { command: command2, args: args2, env: env2, cwd: cwd2 },
                ) => match which {
                    5 => command.clone_from(command2),
                    6 => args.clone_from(args2),
                    7 => env.clone_from(env2),
                    _ => cwd.clone_from(cwd2),
                },
                (Transport::Http { url, headers }, Transport::Http { url: url2, headers: headers2 }) => match which {
                    5 | 6 => url.clone_from(url2),
                    _ => headers.clone_from(headers2),
                },
                _ => {}
            },
        }
        new
    }

    proptest! {
        #[test]
        fn canonical_forms_are_the_same_exactly_where_the_entries_are(a in any_spec(), b in any_spec(), which in 0..9_usize) {
            prop_assert_eq!(a == b, a.canonical() == b.canonical());
            let near = with_one_of(&a, &b, which);
            prop_assert_eq!(a == near, a.canonical() == near.canonical());
        }
    }
}
