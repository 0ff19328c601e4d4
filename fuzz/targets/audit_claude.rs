//! A log of Claude Code that is broken, cut short or of several versions.

#![no_main]

include!("audit/check.rs");

libfuzzer_sys::fuzz_target!(|data: &[u8]| check(Agent::ClaudeCode, data));
