//! A vault in memory.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{PageRef, Pages};
use foreword_markdown::note::{Field, FileFacts, Heading, Link, LinkForm, ListItem, Note};

#[derive(Default)]
pub(super) struct Vault(BTreeMap<String, (FileFacts, Note)>);

impl Vault {
    pub(super) fn add(&mut self, path: &str, fields: &Value, tags: &[&str]) -> &mut Note {
        let millis = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let (created, modified) = (millis("2025-08-31T23:30:00Z"), millis("2025-09-02T08:15:00Z"));
        let facts = FileFacts { path: path.to_owned(), size: 100 + path.len() as u64, modified, created };
        let mut note = Note::default();
        let fields = fields.as_object().unwrap();
        note.frontmatter.fields = fields.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let aliases = fields.get("aliases").and_then(Value::as_array).into_iter().flatten();
        note.aliases = aliases.filter_map(|alias| alias.as_str().map(str::to_owned)).collect();
        note.tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        &mut self.0.entry(path.to_owned()).or_insert((facts, note)).1
    }

    pub(super) fn facts(&self) -> impl Iterator<Item = &FileFacts> {
        self.0.values().map(|(facts, _)| facts)
    }
}

/// Builds up a note.
pub(super) trait Build {
    fn inline(&mut self, key: &str, value: &str) -> &mut Self;
    fn links_to(&mut self, target: &str) -> &mut Self;
    fn heading(&mut self, text: &str) -> &mut Self;
    /// A list item, with a box where the text starts with one; `[key:: value]` in it are its fields.
    fn item(&mut self, text: &str, parent: Option<u32>) -> &mut Self;
}

impl Build for Note {
    fn inline(&mut self, key: &str, value: &str) -> &mut Self {
        self.fields.push(Field { key: key.to_owned(), value: value.to_owned(), line: 1 });
        self
    }

    fn links_to(&mut self, target: &str) -> &mut Self {
        let link = Link { form: LinkForm::Wiki, embed: false, target: target.to_owned(), part: None, text: None, range: 0..0 };
        self.links.push(link);
        self
    }

    fn heading(&mut self, text: &str) -> &mut Self {
        self.headings.push(Heading { level: 1, text: text.to_owned(), section: 0..0, line: 1 });
        self
    }

    fn item(&mut self, text: &str, parent: Option<u32>) -> &mut Self {
        let box_of = text.strip_prefix('[').filter(|rest| rest.get(1..3) == Some("] ")).and_then(|rest| rest.chars().next());
        let text = if box_of.is_some() { &text[4..] } else { text };
        let fields = text.split('[').filter_map(|part| part.split(']').next()?.split_once(":: "));
        let tags = text.split_whitespace().filter_map(|word| word.strip_prefix('#'));
        let at = u32::try_from(self.items.len()).unwrap();
        let item = ListItem {
            text: text.to_owned(),
            status: box_of,
            line: 10 + at,
            parent,
            heading: (!self.headings.is_empty()).then_some(0),
            tags: tags.map(str::to_owned).collect(),
            fields: fields.map(|(key, value)| Field { key: key.to_owned(), value: value.to_owned(), line: 10 + at }).collect(),
            block: None,
        };
        self.items.push(item);
        self
    }
}

impl Pages for Vault {
    fn paths(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    fn page(&self, path: &str) -> Option<PageRef<'_>> {
        self.0.get(path).map(|(facts, note)| PageRef { facts, note })
    }

    fn resolve(&self, target: &str, _from: &str) -> Option<String> {
        let name = format!("{target}.md");
        let found = self.0.keys().find(|path| *path == target || **path == name || path.ends_with(&format!("/{name}")));
        found.cloned()
    }

    fn incoming(&self, path: &str) -> Vec<String> {
        self.0.keys().filter(|from| self.outgoing(from).iter().any(|to| to == path)).cloned().collect()
    }

    fn outgoing(&self, path: &str) -> Vec<String> {
        let links = &self.0[path].1.links;
        let mut paths: Vec<String> = links.iter().filter_map(|link| self.resolve(&link.target, path)).collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }
}

/// The vault of the tests: three books, two people, a project with tasks, a daily note and a home.
pub(super) fn vault() -> Vault {
    let mut vault = Vault::default();
    let dune = json!({
        "title": "Dune", "rating": 9, "pages": 612, "read": true, "published": "1965-08-01", "author": "[[Herbert]]",
        "Genre List": ["scifi", "epic"], "took": "3 days", "meta": {"shelf": "A", "rows": [1, 2]}, "empty": null,
    });
    vault
        .add("Books/Dune.md", &dune, &["book/scifi", "classic"])
        .inline("mood", "dark, \"deep\"")
        .inline("Due Date", "2025-09-10")
        .links_to("Herbert");
    let emma = json!({"title": "Emma | a novel", "rating": 7, "pages": 474, "read": false, "published": "1815-12-23", "author": "[[People/Austen]]"});
    vault.add("Books/Emma.md", &emma, &["book", "classic"]).links_to("Austen").links_to("Dune");
    let solaris = json!({"title": "Solaris", "rating": 9, "pages": 204});
    vault.add("Books/Solaris.md", &solaris, &["Book/SciFi"]);
    vault.add("Daily/2025-09-01.md", &json!({}), &["daily"]).inline("weight", "70.5").inline("weight", "71").links_to("Emma");
    vault.add("Home.md", &json!({"focus": "scifi", "best": 9, "due": "2025-09-05"}), &[]).links_to("Dune").links_to("Missing");
    vault.add("People/Austen.md", &json!({"born": 1775, "aliases": ["Jane"]}), &["person"]);
    vault.add("People/Herbert.md", &json!({"born": 1920}), &["person"]).links_to("Dune");
    let project = vault.add("Work/Project.md", &json!({"status": "active"}), &["project"]).heading("Plan");
    project.item("[ ] Write draft [due:: 2025-09-02] #urgent", None);
    project.item("[x] Outline ✅ 2025-08-30", Some(0));
    project.item("a remark [source:: talk]", Some(0));
    project.item("[x] Ship it 📅 2025-09-20 ➕ 2025-09-01", None);
    project.item("[/] Half done", Some(3));
    vault
}
