//! Envelope to request body.
