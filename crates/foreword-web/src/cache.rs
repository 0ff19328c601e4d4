//! Fetched pages on disk, one file each, named by the hash of the address: served while fresh, and when the network fails.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use foreword_core::hash::Hash;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

const MAX_PAGES: usize = 2_000;
const MAX_TOTAL_BYTES: u64 = 200 << 20;
const MAX_PAGE_BYTES: u64 = 16 << 20;

/// A page as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CachedPage {
    pub(super) asked: String,
    pub(super) url: String,
    /// The hosts on the way to it that were on the list of those allowed, as `scheme://host:port`. A record without this field is from
    /// before it was kept, and is not read.
    pub(super) by_list: Vec<String>,
    pub(super) title: Option<String>,
    pub(super) markdown: String,
    pub(super) fetched: Timestamp,
}

fn name(asked: &str) -> String {
    format!("{}.json", Hash::of(asked))
}

/// The page that was kept for `asked`. What cannot be read is as good as absent.
pub(super) fn get(folder: &Path, asked: &str) -> Option<CachedPage> {
    let mut bytes = Vec::new();
    File::open(folder.join(name(asked))).ok()?.take(MAX_PAGE_BYTES).read_to_end(&mut bytes).ok()?;
    let kept: CachedPage = serde_json::from_slice(&bytes).ok()?;
    (kept.asked == asked).then_some(kept)
}

/// Keeps a page. It is written aside and moved into place, so a reader never sees half of it.
pub(super) fn put(folder: &Path, page: &CachedPage) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    fs::create_dir_all(folder)?;
    let aside = folder.join(format!(".{}-{}.part", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    let written = write(&aside, page).and_then(|()| fs::rename(&aside, folder.join(name(&page.asked))));
    if written.is_err() {
        // A leftover has a name of its own: nobody reads it.
        let _ = fs::remove_file(&aside);
    }
    written?;
    prune(folder)
}

fn write(path: &Path, page: &CachedPage) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(&serde_json::to_vec(page)?)?;
    file.sync_all()
}

/// Takes out the pages that were kept longest ago, until the rest is within bounds.
fn prune(folder: &Path) -> io::Result<()> {
    let mut kept: Vec<(std::time::SystemTime, PathBuf, u64)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let facts = entry.metadata()?;
        if facts.is_file() {
            kept.push((facts.modified()?, entry.path(), facts.len()));
        }
    }
    kept.sort_by(|a, b| b.cmp(a));
    let mut total = 0;
    for (at, (_, path, size)) in kept.iter().enumerate() {
        total += size;
        let ours = path.extension().is_some_and(|extension| extension == "json" || extension == "part");
        if ours && (at >= MAX_PAGES || total > MAX_TOTAL_BYTES) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(asked: &str) -> CachedPage {
        CachedPage {
            asked: asked.into(),
            url: asked.into(),
            by_list: Vec::new(),
            title: None,
            markdown: "x".into(),
            fetched: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn kept_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), &page("https://a.example/")).unwrap();
        assert_eq!(get(folder.path(), "https://a.example/"), Some(page("https://a.example/")));
        assert_eq!(get(folder.path(), "https://b.example/"), None);
        fs::write(folder.path().join(name("https://c.example/")), "{ broken").unwrap();
        assert_eq!(get(folder.path(), "https://c.example/"), None);
        for at in 0..MAX_PAGES {
            fs::write(folder.path().join(format!("{at}.json")), "").unwrap();
        }
        put(folder.path(), &page("https://d.example/")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), MAX_PAGES);
        assert_eq!(get(folder.path(), "https://a.example/"), None, "the oldest went");
    }
}
