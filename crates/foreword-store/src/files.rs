//! The files of a store: only their owner may read them, none of them is a symbolic link, and a store that is in use notices when one of
//! them is removed or replaced.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::cannot_open;
use crate::{Result, StoreError};

/// The suffixes of files beside a database.
const BESIDE: [&str; 5] = ["-wal", "-shm", "-journal", "-acknowledged", "-losses.txt"];

/// A file beside a database.
pub(crate) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Makes the folder and the file of a database where they are missing, and lets only their owner read them. Links are refused: they
/// would have the program read and write somewhere else.
pub(crate) fn prepare(database: &Path) -> Result<()> {
    let failed = |error: io::Error| cannot_open(database, error);
    private_folder(folder_of(database)).map_err(failed)?;
    if fs::symlink_metadata(database).is_err() {
        create_database(database).map_err(failed)?;
    }
    inspect(database)
}

/// Creates an empty database. It is linked into place before it is opened, because a process that closes a file loses all its
/// locks on it, including SQLite's.
fn create_database(database: &Path) -> io::Result<()> {
    let id = crate::new_session_id().map_err(io::Error::other)?;
    let new = beside(database, &format!(".{id}.new"));
    drop(create(&new)?);
    let named = fs::hard_link(&new, database);
    let _ = fs::remove_file(&new); // an empty file that nobody looks for
    match named {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // Where files have one name each.
        Err(_) => create(database).map(drop),
        Ok(()) => Ok(()),
    }
}

/// The same for a database that is only read: nothing is made.
pub(crate) fn inspect(database: &Path) -> Result<()> {
    let failed = |error: io::Error| cannot_open(database, error);
    let folder = folder_of(database);
    // The current folder is where the user is.
    if folder != Path::new("") && !fs::symlink_metadata(folder).map_err(failed)?.is_dir() {
        return Err(failed(refused(folder)));
    }
    private_file(database).map_err(failed)?;
    for suffix in BESIDE {
        match private_file(&beside(database, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    Ok(())
}

/// The folder of a database, empty for the current one.
fn folder_of(database: &Path) -> &Path {
    database.parent().unwrap_or(Path::new(""))
}

/// Where SQLite finds the database: the folder above the store's may be reached through links, the store itself may not.
pub(crate) fn resolved(database: &Path) -> io::Result<PathBuf> {
    let folder = folder_of(database);
    let (Some(name), Some(folder_name)) = (database.file_name(), folder.file_name()) else { return Ok(database.to_owned()) };
    let above = folder.parent().filter(|above| *above != Path::new("")).unwrap_or(Path::new("."));
    Ok(above.canonicalize()?.join(folder_name).join(name))
}

/// Makes a folder that only its owner may enter, and those above it.
pub(crate) fn private_folder(folder: &Path) -> io::Result<()> {
    if folder == Path::new("") {
        return Ok(());
    }
    if let Some(above) = folder.parent() {
        fs::create_dir_all(above)?;
    }
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() {
        return Err(refused(folder));
    }
    tighten(folder, &found);
    Ok(())
}

/// Makes a file that must not be there yet.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    create_options().open(path)
}

/// Opens a file to be locked, written or read, and makes it where it is missing.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    open_with(path, OpenOptions::new().create(true).truncate(false).read(true).write(true))
}

/// Opens a file that is there.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    open_with(path, OpenOptions::new().read(true).write(true))
}

fn create_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create_new(true).read(true).write(true);
    restrict(&mut options);
    options
}

fn open_with(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    restrict(options);
    match options.open(path) {
        Err(error) if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) => {
            Err(io::Error::new(error.kind(), refused(path)))
        }
        Err(error) => Err(error),
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        Ok(_) => Err(refused(path)),
    }
}

#[cfg(unix)]
fn restrict(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt as _;
    // A pipe in the place of a file must not keep whoever opens it waiting.
    options.mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
}

#[cfg(not(unix))]
fn restrict(_options: &mut OpenOptions) {}

/// Lets only the owner of a file read it.
fn private_file(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if !found.is_file() {
        return Err(refused(path));
    }
    tighten(path, &found);
    Ok(())
}

/// Takes away what others may do. Where that is not possible (another owner, a medium that cannot be written to), it stays.
#[cfg(unix)]
fn tighten(path: &Path, found: &fs::Metadata) {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = found.permissions().mode();
    // A folder with the sticky bit belongs to everyone.
    if mode & 0o077 != 0 && mode & 0o1000 == 0 {
        // On a file system without permissions there are none to set.
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o700));
    }
}

#[cfg(not(unix))]
fn tighten(_path: &Path, _found: &fs::Metadata) {}

fn refused(path: &Path) -> io::Error {
    io::Error::other(format!(
        "{} is a symbolic link or not a regular file or folder, so it is not used; replace it with the file or folder itself",
        path.display()
    ))
}

/// A file that is in use, as its path named it then.
#[derive(Clone, Debug)]
pub(crate) struct InUse {
    path: PathBuf,
    /// None where the system does not tell, or the file was not there.
    identity: Option<(u64, u64)>,
}

impl InUse {
    pub(crate) fn new(path: PathBuf) -> Self {
        let identity = identity(&path);
        Self { path, identity }
    }

    /// Whether its path still names it. What is written to a file without a name is lost with the process.
    pub(crate) fn check(&self) -> Result<()> {
        if self.identity.is_some() && identity(&self.path) != self.identity {
            return Err(StoreError::Gone { path: self.path.clone() });
        }
        Ok(())
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// A file that is in use cannot be removed or replaced there.
#[cfg(not(unix))]
fn identity(_path: &Path) -> Option<(u64, u64)> {
    None
}
