//! Keys for programs that use the gateway: each has a name, is shown once, and is stored as a hash outside of every vault. They
//! give access only to `/v1`.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use foreword_trust::audit::{Audit, AuditEvent};
use foreword_trust::private;
use serde::{Deserialize, Serialize};

use crate::clock::now_ms;
use crate::token::{PREFIX, TokenError, digest, is_same, random};

/// Keys that one user can have.
const MAX_KEYS: usize = 1000;

/// The longest name of a key.
const MAX_NAME: usize = 64;

/// A key, without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRow {
    /// What the user calls it.
    pub name: String,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: i64,
    /// The hash of its text.
    #[serde(with = "hex")]
    sha256: [u8; 32],
}

/// Why something could not be done with keys.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The file.
    #[error("cannot use the keys in {0}: {1}")]
    File(PathBuf, io::Error),
    /// The file is invalid.
    #[error("{0} is not a valid key file ({1}); delete it and create new keys with `foreword keys new`")]
    Damaged(PathBuf, serde_json::Error),
    /// A name.
    #[error("invalid key name {0:?}: use letters, digits, `.`, `_` and `-`, at most {MAX_NAME} characters")]
    Name(String),
    /// A name.
    #[error("key {0:?} already exists: choose another name, or delete it with `foreword keys delete {0}`")]
    Exists(String),
    /// A name.
    #[error("there is no key {0:?}; list keys with `foreword keys list`")]
    Unknown(String),
    /// Too many.
    #[error("the limit of {MAX_KEYS} keys is reached; delete some with `foreword keys delete NAME`")]
    Full,
    /// Randomness.
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// When a file was last replaced, and how long it is.
type Stamp = Option<(SystemTime, u64)>;

/// The keys in the folder for state. A server sees at once what another process changes.
#[derive(Debug)]
pub struct Keys {
    file: PathBuf,
    audit: Audit,
    read: Mutex<(Stamp, Vec<KeyRow>)>,
}

impl Keys {
    /// In the folder for state.
    pub fn new(state: &Path) -> Self {
        Self { file: state.join("gateway-keys.json"), audit: Audit::new(state), read: Mutex::default() }
    }

    /// All of them, in the order in which they were made.
    pub fn list(&self) -> Result<Vec<KeyRow>, KeysError> {
        let text = private::read(&self.file).map_err(|error| self.wrong(error))?;
        let Some(text) = text else { return Ok(Vec::new()) };
        serde_json::from_str(&text).map_err(|error| KeysError::Damaged(self.file.clone(), error))
    }

    /// Creates a key. Returns its name and its text, which is not stored.
    pub fn create(&self, name: Option<&str>) -> Result<(String, String), KeysError> {
        let _lock = self.lock()?;
        let mut keys = self.list()?;
        if keys.len() >= MAX_KEYS {
            return Err(KeysError::Full);
        }
        let is_taken = |name: &str| keys.iter().any(|key| key.name == name);
        let name = match name {
            Some(name) if !is_name(name) => return Err(KeysError::Name(name.to_owned())),
            Some(name) if is_taken(name) => return Err(KeysError::Exists(name.to_owned())),
            Some(name) => name.to_owned(),
            None => (1..=MAX_KEYS + 1).map(|number| format!("key-{number}")).find(|name| !is_taken(name)).unwrap_or_default(),
        };
        let text = random(PREFIX)?;
        keys.push(KeyRow { name: name.clone(), created_ms: now_ms(), sha256: digest(&text) });
        self.audit.record(AuditEvent::KeyCreated { name: name.clone() }).map_err(|error| self.wrong(error))?;
        self.store(&keys)?;
        Ok((name, text))
    }

    /// Deletes a key. It opens nothing from then on.
    pub fn delete(&self, name: &str) -> Result<(), KeysError> {
        let _lock = self.lock()?;
        let mut keys = self.list()?;
        let before = keys.len();
        keys.retain(|key| key.name != name);
        if keys.len() == before {
            return Err(KeysError::Unknown(name.to_owned()));
        }
        self.store(&keys)?;
        self.audit.record(AuditEvent::KeyDeleted { name: name.to_owned() }).map_err(|error| self.wrong(error))
    }

