//! How long an exact search takes beside reading the vectors from memory once.
//!
//! `cargo run --release -p foreword-search --example bench_vectors -- [--rows N]... [--rounds N]`

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use foreword_search::vectors::{Scan, Vectors};
use foreword_search::{DIMENSIONS, Vector};
use pulp::{Simd, WithSimd};

const TOP: usize = 10;
const CLUSTERS: usize = 2000;
const QUERIES: usize = 8;

fn main() -> ExitCode {
    let (mut sizes, mut rounds) = (Vec::new(), 9);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        match (name.as_str(), arguments.next().and_then(|value| value.parse::<usize>().ok())) {
            ("--rows", Some(rows)) if rows > 0 => sizes.push(rows),
            ("--rounds", Some(count)) if count > 0 => rounds = count,
            _ => {
                eprintln!("`{name}` is not understood here: use `--rows N` and `--rounds N` with whole numbers above 0");
                return ExitCode::FAILURE;
            }
        }
    }
    if sizes.is_empty() {
        sizes = vec![100_000, 300_000, 1_000_000];
    }
    println!("top {TOP} of clustered vectors, {DIMENSIONS} dimensions, best of {rounds}; times in ms, ratios to `read`");
    println!("| rows | MB | read | plain | ratio | coded | ratio | {QUERIES} queries | read in full, mean | most |");
    println!("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for rows in sizes {
        measure(rows, rounds);
    }
    ExitCode::SUCCESS
}

fn measure(rows: usize, rounds: usize) {
    let mut dice = Dice(rows as u64);
    let centres: Vec<Vector> = (0..CLUSTERS).map(|_| dice.vector()).collect();
    let (mut vectors, mut copy) = (Vectors::new(), Copy::default());
    for _ in 0..rows {
        let vector = dice.near(&centres);
        vectors.push(&vector);
        copy.push(&vector);
    }
    let queries: Vec<Vector> = (0..QUERIES).map(|_| dice.near(&centres)).collect();

    let (mut read, mut plain, mut coded, mut many) = (Duration::MAX, Duration::MAX, Duration::MAX, Duration::MAX);
    let mut in_full = Vec::new();
    for round in 0..rounds {
        let query = &queries[round % QUERIES..][..1];
        read = read.min(time(|| copy.sum()));
        let mut by_reading_all = Vec::new();
        plain = plain.min(time(|| by_reading_all = vectors.find(query, TOP, Scan::Plain, &|_| true)));
        let mut found = Vec::new();
        coded = coded.min(time(|| found = vectors.find(query, TOP, Scan::Coded, &|_| true)));
        many = many.min(time(|| vectors.top_many(&queries, TOP, &|_| true)));
        assert_eq!(found[0].rows, by_reading_all[0].rows, "the coded scan must find what the plain one does");
        in_full.push(found[0].read);
    }
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let ratio = |time: Duration| ms(time) / ms(read);
    println!(
        "| {rows} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.0} | {} |",
        (rows * size_of::<Vector>()) as f64 / 1e6,
        ms(read),
        ms(plain),
        ratio(plain),
        ms(coded),
        ratio(coded),
        ms(many),
        in_full.iter().sum::<usize>() as f64 / in_full.len() as f64,
        in_full.iter().max().copied().unwrap_or_default(),
    );
}

fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(work());
    start.elapsed()
}

/// The same vectors once more, to be read and added up and nothing else, by as many threads as a search has.
#[derive(Default)]
struct Copy(Vec<Vec<Vector>>);

impl Copy {
    const BLOCK: usize = 16_384;

    fn push(&mut self, vector: &Vector) {
        match self.0.last_mut() {
            Some(block) if block.len() < Self::BLOCK => block.push(*vector),
            _ => {
                let mut block = Vec::with_capacity(Self::BLOCK);
                block.push(*vector);
                self.0.push(block);
            }
        }
    }

    fn sum(&self) -> f32 {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        std::thread::scope(|scope| {
            let part = |blocks: &[Vec<Vector>]| blocks.iter().map(|block| sum(block)).sum::<f32>();
            let parts = self.0.chunks(self.0.len().div_ceil(threads));
            let helpers: Vec<_> = parts.map(|blocks| scope.spawn(move || part(blocks))).collect();
            helpers.into_iter().filter_map(|helper| helper.join().ok()).sum()
        })
    }
}

fn sum(block: &[Vector]) -> f32 {
    pulp::Arch::new().dispatch(Sum(block))
}

struct Sum<'a>(&'a [Vector]);

impl WithSimd for Sum<'_> {
    type Output = f32;

    #[allow(clippy::inline_always)] // or it would not be compiled for the processor at hand
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let mut sums = [simd.splat_f32s(0.0); 8];
        for numbers in S::as_simd_f32s(self.0.as_flattened()).0.chunks_exact(sums.len()) {
            sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum = simd.add_f32s(*sum, *number));
        }
        sums.into_iter().map(|sum| simd.reduce_sum_f32s(sum)).sum()
    }
}

struct Dice(u64);

impl Dice {
    /// Roughly normal around 0: the sum of four even numbers.
    fn number(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed.to_le_bytes().as_chunks::<2>().0.iter().map(|pair| f32::from(i16::from_le_bytes(*pair))).sum()
    }

    fn vector(&mut self) -> Vector {
        unit(&std::array::from_fn(|_| self.number()))
    }

    /// A vector whose cosine to one of `centres` is about 0.7.
    fn near(&mut self, centres: &[Vector]) -> Vector {
        let centre = &centres[self.number().to_bits() as usize % centres.len()];
        let random = self.vector();
        unit(&std::array::from_fn(|i| centre[i] + random[i]))
    }
}

fn unit(vector: &Vector) -> Vector {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.map(|x| x / length)
}
