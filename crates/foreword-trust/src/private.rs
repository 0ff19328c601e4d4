//! Files that only the user can read: trust decisions, keys and the audit log. Symbolic links are refused, because they could
//! redirect reads and writes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// Creates a folder and its parents with access only for the user.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    if let Some(above) = folder.parent() {
        fs::create_dir_all(above)?;
    }
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    if fs::symlink_metadata(folder)?.is_dir() { Ok(()) } else { Err(refused(folder)) }
}

/// Reads a file; `None` where there is none.
pub fn read(file: &Path) -> io::Result<Option<String>> {
    match fs::symlink_metadata(file) {
        Ok(found) if found.is_file() => fs::read_to_string(file).map(Some),
        Ok(_) => Err(refused(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces a file atomically.
pub fn write(file: &Path, text: &str) -> io::Result<()> {
    let folder = file.parent().ok_or_else(|| refused(file))?;
    create_folder(folder)?;
    if fs::symlink_metadata(file).is_ok_and(|found| !found.is_file()) {
        return Err(refused(file));
    }
    // The temporary file has mode 0600 from the beginning.
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(text.as_bytes())?;
    temporary.as_file().sync_all()?;
    temporary.persist(file).map_err(|error| error.error)?;
    sync_folder(folder)
}

/// Creates an empty file if it does not exist.
pub fn touch(file: &Path) -> io::Result<()> {
    append(file, b"")
}

/// Creates a file atomically. Returns `false` if it exists.
pub fn create(file: &Path, text: &str) -> io::Result<bool> {
    let folder = file.parent().ok_or_else(|| refused(file))?;
    create_folder(folder)?;
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(text.as_bytes())?;
    temporary.as_file().sync_all()?;
    match temporary.persist_noclobber(file) {
        Ok(_) => sync_folder(folder).map(|()| true),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.error),
    }
}

/// Whether other users of this machine can read a file.
pub fn is_open_to_others(file: &Path) -> io::Result<bool> {
    #[cfg(unix)]
    return Ok(std::os::unix::fs::PermissionsExt::mode(&fs::symlink_metadata(file)?.permissions()) & 0o077 != 0);
    #[cfg(not(unix))]
    return fs::symlink_metadata(file).map(|_| false);
}

/// Appends a line to a file. It is on disk when this returns.
pub fn append_line(file: &Path, line: &str) -> io::Result<()> {
    // One write, so that lines of two processes do not mix.
    append(file, format!("{line}\n").as_bytes())
}

fn append(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = file.parent().ok_or_else(|| refused(file))?;
    create_folder(folder)?;
    if fs::symlink_metadata(file).is_ok_and(|found| !found.is_file()) {
        return Err(refused(file));
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600).custom_flags(libc::O_NOFOLLOW);
    }
    let mut opened = options.open(file)?;
    opened.write_all(bytes)?;
    opened.sync_data()
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

fn refused(path: &Path) -> io::Error {
    io::Error::other(format!("{} is a symbolic link or not a regular file or folder, so it is not used", path.display()))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn only_the_user_may_read_what_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/state");
        let (file, log) = (folder.join("trust.json"), folder.join("log"));
        write(&file, "one").unwrap();
        write(&file, "two").unwrap();
        append_line(&log, "a").unwrap();
        append_line(&log, "b").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&file), mode(&log)), (0o700, 0o600, 0o600));
        assert_eq!(read(&file).unwrap().as_deref(), Some("two"));
        assert_eq!(read(&log).unwrap().as_deref(), Some("a\nb\n"));
        assert_eq!(read(&folder.join("none")).unwrap(), None);
    }

    #[test]
    fn a_file_that_is_there_is_not_replaced_by_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("state/token");
        assert!(create(&file, "one").unwrap());
        assert!(!create(&file, "two").unwrap());
        assert_eq!(read(&file).unwrap().as_deref(), Some("one"));
        assert!(!is_open_to_others(&file).unwrap());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(is_open_to_others(&file).unwrap());
        let link = dir.path().join("state/link");
        symlink(dir.path().join("elsewhere"), &link).unwrap();
        assert!(!create(&link, "x").unwrap());
        assert!(!dir.path().join("elsewhere").exists());
    }

    #[test]
    fn links_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        fs::write(&target, "theirs").unwrap();
        symlink(&target, &link).unwrap();
        assert!(read(&link).is_err() && write(&link, "x").is_err() && append_line(&link, "x").is_err());
        let linked_folder = dir.path().join("folder");
        symlink(dir.path(), &linked_folder).unwrap();
        assert!(write(&linked_folder.join("new"), "x").is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "theirs");
    }
}
