use std::collections::BTreeSet;

use serde_json::json;
use tempfile::TempDir;

use super::migrate::{MIGRATIONS, newest};
use super::*;
use crate::Document;
use crate::row::{Answered, Entry, NewForwarded, NewRequest};

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("a/foreword.db")
    }

    fn store(&self) -> Sqlite {
        Sqlite::open(&self.file()).unwrap()
    }
}

fn document(value: &Value) -> Document {
    Document::of(value).unwrap()
}

fn begin(store: &mut Sqlite, id: &str) {
    let new = NewSession {
        id: id.to_owned(),
        title: None,
        created_ms: 1,
        agent: document(&json!({"system_prompt": "long ".repeat(99)})),
        setup: document(&json!({"model": "m"})),
    };
    store.begin(&new).unwrap();
}

fn said(kind: &str, words: &str) -> Write {
    let field = if kind == "turn" { "words" } else { "text" };
    Write::Input(Entry { kind: kind.to_owned(), run: 0, at_ms: 5, cut_off: false, body: document(&json!({field: words})) })
}

fn request(messages: u64, changed: &[(u64, &str)], context: &[&str]) -> Write {
    Write::Request(Box::new(NewRequest {
        request: Request {
            number: 0,
            input: 0,
            run: 0,
            epoch: 0,
            began: None,
            at_ms: 6,
            combined: Hash::of("c"),
            wire: Hash::of("w"),
            tokens: 7,
            messages: None,
            record: document(&json!({"note": "x".repeat(300)})),
        },
        messages,
        changed: changed.iter().map(|(at, text)| (*at, document(&json!({ "text": text })))).collect(),
        items: context.len() as u64,
        context: context
            .iter()
            .zip(0..)
            .map(|(item, at)| (at, (*item).to_owned(), json!({ "item": item }).to_string()))
            .collect(),
    }))
}

fn texts(store: &Sqlite, session: &str, request: u64) -> Vec<String> {
    let messages = store.messages(session, request).unwrap();
    messages.iter().map(|message| message["text"].as_str().unwrap().to_owned()).collect()
}

fn items(store: &Sqlite, session: &str, request: u64) -> Vec<String> {
    let context = store.context(session, request).unwrap();
    context.iter().map(|entry| entry["item"].as_str().unwrap().to_owned()).collect()
}

