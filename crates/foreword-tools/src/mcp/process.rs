//! A server's program. It gets few variables and a process group of its own, so that a key meant for us is not its to read, what is typed
//! at the terminal does not reach it, and everything it starts ends with it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::background::Guest;
use super::bounded::{Bounded, MAX_LINE};
use crate::program::search_folders;
use crate::sandbox::{self, Sandbox};

/// Our own variables that a program gets: where things are, who the user is, which language and time. Nothing that could be a key.
const INHERITED: [&str; 19] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TERM",
    "TZ",
    "TMPDIR",
    // Windows
    "APPDATA",
    "LOCALAPPDATA",
    "PATHEXT",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERPROFILE",
];

/// How long a program has to end by itself, and again after it was asked to.
const GRACE: Duration = Duration::from_millis(500);

/// The end of what a program writes to its standard error.
#[derive(Clone, Default)]
pub(super) struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    const KEPT: usize = 8 * 1024;

    fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        let too_many = kept.len().saturating_sub(Self::KEPT);
        kept.drain(..too_many);
    }

    /// As text that a terminal may show.
    pub(super) fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        super::listing::paragraphs(&String::from_utf8_lossy(&kept), Self::KEPT)
    }
}

/// How a program ended, once it has.
#[derive(Clone, Default)]
struct Exit(Arc<Mutex<Option<String>>>);

impl Exit {
    /// The system's words: `exit status: 1`.
    fn told(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A running program; dropping it ends it.
pub(super) struct Process {
    exit: Exit,
    exceeded: Arc<AtomicBool>,
    _end: oneshot::Sender<()>,
}

impl Process {
    /// Why it is not running any more, where it is not.
    pub(super) fn ended(&self) -> Option<String> {
        if self.exceeded.load(Ordering::Relaxed) {
            return Some(format!("it sent a message of more than {MAX_LINE} bytes"));
        }
        self.exit.told()
    }
}

/// A program as a configuration has it.
#[derive(Clone, Copy)]
pub(super) struct Program<'a> {
    pub(super) file: &'a Path,
    pub(super) args: &'a [String],
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) cwd: &'a Path,
    /// The sandbox, and the program that makes it.
    pub(super) sandbox: Option<(&'a Sandbox, &'a Path)>,
}

impl Program<'_> {
    fn command(&self) -> io::Result<Command> {
        for path in [self.file, self.cwd] {
            // A relative path would be looked for in the folder that we run in.
            if !path.is_absolute() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} is not an absolute path", path.display())));
            }
        }
        let env = environment(|name| std::env::var_os(name), self.env);
        let mut command = match self.sandbox {
            None => Command::new(self.file),
            Some((sandbox, bwrap)) => {
                let mut command = Command::new(bwrap);
                command.args(sandbox.arguments(&sandbox::Program { file: self.file, env: &env, cwd: self.cwd })).arg(self.file);
                command
            }
        };
        let is_set_inside = |name: &OsString| self.sandbox.is_some() && sandbox::is_for_the_loader(name);
        command.args(self.args).env_clear().envs(env.iter().filter(|(name, _)| !is_set_inside(name))).current_dir(self.cwd);
        Ok(command)
    }
}

/// The variables of a program: those of ours that every program needs, and those that are set for it. The `PATH` loses its relative
/// entries, which would mean something else in another folder.
fn environment(own: impl Fn(&str) -> Option<OsString>, set: &BTreeMap<String, String>) -> BTreeMap<OsString, OsString> {
    let mut env: BTreeMap<OsString, OsString> =
        INHERITED.iter().filter_map(|name| Some((OsString::from(name), own(name)?))).collect();
    if let Some(path) = env.remove(&OsString::from("PATH")) {
        let folders = std::env::join_paths(search_folders(&path, &[], None)).unwrap_or_default();
        // An empty one would mean the folder that the program runs in.
        if !folders.is_empty() {
            env.insert("PATH".into(), folders);
        }
    }
    env.extend(set.iter().map(|(name, value)| (name.into(), value.into())));
    env
}

