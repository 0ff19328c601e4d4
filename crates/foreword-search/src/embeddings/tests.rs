use std::fs::{self, OpenOptions};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::DIMENSIONS;

const LIMIT: u64 = 1 << 30;

fn key(n: usize) -> Key {
    Key::of("model", "chunker", &n.to_string())
}

/// The vector that belongs to `key(n)`; no two are equal.
fn vector(n: usize) -> Vector {
    std::array::from_fn(|i| (n * DIMENSIONS + i) as f32)
}

fn entries(range: std::ops::Range<usize>) -> Vec<(Key, Vector)> {
    range.map(|n| (key(n), vector(n))).collect()
}

fn open(folder: &Path) -> EmbeddingCache {
    EmbeddingCache::open(folder, LIMIT).unwrap()
}

fn filled(range: std::ops::Range<usize>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).put_many(&entries(range)).unwrap();
    folder
}

/// Which of the first `count` are found. None is ever found with another vector than its own.
fn found(cache: &mut EmbeddingCache, count: usize) -> Vec<usize> {
    let keys: Vec<_> = (0..count).map(key).collect();
    let vectors = cache.get_many(&keys);
    for (n, found) in vectors.iter().enumerate() {
        assert!(found.is_none_or(|found| found.map(f32::to_bits) == vector(n).map(f32::to_bits)), "{n} has another vector");
    }
    (0..count).filter(|n| vectors[*n].is_some()).collect()
}

fn range(range: std::ops::Range<usize>) -> Vec<usize> {
    range.collect()
}

fn vectors_file(folder: &Path) -> PathBuf {
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut files = files.into_iter().filter(|path| path.extension().is_some_and(|end| end == "f32"));
    let file = files.next().unwrap();
    assert_eq!(files.next(), None);
    file
}

