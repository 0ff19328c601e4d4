//! Which token comes next, by the scores that the model gave.

use std::collections::{BTreeSet, VecDeque};

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// How much the less likely ones are favoured; 0 always takes the most likely.
    pub temperature: f32,
    /// Only so many of the most likely ones are looked at; 0 for all.
    pub top_k: usize,
    /// Of these, only the most likely ones that together have this share.
    pub top_p: f32,
    /// By how much a token that the reply used lately is held back; 1 for not at all.
    pub repeat_penalty: f32,
    /// The same seed makes the same choices.
    pub seed: u64,
    /// The reply is cut after so many tokens.
    pub max_tokens: usize,
    /// The reply is over before one of these: what belongs to a prompt.
    pub endings: &'static [&'static str],
}

impl Default for Sampling {
    /// The most likely token, and something against going round in circles, as small models do; room for a page. Asked about notes, the model
    /// in use makes up more when it is held back by more or when less likely tokens get a chance.
    fn default() -> Self {
        Self { temperature: 0.0, top_k: 50, top_p: 0.9, repeat_penalty: 1.1, seed: 0, max_tokens: 512, endings: &[] }
    }
}

/// A token this much below the best, at temperature 1, would come up once in 10^13 times: it is not weighed.
const NEGLIGIBLE: f32 = 30.0;

/// How far back a token counts as having come up lately.
const LATELY: usize = 96;

/// The longest stretch that is looked for as one that comes again and again.
const LONGEST_ROUND: usize = 128;

/// A shorter reply goes round in no circle: lists, tables and choruses say things twice too.
const LEAST_ROUNDS: usize = 32;

/// Whether a reply goes round in circles: its end repeats what stands one round before it, for two rounds at least. One token in ten may
/// differ, as a small model counts its rounds (`1.`, `2.`).
///
/// Of 120 replies of the model in use, about notes and about anything, 4 went on to the limit: this ends each of them after 35 to 447 tokens, and none
/// of the others. With one round in place of two it would have cut a plan of a week, whose days were alike.
pub(super) fn goes_round(said: &[u32]) -> bool {
    (1..=LONGEST_ROUND).any(|round| {
        let length = LEAST_ROUNDS.max(2 * round);
        let Some(start) = said.len().checked_sub(length).filter(|start| *start >= round) else { return false };
        let same = said[start..].iter().zip(&said[start - round..]).filter(|(now, before)| now == before).count();
        same * 10 >= length * 9
    })
}

/// Makes the choices of one reply.
pub(super) struct Sampler {
    sampling: Sampling,
    state: u64,
    lately: VecDeque<u32>,
}

impl Sampler {
    pub(super) fn new(sampling: Sampling) -> Self {
        Self { sampling, state: sampling.seed, lately: VecDeque::new() }
    }

    /// The next token. Of equal ones the first; a score that is no number counts as the lowest.
    pub(super) fn choose(&mut self, scores: &[f32]) -> u32 {
        let repeat_penalty = self.sampling.repeat_penalty;
        if repeat_penalty.is_nan() || repeat_penalty <= 1.0 {
            return self.draw(scores);
        }
        let mut scores = scores.to_vec();
        let mut held = BTreeSet::new();
        for token in self.lately.iter().filter(|token| held.insert(**token)) {
            if let Some(score) = usize::try_from(*token).ok().and_then(|at| scores.get_mut(at)) {
                *score = if *score > 0.0 { *score / repeat_penalty } else { *score * repeat_penalty };
            }
        }
        let token = self.draw(&scores);
        self.lately.push_back(token);
        if self.lately.len() > LATELY {
            self.lately.pop_front();
        }
        token
    }

    fn draw(&mut self, scores: &[f32]) -> u32 {
        let Sampling { temperature, top_k, top_p, .. } = self.sampling;
        if temperature.is_nan() || temperature <= 0.0 {
            return most_likely(scores);
        }
        let best = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let least = best - NEGLIGIBLE * temperature;
        let candidates = (0_u32..).zip(scores).map(|(token, score)| (known(*score), token));
        let mut candidates: Vec<(f32, u32)> = candidates.filter(|(score, _)| *score >= least).collect();
        let better = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if top_k > 0 && top_k < candidates.len() {
            candidates.select_nth_unstable_by(top_k - 1, better);
            candidates.truncate(top_k);
        }
        candidates.sort_unstable_by(better);
        let Some(&(_, first)) = candidates.first() else { return 0 };
        let mut total = 0.0;
        for (score, _) in &mut candidates {
            *score = ((*score - best) / temperature).exp();
            total += f64::from(*score);
        }
        // Scores that are all infinite leave nothing to weigh.
        if total.is_nan() || total <= 0.0 {
            return first;
        }
        let mut kept = 0.0;
        let share = total * f64::from(top_p);
        let count = candidates
            .iter()
            .take_while(|(weight, _)| {
                kept < share && {
                    kept += f64::from(*weight);
                    true
                }
            })
            .count();
        let mut point = self.random() * kept;
        for (weight, token) in &candidates[..count] {
            point -= f64::from(*weight);
            if point < 0.0 {
                return *token;
            }
        }
        candidates[..count].last().map_or(first, |(_, token)| *token)
    }

