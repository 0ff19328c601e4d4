//! The scripted server, ready to be started.

use std::collections::BTreeMap;
use std::path::Path;

use foreword_tools::{ServerConfig, Transport, program};

/// The scripted server `s`, which speaks a revision of the protocol and has habits.
pub(crate) fn scripted(words: &[&str]) -> ServerConfig {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripted/server.py");
    let args = [script.to_str().unwrap()].iter().chain(words).map(ToString::to_string).collect();
    let folders = program::search_folders(&std::env::var_os("PATH").unwrap(), &[], None);
    let command = program::find("python3", Path::new("/"), &folders).unwrap();
    ServerConfig::new("s", Transport::Stdio { command, args, env: BTreeMap::new(), cwd: "/".into() })
}
