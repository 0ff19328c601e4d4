//! JSON-RPC 2.0 over lines, as the Agent Client Protocol uses it: requests and notifications in both directions.
//!
//! The protocol's own crate is not used: it makes `serde_json` keep the order of keys in the whole program, and with it every prompt and
//! every hash would change. Tests check each message against the protocol's schema instead.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};

/// The longest message in bytes: images come in base64.
const MOST_LINE: u64 = 64 << 20;

/// Messages that wait to be written.
const WAITING: usize = 1024;

/// Questions to the client that wait for an answer.
const MOST_PENDING: usize = 256;

/// How long what is still to be written may take when the client has closed its side.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// An error for the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RpcError {
    code: i32,
    message: String,
}

impl RpcError {
    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self { code: -32_602, message: message.into() }
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self { code: -32_603, message: message.into() }
    }

    pub(crate) fn auth_required(message: impl Into<String>) -> Self {
        Self { code: -32_000, message: message.into() }
    }

    pub(crate) fn no_method(method: &str) -> Self {
        Self { code: -32_601, message: format!("there is no method {method:?}") }
    }
}

type Answers = Mutex<HashMap<u64, oneshot::Sender<Result<Value, String>>>>;

/// The way to the client.
#[derive(Clone)]
pub(crate) struct Client {
    out: mpsc::Sender<String>,
    answers: Arc<Answers>,
    next: Arc<AtomicU64>,
}

impl Client {
    async fn send(&self, message: &Value) {
        // A client that is gone hears nothing.
        let _ = self.out.send(format!("{message}\n")).await;
    }

    /// Sends a notification.
    pub(crate) async fn notify(&self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Asks the client and waits for its answer.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Result<Value, String> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        {
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            if answers.len() >= MOST_PENDING {
                return Err("too many questions wait for an answer".to_owned());
            }
            answers.insert(id, answer);
        }
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        answered.await.unwrap_or_else(|_| Err("the client is gone".to_owned()))
    }

    /// Answers a request.
    pub(crate) async fn answer(&self, id: Value, answer: Result<Value, RpcError>) {
        let message = match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        };
        self.send(&message).await;
    }

    /// Takes the client's answer to a question.
    fn take(&self, message: &Value) {
        let Some(id) = message["id"].as_u64() else { return };
        let waiting = self.answers.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        let answer = match message.get("error") {
            Some(error) => Err(error["message"].as_str().unwrap_or("the client refused").to_owned()),
            None => Ok(message["result"].clone()),
        };
        if let Some(waiting) = waiting {
            // The caller may have given up waiting.
            let _ = waiting.send(answer);
        }
    }
}

/// A request or a notification of the client.
pub(crate) struct IncomingMessage {
    /// The ID of a request; `None` for a notification.
    pub(crate) id: Option<Value>,
    pub(crate) method: String,
    pub(crate) params: Value,
}

/// Reads messages until the client closes its side. `each` gets requests and notifications in order.
pub(crate) async fn serve<R, W>(mut reader: R, mut writer: W, each: impl Fn(Client, IncomingMessage)) -> std::io::Result<()>
where
    R: AsyncBufRead + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (out, mut lines) = mpsc::channel::<String>(WAITING);
    let client = Client { out, answers: Arc::default(), next: Arc::new(AtomicU64::new(1)) };
    let writing = tokio::spawn(async move {
        while let Some(line) = lines.recv().await {
            let written = writer.write_all(line.as_bytes()).await;
            if written.is_err() || writer.flush().await.is_err() {
                return;
            }
        }
    });
    loop {
        let mut line = Vec::new();
        let read = (&mut reader).take(MOST_LINE).read_until(b'\n', &mut line).await?;
        if read == 0 {
            break;
        }
        if line.last() != Some(&b'\n') && line.len() as u64 >= MOST_LINE {
            return Err(std::io::Error::other(format!("a message is longer than {MOST_LINE} bytes")));
        }
        match serde_json::from_slice::<Value>(&line) {
            Ok(message) => handle(&client, &message, &each).await,
            Err(_) if line.iter().all(u8::is_ascii_whitespace) => {}
            Err(_) => {
                let error = RpcError { code: -32_700, message: "the line is not JSON".to_owned() };
                client.answer(Value::Null, Err(error)).await;
            }
        }
    }
    // Those who still wait for the client learn that it is gone.
    client.answers.lock().unwrap_or_else(PoisonError::into_inner).clear();
    drop(client);
    // What was answered last is still written.
    let _ = tokio::time::timeout(LAST_WORDS, writing).await;
    Ok(())
}

async fn handle(client: &Client, message: &Value, each: &impl Fn(Client, IncomingMessage)) {
    let is_message = message["jsonrpc"] == "2.0";
    let id = message.get("id").filter(|id| id.is_string() || id.is_number()).cloned();
    match (message["method"].as_str(), id) {
        (Some(method), id) if is_message && message.get("id").is_none() == id.is_none() => {
            each(client.clone(), IncomingMessage { id, method: method.to_owned(), params: message["params"].clone() });
        }
        (None, Some(_)) if is_message && (message.get("result").is_some() || message.get("error").is_some()) => {
            client.take(message);
        }
        (_, id) => {
            let error = RpcError { code: -32_600, message: "this is no JSON-RPC request".to_owned() };
            client.answer(id.unwrap_or(Value::Null), Err(error)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    /// What a server that echoes methods answers to these lines.
    async fn talk(lines: &str, answers: usize) -> Vec<Value> {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(server);
        let each = |client: Client, wanted: IncomingMessage| {
            tokio::spawn(async move {
                if let Some(id) = wanted.id {
                    client.answer(id, Ok(json!({"method": wanted.method}))).await;
                }
            });
        };
        let serving = tokio::spawn(serve(BufReader::new(reader), writer, each));
        client.write_all(lines.as_bytes()).await.unwrap();
        let (read, write) = tokio::io::split(client);
        let mut read = BufReader::new(read).lines();
        let mut found = Vec::new();
        for _ in 0..answers {
            found.push(serde_json::from_str(&read.next_line().await.unwrap().unwrap()).unwrap());
        }
        drop((read, write));
        serving.await.unwrap().unwrap();
        found
    }

    #[tokio::test]
    async fn broken_lines_are_answered_and_end_nothing() {
        let broken = ["{", "[]", "7", r#"{"id": 1}"#, r#"{"jsonrpc": "2.0", "id": {}, "method": "x"}"#, "\u{0}"];
        for line in broken {
            let last = r#"{"jsonrpc": "2.0", "id": "z", "method": "ping"}"#;
            let answers = talk(&format!("{line}\n\n{last}\n"), 2).await;
            assert!(answers[0]["error"]["code"].is_i64(), "{line}: {answers:?}");
            assert_eq!(answers[1], json!({"jsonrpc": "2.0", "id": "z", "result": {"method": "ping"}}), "{line}");
        }
    }

    #[tokio::test]
    async fn notifications_and_answers_nobody_waits_for_are_not_answered() {
        let lines = concat!(
            r#"{"jsonrpc": "2.0", "method": "note"}"#,
            "\n",
            r#"{"jsonrpc": "2.0", "id": 7, "result": {}}"#,
            "\n",
            r#"{"jsonrpc": "2.0", "id": 8, "method": "ping"}"#,
            "\n"
        );
        assert_eq!(talk(lines, 1).await[0]["id"], 8);
    }
}
