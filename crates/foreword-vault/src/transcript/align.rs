//! Which message of a file is which, after someone has edited the file. Two lists of marks are laid side by side, in order, in time
//! that grows with their length (and its logarithm), whatever they hold.

use std::collections::BTreeMap;

use super::Role;

/// How a message is recognised.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark {
    pub(super) role: Role,
    /// Hash of the words.
    pub(super) words: String,
    /// The time as it is shown.
    pub(super) time: String,
}

/// What two marks must share, from the surest sign to the weakest.
#[derive(Clone, Copy)]
enum By {
    All,
    Time,
    Words,
}

impl By {
    fn key(self, mark: &Mark) -> (Role, &str, &str) {
        match self {
            Self::All => (mark.role, &mark.words, &mark.time),
            Self::Time => (mark.role, "", &mark.time),
            Self::Words => (mark.role, &mark.words, ""),
        }
    }
}

/// For each of `new`, its place in `old`. Places only grow.
pub(super) fn align(old: &[Mark], new: &[Mark]) -> Vec<Option<usize>> {
    let mut places = vec![None; new.len()];
    for by in [By::All, By::Time, By::Words] {
        for (new_range, old_range) in gaps(&places, old.len()) {
            pair(by, (old, old_range), (new, new_range), &mut places);
        }
    }
    // What is left between two known messages is the same again if it is as many, by the same speakers.
    for (new_range, old_range) in gaps(&places, old.len()) {
        let same = new_range.len() == old_range.len()
            && new_range.clone().zip(old_range.clone()).all(|(to, from)| new[to].role == old[from].role);
        if same {
            new_range.zip(old_range).for_each(|(to, from)| places[to] = Some(from));
        }
    }
    places
}

type Span = std::ops::Range<usize>;

/// The stretches of messages not yet paired, on both sides, between those that are.
fn gaps(places: &[Option<usize>], old_len: usize) -> Vec<(Span, Span)> {
    let known = places.iter().enumerate().filter_map(|(to, from)| Some((to, (*from)?)));
    let (mut to_start, mut from_start) = (0, 0);
    let mut gaps = Vec::new();
    for (to, from) in known.chain([(places.len(), old_len)]) {
        if to_start < to && from_start < from {
            gaps.push((to_start..to, from_start..from));
        }
        (to_start, from_start) = (to + 1, from + 1);
    }
    gaps
}

/// Pairs what is equal at both ends of a gap, then what occurs once on either side, in the longest order that fits.
fn pair(by: By, (old, old_range): (&[Mark], Span), (new, new_range): (&[Mark], Span), places: &mut [Option<usize>]) {
    let same = |to: usize, from: usize| by.key(&new[to]) == by.key(&old[from]);
    let (mut to, mut from) = (new_range.clone(), old_range.clone());
    while !to.is_empty() && !from.is_empty() && same(to.start, from.start) {
        places[to.start] = Some(from.start);
        (to.start, from.start) = (to.start + 1, from.start + 1);
    }
    while !to.is_empty() && !from.is_empty() && same(to.end - 1, from.end - 1) {
        (to.end, from.end) = (to.end - 1, from.end - 1);
        places[to.end] = Some(from.end);
    }

    // How often each key occurs, and where last: in the old list, then in the new one.
    let mut seen: BTreeMap<_, [(usize, usize); 2]> = BTreeMap::new();
    for (side, marks, range) in [(0, old, from), (1, new, to)] {
        for at in range {
            let place = &mut seen.entry(by.key(&marks[at])).or_default()[side];
            *place = (place.0 + 1, at);
        }
    }
    let mut once: Vec<(usize, usize)> =
        seen.values().filter(|[old, new]| old.0 == 1 && new.0 == 1).map(|[old, new]| (new.1, old.1)).collect();
    once.sort_unstable();
    for at in longest_rise(&once.iter().map(|(_, from)| *from).collect::<Vec<_>>()) {
        let (to, from) = once[at];
        places[to] = Some(from);
    }
}

/// The places of a longest row of growing numbers (patience sorting).
fn longest_rise(numbers: &[usize]) -> Vec<usize> {
    let mut tops: Vec<usize> = Vec::new();
    let mut before = vec![None; numbers.len()];
    for (at, number) in numbers.iter().enumerate() {
        let pile = tops.partition_point(|top| numbers[*top] < *number);
        before[at] = pile.checked_sub(1).map(|pile| tops[pile]);
        if pile == tops.len() { tops.push(at) } else { tops[pile] = at }
    }
    let mut row: Vec<usize> = std::iter::successors(tops.last().copied(), |at| before[*at]).collect();
    row.reverse();
    row
}
