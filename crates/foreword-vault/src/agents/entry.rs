//! One rule or reference from one markdown file: its frontmatter, checked field by field, and its text.

use foreword_core::catalog::{Entry, Include, Priority};
use serde_json::{Map, Value};
use unicode_normalization::UnicodeNormalization;

use super::Problems;
use foreword_markdown::frontmatter::MAX_DEPTH;

const MAX_NAME_CHARS: usize = 200;

/// The fields of a frontmatter and the text behind it.
pub(super) struct Parts {
    pub(super) fields: Map<String, Value>,
    pub(super) body: String,
}

/// How a frontmatter is to be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// YAML; where it is broken, what can be saved line by line.
    Yaml,
    /// `key: value` lines. Cursor writes `globs: *.ts`, which YAML takes for an alias.
    Lines,
}

/// Splits `text` and reads its frontmatter.
pub(super) fn parts(text: &str, dialect: Dialect, problems: &mut Problems) -> Parts {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let Some((front, body)) = split(&text) else {
        return Parts { fields: Map::new(), body: text.trim().to_owned() };
    };
    let fields = match dialect {
        Dialect::Lines => lines(front),
        Dialect::Yaml => yaml(front).unwrap_or_else(|fault| {
            problems.push(format!("the frontmatter is not valid YAML ({fault}) and was read line by line"));
            lines(front)
        }),
    };
    Parts { fields, body: body.trim().to_owned() }
}

fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("---\n")?;
    if let Some(body) = rest.strip_prefix("---\n") {
        return Some(("", body));
    }
    let end = rest.find("\n---\n").or_else(|| rest.ends_with("\n---").then(|| rest.len() - "\n---".len()))?;
    Some((&rest[..end], rest.get(end + "\n---\n".len()..).unwrap_or_default()))
}

/// A YAML mapping. Errors are cut to their first line: what follows quotes the file, which may hold secrets.
pub(super) fn yaml(text: &str) -> Result<Map<String, Value>, String> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
        budget: serde_saphyr::budget! { max_nodes: 2_000_000, max_events: 4_000_000, max_depth: MAX_DEPTH },
    };
    match serde_saphyr::from_str_with_options(text, options) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err("no keys".to_owned()),
        Err(fault) => Err(fault.to_string().lines().next().unwrap_or("unreadable").to_owned()),
    }
}

fn lines(text: &str) -> Map<String, Value> {
    let plain = |value: &str| {
        let value = value.trim();
        let quoted = |mark: char| value.strip_prefix(mark).and_then(|value| value.strip_suffix(mark));
        Value::String(quoted('"').or_else(|| quoted('\'')).unwrap_or(value).to_owned())
    };
    let mut fields = Map::new();
    let mut last: Option<String> = None;
    for line in text.lines() {
        if let (Some(item), Some(key)) = (line.trim_start().strip_prefix("- "), &last) {
            match fields.get_mut(key) {
                Some(Value::Array(items)) => items.push(plain(item)),
                Some(slot) if slot.as_str() == Some("") => *slot = Value::Array(vec![plain(item)]),
                _ => {}
            }
        } else if let Some((key, value)) = line.split_once(':').filter(|_| !line.starts_with([' ', '\t', '#'])) {
            fields.insert(key.trim().to_owned(), plain(value));
            last = Some(key.trim().to_owned());
        }
    }
    fields
}

/// Reads a rule or reference of a folder agent.
pub(super) fn entry(name: &str, text: &str, problems: &mut Problems) -> Option<Entry> {
    let Parts { fields, body } = parts(text, Dialect::Yaml, problems);
    let given = Given { fields: &fields, priority: "priority" };
    given.entry(name, body, problems)
}

/// Fields as they were given, under the names one format has for them.
pub(super) struct Given<'a> {
    pub(super) fields: &'a Map<String, Value>,
    pub(super) priority: &'static str,
}

impl Given<'_> {
    /// The entry, if it has a name and a text. Bad values give way to the defaults.
    pub(super) fn entry(&self, name: &str, text: String, problems: &mut Problems) -> Option<Entry> {
        let name = checked_name(name, problems)?;
        if text.trim().is_empty() {
            problems.push("no text; it is ignored".to_owned());
            return None;
        }
        let priority = self.fields.get(self.priority).map_or(Some(Priority::DEFAULT), priority).unwrap_or_else(|| {
            problems.push(format!("{} must be an integer from 0 to 999; using 500", self.priority));
            Priority::DEFAULT
        });
        let include = include(self.fields.get("include"), problems).unwrap_or(Include::Manual);
        Some(Entry { name, description: string(self.fields, "description"), text, priority, include })
    }
}

