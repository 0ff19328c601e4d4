//! Whether links between pages and names of files lead somewhere.

use std::fs;
use std::path::Path;

/// The folders of the repository that a file name in backticks may begin with.
const FOLDERS: [&str; 8] = ["crates/", "docs/", "examples/", "fuzz/", "xtask/", ".ci/", "foreword/src/", "foreword-"];

/// Links to pages and headings that are not there, and names of files that are not there; each with its line.
pub(super) fn broken(root: &Path, file: &Path, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let folder = file.parent().unwrap_or(root);
    let mut fenced = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for target in targets(line) {
            let (page, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = folder.join(page);
            let has_heading = || match page {
                "" => has_heading(text, heading),
                _ => fs::read_to_string(&path).is_ok_and(|text| has_heading(&text, heading)),
            };
            if !path.exists() {
                wrong.push(format!("{number}: the link {target} leads nowhere"));
            } else if !heading.is_empty() && !has_heading() {
                wrong.push(format!("{number}: {target}: there is no such heading"));
            }
        }
        for name in line.split('`').skip(1).step_by(2).filter(|name| is_file_name(name)) {
            if ![root.to_owned(), root.join("crates")].iter().any(|folder| folder.join(name).exists()) {
                wrong.push(format!("{number}: there is no {name}"));
            }
        }
    }
    wrong
}

/// What a line links to in the repository.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let all = line.split("](").skip(1).filter_map(|after| Some(after.split_once(')')?.0));
    all.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

fn is_file_name(name: &str) -> bool {
    name.contains('/')
        && FOLDERS.iter().any(|folder| name.starts_with(folder))
        && !name.contains(['*', '{', '<', ' ', '…'])
        && !name.contains("NAME")
}

fn has_heading(text: &str, anchor: &str) -> bool {
    text.lines().filter(|line| line.starts_with('#')).any(|line| slug(line.trim_start_matches('#')) == anchor)
}

/// A heading as GitHub names it in links.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_headings() {
        let check = |heading: &str, expect: &str| assert_eq!(slug(heading), expect);
        check(" What would be sent ", "what-would-be-sent");
        check("`cargo xtask bench core`", "cargo-xtask-bench-core");
        check("A page, and a gateway", "a-page-and-a-gateway");
    }

    #[test]
    fn what_leads_nowhere() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let check = |text: &str, expect: usize| assert_eq!(broken(root, &root.join("README.md"), text).len(), expect, "{text}");
        check("[a](ARCHITECTURE.md) and [b](nowhere.md)", 1);
        check("[a](https://example.org/x.md)", 0);
        check("# Some heading\n[a](#some-heading) [b](#another)", 1);
        check("`crates/foreword-core/src/lib.rs` `crates/foreword-core/src/gone.rs` `crates/*/src`", 1);
        check("```\n[a](nowhere.md)\n```", 0);
    }
}
