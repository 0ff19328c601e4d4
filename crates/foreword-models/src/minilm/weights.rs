//! The model's weights as the encoder wants them: laid out for the product, and cut into shards.
//!
//! A shard is a quarter of each layer: three of the twelve heads, and a quarter of the inner layer. Shards need each other only
//! for the sum of what they give, twice a layer, so threads can share one short text. The shards are the same and are summed in the
//! same order however many threads there are, which keeps the result the same to the bit.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use pulp::Arch;

use super::ModelError;
use super::tensors::{Reader, Tensors};
use crate::compute::matmul::Panels;

/// The length of a token's vector, and of a text's.
pub(super) const HIDDEN: usize = 384;
/// The number of layers.
pub(super) const LAYERS: usize = 6;
/// Attention heads in a layer.
pub(super) const HEADS: usize = 12;
/// The length of a head's vectors.
pub(super) const HEAD: usize = HIDDEN / HEADS;
/// The length of the inner layer's vectors.
pub(super) const INNER: usize = 1536;
/// Word pieces that the model knows.
pub(super) const WORDS: usize = 30_522;
/// Positions that the model knows; texts are cut long before.
pub(super) const POSITIONS: usize = 512;
/// Parts a layer is cut into.
pub(super) const SHARDS: usize = 4;
/// The columns of one shard's queries; also of its keys, and of its values.
pub(super) const SHARD_HEADS: usize = HIDDEN / SHARDS;
/// The columns of one shard's part of the inner layer.
pub(super) const SHARD_INNER: usize = INNER / SHARDS;

/// All weights.
pub(super) struct Weights {
    /// The vector of each word piece, as the file has it: a few rows are used at a time, so converting all would take longer.
    pub(super) words: Vec<u8>,
    /// The vector of each position, with that of the one token type in it.
    pub(super) positions: Vec<f32>,
    /// After the sum of the two.
    pub(super) norm: Norm,
    /// The layers, first to last.
    pub(super) layers: Vec<Layer>,
}

/// Scale and shift of a layer normalisation.
pub(super) struct Norm {
    /// The scale.
    pub(super) weight: Vec<f32>,
    /// The shift.
    pub(super) bias: Vec<f32>,
}

/// One layer.
pub(super) struct Layer {
    /// Its parts.
    pub(super) shards: Vec<Shard>,
    /// Added to what the heads give.
    pub(super) attention_bias: Vec<f32>,
    /// After the attention.
    pub(super) attention_norm: Norm,
    /// Added to what the inner layer gives.
    pub(super) output_bias: Vec<f32>,
    /// After the inner layer.
    pub(super) output_norm: Norm,
}

/// A quarter of a layer.
pub(super) struct Shard {
    /// To queries, keys and values side by side; the queries are scaled already.
    pub(super) query_key_value: Panels,
    /// Added to these.
    pub(super) query_key_value_bias: Vec<f32>,
    /// From the heads back.
    pub(super) attention: Panels,
    /// To the inner layer.
    pub(super) up: Panels,
    /// Added to it.
    pub(super) up_bias: Vec<f32>,
    /// From the inner layer back.
    pub(super) down: Panels,
}

enum Part {
    Words(Vec<u8>),
    Layer(usize, Layer),
}

impl Weights {
    /// Reads the weights in `path`, with `threads` threads.
    pub(super) fn open(path: &Path, arch: Arch, threads: usize) -> Result<Self, ModelError> {
        let tensors = Tensors::open(path)?;
        let next = AtomicUsize::new(0);
        let work = || -> Result<Vec<Part>, ModelError> {
            let mut reader = tensors.reader()?;
            let mut parts = Vec::new();
            loop {
                // The table of words takes longest, so it comes first.
                match next.fetch_add(1, Ordering::Relaxed) {
                    0 => parts.push(Part::Words(reader.bytes("embeddings.word_embeddings.weight", &[WORDS, HIDDEN])?)),
                    part if part <= LAYERS => parts.push(Part::Layer(part, layer(&mut reader, arch, part - 1)?)),
                    _ => return Ok(parts),
                }
            }
        };
        let parts = crate::compute::team::on_threads(threads.min(LAYERS + 1), |_| work());

        let mut words = Vec::new();
        let mut layers = Vec::new();
        for part in parts.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
            match part {
                Part::Words(table) => words = table,
                Part::Layer(at, layer) => layers.push((at, layer)),
            }
        }
        layers.sort_by_key(|(at, _)| *at);

