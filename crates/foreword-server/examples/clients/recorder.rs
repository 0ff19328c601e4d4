//! Stands between a client and the gateway and keeps what goes by, as bytes.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Both directions of a connection.
#[derive(Clone, Debug, Default)]
struct Tape {
    /// When each request began, by the number of all bytes at that time.
    sent: Vec<u8>,
    came: Vec<u8>,
}

/// A message of HTTP, without what belongs to the connection.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) path: String,
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    is_post: bool,
}

pub(crate) struct Recorder {
    pub(crate) port: u16,
    tapes: Arc<Mutex<Vec<Arc<Mutex<Tape>>>>>,
}

impl Recorder {
    pub(crate) async fn start(gateway: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let tapes: Arc<Mutex<Vec<Arc<Mutex<Tape>>>>> = Arc::default();
        let kept = Arc::clone(&tapes);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let tape: Arc<Mutex<Tape>> = Arc::default();
                kept.lock().unwrap().push(Arc::clone(&tape));
                tokio::spawn(tee(client, gateway, tape));
            }
        });
        Self { port, tapes }
    }

    /// What was posted and what came back, in the order of the connections and of the requests on each.
    pub(crate) fn posts(&self) -> (Vec<Message>, Vec<Message>) {
        let (mut sent, mut answers) = (Vec::new(), Vec::new());
        for tape in self.tapes.lock().unwrap().iter() {
            let tape = tape.lock().unwrap();
            for (request, answer) in messages(&tape.sent, true).into_iter().zip(messages(&tape.came, false)) {
                if request.is_post {
                    sent.push(request);
                    answers.push(answer);
                }
            }
        }
        (sent, answers)
    }
}

async fn tee(client: TcpStream, gateway: u16, tape: Arc<Mutex<Tape>>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", gateway)).await else { return };
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) = (client.into_split(), server.into_split());
    let kept = Arc::clone(&tape);
    let there = tokio::spawn(async move {
        let mut buffer = vec![0; 65536];
        while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
            kept.lock().unwrap().sent.extend_from_slice(&buffer[..read]);
            if to_server.write_all(&buffer[..read]).await.is_err() {
                break;
            }
        }
    });
    let mut buffer = vec![0; 65536];
    while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
        tape.lock().unwrap().came.extend_from_slice(&buffer[..read]);
        if to_client.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    drop(to_client);
    there.abort();
}

/// The messages of one direction of a connection.
fn messages(mut bytes: &[u8], are_requests: bool) -> Vec<Message> {
    let mut found = Vec::new();
    while let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let rest = &bytes[end + 4..];
        let first: Vec<&str> = head.lines().next().unwrap_or_default().split(' ').collect();
        let header = |name: &str| {
            let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")))?;
            Some(line.split_once(':')?.1.trim().to_ascii_lowercase())
        };
        let length = header("content-length").and_then(|length| length.parse::<usize>().ok());
        let (body, next) = if header("transfer-encoding").is_some_and(|coding| coding == "chunked") {
            unchunked(rest)
        } else {
            let length = length.unwrap_or(0).min(rest.len());
            (rest[..length].to_vec(), &rest[length..])
        };
        let word = |at: usize| first.get(at).copied().unwrap_or_default();
        let status = if are_requests { 0 } else { word(1).parse().unwrap_or(0) };
        // A word before the answer.
        if status != 100 {
            found.push(Message { path: word(1).to_owned(), status, body, is_post: word(0) == "POST" });
        }
        bytes = next;
    }
    found
}

/// The body in chunks, and what is behind it.
fn unchunked(mut bytes: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&bytes[..end])
            .ok()
            .and_then(|size| usize::from_str_radix(size.split(';').next()?.trim(), 16).ok());
        let Some(size) = size else { break };
        let rest = &bytes[end + 2..];
        if size == 0 {
            return (body, rest.get(2..).unwrap_or_default());
        }
        let there = size.min(rest.len());
        body.extend_from_slice(&rest[..there]);
        bytes = rest.get(there + 2..).unwrap_or_default();
    }
    (body, &[])
}

/// The body of an answer to a GET.
pub(crate) async fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let head = format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.ok()?;
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.ok()?;
    let answer = messages(&all, false).pop()?;
    (answer.status == 200).then(|| String::from_utf8_lossy(&answer.body).into_owned())
}
