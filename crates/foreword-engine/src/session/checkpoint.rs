//! Checkpoints: a session's state together with its current setup.

use std::path::Path;

use foreword_core::session::Session;

use super::setup::Setup;

/// Serializes both.
pub(super) fn body(setup: &Setup, session: &Session) -> Vec<u8> {
    // Neither can fail: they hold nothing that JSON or a row of bytes cannot.
    let setup = serde_json::to_string(setup).unwrap_or_default();
    postcard::to_allocvec(&(setup, session.checkpoint())).unwrap_or_default()
}

/// Restores both; `None` if another version wrote them.
pub(super) fn restore(body: &[u8], models: Option<&Path>) -> Option<(Setup, Session)> {
    let (setup, session): (String, Vec<u8>) = postcard::from_bytes(body).ok()?;
    let setup: Setup = serde_json::from_str(&setup).ok()?;
    let session = Session::restore(&session, setup.open_tokenizer(models).ok()?).ok()?;
    Some((setup, session))
}