        let mut reader = tensors.reader()?;
        let mut positions = reader.numbers("embeddings.position_embeddings.weight", &[POSITIONS, HIDDEN])?;
        let types = reader.numbers("embeddings.token_type_embeddings.weight", &[2, HIDDEN])?;
        for position in positions.chunks_exact_mut(HIDDEN) {
            for (value, add) in position.iter_mut().zip(&types) {
                *value += add;
            }
        }
        let norm = norm(&mut reader, "embeddings.LayerNorm")?;
        Ok(Self { words, positions, norm, layers: layers.into_iter().map(|(_, layer)| layer).collect() })
    }
}

fn norm(reader: &mut Reader<'_>, name: &str) -> Result<Norm, ModelError> {
    let weight = reader.numbers(&format!("{name}.weight"), &[HIDDEN])?;
    let bias = reader.numbers(&format!("{name}.bias"), &[HIDDEN])?;
    Ok(Norm { weight, bias })
}

/// A dense layer as stored: one row of `inner` numbers a column of the result.
struct Dense {
    weight: Vec<f32>,
    bias: Vec<f32>,
    inner: usize,
}

impl Dense {
    fn read(reader: &mut Reader<'_>, name: &str, columns: usize, inner: usize) -> Result<Self, ModelError> {
        let weight = reader.numbers(&format!("{name}.weight"), &[columns, inner])?;
        let bias = reader.numbers(&format!("{name}.bias"), &[columns])?;
        Ok(Self { weight, bias, inner })
    }

    fn column(&self, column: usize) -> &[f32] {
        &self.weight[column * self.inner..][..self.inner]
    }
}

fn layer(reader: &mut Reader<'_>, arch: Arch, index: usize) -> Result<Layer, ModelError> {
    let name = format!("encoder.layer.{index}");
    let mut query = Dense::read(reader, &format!("{name}.attention.self.query"), HIDDEN, HIDDEN)?;
    let scale = (HEAD as f32).sqrt().recip();
    query.weight.iter_mut().chain(&mut query.bias).for_each(|value| *value *= scale);
    let key = Dense::read(reader, &format!("{name}.attention.self.key"), HIDDEN, HIDDEN)?;
    let value = Dense::read(reader, &format!("{name}.attention.self.value"), HIDDEN, HIDDEN)?;
    let attention = Dense::read(reader, &format!("{name}.attention.output.dense"), HIDDEN, HIDDEN)?;
    let up = Dense::read(reader, &format!("{name}.intermediate.dense"), INNER, HIDDEN)?;
    let down = Dense::read(reader, &format!("{name}.output.dense"), HIDDEN, INNER)?;
    let attention_norm = norm(reader, &format!("{name}.attention.output.LayerNorm"))?;
    let output_norm = norm(reader, &format!("{name}.output.LayerNorm"))?;

    let shard = |shard: usize| {
        let heads = shard * SHARD_HEADS..(shard + 1) * SHARD_HEADS;
        let inner = shard * SHARD_INNER..(shard + 1) * SHARD_INNER;
        let three = [&query, &key, &value];
        Shard {
            query_key_value: Panels::from_columns(arch, HIDDEN, 3 * SHARD_HEADS, |column| {
                three[column / SHARD_HEADS].column(heads.start + column % SHARD_HEADS)
            }),
            query_key_value_bias: three.iter().flat_map(|dense| &dense.bias[heads.clone()]).copied().collect(),
            attention: Panels::from_columns(arch, SHARD_HEADS, HIDDEN, |column| &attention.column(column)[heads.clone()]),
            up: Panels::from_columns(arch, HIDDEN, SHARD_INNER, |column| up.column(inner.start + column)),
            up_bias: up.bias[inner.clone()].to_vec(),
            down: Panels::from_columns(arch, SHARD_INNER, HIDDEN, |column| &down.column(column)[inner.clone()]),
        }
    };
    let shards = (0..SHARDS).map(shard).collect();
    Ok(Layer { shards, attention_bias: attention.bias, attention_norm, output_bias: down.bias, output_norm })
}
