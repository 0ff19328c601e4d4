use serde_json::json;

use super::*;
use crate::Entry;

fn new(id: &str) -> NewSession {
    NewSession { id: id.to_owned(), title: None, created_ms: 1, agent: json!({}), setup: json!({}) }
}

fn turn(words: &str) -> Write {
    Write::Input(Entry { kind: "turn".to_owned(), run: 1, at_ms: 2, cut_off: false, body: json!({"words": words}) })
}

#[test]
fn what_many_threads_write_at_once_is_all_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.sqlite");
    let shared = Shared::new(Sqlite::open(&path).unwrap()).unwrap();
    thread::scope(|scope| {
        for thread in 0..16 {
            let mut store = shared.clone();
            scope.spawn(move || {
                let id = format!("s{thread}");
                store.begin(&new(&id)).unwrap();
                for number in 0..20 {
                    let counts = store.commit(&id, &[Write::Part("p".to_owned()), turn(&format!("{thread} {number}"))]).unwrap();
                    assert_eq!(counts.inputs, number + 1);
                    // Whoever has written can read it.
                    assert_eq!(store.log(&id, number).unwrap().len(), 1);
                }
            });
        }
    });
    let store = Sqlite::open(&path).unwrap();
    for thread in 0..16 {
        let log = store.log(&format!("s{thread}"), 0).unwrap();
        let words: Vec<_> = log.iter().map(|logged| logged.body["words"].clone()).collect();
        assert_eq!(words, (0..20).map(|number| json!(format!("{thread} {number}"))).collect::<Vec<_>>());
    }
    assert_eq!(store.check().unwrap(), []);
}

#[test]
fn what_waits_for_the_disk_and_what_does_not_stand_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let shared = Shared::new(Sqlite::open(&folder.path().join("store.sqlite")).unwrap()).unwrap();
    thread::scope(|scope| {
        for thread in 0..8 {
            let mut store = shared.clone();
            scope.spawn(move || {
                let id = format!("s{thread}");
                store.begin(&new(&id)).unwrap();
                let mut quick = store.unsynced();
                let mut counts = Counts::default();
                for number in 0..50 {
                    quick.sent(passed(number)).unwrap();
                    let store = if number % 5 == 0 { &mut store } else { &mut quick };
                    counts = store.note(&id, counts, &mut vec![turn("words")]).unwrap();
                    assert_eq!(counts.inputs, number.unsigned_abs() + 1);
                }
            });
        }
    });
    assert_eq!(shared.forwarded().unwrap().len(), 400);
    assert!(shared.sessions().unwrap().iter().all(|row| row.counts.inputs == 50));
}

fn passed(at_ms: i64) -> NewForwarded {
    let (front, model, body) = ("chat".to_owned(), "m".to_owned(), "{}".to_owned());
    NewForwarded { at_ms, front, model, session: None, body }
}

#[test]
fn one_that_fails_takes_nobody_along() {
    let mut store = Sqlite::in_memory().unwrap();
    let jobs = [
        Job::Begin(new("a")),
        Job::Commit("a".to_owned(), vec![turn("one")]),
        Job::Commit("nobody".to_owned(), vec![turn("lost")]),
        Job::Begin(new("a")),
        // The first of its writes would be fine; it goes with the second.
        Job::Commit("a".to_owned(), vec![turn("half"), Write::Usage(7, Usage::default())]),
        Job::Commit("a".to_owned(), vec![turn("two")]),
    ];
    let done: Vec<_> = store.together(&jobs).into_iter().map(|done| done.map(|done| done.counts.inputs)).collect();
    assert!(
        matches!(
            &done[..],
            [Ok(0), Ok(1), Err(StoreError::NoSession(_)), Err(StoreError::Exists(_)), Err(StoreError::NoRequest { .. }), Ok(2)]
        ),
        "{done:?}"
    );
    let words: Vec<_> = store.log("a", 0).unwrap().into_iter().map(|logged| logged.body["words"].clone()).collect();
    assert_eq!(words, ["one", "two"]);
    assert_eq!(store.check().unwrap(), []);
}
