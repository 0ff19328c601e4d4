//! The sizes of a model, from its file and checked: what is in a [`Shape`] can be computed with.

use super::Fault;
use super::packed::BLOCK;
use crate::gguf::Metadata;

/// Layers of a model; a model of this kind with more would not be small.
const MAX_LAYERS: u64 = 256;
/// The length of a vector.
const MAX_WIDTH: u64 = 65_536;
/// Tokens that a model looks back on.
const MAX_CONTEXT: u64 = 1 << 17;

/// The sizes of a model.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shape {
    /// Layers.
    pub(super) layers: usize,
    /// The length of a token's vector.
    pub(super) width: usize,
    /// The length of the inner layer's vectors.
    pub(super) inner: usize,
    /// Heads that ask.
    pub(super) heads: usize,
    /// Heads that are asked; each serves the same number of those that ask.
    pub(super) key_heads: usize,
    /// The length of a head's vectors.
    pub(super) head: usize,
    /// Tokens in the vocabulary.
    pub(super) words: usize,
    /// Tokens that fit into one evaluation.
    pub(super) context: usize,
    /// The base of the angles by which positions are told.
    pub(super) angles: f64,
    /// Added to a mean square before its root is taken.
    pub(super) epsilon: f32,
}

impl Shape {
    /// The shape that a file describes.
    pub(super) fn new(metadata: &Metadata) -> Result<Self, Fault> {
        let fault = |key: &str, found: String, expected: &str| Fault::Setting {
            key: key.to_owned(),
            found,
            expected: expected.to_owned(),
        };
        let architecture = metadata.architecture.as_deref().unwrap_or("nothing");
        if architecture != "llama" {
            return Err(fault("general.architecture", architecture.to_owned(), "`llama`"));
        }
        let whole = |key: &str, most: u64, multiple: usize| {
            let found = metadata.whole(key).filter(|found| (1..=most).contains(found));
            let found = found.and_then(|found| usize::try_from(found).ok()).filter(|found| found % multiple == 0);
            let said = || metadata.numbers.get(key).map_or("nothing".to_owned(), f64::to_string);
            found.ok_or_else(|| fault(key, said(), &format!("a multiple of {multiple} from 1 to {most}")))
        };
        let real = |key: &str, range: std::ops::Range<f64>| {
            let found = metadata.numbers.get(key).copied();
            let said = || found.map_or("nothing".to_owned(), |found| found.to_string());
            found.filter(|found| range.contains(found)).ok_or_else(|| fault(key, said(), &format!("a number in {range:?}")))
        };
        let width = whole("llama.embedding_length", MAX_WIDTH, BLOCK)?;
        let heads = whole("llama.attention.head_count", MAX_WIDTH, 1)?;
        let head = whole("llama.rope.dimension_count", MAX_WIDTH, BLOCK)?;
        if heads.checked_mul(head) != Some(width) {
            return Err(fault("llama.attention.head_count", heads.to_string(), &format!("{width} numbers in heads of {head}")));
        }
        let key_heads = whole("llama.attention.head_count_kv", MAX_WIDTH, 1)?;
        if heads % key_heads != 0 {
            return Err(fault("llama.attention.head_count_kv", key_heads.to_string(), &format!("a divisor of {heads}")));
        }
        // Angles that are not plain: another model, for which the code here is not written.
        if let Some((key, found)) = metadata
            .numbers
            .range("llama.rope.scaling".to_owned()..)
            .next()
            .filter(|(key, _)| key.starts_with("llama.rope.scaling"))
        {
            return Err(fault(key, found.to_string(), "no such entry"));
        }
        let context = metadata.context_length.unwrap_or_default();
        let in_range = usize::try_from(context).ok().filter(|_| (1..=MAX_CONTEXT).contains(&context));
        let context =
            in_range.ok_or_else(|| fault("llama.context_length", context.to_string(), &format!("1 to {MAX_CONTEXT}")))?;
        #[expect(clippy::cast_possible_truncation, reason = "it was written as 32 bits")]
        let epsilon = real("llama.attention.layer_norm_rms_epsilon", 1e-12..1.0)? as f32;
        Ok(Self {
            layers: whole("llama.block_count", MAX_LAYERS, 1)?,
            width,
            inner: whole("llama.feed_forward_length", MAX_WIDTH, BLOCK)?,
            heads,
            key_heads,
            head,
            words: metadata.tokens.len(),
            context,
            angles: real("llama.rope.freq_base", 1.0..1e9)?,
            epsilon,
        })
    }
}
