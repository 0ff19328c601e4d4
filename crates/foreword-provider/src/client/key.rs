//! Keys. They come from outside when they are needed, are kept in memory only, and are never part of a message.

use std::fmt;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::Mutex;

/// A key is a line; a command that prints more than this prints something else.
const MAX_KEY: u64 = 16 << 10;
/// A command may ask a person for a password.
const COMMAND_LIMIT: Duration = Duration::from_mins(2);

/// A text that is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text` from being shown.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one who needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Where a key comes from. A keyring of the system is asked by a command: `secret-tool lookup …`, `security find-generic-password -w …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// The provider wants none.
    None,
    /// A variable of the environment.
    Env(String),
    /// What a command of the shell prints, without the space around it.
    Command(String),
    /// Given by the caller.
    Given(Secret),
}

/// A key that could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The variable is not there.
    #[error("looking for the provider's key: the environment has no {name}; set it, or name another source for the key")]
    NoVariable {
        /// Its name.
        name: String,
    },
    /// The command failed.
    #[error("looking for the provider's key: the command `{command}` {why}; run it in a terminal to see what it prints")]
    Command {
        /// The command.
        command: String,
        /// What happened.
        why: String,
    },
    /// It cannot be a key.
    #[error("looking for the provider's key: it has characters that no key has; check where it comes from")]
    Characters,
}

/// A key, once it was asked for.
#[derive(Debug)]
pub(super) struct Key {
    source: KeySource,
    known: Mutex<Option<Secret>>,
}

impl Key {
    pub(super) fn new(source: KeySource) -> Self {
        Self { source, known: Mutex::new(None) }
    }

    /// The key; none where the provider wants none. A command runs once, however many ask.
    pub(super) async fn get(&self) -> Result<Option<Secret>, KeyError> {
        match &self.source {
            KeySource::None => Ok(None),
            KeySource::Given(key) => Ok(Some(key.clone())),
            KeySource::Env(name) => {
                let value = std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
                value.map(|value| Some(Secret(value))).ok_or_else(|| KeyError::NoVariable { name: name.clone() })
            }
            KeySource::Command(command) => {
                let mut known = self.known.lock().await;
                if known.is_none() {
                    *known = Some(run(command).await?);
                }
                Ok(known.clone())
            }
        }
    }

    /// Forgets what a command printed: the provider no longer takes it.
    pub(super) async fn forget(&self) {
        *self.known.lock().await = None;
    }
}

async fn run(command: &str) -> Result<Secret, KeyError> {
    let failed = |why: String| KeyError::Command { command: command.to_owned(), why };
    let (shell, flag) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    let mut child = Command::new(shell)
        .args([flag, command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| failed(format!("could not be started ({error})")))?;
    let out = child.stdout.take();
    let ended = async {
        let mut text = Vec::new();
        if let Some(out) = out {
            out.take(MAX_KEY).read_to_end(&mut text).await?;
        }
        Ok::<_, std::io::Error>((child.wait().await?, text))
    };
    let (status, text) = tokio::time::timeout(COMMAND_LIMIT, ended)
        .await
        .map_err(|_| failed(format!("was not done within {} seconds", COMMAND_LIMIT.as_secs())))?
        .map_err(|error| failed(format!("could not be read ({error})")))?;
    if !status.success() {
        return Err(failed(format!("failed ({status})")));
    }
    match String::from_utf8(text).map(|text| text.trim().to_owned()) {
        Ok(text) if text.is_empty() => Err(failed("printed nothing".to_owned())),
        Ok(text) => Ok(Secret(text)),
        Err(_) => Err(KeyError::Characters),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn keys_come_from_outside() {
        let check = |source: KeySource, expect: Result<Option<&str>, &str>| {
            let shown = format!("{source:?}");
            let found = block_on(Key::new(source).get());
            match (&found, expect) {
                (Ok(found), Ok(expect)) => assert_eq!(found.as_ref().map(Secret::expose), expect, "{shown}"),
                (Err(error), Err(expect)) => assert!(error.to_string().contains(expect), "{error}"),
                _ => panic!("{shown}: {found:?}"),
            }
        };
        check(KeySource::None, Ok(None));
        check(KeySource::Given(Secret::new("k")), Ok(Some("k")));
        check(KeySource::Env("PATH_THAT_NOBODY_SETS".to_owned()), Err("no PATH_THAT_NOBODY_SETS"));
        check(KeySource::Command("printf '  k1\\n'".to_owned()), Ok(Some("k1")));
        check(KeySource::Command("true".to_owned()), Err("printed nothing"));
        check(KeySource::Command("exit 3".to_owned()), Err("failed (exit status: 3)"));
        check(KeySource::Command("printf '\\377'".to_owned()), Err("no key has"));
    }

    #[test]
    fn a_command_runs_once_until_its_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("count");
        let key = Key::new(KeySource::Command(format!("echo x >> '{0}'; wc -l < '{0}'", count.display())));
        block_on(async {
            for _ in 0..3 {
                assert_eq!(key.get().await.unwrap().unwrap().expose(), "1");
            }
            key.forget().await;
            assert_eq!(key.get().await.unwrap().unwrap().expose(), "2");
        });
    }

    #[test]
    fn a_secret_is_not_shown() {
        let source = KeySource::Given(Secret::new("sk-1234"));
        assert!(!format!("{source:?} {:?}", Key::new(source.clone())).contains("1234"));
    }
}
