//! What other programs keep for their agents, taken as it is: `AGENTS.md`, Cursor rules, skills.
//!
//! | file | becomes | include |
//! | --- | --- | --- |
//! | `AGENTS.md` at the root | a rule | `always` |
//! | `AGENTS.md` in a folder | a rule that begins with the folder it holds for, with a [`Scope`] | `agent` |
//! | `.cursorrules` | a rule | `always` |
//! | `.cursor/rules/**/*.mdc` | a rule; its globs become a [`Scope`] | `alwaysApply`: `always`; globs or description: `agent`; else `manual` |
//! | `skills/*/SKILL.md`, `.claude/skills/*/SKILL.md` | a reference; files beside it are listed | `agent` |

use foreword_core::catalog::{Entry, Include, Priority};
use serde_json::Value;

use super::entry::{Dialect, Parts, checked_name, parts, string};
use super::folder::read;
use super::{Files, Problem, Problems, Scope};

const MAX_RULES: usize = 500;
const MAX_SKILLS: usize = 500;
const MAX_GLOBS: usize = 32;
const MAX_BESIDE: usize = 100;
const MAX_DEPTH: usize = 4;

/// What was found beside the agents, each item with the file it is from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imported {
    /// Rules.
    pub rules: Vec<(String, Entry)>,
    /// References.
    pub references: Vec<(String, Entry)>,
    /// Rules that belong to some files only.
    pub scopes: Vec<Scope>,
    /// What could not be used.
    pub problems: Vec<Problem>,
}

/// Imports what is there. `notes` are the paths of the vault's notes; among them the nested `AGENTS.md` are found.
pub fn import<'a>(files: &dyn Files, notes: impl IntoIterator<Item = &'a str>) -> Imported {
    let mut imported = Imported::default();
    imported.agents_md(files, notes);
    imported.cursor(files);
    imported.skills(files);
    imported
}

fn entry(name: String, description: Option<String>, text: String, include: Include) -> Entry {
    Entry { name, description, text, priority: Priority::DEFAULT, include }
}

impl Imported {
    fn agents_md<'a>(&mut self, files: &dyn Files, notes: impl IntoIterator<Item = &'a str>) {
        let mut paths: Vec<&str> = notes.into_iter().filter(|path| path.ends_with("/AGENTS.md")).collect();
        paths.sort_unstable();
        paths.dedup();
        for path in ["AGENTS.md"].into_iter().chain(paths).take(MAX_RULES) {
            let mut problems = Problems::of(path);
            let text = read(files, path, &mut problems).map(|text| parts(&text, Dialect::Yaml, &mut problems).body);
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                let name = path.trim_end_matches(".md").to_owned();
                match path.strip_suffix("/AGENTS.md") {
                    None => self.rule(path, entry(name, None, text, Include::Always), &mut problems),
                    Some(folder) => {
                        let about = format!("Holds for files in {folder}/");
                        let text = format!("This holds for files in {folder}/ only.\n\n{text}");
                        self.scopes.push(Scope { rule: name.clone(), globs: vec![format!("{}/**", escaped(folder))] });
                        self.rule(path, entry(name, Some(about), text, Include::Agent), &mut problems);
                    }
                }
            }
            self.problems.extend(problems.list);
        }
    }

    fn cursor(&mut self, files: &dyn Files) {
        let mut problems = Problems::of(".cursorrules");
        let text = read(files, ".cursorrules", &mut problems).map(|text| text.replace("\r\n", "\n").trim().to_owned());
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.rule(".cursorrules", entry("cursorrules".to_owned(), None, text, Include::Always), &mut problems);
        }
        self.problems.extend(problems.list);

        let root = ".cursor/rules";
        for name in below(files, root, MAX_RULES) {
            let Some(stem) = name.strip_suffix(".mdc") else { continue };
            let path = format!("{root}/{name}");
            let mut problems = Problems::of(&path);
            if let Some(text) = read(files, &path, &mut problems) {
                self.cursor_rule(&path, stem, &text, &mut problems);
            }
            self.problems.extend(problems.list);
        }
    }

    fn cursor_rule(&mut self, path: &str, name: &str, text: &str, problems: &mut Problems) {
        let Parts { fields, body } = parts(text, Dialect::Lines, problems);
        let Some(name) = checked_name(name, problems) else { return };
        if body.is_empty() {
            problems.push("no text; it is ignored".to_owned());
            return;
        }
        let description = string(&fields, "description");
        let globs = globs(fields.get("globs"));
        let always = fields.get("alwaysApply").and_then(Value::as_str) == Some("true");
        let include = match (always, description.is_some() || !globs.is_empty()) {
            (true, _) => Include::Always,
            (false, true) => Include::Agent,
            (false, false) => Include::Manual,
        };
        if !globs.is_empty() && include != Include::Always {
            self.scopes.push(Scope { rule: name.clone(), globs });
        }
        self.rule(path, entry(name, description, body, include), problems);
    }

    fn skills(&mut self, files: &dyn Files) {
        for root in ["skills", ".claude/skills"] {
            let listed = files.list(root).unwrap_or_default();
            for folder in listed.iter().filter(|entry| entry.folder).take(MAX_SKILLS) {
                let place = format!("{root}/{}", folder.name);
                let path = format!("{place}/SKILL.md");
                let mut problems = Problems::of(&path);
                if let Some(text) = read(files, &path, &mut problems) {
                    let Parts { fields, body } = parts(&text, Dialect::Yaml, &mut problems);
                    let name = string(&fields, "name").unwrap_or_else(|| folder.name.clone());
                    let description = string(&fields, "description");
                    if description.is_none() {
                        problems.push("no description; add one so that search can find it".to_owned());
                    }
                    let text = with_files_beside(files, &place, body);
                    match checked_name(&name, &mut problems) {
                        Some(name) if !text.is_empty() => {
                            self.reference(&path, entry(name, description, text, Include::Agent), &mut problems);
                        }
                        Some(_) => problems.push("no text; it is ignored".to_owned()),
                        None => {}
                    }
                }
                self.problems.extend(problems.list);
            }
        }
    }

    fn rule(&mut self, path: &str, entry: Entry, problems: &mut Problems) {
        add(&mut self.rules, path, entry, problems);
    }

    fn reference(&mut self, path: &str, entry: Entry, problems: &mut Problems) {
        add(&mut self.references, path, entry, problems);
    }
}

