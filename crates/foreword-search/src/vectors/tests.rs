use proptest::prelude::*;

use super::*;
use crate::DIMENSIONS;

/// Numbers that look random and are the same in every run.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// Between -1 and 1.
    fn number(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub(super) fn vector(&mut self) -> Vector {
        std::array::from_fn(|_| self.number())
    }
}

pub(super) fn unit(vector: &Vector) -> Vector {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.map(|x| x / length)
}

fn mix(a: &Vector, b: &Vector, share: f32) -> Vector {
    std::array::from_fn(|i| a[i] + share * b[i])
}

/// Kinds of sets that are hard in different ways.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Random,
    Clustered,
    /// Few different vectors, each many times: the order is by row.
    Duplicate,
    /// Differences far below a step of the code.
    Crowded,
    /// One component is far larger than the others, so that they are coded as nothing.
    Spiked,
    /// Not of length 1, from the smallest numbers to the largest.
    Stretched,
    /// Coded without any error, so that only the roundings are left.
    Whole,
    /// With infinities and what is no number.
    Broken,
}

pub(super) const KINDS: [Kind; 8] =
    [Kind::Random, Kind::Clustered, Kind::Duplicate, Kind::Crowded, Kind::Spiked, Kind::Stretched, Kind::Whole, Kind::Broken];

pub(super) fn make(kind: Kind, count: usize, dice: &mut Dice) -> Vec<Vector> {
    let centres: Vec<_> = (0..5).map(|_| unit(&dice.vector())).collect();
    (0..count)
        .map(|_| {
            let centre = &centres[dice.below(centres.len())];
            let random = unit(&dice.vector());
            match kind {
                Kind::Random => random,
                Kind::Clustered => unit(&mix(centre, &random, 0.5)),
                Kind::Duplicate => *centre,
                Kind::Crowded => unit(&mix(&centres[0], &random, 1e-6)),
                Kind::Spiked => {
                    let mut spiked = random;
                    spiked[dice.below(DIMENSIONS)] = 50.0;
                    unit(&spiked)
                }
                Kind::Stretched => {
                    let exponent = i32::try_from(dice.below(80)).unwrap() - 42;
                    random.map(|x| x * 10_f32.powi(exponent))
                }
                Kind::Whole => {
                    let mut whole = random.map(|x| (x * 1000.0).round().clamp(-127.0, 127.0) / 128.0);
                    whole[dice.below(DIMENSIONS)] = 127.0 / 128.0;
                    whole
                }
                Kind::Broken => {
                    let mut broken = random;
                    broken[dice.below(DIMENSIONS)] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 0.0][dice.below(5)];
                    broken
                }
            }
        })
        .collect()
}

/// What `top` must return, from the definition.
fn naive(vectors: &Vectors, query: &Vector, k: usize, keep: Keep) -> Vec<(u32, f32)> {
    let rows = (0..number(vectors.rows())).filter(|row| vectors.holds(*row) && keep(*row));
    let mut scored: Vec<_> = rows.map(|row| (row, vectors.score(row, query))).collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    scored.truncate(k);
    scored
}

fn check_all_ways(vectors: &Vectors, queries: &[Vector], k: usize, keep: Keep) {
    let expected: Vec<_> = queries.iter().map(|query| naive(vectors, query, k, keep)).collect();
    for threads in [1, 3] {
        let vectors = Vectors { threads, ..vectors.clone() };
        for scan in [Scan::Plain, Scan::Coded] {
            let found: Vec<_> = vectors.find(queries, k, scan, keep).into_iter().map(|found| found.rows).collect();
            assert_eq!(found, expected, "{scan:?} with {threads} threads");
        }
    }
    for (query, expected) in queries.iter().zip(&expected) {
        assert_eq!(&vectors.top(query, k, keep), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(64), ..ProptestConfig::default() })]
    #[test]
    fn coded_and_plain_scans_find_what_the_definition_says(
        seed: u64, kind in prop::sample::select(&KINDS), asked in prop::sample::select(&KINDS),
        count in 0_usize..400, k in 0_usize..30, removed in 0_usize..100, one_in in 1_u32..5,
    ) {
        let mut dice = Dice(seed);
        let mut vectors = Vectors::new();
        let set = make(kind, count, &mut dice);
        for vector in &set {
            vectors.push(vector);
        }
        for _ in 0..removed.min(count) {
            vectors.remove(number(dice.below(count)));
        }
        let mut queries = make(asked, 2, &mut dice);
        queries.extend(set.first());
        check_all_ways(&vectors, &queries, k, &|row| row % one_in == 0);
    }
}

#[test]
fn rows_are_used_again_and_nothing_else_moves() {
    let mut dice = Dice(1);
    let set = make(Kind::Random, 4, &mut dice);
    let mut vectors = Vectors::new();
    assert_eq!(set[..3].iter().map(|vector| vectors.push(vector)).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(vectors.remove(1) && !vectors.remove(1) && !vectors.remove(3));
    assert!(!vectors.replace(1, &set[3]));
    assert_eq!((vectors.len(), vectors.rows()), (2, 3));
    assert_eq!(vectors.score(1, &set[1]).to_bits(), f32::NEG_INFINITY.to_bits());
    assert_eq!(vectors.scores(&set[0])[1].to_bits(), f32::NEG_INFINITY.to_bits());
    assert_eq!(vectors.top(&set[1], 9, &|_| true).len(), 2);
    assert_eq!(vectors.push(&set[3]), 1);
    assert!(vectors.replace(0, &set[1]));
    assert_eq!(vectors.top(&set[3], 1, &|_| true)[0].0, 1);
    assert_eq!(vectors.top(&set[1], 1, &|_| true)[0].0, 0);
    assert_eq!(vectors.scores(&set[2]).len(), 3);
}

#[test]
fn blocks_and_threads_join_without_a_seam() {
    let mut dice = Dice(2);
    let set = make(Kind::Clustered, 50, &mut dice);
    let mut vectors = Vectors::new();
    for at in 0..BLOCK + PIECE + 5 {
        vectors.push(&mix(&set[at % set.len()], &set[at % 7], (at % 1000) as f32 * 1e-3));
    }
    let last = number(vectors.rows() - 1);
    check_all_ways(&vectors, &[set[3], set[4]], 12, &|row| row % 3 != 0 || row == last);
    let scores = vectors.scores(&set[0]);
    assert!((0..=last).all(|row| vectors.score(row, &set[0]).to_bits() == scores[row as usize].to_bits()));
}

#[test]
fn few_rows_are_read_in_full() {
    let mut dice = Dice(3);
    let set = make(Kind::Clustered, 3000, &mut dice);
    let mut vectors = Vectors::new();
    for vector in &set {
        vectors.push(vector);
    }
    let query = unit(&mix(&set[0], &dice.vector(), 0.02));
    assert!(vectors.find(&[query], 10, Scan::Coded, &|_| true)[0].read < 300);
}

#[test]
fn nothing_to_find() {
    let query = unit(&Dice(4).vector());
    let mut vectors = Vectors::new();
    assert_eq!(vectors.top(&query, 5, &|_| true), []);
    vectors.push(&query);
    assert_eq!(vectors.top(&query, 0, &|_| true), []);
    assert_eq!(vectors.top(&query, 5, &|_| false), []);
    assert_eq!(vectors.top_many(&[], 5, &|_| true), Vec::<Vec<_>>::new());
    assert_eq!(vectors.top(&query, usize::MAX, &|_| true).len(), 1);
}
