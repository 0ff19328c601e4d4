//! A provider for trying things out: `cargo run -p foreword-mock-provider --example mock-provider -- SCRIPT.json [PORT]`.

use std::process::ExitCode;

use foreword_mock_provider::{MockServer, Script};
use foreword_provider::dialect::Dialect;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let script = match arguments.next() {
        Some(path) => {
            let text = std::fs::read_to_string(&path).map_err(|error| format!("reading {path}: {error}; name a script"))?;
            Script::from_json(&text).map_err(|error| format!("{path}: {error}"))?
        }
        None => Script::default(),
    };
    let port = match arguments.next() {
        Some(text) => text.parse().map_err(|_| format!("{text:?} is no port; give a number up to 65535"))?,
        None => 0,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let server = MockServer::start_at(script, port).await.map_err(|error| format!("listening on port {port}: {error}"))?;
        for dialect in Dialect::ALL {
            println!("{:18} {}", dialect.as_str(), server.base_url(dialect));
        }
        server.wait().await;
        Ok(())
    })
}