fn words(store: &Sqlite, session: &str) -> Vec<String> {
    let log = store.log(session, 0).unwrap();
    log.iter().map(|entry| entry.body.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_was_written_reads_back_also_in_another_process() {
    let place = Place::new();
    let mut store = place.store();
    begin(&mut store, "s");
    let long = "a note that is long ".repeat(50);
    let counts = store.commit("s", &[said("turn", &long), request(2, &[(0, "sys"), (1, &long)], &["note:a"])]).unwrap();
    assert_eq!(counts, Counts { inputs: 1, requests: 1 });
    store.commit("s", &[said("assistant", "yes")]).unwrap();
    store.commit("s", &[said("turn", "more"), request(4, &[(2, "yes"), (3, "more")], &["note:a", "note:b"])]).unwrap();
    // A shorter request, with another message at a place in the middle.
    store.commit("s", &[request(3, &[(1, "other")], &["note:b"])]).unwrap();
    let other = place.store();
    assert_eq!(words(&other, "s"), [long.as_str(), "yes", "more"]);
    assert_eq!(texts(&other, "s", 0), ["sys", long.as_str()]);
    assert_eq!(texts(&other, "s", 1), ["sys", long.as_str(), "yes", "more"]);
    assert_eq!(texts(&other, "s", 2), ["sys", "other", "yes"]);
    assert_eq!((items(&other, "s", 0), items(&other, "s", 1)), (vec!["note:a".into()], vec!["note:a".into(), "note:b".into()]));
    assert_eq!(items(&other, "s", 2), ["note:b"]);
    assert_eq!(other.request("s", 1).unwrap().input, 3);
    assert_eq!(other.check().unwrap(), []);
    assert!(matches!(other.messages("s", 3), Err(StoreError::NoRequest { .. })));
    assert!(matches!(other.log("nobody", 0), Err(StoreError::NoSession(_))));
}

#[test]
fn a_request_cannot_point_to_what_was_never_sent() {
    let mut store = Place::new().store();
    begin(&mut store, "s");
    assert!(store.commit("s", &[said("turn", "a"), request(2, &[(1, "x")], &[])]).is_err());
    // All of it or nothing.
    assert_eq!(store.session("s").unwrap().counts, Counts::default());
}

#[test]
fn the_same_text_is_kept_once() {
    let place = Place::new();
    let mut store = place.store();
    begin(&mut store, "s");
    let note = "the same long note ".repeat(1000);
    for turn in 0..50 {
        let body = document(&json!({"words": format!("turn {turn}"), "attached": [{"content": note}]}));
        let entry = Entry { kind: "turn".into(), run: turn, at_ms: 1, cut_off: false, body };
        store.commit("s", &[Write::Input(entry)]).unwrap();
    }
    let size: u64 = store.connection.query_row("SELECT sum(length(body)) FROM texts", [], |row| row.get(0)).unwrap();
    assert!(size < note.len() as u64 + 2000, "{size}");
    assert_eq!(store.log("s", 49).unwrap()[0].body["attached"][0]["content"], note);
}

#[test]
fn parts_are_there_until_the_reply_is_whole() {
    let place = Place::new();
    let mut store = place.store();
    begin(&mut store, "s");
    store.commit("s", &[said("turn", "hello")]).unwrap();
    store.commit("s", &[Write::Part("Good ".into())]).unwrap();
    store.commit("s", &[Write::Part("day".into())]).unwrap();
    assert_eq!(place.store().parts("s").unwrap(), ["Good ", "day"]);
    store.commit("s", &[said("assistant", "Good day.")]).unwrap();
    assert!(store.parts("s").unwrap().is_empty());
}

#[test]
fn forks_and_rewinds_share_the_past_and_part_ways() {
    let place = Place::new();
    let mut store = place.store();
    begin(&mut store, "s");
    for (at, word) in ["one", "two", "three"].iter().enumerate() {
        let changed = [(at as u64, *word)];
        store
            .commit("s", &[said("turn", word), request(at as u64 + 1, &changed, &[]), Write::Usage(at as u64, Usage::default())])
            .unwrap();
    }
    let rows = |store: &Sqlite| -> u64 { store.connection.query_row("SELECT count(*) FROM log", [], |row| row.get(0)).unwrap() };
    let before = rows(&store);
    let fork = Fork { id: "f".into(), title: Some("fork".into()), created_ms: 9 };
    store.branch("s", Counts { inputs: 2, requests: 2 }, Some(&fork), &[]).unwrap();
    assert_eq!(rows(&store), before);
    store.commit("f", &[said("turn", "four"), request(1, &[(0, "fresh")], &[])]).unwrap();
    assert_eq!(words(&store, "s"), ["one", "two", "three"]);
    assert_eq!(words(&store, "f"), ["one", "two", "four"]);
    assert_eq!((texts(&store, "f", 1), texts(&store, "f", 2)), (vec!["one".into(), "two".into()], vec!["fresh".into()]));
    assert_eq!(store.ledger("f").unwrap().len(), 2);
    // What was paid for was paid by whoever asked, also where it went back since.
    let own = |store: &Sqlite, session| -> Vec<u64> {
        let mut all = store.own(session, "turn").unwrap();
        all.remove(session.unwrap_or("s")).unwrap_or_default().requests.iter().map(|paid| paid.number).collect()
    };
    store.commit("f", &[Write::Usage(2, Usage::default())]).unwrap();
    assert_eq!((own(&store, Some("s")), own(&store, None), own(&store, Some("f"))), (vec![0, 1, 2], vec![0, 1, 2], vec![2]));
    assert_eq!(store.own(Some("f"), "turn").unwrap()["f"].entries[0].body, json!({"words": "four"}));
    // Back to before the fork's own beginning, and on from there.
    store.branch("f", Counts { inputs: 1, requests: 1 }, None, &[]).unwrap();
    store.commit("f", &[said("turn", "five")]).unwrap();
    assert_eq!(words(&store, "f"), ["one", "five"]);
    assert_eq!((own(&store, Some("f")), store.own(Some("nobody"), "turn").unwrap().len()), (vec![2], 0));
    assert_eq!(store.session("f").unwrap().forked_from.as_deref(), Some("s"));
    assert_eq!(store.check().unwrap(), []);
    assert!(matches!(store.branch("s", Counts::default(), Some(&fork), &[]), Err(StoreError::Exists(_))));
    // What the first session leaves behind is still the fork's, and no more of it.
    store.delete("s").unwrap();
    assert_eq!(words(&store, "f"), ["one", "five"]);
    assert_eq!(store.check().unwrap(), []);
    let left: u64 =
        store.connection.query_row("SELECT count(*) FROM log WHERE body LIKE '%three%'", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
    assert!(store.search("three", 5).unwrap().is_empty());
}

#[test]
fn what_is_deleted_is_gone_from_the_file() {
    let place = Place::new();
    let mut store = place.store();
    begin(&mut store, "s");
    begin(&mut store, "t");
    let secret = "do not keep this forever ".repeat(20);
    store.commit("s", &[said("turn", &secret), request(1, &[(0, &secret)], &[])]).unwrap();
    store.commit("s", &[said("turn", "hunter2xyzzy")]).unwrap();
    store.commit("t", &[said("turn", "stays")]).unwrap();
    store.delete("s").unwrap();
    assert!(matches!(store.session("s"), Err(StoreError::NoSession(_))));
    assert_eq!(words(&store, "t"), ["stays"]);
    assert_eq!(store.check().unwrap(), []);
    drop(store);
    for entry in fs::read_dir(place.file().parent().unwrap()).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap_or_default();
        assert!(!bytes.windows(24).any(|window| window == b"do not keep this forever"));
        assert!(!bytes.windows(12).any(|window| window == b"hunter2xyzzy"));
    }
}

#[test]
fn words_are_found_in_every_script() {
    let mut store = Place::new().store();
    begin(&mut store, "s");
    begin(&mut store, "t");
    store
        .commit("s", &[said("turn", "How do I prune the apple tree?"), said("assistant", "In März, before the Blüte.")])
        .unwrap();
    store.commit("t", &[said("turn", "東京の天気はどうですか"), said("assistant", "a\" OR b NEAR( c*")]).unwrap();
    let check = |words: &str, expect: &[(&str, u64)]| {
        let found = store.search(words, 10).unwrap();
        let found: Vec<_> = found.iter().map(|found| (found.session.as_str(), found.entry.number)).collect();
        assert_eq!(found, expect, "{words}");
    };
    check("apple prune", &[("s", 0)]);
    // The start of a word is enough.
    check("app pru", &[("s", 0)]);
    check("pple", &[]);
    check("marz blute", &[("s", 1)]);
    check("天気", &[("t", 0)]);
    check("\" OR *", &[("t", 1)]);
    check("pear", &[]);
    check("\"(", &[]);
    check("", &[]);
}

#[test]
fn what_comes_after_a_search_or_a_deletion_is_found() {
    let mut store = Place::new().store();
    let check = |store: &Sqlite, words: &str, expect: &[&str]| {
        let found = store.search(words, usize::MAX).unwrap();
        assert_eq!(found.iter().map(|found| found.session.as_str()).collect::<Vec<_>>(), expect, "{words}");
    };
    begin(&mut store, "a");
    store.commit("a", &[said("turn", "pear")]).unwrap();
    check(&store, "pear", &["a"]);
    begin(&mut store, "b");
    store.commit("b", &[said("turn", ""), said("assistant", "apple")]).unwrap();
    check(&store, "apple", &["b"]);
    store.delete("b").unwrap();
    begin(&mut store, "c");
    store.commit("c", &[said("turn", "plum")]).unwrap();
    check(&store, "plum", &["c"]);
    check(&store, "apple", &[]);
    check(&store, "pear", &["a"]);
    // What was never looked for before it went is not in the way.
    store.commit("c", &[said("assistant", "quince")]).unwrap();
    store.delete("c").unwrap();
    begin(&mut store, "d");
    let many: Vec<Write> = (0..INDEXED_AT_ONCE + 5).map(|_| said("turn", "cherry")).collect();
    store.commit("d", &many).unwrap();
    check(&store, "cherry", &vec!["d"; many.len()]);
    check(&store, "quince", &[]);
}

#[test]
fn one_writer_a_session() {
    let place = Place::new();
    let mut store = place.store();
    begin(&mut store, "s");
    let lease = store.lease("s").unwrap();
    assert!(matches!(place.store().lease("s"), Err(StoreError::Leased(_))));
    drop(lease);
    place.store().lease("s").unwrap();
    assert!(matches!(store.lease("nobody"), Err(StoreError::NoSession(_))));
}

#[test]
fn damage_is_named() {
    let place = Place::new();
    let mut store = place.store();
    begin(&mut store, "s");
    store.commit("s", &[said("turn", &"long ".repeat(100)), request(1, &[(0, &"sent ".repeat(100))], &["note:a"])]).unwrap();
    let check = |sql: &str, expect: &str| {
        let copy = place.folder.path().join("copy.db");
        store.backup(&copy).unwrap();
        let broken = Sqlite::open(&copy).unwrap();
        broken.connection.pragma_update(None, "foreign_keys", false).unwrap();
        broken.connection.execute_batch(sql).unwrap();
        let faults = broken.check().unwrap();
        assert!(faults.iter().any(|fault| format!("{} {}", fault.place, fault.what).contains(expect)), "{sql}: {faults:?}");
        drop(broken);
        fs::remove_file(copy).unwrap();
    };
    check("UPDATE texts SET body = CAST('changed' AS BLOB) WHERE id = 3", "its bytes do not match its hash");
    check("DELETE FROM texts WHERE id = 3", "referenced but missing");
    check("UPDATE log SET body = '{'", "log 0 not JSON");
    check("UPDATE log SET number = 1", "input 0 is missing before it");
    check("UPDATE log SET run = 7", "log 0 changed since it was written");
    check("UPDATE requests SET tokens = 9", "requests 0 changed since it was written");
    check("UPDATE context SET entry = 'x'", "it does not describe");
    check("DELETE FROM placed", "0 messages are stored, but 1 were sent");
    check("UPDATE requests SET number = 5", "request 0 is missing before it");
    check("DELETE FROM branches", "refers to a missing row");
}

#[test]
fn a_backup_is_whole_and_never_written_over_something() {
    let place = Place::new();
    let mut store = place.store();
    begin(&mut store, "s");
    let file = place.folder.path().join("copy.db");
    store.backup(&file).unwrap();
    assert_eq!(Sqlite::open_existing(&file).unwrap().sessions().unwrap().len(), 1);
    assert!(matches!(store.backup(&file), Err(StoreError::Backup { .. })));
    assert!(matches!(Sqlite::open_existing(&place.folder.path().join("none.db")), Err(StoreError::Open { .. })));
}

#[test]
fn a_dump_is_taken_in_elsewhere_as_it_was() {
    let place = Place::new();
    let mut store = place.store();
    begin(&mut store, "s");
    let long = "long ".repeat(100);
    store
        .commit("s", &[said("turn", &long), request(2, &[(0, &long), (1, "b")], &["note:a"]), Write::Output(long.clone())])
        .unwrap();
    let fork = Fork { id: "f".into(), title: None, created_ms: 9 };
    store.branch("s", Counts { inputs: 1, requests: 1 }, Some(&fork), &[]).unwrap();
    store.commit("f", &[said("assistant", "yes"), request(1, &[(0, "c")], &[]), Write::Usage(1, Usage::default())]).unwrap();
    for session in ["s", "f"] {
        let dump = store.dump(session).unwrap();
        let read: Dump = serde_json::from_str(&serde_json::to_string(&dump).unwrap()).unwrap();
        let elsewhere = Place::new();
        let mut other = elsewhere.store();
        other.load(&read).unwrap();
        assert_eq!(other.log(session, 0).unwrap(), store.log(session, 0).unwrap());
        assert_eq!(other.requests(session).unwrap(), store.requests(session).unwrap());
        for request in store.requests(session).unwrap() {
            assert_eq!(texts(&other, session, request.number), texts(&store, session, request.number));
            assert_eq!(items(&other, session, request.number), items(&store, session, request.number));
        }
        assert_eq!(other.check().unwrap(), []);
        assert!(matches!(other.load(&read), Err(StoreError::Exists(_))));
    }
}

#[test]
fn a_dump_that_contradicts_itself_is_refused() {
    let place = Place::new();
    let mut store = place.store();
    begin(&mut store, "s");
    let long = "long ".repeat(100);
    store.commit("s", &[said("turn", &long), request(1, &[(0, &long)], &["note:a"])]).unwrap();
    let dump = serde_json::to_value(store.dump("s").unwrap()).unwrap();
    let check = |pointer: &str, value: Value, expect: &str| {
        let mut dump = dump.clone();
        *dump.pointer_mut(pointer).unwrap() = value;
        let error = match serde_json::from_value::<Dump>(dump) {
            Ok(dump) => Place::new().store().load(&dump).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(expect), "{pointer}: {error}");
    };
    check("/foreword_session", json!(2), "format 2");
    check("/id", json!("../x"), "not a session ID");
    check("/id", json!("last"), "not a session ID");
    check("/touched_ms", json!(i64::MAX), "not a time in milliseconds");
    check("/title", json!("x".repeat(501)), "more than 500");
    check("/texts", json!({Hash::of("a").to_string(): "b"}), "the text does not match its hash");
    check("/texts", json!({}), "is not in the file");
    check("/agent", json!(Hash::of("x").to_string()), "is not in the file");
    check("/requests/0/number", json!(3), "not in order");
    check("/requests/0/input", json!(9), "one precedes its input");
    check("/placed/0/since", json!(9), "belongs to no request");
    check("/placed/0/until", json!(0), "belongs to no request");
    check("/placed/0/value", json!("x"), "not a hash");
    let twice = dump["placed"][0].clone();
    check("/placed", json!([twice, twice]), "two entries at position 0");
    check("/ledger", json!([[7, Usage::default()]]), "no request 7");
    check("/log/0/body", json!({"$text": Hash::of("x").to_string()}), "is not in the file");
    check("/outbox", json!([Hash::of("x").to_string()]), "is not in the file");
}

#[test]
fn every_earlier_format_becomes_the_newest() {
    for version in 0..newest() {
        let place = Place::new();
        fs::create_dir_all(place.file().parent().unwrap()).unwrap();
        let connection = Connection::open(place.file()).unwrap();
        super::add_functions(&connection).unwrap();
        for sql in &MIGRATIONS[..version as usize] {
            connection.execute_batch(sql).unwrap();
        }
        if version == newest() - 1 {
            let sql = "INSERT INTO forwarded (at_ms, front, model, session, pieces, sum) VALUES (5, 'chat', 'm', 't', x'', x'')";
            connection.execute_batch(sql).unwrap();
        }
        connection.pragma_update(None, "user_version", version).unwrap();
        connection.pragma_update(None, "application_id", 0x4657_5244).unwrap();
        drop(connection);
        let mut store = place.store();
        begin(&mut store, "s");
        let found: u32 = store.connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(found, newest());
        // What was passed on before is there, with nothing else known of it.
        let passed = store.forwarded_of("t").unwrap();
        let known: Vec<_> = passed.iter().map(|passed| (passed.at_ms, passed.about.clone(), passed.came.clone())).collect();
        assert_eq!(known, if version == newest() - 1 { vec![(5, None, None)] } else { Vec::new() });
        let names = |connection: &Connection| -> BTreeSet<String> {
            let mut statement = connection.prepare("SELECT name FROM sqlite_schema").unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().collect::<rusqlite::Result<_>>().unwrap()
        };
        assert_eq!(names(&store.connection), names(&Place::new().store().connection));
    }
}

#[test]
fn newer_and_foreign_files_are_left_as_they_are() {
    let check = |make: &dyn Fn(&Path), expect: &str| {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("foreword.db");
        make(&file);
        let before = fs::read(&file).unwrap();
        let error = Sqlite::open(&file).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
        assert_eq!(fs::read(&file).unwrap(), before);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    };
    check(&|file: &Path| Connection::open(file).unwrap().execute_batch("CREATE TABLE x (y)").unwrap(), "not a Foreword database");
    let newer = |file: &Path| {
        drop(Sqlite::open(file).unwrap());
        let connection = Connection::open(file).unwrap();
        connection.pragma_update(None, "journal_mode", "DELETE").unwrap();
        connection.pragma_update(None, "user_version", newest() + 1).unwrap();
    };
    check(&newer, "newer version of Foreword");
    let foreign = |file: &Path| {
        let connection = Connection::open(file).unwrap();
        connection.execute_batch("CREATE TABLE theirs (x); PRAGMA user_version = 3").unwrap();
    };
    check(&foreign, "not a Foreword database");
    check(&|file: &Path| fs::write(file, "hello").unwrap(), "not a database");
}

#[test]
fn many_processes_can_open_a_new_store_at_once() {
    for _ in 0..4 {
        let place = Place::new();
        std::thread::scope(|scope| {
            for at in 0..8 {
                let file = place.file();
                scope.spawn(move || begin(&mut Sqlite::open(&file).unwrap(), &format!("s{at}")));
            }
        });
        assert_eq!(place.store().sessions().unwrap().len(), 8);
    }
}

#[cfg(unix)]
#[test]
fn a_full_disk_and_a_read_only_file_are_said() {
    let place = Place::new();
    let mut store = place.store();
    begin(&mut store, "s");
    let pages: u32 = store.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    store.connection.pragma_update(None, "max_page_count", pages).unwrap();
    let error = store.commit("s", &[said("turn", &"x".repeat(100_000))]).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert_eq!(store.session("s").unwrap().counts.inputs, 0);
    store.connection.pragma_update(None, "query_only", true).unwrap();
    let error = store.commit("s", &[said("turn", "x")]).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
}

#[test]
fn summaries_go_the_way_of_the_inputs_they_were_made_before() {
    let place = Place::new();
    let mut store = place.store();
    begin(&mut store, "one");
    let summary = |what: &str| {
        let record = json!({"text": what.repeat(200)});
        let (template, source, model) = ("t".to_owned(), "builtin".to_owned(), "m".to_owned());
        Write::Summary(Box::new(Summary { number: 0, at_ms: 3, template, source, hash: Hash::of("t"), model, record }))
    };
    store.commit("one", &[said("turn", "a"), summary("first"), said("turn", "b"), summary("second"), said("turn", "c")]).unwrap();
    let kept = |store: &Sqlite, id: &str| {
        let summaries = store.summaries(id, 9).unwrap();
        let first_word = |summary: &Summary| summary.record["text"].as_str().unwrap()[..5].to_owned();
        summaries.iter().map(|summary| (summary.number, first_word(summary))).collect::<Vec<_>>()
    };
    let (first, second) = ((1, "first".to_owned()), (2, "secon".to_owned()));
    assert_eq!(kept(&store, "one"), [first.clone(), second.clone()]);
    let fork = Fork { id: "two".to_owned(), title: None, created_ms: 9 };
    store.branch("one", Counts { inputs: 2, requests: 0 }, Some(&fork), &[]).unwrap();
    assert_eq!(kept(&store, "two"), std::slice::from_ref(&first));
    store.delete("one").unwrap();
    assert_eq!((kept(&store, "two"), store.check().unwrap()), (vec![first.clone()], vec![]));

    let dump = store.dump("two").unwrap();
    let elsewhere = Place::new();
    let mut other = elsewhere.store();
    other.load(&serde_json::from_value(serde_json::to_value(&dump).unwrap()).unwrap()).unwrap();
    assert_eq!((kept(&other, "two"), other.check().unwrap()), (vec![first], vec![]));
}

#[test]
fn what_is_passed_on_is_kept_in_pieces_that_are_shared() {
    let place = Place::new();
    let mut store = place.store();
    begin(&mut store, "s");
    let body = |turns: usize| (0..turns * 4000).map(|number| format!("{number:05}")).collect::<Vec<_>>().concat();
    let new = |at_ms, session: Option<&str>, turns| NewForwarded {
        at_ms,
        front: "chat".to_owned(),
        model: "m".to_owned(),
        session: session.map(str::to_owned),
        body: body(turns),
        about: Some(format!("{{\"turns\":{turns}}}")),
    };
    let texts =
        |store: &Sqlite| -> u64 { store.connection.query_row("SELECT count(*) FROM texts", [], |row| row.get(0)).unwrap() };
    let before = texts(&store);
    assert_eq!(store.sent(new(1, None, 10)).unwrap(), 1);
    assert_eq!(store.sent(new(2, Some("s"), 11)).unwrap(), 2);
    // 12.2 and 13.4 pieces: the first twelve are the same.
    assert_eq!(texts(&store) - before, 15);
    for (number, turns) in [(1, 10), (2, 11)] {
        assert_eq!(store.forwarded_body(number).unwrap(), body(turns));
    }
    assert!(store.forwarded_body(3).is_err());
    let usage = Usage { model: "m".to_owned(), read: 7, output: 3, cost: 0.5, total_ms: Some(9), ..Usage::default() };
    let answered = Answered { status: Some(200), usage: usage.clone(), about: Some("{\"x\":1}".into()) };
    store.answered(1, &answered).unwrap();
    let all = store.forwarded().unwrap();
    assert_eq!((all[0].status, &all[0].usage, all[1].status), (Some(200), &usage, None));
    assert_eq!((all[0].about.as_deref(), all[0].came.as_deref()), (Some("{\"turns\":10}"), Some("{\"x\":1}")));
    assert_eq!((store.forwarded_of("s").unwrap(), store.forwarded_of("t").unwrap()), (vec![all[1].clone()], vec![]));
    let page =
        |before, most| -> Vec<u64> { store.forwarded_before(before, most).unwrap().iter().map(|passed| passed.number).collect() };
    assert_eq!((page(None, 9), page(None, 1), page(Some(2), 9)), (vec![2, 1], vec![2], vec![1]));
    assert_eq!((page(Some(u64::MAX), 9), page(Some(1), 9), page(Some(9), 0)), (vec![2, 1], vec![], vec![]));
    assert_eq!(store.check().unwrap(), []);
    let copy = place.folder.path().join("copy.db");
    store.backup(&copy).unwrap();
    assert_eq!(Sqlite::open(&copy).unwrap().forwarded_body(2).unwrap(), body(11));
    // A session takes what was passed on in its name with it, and nothing that others need.
    store.delete("s").unwrap();
    assert_eq!(store.forwarded().unwrap().len(), 1);
    assert_eq!(store.forwarded_body(1).unwrap(), body(10));
    assert_eq!(texts(&store), 13);
    assert_eq!(store.check().unwrap(), []);
    store.connection.execute("UPDATE forwarded SET model = 'other'", []).unwrap();
    assert_eq!(store.check().unwrap().len(), 1);
    store.connection.execute("DELETE FROM texts WHERE id = (SELECT max(id) FROM texts)", []).unwrap();
    assert_eq!(store.check().unwrap().len(), 2);
}

#[test]
fn what_was_acknowledged_and_is_not_there_is_told() {
    let place = Place::new();
    let mut store = place.store();
    begin(&mut store, "s");
    let copy = place.folder.path().join("copy.db");
    store.backup(&copy).unwrap();
    for _ in 0..3 {
        store.commit("s", &[said("turn", "later")]).unwrap();
    }
    assert_eq!(store.check().unwrap(), []);
    drop(store);
    // An older copy in its place, as a tool that synchronises folders may put it there.
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(beside(&place.file(), suffix));
    }
    fs::rename(&copy, place.file()).unwrap();
    for _ in 0..2 {
        let faults = place.store().check().unwrap();
        assert!(matches!(&faults[..], [fault] if fault.what.starts_with("3 acknowledged writes are missing")), "{faults:?}");
    }
    // It goes on, and nothing is told twice.
    place.store().commit("s", &[said("turn", "again")]).unwrap();
    assert_eq!(place.store().check().unwrap().len(), 1);
}

/// Everything that is in a database and means something, as text.
fn contents(connection: &Connection) -> String {
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'found%' ORDER BY name";
    let mut statement = connection.prepare(tables).unwrap();
    let tables: Vec<String> = statement.query_map([], |row| row.get(0)).unwrap().collect::<rusqlite::Result<_>>().unwrap();
    let mut all = String::new();
    for table in tables {
        let mut statement = connection.prepare(&format!("SELECT * FROM {table} NOT INDEXED")).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Ok(Some(row)) = rows.next() {
            let values: Vec<_> = (0..columns).map(|at| format!("{:?}", row.get_ref(at))).collect();
            all.extend([&table, " ", &values.join(" "), "\n"]);
        }
    }
    all
}

#[test]
fn every_changed_bit_that_matters_is_named() {
    let place = Place::new();
    let mut store = place.store();
    begin(&mut store, "s");
    begin(&mut store, "other");
    store.commit("s", &[said("turn", "one"), request(1, &[(0, "a")], &["note:a"]), Write::Usage(0, Usage::default())]).unwrap();
    store.commit("s", &[said("assistant", "two"), Write::Title("t".to_owned()), Write::Transcript(json!({"f": 1}))]).unwrap();
    store.commit("s", &[said("turn", "three"), request(1, &[(0, "b")], &["note:b"]), Write::Output("out".to_owned())]).unwrap();
    store.commit("s", &[Write::Part("half an ".to_owned()), Write::Part("answer".to_owned())]).unwrap();
    store.commit("s", &[Write::Checkpoint(Checkpoint { counts: Counts { inputs: 1, requests: 1 }, body: vec![7; 40] })]).unwrap();
    let passed = NewForwarded {
        at_ms: 1,
        front: "chat".into(),
        model: "m".into(),
        session: None,
        body: "{}".into(),
        about: Some("{}".into()),
    };
    let number = store.sent(passed).unwrap();
    store
        .answered(number, &Answered { status: Some(200), usage: Usage { cost: 0.25, ..Usage::default() }, about: None })
        .unwrap();
    store.reserve("journal", 5).unwrap();
    assert_eq!(store.check().unwrap(), []);
    store.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let expect = contents(&store.connection);
    drop(store);
    let whole = fs::read(place.file()).unwrap();
    let flipped = Place::new();
    drop(flipped.store());
    let (mut named, mut same) = (0, 0);
    let mut look = |at: usize, bit: u8| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(beside(&flipped.file(), suffix));
        }
        fs::write(flipped.file(), &bytes).unwrap();
        let found = Sqlite::open_existing(&flipped.file());
        if found.and_then(|store| store.check()).is_ok_and(|faults| faults.is_empty()) {
            let connection = Connection::open(flipped.file()).unwrap();
            assert_eq!(contents(&connection), expect, "bit {bit} of byte {at} was not noticed");
            same += 1;
        } else {
            named += 1;
        }
    };
    // Where something stands: most of a page is empty.
    let filled: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
    for (turn, at) in filled.iter().enumerate().skip(3).step_by(filled.len() / 400) {
        look(*at, u8::try_from(turn % 8).unwrap());
    }
    assert!(named > same, "{named} {same}");
}

