//! `cargo xtask clients`: the clients that people use, as they are, through the gateway: three turns with a tool each, at `observe` and at
//! `assist`, without a failure, with a provider that has too much to do, and with a stream that is cut. Each is asked the same without the
//! gateway too: it has to end alike.
//!
//! A recorder stands between client and gateway, so that what arrives at the provider is held against what the client sent. What the
//! requests would cost by the rules of their provider's cache is counted for each level, also for `manage`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod programs;
mod provider;
mod recorder;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use foreword_prompt_cache::{CacheSim, body_prompt};
use foreword_provider::cost::cost;
use foreword_provider::dialect::Dialect;
use foreword_provider::table::ModelTable;
use programs::{Place, Program};
use provider::{Failure, Provider};
use recorder::Recorder;
use serde_json::Value;

/// How long one turn of a client may take.
const TURN: Duration = Duration::from_mins(2);

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let failed = runtime.block_on(run(&wanted));
    if failed > 0 {
        eprintln!("{failed} of the runs failed");
        std::process::exit(1);
    }
}

async fn run(wanted: &[String]) -> usize {
    let provider = Provider::start().await;
    let mut failed = 0;
    println!("{:<14} {:<10} {:<8} {:>9} {:>9} {:>10}  what", "client", "failure", "level", "requests", "sessions", "cost");
    for program in programs::all() {
        if !wanted.is_empty() && !wanted.iter().any(|name| name == program.name) {
            continue;
        }
        if let Err(missing) = program.is_there() {
            println!("{:<14} not installed: {missing}", program.name);
            failed += usize::from(!wanted.is_empty());
            continue;
        }
        for failure in Failure::ALL {
            let direct = direct(&program, &provider, failure).await;
            let row = |level: &str, requests: usize, sessions: usize, cost: f64, what: &str| {
                let share = if direct.cost > 0.0 { format!("{:.3}", cost / direct.cost) } else { String::new() };
                println!(
                    "{:<14} {:<10} {level:<8} {requests:>9} {sessions:>9} {share:>10}  {what}",
                    program.name,
                    failure.name()
                );
            };
            row("none", direct.requests, 0, direct.cost, &format!("{:?}", direct.turns));
            let levels: &[&str] =
                if failure == Failure::None { &["observe", "assist", "manage"] } else { &["observe", "assist"] };
            for level in levels {
                let (seen, sessions, wrong) = through(&program, &provider, failure, level, &direct).await;
                failed += usize::from(wrong.is_some());
                row(level, seen.len(), sessions, costs(&seen), &wrong.unwrap_or_else(|| "ok".to_owned()));
            }
        }
    }
    failed
}

/// How a client ended: whether each turn went well, how many requests it made, and what those cost.
struct Ended {
    turns: Vec<bool>,
    requests: usize,
    cost: f64,
    words: String,
}

/// What the prompts of some requests cost by the rules of their provider's cache, two seconds apart.
fn costs(seen: &[provider::Exchange]) -> f64 {
    let (table, mut cache, mut sum) = (ModelTable::builtin().unwrap(), CacheSim::new(), 0.0);
    for (at, exchange) in seen.iter().enumerate().filter(|(_, exchange)| exchange.status == 200) {
        let path = exchange.path.split('?').next().unwrap_or_default();
        let dialect = match () {
            () if path.ends_with("/chat/completions") => Dialect::OpenAiChat,
            () if path.ends_with("/responses") => Dialect::OpenAiResponses,
            () if path.ends_with("/messages") => Dialect::Anthropic,
            () if path.contains("enerateContent") => Dialect::Gemini,
            () => continue,
        };
        let body: Value = serde_json::from_slice(&exchange.body).unwrap_or_default();
        let named = path.rsplit('/').next().and_then(|last| last.split(':').next());
        let Ok(model) = table.find(body["model"].as_str().or(named).unwrap_or_default()) else { continue };
        sum += cost(&model, &cache.request(at as u64 * 2, &body_prompt::read(dialect, &body, &model), &model));
    }
    sum
}

/// Three turns of a client at an address.
async fn turns(program: &Program, port: u16) -> Ended {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path(), port);
    let (mut ended, mut words) = (Vec::new(), String::new());
    for turn in 0..program.processes() {
        let command = program.command(&place, turn);
        let (is_well, said) = tokio::task::spawn_blocking(move || finish(command)).await.unwrap();
        ended.push(is_well);
        words.push_str(&said);
    }
    Ended { turns: ended, requests: 0, cost: 0.0, words }
}

fn finish(mut command: Command) -> (bool, String) {
    let out = tempfile::NamedTempFile::new().unwrap();
    let (one, other) = (out.reopen().unwrap(), out.reopen().unwrap());
    let child = command.stdin(Stdio::null()).stdout(one).stderr(other).spawn();
    let Ok(mut child) = child else { return (false, format!("{command:?} could not be started")) };
    let since = Instant::now();
    let is_well = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.success(),
            Ok(None) if since.elapsed() < TURN => std::thread::sleep(Duration::from_millis(50)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                break false;
            }
        }
    };
    (is_well, fs::read_to_string(out.path()).unwrap_or_default())
}

