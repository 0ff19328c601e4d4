use serde_json::json;

use super::*;
use crate::{Document, Entry};

fn document(value: &Value) -> Document {
    Document::of(value).unwrap()
}

fn new(id: &str) -> NewSession {
    NewSession { id: id.to_owned(), title: None, created_ms: 1, agent: document(&json!({})), setup: document(&json!({})) }
}

fn turn(words: &str) -> Write {
    Write::Input(Entry { kind: "turn".to_owned(), run: 1, at_ms: 2, cut_off: false, body: document(&json!({"words": words})) })
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
    NewForwarded { at_ms, front, model, session: None, body, about: None }
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

fn quick(folder: &tempfile::TempDir) -> Shared {
    Shared::new(Sqlite::open(&folder.path().join("store.sqlite")).unwrap()).unwrap().unsynced()
}

#[test]
fn what_the_database_would_never_take_is_told_to_its_session_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = quick(&folder);
    let _leases = [store.begin(&new("a")).unwrap(), store.begin(&new("b")).unwrap()];
    let wrong = Counts { inputs: 7, requests: 0 };
    store.note("b", Counts::default(), &mut vec![turn("one")]).unwrap();
    store.note("a", wrong, &mut vec![turn("lost")]).unwrap();
    let counts = store.note("b", Counts { inputs: 1, requests: 0 }, &mut vec![turn("two")]).unwrap();
    store.settle(None).unwrap();
    assert_eq!((store.log("a", 0).unwrap().len(), store.log("b", 0).unwrap().len()), (0, 2));
    store.note("b", counts, &mut vec![turn("three")]).unwrap();
    // Once, and what it wanted to write meanwhile is still its own.
    let mut next = vec![turn("next")];
    assert!(matches!(store.note("a", Counts::default(), &mut next), Err(StoreError::Damaged(_))));
    assert_eq!(next.len(), 1);
    store.note("a", Counts::default(), &mut next).unwrap();
    store.settle(None).unwrap();
    assert_eq!((store.log("a", 0).unwrap().len(), store.log("b", 0).unwrap().len()), (1, 3));
    assert_eq!(store.check().unwrap(), []);
}

#[test]
fn a_session_settles_without_waiting_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = quick(&folder);
    let _leases = [store.begin(&new("a")).unwrap(), store.begin(&new("b")).unwrap()];
    store.settle(None).unwrap();
    // So that nobody takes it in of itself.
    let taking = store.clone();
    let taking = taking.all.underway.block();
    store.note("a", Counts::default(), &mut vec![turn("one")]).unwrap();
    store.settle(Some("b")).unwrap();
    assert!(store.all.underway.has("a") && !store.all.underway.has("b"));
    drop(taking);
    store.settle(Some("a")).unwrap();
    assert!(!store.all.underway.has("a"));
}

#[test]
fn a_lease_is_held_until_what_was_written_under_it_is_in_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = quick(&folder);
    let lease = store.begin(&new("a")).unwrap();
    store.settle(None).unwrap();
    let other = || Sqlite::open(&folder.path().join("store.sqlite")).unwrap().lease("a").map(drop);
    store.limit_pages(Some(1));
    store.note("a", Counts::default(), &mut vec![turn(&"long ".repeat(10_000))]).unwrap();
    assert!(matches!(store.settle(Some("a")), Err(StoreError::Full { .. })));
    store.hold("a", lease);
    assert!(other().is_err());
    store.limit_pages(None);
    store.settle(Some("a")).unwrap();
    other().unwrap();
    assert_eq!(store.log("a", 0).unwrap().len(), 1);
}

const WRITES: u64 = 100;

fn say_much(store: &mut Shared, from: u64) {
    for inputs in from..from + WRITES {
        let words = format!("{inputs} {}", "long ".repeat(200));
        store.note("a", Counts { inputs, requests: 0 }, &mut vec![turn(&words)]).unwrap();
    }
}

fn is_all_there(store: &impl Store, writes: u64) {
    let said = store.log("a", 0).unwrap();
    let numbers = said.iter().map(|logged| logged.body["words"].as_str().unwrap().split(' ').next().unwrap().parse().unwrap());
    assert_eq!(numbers.collect::<Vec<u64>>(), (0..writes).collect::<Vec<_>>());
}

#[test]
fn what_is_more_than_a_few_is_all_taken_in_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = quick(&folder);
    let _lease = store.begin(&new("a")).unwrap();
    // With rests, by the thread of the store.
    say_much(&mut store, 0);
    let begun = Instant::now();
    while store.all.underway.has("a") {
        assert!(begun.elapsed() < Duration::from_mins(1));
        thread::sleep(Duration::from_millis(10));
    }
    // At once; the disk is full.
    let taking = store.clone();
    let taking = taking.all.underway.block();
    say_much(&mut store, WRITES);
    store.limit_pages(Some(1));
    drop(taking);
    assert!(matches!(store.settle(None), Err(StoreError::Full { .. })));
    assert!(store.all.underway.has("a"));
    store.limit_pages(None);
    store.settle(None).unwrap();
    assert!(!store.all.underway.has("a") && store.all.underway.is_empty());
    is_all_there(&store, 2 * WRITES);
}

