//! How fast a vault opens and can be searched by words: `cargo xtask bench vault [-- NOTES]`.
//!
//! Makes a folder of generated notes, the same at every run, and compares opening it with the least that would have to be done: reading
//! all bytes for a first opening, asking for the facts of all files for another one.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use foreword_engine::search::{Query, Strategy};
use foreword_trust::places::Places;
use foreword_vault_tools::corpus::Corpus;
use jiff::tz::TimeZone;

const WORDS: [&str; 24] = [
    "scale", "chord", "left", "hand", "slowly", "again", "measure", "key", "lesson", "teacher", "practice", "rhythm", "notes",
    "because", "the", "a", "of", "with", "before", "every", "evening", "piece", "page", "sound",
];

/// A generator of numbers that is the same everywhere.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % end
    }
}

fn path(number: usize) -> String {
    format!("Folder {}/Topic {}/Note {number}.md", number % 20, number % 100)
}

fn text(number: usize, notes: usize) -> Result<String, std::fmt::Error> {
    let mut numbers = Numbers(number as u64);
    let mut out = format!(
        "---\ntitle: Number {number}\ntags: [topic/{}, n{}]\naliases: [Alias {number}]\nrating: {}\n---\n\n",
        number % 50,
        number % 7,
        number % 5
    );
    for section in 0..4 {
        writeln!(out, "## Section {section}\n")?;
        for _ in 0..3 {
            for _ in 0..20 {
                write!(out, "{} ", WORDS[numbers.below(WORDS.len())])?;
            }
            writeln!(out, "[[Note {}]] #tag{}\n", numbers.below(notes), numbers.below(30))?;
        }
        writeln!(out, "- [ ] a task of note {number}\n- an item with key:: value ^id{section}\n")?;
    }
    Ok(out)
}

/// The best of `times`, with what the last run gave.
fn best<T>(times: usize, mut run: impl FnMut() -> T) -> (Duration, Option<T>) {
    let mut best = (Duration::MAX, None);
    for _ in 0..times {
        let start = Instant::now();
        let outcome = run();
        best = (best.0.min(start.elapsed()), Some(outcome));
    }
    best
}

/// Visits all files below a folder.
fn walk(folder: &Path, visit: &mut dyn FnMut(&Path) -> std::io::Result<()>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() { walk(&entry.path(), visit)? } else { visit(&entry.path())? }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let notes: usize = std::env::args().nth(1).map_or(Ok(10_000), |text| text.parse())?;
    let base = std::env::temp_dir().join(format!("bench-vault-{}", std::process::id()));
    let (root, cache) = (base.join("vault"), base.join("cache"));
    for number in 0..notes {
        let file = root.join(path(number));
        fs::create_dir_all(file.parent().ok_or("a note has a folder")?)?;
        fs::write(file, text(number, notes)?)?;
    }
    // Younger files are read again at the next opening, because their time does not tell enough.
    std::thread::sleep(Duration::from_millis(2_100));

    let mut bytes = 0;
    let (reading, _) = best(3, || {
        bytes = 0;
        walk(&root, &mut |file| fs::read(file).map(|read| bytes += read.len()))
    });
    let (asking, _) = best(3, || walk(&root, &mut |file| fs::metadata(file).map(|_| ())));

    let places = Places { cache: cache.clone(), models: cache.join("models"), state: cache.join("state") };
    let open = || Corpus::open(&root, &places, TimeZone::UTC);
    let mut first = Duration::MAX;
    for _ in 0..3 {
        let _ = fs::remove_dir_all(&cache);
        first = first.min(best(1, open).0);
    }
    let (again, opened) = best(5, open);
    let mut corpus = opened.ok_or("the vault was opened")??;
    assert_eq!(corpus.extent().notes, notes);
    let edited = path(notes / 2);
    let mut round = 0;
    let (edit, _) = best(5, || {
        round += 1;
        fs::write(root.join(&edited), format!("edited {round} [[Note 1]]"))
            .map(|()| corpus.refresh_paths(std::slice::from_ref(&edited)))
    });
    let (search, _) =
        best(20, || corpus.index().search(&Query { strategy: Strategy::Keyword, ..Query::new("rhythm of the evening lesson") }));
    let (links, _) = best(1, || corpus.vault().incoming("Folder 0/Topic 0/Note 0.md").count());
    let index: u64 =
        fs::read_dir(places.vault(&root.canonicalize()?))?.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len())).sum();

    println!("{notes} notes, {:.1} MB, index {:.1} MB\n", bytes as f64 / 1e6, index as f64 / 1e6);
    println!("| what | ms | against | ratio |\n| --- | ---: | --- | ---: |");
    let row = |what: &str, time: Duration, against: Option<(&str, Duration)>| {
        let (name, ratio) =
            against.map_or(("", String::new()), |(name, base)| (name, format!("{:.2}", time.as_secs_f64() / base.as_secs_f64())));
        println!("| {what} | {:.1} | {name} | {ratio} |", time.as_secs_f64() * 1e3);
    };
    row("read all bytes, one thread", reading, None);
    row("facts of all files, one thread", asking, None);
    row("first opening: listed, read, indexed by words, stored", first, Some(("read all", reading)));
    row("unchanged, opened again", again, Some(("all facts", asking)));
    row("one edited note", edit, None);
    row("a search by words", search, None);
    row("links of all notes, when first asked for", links, None);
    fs::remove_dir_all(&base)?;
    Ok(())
}