fn cut(path: &Path, length: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

/// Whatever happened to the files: putting everything again heals them, here and for the next program.
fn check_heals(folder: &Path, count: usize) {
    let mut cache = open(folder);
    let left = found(&mut cache, count);
    let missing: Vec<_> = (0..count).filter(|n| !left.contains(n)).map(|n| (key(n), vector(n))).collect();
    cache.put_many(&missing).unwrap();
    assert_eq!(found(&mut cache, count), range(0..count));
    assert_eq!(found(&mut open(folder), count), range(0..count));
}

#[test]
fn keys_tell_model_chunker_and_text_apart() {
    let all = [("a", "b", "c"), ("ab", "", "c"), ("a", "bc", ""), ("", "ab", "c"), ("a", "b", "d")];
    let keys: std::collections::BTreeSet<_> = all.iter().map(|(model, chunker, text)| Key::of(model, chunker, text)).collect();
    assert_eq!(keys.len(), all.len());
}

#[test]
fn what_is_put_is_found_in_any_order_now_and_later() {
    let folder = tempfile::tempdir().unwrap();
    let mut cache = open(&folder.path().join("not/there/yet"));
    assert_eq!(found(&mut cache, 3), range(0..0));
    let mut twice = entries(0..3000);
    twice.push((key(5), vector(6)));
    cache.put_many(&twice).unwrap();
    cache.put_many(&entries(2990..3010)).unwrap();
    for cache in [&mut cache, &mut open(&folder.path().join("not/there/yet"))] {
        assert_eq!(cache.len(), 3010);
        let asked = [2999, 7, 3500, 0, 7, 1500];
        let vectors = cache.get_many(&asked.map(key));
        assert_eq!(vectors, asked.map(|n| (n < 3010).then(|| vector(n))));
    }
}

#[test]
fn a_file_cut_anywhere_costs_only_what_was_cut() {
    let folder = filled(0..3);
    let keys = disk::keys_path(folder.path());
    let whole = fs::read(&keys).unwrap();
    for length in 0..=whole.len() {
        fs::write(&keys, &whole[..length]).unwrap();
        let left = length.saturating_sub(Header::BYTES) / Record::BYTES;
        assert_eq!(found(&mut open(folder.path()), 3), range(0..left), "keys cut at {length}");
    }
    let vectors = vectors_file(folder.path());
    for length in (0..3 * VECTOR_BYTES).rev() {
        cut(&vectors, length as u64);
        assert_eq!(found(&mut open(folder.path()), 3), range(0..length / VECTOR_BYTES), "vectors cut at {length}");
    }
}

#[test]
fn a_writer_killed_anywhere_leaves_what_was_there_and_no_hindrance() {
    for (vectors_left, keys_left) in
        [(0, 0), (1, 0), (1535, 0), (1536, 0), (2000, 0), (3072, 0), (3072, 1), (3072, 24), (3072, 47)]
    {
        let folder = filled(0..2);
        let (keys, vectors) = (disk::keys_path(folder.path()), vectors_file(folder.path()));
        let before = (fs::metadata(&vectors).unwrap().len(), fs::metadata(&keys).unwrap().len());
        open(folder.path()).put_many(&entries(2..4)).unwrap();
        cut(&vectors, before.0 + vectors_left);
        cut(&keys, before.1 + keys_left);
        let whole = 2 + usize::try_from(keys_left).unwrap() / Record::BYTES;
        assert_eq!(found(&mut open(folder.path()), 4), range(0..whole));
        check_heals(folder.path(), 6);
    }
}

#[test]
fn a_changed_byte_never_gives_a_wrong_vector() {
    let folder = filled(0..3);
    for path in [disk::keys_path(folder.path()), vectors_file(folder.path())] {
        let whole = fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(if whole.len() > 1000 { 13 } else { 1 }) {
            let mut changed = whole.clone();
            changed[at] ^= 1 << (at % 8);
            fs::write(&path, &changed).unwrap();
            let left = found(&mut open(folder.path()), 3).len();
            assert!(left == 2 || (left == 0 && at < Header::BYTES), "byte {at} of {}: {left} left", path.display());
        }
        fs::write(&path, &whole).unwrap();
    }
    assert_eq!(found(&mut open(folder.path()), 3), range(0..3));
}

#[test]
fn damage_is_healed_by_putting_again() {
    let spoil: [fn(&Path); 6] = [
        |folder| fs::write(disk::keys_path(folder), "something else").unwrap(),
        |folder| fs::write(disk::keys_path(folder), [0; 4000]).unwrap(),
        |folder| fs::remove_file(disk::keys_path(folder)).unwrap(),
        |folder| fs::remove_file(vectors_file(folder)).unwrap(),
        |folder| fs::write(vectors_file(folder), [7; 2 * VECTOR_BYTES]).unwrap(),
        |folder| OpenOptions::new().append(true).open(disk::keys_path(folder)).unwrap().write_all(&[1; 1000]).unwrap(),
    ];
    for spoil in spoil {
        let folder = filled(0..4);
        spoil(folder.path());
        check_heals(folder.path(), 5);
    }
}

#[test]
fn another_format_is_left_alone() {
    let folder = filled(0..2);
    let path = disk::keys_path(folder.path());
    for (version, dimensions, message) in [(2, 384, "has format 2"), (1, 768, "768 dimensions, expected 384")] {
        let header = Header::encode_as(version, dimensions, 1);
        fs::write(&path, header).unwrap();
        let error = EmbeddingCache::open(folder.path(), LIMIT).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        assert_eq!(fs::read(&path).unwrap(), header);
    }
}

#[test]
fn two_programs_see_what_the_other_put() {
    let folder = tempfile::tempdir().unwrap();
    let (mut one, mut two) = (open(folder.path()), open(folder.path()));
    one.put_many(&entries(0..3)).unwrap();
    two.put_many(&entries(2..5)).unwrap();
    one.put_many(&entries(4..6)).unwrap();
    assert_eq!((found(&mut one, 9), found(&mut two, 9)), (range(0..6), range(0..6)));
    two.compact(&|candidate| *candidate != key(0)).unwrap();
    assert_eq!(found(&mut two, 9), range(1..6));
    one.put_many(&entries(6..7)).unwrap();
    assert_eq!((found(&mut one, 9), found(&mut two, 9)), (range(1..7), range(1..7)));
    fs::remove_dir_all(folder.path()).unwrap();
    one.put_many(&entries(0..1)).unwrap();
    assert_eq!((found(&mut one, 9), found(&mut open(folder.path()), 9)), (range(0..1), range(0..1)));
}

#[test]
fn a_reader_keeps_its_generation_while_another_tidies_up() {
    let folder = filled(0..50);
    let mut reader = open(folder.path());
    open(folder.path()).compact(&|_| false).unwrap();
    let vectors = reader.get_many(&(0..50).map(key).collect::<Vec<_>>());
    assert!(vectors.into_iter().enumerate().all(|(n, found)| found == Some(vector(n))));
}

#[test]
fn the_oldest_go_when_the_limit_is_reached() {
    let folder = tempfile::tempdir().unwrap();
    let limit = 8 * (VECTOR_BYTES + Record::BYTES) as u64;
    let mut cache = EmbeddingCache::open(folder.path(), limit).unwrap();
    for (put, left) in [(0..6, 0..6), (6..8, 0..8), (8..9, 2..9), (9..10, 2..10), (10..13, 5..13), (13..40, 32..40)] {
        cache.put_many(&entries(put)).unwrap();
        assert_eq!(found(&mut cache, 50), range(left.clone()));
        assert_eq!(fs::metadata(vectors_file(folder.path())).unwrap().len(), (left.len() * VECTOR_BYTES) as u64);
    }
    let mut none = EmbeddingCache::open(folder.path().join("none"), 0).unwrap();
    none.put_many(&entries(0..3)).unwrap();
    assert_eq!(found(&mut none, 3), range(0..0));
}

const FOLDER: &str = "FOREWORD_TEST_CACHE_FOLDER";
const FIRST: &str = "FOREWORD_TEST_CACHE_FIRST";
const WRITTEN: usize = 4000;

/// Not a test by itself: the program that the next two start, and kill.
#[test]
fn writer() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let first: usize = std::env::var(FIRST).unwrap().parse().unwrap();
    let mut cache = open(Path::new(&folder));
    for start in (first..first + WRITTEN).step_by(40) {
        cache.put_many(&entries(start..start + 40)).unwrap();
        if start % 1000 == 0 {
            cache.compact(&|_| true).unwrap();
        }
    }
}