/// A name is any text of one line: files have spaces and umlauts. It is what people see, so it is kept to what can be shown.
pub(super) fn checked_name(name: &str, problems: &mut Problems) -> Option<String> {
    let name: String = name.trim().nfc().collect();
    if name.is_empty() || name.chars().count() > MAX_NAME_CHARS || name.chars().any(char::is_control) {
        problems.push(format!("a name must have 1 to {MAX_NAME_CHARS} characters and no control characters; it is ignored"));
        return None;
    }
    Some(name)
}

fn priority(value: &Value) -> Option<Priority> {
    let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())?;
    Priority::try_from(u16::try_from(number).ok()?).ok()
}

/// An include mode, where a good one is given.
pub(super) fn include(value: Option<&Value>, problems: &mut Problems) -> Option<Include> {
    match value?.as_str().map(str::trim) {
        Some("always") => Some(Include::Always),
        Some("manual") => Some(Include::Manual),
        Some("agent") => Some(Include::Agent),
        _ => {
            problems.push("include must be always, manual or agent; using the default".to_owned());
            None
        }
    }
}

/// A text field that says something.
pub(super) fn string(fields: &Map<String, Value>, key: &str) -> Option<String> {
    let value = fields.get(key)?.as_str()?.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(text: &str, expect: Option<(&str, u16, Include)>, faults: usize) {
        let mut problems = Problems::of("a.md");
        let found = entry("a", text, &mut problems);
        let found = found.as_ref().map(|entry| (entry.text.as_str(), entry.priority.get(), entry.include));
        assert_eq!((found, problems.list.len()), (expect, faults), "{text:?}: {:?}", problems.list);
    }

    #[test]
    fn entries() {
        check("Be kind.", Some(("Be kind.", 500, Include::Manual)), 0);
        check("---\npriority: 7\ninclude: always\n---\nBe kind.\n", Some(("Be kind.", 7, Include::Always)), 0);
        check("\u{feff}---\r\npriority: \"8\"\r\ninclude: agent\r\n---\r\na\r\nb", Some(("a\nb", 8, Include::Agent)), 0);
        check("---\npriority: 1000\ninclude: sometimes\n---\nx", Some(("x", 500, Include::Manual)), 2);
        check("---\npriority: -1\n---\nx", Some(("x", 500, Include::Manual)), 1);
        check("---\ndescription: Plan: v2\npriority: 3\n---\nx", Some(("x", 3, Include::Manual)), 1);
        check("---\n---\nx", Some(("x", 500, Include::Manual)), 0);
        check("---\npriority: 1\n---", None, 1);
        check("---\nno end\n", Some(("---\nno end", 500, Include::Manual)), 0);
        check("", None, 1);
        check(&format!("---\na: {}\n---\nx", "[".repeat(10_000)), Some(("x", 500, Include::Manual)), 1);
        check(&format!("---\na: {}{}\n---\nx", "[".repeat(1_000), "]".repeat(1_000)), Some(("x", 500, Include::Manual)), 1);
    }

    #[test]
    fn lines_keep_what_yaml_refuses() {
        let found =
            lines("globs: *.ts,*.tsx\nalwaysApply: false\ndescription: \"a: b\"\nlist:\n  - '*.rs'\n  - x\n# no\n  deep: 1");
        let expect = json!({"globs": "*.ts,*.tsx", "alwaysApply": "false", "description": "a: b", "list": ["*.rs", "x"]});
        assert_eq!(Value::Object(found), expect);
    }

    #[test]
    fn names() {
        let ok = |name: &str| checked_name(name, &mut Problems::of("x"));
        assert_eq!(ok(" Tone of voice "), Some("Tone of voice".into()));
        assert_eq!(ok("u\u{308}ber"), Some("über".into()));
        assert_eq!((ok(""), ok("a\nb"), ok(&"x".repeat(201))), (None, None, None));
    }
}