async fn direct(program: &Program, provider: &Provider, failure: Failure) -> Ended {
    provider.begin(failure, &programs::NOTE.to_string_lossy());
    let mut ended = turns(program, provider.port).await;
    let seen = provider.seen();
    (ended.requests, ended.cost) = (seen.len(), costs(&seen));
    ended
}

async fn through(
    program: &Program,
    provider: &Provider,
    failure: Failure,
    level: &str,
    direct: &Ended,
) -> (Vec<provider::Exchange>, usize, Option<String>) {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(provider.port, folder.path(), level).await;
    let recorder = Recorder::start(gateway.port).await;
    provider.begin(failure, &programs::NOTE.to_string_lossy());
    let ended = turns(program, recorder.port).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let seen = provider.seen();
    let sessions = gateway.sessions().await;
    let roots = sessions.iter().filter(|session| session["parent"].is_null()).count();
    let wrong = if level == "manage" {
        ended_alike(&ended, direct)
    } else {
        wrong(&ended, direct, (program, level), &seen, &recorder, roots)
    };
    (seen, sessions.len(), wrong)
}

/// How a client ended otherwise than without the gateway.
fn ended_alike(ended: &Ended, direct: &Ended) -> Option<String> {
    let last: String = ended.words.chars().rev().take(300).collect::<Vec<_>>().into_iter().rev().collect();
    (ended.turns != direct.turns).then(|| format!("it ended {:?}, without the gateway {:?}: {last}", ended.turns, direct.turns))
}

/// What is not as it should be.
fn wrong(
    ended: &Ended,
    direct: &Ended,
    (program, level): (&Program, &str),
    seen: &[provider::Exchange],
    recorder: &Recorder,
    sessions: usize,
) -> Option<String> {
    if let Some(wrong) = ended_alike(ended, direct) {
        return Some(wrong);
    }
    if seen.len() != direct.requests {
        return Some(format!("{} requests, without the gateway {}", seen.len(), direct.requests));
    }
    if program.is_translated {
        return (sessions != 1).then(|| format!("{sessions} sessions"));
    }
    let (sent, answers) = recorder.posts();
    if sent.len() != seen.len() {
        return Some(format!("the client made {} requests, the provider saw {}", sent.len(), seen.len()));
    }
    for ((sent, answer), seen) in sent.iter().zip(&answers).zip(seen) {
        let same =
            if level == "observe" { sent.body == seen.body } else { without_marks(&sent.body) == without_marks(&seen.body) };
        if !same {
            return Some(format!("the body of {} was changed", seen.path));
        }
        if sent.path != seen.path {
            return Some(format!("{} arrived as {}", sent.path, seen.path));
        }
        // Of a refusal a client may read the head only.
        let is_same = if answer.status == 200 { seen.answer == answer.body } else { seen.answer.starts_with(&answer.body) };
        if answer.status != seen.status || !is_same {
            return Some(format!("the answer to {} was changed: {} for {}", seen.path, answer.status, seen.status));
        }
    }
    (sessions != 1).then(|| format!("{sessions} sessions"))
}

/// What a body says without cache marks, whatever the form of its texts.
fn without_marks(body: &[u8]) -> Value {
    fn bare(value: Value) -> Value {
        match value {
            Value::Array(list) => match list.as_slice() {
                [Value::Object(part)] if part.get("type").is_some_and(|kind| kind == "text") && part.len() <= 3 => {
                    part["text"].clone()
                }
                _ => list.into_iter().map(bare).collect(),
            },
            Value::Object(map) => {
                let kept = map.into_iter().filter(|(name, _)| name != "cache_control" && name != "prompt_cache_key");
                kept.map(|(name, value)| (name, bare(value))).collect()
            }
            other => other,
        }
    }
    bare(serde_json::from_slice(body).unwrap_or_default())
}

/// `foreword serve` in front of the provider.
struct Gateway {
    child: Child,
    port: u16,
}

impl Gateway {
    async fn start(provider: u16, folder: &Path, level: &str) -> Self {
        let vault = folder.join("vault");
        fs::create_dir_all(&vault).unwrap();
        let config = folder.join("config.toml");
        let of =
            |name: &str, version: &str| format!("[providers.{name}]\nbase_url = \"http://127.0.0.1:{provider}/{version}\"\n");
        fs::write(&config, of("anthropic", "v1") + &of("openai", "v1") + &of("gemini", "v1beta")).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let program = std::env::var("FOREWORD_BIN").expect("FOREWORD_BIN names the program");
        let mut command = Command::new(program);
        command.arg("serve").arg(&vault).args(["--no-auth", "--port", &port.to_string(), "--level", level]);
        command
            .env("FOREWORD_CONFIG", &config)
            .env("FOREWORD_STATE", folder.join("state"))
            .env("FOREWORD_CACHE", folder.join("cache"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let gateway = Self { child, port };
        for _ in 0..1200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if recorder::get(port, "/api/v1/health").await.is_some() {
                return gateway;
            }
        }
        panic!("foreword serve did not start");
    }

    async fn sessions(&self) -> Vec<Value> {
        let text = recorder::get(self.port, "/api/v1/clients").await.unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
