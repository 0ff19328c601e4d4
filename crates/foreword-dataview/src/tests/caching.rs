//! Answers that are kept, and when they are not.

use foreword_core::hash::Hash;
use jiff::ToSpan;

use super::vault::{Vault, vault};
use super::{Limit, now};
use crate::{Cache, Fingerprint};

fn fingerprint(vault: &Vault, content: &str) -> Fingerprint {
    Fingerprint::of(vault.facts().map(|facts| (facts, Hash::of(content))))
}

/// What a cache that has answered the query over the vault of the tests says over another one, to which a note was added in secret:
/// the old answer if it was kept, the new one if not.
fn is_kept(query: &str, this: &str, days_later: i64, content: &str) -> bool {
    let (old, mut new) = (vault(), vault());
    new.add("Zoo.md", &serde_json::json!({"best": 9}), &["book"]);
    let mut cache = Cache::default();
    let first = cache.answer(query, "Home.md", &old, fingerprint(&old, "a"), &now(), Limit::default());
    let later = now().checked_add(days_later.days()).unwrap();
    let second = cache.answer(query, this, &new, fingerprint(&old, content), &later, Limit::default());
    first == second
}

#[test]
fn answers_are_kept_while_they_hold() {
    for (query, this, days_later, content, expect) in [
        ("LIST", "Home.md", 0, "a", true),
        ("LIST", "Home.md", 0, "b", false),
        ("LIST", "Home.md", 5, "a", true),
        ("LIST WHERE file.mtime < date(today)", "Home.md", 0, "a", true),
        ("LIST WHERE file.mtime < date(today)", "Home.md", 1, "a", false),
        ("LIST WHERE file.mtime < date(now)", "Home.md", 0, "a", false),
        ("LIST", "Zoo.md", 0, "a", true),
        ("LIST WHERE this", "Zoo.md", 0, "a", false),
        ("LIST WHERE [[Dune]]", "Zoo.md", 0, "a", false),
    ] {
        assert_eq!(is_kept(query, this, days_later, content), expect, "{query} in {this}");
    }
}

#[test]
fn a_new_note_changes_the_fingerprint() {
    let (old, mut new) = (vault(), vault());
    new.add("Zoo.md", &serde_json::json!({}), &[]);
    assert_ne!(fingerprint(&old, "a"), fingerprint(&new, "a"));
}

#[test]
fn the_cache_is_bounded() {
    let vault = vault();
    let mut cache = Cache::default();
    for number in 0..700 {
        let query = format!("LIST LIMIT {number}");
        cache.answer(&query, "Home.md", &vault, fingerprint(&vault, "a"), &now(), Limit::default()).unwrap();
    }
    assert!(format!("{cache:?}").matches("Answer {").count() <= 512);
}
