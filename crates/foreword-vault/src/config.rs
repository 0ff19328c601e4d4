//! The vault's settings in `foreword.toml`. An invalid file never prevents opening the vault.

use toml::{Table, Value};

use foreword_text::reserved::one_line;

/// The path of the settings file.
pub const FILE: &str = "foreword.toml";

/// The settings of a vault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Files and folders to ignore, in the syntax of `.gitignore`.
    pub exclude: Vec<String>,
    /// Hosts on a private network from which pages may be fetched.
    pub web_allow: Vec<String>,
}

impl Config {
    /// Parses the file. Returns the valid settings and the errors.
    pub fn read(text: &str) -> (Self, Vec<String>) {
        let mut table = match text.parse::<Table>() {
            Ok(table) => table,
            Err(error) => {
                let before = error.span().and_then(|span| text.get(..span.start));
                let line = before.map(|before| format!("line {}: ", before.matches('\n').count() + 1)).unwrap_or_default();
                let why = one_line(error.message());
                return (Self::default(), vec![format!("ignored, because it is not valid TOML: {line}{}", why.trim())]);
            }
        };
        let mut faults = Vec::new();
        let config = Self {
            exclude: take(&mut table, "vault", "exclude", &mut faults),
            web_allow: take(&mut table, "web", "allow", &mut faults),
        };
        for (section, value) in table {
            match value {
                Value::Table(keys) if matches!(section.as_str(), "vault" | "web") => {
                    faults.extend(keys.keys().map(|key| format!("`{section}.{key}` is not a setting; it is ignored")));
                }
                _ => faults.push(format!("`{section}` is not a setting; it is ignored")),
            }
        }
        (config, faults)
    }
}

/// Removes a list of strings from `table`; what remains at the end is unknown.
fn take(table: &mut Table, section: &str, key: &str, faults: &mut Vec<String>) -> Vec<String> {
    let value = table.get_mut(section).and_then(Value::as_table_mut).and_then(|keys| keys.remove(key));
    let mut wrong = |found: &Value| {
        faults.push(format!("`{section}.{key}` must be a list of strings, not {}; it is ignored", found.type_str()));
    };
    match value {
        None => Vec::new(),
        Some(Value::Array(values)) => values
            .into_iter()
            .filter_map(|value| match value {
                Value::String(text) => Some(text),
                other => {
                    wrong(&other);
                    None
                }
            })
            .collect(),
        Some(other) => {
            wrong(&other);
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_and_the_rest_is_used() {
        fn check(text: &str, exclude: &[&str], faults: &[&str]) {
            let (config, found) = Config::read(text);
            assert_eq!(config.exclude, exclude, "{text}");
            assert_eq!(found.len(), faults.len(), "{text}: {found:?}");
            for (found, expected) in found.iter().zip(faults) {
                assert!(found.contains(expected), "{found:?} does not say {expected:?}");
            }
        }
        check("", &[], &[]);
        check("[vault]\nexclude = ['Archive/', '*.tmp']\n[web]\nallow = ['a.example']", &["Archive/", "*.tmp"], &[]);
        check("[vault]\nexclude = 'Archive'", &[], &["`vault.exclude` must be a list of strings, not string"]);
        check("[vault]\nexclude = ['a', 1]", &["a"], &["not integer"]);
        check("[vault]\nexclude = ['a']\ncolour = 'blue'", &["a"], &["`vault.colour` is not a setting"]);
        check("[valut]\nexclude = ['a']", &[], &["`valut` is not a setting"]);
        check("vault = 3", &[], &["`vault` is not a setting"]);
        check("[vault\nexclude", &[], &["not valid TOML"]);
    }

    #[test]
    fn broken_toml_was_told_on_many_lines() {
        for text in ["[web]\n\nallow = [\u{1b}[31m", "\n\n\u{7}\u{9b}x", "\n\na = \"\u{8}", "\n\na b"] {
            let (_, faults) = Config::read(text);
            assert_eq!(faults.len(), 1);
            assert!(faults[0].contains("not valid TOML: line 3: ") && !faults[0].contains(char::is_control), "{faults:?}");
        }
    }
}
