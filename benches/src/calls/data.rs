//! Logged calls of coding agents: numbers only, as they were reported.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result};
use flate2::read::GzDecoder;
use foreword_core::tokens::Tokens;
use serde::Deserialize;

/// One call, as the data set has it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Call {
    pub(crate) log: String,
    pub(crate) agent: String,
    pub(crate) chain: String,
    pub(crate) model: String,
    /// Seconds since the log began.
    pub(crate) t: f64,
    pub(crate) input: u64,
    pub(crate) read: u64,
    pub(crate) write_5m: u64,
    pub(crate) write_1h: u64,
    /// Seconds until its answer was complete.
    pub(crate) took: f64,
    /// Idle seconds before it, from the end of the answer before.
    pub(crate) gap: f64,
    /// A guess at why it did not find the cache.
    #[serde(default)]
    pub(crate) cause: Option<String>,
}

impl Call {
    pub(crate) fn written(&self) -> u64 {
        self.write_5m + self.write_1h
    }

    /// Size of its prompt. In the data set the input of no agent contains what was read.
    pub(crate) fn total(&self) -> u64 {
        self.input + self.read + self.written()
    }

    /// What its provider had of the prompt afterwards.
    pub(crate) fn cached(&self) -> u64 {
        if self.written() > 0 || self.agent == "claude" { self.read + self.written() } else { self.total() }
    }
}

/// The calls of the main thread of a log, or of one sub-agent of it.
pub(crate) struct Chain {
    pub(crate) calls: Vec<Call>,
}

impl Chain {
    pub(crate) fn log(&self) -> &str {
        &self.calls[0].log
    }

    /// What the prompt of a call has in common with the one before it. What broke it without a pause is taken as it was.
    pub(crate) fn kept(&self, at: usize) -> Tokens {
        let call = &self.calls[at];
        let Some(before) = at.checked_sub(1).map(|at| &self.calls[at]) else { return Tokens(call.read) };
        let lapsed = call.cause.as_deref() == Some("ttl");
        Tokens(if lapsed { before.cached().min(call.read + call.written()) } else { call.read })
    }
}

/// Reads a file of one call a line.
pub(crate) fn read(file: &Path) -> Result<Vec<Chain>> {
    let opened = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    let mut chains: BTreeMap<(String, String), Vec<Call>> = BTreeMap::new();
    for (at, line) in BufReader::new(GzDecoder::new(opened)).lines().enumerate() {
        let place = || format!("{}: line {}", file.display(), at + 1);
        let call: Call = serde_json::from_str(&line.with_context(place)?).with_context(place)?;
        chains.entry((call.log.clone(), call.chain.clone())).or_default().push(call);
    }
    let in_order = |mut calls: Vec<Call>| {
        calls.sort_by(|a, b| a.t.total_cmp(&b.t));
        Chain { calls }
    };
    Ok(chains.into_values().map(in_order).collect())
}
