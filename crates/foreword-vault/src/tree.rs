//! An overview of a vault's folders, for models and people.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::index::Vault;
use foreword_text::reserved::one_line;

/// Deeper folders are counted in their parent.
const MOST_DEPTH: usize = 64;

/// A folder with its content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tree {
    /// Its name; empty for the vault itself.
    pub name: String,
    /// The number of notes in it and its subfolders.
    pub notes: usize,
    /// The number of other files in it and its subfolders.
    pub files: usize,
    /// Its subfolders in natural order.
    pub folders: Vec<Tree>,
    /// Its files in natural order; empty if only folders were requested.
    pub entries: Vec<String>,
}

/// What a tree includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Folders with their number of files.
    Folders,
    /// File names too.
    Files,
}

impl Vault {
    /// The folder at `path` (empty for the vault) with `depth` levels of subfolders; deeper ones are counted. `None` if there are
    /// no files.
    pub fn tree(&self, path: &str, depth: usize, show: Show) -> Option<Tree> {
        let path = path.trim_matches('/');
        let mut top = Node::default();
        let notes = self.notes().map(|listed| (listed.facts.path.as_str(), 1, 0));
        let files = self.files().map(|file| (file.facts.path.as_str(), 0, 1));
        for (file, notes, files) in notes.chain(files) {
            let rest = if path.is_empty() { Some(file) } else { file.strip_prefix(path).and_then(|rest| rest.strip_prefix('/')) };
            if let Some(rest) = rest {
                top.add(rest, notes, files, depth.min(MOST_DEPTH), show);
            }
        }
        (path.is_empty() || top.notes + top.files > 0).then(|| top.finish(path.to_owned()))
    }
}

#[derive(Default)]
struct Node<'a> {
    notes: usize,
    files: usize,
    folders: BTreeMap<&'a str, Node<'a>>,
    entries: Vec<&'a str>,
}

impl<'a> Node<'a> {
    fn add(&mut self, path: &'a str, notes: usize, files: usize, depth: usize, show: Show) {
        self.notes += notes;
        self.files += files;
        match path.split_once('/') {
            Some((folder, rest)) if depth > 0 => self.folders.entry(folder).or_default().add(rest, notes, files, depth - 1, show),
            None if show == Show::Files => self.entries.push(path),
            _ => {}
        }
    }

    fn finish(self, name: String) -> Tree {
        let mut folders: Vec<Tree> = self.folders.into_iter().map(|(name, node)| node.finish(name.to_owned())).collect();
        folders.sort_by(|a, b| natural(&a.name, &b.name));
        let mut entries: Vec<String> = self.entries.into_iter().map(str::to_owned).collect();
        entries.sort_by(|a, b| natural(a, b));
        Tree { name, notes: self.notes, files: self.files, folders, entries }
    }
}

impl Tree {
    /// The tree as text: one line per folder, indented, with its number of notes, followed by its files.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, 0);
        out
    }

    fn write(&self, out: &mut String, depth: usize) {
        let indent = "  ".repeat(depth);
        let count = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
        let files = if self.files > 0 { format!(", {}", count(self.files, "other file")) } else { String::new() };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{indent}{}/ ({}{files})", one_line(&self.name), count(self.notes, "note"));
        for folder in &self.folders {
            folder.write(out, depth + 1);
        }
        for entry in &self.entries {
            let _ = writeln!(out, "{indent}  {}", one_line(entry));
        }
    }
}

/// Natural order: `Lesson 9` before `Lesson 10`, ignoring case.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let (Some(x), Some(y)) = (left.chars().next(), right.chars().next()) else {
            return left.len().cmp(&right.len()).then_with(|| a.cmp(b));
        };
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let (number, after) = digits(left);
            let (other, rest) = digits(right);
            let order = number.len().cmp(&other.len()).then_with(|| number.cmp(other));
            if order != Ordering::Equal {
                return order;
            }
            (left, right) = (after, rest);
        } else {
            let order = x.to_lowercase().cmp(y.to_lowercase());
            if order != Ordering::Equal {
                return order;
            }
            (left, right) = (&left[x.len_utf8()..], &right[y.len_utf8()..]);
        }
    }
}

/// The number at the start, without leading zeros, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    (text[..text.len() - rest.len()].trim_start_matches('0'), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_a_person_expects() {
        fn check(names: &[&str]) {
            let mut sorted = names.to_vec();
            sorted.reverse();
            sorted.sort_by(|a, b| natural(a, b));
            assert_eq!(sorted, names);
        }
        check(&["Lesson 9", "lesson 10", "Lesson 10b"]);
        check(&["", "01", "1", "2", "A", "a", "b"]);
        check(&["a99999999999999999999", "a100000000000000000000"]);
        check(&["été", "Été2"]);
    }

    #[test]
    fn folders_first_then_files_to_a_depth() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["a.md", "Lesson 10/x.md", "Lesson 9/y.md", "Lesson 9/deep/er/z.md", "Lesson 9/p.png"] {
            let file = dir.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        let vault = Vault::open(dir.path(), None).unwrap().vault;
        let check = |path: &str, depth: usize, show: Show, expect: &str| {
            assert_eq!(vault.tree(path, depth, show).unwrap().text(), expect);
        };
        check("", 0, Show::Folders, "/ (4 notes, 1 other file)\n");
        check("", 1, Show::Folders, "/ (4 notes, 1 other file)\n  Lesson 9/ (2 notes, 1 other file)\n  Lesson 10/ (1 note)\n");
        check(
            "Lesson 9/",
            9,
            Show::Files,
            "Lesson 9/ (2 notes, 1 other file)\n  deep/ (1 note)\n    er/ (1 note)\n      z.md\n  p.png\n  y.md\n",
        );
        let json = serde_json::to_value(vault.tree("Lesson 10", 1, Show::Files).unwrap()).unwrap();
        assert_eq!(json, serde_json::json!({"name": "Lesson 10", "notes": 1, "files": 0, "folders": [], "entries": ["x.md"]}));
    }

    #[test]
    fn a_folder_that_does_not_exist_was_an_empty_tree() {
        let dir = tempfile::tempdir().unwrap();
        let vault = Vault::open(dir.path(), None).unwrap().vault;
        assert_eq!(vault.tree("none", 9, Show::Files), None);
        assert_eq!(vault.tree("/", 9, Show::Files).map(|tree| tree.text()), Some("/ (0 notes)\n".to_owned()));
    }

    #[test]
    fn a_line_end_in_a_name_split_its_line() {
        let entries = vec!["x\n  y.md".to_owned(), "p\u{2028}q\u{1b}.md".to_owned()];
        let tree = Tree { name: "a\rb".to_owned(), notes: 2, entries, ..Tree::default() };
        assert_eq!(tree.text(), "a b/ (2 notes)\n  x   y.md\n  p q .md\n");
    }
}
