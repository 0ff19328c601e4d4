//! The server's token, and the sign-in secrets derived from it: one-time codes, and keys of browsers.
//!
//! The token is a file outside of every vault. It contains the token itself and not its hash, because programs of the same user
//! need it: `foreword keys url` derives a code from it, and `foreword keys token` prints it for scripts. The file has mode 0600 in
//! a folder with mode 0700.
//!
//! Codes and page keys are signed with the token. They need no list on disk, survive a restart, and become invalid with the token.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use foreword_trust::private;
use ring::hmac;
use sha2::{Digest as _, Sha256};

use crate::clock::now_ms;

/// All secrets of this program begin like this. A text with this start is never taken for a provider's key.
pub(crate) const PREFIX: &str = "fw-";

/// How the token begins.
const TOKEN_PREFIX: &str = "fw-server-";

/// How a page's key begins.
const PAGE_PREFIX: &str = "fw-page.";

/// How long a code can be used.
const CODE_MS: i64 = 5 * 60 * 1000;

/// How long a page's key can be used.
const PAGE_MS: i64 = 30 * 24 * 60 * 60 * 1000;

/// Used codes that are remembered. Only who has the token can make codes, so this is never reached by guessing.
const MAX_USED: usize = 10_000;

/// The server's token.
#[derive(Clone, Debug)]
pub struct Token {
    text: Arc<Hidden>,
    signs: hmac::Key,
    /// When it was read. Codes from before that were perhaps used at an earlier server.
    since_ms: i64,
    used: Arc<Mutex<BTreeMap<String, i64>>>,
}

/// A text that is not shown.
struct Hidden(String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file.
    #[error("cannot store the server's token in {0}: {1}")]
    File(PathBuf, io::Error),
    /// The file is invalid.
    #[error("{0} is not a valid token file; delete it, and the next start creates a new one")]
    Damaged(PathBuf),
    /// Others may have read it.
    #[error("other users of this machine can read the token in {0}; delete the file, and the next start creates a new one")]
    Open(PathBuf),
    /// There is none yet.
    #[error("there is no token in {0} yet; `foreword serve` creates one at its first start")]
    Missing(PathBuf),
    /// The system.
    #[error("cannot create a secret: no random numbers from the system ({0})")]
    NoRandomness(String),
}

/// Where the token is, in the folder for state.
fn file(state: &Path) -> PathBuf {
    state.join("server-token")
}

/// A new secret text.
pub(crate) fn random(prefix: &str) -> Result<String, TokenError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| TokenError::NoRandomness(error.to_string()))?;
    Ok(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// Compares all bytes of the hashes, so that the timing reveals nothing.
pub(crate) fn is_same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.iter().zip(other).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
}

/// The hash of a secret.
pub(crate) fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

