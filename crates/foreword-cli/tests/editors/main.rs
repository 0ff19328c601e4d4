//! `foreword mcp`, `foreword acp` and `foreword setup` with the official clients of both protocols. Each message of the server is checked
//! against the protocol's schema.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod acp;
mod mcp;
mod setup;
mod world;
