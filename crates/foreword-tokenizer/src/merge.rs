//! Byte-pair encoding of one word.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Ranks;

/// Up to this many bytes, looking at every pair again is faster than a heap.
const MAX_SCANNED: usize = 64;

/// The number of tokens of a word.
pub(crate) fn count(ranks: &Ranks, word: &[u8]) -> usize {
    if word.len() <= MAX_SCANNED { scan(ranks, word) } else { heap(ranks, word) }
}

/// Looks at every pair for each merge.
fn scan(ranks: &Ranks, word: &[u8]) -> usize {
    // Where each part begins, the end of the word behind them, and the rank of each part joined with the next.
    let mut starts: Vec<usize> = (0..=word.len()).collect();
    let rank = |starts: &[usize], at: usize| {
        let (from, to) = (starts.get(at)?, starts.get(at + 2)?);
        ranks.get(word.get(*from..*to)?).copied()
    };
    let mut joined: Vec<Option<u32>> = (0..word.len()).map(|at| rank(&starts, at)).collect();
    loop {
        let ranked = joined.iter().enumerate().filter_map(|(at, rank)| rank.map(|rank| (rank, at)));
        let Some((_, at)) = ranked.min() else { return joined.len() };
        starts.remove(at + 1);
        joined.remove(at + 1);
        for changed in [Some(at), at.checked_sub(1)].into_iter().flatten() {
            if let Some(slot) = joined.get_mut(changed) {
                *slot = rank(&starts, changed);
            }
        }
    }
}

/// Keeps the pairs in a heap, so that a word of any length takes n log n steps.
fn heap(ranks: &Ranks, word: &[u8]) -> usize {
    // By the byte where a part begins: where it ends (0 once the part has joined the one before it), and where the part before it begins.
    let mut ends: Vec<usize> = (1..=word.len()).collect();
    let mut before: Vec<Option<usize>> = (0..word.len()).map(|at| at.checked_sub(1)).collect();
    let mut parts = word.len();
    let mut pairs = BinaryHeap::new();
    let push = |pairs: &mut BinaryHeap<_>, ends: &[usize], start: usize| {
        let middle = ends.get(start).copied()?;
        let end = ends.get(middle).copied()?;
        let rank = *ranks.get(word.get(start..end)?)?;
        pairs.push(Reverse((rank, start, end)));
        Some(())
    };
    for start in 0..word.len() {
        push(&mut pairs, &ends, start);
    }
    while let Some(Reverse((_, start, end))) = pairs.pop() {
        // A pair counts only while both of its parts are as they were.
        let Some(middle) = ends.get(start).copied().filter(|middle| (1..end).contains(middle)) else { continue };
        if ends.get(middle) != Some(&end) {
            continue;
        }
        if let (Some(first), Some(previous)) = (ends.get_mut(start), before.get(start).copied()) {
            *first = end;
            parts -= 1;
            if let Some(second) = ends.get_mut(middle) {
                *second = 0;
            }
            if let Some(next) = before.get_mut(end) {
                *next = Some(start);
            }
            push(&mut pairs, &ends, start);
            previous.and_then(|previous| push(&mut pairs, &ends, previous));
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_ways_count_the_same(word in prop_oneof!["[a-c]{1,80}", "[ab ]{1,300}", "\\PC{1,100}"]) {
            let ranks = &crate::cl100k().ranks;
            prop_assert_eq!(scan(ranks, word.as_bytes()), heap(ranks, word.as_bytes()));
        }
    }
}
