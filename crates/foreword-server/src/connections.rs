//! Open connections: limited in total and per address. If there is no room for a new one, the one that has been idle longest is
//! closed.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;

/// A connection that does something.
const BUSY: u64 = u64::MAX;

/// A connection that was closed to make room.
const CLOSED: u64 = u64::MAX - 1;

/// The state of a connection.
#[derive(Debug)]
struct Held {
    address: IpAddr,
    /// `BUSY`, `CLOSED`, or since when it is idle, in milliseconds since the server's start.
    state: AtomicU64,
    close: Notify,
}

/// All open connections.
#[derive(Debug)]
pub(crate) struct Connections {
    most: usize,
    most_per_address: usize,
    started: Instant,
    held: Mutex<Table>,
    left: Notify,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    all: BTreeMap<u64, Arc<Held>>,
    per_address: BTreeMap<IpAddr, usize>,
}

/// Why there is no place for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// All connections of its address do something.
    Address,
    /// All connections do something.
    Server,
}

impl Connections {
    pub(crate) fn new(most: usize, most_per_address: usize) -> Arc<Self> {
        let started = Instant::now();
        Arc::new(Self { most, most_per_address, started, held: Mutex::default(), left: Notify::new() })
    }

    /// A place for a connection. Another one that is idle may have to go for it.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Result<Connection, NoRoom> {
        let mut table = self.table();
        if table.per_address.get(&address).is_some_and(|count| *count >= self.most_per_address)
            && !table.close_idlest(Some(address))
        {
            return Err(NoRoom::Address);
        }
        if table.all.len() >= self.most && !table.close_idlest(None) {
            return Err(NoRoom::Server);
        }
        let number = table.next;
        table.next += 1;
        let held = Arc::new(Held { address, state: AtomicU64::new(self.now()), close: Notify::new() });
        table.all.insert(number, Arc::clone(&held));
        *table.per_address.entry(address).or_default() += 1;
        Ok(Connection { number, held, all: Arc::clone(self) })
    }

    /// Closes the connection that has been idle longest, if there is one.
    pub(crate) fn close_idlest(&self) {
        self.table().close_idlest(None);
    }

    /// Waits until a connection ends.
    pub(crate) async fn one_left(&self) {
        self.left.notified().await;
    }

    /// Waits until there are none.
    pub(crate) async fn all_left(&self) {
        while !self.table().all.is_empty() {
            // One may end between the look and the wait.
            let _ = tokio::time::timeout(Duration::from_millis(20), self.left.notified()).await;
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(0)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Whether there was an idle one, of an address or of all. It gives its place free at once.
    fn close_idlest(&mut self, address: Option<IpAddr>) -> bool {
        loop {
            let idle = self.all.iter().filter(|(_, held)| address.is_none_or(|address| held.address == address));
            let idle = idle.map(|(number, held)| (held.state.load(Ordering::Acquire), *number));
            let Some((since, number)) = idle.filter(|(state, _)| *state < CLOSED).min() else { return false };
            let Some(held) = self.all.get(&number).cloned() else { return false };
            // It may have begun something meanwhile.
            if held.state.compare_exchange(since, CLOSED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                self.remove(number);
                held.close.notify_one();
                return true;
            }
        }
    }

    fn remove(&mut self, number: u64) {
        let Some(held) = self.all.remove(&number) else { return };
        if let Some(count) = self.per_address.get_mut(&held.address) {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&held.address);
            }
        }
    }
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    number: u64,
    held: Arc<Held>,
    all: Arc<Connections>,
}

impl Connection {
    /// Waits until its place is needed for another one.
    pub(crate) async fn closed(&self) {
        self.held.close.notified().await;
    }

    /// Begins a request; `None` if the connection was just closed.
    pub(crate) fn begin(&self) -> Option<Request> {
        let before = self.held.state.swap(BUSY, Ordering::AcqRel);
        if before == CLOSED {
            self.held.state.store(CLOSED, Ordering::Release);
            return None;
        }
        Some(Request { held: Arc::clone(&self.held), all: Arc::clone(&self.all) })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.all.table().remove(self.number);
        self.all.left.notify_waiters();
    }
}

/// A request on its way, until the last of its answer was taken.
pub(crate) struct Request {
    held: Arc<Held>,
    all: Arc<Connections>,
}

impl Request {
    /// The body of its answer: the request ends with it.
    pub(crate) fn ends_with(self, body: Body) -> Body {
        Body::new(Answer { body, _request: self })
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.held.state.store(self.all.now(), Ordering::Release);
    }
}

struct Answer {
    body: Body,
    _request: Request,
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
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
    use std::net::Ipv4Addr;

    use super::*;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    fn is_closed(connection: &Connection) -> bool {
        connection.held.state.load(Ordering::Acquire) == CLOSED
    }

    #[test]
    fn the_idlest_of_an_address_goes_first_and_none_that_is_busy() {
        let all = Connections::new(4, 2);
        let (one, two) = (all.enter(address(1)).unwrap(), all.enter(address(1)).unwrap());
        let other = all.enter(address(2)).unwrap();
        let request = one.begin().unwrap();
        let three = all.enter(address(1)).unwrap();
        assert_eq!((is_closed(&one), is_closed(&two), is_closed(&other)), (false, true, false));
        assert!(two.begin().is_none(), "a request on a closed connection");
        let also = three.begin().unwrap();
        assert_eq!(all.enter(address(1)).err(), Some(NoRoom::Address));
        drop(also);
        let four = all.enter(address(1)).unwrap();
        assert!(is_closed(&three) && !is_closed(&one));
        // A place that was given away is not given back a second time.
        drop((two, three));
        assert_eq!(all.table().per_address.get(&address(1)), Some(&2));
        drop((request, one, four, other));
        assert!(all.table().all.is_empty() && all.table().per_address.is_empty());
    }

    #[test]
    fn there_is_room_for_so_many_in_all() {
        let all = Connections::new(3, 3);
        let held: Vec<_> = (1..=3).map(|last| all.enter(address(last)).unwrap()).collect();
        let requests: Vec<_> = held.iter().map(|connection| connection.begin().unwrap()).collect();
        assert_eq!(all.enter(address(9)).err(), Some(NoRoom::Server));
        drop(requests);
        let nine = all.enter(address(9)).unwrap();
        assert_eq!(held.iter().filter(|connection| is_closed(connection)).count(), 1);
        assert_eq!(all.table().all.len(), 3);
        drop(nine);
    }
}
