use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

struct Bench {
    dir: TempDir,
    cache: TempDir,
}

impl Bench {
    fn new(files: &[(&str, &str)]) -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap(), cache: tempfile::tempdir().unwrap() };
        for (path, text) in files {
            bench.write(path, text);
        }
        bench
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.dir.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        let to = self.dir.path().join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::rename(self.dir.path().join(from), to).unwrap();
    }

    fn remove(&self, path: &str) {
        fs::remove_file(self.dir.path().join(path)).unwrap();
    }

    fn age(&self, path: &str, seconds: u64) {
        let file = fs::File::options().write(true).open(self.dir.path().join(path)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds)).unwrap();
    }

    fn open(&self) -> Opened {
        Vault::open(self.dir.path(), Some(self.cache.path())).unwrap()
    }

    fn cache_file(&self) -> PathBuf {
        fs::read_dir(self.cache.path()).unwrap().next().unwrap().unwrap().path()
    }
}

/// `+added ~changed -removed >renamed`
fn show(changes: &Changes) -> String {
    let mut out: Vec<String> = Vec::new();
    out.extend(changes.added.iter().map(|path| format!("+{path}")));
    out.extend(changes.changed.iter().map(|path| format!("~{path}")));
    out.extend(changes.removed.iter().map(|path| format!("-{path}")));
    out.extend(changes.renamed.iter().map(|Renamed { from, to }| format!("{from}>{to}")));
    out.join(" ")
}

#[test]
fn changes_since_the_last_opening() {
    fn check(change: impl Fn(&Bench), expect: &str) {
        let files = [("a.md", "alpha"), ("b/c.md", "# C\n[[a]]"), ("b/d.md", ""), ("e.png", "png")];
        let bench = Bench::new(&files);
        for (path, _) in files {
            bench.age(path, 0);
        }
        assert_eq!(show(&bench.open().changes), "+a.md +b/c.md +b/d.md +e.png");
        change(&bench);
        let mut live = bench.open();
        assert_eq!(show(&live.changes), expect);
        assert!(bench.open().changes.is_empty(), "{expect}");
        assert!(live.vault.refresh().is_empty(), "{expect}");
        let fresh = Vault::open(bench.dir.path(), None).unwrap().vault;
        assert!(live.vault.notes().map(plain).eq(fresh.notes().map(plain)), "{expect}");
    }
    check(|_| {}, "");
    check(|bench| bench.write("a.md", "beta"), "~a.md");
    check(|bench| bench.write("a.md", "alpha"), "");
    check(|bench| bench.write("n.md", "new"), "+n.md");
    check(|bench| bench.remove("a.md"), "-a.md");
    check(|bench| bench.rename("a.md", "z/a.md"), "a.md>z/a.md");
    check(|bench| bench.rename("b", "q"), "b/c.md>q/c.md b/d.md>q/d.md");
    check(|bench| bench.rename("e.png", "f.png"), "e.png>f.png");
    check(
        |bench| {
            bench.rename("a.md", "y.md");
            bench.write("y.md", "other");
        },
        "~y.md a.md>y.md",
    );
    check(
        |bench| {
            bench.write("y.md", "alpha");
            bench.remove("a.md");
        },
        "a.md>y.md",
    );
    check(
        |bench| {
            bench.write("y.md", "alpha");
            bench.write("x/a.md", "alpha");
            bench.remove("a.md");
        },
        "+y.md a.md>x/a.md",
    );
    check(|bench| bench.write("foreword.toml", "[vault]\nexclude = ['b/']"), "+foreword.toml -b/c.md -b/d.md");
}

/// A note without what only this opening knows.
fn plain(listed: &Listed) -> (FileFacts, Note, Hash, String) {
    (listed.facts.clone(), listed.note.clone(), listed.hash, listed.title.clone())
}

#[test]
fn a_change_that_keeps_size_and_time_is_seen_if_the_file_was_young() {
    let bench = Bench::new(&[("a.md", "one")]);
    bench.open();
    let file = bench.dir.path().join("a.md");
    let time = fs::metadata(&file).unwrap().modified().unwrap();
    bench.write("a.md", "two");
    fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
    assert_eq!(show(&bench.open().changes), "~a.md");
}

#[cfg(unix)]
#[test]
fn a_change_that_keeps_size_and_time_was_missed_in_an_old_file() {
    let bench = Bench::new(&[("a.md", "one"), ("b.canvas", "one")]);
    let mut vault = bench.open().vault;
    vault.notes.get_mut("a.md").unwrap().settled = true;
    assert_eq!(show(&vault.refresh()), "");
    for path in ["a.md", "b.canvas"] {
        let file = bench.dir.path().join(path);
        let time = fs::metadata(&file).unwrap().modified().unwrap();
        std::thread::sleep(Duration::from_millis(20)); // the clock of a disk is coarse
        bench.write(path, "two");
        fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
    }
    assert_eq!(show(&vault.refresh()), "~a.md ~b.canvas");
}

