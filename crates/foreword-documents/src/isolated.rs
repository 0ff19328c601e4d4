//! Work that is done apart: hostile input is handed to libraries in a thread with a stack of its own, whose panics become errors and
//! which is waited for only so long.
//!
//! A thread cannot be stopped from outside. One that is over time is asked to stop and left behind; with [`MAX_LEFT_BEHIND`] of those
//! still at work, no further work is taken on.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Once};
use std::thread;
use std::time::Duration;

/// The most threads that are over time and still at work.
pub const MAX_LEFT_BEHIND: usize = 4;
const STACK_BYTES: usize = 64 << 20;
const THREAD: &str = "foreword-apart";

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It panicked, or its thread could not be started.
    Panicked,
    /// It took too long.
    TooSlow,
    /// Too many that took too long are still at work.
    Busy,
}

static LEFT_BEHIND: AtomicUsize = AtomicUsize::new(0);

/// Runs `work` apart and waits for it up to `time`. It is given a flag that tells it to stop.
pub fn run<T: Send + 'static>(time: Duration, work: impl FnOnce(&AtomicBool) -> T + Send + 'static) -> Result<T, Fault> {
    if LEFT_BEHIND.load(Ordering::SeqCst) >= MAX_LEFT_BEHIND {
        return Err(Fault::Busy);
    }
    silence();
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let (done, result) = mpsc::channel();
    let body = move || {
        let found = panic::catch_unwind(AssertUnwindSafe(|| work(&seen)));
        // It fails if the caller stopped waiting.
        let _ = done.send(found.ok());
        // Whoever turns the flag second knows that both sides are through: the one that waits counts up, this one down.
        if seen.swap(true, Ordering::SeqCst) {
            LEFT_BEHIND.fetch_sub(1, Ordering::SeqCst);
        }
    };
    let thread = thread::Builder::new().name(THREAD.to_owned()).stack_size(STACK_BYTES);
    thread.spawn(body).map_err(|_| Fault::Panicked)?;
    match result.recv_timeout(time) {
        Ok(found) => found.ok_or(Fault::Panicked),
        Err(RecvTimeoutError::Disconnected) => Err(Fault::Panicked),
        Err(RecvTimeoutError::Timeout) => {
            LEFT_BEHIND.fetch_add(1, Ordering::SeqCst);
            if stop.swap(true, Ordering::SeqCst) {
                LEFT_BEHIND.fetch_sub(1, Ordering::SeqCst);
            }
            Err(Fault::TooSlow)
        }
    }
}

/// Keeps panics of these threads off the terminal: they are caught and become errors. All others are told as before.
fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if thread::current().name() != Some(THREAD) {
                before(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn panics_and_time_are_held() {
        let time = Duration::from_secs(5);
        assert_eq!(run(time, |_| 7), Ok(7));
        assert_eq!(run::<u8>(time, |_| panic!("not to be seen")), Err(Fault::Panicked));
        let until_told = |stop: &AtomicBool| {
            while !stop.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
        };
        assert_eq!(run(Duration::from_millis(20), until_told), Err(Fault::TooSlow));
        let start = Instant::now();
        while LEFT_BEHIND.load(Ordering::SeqCst) > 0 && start.elapsed() < time {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(run(time, |_| 8), Ok(8));
    }
}
