//! Server-sent events: a body that is written as things happen, and ends.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Frame;
use tokio::sync::{mpsc, watch};

use crate::app::ended;
use crate::feed::{Feed, Next};

/// The interval of comments that keep idle streams open.
const BREATH: Duration = Duration::from_secs(15);

/// Pieces of a body that wait for a slow reader.
const WAITING: usize = 16;

/// A body that is written elsewhere.
pub(crate) struct Written(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Written {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// An answer of events, and what writes them.
pub(crate) fn stream() -> (mpsc::Sender<Bytes>, Response) {
    let (sender, receiver) = mpsc::channel(WAITING);
    let mut response = Body::new(Written(receiver)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies that collect an answer before they hand it on would spoil it.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    (sender, response)
}

/// One event.
fn event(feed: &str, number: u64, name: &str, data: &str) -> String {
    format!("id: {feed}-{number}\nevent: {name}\ndata: {data}\n\n")
}

/// Streams a feed from the event that `last` names on: `Last-Event-ID`, as `FEED-NUMBER`. Without it, from now on.
pub(crate) fn follow(feed: Arc<Feed>, last: Option<&str>, lasting: Duration, mut end: watch::Receiver<bool>) -> Response {
    let (sender, response) = stream();
    let known = last.and_then(|last| {
        let (name, number) = last.rsplit_once('-')?;
        Some((name.to_owned(), number.parse().ok()?))
    });
    let mut at = match known {
        None => feed.last(),
        Some((name, number)) if name == feed.name => number,
        // Another feed: nothing of it is known here.
        Some(_) => u64::MAX,
    };
    tokio::spawn(async move {
        let mut news = feed.watch();
        let until = tokio::time::sleep(lasting);
        let mut until = std::pin::pin!(until);
        // The first line tells where a stream that is lost at once goes on.
        let mut text = "retry: 1000\n".to_owned() + &event(&feed.name, at.min(feed.last()), "open", "{}");
        loop {
            news.mark_unchanged();
            match feed.after(at) {
                Next::Lost(last) => {
                    at = last;
                    text.push_str(&event(&feed.name, at, "lost", "{}"));
                }
                Next::Events(events) => {
                    for told in events {
                        at = told.number;
                        text.push_str(&event(&feed.name, at, told.name, &told.data));
                    }
                }
            }
            if !text.is_empty() && sender.send(Bytes::from(std::mem::take(&mut text))).await.is_err() {
                return;
            }
            tokio::select! {
                _ = news.changed() => {}
                () = tokio::time::sleep(BREATH) => text.push_str(": still here\n\n"),
                () = sender.closed() => return,
                () = &mut until => return,
                () = ended(&mut end) => return,
            }
        }
    });
    response
}
