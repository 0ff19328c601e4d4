//! Counting instructions with valgrind's callgrind, in one function of a benchmark and all that it calls.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::cargo::Cargo;

/// Cargo starts the program through valgrind, so that we need not know where its target folder is. No star after the
/// function's name: it would match the closures inside it too, and each would switch the counting off. `/dev/null`: only the
/// total is wanted, and an interrupted run then leaves no file behind.
fn runner(function: &str) -> String {
    format!(
        "target.'cfg(all())'.runner = ['valgrind', '--tool=callgrind', '--toggle-collect=*::{function}', '--callgrind-out-file=/dev/null']"
    )
}

/// The instructions that a function of a benchmark takes, called with such arguments.
pub(crate) fn instructions(cargo: &Cargo, program: &str, function: &str, arguments: &[&str]) -> Result<u64> {
    let mut command = cargo.command(["run", "--quiet", "--release"]);
    // The names of functions are needed here, so nothing is stripped.
    command.args(["--config", &runner(function), "--config", "profile.release.strip=false"]);
    command.args(["--package", "foreword-benches", "--bin", program, "--"]).args(arguments);
    let stderr = stderr_of(&mut command).with_context(|| format!("cannot count the instructions of `{program}`"))?;
    let shown = arguments.join(" ");
    collected(&stderr).with_context(|| format!("cannot read callgrind's report on `{program} {shown}`:\n{stderr}"))
}

fn stderr_of(command: &mut Command) -> Result<String> {
    let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output()?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        bail!("it ended with {}:\n{stderr}", output.status);
    }
    Ok(stderr)
}

/// Reads the total from the line `==PID== Collected : TOTAL`.
fn collected(report: &str) -> Result<u64> {
    let mut totals = report.lines().filter_map(|line| line.strip_prefix("==")?.split_once("== Collected :"));
    let (_, total) = totals.next().context("it has no line `Collected`")?;
    match total.trim().parse().with_context(|| format!("`{}` is not one number", total.trim()))? {
        0 => bail!("nothing was counted: is the function that is counted there, and marked `#[inline(never)]`?"),
        total => Ok(total),
    }
}

#[cfg(test)]
mod tests {
    use super::collected;

    fn check(report: &str, expect: Result<u64, &str>) {
        assert_eq!(collected(report).map_err(|error| error.to_string()), expect.map_err(str::to_owned), "{report}");
    }

    #[test]
    fn reads_the_total() {
        check("==7== Events    : Ir\n==7== Collected : 2065\n==7== \n==7== I   refs:      2,065\n", Ok(2065));
        check("==7== Collected : 18446744073709551615\n", Ok(u64::MAX));
    }

    #[test]
    fn refuses_what_is_no_total() {
        check("", Err("it has no line `Collected`"));
        check("Collected : 5 notes\n", Err("it has no line `Collected`"));
        check("==7== Collected : 12 34\n", Err("`12 34` is not one number"));
        check(
            "==7== Collected : 0\n",
            Err("nothing was counted: is the function that is counted there, and marked `#[inline(never)]`?"),
        );
    }
}
