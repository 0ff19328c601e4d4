//! API keys. They are looked up when needed, kept only in memory, and never part of a message.

use std::fmt;
use std::process::Stdio;
use std::time::Duration;

use foreword_program::Surroundings;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::Mutex;

/// The longest output of a command that is read as a key.
const MAX_KEY: u64 = 16 << 10;
/// The time limit of a command, which may ask the user for a password.
const COMMAND_LIMIT: Duration = Duration::from_mins(2);

/// Additional environment variables for the keyring program.
const KEYRING_TEXT: [&str; 3] = ["DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY"];
/// The same, for variables with paths.
const KEYRING_PATHS: [&str; 2] = ["XDG_RUNTIME_DIR", "XAUTHORITY"];

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The source of an API key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// The provider needs no key.
    None,
    /// An environment variable.
    Env(String),
    /// The output of a shell command, without surrounding whitespace.
    Command(String),
    /// The system's keyring, read with the system's own program: the password of the service `foreword` for this account.
    Keyring(String),
    /// A key from the caller.
    Given(Secret),
}

impl KeySource {
    /// Whether there is a key, as far as can be told without running a program.
    pub fn check(&self) -> Result<(), KeyError> {
        match self {
            Self::Env(name) => from_environment(name).map(|_| ()),
            Self::None | Self::Command(_) | Self::Keyring(_) | Self::Given(_) => Ok(()),
        }
    }
}

fn from_environment(name: &str) -> Result<Secret, KeyError> {
    let value = std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    value.map(Secret).ok_or_else(|| KeyError::NoVariable { name: name.to_owned() })
}

/// A key that could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The environment variable is not set.
    #[error("API key not found: the environment variable {name} is not set; set it, or configure another source for the key")]
    NoVariable {
        /// The variable's name.
        name: String,
    },
    /// The command failed.
    #[error("API key not found: the command `{command}` {why}; run it in a terminal to see its output")]
    Command {
        /// The command.
        command: String,
        /// The cause.
        why: String,
    },
    /// The keyring has no key or cannot be read.
    #[error("API key not found: the keyring program `{program}` {why}; store the key with: {store}")]
    Keyring {
        /// The keyring program.
        program: &'static str,
        /// The cause.
        why: String,
        /// The command that stores a key.
        store: String,
    },
    /// The account name is invalid.
    #[error("invalid keyring account {0:?}: use at most 64 letters, digits, `.`, `_` and `-`, beginning with a letter")]
    Account(String),
    /// The key contains invalid characters.
    #[error("invalid API key: it contains characters that keys cannot have; check its source")]
    Characters,
}

/// How to read from the system's keyring and how to store a key in it.
struct Keyring {
    program: &'static str,
    ask: Vec<String>,
    store: String,
}

impl Keyring {
    fn of(account: &str) -> Result<Self, KeyError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let named = account.starts_with(|c: char| c.is_ascii_alphabetic()) && account.len() <= 64 && account.chars().all(fits);
        if !named {
            return Err(KeyError::Account(account.chars().take(64).collect()));
        }
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        Ok(if cfg!(target_os = "macos") {
            Self {
                program: "security",
                ask: words(&format!("find-generic-password -s foreword -a {account} -w")),
                store: format!("security add-generic-password -s foreword -a {account} -w"),
            }
        } else {
            Self {
                program: "secret-tool",
                ask: words(&format!("lookup service foreword account {account}")),
                store: format!("secret-tool store --label='Foreword {account}' service foreword account {account}"),
            }
        })
    }

    async fn key(&self) -> Result<Secret, KeyError> {
        let failed = |why: String| KeyError::Keyring { program: self.program, why, store: self.store.clone() };
        let surroundings = Surroundings::of_process();
        let program = surroundings.find(self.program).map_err(|error| failed(format!("could not be started ({error})")))?;
        let mut program = Command::new(program);
        // It needs the way to the user's session, and no other provider's key.
        program.args(&self.ask).env_clear().envs(surroundings.environment(&KEYRING_TEXT, &KEYRING_PATHS));
        program.current_dir(surroundings.neutral_folder());
        line_of(&mut program).await?.map_err(failed)
    }
}

/// A key, looked up on first use.
#[derive(Debug)]
pub(super) struct Key {
    source: KeySource,
    known: Mutex<Option<Secret>>,
}

impl Key {
    pub(super) fn new(source: KeySource) -> Self {
        Self { source, known: Mutex::new(None) }
    }

    /// Whether the provider needs a key.
    pub(super) fn is_needed(&self) -> bool {
        self.source != KeySource::None
    }

    /// The key; `None` if the provider needs none. A program runs only once for all callers.
    pub(super) async fn get(&self) -> Result<Option<Secret>, KeyError> {
        match &self.source {
            KeySource::None => Ok(None),
            KeySource::Given(key) => Ok(Some(key.clone())),
            KeySource::Env(name) => from_environment(name).map(Some),
            KeySource::Command(command) => self.once(shell(command)).await,
            KeySource::Keyring(account) => self.once(async { Keyring::of(account)?.key().await }).await,
        }
    }

