//! What readers of JSONL have in common: the loop over the lines, and the tree that records form in some formats.

use std::collections::HashMap;
use std::io::BufRead;

use serde::Deserialize;

use super::builder::Builder;
use crate::lines::JsonLines;
use crate::log::{FileLog, Signs, hash};

/// The reader of one program: it takes the records of a log one at a time and makes calls of them.
pub(crate) trait RecordReader {
    /// A line of the log.
    type Record<'a>: Deserialize<'a>;

    /// A reader for one log, of which nothing was read yet.
    fn new(log: FileLog) -> Self;

    /// Whether a line need not be parsed.
    fn is_skipped(_line: &[u8]) -> bool {
        false
    }

    /// Takes a line.
    fn take(&mut self, line: u32, record: Self::Record<'_>);

    /// The log, when all lines were taken.
    fn finish(self) -> FileLog;
}

/// Reads one log.
pub(crate) fn read<R: RecordReader>(from: impl BufRead, log: FileLog) -> FileLog {
    let mut lines = JsonLines::new(from);
    let mut reader = R::new(log);
    while let Some(number) = lines.advance() {
        if R::is_skipped(lines.bytes()) {
            continue;
        }
        if let Some(record) = lines.parse::<R::Record<'_>>() {
            reader.take(number, record);
        }
    }
    FileLog { lines: lines.lines, ..reader.finish() }
}

/// Reads a log that is one JSON object over several lines.
pub(crate) fn read_whole<R: RecordReader>(text: &[u8], log: FileLog) -> FileLog {
    let mut lines = JsonLines::new(text);
    let mut reader = R::new(log);
    lines.take_all(text);
    if let Some(record) = lines.parse::<R::Record<'_>>() {
        reader.take(1, record);
    }
    FileLog { lines: lines.lines, ..reader.finish() }
}

/// The tree that records form by the name of the one before: for each record, the last call on the way to it.
#[derive(Debug, Default)]
pub(crate) struct Tree(HashMap<u64, Option<u32>>);

impl Tree {
    /// The last call on the way to a record with that parent.
    pub(crate) fn call_before(&self, parent: &str) -> Option<u32> {
        self.0.get(&hash(parent)).copied().flatten()
    }

    /// Adds a record; `call` is the last one on the way to it, itself included.
    pub(crate) fn add(&mut self, id: &str, call: Option<u32>) {
        if !id.is_empty() {
            self.0.insert(hash(id), call);
        }
    }
}

impl Builder {
    /// Marks a call as a rewind where it does not stand behind the call before it, `last`, but behind an earlier one of its chain.
    pub(crate) fn mark_rewind(&mut self, call: u32, behind: Option<u32>, last: Option<u32>) {
        let (Some(behind), Some(last)) = (behind, last) else { return };
        let chain = self.at(behind).map(|call| call.chain);
        if let Some(call) = self.at(call).filter(|call| behind != last && chain == Some(call.chain)) {
            call.signs.add(Signs::REWOUND);
        }
    }
}
