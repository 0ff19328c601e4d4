//! A provider that answers at once or after some thought, whole or in parts.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::serve::ListenerExt as _;
use hyper::body::Frame;
use tokio::net::TcpSocket;

use super::{APART, PARTS};

/// What it always says.
pub(crate) const ANSWER: &str = "The beds get compost in March, two buckets each, and a mulch of straw in May.";

/// How long it thinks before it answers, in milliseconds.
static THINKS_MS: AtomicU64 = AtomicU64::new(0);

/// From now on it thinks so long.
pub(crate) fn think(time: Duration) {
    THINKS_MS.store(u64::try_from(time.as_millis()).unwrap(), Ordering::Relaxed);
}

/// Starts it and gives back its port; to be called within a runtime.
pub(crate) fn start() -> u16 {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    // All clients come at once.
    let listener = socket.listen(4096).unwrap();
    let port = listener.local_addr().unwrap().port();
    let router = Router::new().route("/v1/chat/completions", post(answer));
    // As providers do: a small part must not wait until the one before it is acknowledged.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    tokio::spawn(async move { axum::serve(listener, router).await });
    port
}

async fn answer(body: Bytes) -> Response {
    match THINKS_MS.load(Ordering::Relaxed) {
        0 => {}
        ms => tokio::time::sleep(Duration::from_millis(ms)).await,
    }
    let text = String::from_utf8_lossy(&body);
    let wants = |what: &str| text.contains(&format!("\"stream\":{what}")) || text.contains(&format!("\"stream\": {what}"));
    if wants("true") && text.contains("slowly") {
        return stream(true);
    }
    if wants("true") {
        return stream(false);
    }
    let whole = format!(
        "{{\"id\":\"c1\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"stub\",\"choices\":[{{\"index\":0,\"message\":{{\"role\":\"assistant\",\
         \"content\":\"{ANSWER}\"}},\"finish_reason\":\"stop\"}}],\"usage\":{{\"prompt_tokens\":100,\"completion_tokens\":20,\"total_tokens\":120}}}}"
    );
    ([("content-type", "application/json")], whole).into_response()
}

/// A stream of chunks.
fn stream(slowly: bool) -> Response {
    let (sender, receiver) = tokio::sync::mpsc::channel::<Bytes>(4);
    tokio::spawn(async move {
        let parts: Vec<&str> = if slowly { vec!["word "; PARTS] } else { vec![ANSWER] };
        for part in parts {
            if slowly {
                tokio::time::sleep(APART).await;
            }
            let chunk = format!(
                "data: {{{},\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{part}\"}},\"finish_reason\":null}}]}}\n\n",
                head()
            );
            if sender.send(chunk.into()).await.is_err() {
                return;
            }
        }
        let end = format!(
            "data: {{{0},\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\ndata: {{{0},\"choices\":[],\
             \"usage\":{{\"prompt_tokens\":100,\"completion_tokens\":20,\"total_tokens\":120}}}}\n\ndata: [DONE]\n\n",
            head()
        );
        let _ = sender.send(end.into()).await;
    });
    ([("content-type", "text/event-stream")], Body::new(Parts(receiver))).into_response()
}

fn head() -> &'static str {
    "\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"stub\""
}

struct Parts(tokio::sync::mpsc::Receiver<Bytes>);

impl hyper::body::Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}
