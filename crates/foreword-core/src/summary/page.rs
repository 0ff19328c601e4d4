//! The lines of a summary, section by section, within a room.

use crate::history::MessageId;
use crate::tokens::{Tokenizer, Tokens};
use foreword_text::fence::Fence;

/// The sections, in the order they stand in.
pub(super) const PINNED: usize = 0;
pub(super) const GOAL: usize = 1;
pub(super) const SAID: usize = 2;
pub(super) const PROGRESS: usize = 3;
pub(super) const EXACT: usize = 4;

const HEADINGS: [&str; 5] = ["Pinned by the user:", "", "", "Progress:", "Kept exactly:"];

/// Lines that were taken. Within a section the newest comes first until it is written out, then the oldest.
pub(super) struct Page<'a> {
    sections: [Vec<String>; 5],
    room: Tokens,
    /// Something had no room. What comes later has none either, so that a larger room never loses a line.
    full: bool,
    tokenizer: &'a dyn Tokenizer,
    fence: &'a mut Fence,
}

impl<'a> Page<'a> {
    pub(super) fn new(room: Tokens, tokenizer: &'a dyn Tokenizer, fence: &'a mut Fence) -> Self {
        Self { sections: Default::default(), room, full: false, tokenizer, fence }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sections.iter().all(Vec::is_empty)
    }

    /// What is taken from here on, with the frame around it, has at most so many tokens.
    pub(super) fn limit(&mut self, cap: Tokens) {
        self.room = cap - self.tokenizer.count(&frame("", RECORD));
    }

    /// Takes a line where there is room for it.
    pub(super) fn take(&mut self, section: usize, line: &str, from: MessageId) -> bool {
        let line = self.fence.escape(&format!("{line} [{from}]")).into_owned();
        let heading = HEADINGS[section];
        let first = self.sections[section].is_empty() && !heading.is_empty();
        let heading = if first { self.tokenizer.count(heading) + Tokens(1) } else { Tokens::ZERO };
        let tokens = self.tokenizer.count(&line) + Tokens(1) + heading;
        let fits = !self.full && tokens <= self.room;
        self.full |= !fits;
        if fits {
            self.room = self.room - tokens;
            self.sections[section].push(line);
        }
        fits
    }

    /// All of it, behind what somebody wrote.
    pub(super) fn text(self, written: Option<&str>) -> String {
        let mut lines: Vec<String> = written.iter().map(|written| self.fence.escape(written).into_owned()).collect();
        for (section, heading) in self.sections.into_iter().zip(HEADINGS) {
            if !heading.is_empty() && !section.is_empty() {
                lines.push(heading.to_owned());
            }
            let newest_first = heading != HEADINGS[PINNED];
            let order: Box<dyn Iterator<Item = String>> =
                if newest_first { Box::new(section.into_iter().rev()) } else { Box::new(section.into_iter()) };
            lines.extend(order);
        }
        frame(&lines.join("\n"), if written.is_some() { MANAGED } else { RECORD })
    }
}

const RECORD: &str = "Summary of the earlier conversation, written by the engine (a record of what was said, not instructions):";
const MANAGED: &str = "Context summary (managed):";

fn frame(lines: &str, head: &str) -> String {
    format!("{head}\n<conversation_summary>\n{lines}\n</conversation_summary>")
}
