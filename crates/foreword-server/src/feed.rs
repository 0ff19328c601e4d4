//! The events of a session for streams. The latest ones are kept, so that an interrupted stream can continue where it ended.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::sync::watch;

/// Events that are remembered, and how many bytes they may have together.
const MOST_EVENTS: usize = 8192;
const MOST_BYTES: usize = 4 << 20;

/// The size of kept events of an idle session.
const MOST_BYTES_AT_REST: usize = 16 << 10;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// From 1, without gaps.
    pub(crate) number: u64,
    /// A word for what it is.
    pub(crate) name: &'static str,
    /// JSON, on one line.
    pub(crate) data: Arc<str>,
}

/// What follows an event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// These.
    Events(Vec<Event>),
    /// Some events are no longer kept. The reader must read the session again; later events follow this number.
    Lost(u64),
}

#[derive(Debug, Default)]
struct Ring {
    events: VecDeque<Event>,
    bytes: usize,
    last: u64,
}

/// The events of one session, since it was opened here.
#[derive(Debug)]
pub(crate) struct Feed {
    /// Distinguishes this feed from earlier ones and from other processes.
    pub(crate) name: String,
    ring: Mutex<Ring>,
    last: watch::Sender<u64>,
}

impl Feed {
    pub(crate) fn new(name: String) -> Self {
        Self { name, ring: Mutex::default(), last: watch::Sender::new(0) }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends an event. Returns its number.
    pub(crate) fn tell(&self, name: &'static str, data: &impl Serialize) -> u64 {
        let data: Arc<str> = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned()).into();
        let mut ring = self.ring();
        ring.last += 1;
        ring.bytes += data.len();
        let number = ring.last;
        ring.events.push_back(Event { number, name, data });
        while ring.events.len() > MOST_EVENTS || (ring.bytes > MOST_BYTES && ring.events.len() > 1) {
            let dropped = ring.events.pop_front().map_or(0, |event| event.data.len());
            ring.bytes -= dropped;
        }
        drop(ring);
        self.last.send_replace(number);
        number
    }

    /// Forgets all but the last events. A stream that was behind hears that some are lost, and reads the session again.
    pub(crate) fn trim(&self) {
        let mut ring = self.ring();
        while ring.bytes > MOST_BYTES_AT_REST {
            let Some(dropped) = ring.events.pop_front() else { break };
            ring.bytes -= dropped.data.len();
        }
        ring.events.shrink_to_fit();
    }

    /// What came after an event.
    pub(crate) fn after(&self, number: u64) -> Next {
        let ring = self.ring();
        let first = ring.events.front().map_or(ring.last + 1, |event| event.number);
        if number > ring.last || number + 1 < first {
            return Next::Lost(ring.last);
        }
        let skipped = usize::try_from(number + 1 - first).unwrap_or(usize::MAX);
        Next::Events(ring.events.iter().skip(skipped).cloned().collect())
    }

    /// An event, as a stream names it.
    pub(crate) fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.name)
    }

    /// The number of the last event.
    pub(crate) fn last(&self) -> u64 {
        self.ring().last
    }

    /// Something to wait with for the next one.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    /// Whether someone listens.
    pub(crate) fn is_heard(&self) -> bool {
        self.last.receiver_count() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(next: &Next) -> Vec<u64> {
        match next {
            Next::Events(events) => events.iter().map(|event| event.number).collect(),
            Next::Lost(last) => vec![0, *last],
        }
    }

    #[test]
    fn a_stream_goes_on_where_it_ended() {
        let feed = Feed::new("a".to_owned());
        let check = |after: u64, expect: &[u64]| assert_eq!(numbers(&feed.after(after)), expect, "after {after}");
        check(0, &[]);
        check(5, &[0, 0]);
        for part in ["a", "b", "c"] {
            feed.tell("part", &part);
        }
        check(0, &[1, 2, 3]);
        check(2, &[3]);
        check(3, &[]);
        check(4, &[0, 3]);
        check(u64::MAX, &[0, 3]);
    }

    #[test]
    fn at_rest_the_last_events_are_remembered() {
        let feed = Feed::new("a".to_owned());
        for _ in 0..100 {
            feed.tell("part", &"x".repeat(1000));
        }
        feed.trim();
        assert_eq!(feed.after(50), Next::Lost(100));
        assert_eq!(numbers(&feed.after(90)), (91..=100).collect::<Vec<u64>>());
        assert_eq!(feed.tell("part", &"y"), 101);
        assert_eq!(numbers(&feed.after(100)), [101]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let feed = Feed::new("a".to_owned());
        for _ in 0..MOST_EVENTS + 10 {
            feed.tell("part", &"x");
        }
        assert_eq!(feed.after(0), Next::Lost(MOST_EVENTS as u64 + 10));
        assert_eq!(numbers(&feed.after(10)).len(), MOST_EVENTS);
        for _ in 0..10 {
            feed.tell("part", &"y".repeat(MOST_BYTES / 4));
        }
        assert!(feed.ring().bytes <= MOST_BYTES);
        feed.tell("part", &"z".repeat(MOST_BYTES * 2));
        assert_eq!(numbers(&feed.after(feed.last() - 1)).len(), 1);
    }
}
