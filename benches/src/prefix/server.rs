//! A real llama.cpp server.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// A server that ends with this value.
pub(crate) struct Server {
    child: Child,
    base_url: String,
}

impl Server {
    /// Serves `model` with room for `context` tokens. `python` has the package `xllamacpp`; what the server says goes to the file `words`.
    pub(crate) fn start(python: &Path, model: &Path, context: u64, threads: usize, words: &Path) -> Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/prefix/server.py");
        let mut command = Command::new(python);
        command.arg("-B").arg(script).arg(model).arg(context.to_string()).arg(threads.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(words)?);
        let mut child = command.spawn().with_context(|| format!("cannot start {}", python.display()))?;
        let output = child.stdout.take().context("the server has no output")?;
        let mut server = Self { child, base_url: String::new() };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim();
        ensure!(address.starts_with("http://"), "the llama.cpp server did not start; its words are in {}", words.display());
        server.base_url = format!("{address}/v1");
        Ok(server)
    }

    /// Where it is spoken to.
    pub(crate) fn base_url(&self) -> &str {
        &self.base_url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Where this program is killed instead, the end of its input ends the server.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