impl Token {
    /// Of its text.
    pub fn of(text: &str) -> Self {
        Self {
            text: Arc::new(Hidden(text.to_owned())),
            signs: hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes()),
            since_ms: now_ms(),
            used: Arc::default(),
        }
    }

    /// The token in the state folder, created if missing.
    pub fn open(state: &Path) -> Result<Self, TokenError> {
        let file = file(state);
        // Of two servers that start at once, the first makes the token of both.
        private::create_folder(state).map_err(|error| TokenError::File(file.clone(), error))?;
        if !file.try_exists().unwrap_or(false) {
            private::create(&file, &format!("{}\n", random(TOKEN_PREFIX)?)).map_err(|error| TokenError::File(file, error))?;
        }
        Self::read(state)
    }

    /// A new token. The old one ends, and all page keys with it.
    pub fn renew(state: &Path) -> Result<Self, TokenError> {
        let file = file(state);
        let text = random(TOKEN_PREFIX)?;
        private::write(&file, &format!("{text}\n")).map_err(|error| TokenError::File(file, error))?;
        Ok(Self::of(&text))
    }

    /// The token in the folder for state.
    pub fn read(state: &Path) -> Result<Self, TokenError> {
        let file = file(state);
        let wrong = |error| TokenError::File(file.clone(), error);
        let Some(text) = private::read(&file).map_err(wrong)? else { return Err(TokenError::Missing(file)) };
        if private::is_open_to_others(&file).map_err(wrong)? {
            return Err(TokenError::Open(file));
        }
        let text = text.trim();
        let secret = text.strip_prefix(TOKEN_PREFIX).unwrap_or_default();
        if URL_SAFE_NO_PAD.decode(secret).is_ok_and(|bytes| bytes.len() == 32) {
            Ok(Self::of(text))
        } else {
            Err(TokenError::Damaged(file))
        }
    }

    /// The token itself.
    pub fn expose(&self) -> &str {
        &self.text.0
    }

    /// Whether a text is the token.
    pub fn is(&self, text: &str) -> bool {
        is_same(&digest(self.expose()), &digest(text))
    }

    /// A code with which a browser gets a key of its own, at the server that listens on a port.
    pub fn code(&self, port: u16) -> Result<String, TokenError> {
        self.signed("", &format!("code {port}"), now_ms() + CODE_MS)
    }

    /// Takes a code at the server that listens on a port: once, and not after its end. Returns a key for the page.
    pub fn take_code(&self, port: u16, code: &str) -> Result<Option<String>, TokenError> {
        let now = now_ms();
        let Some((until_ms, nonce)) = self.read_signed("", &format!("code {port}"), code) else { return Ok(None) };
        if until_ms <= now || until_ms - CODE_MS < self.since_ms {
            return Ok(None);
        }
        {
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            used.retain(|_, until_ms| *until_ms > now);
            if used.len() >= MAX_USED || used.insert(nonce.to_owned(), until_ms).is_some() {
                return Ok(None);
            }
        }
        self.signed(PAGE_PREFIX, "page", now + PAGE_MS).map(Some)
    }

    /// Whether a text is a page's key.
    pub(crate) fn is_page_key(&self, text: &str) -> bool {
        self.read_signed(PAGE_PREFIX, "page", text).is_some_and(|(until_ms, _)| until_ms > now_ms())
    }

    /// A text with an end and a signature: `END.NONCE.SIGNATURE`.
    fn signed(&self, prefix: &str, purpose: &str, until_ms: i64) -> Result<String, TokenError> {
        let nonce = random("")?;
        let signature = hmac::sign(&self.signs, message(purpose, until_ms, &nonce).as_bytes());
        Ok(format!("{prefix}{until_ms}.{nonce}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Its end and its nonce, where the signature is ours. The signature is compared in constant time.
    fn read_signed<'a>(&self, prefix: &str, purpose: &str, text: &'a str) -> Option<(i64, &'a str)> {
        let mut parts = text.strip_prefix(prefix)?.split('.');
        let (until_ms, nonce, signature) = (parts.next()?, parts.next()?, parts.next()?);
        let until: i64 = until_ms.parse().ok().filter(|_| parts.next().is_none())?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        hmac::verify(&self.signs, message(purpose, until, nonce).as_bytes(), &signature).ok()?;
        Some((until, nonce))
    }
}

fn message(purpose: &str, until_ms: i64, nonce: &str) -> String {
    format!("foreword {purpose} {until_ms} {nonce}")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_token_is_made_once_and_read_from_then_on() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        assert!(matches!(Token::read(&state), Err(TokenError::Missing(_))));
        let token = Token::open(&state).unwrap();
        let text = token.expose().to_owned();
        assert!(text.len() >= 43 && text.starts_with(PREFIX));
        assert_eq!(Token::open(&state).unwrap().expose(), text);
        assert!(token.is(&text) && !token.is(&text[1..]) && !token.is("") && !token.is(&format!("{text} ")));
        assert!(!format!("{token:?}").contains(&text[TOKEN_PREFIX.len()..]));
        let new = Token::renew(&state).unwrap();
        assert!(!new.is(&text) && Token::read(&state).unwrap().is(new.expose()));
        for what in ["what else", "", "fw-server-", "0000000000000000000000000000000000000000000000000000000000000000"] {
            fs::write(file(&state), what).unwrap();
            assert!(matches!(Token::open(&state), Err(TokenError::Damaged(_))), "{what}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_token_that_others_can_read_or_that_is_elsewhere_is_refused() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        Token::open(&state).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&state), mode(&file(&state))), (0o700, 0o600));
        fs::set_permissions(file(&state), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Token::open(&state), Err(TokenError::Open(_))));
        fs::rename(file(&state), state.join("other")).unwrap();
        symlink(state.join("other"), file(&state)).unwrap();
        assert!(matches!(Token::open(&state), Err(TokenError::File(..))));
    }

    #[test]
    fn a_code_works_once_here_and_its_key_stays() {
        let token = Token::of("sesame");
        let code = token.code(4949).unwrap();
        assert_eq!(token.take_code(4950, &code).unwrap(), None, "it is for another port");
        assert_eq!(Token::of("other").take_code(4949, &code).unwrap(), None, "it is of another token");
        let key = token.take_code(4949, &code).unwrap().unwrap();
        assert_eq!(token.take_code(4949, &code).unwrap(), None, "it was used");
        // After a restart the key still works and the used code does not.
        std::thread::sleep(std::time::Duration::from_millis(5));
        let again = Token::of("sesame");
        assert!(again.is_page_key(&key) && !Token::of("other").is_page_key(&key));
        assert_eq!(again.take_code(4949, &code).unwrap(), None, "it is from before the start");
        assert!(!token.is(&key) && !token.is_page_key(&code) && !token.is_page_key("sesame"));
    }

    #[test]
    fn changed_and_old_signatures_are_refused() {
        let token = Token::of("sesame");
        let old = token.signed(PAGE_PREFIX, "page", now_ms() - 1).unwrap();
        let late = token.signed("", "code 1", now_ms() - 1).unwrap();
        assert!(!token.is_page_key(&old));
        assert_eq!(token.take_code(1, &late).unwrap(), None);
        let good = token.signed(PAGE_PREFIX, "page", now_ms() + PAGE_MS).unwrap();
        assert!(token.is_page_key(&good));
        let longer = good.replacen("fw-page.1", "fw-page.9", 1);
        let body = good.strip_prefix(PAGE_PREFIX).unwrap();
        let mut parts = body.split('.');
        let (until, nonce, signature) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        let table = [
            longer,
            body.to_owned(),
            format!("{good}."),
            format!("{good}.x"),
            format!("{PAGE_PREFIX}{until}.{nonce}."),
            format!("{PAGE_PREFIX}{until}.{nonce}"),
            format!("{PAGE_PREFIX}{until}..{signature}"),
            format!("{PAGE_PREFIX}+{until}.{nonce}.{signature}="),
            format!("{PAGE_PREFIX}{until}.{nonce}.{}", &signature[1..]),
            format!("{PAGE_PREFIX}{}.{nonce}.{signature}", i64::MAX),
            format!("{PAGE_PREFIX}{}.{nonce}.{signature}", "9".repeat(400)),
            PAGE_PREFIX.to_owned(),
            "..".to_owned(),
            String::new(),
        ];
        for text in table {
            assert!(!token.is_page_key(&text), "{text}");
        }
    }
}
