//! Items that follow each other: turns of a talk, parts of a report, notes of consecutive days. An answer is often spread over neighbours.

use std::collections::{BTreeMap, HashMap};

use foreword_core::item::{ItemId, Kind};

/// Items by what their names have in common and the number at their end.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    members: HashMap<String, BTreeMap<u64, ItemId>>,
}

impl Series {
    pub(super) fn add(&mut self, id: &ItemId) {
        if let Some((stem, number)) = place(id) {
            self.members.entry(stem).or_default().insert(number, id.clone());
        }
    }

    pub(super) fn remove(&mut self, id: &ItemId) {
        let Some((stem, number)) = place(id) else { return };
        if let Some(members) = self.members.get_mut(&stem) {
            members.remove(&number);
            if members.is_empty() {
                self.members.remove(&stem);
            }
        }
    }

    /// The items just before and just behind `id`.
    pub(super) fn neighbours(&self, id: &ItemId) -> impl Iterator<Item = &ItemId> {
        let found = place(id).and_then(|(stem, number)| self.members.get(&stem).map(|members| (members, number)));
        let (before, behind) = found.map_or((None, None), |(members, number)| {
            let at = |number: Option<u64>| number.and_then(|number| members.get(&number));
            (at(number.checked_sub(1)), at(number.checked_add(1)))
        });
        before.into_iter().chain(behind)
    }
}

/// `note:Lesson 4.md` is number 4 of `note:Lesson `. Tools and rules are in no series: their numbers are versions.
fn place(id: &ItemId) -> Option<(String, u64)> {
    if matches!(id.kind(), Kind::Tool | Kind::Rule) {
        return None;
    }
    let name = id.name().strip_suffix(".md").unwrap_or(id.name());
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    // Leading zeros may be left out, so that `09` is followed by `10`; two spellings of one number are one place, and the later counts.
    let number = name[stem.len()..].parse().ok()?;
    Some((format!("{}:{stem}", id.kind().as_str()), number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(id: &str, expect: &[&str]) {
        let mut series = Series::default();
        for id in [
            "note:Lesson 3.md",
            "note:Lesson 4.md",
            "note:Lesson 5.md",
            "note:D1:9",
            "note:D1:10",
            "tool:a/x1",
            "tool:a/x2",
            "note:2025-09-09",
        ] {
            series.add(&id.parse().unwrap());
        }
        series.remove(&"note:Lesson 5.md".parse().unwrap());
        let id: ItemId = id.parse().unwrap();
        let found: Vec<String> = series.neighbours(&id).map(ToString::to_string).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn numbered_names_are_neighbours() {
        check("note:Lesson 4.md", &["note:Lesson 3.md"]);
        check("note:D1:10", &["note:D1:9"]);
        check("note:2025-09-10", &["note:2025-09-09"]);
        check("tool:a/x1", &[]);
        check("note:plain.md", &[]);
        check("note:99999999999999999999999", &[]);
    }
}
