//! From tokens to vectors: the layers, over several texts at once without padding.
//!
//! The tokens of all texts of a group stand below each other in one matrix; only the attention looks at one text at a time.

use pulp::Arch;

use super::team::Team;
use super::tensors::numbers;
use super::weights::{HEAD, HIDDEN, Norm, SHARD_HEADS, SHARD_INNER, SHARDS, Shard, Weights};
use crate::compute::aligned::Rows;
use crate::compute::matmul::{Into, Panels, Product};
use crate::compute::pointwise::{LayerNorm, Softmax};

/// Added to a variance before its root is taken.
pub(super) const EPSILON: f32 = 1e-12;

/// Who works on a group of texts.
#[derive(Clone, Copy)]
pub(super) enum Crew<'a> {
    /// One thread alone.
    Alone,
    /// One of several, which takes these shards.
    Member(&'a Team, &'a [usize]),
}

/// Room for what is computed in between.
struct Scratch {
    query_key_value: Rows,
    heads: Rows,
    inner: Rows,
    attention: Attention,
}

struct Attention {
    keys: Panels,
    values: Panels,
    scores: Rows,
    inverse: Vec<f32>,
}

/// The vectors of `texts`, each a row of token ids.
pub(super) fn encode(weights: &Weights, arch: Arch, texts: &[&[u32]], crew: Crew<'_>) -> Vec<[f32; HIDDEN]> {
    let tokens = texts.iter().map(|text| text.len()).sum();
    let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
    let mut scratch = Scratch {
        query_key_value: Rows::zeros(tokens, 3 * SHARD_HEADS),
        heads: Rows::zeros(tokens, SHARD_HEADS),
        inner: Rows::zeros(tokens, SHARD_INNER),
        attention: Attention {
            keys: Panels::zeros(arch, HEAD, longest),
            values: Panels::zeros(arch, longest, HEAD),
            scores: Rows::zeros(longest, longest),
            inverse: vec![0.0; longest],
        },
    };
    let mut state = embed(weights, arch, texts, tokens);
    let mut sum = Rows::zeros(tokens, HIDDEN);
    for layer in &weights.layers {
        add_up(crew, 0, &mut sum, tokens, |shard, out, into| {
            attend(arch, &layer.shards[shard], texts, &state, &mut scratch, out, into);
        });
        normalise(arch, &mut state, &sum, tokens, &layer.attention_bias, &layer.attention_norm);
        add_up(crew, 1, &mut sum, tokens, |shard, out, into| {
            think(arch, &layer.shards[shard], tokens, &state, &mut scratch.inner, out, into);
        });
        normalise(arch, &mut state, &sum, tokens, &layer.output_bias, &layer.output_norm);
    }
    pool(texts, &state)
}

/// What the crew's shards give, summed in the order of the shards.
fn add_up(crew: Crew<'_>, set: usize, total: &mut Rows, tokens: usize, mut make: impl FnMut(usize, &mut Rows, Into<'_>)) {
    match crew {
        Crew::Alone => {
            for shard in 0..SHARDS {
                make(shard, total, if shard == 0 { Into::Replace } else { Into::Add });
            }
        }
        Crew::Member(team, mine) => team.sum(mine, set, total, tokens, make),
    }
}

/// The sum of each token's and its position's vector, normalised.
fn embed(weights: &Weights, arch: Arch, texts: &[&[u32]], tokens: usize) -> Rows {
    let mut state = Rows::zeros(tokens, HIDDEN);
    let placed = texts.iter().flat_map(|text| text.iter().zip(weights.positions.chunks_exact(HIDDEN)));
    for (row, (token, position)) in placed.enumerate() {
        let word = &weights.words[*token as usize * HIDDEN * size_of::<f32>()..][..HIDDEN * size_of::<f32>()];
        let row = state.row_mut(row);
        row.iter_mut().zip(numbers(word)).for_each(|(value, number)| *value = number);
        let Norm { weight, bias } = &weights.norm;
        arch.dispatch(LayerNorm { row, add: [position, &[]], weight, bias, epsilon: EPSILON });
    }
    state
}