fn add(list: &mut Vec<(String, Entry)>, path: &str, entry: Entry, problems: &mut Problems) {
    match list.iter().find(|(_, known)| known.name == entry.name) {
        Some((first, _)) => problems.push(format!("the name {} is already used by {first}; this one is ignored", entry.name)),
        None => list.push((path.to_owned(), entry)),
    }
}

/// A skill's text with the list of what else is in its folder, so that the model knows what its text speaks of.
fn with_files_beside(files: &dyn Files, place: &str, body: String) -> String {
    let beside: Vec<String> = below(files, place, MAX_BESIDE).into_iter().filter(|name| name != "SKILL.md").collect();
    if body.is_empty() || beside.is_empty() {
        return body;
    }
    format!("{body}\n\nFiles of this skill, in {place}/:\n- {}", beside.join("\n- "))
}

/// The files below a folder, as paths from there, sorted; at most `limit`, and not deeper than `MAX_DEPTH`.
fn below(files: &dyn Files, folder: &str, limit: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), 0)];
    let mut looked_into = 0;
    while let Some((inside, depth)) = open.pop() {
        looked_into += 1;
        let listed = files.list(&format!("{folder}/{inside}")).unwrap_or_default();
        for entry in listed.into_iter().filter(|entry| !entry.name.starts_with('.')) {
            if !entry.folder {
                found.push(format!("{inside}{}", entry.name));
            } else if depth < MAX_DEPTH && looked_into < limit {
                open.push((format!("{inside}{}/", entry.name), depth + 1));
            }
        }
        if found.len() > limit {
            break;
        }
    }
    found.sort();
    found.truncate(limit);
    found
}

/// `*.ts, src/**` or a list of such.
fn globs(value: Option<&Value>) -> Vec<String> {
    let texts: Vec<&str> = match value {
        Some(Value::String(text)) => vec![text.trim_start_matches('[').trim_end_matches(']')],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let each = texts.into_iter().flat_map(outside_braces).map(|glob| glob.trim().trim_matches(['"', '\'']).to_owned());
    each.filter(|glob| !glob.is_empty()).take(MAX_GLOBS).collect()
}

/// Parts between commas; those inside `{…}` belong to a glob.
fn outside_braces(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    text.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth <= 0
    })
    .collect()
}

/// A folder's name as a glob that means just that.
fn escaped(path: &str) -> String {
    let special = |c: char| matches!(c, '*' | '?' | '[' | ']' | '{' | '}');
    path.chars().map(|c| if special(c) { format!("[{c}]") } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn globs_as_cursor_writes_them() {
        let check = |value: Value, expect: &[&str]| assert_eq!(globs(Some(&value)), expect, "{value}");
        check(json!("*.ts,*.tsx"), &["*.ts", "*.tsx"]);
        check(json!(" src/**/*.{ts,tsx} , \"*.md\" "), &["src/**/*.{ts,tsx}", "*.md"]);
        check(json!("[\"a/*\", 'b']"), &["a/*", "b"]);
        check(json!(["*.rs", "x, y"]), &["*.rs", "x", "y"]);
        check(json!(""), &[]);
        check(json!(3), &[]);
        assert_eq!(escaped("a [b]/c*"), "a [[]b[]]/c[*]");
    }
}