#[test]
fn what_someone_planted_in_the_database_is_refused_and_named() {
    let check = |sql: &str, expect: &str| {
        let place = Place::new();
        begin(&mut place.store(), "s");
        let connection = Connection::open(place.file()).unwrap();
        connection.execute_batch(sql).unwrap();
        drop(connection);
        let error = Sqlite::open(&place.file()).unwrap_err();
        assert!(matches!(&error, StoreError::Planted { what, .. } if what.contains(expect)), "{sql}: {error}");
        // It can be looked at and taken out, and nothing in it runs.
        let mut store = Sqlite::open_existing(&place.file()).unwrap();
        assert!(store.is_read_only() && store.dump("s").is_ok());
        assert!(store.commit("s", &[said("turn", "x")]).is_err());
        assert!(store.check().unwrap().iter().any(|fault| fault.what.contains(expect)), "{sql}");
    };
    check("CREATE TRIGGER evil AFTER INSERT ON log BEGIN DELETE FROM texts; END", "the trigger \"evil\"");
    check("CREATE VIEW secrets AS SELECT * FROM log", "the view \"secrets\"");
    check("CREATE TABLE theirs (x)", "the table \"theirs\"");
    check("CREATE INDEX theirs ON log (abs(number))", "the index \"theirs\"");
    check("DROP VIEW runs; CREATE VIEW runs AS SELECT load_extension('x')", "with another definition");
    check("CREATE TEMP TABLE t (x); CREATE VIRTUAL TABLE words USING fts5 (text)", "the table \"words\"");
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read_it_and_links_are_refused() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let place = Place::new();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = place.file().parent().unwrap().to_owned();
    let files = || fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect::<Vec<_>>();
    let mut shared = crate::Shared::new(place.store()).unwrap().unsynced();
    let new = NewSession { id: "s".into(), title: None, created_ms: 1, agent: document(&json!({})), setup: document(&json!({})) };
    let lease = shared.begin(&new).unwrap();
    let private = |path: &Path| assert_eq!(mode(path), if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    assert!(files().len() > 4);
    for path in files() {
        private(&path);
    }
    for inner in ["journals", "leases"] {
        for file in fs::read_dir(folder.join(inner)).unwrap() {
            private(&file.unwrap().path());
        }
    }
    private(&folder);
    drop((lease, shared));
    // What was open to others before is not any more.
    for path in files().into_iter().chain([folder.clone()]) {
        fs::set_permissions(&path, fs::Permissions::from_mode(if path.is_dir() { 0o755 } else { 0o644 })).unwrap();
    }
    drop(place.store());
    private(&folder);
    private(&place.file());
    private(&folder.join("journals"));
    // Links lead somewhere else.
    let check = |what: &str| {
        let place = Place::new();
        let elsewhere = TempDir::new().unwrap();
        let (folder, target) = (place.file().parent().unwrap().to_owned(), elsewhere.path().join("target"));
        if what == "." {
            symlink(elsewhere.path(), &folder).unwrap();
        } else {
            fs::create_dir_all(&folder).unwrap();
            if what == "journals" {
                fs::create_dir(&target).unwrap();
            } else {
                fs::write(&target, "").unwrap();
            }
            symlink(&target, folder.join(what)).unwrap();
        }
        let error = Sqlite::open(&place.file()).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{what}: {error}");
        assert!(!elsewhere.path().join("foreword.db").exists());
        assert!(what == "journals" || what == "." || fs::read(&target).unwrap().is_empty());
    };
    for what in [".", "foreword.db", "foreword.db-wal", "foreword.db-shm", "foreword.db-acknowledged", "journals"] {
        check(what);
    }
}

/// A process that closes a file lets go of all its locks on it: another program would then take the log of the database away, and what
/// is written to it with it.
#[cfg(target_os = "linux")]
#[test]
fn opening_it_again_lets_go_of_no_lock() {
    use std::os::unix::fs::MetadataExt as _;
    let place = Place::new();
    let store = place.store();
    let inode = fs::metadata(place.file()).unwrap().ino();
    let locks = || {
        let all = fs::read_to_string("/proc/locks").unwrap();
        let me = std::process::id().to_string();
        let mine = |line: &&str| {
            let mut words = line.split_whitespace().skip(4);
            words.next() == Some(&me) && words.next().is_some_and(|file| file.ends_with(&format!(":{inode}")))
        };
        all.lines().filter(mine).count()
    };
    assert!(locks() > 0);
    drop(place.store());
    drop(Sqlite::open_existing(&place.file()).unwrap());
    let _ = Sqlite::connect(&place.file()).unwrap();
    assert!(locks() > 0);
    drop(store);
}

/// A process that ends while it brings the log into the file leaves a file that makes sense only together with its log.
#[test]
fn a_file_is_opened_while_its_log_is_coming_in() {
    let place = Place::new();
    let log = place.folder.path().join("a/foreword.db-wal");
    let mut store = place.store();
    let bring_in = |store: &Sqlite| store.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    bring_in(&store);
    store.connection.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    let mut torn = std::fs::read(place.file()).unwrap();
    for number in 0..500 {
        begin(&mut store, &format!("s{number}"));
    }
    let in_log = std::fs::read(&log).unwrap();
    bring_in(&store);
    let whole = std::fs::read(place.file()).unwrap();
    assert!(whole.len() > torn.len() && !in_log.is_empty());
    drop(store);
    // The first page tells of pages that are not in the file yet.
    let page = usize::from(u16::from_be_bytes([whole[16], whole[17]]));
    torn[..page].copy_from_slice(&whole[..page]);
    std::fs::write(place.file(), torn).unwrap();
    std::fs::write(&log, in_log).unwrap();
    assert!(
        super::immutable(&place.file()).unwrap().pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0)).is_err()
    );
    assert_eq!(place.store().sessions().unwrap().len(), 500);
}
