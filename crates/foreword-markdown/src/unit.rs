//! The text of a leaf in one piece. Where container marks stand between its lines (`> `, indentation), a copy without them, which still
//! knows where each byte came from.

use std::borrow::Cow;
use std::ops::Range;

pub(super) struct Unit<'a> {
    pub(super) text: Cow<'a, str>,
    /// The lines in the note.
    lines: &'a [Range<usize>],
    /// Where each line starts in the unit; empty where the unit is a piece of the note.
    starts: Vec<usize>,
}

impl<'a> Unit<'a> {
    pub(super) fn new(text: &'a str, lines: &'a [Range<usize>]) -> Self {
        let (Some(first), Some(last)) = (lines.first(), lines.last()) else {
            return Self { text: Cow::Borrowed(""), lines, starts: Vec::new() };
        };
        if lines.is_sorted_by(|line, next| line.end + 1 == next.start) {
            return Self { text: Cow::Borrowed(text.get(first.start..last.end).unwrap_or_default()), lines, starts: Vec::new() };
        }
        let mut joined = String::with_capacity(last.end - first.start);
        let mut starts = Vec::with_capacity(lines.len());
        for line in lines {
            if !starts.is_empty() {
                joined.push('\n');
            }
            starts.push(joined.len());
            joined.push_str(text.get(line.clone()).unwrap_or_default());
        }
        Self { text: Cow::Owned(joined), lines, starts }
    }

    /// Where a place of the unit is in the note.
    pub(super) fn origin(&self, at: usize) -> usize {
        let line = self.starts.partition_point(|start| *start <= at).saturating_sub(1);
        let start = self.starts.get(line).copied().unwrap_or(0);
        self.lines.get(line).map_or(at, |line| line.start + (at - start))
    }

    /// The range in the note of a range of the unit.
    pub(super) fn origins(&self, range: &Range<usize>) -> Range<usize> {
        self.origin(range.start)..self.origin(range.end)
    }
}
