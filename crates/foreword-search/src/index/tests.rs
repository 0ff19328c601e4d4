use std::cell::Cell;

use foreword_core::item::Kind;
use foreword_core::select::Reason;
use jiff::civil::date;
use proptest::prelude::{prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as _;

use super::*;
use crate::chunk::{Source, item_chunks};
use crate::{DIMENSIONS, EmbedError, Embedder};

/// A model that knows a few topics: each word's first letter is a direction.
#[derive(Default)]
struct Letters {
    asked: Cell<usize>,
}

impl Embedder for Letters {
    fn id(&self) -> &'static str {
        "letters"
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vector>, EmbedError> {
        self.asked.set(self.asked.get() + texts.len());
        Ok(texts.iter().map(|text| letters(text)).collect())
    }
}

fn letters(text: &str) -> Vector {
    let mut vector = [0.0; DIMENSIONS];
    for word in text.split_whitespace() {
        vector[word.bytes().next().map_or(0, usize::from)] += 1.0;
    }
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt().max(1e-6);
    vector.map(|x| x / length)
}

fn document(id: &str, text: &str) -> Document {
    let id: ItemId = id.parse().unwrap();
    let chunks = item_chunks(&Source { kind: id.kind(), name: id.name(), description: "", text, parameters: None });
    Document { id, date: None, chunks }
}

fn embed_all(index: &mut Index) {
    let texts: Vec<String> = index.pending(usize::MAX).into_iter().map(ToOwned::to_owned).collect();
    for text in texts {
        index.set_vector(&text, &letters(&text));
    }
}

fn index(documents: &[(&str, &str)]) -> Index {
    let mut index = Index::new();
    for (id, text) in documents {
        index.put(document(id, text));
    }
    embed_all(&mut index);
    index
}

fn check(documents: &[(&str, &str)], query: Query<'_>, expect: &[&str]) {
    let found = index(documents).search(&Query { embedder: Some(&Letters::default()), floor: Some(0.0), ..query });
    let ids: Vec<String> = found.hits.iter().map(|hit| hit.id.to_string()).collect();
    assert_eq!(ids, expect);
    assert_eq!(found.hits.len() + found.left_out_count, documents.len());
    assert!(found.hits.iter().all(|hit| (0.0..=1.0).contains(&hit.score)));
}

const NOTES: &[(&str, &str)] = &[("note:a.md", "zebra cake"), ("note:b.md", "piano lesson"), ("note:c.md", "pear tart")];

#[test]
fn a_query_of_stop_words_looked_confident() {
    let index = index(&[("note:a.md", "to be or not to be"), ("note:b.md", "a day of the week")]);
    for strategy in [Strategy::Hybrid, Strategy::Keyword] {
        let query = Query { embedder: Some(&Letters::default()), strategy, floor: Some(0.0), ..Query::new("to be or not") };
        let hits = index.search(&query).hits;
        assert!(hits[0].id.name() == "a.md" && hits[0].score > 0.0 && hits[0].score < 0.2, "{hits:?}");
    }
    let day = index.search(&Query { floor: Some(0.0), ..Query::new("the day") });
    assert!(day.hits[0].score > 0.5, "{:?}", day.hits);
}

#[test]
fn strategies() {
    check(NOTES, Query { strategy: Strategy::Keyword, ..Query::new("lessons") }, &["note:b.md"]);
    check(NOTES, Query { strategy: Strategy::Semantic, top_n: 1, ..Query::new("zoo cup") }, &["note:a.md"]);
    check(NOTES, Query { top_n: 2, ..Query::new("pear tea") }, &["note:c.md", "note:b.md"]);
    check(NOTES, Query { kinds: &[Kind::Note], top_n: 1, ..Query::new("tart") }, &["note:c.md"]);
    check(NOTES, Query::new(""), &[]);
}

#[test]
fn each_sentence_brings_its_own() {
    check(NOTES, Query { top_n: 2, ..Query::new("Where is the zebra cake? And the lesson?") }, &["note:a.md", "note:b.md"]);
}

#[test]
fn without_a_model_words_answer_and_it_is_said() {
    let index = index(NOTES);
    let answer = index.search(&Query::new("lesson"));
    assert_eq!(answer.keyword_only, Some(KeywordOnly::NoModel));
    assert_eq!(answer.hits[0].id.to_string(), "note:b.md");
    assert_eq!((answer.chunks, answer.embedded), (3, 3));
}

#[test]
fn unrelated_is_below_the_floor() {
    let answer = index(NOTES).search(&Query { embedder: Some(&Letters::default()), ..Query::new("quantum xylophones") });
    assert!(answer.hits.is_empty());
    assert!(answer.left_out.iter().all(|(_, reason, _)| *reason == Reason::BelowFloor));
    assert_eq!(answer.left_out_count, 3);
}

#[test]
fn what_has_no_vector_yet_is_found_by_its_words() {
    let mut index = index(NOTES);
    index.put(document("note:new.md", "grand marimba lesson"));
    let query = Query { embedder: Some(&Letters::default()), ..Query::new("grand marimba") };
    let answer = index.search(&query);
    assert_eq!((answer.hits[0].id.name(), answer.hits[0].semantic), ("new.md", None));
    assert_eq!((answer.chunks, answer.embedded), (4, 3));
}

#[test]
fn a_tool_is_found_by_both_its_views() {
    let schema = serde_json::json!({"properties": {"zone": {"description": "zulu"}}});
    let tool = |name, parameters| {
        let source = Source { kind: Kind::Tool, name, description: "makes", text: "", parameters };
        Document { id: ItemId::tool("s", name), date: None, chunks: item_chunks(&source) }
    };
    let mut index = Index::new();
    index.put(tool("many", Some(&schema)));
    index.put(tool("more", None));
    embed_all(&mut index);
    assert_eq!(index.chunks(), (3, 3));
    for (text, expect) in [("zoo", "s/many"), ("make more", "s/more")] {
        for strategy in [Strategy::Semantic, Strategy::Hybrid] {
            let answer =
                index.search(&Query { embedder: Some(&Letters::default()), floor: Some(0.0), strategy, ..Query::new(text) });
            assert_eq!(answer.hits[0].id.name(), expect, "{text}");
            assert!(answer.hits.iter().all(|hit| !hit.chunk.view));
        }
    }
    assert!(index.remove(&ItemId::tool("s", "many")));
    assert_eq!(index.chunks(), (1, 1));
}

#[test]
fn only_within_the_period() {
    let mut index = index(NOTES);
    index.put(Document { date: Some(date(2025, 9, 3)), ..document("note:d.md", "lesson") });
    let answer = index.search(&Query { period: Some((date(2025, 9, 1), date(2025, 9, 7))), ..Query::new("lesson") });
    assert_eq!(answer.hits.iter().map(|hit| hit.id.to_string()).collect::<Vec<_>>(), ["note:d.md"]);
}

#[test]
fn nothing_is_embedded_twice() {
    let mut index = index(NOTES);
    index.put(document("note:b.md", "piano lesson"));
    assert!(index.pending(9).is_empty());
    index.put(document("note:x.md", "old"));
    index.put(document("note:b.md", "new"));
    assert_eq!(index.pending(1).len(), 1);
    assert!(index.pending(1)[0].ends_with("new"));
    assert_eq!(index.chunks(), (4, 2));
}

#[test]
fn neighbours_in_a_series_help_each_other() {
    let talk: &[(&str, &str)] = &[
        ("note:D1:1", "nothing here"),
        ("note:D1:2", "the zebra ran"),
        ("note:D2:7", "the zebra ran"),
        ("note:D1:3", "zebra yes"),
    ];
    check(talk, Query { top_n: 1, include_score: 2.0, ..Query::new("zebra ran") }, &["note:D1:2"]);
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, String),
    Remove(u8),
}

