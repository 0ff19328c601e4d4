//! A server's output with an end to every line. A line is a message; one that does not end would be kept until memory does, and one that
//! is thrown away would leave its call waiting. So a line too long is where the output ends.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use crate::MAX_OUTPUT;

/// The longest line, in bytes: the largest output, where JSON needs several bytes for one of it.
pub(super) const MAX_LINE: usize = 4 * MAX_OUTPUT;

pub(super) struct Bounded<R> {
    inner: R,
    line: usize,
    exceeded: Arc<AtomicBool>,
}

impl<R> Bounded<R> {
    /// `exceeded` tells when the limit was the end.
    pub(super) fn new(inner: R, exceeded: Arc<AtomicBool>) -> Self {
        Self { inner, line: 0, exceeded }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Bounded<R> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.exceeded.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let read = buffer.filled().get(before..).unwrap_or_default();
        self.line = match read.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => read.len() - at - 1,
            None => self.line + read.len(),
        };
        if self.line > MAX_LINE {
            self.exceeded.store(true, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}
