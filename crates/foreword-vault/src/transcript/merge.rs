//! A file that was changed while its Session went on: whose words count.

use jiff::tz::TimeZone;

use super::head::Head;
use super::parse::{Block, Parsed, parse};
use super::read::take_stray;
use super::{Entry, Transcript};

/// What to do with a file that may have been changed by hand.
#[derive(Clone, Debug, PartialEq)]
pub enum Merge {
    /// Nothing in it was changed that we would lose: write over it.
    Unchanged,
    /// Its changes are taken over into this transcript: write that.
    Edited(Transcript),
    /// It was changed in a way that cannot be taken over safely: leave it, and write ours to another file.
    Conflict,
}

/// Decides what becomes of a file. `ours` is the Session now, `last_written` the file as we last wrote it, `on_disk` the file as it is.
///
/// Taken over are changed words, contexts and times of a message (one at which either the words or the time stayed, so that it is
/// known for the same), messages added at the end (ours that are newer come after them), text before the first message, and
/// changed frontmatter. Messages that were removed, moved or inserted, and words that both sides changed, are a conflict: what to
/// do with the tool calls and replies around them is not ours to guess.
pub fn merge(ours: &Transcript, last_written: &str, on_disk: &str, tz: &TimeZone) -> Merge {
    if last_written == on_disk {
        return Merge::Unchanged;
    }
    let (Ok(base), Ok(disk)) = (parse(last_written, tz), parse(on_disk, tz)) else { return Merge::Conflict };
    let Some(messages) = messages(&ours.messages, &base, &disk, tz) else { return Merge::Conflict };
    let head = |head: &Head| Transcript {
        model: head.model.clone(),
        topic: head.topic.clone(),
        last_accessed: head.last_accessed,
        extra: head.extra.clone(),
        ..Transcript::default()
    };
    join(ours, messages, &head(&base.head), &head(&disk.head))
}

/// As [`merge`], of a file `on_disk` whose messages are known to be ours: only its frontmatter, once that of `last_written`, can have been
/// changed.
pub fn merge_heads(ours: &Transcript, last_written: &Transcript, on_disk: &Transcript) -> Merge {
    join(ours, ours.messages.clone(), last_written, on_disk)
}

fn join(ours: &Transcript, messages: Vec<Entry>, base: &Transcript, disk: &Transcript) -> Merge {
    let merged = Transcript {
        epoch_ms: ours.epoch_ms,
        session: ours.session.clone(),
        model: newer(&base.model, &disk.model, &ours.model),
        topic: newer(&base.topic, &disk.topic, &ours.topic),
        last_accessed: newer(&base.last_accessed, &disk.last_accessed, &ours.last_accessed),
        extra: newer(&base.extra, &disk.extra, &ours.extra),
        messages,
    };
    if merged == *ours { Merge::Unchanged } else { Merge::Edited(merged) }
}

/// What the hand changed counts, otherwise ours.
fn newer<T: Clone + PartialEq>(base: &T, disk: &T, ours: &T) -> T {
    if disk == base { ours.clone() } else { disk.clone() }
}

/// Whether two messages are one, told by their times, or without them by their words.
fn is_same(a: &Block, b: &Block) -> bool {
    a.role == b.role && a.shown_time == b.shown_time && (a.time.is_some() || a.text == b.text)
}

fn messages(ours: &[Entry], base: &Parsed, disk: &Parsed, tz: &TimeZone) -> Option<Vec<Entry>> {
    if disk.blocks == base.blocks && disk.stray == base.stray {
        return Some(ours.to_vec());
    }
    if disk.source == super::Source::AssistantMd || disk.blocks.len() < base.blocks.len() || ours.len() < base.blocks.len() {
        return None;
    }
    // Seen as the file would show them, because a file that another program saved again lacks our comment.
    let seen = parse(&super::write(&Transcript { messages: ours.to_vec(), ..Transcript::default() }, tz), tz).ok()?;
    // The file may be newer than what is remembered of it: a message of ours that is there already was not added by hand.
    let ahead = seen.blocks.iter().zip(&disk.blocks).skip(base.blocks.len()).take_while(|(seen, disk)| is_same(seen, disk));
    let ahead: Vec<&Block> = ahead.map(|(seen, _)| seen).collect();
    let length = base.blocks.len() + ahead.len();
    let (known, new) = ours.split_at_checked(length)?;
    let (kept, added) = disk.blocks.split_at_checked(length)?;
    let mut merged = Vec::with_capacity(ours.len() + added.len());
    for (((entry, seen), base), disk) in known.iter().zip(&seen.blocks).zip(base.blocks.iter().chain(ahead)).zip(kept) {
        let mut entry = entry.clone();
        if entry.role != base.role || disk.role != base.role {
            return None;
        }
        let (words, time) = (disk.text != base.text, disk.shown_time != base.shown_time);
        if words && (time || base.time.is_none() || (seen.text != base.text && seen.text != disk.text)) {
            return None;
        }
        if words && seen.text != disk.text {
            entry.text.clone_from(&disk.text);
        }
        if time {
            entry.time = disk.time;
        }
        if disk.context != base.context {
            entry.context = disk.context.clone();
        }
        merged.push(entry);
    }
    merged.extend(added.iter().map(|block| Entry {
        time: block.time,
        context: block.context.clone(),
        ..Entry::new(block.role, block.text.clone())
    }));
    merged.extend_from_slice(new);
    if disk.stray != base.stray {
        take_stray(&mut merged, &disk.stray);
    }
    Some(merged)
}
