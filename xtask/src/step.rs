//! What a person sees of a chore: each step's command, how long it took, and at the end which steps failed.

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fmt};

use anyhow::{Context, Result, bail};

/// The steps of one chore. Results belong to stdout, so everything here goes to stderr.
pub(crate) struct Steps {
    colour: Colour,
    failed: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Colour {
    On,
    Off,
}

#[derive(Clone, Copy)]
enum Tone {
    Heading,
    Good,
    Bad,
    Note,
}

impl Steps {
    /// No step run yet. Colour is for terminals, and for people who have not set `NO_COLOR`.
    pub(crate) fn on_stderr() -> Self {
        let wanted = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let colour = if wanted && io::stderr().is_terminal() { Colour::On } else { Colour::Off };
        Self { colour, failed: Vec::new() }
    }

    /// Runs a command that talks to the person itself. A failure is kept for [`Steps::finish`], so that the steps after it
    /// still run and one round shows all there is to repair.
    pub(crate) fn run(&mut self, command: &mut Command) -> Result<()> {
        let title = title(command);
        self.heading(&title)?;
        let start = Instant::now();
        let status = command.status().with_context(|| format!("cannot start `{title}`"))?;
        if status.success() {
            self.ended(Tone::Good, "done in", start)
        } else {
            self.ended(Tone::Bad, "failed after", start)?;
            self.failed.push(title);
            Ok(())
        }
    }

    /// Does work whose result the caller needs; an error ends the chore.
    pub(crate) fn work<T>(&self, title: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.heading(title)?;
        let start = Instant::now();
        let result = work();
        match result {
            Ok(_) => self.ended(Tone::Good, "done in", start)?,
            Err(_) => self.ended(Tone::Bad, "failed after", start)?,
        }
        result
    }

    /// Says plainly that something was not done, and what would make it possible.
    pub(crate) fn note(&self, text: &str) -> Result<()> {
        self.line(Tone::Note, "note:", text)
    }

    /// Whether every step so far went well.
    pub(crate) fn all_passed(&self) -> bool {
        self.failed.is_empty()
    }

    /// The chore's outcome: an error that names every step that failed.
    pub(crate) fn finish(self) -> Result<()> {
        match self.failed.as_slice() {
            [] => Ok(()),
            [one] => bail!("this step failed; its output is above:\n  {one}"),
            many => bail!("{} steps failed; their output is above:\n  {}", many.len(), many.join("\n  ")),
        }
    }

    fn heading(&self, title: &str) -> Result<()> {
        self.line(Tone::Heading, "==>", title)
    }

    fn ended(&self, tone: Tone, how: &str, start: Instant) -> Result<()> {
        self.line(tone, "   ", &format!("{how} {}", Elapsed(start.elapsed())))
    }

    fn line(&self, tone: Tone, mark: &str, text: &str) -> Result<()> {
        let (on, off) = match (self.colour, tone) {
            (Colour::Off, _) => ("", ""),
            (Colour::On, Tone::Heading) => ("\x1b[1;36m", "\x1b[0m"),
            (Colour::On, Tone::Good) => ("\x1b[32m", "\x1b[0m"),
            (Colour::On, Tone::Bad) => ("\x1b[1;31m", "\x1b[0m"),
            (Colour::On, Tone::Note) => ("\x1b[33m", "\x1b[0m"),
        };
        writeln!(io::stderr(), "{on}{mark} {text}{off}").context("cannot write to stderr")
    }
}

/// A command as a person would type it, without the folder its program is in.
fn title(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!("{}={}", name.display(), typed(value)));
        }
    }
    let program = command.get_program();
    words.push(Path::new(program).file_stem().unwrap_or(program).display().to_string());
    words.extend(command.get_args().map(typed));
    words.join(" ")
}

/// A word as a shell takes it: in quotes where it holds blanks.
fn typed(word: &OsStr) -> String {
    let word = word.display().to_string();
    if word.contains(' ') { format!("'{word}'") } else { word }
}

struct Elapsed(Duration);

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        if seconds < 60 {
            write!(f, "{:.1} s", self.0.as_secs_f64())
        } else {
            write!(f, "{} min {:02} s", seconds / 60, seconds % 60)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::{Colour, Elapsed, Steps, title};

    #[test]
    fn titles_can_be_typed_again() {
        let mut command = Command::new("/somewhere/bin/cargo");
        command.args(["test", "--doc"]).env("PROPTEST_CASES", "64");
        assert_eq!(title(&command), "PROPTEST_CASES=64 cargo test --doc");
        command.arg("a b").env("PROPTEST_CASES", "6 4");
        assert_eq!(title(&command), "PROPTEST_CASES='6 4' cargo test --doc 'a b'");
    }

    #[test]
    fn elapsed_times() {
        let check = |millis, expect: &str| assert_eq!(Elapsed(Duration::from_millis(millis)).to_string(), expect);
        check(0, "0.0 s");
        check(12_345, "12.3 s");
        check(60_000, "1 min 00 s");
        check(3_725_900, "62 min 05 s");
    }

    #[test]
    fn outcome_names_every_failed_step() {
        let check = |failed: &[&str], expect: Option<&str>| {
            let steps = Steps { colour: Colour::Off, failed: failed.iter().map(ToString::to_string).collect() };
            assert_eq!(steps.all_passed(), expect.is_none());
            assert_eq!(steps.finish().err().map(|error| error.to_string()).as_deref(), expect);
        };
        check(&[], None);
        check(&["cargo fmt"], Some("this step failed; its output is above:\n  cargo fmt"));
        check(&["cargo fmt", "cargo deny"], Some("2 steps failed; their output is above:\n  cargo fmt\n  cargo deny"));
    }
}
