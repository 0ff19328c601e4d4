//! Watches a vault for changed paths. It does not interpret them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

use notify::event::{Event, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};

use crate::folder::nfc;

/// Changes are reported after a pause of this length, because saving a file causes several events.
const QUIET: Duration = Duration::from_millis(100);

/// Changes are reported after this time even without a pause.
const LATEST: Duration = Duration::from_secs(1);

/// More changed paths than this are reported as [`Watched::All`].
const MOST_PATHS: usize = 10_000;

/// The largest number of queued events; more are reported as [`Watched::All`].
const MOST_WAITING: usize = 4_096;

/// A change of the vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The paths of created, changed, renamed or deleted files and folders.
    Paths(BTreeSet<String>),
    /// Too many changes: check everything.
    All,
}

/// A folder cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("cannot watch {} for changes: {error}; changes are found when the vault is opened again", path.display())]
pub struct WatchError {
    path: PathBuf,
    #[source]
    error: notify::Error,
}

/// Watches a folder until it is dropped.
#[derive(Debug)]
pub struct Watcher {
    /// Dropping it ends the thread.
    _watcher: RecommendedWatcher,
}

impl Watcher {
    /// Watches the folder at `root` and calls `told` with changes, on a separate thread.
    pub fn new(root: &Path, told: impl FnMut(Watched) + Send + 'static) -> Result<Self, WatchError> {
        let wrong = |error| WatchError { path: root.to_owned(), error };
        let real = std::fs::canonicalize(root).map_err(|error| wrong(error.into()))?;
        let (send, waiting) = mpsc::sync_channel(MOST_WAITING);
        let lost = Arc::new(AtomicBool::new(false));
        let events = Events { waiting, lost: lost.clone() };
        let top = real.clone();
        let mut watcher = notify::recommended_watcher(move |event| send_on(&send, &lost, &top, event)).map_err(wrong)?;
        watcher.watch(&real, RecursiveMode::Recursive).map_err(wrong)?;
        let gather = move || gather(&events, told);
        thread::Builder::new().name("vault-watch".to_owned()).spawn(gather).map_err(|error| wrong(error.into()))?;
        Ok(Self { _watcher: watcher })
    }
}

/// Events that were not reported yet.
struct Events {
    waiting: Receiver<Watched>,
    /// Whether events were lost.
    lost: Arc<AtomicBool>,
}

fn send_on(send: &SyncSender<Watched>, lost: &AtomicBool, root: &Path, event: notify::Result<Event>) {
    let watched = match event {
        Ok(event) if event.need_rescan() => Watched::All,
        Ok(event) if matches!(event.kind, EventKind::Access(_)) => return,
        Ok(event) => Watched::Paths(event.paths.iter().filter_map(|path| in_vault(root, path)).collect()),
        Err(_) => Watched::All,
    };
    // Whoever listened may be gone; then nobody is to be told.
    if watched != Watched::Paths(BTreeSet::new())
        && let Err(TrySendError::Full(_)) = send.try_send(watched)
    {
        lost.store(true, Ordering::Relaxed);
    }
}

/// The path in the vault; `None` for hidden files except ignore files, which affect the listing.
fn in_vault(root: &Path, path: &Path) -> Option<String> {
    let names: Option<Vec<&str>> = path.strip_prefix(root).ok()?.iter().map(|name| name.to_str()).collect();
    let names = names?;
    let (last, folders) = names.split_last()?;
    let hidden = folders.iter().any(|name| name.starts_with('.')) || (last.starts_with('.') && *last != ".gitignore");
    (!hidden).then(|| nfc(&names.join("/")).into_owned())
}

/// Groups events and reports them.
fn gather(events: &Events, mut told: impl FnMut(Watched)) {
    while let Ok(mut all) = events.waiting.recv() {
        let latest = Instant::now() + LATEST;
        loop {
            let wait = QUIET.min(latest.saturating_duration_since(Instant::now()));
            match events.waiting.recv_timeout(wait) {
                Ok(next) => all = together(all, next),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if Instant::now() >= latest {
                break;
            }
        }
        told(if events.lost.swap(false, Ordering::Relaxed) { Watched::All } else { all });
    }
}

fn together(all: Watched, next: Watched) -> Watched {
    match (all, next) {
        (Watched::Paths(mut all), Watched::Paths(next)) if all.len() < MOST_PATHS => {
            all.extend(next);
            Watched::Paths(all)
        }
        _ => Watched::All,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// Waits until all of `paths` were told.
    fn wait(told: &Receiver<Watched>, paths: &[&str]) {
        let mut missing: BTreeSet<&str> = paths.iter().copied().collect();
        while !missing.is_empty() {
            let Ok(Watched::Paths(paths)) = told.recv_timeout(PATIENCE) else { panic!("nobody told of {missing:?}") };
            missing.retain(|path| !paths.contains(*path));
        }
    }

    #[test]
    fn changes_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir(root.join("x")).unwrap();
        fs::write(root.join("x/a.md"), "one").unwrap();
        let (send, told) = mpsc::channel();
        let watcher = Watcher::new(root, move |watched| send.send(watched).unwrap()).unwrap();

        fs::create_dir(root.join(".git")).unwrap();
        fs::write(root.join(".git/index"), "").unwrap();
        fs::write(root.join("x/a.md"), "two").unwrap();
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), Watched::Paths(BTreeSet::from(["x/a.md".to_owned()])));
        fs::write(root.join("new.md"), "").unwrap();
        wait(&told, &["new.md"]);
        fs::rename(root.join("x"), root.join("y")).unwrap();
        wait(&told, &["x", "y"]);
        fs::write(root.join("y/a.md"), "three").unwrap();
        wait(&told, &["y/a.md"]);
        fs::remove_file(root.join("new.md")).unwrap();
        wait(&told, &["new.md"]);
        fs::write(root.join(".gitignore"), "y").unwrap();
        wait(&told, &[".gitignore"]);
        fs::remove_dir_all(root).unwrap();
        wait(&told, &["y"]);
        drop(watcher);
        while told.recv_timeout(PATIENCE).is_ok() {}
    }

    #[test]
    fn a_flood_is_told_as_everything() {
        let paths = |count: usize| Watched::Paths((0..count).map(|number| number.to_string()).collect());
        assert_eq!(together(paths(MOST_PATHS), paths(1)), Watched::All);
        assert_eq!(together(Watched::All, paths(1)), Watched::All);
        assert_eq!(together(paths(1), paths(2)), paths(2));
    }

    #[test]
    fn a_folder_that_is_not_there_cannot_be_watched() {
        let error = Watcher::new(Path::new("/no/such/folder"), |_| {}).unwrap_err();
        assert!(error.to_string().contains("/no/such/folder"), "{error}");
    }
}
