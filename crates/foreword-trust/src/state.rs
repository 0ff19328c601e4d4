//! The `.foreword` folder of a vault contains sessions and undo records. If it came with the vault, it is not used until the user
//! trusts it, because its sessions could be forged or its database damaged. Until then, state is stored outside of the vault.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use foreword_store::{Sqlite, Store as _};

use super::claim::STATE;
use super::record::{self, Record};
use super::{Claim, ClaimKind, TrustError};
use crate::places::Places;
use crate::private;

/// The folder in a vault.
pub(super) const FOLDER: &str = ".foreword";

/// The file that identifies the folder; the user's record of the vault has the same ID.
const MARK: &str = "state-id";

/// The database file.
const DATABASE: &str = "foreword.db";

/// The largest number of entries to count.
const MAX_COUNTED: usize = 10_000;

/// The location of a vault's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFolder {
    /// The folder, which may not exist yet.
    pub path: PathBuf,
    /// Whether the vault has an untrusted `.foreword` folder, so that `path` is outside of the vault.
    pub outside: bool,
}

impl StateFolder {
    /// The database of sessions.
    pub fn store(&self) -> PathBuf {
        self.path.join(DATABASE)
    }
}

/// The state of `.foreword` in a vault.
enum Standing {
    /// It is missing or empty.
    Free,
    /// It belongs to this user.
    Own,
    /// It was copied here or created by someone else; with its ID.
    Foreign(Option<String>),
    /// It is a link or a file.
    Unusable,
}

fn standing(root: &Path, record: &Record) -> Standing {
    let folder = root.join(FOLDER);
    match fs::symlink_metadata(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Standing::Free,
        Ok(found) if found.is_dir() => {}
        _ => return Standing::Unusable,
    }
    let mark = mark(&folder);
    if mark.is_some() && mark == record.state_id {
        return Standing::Own;
    }
    match fs::read_dir(&folder).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Standing::Free,
        _ => Standing::Foreign(mark),
    }
}

fn mark(folder: &Path) -> Option<String> {
    /// The largest ID file; IDs have 32 characters.
    const MAX_MARK: u64 = 100;
    let file = folder.join(MARK);
    if fs::symlink_metadata(&file).ok()?.len() > MAX_MARK {
        return None;
    }
    let text = private::read(&file).ok()??;
    let text = text.trim();
    (text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| text.to_owned())
}

/// The location of a vault's state.
pub(super) fn folder(places: &Places, root: &Path, record: &Record) -> StateFolder {
    match standing(root, record) {
        Standing::Free | Standing::Own => StateFolder { path: root.join(FOLDER), outside: false },
        Standing::Foreign(_) | Standing::Unusable => StateFolder { path: outside(places, root), outside: true },
    }
}

/// The location while the vault's own folder is not used.
pub(super) fn outside(places: &Places, root: &Path) -> PathBuf {
    let vault = places.vault(root);
    places.state.join("vaults").join(vault.file_name().unwrap_or_default())
}

/// Creates the folder and its ID if needed.
pub(super) fn make(places: &Places, root: &Path) -> Result<StateFolder, TrustError> {
    let file = record::file(places, root);
    let record = Record::load(&file, root)?;
    let found = folder(places, root, &record);
    let failed = |error| TrustError::File { file: found.path.clone(), error };
    if found.outside {
        private::create_folder(&found.path).map_err(failed)?;
        return Ok(found);
    }
    if matches!(standing(root, &record), Standing::Free) {
        Record::update(&file, root, |record| own(root, record))?.1.map_err(failed)?;
    }
    Ok(found)
}

/// Creates the folder if it is still missing, and records its ID.
fn own(root: &Path, record: &mut Record) -> io::Result<()> {
    let folder = root.join(FOLDER);
    // Another process may have made and marked it meanwhile.
    if let Standing::Free = standing(root, record) {
        private::create_folder(&folder)?;
        adopt(root, record)?;
    }
    Ok(())
}

/// Records the existing folder as trusted.
pub(super) fn adopt(root: &Path, record: &mut Record) -> io::Result<()> {
    let folder = root.join(FOLDER);
    if !fs::symlink_metadata(&folder)?.is_dir() {
        return Err(io::Error::other(format!("{} is not a folder", folder.display())));
    }
    // A new mark, since the one that came with the folder may be known to others.
    let mark = new_mark()?;
    private::write(&folder.join(MARK), &format!("{mark}\n"))?;
    record.state_id = Some(mark);
    Ok(())
}

fn new_mark() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(format!("no random numbers from the system ({error})")))?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// The claim about a folder that came with the vault.
pub(super) fn claim(root: &Path, record: &Record) -> Option<Claim> {
    let Standing::Foreign(mark) = standing(root, record) else { return None };
    let folder = root.join(FOLDER);
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten().take(MAX_COUNTED);
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let effects = vec![
        format!("uses the sessions, undo records and history in {FOLDER}: {}", foreword_core::json::to_string(&names.into())),
        "the text of these sessions is part of the prompt when you continue them".to_owned(),
    ];
    Some(Claim {
        id: STATE.to_owned(),
        kind: ClaimKind::State,
        title: format!("state in {FOLDER} that came with this folder (copied, unpacked or created by someone else)"),
        effects,
        file: FOLDER.to_owned(),
        content: mark.unwrap_or_else(|| "a folder without a mark".to_owned()),
        program: false,
    })
}

/// Copies the sessions of one store to another and sets the first one aside.
pub(super) fn bring_in(from: &StateFolder, to: &StateFolder) -> Result<(usize, usize), TrustError> {
    let failed = |error: &dyn std::fmt::Display| TrustError::Sessions { folder: from.path.clone(), error: error.to_string() };
    let source = Sqlite::open_existing(&from.store()).map_err(|error| failed(&error))?;
    let mut target = Sqlite::open(&to.store()).map_err(|error| failed(&error))?;
    let ids = |store: &Sqlite| -> Result<Vec<String>, TrustError> {
        Ok(store.sessions().map_err(|error| failed(&error))?.into_iter().map(|session| session.id).collect())
    };
    let known = ids(&target)?;
    let (mut moved, mut left) = (0, 0);
    for id in ids(&source)? {
        if known.contains(&id) {
            left += 1;
            continue;
        }
        let dump = source.dump(&id).map_err(|error| failed(&error))?;
        target.load(&dump).map_err(|error| failed(&error))?;
        moved += 1;
    }
    drop(source);
    // The next start would find them again; what is here stays as a copy.
    let mut aside = from.path.with_extension("moved");
    let mut number = 1;
    while aside.exists() && number < MAX_COUNTED {
        number += 1;
        aside = from.path.with_extension(format!("moved-{number}"));
    }
    fs::rename(&from.path, &aside).map_err(|error| failed(&error))?;
    Ok((moved, left))
}