#[test]
fn a_broken_cache_is_made_anew() {
    fn check(break_it: impl Fn(&Path)) {
        let bench = Bench::new(&[("a.md", "one")]);
        bench.open();
        break_it(&bench.cache_file());
        assert_eq!(show(&bench.open().changes), "+a.md");
        assert!(bench.open().changes.is_empty());
    }
    check(|file| fs::write(file, "").unwrap());
    check(|file| fs::write(file, "no index").unwrap());
    check(|file| fs::remove_file(file).unwrap());
    check(|file| {
        let mut bytes = fs::read(file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(file, bytes).unwrap();
    });
    check(|file| {
        let bytes = fs::read(file).unwrap();
        fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
    });
}

#[test]
fn a_cache_that_cannot_be_written_is_told() {
    let bench = Bench::new(&[("a.md", "one")]);
    fs::write(bench.cache.path().join("file"), "").unwrap();
    let opened = Vault::open(bench.dir.path(), Some(&bench.cache.path().join("file/below"))).unwrap();
    assert_eq!(opened.vault.notes().len(), 1);
    assert!(opened.problems[0].what.contains("cannot save the index"), "{:?}", opened.problems);
}

#[test]
fn problems_are_told_at_every_opening() {
    let bench = Bench::new(&[("foreword.toml", "nonsense"), ("ok.md", "")]);
    fs::write(bench.dir.path().join("latin.md"), b"caf\xe9").unwrap();
    fs::File::create(bench.dir.path().join("huge.md")).unwrap().set_len(1 << 40).unwrap();
    let told = |opened: &Opened| opened.problems.iter().map(|problem| problem.path.clone()).collect::<Vec<_>>();
    for _ in 0..2 {
        let opened = bench.open();
        assert_eq!(told(&opened), ["foreword.toml", "huge.md", "latin.md"]);
        assert_eq!(opened.vault.notes().map(|listed| listed.title.as_str()).collect::<Vec<_>>(), ["latin", "ok"]);
        assert!(opened.vault.file("huge.md").is_some());
    }
}

#[test]
fn the_title_is_the_file_name_and_the_frontmatter_may_give_another() {
    let bench = Bench::new(&[("x/Lesson 4.md", "---\ntitle: Scales\n---\n")]);
    let opened = bench.open();
    let listed = opened.vault.get("x/Lesson 4.md").unwrap();
    assert_eq!((listed.title.as_str(), listed.given_title()), ("Lesson 4", Some("Scales")));
}

#[derive(Clone, Debug)]
enum Edit {
    Write(&'static str, &'static str),
    Remove(&'static str),
    Rename(&'static str, &'static str),
    Ignore(&'static str),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let path = || prop::sample::select(&["a.md", "b.md", "x/a.md", "x/y/c.md", "A.md", "p.png", "x.canvas", "\u{fc}.md"][..]);
    let text = prop::sample::select(&["", "one [[a]]", "two [[c]]", "---\naliases: [c]\n---\n![[p.png]]"][..]);
    let edit = prop_oneof![
        4 => (path(), text).prop_map(|(path, text)| Edit::Write(path, text)),
        2 => path().prop_map(Edit::Remove),
        2 => (path(), path()).prop_map(|(from, to)| Edit::Rename(from, to)),
        1 => prop::sample::select(&["", "x/", "*.png\n/a.md"][..]).prop_map(Edit::Ignore),
    ];
    prop::collection::vec(edit, 1..8)
}

fn apply(root: &Path, edit: &Edit) -> Vec<String> {
    let at = |path: &str| {
        let file = root.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        file
    };
    match edit {
        Edit::Write(path, text) => fs::write(at(path), text).map(|()| vec![(*path).to_owned()]),
        Edit::Remove(path) => fs::remove_file(at(path)).map(|()| vec![(*path).to_owned()]),
        Edit::Rename(from, to) => fs::rename(at(from), at(to)).map(|()| vec![(*from).to_owned(), (*to).to_owned()]),
        Edit::Ignore(rules) => fs::write(at(".gitignore"), rules).map(|()| vec![".gitignore".to_owned()]),
    }
    .unwrap_or_default()
}

type Whole = (Vec<(FileFacts, Note, Hash, String)>, Vec<FileFacts>, Vec<Vec<String>>);

fn whole(vault: &Vault) -> Whole {
    let links = |listed: &Listed| {
        let path = listed.facts.path.as_str();
        vault.incoming(path).chain(["|"]).chain(vault.outgoing(path)).map(str::to_owned).collect()
    };
    (
        vault.notes().map(plain).collect(),
        vault.files().map(|file| file.facts.clone()).collect(),
        vault.notes().map(links).collect(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_index_is_what_opening_from_scratch_gives(rounds in prop::collection::vec(edits(), 1..4)) {
        let bench = Bench::new(&[("a.md", "one [[b]]"), ("b.md", "two"), ("x/a.md", "[[a]]")]);
        let mut live = bench.open().vault;
        for edits in rounds {
            let paths: Vec<String> = edits.iter().flat_map(|edit| apply(bench.dir.path(), edit)).collect();
            live.refresh_paths(&paths);
            let scratch = whole(&Vault::open(bench.dir.path(), None).unwrap().vault);
            prop_assert_eq!(&whole(&live), &scratch);
            prop_assert_eq!(&whole(&bench.open().vault), &scratch);
            live.refresh();
            prop_assert_eq!(&whole(&live), &scratch);
        }
    }
}
