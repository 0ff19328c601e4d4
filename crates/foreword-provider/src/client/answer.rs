//! A streaming answer.

use reqwest::Response;
use tokio::time::Instant;

use super::Sent;
use super::config::Timeouts;
use super::error::{SendError, Waited};
use super::key::Secret;
use crate::reply::{Event, Reader, Reply};
use crate::usage::Usage;

/// The events of one answer. Dropping it cancels the request.
#[derive(Debug)]
pub struct Answer {
    response: Response,
    reader: Reader,
    host: String,
    /// Removed from all messages.
    key: Option<Secret>,
    timeouts: Timeouts,
    deadline: Instant,
    /// Whether bytes have arrived.
    came: bool,
    /// An error to return after the events before it.
    failed: Option<SendError>,
}

impl Answer {
    pub(super) fn new(sent: Sent, reader: Reader, host: String, timeouts: Timeouts, deadline: Instant) -> Self {
        let Sent { response, key } = sent;
        Self { response, reader, host, key, timeouts, deadline, came: false, failed: None }
    }

    /// Whether bytes have arrived.
    pub(super) fn came(&self) -> bool {
        self.came
    }

    /// Reads up to the first event. An error before it counts as a failed attempt.
    pub(super) async fn begin(&mut self) -> Result<(), SendError> {
        while !self.reader.has_begun() && !self.reader.has_ended() {
            let chunk = self.response.chunk().await.map_err(|error| SendError::network(&self.host, &error));
            self.take(chunk);
        }
        if self.reader.has_ended() {
            self.end();
        }
        match &self.failed {
            // The usage of a try that brought nothing is an event too.
            Some(error) if !self.reader.has_content() => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// The next event; `None` after the end. Events before an error are returned first. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Option<Event>, SendError> {
        loop {
            if let Some(event) = self.reader.next_event() {
                return Ok(Some(event));
            }
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if self.reader.has_finished() {
                return Ok(None);
            }
            if self.reader.has_ended() {
                self.end();
                continue;
            }
            let until = self.deadline.min(Instant::now() + self.timeouts.idle);
            let chunk = match tokio::time::timeout_at(until, self.response.chunk()).await {
                Ok(chunk) => chunk.map_err(|error| SendError::network(&self.host, &error)),
                Err(_) => Err(self.slow(until)),
            };
            self.take(chunk);
        }
    }

    /// The next event that has already arrived.
    pub fn waiting(&mut self) -> Option<Event> {
        self.reader.next_event()
    }

    /// Reads the rest of the answer.
    pub async fn reply(mut self) -> Result<Reply, SendError> {
        let mut reply = Reply::default();
        while let Some(event) = self.next().await? {
            reply.add(event);
        }
        Ok(reply)
    }

    /// The usage known so far, for an answer that is dropped early.
    pub fn usage(&self) -> Option<Usage> {
        self.reader.usage()
    }

    /// The provider's ID of the answer.
    pub fn id(&self) -> Option<&str> {
        self.reader.id()
    }

    fn take(&mut self, chunk: Result<Option<impl AsRef<[u8]>>, SendError>) {
        match chunk {
            Ok(Some(bytes)) => {
                self.came = true;
                if let Err(error) = self.reader.push(bytes.as_ref()) {
                    self.failed = Some(SendError::read(&self.host, self.key.as_ref(), error));
                }
            }
            Ok(None) => self.end(),
            // What is lost behind the model's end is not missed.
            Err(_) if self.reader.has_stopped() => self.end(),
            Err(error) => {
                // The error that ended the answer is the one to report.
                let _ = self.reader.finish();
                self.failed = Some(error);
            }
        }
    }

    fn end(&mut self) {
        if let Err(error) = self.reader.finish() {
            self.failed = Some(SendError::read(&self.host, self.key.as_ref(), error));
        }
    }

    fn slow(&self, until: Instant) -> SendError {
        let (waited, limit) =
            if until == self.deadline { (Waited::Whole, self.timeouts.total) } else { (Waited::Next, self.timeouts.idle) };
        SendError::TooSlow { host: self.host.clone(), waited, limit }
    }
}
