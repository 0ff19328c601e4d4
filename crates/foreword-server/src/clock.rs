//! The time, for the engine, which never asks for it itself.

use foreword_engine::clock;

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    clock::now().as_millisecond()
}