fn steps() -> impl proptest::strategy::Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..6_u8, "[a-e]{1,2}( [a-e]{1,2}){0,4}").prop_map(|(id, text)| Step::Put(id, text)),
        1 => (0..6_u8).prop_map(Step::Remove),
    ];
    proptest::collection::vec(step, 0..20)
}

proptest! {
    #[test]
    fn edits_equal_an_index_from_scratch(steps in steps()) {
        let id = |n: u8| format!("note:n{n}.md");
        let mut edited = Index::new();
        let mut texts: BTreeMap<String, Document> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Put(n, text) => {
                    edited.put(document(&id(n), &text));
                    texts.insert(id(n), document(&id(n), &text));
                }
                Step::Remove(n) => {
                    prop_assert_eq!(edited.remove(&id(n).parse().unwrap()), texts.remove(&id(n)).is_some());
                }
            }
            embed_all(&mut edited);
        }
        let mut fresh = Index::new();
        for document in texts.into_values() {
            fresh.put(document);
        }
        embed_all(&mut fresh);
        for text in ["a b", "cc", "d. e a", "zz"] {
            for strategy in [Strategy::Semantic, Strategy::Hybrid, Strategy::Keyword] {
                let query = Query { embedder: Some(&Letters::default()), strategy, ..Query::new(text) };
                prop_assert_eq!(edited.search(&query), fresh.search(&query));
            }
        }
    }
}

#[test]
fn a_very_long_document_is_found_by_all_of_its_words_and_embedded_up_to_a_limit() {
    let chunk = |number: usize| {
        let text = if number == MAX_EMBEDDED_CHUNKS + 9 { "zebra".to_owned() } else { format!("line {number}") };
        Chunk { range: 0..text.len(), text, ..Chunk::default() }
    };
    let chunks: Vec<Chunk> = (0..MAX_EMBEDDED_CHUNKS + 10).map(chunk).collect();
    let id = ItemId::note("long.md");
    let mut long = Index::new();
    long.put(document("note:short.md", "a short note"));
    long.put(Document { id: id.clone(), date: None, chunks: chunks.clone() });
    let check = |index: &Index| {
        assert_eq!(index.pending(usize::MAX).len(), MAX_EMBEDDED_CHUNKS + 1);
        assert_eq!(index.chunks(), (MAX_EMBEDDED_CHUNKS + 1, 0));
        assert_eq!(index.long().get(&id), Some(&chunks.len()));
        let found = index.search(&Query { floor: Some(0.0), ..Query::new("zebra") });
        assert_eq!(found.hits.first().map(|hit| &hit.id), Some(&id));
    };
    check(&long);
    check(&Index::load(&long.save()).unwrap());
    let mut loaded = Index::load(&long.save()).unwrap();
    embed_all(&mut long);
    assert_eq!(long.chunks(), (MAX_EMBEDDED_CHUNKS + 1, MAX_EMBEDDED_CHUNKS + 1));
    // A shorter text is no longer too long, and nothing is counted that is gone.
    for index in [&mut long, &mut loaded] {
        index.put(Document { id: id.clone(), date: None, chunks: chunks[..3].to_vec() });
        assert!(index.long().is_empty());
        assert_eq!(index.chunks().0, 4);
        index.remove(&id);
        assert_eq!(index.chunks().0, 1);
    }
}
