//! `foreword run`: a program with the gateway between it and its provider.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::{Command, Output};

use foreword_mock_provider::{MockServer, Script};
use foreword_provider::dialect::Dialect;
use tempfile::TempDir;

/// Asks for one answer and prints it, as a small client does.
const CLIENT: &str = r#"
host=${ANTHROPIC_BASE_URL#http://}
body='{"model":"claude-sonnet-5","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"Which bed?"}]}]}'
exec 3<>/dev/tcp/${host%:*}/${host#*:}
printf 'POST /v1/messages HTTP/1.1\r\nhost: %s\r\nx-api-key: sk-theirs\r\nanthropic-version: 2023-06-01\r\nconnection: close\r\ncontent-length: %s\r\n\r\n%s' "$host" "${#body}" "$body" >&3
cat <&3
exit 3
"#;

fn foreword(folder: &TempDir, arguments: &[&str], provider: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreword"));
    command.args(arguments).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", folder.path());
    command.env("ANTHROPIC_BASE_URL", provider);
    command.output().unwrap()
}

#[test]
fn a_program_asks_through_the_gateway_and_what_it_used_is_told() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let script = Script::from_json(r#"{"replies": [{"text": "The one by the wall."}]}"#).unwrap();
    let double = runtime.block_on(MockServer::start(script)).unwrap();
    let base = double.base_url(Dialect::Anthropic);
    let folder = TempDir::new().unwrap();
    let ran = foreword(&folder, &["run", "--level", "observe", "--", "bash", "-c", CLIENT], &base);
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert_eq!(ran.status.code(), Some(3), "{out}{err}");
    assert!(
        out.contains("200 OK") && out.contains("The one by the wall.") && out.contains("x-foreword-level: observe"),
        "{out}{err}"
    );
    assert!(err.contains("1 request in 1 session:") && err.contains("foreword sessions --vault"), "{err}");
    // The same words stand on record.
    let vault = folder.path().join(".local/state/foreword/clients");
    let listed = foreword(&folder, &["sessions", "--vault", vault.to_str().unwrap()], &base);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("Which bed?") && listed.contains("1 requests"), "{listed}");
    let shown = foreword(&folder, &["inspect", "last", "--vault", vault.to_str().unwrap()], &base);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.contains("request 1 of 1") && shown.contains("level observe, status 200") && shown.contains("input"),
        "{shown}"
    );
    assert_eq!(double.seen().len(), 1);
    let missing = foreword(&folder, &["run", "--", "no-such-program"], &base);
    assert_eq!(missing.status.code(), Some(2), "{}", String::from_utf8_lossy(&missing.stderr));
}
