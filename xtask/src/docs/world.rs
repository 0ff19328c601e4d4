//! Where the shown commands run: a copy of the examples, with a home folder of its own.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::block::PROMPT;

/// A command that takes longer hangs.
const PATIENCE: Duration = Duration::from_mins(5);

/// A folder with the examples in it, which is gone afterwards.
pub(super) struct World {
    folder: TempDir,
    /// The folder of the program, which the shell looks in first.
    path: std::ffi::OsString,
    models: Option<PathBuf>,
    cache: PathBuf,
}

/// What a command did.
pub(super) struct Done {
    pub(super) exit: i32,
    pub(super) output: Vec<String>,
}

impl World {
    /// `cache` is shared by all of them, so that every text is embedded once.
    pub(super) fn new(root: &Path, bin: &Path, models: Option<&Path>, cache: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("foreword-docs").tempdir().context("a folder to run in cannot be made")?;
        copy(&root.join("examples"), &folder.path().join("examples"))?;
        for name in ["home", "bin"] {
            fs::create_dir(folder.path().join(name)).context("a folder to run in cannot be made")?;
        }
        // In a folder of its own: nothing else that cargo builds is to be found by its name.
        let linked = folder.path().join("bin").join("foreword");
        if fs::hard_link(bin, &linked).is_err() {
            fs::copy(bin, &linked).context("the program cannot be copied")?;
        }
        let usual = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(folder.path().join("bin")).chain(std::env::split_paths(&usual));
        let path = std::env::join_paths(all).context("PATH cannot be used")?;
        let world = Self { folder, path, models: models.map(Path::to_owned), cache: cache.to_owned() };
        // A search waits two seconds for embeddings: on a slow machine the first one would find less than the page shows.
        let done = world.run("foreword index examples/vault", &[])?;
        ensure!(done.exit == 0, "the example vault cannot be indexed: {}", done.output.join("\n"));
        Ok(world)
    }

    /// Runs a line as a shell does, and types into it.
    pub(super) fn run(&self, line: &str, typed: &[String]) -> Result<Done> {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec 2>&1; exec {line}")]).current_dir(self.folder.path());
        command.env_clear().env("PATH", &self.path).env("HOME", self.folder.path().join("home"));
        // For a dumb terminal the chat prints its prompt even if the input is a pipe.
        command.envs([("TERM", "dumb"), ("NO_COLOR", "1"), ("TZ", "UTC"), ("LC_ALL", "C.UTF-8")]);
        command.env("FOREWORD_CACHE", &self.cache);
        command.envs(self.models.as_ref().map(|models| ("FOREWORD_MODELS", models)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().context("a shell cannot be started")?;
        if let Some(mut stdin) = child.stdin.take() {
            let words: String = typed.iter().flat_map(|line| [line, "\n"]).collect();
            // A program may end without reading its input; its output and exit code are checked below.
            drop(stdin.write_all(words.as_bytes()));
        }
        let mut stdout = child.stdout.take().context("the output cannot be read")?;
        let (sender, printed) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = stdout.read_to_end(&mut bytes).map(|_| bytes);
            // After `PATIENCE` the receiver is gone.
            drop(sender.send(read));
        });
        let Ok(bytes) = printed.recv_timeout(PATIENCE) else {
            child.kill().with_context(|| format!("`{line}` cannot be ended"))?;
            bail!("`{line}` did not end within {} s", PATIENCE.as_secs());
        };
        let bytes = bytes.with_context(|| format!("the output of `{line}` cannot be read"))?;
        let status = child.wait().with_context(|| format!("`{line}` was not finished"))?;
        let folder = format!("{}/", self.folder.path().display());
        let text = String::from_utf8_lossy(&bytes).replace(&folder, "");
        let output = echoed(text.trim_end(), typed).lines().map(str::to_owned).collect();
        Ok(Done { exit: status.code().unwrap_or(-1), output })
    }
}

/// What a person sees who types: each line behind its prompt.
fn echoed(text: &str, typed: &[String]) -> String {
    if typed.is_empty() {
        return text.to_owned();
    }
    let mut seen = String::new();
    let mut rest = text;
    for line in typed {
        let Some((before, after)) = rest.split_once(PROMPT) else { break };
        seen.extend([before, PROMPT, line, "\n"]);
        rest = after;
    }
    // The last prompt is where the input ends.
    let (before, after) = rest.split_once(PROMPT).unwrap_or((rest, ""));
    seen + before + after
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("{} cannot be made", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("{} cannot be listed", from.display()))? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        // What a chat in the examples left behind is not part of them.
        if entry.file_name() == ".foreword" || entry.file_name() == "Chats" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::copy(&path, &target).with_context(|| format!("{} cannot be copied", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::echoed;

    #[test]
    fn what_a_person_types_is_seen() {
        let typed = ["one".to_owned(), "two".to_owned()];
        assert_eq!(echoed("hello\n› first\n› second\n› bye\n", &typed), "hello\n› one\nfirst\n› two\nsecond\nbye\n");
        assert_eq!(echoed("as it is › here\n", &[]), "as it is › here\n");
        assert_eq!(echoed("ended\n", &typed), "ended\n");
    }
}
