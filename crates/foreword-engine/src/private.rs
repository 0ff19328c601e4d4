//! Files that only the user may read: trust decisions, keys, the audit log. A symbolic link in their place is refused, because it
//! would make the program write or read somewhere else.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// Makes a folder, and those above it, that only the user may enter.
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

/// Replaces a file in one step: after a crash it holds the old text or the new one.
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

/// Adds one line at the end of a file. The line is on disk when this returns.
pub fn append_line(file: &Path, line: &str) -> io::Result<()> {
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
    // One write, so that lines of two processes do not mix.
    opened.write_all(format!("{line}\n").as_bytes())?;
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
    io::Error::other(format!("{} is a symbolic link or not an ordinary file or folder; it is not used", path.display()))
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
