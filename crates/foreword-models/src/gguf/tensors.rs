//! The table of tensors of a GGUF file: what there is, how it is encoded, where it lies.

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use super::{GgufError, Metadata, Source, limit};

/// Tensors of a file; real ones have some hundreds.
const MAX_TENSORS: u64 = 65_536;
/// Bytes of a tensor's name; the format's own limit is 64.
const MAX_NAME: u64 = 256;
/// Sides of a tensor; the format's own limit.
const MAX_SIDES: u32 = 4;
/// Where data starts is a multiple of this, unless the file says otherwise.
const ALIGNMENT: u64 = 32;
/// The largest multiple that is believed.
const MAX_ALIGNMENT: u64 = 1 << 16;

/// How numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As they are.
    F32,
    /// Blocks of 32 numbers: scale and minimum as 16-bit floats, and four bits a number.
    Q4_1,
    /// Blocks of 32 numbers: a scale as a 16-bit float, and eight bits a number.
    Q8_0,
    /// One that is not read here, by its number.
    Other(u32),
}

impl Encoding {
    fn by_number(number: u32) -> Self {
        match number {
            0 => Self::F32,
            3 => Self::Q4_1,
            8 => Self::Q8_0,
            other => Self::Other(other),
        }
    }

    /// The numbers of a block, and the bytes that it takes.
    pub fn block(self) -> Option<(u64, u64)> {
        match self {
            Self::F32 => Some((1, 4)),
            Self::Q4_1 => Some((32, 20)),
            Self::Q8_0 => Some((32, 34)),
            Self::Other(_) => None,
        }
    }
}

/// One tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// How its numbers are stored.
    pub encoding: Encoding,
    /// Its sides, the one whose numbers lie next to each other first.
    pub shape: Vec<u64>,
    /// Where in the file it starts.
    pub start: u64,
    /// The bytes that it takes; zero for an encoding that is not read here.
    pub bytes: u64,
}

/// All that stands before the numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensors {
    /// What the file says about itself.
    pub metadata: Metadata,
    /// Its tensors by name. Each one lies within the file, and no two overlap.
    pub table: BTreeMap<String, Tensor>,
}

impl Tensors {
    /// Reads the start of a GGUF file, the table of tensors included.
    pub fn read(file: impl Read + Seek) -> Result<Self, GgufError> {
        let mut source = Source::new(file)?;
        let (metadata, count) = Metadata::start(&mut source)?;
        limit("the number of tensors", count, MAX_TENSORS)?;
        let mut table = BTreeMap::new();
        for _ in 0..count {
            let name = source.text("the name of a tensor", MAX_NAME)?;
            let tensor = entry(&mut source, &name)?;
            if table.insert(name.clone(), tensor).is_some() {
                return Err(GgufError::Tensor { name, found: "a duplicate name".to_owned() });
            }
        }
        let alignment = metadata.whole("general.alignment").unwrap_or(ALIGNMENT);
        if !alignment.is_power_of_two() || alignment > MAX_ALIGNMENT {
            let what = "`general.alignment`, which must be a power of two,".to_owned();
            return Err(GgufError::TooLarge { what, found: alignment, limit: MAX_ALIGNMENT });
        }
        let data = source.at.next_multiple_of(alignment);
        for (name, tensor) in &mut table {
            tensor.start = tensor.start.saturating_add(data);
            let end = tensor.start.saturating_add(tensor.bytes);
            if end > source.end {
                let found = format!(
                    "the bytes {} to {end} of a file of {} bytes: the file is truncated or damaged",
                    tensor.start, source.end
                );
                return Err(GgufError::Tensor { name: name.clone(), found });
            }
        }
        match overlap(&table) {
            Some((name, other)) => Err(GgufError::Tensor { name, found: format!("bytes that overlap `{other}`") }),
            None => Ok(Self { metadata, table }),
        }
    }
}

/// One line of the table; `start` is still counted from where the data starts.
fn entry<R: Read + Seek>(source: &mut Source<R>, name: &str) -> Result<Tensor, GgufError> {
    let fault = |found: String| GgufError::Tensor { name: name.to_owned(), found };
    let sides = source.u32(name)?;
    if sides > MAX_SIDES {
        return Err(fault(format!("{sides} sides, more than {MAX_SIDES}")));
    }
    let shape = (0..sides).map(|_| source.u64(name)).collect::<Result<Vec<_>, _>>()?;
    let encoding = Encoding::by_number(source.u32(name)?);
    let start = source.u64(name)?;
    let bytes = match encoding.block() {
        None => Some(0),
        Some((numbers, bytes)) => {
            let count = shape.iter().try_fold(1_u64, |count, side| count.checked_mul(*side));
            let whole = shape.first().is_some_and(|side| side % numbers == 0);
            count.filter(|_| whole).and_then(|count| (count / numbers).checked_mul(bytes))
        }
    };
    let bytes = bytes.ok_or_else(|| fault(format!("the shape {shape:?}, which cannot be stored as {encoding:?}")))?;
    Ok(Tensor { encoding, shape, start, bytes })
}

/// Two tensors that lie in each other's place.
fn overlap(table: &BTreeMap<String, Tensor>) -> Option<(String, String)> {
    let mut places: Vec<(u64, u64, &String)> = table.iter().map(|(name, tensor)| (tensor.start, tensor.bytes, name)).collect();
    places.retain(|(_, bytes, _)| *bytes > 0);
    places.sort_unstable();
    let meet = places.windows(2).find(|pair| pair[0].0 + pair[0].1 > pair[1].0)?;
    Some((meet[1].2.clone(), meet[0].2.clone()))
}