    /// The output of a program, cached after the first run.
    async fn once(&self, ask: impl Future<Output = Result<Secret, KeyError>>) -> Result<Option<Secret>, KeyError> {
        let mut known = self.known.lock().await;
        if known.is_none() {
            *known = Some(ask.await?);
        }
        Ok(known.clone())
    }

    /// Forgets the cached key, because the provider rejects it.
    pub(super) async fn forget(&self) {
        *self.known.lock().await = None;
    }
}

/// Runs the user's own command with the full environment. The working directory may be an untrusted vault, so the command runs
/// elsewhere and programs are not looked up there.
async fn shell(command: &str) -> Result<Secret, KeyError> {
    let (shell, flag) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    let failed = |why: String| KeyError::Command { command: command.to_owned(), why };
    let surroundings = Surroundings::of_process();
    let shell = surroundings.find(shell).map_err(|error| failed(format!("could not be started ({error})")))?;
    let mut program = Command::new(shell);
    program.args([flag, command]).env("PATH", surroundings.search_path()).current_dir(surroundings.neutral_folder());
    line_of(&mut program).await?.map_err(failed)
}

/// A program's output without surrounding whitespace, or why it failed.
async fn line_of(program: &mut Command) -> Result<Result<Secret, String>, KeyError> {
    let program = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = match program.spawn() {
        Ok(child) => child,
        Err(error) => return Ok(Err(format!("could not be started ({error})"))),
    };
    let out = child.stdout.take();
    let ended = async {
        let mut text = Vec::new();
        if let Some(out) = out {
            out.take(MAX_KEY).read_to_end(&mut text).await?;
        }
        Ok::<_, std::io::Error>((child.wait().await?, text))
    };
    let (status, text) = match tokio::time::timeout(COMMAND_LIMIT, ended).await {
        Err(_) => return Ok(Err(format!("did not finish within {} seconds", COMMAND_LIMIT.as_secs()))),
        Ok(Err(error)) => return Ok(Err(format!("could not be read ({error})"))),
        Ok(Ok(ended)) => ended,
    };
    if !status.success() {
        return Ok(Err(format!("failed ({status})")));
    }
    match String::from_utf8(text).map(|text| text.trim().to_owned()) {
        Ok(text) if text.is_empty() => Ok(Err("printed nothing".to_owned())),
        Ok(text) => Ok(Ok(Secret(text))),
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
        check(KeySource::Env("PATH_THAT_NOBODY_SETS".to_owned()), Err("PATH_THAT_NOBODY_SETS is not set"));
        check(KeySource::Command("printf '  k1\\n'".to_owned()), Ok(Some("k1")));
        check(KeySource::Command("true".to_owned()), Err("printed nothing"));
        check(KeySource::Command("exit 3".to_owned()), Err("failed (exit status: 3)"));
        check(KeySource::Command("printf '\\377'".to_owned()), Err("keys cannot have"));
    }

    #[test]
    fn a_keyring_is_asked_by_its_own_program_and_an_error_says_how_to_store_a_key() {
        let keyring = |program: &'static str, ask: &[&str]| {
            let ask = ask.iter().map(|&word| word.to_owned()).collect();
            block_on(Keyring { program, ask, ..Keyring::of("anthropic").unwrap() }.key())
        };
        assert_eq!(keyring("echo", &["sk-1"]), Ok(Secret::new("sk-1")));
        for (program, why) in [("false", "failed"), ("true", "printed nothing"), ("no-such-program", "could not be started")] {
            let error = keyring(program, &[]).unwrap_err().to_string();
            assert!(
                error.contains(why) && error.contains("service foreword account anthropic") || cfg!(target_os = "macos"),
                "{error}"
            );
        }
        let check = |account: &str, good: bool| assert_eq!(Keyring::of(account).is_ok(), good, "{account}");
        check("openai", true);
        check("work.open-ai_2", true);
        check("", false);
        check("-x", false);
        check("a b", false);
        check("a;b", false);
        check(&"a".repeat(65), false);
    }

    #[test]
    fn commands_run_outside_of_the_working_directory() {
        let key = |command: &str| block_on(Key::new(KeySource::Command(command.to_owned())).get()).unwrap().unwrap();
        let current = std::env::current_dir().unwrap();
        assert_ne!(key("pwd -P").expose(), current.canonicalize().unwrap().to_str().unwrap());
        let path = key("echo \"$PATH\"");
        assert!(std::env::split_paths(path.expose()).all(|folder| folder.is_absolute() && !folder.starts_with(&current)));
        // The keyring's program sees no keys.
        let ask = vec!["-c".to_owned(), "env | grep -c -e _KEY= -e TOKEN= -e ^CARGO || true".to_owned()];
        let keyring = Keyring { program: "sh", ask, ..Keyring::of("anthropic").unwrap() };
        assert_eq!(block_on(keyring.key()).unwrap().expose(), "0");
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