fn start_writer(folder: &Path, first: usize) -> std::process::Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "embeddings::tests::writer"]).env(FOLDER, folder).env(FIRST, first.to_string());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn writers_that_are_killed_leave_no_wrong_vector() {
    let folder = tempfile::tempdir().unwrap();
    let keys = disk::keys_path(folder.path());
    for round in 1..12 {
        let mut writer = start_writer(folder.path(), 0);
        // Somewhere behind where the last one ended, unless it is through.
        let far = Record::offset(round * 250 + round);
        while writer.try_wait().unwrap().is_none() && fs::metadata(&keys).map_or(0, |keys| keys.len()) < far {
            std::thread::sleep(Duration::from_micros(100));
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        let left = found(&mut open(folder.path()), WRITTEN);
        assert_eq!(left, range(0..left.len()));
        assert!(Record::offset(u32::try_from(left.len()).unwrap()) >= far);
    }
    check_heals(folder.path(), WRITTEN);
}

#[test]
fn two_writers_at_once_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut writers = [0, WRITTEN / 2].map(|first| start_writer(folder.path(), first));
    let mut reader = open(folder.path());
    while writers.iter_mut().any(|writer| writer.try_wait().unwrap().is_none()) {
        found(&mut reader, WRITTEN);
    }
    assert!(writers.iter_mut().all(|writer| writer.wait().unwrap().success()));
    let all = WRITTEN + WRITTEN / 2;
    assert_eq!(found(&mut reader, all), range(0..all));
    assert_eq!(open(folder.path()).len(), all);
}
