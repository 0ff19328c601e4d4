//! Clients that ask again as soon as they are answered. Each has one conversation after the other, of ten turns, and sends all of it each
//! time, as clients of these APIs do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::PARTS;
use super::stub::{self, ANSWER};

const TURNS: usize = 10;
/// Time that is not counted: connections, first sessions, caches of the system.
const WARM: Duration = Duration::from_secs(1);

/// What came of it.
pub(crate) struct Figures {
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) per_second: f64,
    /// Requests, those that were not counted included.
    pub(crate) all: usize,
    pub(crate) failures: Vec<String>,
}

/// How clients ask.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) connections: usize,
    pub(crate) lasting: Duration,
    /// How long the provider thinks.
    pub(crate) thinks: Duration,
}

/// Who is asked, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) port: u16,
    /// What stands in front of `/v1/chat/completions` in its place.
    pub(crate) path: &'static str,
    /// Its name for the model.
    pub(crate) model: &'static str,
    pub(crate) headers: &'static str,
}

impl Target {
    /// Someone who speaks OpenAI's API as it is.
    pub(crate) fn plain(port: u16, headers: &'static str) -> Self {
        Self { port, path: "/v1/chat/completions", model: MODEL, headers }
    }
}

/// The model that is asked for. It is one that our levels know, so that `assist` does what it does for it.
pub(crate) const MODEL: &str = "gpt-4.1";

impl Load {
    pub(crate) async fn run(self, target: Target) -> Figures {
        static CONVERSATION: AtomicU64 = AtomicU64::new(0);
        stub::think(self.thinks);
        let begin = Instant::now();
        let clients: Vec<_> = (0..self.connections)
            .map(|_| {
                let lasting = self.lasting;
                tokio::spawn(async move {
                    let mut took = Vec::new();
                    let mut failures = Vec::new();
                    let (mut all, mut answered) = (0, 0);
                    let mut connection = None;
                    'all: loop {
                        let name = CONVERSATION.fetch_add(1, Ordering::Relaxed);
                        let mut messages = vec![json!({"role": "system", "content": "You answer questions about a garden. ".repeat(20)})];
                        for turn in 0..TURNS {
                            messages.push(json!({"role": "user", "content": format!("Conversation {name}, question {turn}: what do the beds get, and when?")}));
                            let body = json!({"model": target.model, "messages": messages}).to_string();
                            let asked = Instant::now();
                            match ask(&mut connection, target, &body).await {
                                Ok(answer) if answer.contains(ANSWER) => {}
                                Ok(answer) => failures.push(answer),
                                Err(error) => {
                                    connection = None;
                                    failures.push(error.to_string());
                                }
                            }
                            all += 1;
                            let counted = begin + WARM..begin + WARM + lasting;
                            // Who is asked in time counts, however long it takes to answer; how many it answers counts by the end.
                            if counted.contains(&asked) {
                                took.push(asked.elapsed());
                            }
                            answered += u32::from(counted.contains(&Instant::now()));
                            if Instant::now() >= counted.end {
                                break 'all;
                            }
                            messages.push(json!({"role": "assistant", "content": ANSWER}));
                        }
                    }
                    (took, failures, all, answered)
                })
            })
            .collect();
        let mut took = Vec::new();
        let mut failures = Vec::new();
        let (mut all, mut answered) = (0, 0);
        for client in clients {
            let (times, failed, asked, ended) = client.await.unwrap();
            all += asked;
            answered += ended;
            took.extend(times);
            failures.extend(failed);
        }
        took.sort();
        let at = |percent: usize| took.get(took.len() * percent / 100).map_or(f64::NAN, |took| took.as_secs_f64() * 1e3);
        Figures { p50_ms: at(50), p99_ms: at(99), per_second: f64::from(answered) / self.lasting.as_secs_f64(), all, failures }
    }
}

async fn ask(connection: &mut Option<BufReader<TcpStream>>, target: Target, body: &str) -> std::io::Result<String> {
    let Target { port, path, headers, .. } = target;
    if connection.is_none() {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        *connection = Some(BufReader::new(stream));
    }
    let Some(stream) = connection else { return Err(std::io::ErrorKind::NotConnected.into()) };
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\nauthorization: Bearer none\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    stream.get_mut().write_all((head + body).as_bytes()).await?;
    let (mut status, mut length, mut chunked) = (String::new(), 0, false);
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let text = line.trim_end().to_ascii_lowercase();
        if status.is_empty() {
            status.clone_from(&text);
        } else if let Some(value) = text.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        } else if text.starts_with("transfer-encoding:") {
            chunked = text.contains("chunked");
        } else if text.is_empty() {
            break;
        }
    }
    let mut answer = Vec::new();
    if chunked {
        loop {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let size = usize::from_str_radix(line.trim(), 16).map_err(|_| std::io::ErrorKind::InvalidData)?;
            let at = answer.len();
            answer.resize(at + size + 2, 0);
            stream.read_exact(&mut answer[at..]).await?;
            answer.truncate(at + size);
            if size == 0 {
                break;
            }
        }
    } else {
        answer.resize(length, 0);
        stream.read_exact(&mut answer).await?;
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Opens many streams at once and reads each to its end: how many were whole, and how long all of it took.
pub(crate) async fn streams(port: u16, count: usize) -> (usize, f64) {
    let begin = Instant::now();
    let whole = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..count)
        .map(|number| {
            let whole = Arc::clone(&whole);
            tokio::spawn(async move {
                let words = format!("Stream {number}: tell me slowly");
                let body = json!({"model": MODEL, "stream": true, "messages": [{"role": "user", "content": words}]}).to_string();
                match ask(&mut None, Target::plain(port, ""), &body).await {
                    Ok(answer) if answer.matches("word ").count() == PARTS && answer.trim_end().ends_with("[DONE]") => {
                        whole.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(answer) if number == 0 => {
                        println!("a stream was not whole: {}", answer.chars().take(300).collect::<String>());
                    }
                    Err(error) if number == 0 => println!("a stream failed: {error}"),
                    _ => {}
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    (usize::try_from(whole.load(Ordering::Relaxed)).unwrap(), begin.elapsed().as_secs_f64())
}
