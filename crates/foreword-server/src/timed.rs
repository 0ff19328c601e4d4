//! A body that has to come in time: it may not stop for long, and all of it may not take too long.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

/// A body with its time limits.
pub(crate) struct Timed {
    body: Body,
    idle: Duration,
    until: Instant,
    /// Made when the body is waited for at first: most bodies are there with their head.
    sleep: Option<Pin<Box<Sleep>>>,
    /// Set where a limit was passed.
    stalled: Arc<AtomicBool>,
}

impl Timed {
    /// A body that may make no progress for `idle`, and take `all` in all. `stalled` is set where it takes longer.
    pub(crate) fn body(body: Body, idle: Duration, all: Duration, stalled: Arc<AtomicBool>) -> Body {
        if body.is_end_stream() {
            return body;
        }
        Body::new(Self { body, idle, until: Instant::now() + all, sleep: None, stalled })
    }
}

impl hyper::body::Body for Timed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.sleep = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)));
        }
        let next = this.until.min(Instant::now() + this.idle);
        let sleep = this.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(next)));
        if sleep.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        this.stalled.store(true, Ordering::Relaxed);
        Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A byte now and then, for ever.
    struct Drip(Duration, Pin<Box<Sleep>>);

    impl hyper::body::Body for Drip {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
            std::task::ready!(self.1.as_mut().poll(context));
            self.1 = Box::pin(tokio::time::sleep(self.0));
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
        }
    }

    #[tokio::test]
    async fn a_body_that_stops_or_drips_has_an_end() {
        let check = async |every_ms: u64, idle_ms: u64, all_ms: u64, bytes: std::ops::RangeInclusive<usize>| {
            let every = Duration::from_millis(every_ms);
            let drip = Body::new(Drip(every, Box::pin(tokio::time::sleep(every))));
            let stalled = Arc::new(AtomicBool::new(false));
            let (idle, all) = (Duration::from_millis(idle_ms), Duration::from_millis(all_ms));
            let mut body = Timed::body(drip, idle, all, Arc::clone(&stalled));
            let mut came = 0;
            let started = Instant::now();
            while let Some(Ok(_)) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
                came += 1;
            }
            assert!(stalled.load(Ordering::Relaxed), "{every_ms} {idle_ms} {all_ms}");
            assert!(bytes.contains(&came), "{every_ms} {idle_ms} {all_ms}: {came} bytes");
            assert!(started.elapsed() < Duration::from_secs(5));
        };
        check(60_000, 50, 60_000, 0..=0).await;
        check(20, 10_000, 200, 1..=10).await;
    }
}