    /// A number from 0 up to 1, by `SplitMix64`.
    fn random(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn known(score: f32) -> f32 {
    if score.is_nan() { f32::NEG_INFINITY } else { score }
}

fn most_likely(scores: &[f32]) -> u32 {
    let best = |best: (u32, f32), (token, score): (u32, &f32)| if known(*score) > best.1 { (token, *score) } else { best };
    (0_u32..).zip(scores).fold((0, f32::NEG_INFINITY), best).0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCORES: [f32; 6] = [0.0, 2.0, f32::NAN, 2.0, 1.0, -1.0];

    /// Which tokens come up in many choices.
    fn check(sampling: Sampling, scores: &[f32], expect: &[u32]) {
        let mut sampler = Sampler::new(sampling);
        let mut found: Vec<u32> = (0..2_000).map(|_| sampler.choose(scores)).collect();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, expect, "{sampling:?}");
    }

    #[test]
    fn who_can_be_chosen() {
        let warm = Sampling { temperature: 1.0, top_k: 0, top_p: 1.0, repeat_penalty: 1.0, ..Sampling::default() };
        check(Sampling { temperature: 0.0, ..warm }, &SCORES, &[1]);
        check(Sampling { temperature: f32::NAN, ..warm }, &SCORES, &[1]);
        check(warm, &SCORES, &[0, 1, 3, 4, 5]);
        check(Sampling { top_k: 1, ..warm }, &SCORES, &[1]);
        check(Sampling { top_k: 3, ..warm }, &SCORES, &[1, 3, 4]);
        check(Sampling { top_k: 100, ..warm }, &SCORES, &[0, 1, 3, 4, 5]);
        check(Sampling { top_p: 0.0, ..warm }, &SCORES, &[1]);
        check(Sampling { top_p: 0.5, ..warm }, &SCORES, &[1, 3]);
        check(Sampling { top_p: f32::NAN, ..warm }, &SCORES, &[1]);
        check(Sampling { temperature: 0.01, ..warm }, &SCORES, &[1, 3]);
        check(warm, &[f32::NAN, f32::NAN], &[0]);
        check(warm, &[f32::INFINITY, 0.0], &[0]);
        check(warm, &[], &[0]);
        check(Sampling { temperature: 0.0, ..warm }, &[], &[0]);
    }

    #[test]
    fn as_often_as_likely() {
        let even = Sampling { temperature: 1.0, top_k: 0, top_p: 1.0, repeat_penalty: 1.0, ..Sampling::default() };
        let mut sampler = Sampler::new(even);
        let scores = [0.5_f32.ln(), 0.2_f32.ln(), 0.3_f32.ln()];
        let mut counts = [0; 3];
        for _ in 0..10_000 {
            counts[sampler.choose(&scores) as usize] += 1;
        }
        for (count, expect) in counts.into_iter().zip([5_000, 2_000, 3_000_i32]) {
            assert!((count - expect).abs() < 200, "{counts:?}");
        }
    }

    #[test]
    fn what_came_up_lately_is_held_back() {
        for temperature in [0.0, 0.01] {
            let mut sampler = Sampler::new(Sampling { temperature, repeat_penalty: 1.5, ..Sampling::default() });
            let choices: Vec<u32> = (0..4).map(|_| sampler.choose(&[3.0, 2.5, 1.0])).collect();
            assert_eq!(choices, [0, 1, 0, 0]);
        }
    }

    #[test]
    fn replies_that_go_round() {
        let check = |said: Vec<u32>, expect: bool| assert_eq!(goes_round(&said), expect, "{said:?}");
        let row = |from: u32, count: u32| (from..from + count).collect::<Vec<_>>();
        check(Vec::new(), false);
        check(row(0, 500), false);
        check(vec![7; 32], false);
        check(vec![7; 33], true);
        // The same sentence a third time; a second time it may be meant.
        check(row(0, 20).repeat(2), false);
        check([row(900, 50), row(0, 20).repeat(3)].concat(), true);
        check(row(0, 128).repeat(3), true);
        check(row(0, 129).repeat(3), false);
        // A chorus has verses between.
        check([row(0, 20), row(100, 30), row(0, 20), row(200, 30), row(0, 20)].concat(), false);
        // Numbered rounds.
        let numbered: Vec<u32> = (0..4).flat_map(|number| [vec![500 + number], row(0, 19)].concat()).collect();
        check(numbered, true);
        // A list of which each line begins alike.
        let list: Vec<u32> = (0..30).flat_map(|line| [vec![1, 2, 3], row(100 * line, 5)].concat()).collect();
        check(list, false);
    }

    #[test]
    fn a_seed_repeats_itself() {
        let choices = |seed| {
            let mut sampler = Sampler::new(Sampling { temperature: 1.0, seed, ..Sampling::default() });
            (0..50).map(|_| sampler.choose(&[0.0; 40])).collect::<Vec<_>>()
        };
        assert_eq!(choices(7), choices(7));
        assert_ne!(choices(7), choices(8));
    }
}
