//! What the frontmatter tells about a note besides its fields: tags, aliases, links.

use std::ops::Range;

use serde_json::Value;

use super::inline;
use super::link;
use crate::note::{Frontmatter, Link, LinkForm};

/// The tags under `tags` and `tag`: a list, or words parted by commas or blanks, with or without `#`.
pub(super) fn tags(frontmatter: &Frontmatter) -> Vec<String> {
    let words = texts(frontmatter, &["tags", "tag"]).into_iter();
    let words = words.flat_map(|text| text.split([',', ' ', '\t', '\n']).map(str::to_owned).collect::<Vec<_>>());
    words.map(|word| word.trim_start_matches('#').to_owned()).filter(|word| inline::is_tag(word)).collect()
}

/// The names under `aliases` and `alias`: a list, or names parted by commas.
pub(super) fn aliases(frontmatter: &Frontmatter) -> Vec<String> {
    let is_list = |key: &str| frontmatter.get(key).is_some_and(Value::is_array);
    let mut aliases = Vec::new();
    for key in ["aliases", "alias"] {
        for text in texts(frontmatter, &[key]) {
            let names: Vec<_> = if is_list(key) { vec![text.as_str()] } else { text.split(',').collect() };
            aliases.extend(names.into_iter().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned));
        }
    }
    aliases
}

/// The scalars under some keys as text.
fn texts(frontmatter: &Frontmatter, keys: &[&str]) -> Vec<String> {
    let mut texts = Vec::new();
    for value in keys.iter().filter_map(|key| frontmatter.get(key)) {
        match value {
            Value::Array(values) => texts.extend(values.iter().filter_map(scalar)),
            value => texts.extend(scalar(value)),
        }
    }
    texts
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(_) | Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The links among the values: those that are a link as a whole, `"[[Note]]"`.
pub(super) fn links(text: &str, frontmatter: &Frontmatter) -> Vec<Link> {
    let mut finder = Finder { text, at: 0, whole: frontmatter.range.clone(), links: Vec::new(), is_lost: false };
    for (_, value) in &frontmatter.fields {
        finder.visit(value);
    }
    finder.links
}

struct Finder<'a> {
    text: &'a str,
    at: usize,
    whole: Range<usize>,
    links: Vec<Link>,
    /// A link was not found as it reads (YAML escapes): from there on the places are those of the whole frontmatter.
    is_lost: bool,
}

impl Finder<'_> {
    fn visit(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.read(text.trim()),
            Value::Array(values) => values.iter().for_each(|value| self.visit(value)),
            Value::Object(fields) => fields.values().for_each(|value| self.visit(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn read(&mut self, written: &str) {
        let Some(inner) = written.strip_prefix("[[").and_then(|rest| rest.strip_suffix("]]")) else { return };
        let link::Inner { target, part, text } = link::link(inner);
        if inner.contains("[[") || inner.contains("]]") || (target.is_empty() && part.is_none()) {
            return;
        }
        let place = self.text.get(self.at..self.whole.end).filter(|_| !self.is_lost).and_then(|rest| rest.find(written));
        let range = if let Some(place) = place {
            let start = self.at + place;
            self.at = start + written.len();
            start..self.at
        } else {
            self.is_lost = true;
            self.whole.clone()
        };
        self.links.push(Link { form: LinkForm::Wiki, embed: false, target, part, text, range });
    }
}
