//! As much of HTTP/1.1 as a test needs, with what no server library offers: answers that stop in the middle.

use std::io;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use foreword_provider::dialect::Dialect;

const MAX_HEAD: usize = 64 << 10;
const MAX_BODY: usize = 64 << 20;
const READ_LIMIT: Duration = Duration::from_secs(30);

/// A request.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) method: String,
    target: String,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The dialect it is spoken in and the path behind its base.
    pub(super) fn route(&self) -> Option<(Dialect, &str)> {
        // Who takes the double for a proxy gives the whole address.
        let target = match self.target.strip_prefix("http://") {
            Some(address) => address.split_once('/')?.1,
            None => self.target.strip_prefix('/')?,
        };
        let (dialect, rest) = target.split_once('/')?;
        let path = rest.strip_prefix("v1beta/").or_else(|| rest.strip_prefix("v1/"))?;
        Some((dialect.parse().ok()?, path))
    }
}

/// Reads one request.
pub(super) async fn read(socket: &mut TcpStream) -> io::Result<Request> {
    tokio::time::timeout(READ_LIMIT, read_all(socket)).await?
}

async fn read_all(socket: &mut TcpStream) -> io::Result<Request> {
    let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let mut bytes = Vec::new();
    let head = loop {
        let from = bytes.len().saturating_sub(3);
        if socket.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(at) = bytes[from..].windows(4).position(|four| four == b"\r\n\r\n") {
            break from + at;
        }
        if bytes.len() > MAX_HEAD {
            return Err(bad("the head is too long"));
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let mut lines = text.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (first.next().unwrap_or_default().to_owned(), first.next().unwrap_or_default().to_owned());
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    let mut request = Request { method, target, headers, body: bytes.split_off(head + 4) };
    let length = match request.header("content-length") {
        Some(length) => length.parse::<usize>().map_err(|_| bad("the length is no number"))?,
        None => 0,
    };
    if length > MAX_BODY {
        return Err(bad("the body is too long"));
    }
    while request.body.len() < length {
        if socket.read_buf(&mut request.body).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(request)
}

/// An answer.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    kind: &'static str,
    headers: Vec<(&'static str, String)>,
    pieces: Vec<Vec<u8>>,
    whole: bool,
    /// Before anything is sent.
    pub(super) delay: Duration,
    /// Between two pieces.
    pub(super) pause: Duration,
}

impl Response {
    pub(super) fn json(status: u16, value: &Value) -> Self {
        let pieces = vec![value.to_string().into_bytes()];
        let zero = Duration::ZERO;
        Self { status, kind: "application/json", headers: Vec::new(), pieces, whole: true, delay: zero, pause: zero }
    }

    /// Server-sent events, each with its name where it has one.
    pub(super) fn events(frames: &[(String, String)]) -> Self {
        let frame = |(event, data): &(String, String)| {
            let name = if event.is_empty() { String::new() } else { format!("event: {event}\n") };
            format!("{name}data: {data}\n\n").into_bytes()
        };
        Self { kind: "text/event-stream", pieces: frames.iter().map(frame).collect(), ..Self::json(200, &Value::Null) }
    }

    pub(super) fn header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Lets the connection break after some pieces; a single piece breaks in its middle.
    pub(super) fn cut(&mut self, pieces: usize) {
        if let [one] = self.pieces.as_mut_slice() {
            one.truncate(one.len() / 2);
        } else {
            self.pieces.truncate(pieces);
        }
        self.whole = false;
    }

    pub(super) async fn write(self, socket: &mut TcpStream) -> io::Result<()> {
        let mut head = format!("HTTP/1.1 {} Status\r\nContent-Type: {}\r\n", self.status, self.kind);
        for (name, value) in &self.headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        head.push_str("Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
        socket.write_all(head.as_bytes()).await?;
        for (index, piece) in self.pieces.iter().enumerate() {
            if index > 0 && !self.pause.is_zero() {
                tokio::time::sleep(self.pause).await;
            }
            let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
            chunk.extend_from_slice(piece);
            chunk.extend_from_slice(b"\r\n");
            socket.write_all(&chunk).await?;
        }
        if self.whole {
            socket.write_all(b"0\r\n\r\n").await?;
        }
        socket.shutdown().await
    }
}