/// `state = normalised(sum + bias + state)`.
fn normalise(arch: Arch, state: &mut Rows, sum: &Rows, tokens: usize, bias: &[f32], norm: &Norm) {
    for row in 0..tokens {
        let (row, sum) = (state.row_mut(row), sum.row(row));
        arch.dispatch(LayerNorm { row, add: [sum, bias], weight: &norm.weight, bias: &norm.bias, epsilon: EPSILON });
    }
}

/// One shard's heads.
fn attend(arch: Arch, shard: &Shard, texts: &[&[u32]], state: &Rows, scratch: &mut Scratch, out: &mut Rows, into: Into<'_>) {
    let Scratch { query_key_value, heads, attention, .. } = scratch;
    let tokens = texts.iter().map(|text| text.len()).sum();
    let bias = Into::Bias(&shard.query_key_value_bias);
    multiply(arch, (state, 0, 0), tokens, &shard.query_key_value, (query_key_value, 0, 0), bias);
    let mut first = 0;
    for text in texts {
        for head in (0..SHARD_HEADS).step_by(HEAD) {
            one_head(arch, query_key_value, first, text.len(), head, attention, heads);
        }
        first += text.len();
    }
    multiply(arch, (heads, 0, 0), tokens, &shard.attention, (out, 0, 0), into);
}

/// One head of the text that has `tokens` rows from `first` on; the head's columns start at `column`.
fn one_head(arch: Arch, from: &Rows, first: usize, tokens: usize, column: usize, room: &mut Attention, heads: &mut Rows) {
    let Attention { keys, values, scores, inverse } = room;
    keys.reset(HEAD, tokens);
    values.reset(tokens, HEAD);
    for token in 0..tokens {
        let row = from.row(first + token);
        keys.set_column(token, &row[SHARD_HEADS + column..][..HEAD]);
        values.set_row(token, &row[2 * SHARD_HEADS + column..][..HEAD]);
    }
    scores.reset(tokens, keys.columns());
    multiply(arch, (from, first, column), tokens, keys, (scores, 0, 0), Into::Replace);
    let stride = scores.stride();
    arch.dispatch(Softmax { scores: scores.part_mut(0, 0), stride, width: tokens, inverse: &mut inverse[..tokens] });
    multiply(arch, (scores, 0, 0), tokens, values, (heads, first, column), Into::Replace);
    for (token, inverse) in inverse[..tokens].iter().enumerate() {
        heads.row_mut(first + token)[column..][..HEAD].iter_mut().for_each(|value| *value *= inverse);
    }
}

/// One shard's part of the inner layer.
fn think(arch: Arch, shard: &Shard, tokens: usize, state: &Rows, inner: &mut Rows, out: &mut Rows, into: Into<'_>) {
    multiply(arch, (state, 0, 0), tokens, &shard.up, (inner, 0, 0), Into::BiasGelu(&shard.up_bias));
    multiply(arch, (inner, 0, 0), tokens, &shard.down, (out, 0, 0), into);
}

/// A product of parts of matrices: each side is a matrix and the row and column where the part starts.
fn multiply(
    arch: Arch,
    left: (&Rows, usize, usize),
    rows: usize,
    right: &Panels,
    out: (&mut Rows, usize, usize),
    into: Into<'_>,
) {
    let ((left, left_row, left_column), (out, out_row, out_column)) = (left, out);
    let (left_stride, out_stride) = (left.stride(), out.stride());
    let (left, out) = (left.part(left_row, left_column), out.part_mut(out_row, out_column));
    arch.dispatch(Product { left, left_stride, rows, right, out, out_stride, into });
}

/// The mean of each text's tokens, at length one.
fn pool(texts: &[&[u32]], state: &Rows) -> Vec<[f32; HIDDEN]> {
    let mut first = 0;
    let one = |text: &&[u32]| {
        let mut mean = [0.0; HIDDEN];
        for row in first..first + text.len() {
            mean.iter_mut().zip(state.row(row)).for_each(|(sum, value)| *sum += value);
        }
        first += text.len();
        let length = mean.iter().map(|value| value * value).sum::<f32>().sqrt();
        // The mean's own length does not matter; a model of zeros gives zeros.
        let scale = if length > 0.0 { length.recip() } else { 0.0 };
        mean.map(|value| value * scale)
    };
    texts.iter().map(one).collect()
}