/// Starts a program. To be called on the runtime; `guest` is held until the program has ended.
pub(super) fn start(program: &Program<'_>, tail: &Tail, guest: Guest) -> io::Result<(Process, Bounded<ChildStdout>, ChildStdin)> {
    let mut program = program.command()?;
    program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    #[cfg(unix)]
    program.process_group(0);
    let mut child = program.spawn()?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(io::Error::other("the program has no standard input, output or error"));
    };
    tokio::spawn(listen(stderr, tail.clone()));
    let (end, ended) = oneshot::channel();
    let (exit, exceeded) = (Exit::default(), Arc::new(AtomicBool::new(false)));
    tokio::spawn(watch(child, ended, exit.clone(), guest));
    let stdout = Bounded::new(stdout, Arc::clone(&exceeded));
    Ok((Process { exit, exceeded, _end: end }, stdout, stdin))
}

async fn listen(mut stderr: ChildStderr, tail: Tail) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = stderr.read(&mut buffer).await {
        tail.push(buffer.get(..length).unwrap_or_default());
    }
}

/// Sees a program to its end. Closed input is the sign to end; then it is asked to, then made to, with all that it started.
async fn watch(mut child: Child, ended: oneshot::Receiver<()>, exit: Exit, guest: Guest) {
    let group = child.id();
    let by_itself = tokio::select! {
        status = child.wait() => Some(status),
        _ = ended => if let Ok(status) = timeout(GRACE, child.wait()).await {
            Some(status)
        } else {
            signal(group, Signal::Term);
            timeout(GRACE, child.wait()).await.ok()
        },
    };
    signal(group, Signal::Kill);
    let status = if let Some(status) = by_itself {
        status
    } else {
        // It fails only if the program has ended already.
        let _ = child.start_kill();
        child.wait().await
    };
    *exit.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(match status {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    });
    drop(guest);
}

#[derive(Clone, Copy)]
enum Signal {
    Term,
    Kill,
}

/// To every process of a group. One that is gone already needs none.
#[cfg(unix)]
fn signal(group: Option<u32>, signal: Signal) {
    use rustix::process::{Pid, Signal as Kind, kill_process_group};
    let signal = match signal {
        Signal::Term => Kind::TERM,
        Signal::Kill => Kind::KILL,
    };
    if let Some(group) = group.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
        // It fails if all processes of the group have ended.
        let _ = kill_process_group(group, signal);
    }
}

#[cfg(not(unix))]
fn signal(_: Option<u32>, _: Signal) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a shell may hold that a program must not get: keys, and what makes a program load somebody's code.
    const WITHHELD: [&str; 24] = [
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "SSH_AUTH_SOCK",
        "GPG_AGENT_INFO",
        "DBUS_SESSION_BUS_ADDRESS",
        "XDG_RUNTIME_DIR",
        "DOCKER_HOST",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "PYTHONHOME",
        "NODE_OPTIONS",
        "NODE_PATH",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "DYLD_INSERT_LIBRARIES",
        "RUBYOPT",
        "PERL5OPT",
        "BASH_ENV",
        "ENV",
        "JAVA_TOOL_OPTIONS",
        "HTTPS_PROXY",
    ];

    #[test]
    fn a_program_gets_what_every_program_needs_and_what_is_set_for_it() {
        // A shell in which every variable has a value.
        let env = environment(|name| Some(format!("/{name}").into()), &BTreeMap::from([("TOKEN".to_owned(), "x".to_owned())]));
        for name in WITHHELD {
            assert!(!env.contains_key(&OsString::from(name)), "{name}");
        }
        assert_eq!(env.len(), INHERITED.len() + 1);
        assert_eq!(env[&OsString::from("TOKEN")], "x");
        let set = environment(|_| None, &BTreeMap::from([("NODE_OPTIONS".to_owned(), "--x".to_owned())]));
        assert_eq!(set.into_iter().collect::<Vec<_>>(), [("NODE_OPTIONS".into(), "--x".into())], "what is set was consented to");
    }

    #[cfg(unix)]
    #[test]
    fn a_path_is_absolute() {
        let check = |path: &str, expect: Option<&str>| {
            let env = environment(|name| (name == "PATH").then(|| path.into()), &BTreeMap::new());
            assert_eq!(env.get(&OsString::from("PATH")), expect.map(OsString::from).as_ref(), "{path}");
        };
        check("/usr/bin:/bin", Some("/usr/bin:/bin"));
        check(".:/usr/bin:", Some("/usr/bin"));
        check("bin:./x:../y:/usr/bin::/bin", Some("/usr/bin:/bin"));
        check(".", None);
        check("", None);
    }
}
