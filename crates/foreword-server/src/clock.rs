//! The time, for the engine, which never asks for it itself.

use jiff::Timestamp;

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}
