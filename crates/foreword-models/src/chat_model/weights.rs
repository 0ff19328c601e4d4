//! The model's weights, read once and laid out for the products.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use pulp::Arch;

use super::Fault;
use super::packed::Packed;
use super::shape::Shape;
use crate::compute::team::on_threads;
use crate::gguf::{Encoding, Tensor};

/// Tensors beside those of the layers: the vectors of tokens, and the last norm.
const OTHERS: usize = 2;
/// Tensors of a layer.
const LAYER: usize = 9;

/// All weights.
pub(super) struct Weights {
    /// The vector of each token: where a token comes in, and what the last state is compared with.
    pub(super) tokens: Packed,
    /// After the last layer.
    pub(super) norm: Vec<f32>,
    /// The layers, first to last.
    pub(super) layers: Vec<Layer>,
}

/// One layer.
pub(super) struct Layer {
    /// Before the attention.
    pub(super) attention_norm: Vec<f32>,
    /// To what each head asks.
    pub(super) query: Packed,
    /// To what each is found by.
    pub(super) key: Packed,
    /// To what each then tells.
    pub(super) value: Packed,
    /// From the heads back.
    pub(super) attention: Packed,
    /// Before the inner layer.
    pub(super) inner_norm: Vec<f32>,
    /// How far each number of the inner layer is let through.
    pub(super) gate: Packed,
    /// To the inner layer.
    pub(super) up: Packed,
    /// From the inner layer back.
    pub(super) down: Packed,
}

enum Part {
    Tokens(Packed),
    Layer(usize, Box<Layer>),
}

impl Weights {
    /// Reads the tensors of `table` in `path`, with `threads` threads.
    pub(super) fn open(
        path: &Path,
        table: &BTreeMap<String, Tensor>,
        shape: &Shape,
        arch: Arch,
        threads: usize,
    ) -> Result<Self, Fault> {
        // All of them are used: one more would be a part of another model, which would be passed over in silence.
        let expected = OTHERS + LAYER * shape.layers;
        if table.len() != expected {
            return Err(Fault::Tensors { found: table.len(), expected });
        }
        let next = AtomicUsize::new(0);
        let work = || -> Result<Vec<Part>, Fault> {
            let mut reader = Reader::new(path, table, arch)?;
            let mut parts = Vec::new();
            loop {
                // The vectors of tokens take longest, so they come first.
                match next.fetch_add(1, Ordering::Relaxed) {
                    0 => parts.push(Part::Tokens(reader.matrix("token_embd", shape.words, shape.width)?)),
                    part if part <= shape.layers => parts.push(Part::Layer(part, Box::new(layer(&mut reader, shape, part - 1)?))),
                    _ => return Ok(parts),
                }
            }
        };
        let parts = on_threads(threads, |_| work());

        let mut tokens = None;
        let mut layers = Vec::new();
        for part in parts.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
            match part {
                Part::Tokens(packed) => tokens = Some(packed),
                Part::Layer(at, layer) => layers.push((at, layer)),
            }
        }
        layers.sort_by_key(|(at, _)| *at);
        let norm = Reader::new(path, table, arch)?.vector("output_norm", shape.width)?;
        let tokens = tokens.ok_or(Fault::Tensors { found: 0, expected })?;
        Ok(Self { tokens, norm, layers: layers.into_iter().map(|(_, layer)| *layer).collect() })
    }
}

fn layer(reader: &mut Reader<'_>, shape: &Shape, index: usize) -> Result<Layer, Fault> {
    let name = |part: &str| format!("blk.{index}.{part}");
    let keys = shape.key_heads * shape.head;
    Ok(Layer {
        attention_norm: reader.vector(&name("attn_norm"), shape.width)?,
        query: reader.matrix(&name("attn_q"), shape.width, shape.width)?,
        key: reader.matrix(&name("attn_k"), keys, shape.width)?,
        value: reader.matrix(&name("attn_v"), keys, shape.width)?,
        attention: reader.matrix(&name("attn_output"), shape.width, shape.width)?,
        inner_norm: reader.vector(&name("ffn_norm"), shape.width)?,
        gate: reader.matrix(&name("ffn_gate"), shape.inner, shape.width)?,
        up: reader.matrix(&name("ffn_up"), shape.inner, shape.width)?,
        down: reader.matrix(&name("ffn_down"), shape.width, shape.inner)?,
    })
}

/// Reads tensors one after the other.
struct Reader<'a> {
    table: &'a BTreeMap<String, Tensor>,
    arch: Arch,
    file: File,
    bytes: Vec<u8>,
}

impl<'a> Reader<'a> {
    fn new(path: &Path, table: &'a BTreeMap<String, Tensor>, arch: Arch) -> Result<Self, Fault> {
        Ok(Self { table, arch, file: File::open(path)?, bytes: Vec::new() })
    }

    /// The tensor `name`.weight of `rows` rows, packed.
    fn matrix(&mut self, name: &str, rows: usize, inner: usize) -> Result<Packed, Fault> {
        let (name, encoding) = self.load(name, &[inner, rows])?;
        let fault = || Fault::Tensor {
            name,
            found: format!("{encoding:?} numbers or a scale that is not finite, expected finite Q4_1 or Q8_0"),
        };
        Packed::new(self.arch, encoding, rows, inner, &self.bytes).ok_or_else(fault)
    }

    /// The numbers of the tensor `name`.weight.
    fn vector(&mut self, name: &str, length: usize) -> Result<Vec<f32>, Fault> {
        let (name, encoding) = self.load(name, &[length])?;
        let numbers: Vec<f32> = self.bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        if encoding != Encoding::F32 || numbers.iter().any(|number| !number.is_finite()) {
            let found = format!("{encoding:?} numbers or one that is not finite, expected finite F32");
            return Err(Fault::Tensor { name, found });
        }
        Ok(numbers)
    }

    /// Reads the bytes of the tensor `name`.weight, which must have `shape`.
    fn load(&mut self, name: &str, shape: &[usize]) -> Result<(String, Encoding), Fault> {
        let name = format!("{name}.weight");
        let Some(tensor) = self.table.get(&name) else {
            return Err(Fault::Tensor { name, found: "nothing".to_owned() });
        };
        if !tensor.shape.iter().copied().eq(shape.iter().map(|side| *side as u64)) {
            let found = format!("the shape {:?}, expected {shape:?}", tensor.shape);
            return Err(Fault::Tensor { name, found });
        }
        self.file.seek(SeekFrom::Start(tensor.start))?;
        // It lies within the file, so it is no larger.
        self.bytes.resize(usize::try_from(tensor.bytes).unwrap_or_default(), 0);
        self.file.read_exact(&mut self.bytes)?;
        Ok((name, tensor.encoding))
    }
}