    /// Whether a text is one of the keys.
    pub fn has(&self, text: &str) -> bool {
        self.name(text).is_some()
    }

    /// The name of the key with that text. All of them are compared, so that the time it takes tells nothing.
    pub(crate) fn name(&self, text: &str) -> Option<String> {
        if !text.starts_with(PREFIX) {
            return None;
        }
        let stamp = std::fs::symlink_metadata(&self.file).ok().and_then(|found| Some((found.modified().ok()?, found.len())));
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.0 != stamp {
            // Keys that cannot be read let nobody in.
            *read = (stamp, self.list().unwrap_or_default());
        }
        let given = digest(text);
        read.1.iter().fold(None, |found, key| if is_same(&key.sha256, &given) { Some(key.name.clone()) } else { found })
    }

    /// Held while the file is changed, so that of two programs neither loses what the other wrote.
    fn lock(&self) -> Result<File, KeysError> {
        let lock = self.file.with_extension("lock");
        let locked = || {
            private::create(&lock, "")?;
            let file = OpenOptions::new().write(true).open(&lock)?;
            file.lock()?;
            Ok(file)
        };
        locked().map_err(|error| self.wrong(error))
    }

    fn store(&self, keys: &[KeyRow]) -> Result<(), KeysError> {
        let text = serde_json::to_string_pretty(keys).map_err(|error| self.wrong(io::Error::other(error)))?;
        private::write(&self.file, &format!("{text}\n")).map_err(|error| self.wrong(error))
    }

    fn wrong(&self, error: io::Error) -> KeysError {
        KeysError::File(self.file.clone(), error)
    }
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(fits)
}

/// A hash as text.
mod hex {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
        serializer.collect_str(&bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect::<String>())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(deserializer)?;
        let byte = |at: usize| text.get(2 * at..2 * at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let bytes: Option<Vec<u8>> = (0..32).map(byte).collect();
        let bytes = bytes.filter(|_| text.len() == 64).and_then(|bytes| bytes.try_into().ok());
        bytes.ok_or_else(|| D::Error::custom("expected 64 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_shown_once_and_kept_as_a_hash() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let (server, user) = (Keys::new(&state), Keys::new(&state));
        assert_eq!(user.list().unwrap(), []);
        assert!(!server.has("fw-x"));
        let (name, key) = user.create(None).unwrap();
        assert_eq!(name, "key-1");
        assert!(key.starts_with("fw-") && key.len() > 43);
        let text = std::fs::read_to_string(&server.file).unwrap();
        assert!(!text.contains(&key) && !text.contains(&key[3..]), "{text}");
        let (other, _) = user.create(Some("laptop")).unwrap();
        assert_eq!(user.create(None).unwrap().0, "key-2");
        assert_eq!(other, "laptop");
        assert!(server.has(&key));
        for wrong in ["", "fw-", &key[..key.len() - 1], &key[3..], &format!("{key} "), &key.to_uppercase()] {
            assert!(!server.has(wrong), "{wrong:?}");
        }
        assert!(matches!(user.create(Some("laptop")), Err(KeysError::Exists(_))));
        assert!(matches!(user.delete("nobody"), Err(KeysError::Unknown(_))));
        user.delete("key-1").unwrap();
        assert!(!server.has(&key));
        let log = std::fs::read_to_string(state.join("audit.jsonl")).unwrap();
        assert!(log.contains("key_created") && log.contains("key_deleted") && !log.contains(&key[3..]), "{log}");
    }

    #[test]
    fn names() {
        let check = |name: &str, good: bool| assert_eq!(is_name(name), good, "{name:?}");
        check("laptop", true);
        check("work_1.2-x", true);
        check("", false);
        check("a b", false);
        check("a\u{202e}b", false);
        check("../x", false);
        check(&"a".repeat(65), false);
    }

    #[test]
    fn a_damaged_file_lets_nobody_in() {
        let folder = tempfile::tempdir().unwrap();
        let keys = Keys::new(folder.path());
        let (_, key) = keys.create(None).unwrap();
        std::fs::write(&keys.file, "[{\"name\": \"x\", \"created_ms\": 1, \"sha256\": \"00\"}]").unwrap();
        assert!(matches!(keys.list(), Err(KeysError::Damaged(..))));
        assert!(!keys.has(&key));
    }
}
