//! A query over a small vault: whatever it says, it is answered or refused, soon.

#![no_main]

use std::time::Duration;

use foreword_dataview::{Limit, PageRef, Pages};
use foreword_markdown::note::{FileFacts, Note};

const NOTES: [(&str, &str); 3] = [
    ("A.md", "---\ntags: [x, y/z]\ndate: 2026-11-15\nn: 3\n---\n# A\nkey:: [[B]]\n- [ ] open 📅 2026-12-01\n- [x] done\n"),
    ("F/B.md", "n:: 7\n- item [k:: 1 day]\n[[A]] #x\n"),
    ("F/C.md", "empty\n"),
];

struct Vault(Vec<(FileFacts, Note)>);

impl Pages for Vault {
    fn paths(&self) -> Vec<&str> {
        self.0.iter().map(|(facts, _)| facts.path.as_str()).collect()
    }

    fn page(&self, path: &str) -> Option<PageRef<'_>> {
        self.0.iter().find(|(facts, _)| facts.path == path).map(|(facts, note)| PageRef { facts, note })
    }

    fn resolve(&self, target: &str, _from: &str) -> Option<String> {
        self.paths().into_iter().find(|path| path.contains(target)).map(str::to_owned)
    }

    fn incoming(&self, _path: &str) -> Vec<String> {
        vec!["A.md".to_owned()]
    }

    fn outgoing(&self, _path: &str) -> Vec<String> {
        vec!["F/B.md".to_owned()]
    }
}

libfuzzer_sys::fuzz_target!(|data: &str| {
    let facts =
        |path: &str| FileFacts { path: path.to_owned(), size: 9, modified: 1_763_164_800_000, created: 1_763_164_800_000 };
    let vault = Vault(NOTES.iter().map(|(path, text)| (facts(path), foreword_markdown::read(text))).collect());
    let limit = Limit { time: Duration::from_secs(1), steps: 200_000, rows: 1_000, bytes: 16 * 1024 };
    let now = "2026-11-15T12:00:00+00:00[UTC]".parse().expect("a moment");
    if let Ok(answer) = foreword_dataview::answer(data, "A.md", &vault, &now, limit) {
        assert!(answer.markdown.len() <= limit.bytes + 1_024, "an answer stays within its limit");
        assert!(answer.read.is_sorted());
    }
});