#[test]
fn a_process_may_end_between_a_few_and_the_next_few() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = quick(&folder);
    let _lease = store.begin(&new("a")).unwrap();
    store.settle(None).unwrap();
    let all = Arc::clone(&store.all);
    let alone = all.underway.block();
    say_much(&mut store, 0);
    for _ in 0..2 {
        assert!(all.underway.take_a_few_alone(&alone, &all.writer, &|| ()).unwrap() > 0);
    }
    // More comes meanwhile.
    say_much(&mut store, WRITES);
    // What another process would find if this one ended now.
    let found = tempfile::tempdir().unwrap();
    std::fs::create_dir(found.path().join("journals")).unwrap();
    for name in ["store.sqlite", "store.sqlite-wal"] {
        std::fs::copy(folder.path().join(name), found.path().join(name)).unwrap();
    }
    for file in std::fs::read_dir(folder.path().join("journals")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), found.path().join("journals").join(file.file_name())).unwrap();
    }
    let other = Sqlite::open(&found.path().join("store.sqlite")).unwrap();
    is_all_there(&other, 2 * WRITES);
    assert_eq!(other.check().unwrap(), []);
    drop(alone);
    store.settle(None).unwrap();
    is_all_there(&store, 2 * WRITES);
}

#[cfg(unix)]
#[test]
fn what_is_removed_or_replaced_takes_nothing_more() {
    let check = |change: &dyn Fn(&Path), journal_alone: bool| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state/store.sqlite");
        let mut synced = Shared::new(Sqlite::open(&file).unwrap()).unwrap();
        let mut store = synced.unsynced();
        let _lease = store.begin(&new("a")).unwrap();
        store.settle(None).unwrap();
        assert!(store.health().is_well());
        change(file.parent().unwrap());
        let mut writes = vec![turn("one")];
        assert!(matches!(store.note("a", Counts::default(), &mut writes), Err(StoreError::Gone { .. })));
        assert_eq!(writes.len(), 1);
        assert!(!store.health().is_well());
        if journal_alone {
            // All of it was in the database, so that another journal takes what comes.
            assert!(store.health().is_well());
            store.note("a", Counts::default(), &mut writes).unwrap();
            store.settle(None).unwrap();
            assert_eq!(Sqlite::open(&file).unwrap().log("a", 0).unwrap().len(), 1);
            return;
        }
        assert!(store.sent(passed(1)).is_err() && store.begin(&new("b")).is_err());
        assert!(matches!(synced.commit("a", &[turn("two")]), Err(StoreError::Gone { .. })));
        assert!(synced.delete("a").is_err() && synced.lease("a").is_err());
        assert!(!store.health().is_well());
    };
    check(&|folder| std::fs::remove_dir_all(folder).unwrap(), false);
    check(&|folder| std::fs::rename(folder, folder.with_extension("moved")).unwrap(), false);
    check(&|folder| std::fs::remove_file(folder.join("store.sqlite")).unwrap(), false);
    check(&|folder| std::fs::remove_file(folder.join("store.sqlite-wal")).unwrap(), false);
    let replace = |folder: &Path| {
        std::fs::copy(folder.join("store.sqlite"), folder.join("copy")).unwrap();
        std::fs::rename(folder.join("copy"), folder.join("store.sqlite")).unwrap();
    };
    check(&replace, false);
    check(&|folder| std::fs::remove_dir_all(folder.join("journals")).unwrap(), true);
}

#[cfg(unix)]
#[test]
fn a_folder_that_comes_back_takes_what_was_held() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state/store.sqlite");
    let mut store = Shared::new(Sqlite::open(&file).unwrap()).unwrap().unsynced();
    let _lease = store.begin(&new("a")).unwrap();
    let away = folder.path().join("away");
    std::fs::rename(file.parent().unwrap(), &away).unwrap();
    let mut writes = vec![turn("one")];
    assert!(store.note("a", Counts::default(), &mut writes).is_err());
    std::fs::rename(&away, file.parent().unwrap()).unwrap();
    assert!(store.health().is_well() || store.health().is_well());
    store.note("a", Counts::default(), &mut writes).unwrap();
    store.settle(None).unwrap();
    assert_eq!(Sqlite::open(&file).unwrap().log("a", 0).unwrap().len(), 1);
}

#[test]
fn a_full_disk_is_known_until_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Shared::new(Sqlite::open(&folder.path().join("store.sqlite")).unwrap()).unwrap();
    let _lease = store.begin(&new("a")).unwrap();
    store.limit_pages(Some(1));
    let long = [turn(&"long ".repeat(10_000))];
    assert!(matches!(store.commit("a", &long), Err(StoreError::Full { .. })));
    assert!(matches!(store.all.outcomes.health(), Health::Failing { full: true, .. }));
    store.limit_pages(None);
    assert!(store.health().is_well());
    store.commit("a", &long).unwrap();
}
