//! Takes out of a PDF what could exhaust memory or stack: streams that inflate too far, images (nothing to read in them), forms that
//! draw themselves, pages whose parents go in circles.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use flate2::read::{DeflateDecoder, ZlibDecoder};
use pdf_extract::{Dictionary, Document, Object, ObjectId, Stream};

/// The most one stream may inflate to. Each two bytes of it can become an operation of about a hundred.
const MAX_STREAM_BYTES: u64 = 8 << 20;
/// LZW makes at most about 2,700 bytes of one.
const MAX_LZW_BYTES: usize = 100 << 10;
/// The most content one page may have in all.
const MAX_PAGE_BYTES: u64 = 16 << 20;
/// The most that is inflated to look at the streams of one file.
const MAX_LOOKED_AT: u64 = 1 << 30;
const MAX_FORM_DEPTH: usize = 12;
const MAX_FORM_DRAWS: usize = 5_000;
const MAX_PARENTS: usize = 64;

/// Damages each compressed stream that would inflate too far, so that reading it fails instead. This is for the streams that are inflated
/// while the file is opened; encrypted ones are not seen here.
pub(super) fn disarm_bytes(bytes: &mut [u8]) {
    const MARK: &[u8] = b"stream";
    let (mut at, mut looked_at) = (0, 0);
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.windows(MARK.len()).position(|window| window == MARK)) {
        at += found + MARK.len();
        let skip = bytes.get(at..).map_or(0, |rest| rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count().min(2));
        at += skip;
        if skip > 0 {
            let size = if looked_at < MAX_LOOKED_AT { inflated(&bytes[at..]) } else { u64::MAX };
            looked_at = looked_at.saturating_add(size);
            if size > MAX_STREAM_BYTES {
                // No zlib header, and then a block of a kind that does not exist.
                bytes.iter_mut().skip(at).zip([0, 0, 0b111]).for_each(|(byte, bad)| *byte = bad);
            }
        }
    }
}

/// How far `bytes` inflate, up to just over the limit. The reader takes what has no zlib header for bare deflate, two bytes later.
fn inflated(bytes: &[u8]) -> u64 {
    match drained(ZlibDecoder::new(bytes)) {
        0 => drained(DeflateDecoder::new(bytes.get(2..).unwrap_or_default())),
        size => size,
    }
}

fn drained(decoder: impl Read) -> u64 {
    let mut decoder = decoder.take(MAX_STREAM_BYTES + 1);
    let mut sink = [0; 16 << 10];
    let mut total = 0;
    while let Ok(count @ 1..) = decoder.read(&mut sink) {
        total += count as u64;
    }
    total
}

/// Empties dangerous streams and tells which pages may be read.
pub(super) fn disarm(document: &mut Document) -> BTreeSet<ObjectId> {
    let mut sizes: BTreeMap<ObjectId, u64> = BTreeMap::new();
    for (id, object) in &mut document.objects {
        if let Object::Stream(stream) = object {
            match size(stream) {
                Some(size) => {
                    sizes.insert(*id, size);
                }
                None => empty(stream),
            }
        }
    }
    for id in loops(document) {
        if let Some(Object::Stream(stream)) = document.objects.get_mut(&id) {
            empty(stream);
        }
    }
    let pages = document.get_pages();
    let content =
        |id: &ObjectId| document.get_page_contents(*id).iter().map(|part| sizes.get(part).copied().unwrap_or(0)).sum::<u64>();
    pages.into_values().filter(|id| has_end(document, *id) && content(id) <= MAX_PAGE_BYTES).collect()
}

fn empty(stream: &mut Stream) {
    stream.dict.remove(b"Filter");
    stream.dict.remove(b"DecodeParms");
    stream.set_content(Vec::new());
}

/// How large a stream is when inflated; none where it must not be.
fn size(stream: &Stream) -> Option<u64> {
    if stream.dict.get(b"Subtype").and_then(Object::as_name).is_ok_and(|name| name == b"Image") {
        return None;
    }
    let filters = stream.filters().unwrap_or_default();
    let packed: Vec<&[u8]> = filters
        .iter()
        .copied()
        .filter(|name| matches!(*name, b"FlateDecode" | b"Fl" | b"LZWDecode" | b"LZW" | b"RunLengthDecode" | b"RL"))
        .collect();
    match (packed.as_slice(), filters.len()) {
        ([], _) => Some(stream.content.len() as u64),
        ([b"FlateDecode" | b"Fl"], 1) => Some(inflated(&stream.content)).filter(|size| *size <= MAX_STREAM_BYTES),
        ([_], _) if stream.content.len() <= MAX_LZW_BYTES => Some(stream.content.len() as u64),
        _ => None,
    }
    .filter(|size| *size <= MAX_STREAM_BYTES)
}

/// Forms that draw themselves, nest too deep or too often; and forms without resources of their own that draw others, for which that
/// cannot be told.
fn loops(document: &Document) -> BTreeSet<ObjectId> {
    let mut forms: BTreeMap<ObjectId, Vec<ObjectId>> = BTreeMap::new();
    let mut bad = BTreeSet::new();
    for (id, object) in &document.objects {
        let Object::Stream(stream) = object else { continue };
        if let Some(resources) = dictionary(document, &stream.dict, b"Resources") {
            let drawn = dictionary(document, resources, b"XObject");
            let drawn = drawn.map(|drawn| drawn.iter().filter_map(|(_, to)| to.as_reference().ok()).collect());
            forms.insert(*id, drawn.unwrap_or_default());
            continue;
        }
        let is_form = stream.dict.get(b"Subtype").and_then(Object::as_name).is_ok_and(|name| name == b"Form");
        if is_form && stream.decompressed_content().is_ok_and(|content| content.windows(2).any(|two| two == b"Do")) {
            bad.insert(*id);
        }
    }
    let mut known = BTreeMap::new();
    for id in forms.keys() {
        weigh(*id, &forms, &mut known, &mut bad, 0);
    }
    bad
}

/// How many forms are drawn by drawing this one once through each of its names.
fn weigh(
    id: ObjectId,
    forms: &BTreeMap<ObjectId, Vec<ObjectId>>,
    known: &mut BTreeMap<ObjectId, Option<usize>>,
    bad: &mut BTreeSet<ObjectId>,
    depth: usize,
) -> usize {
    match known.get(&id) {
        Some(Some(weight)) => return *weight,
        // Still being weighed: it draws itself.
        Some(None) => {
            bad.insert(id);
            return 1;
        }
        None => {}
    }
    if depth > MAX_FORM_DEPTH {
        bad.insert(id);
        return 1;
    }
    known.insert(id, None);
    let mut weight = 1_usize;
    for to in forms.get(&id).into_iter().flatten() {
        weight = weight.saturating_add(weigh(*to, forms, known, bad, depth + 1));
    }
    if weight > MAX_FORM_DRAWS {
        bad.insert(id);
        weight = 1;
    }
    known.insert(id, Some(weight));
    weight
}

fn dictionary<'a>(document: &'a Document, holder: &'a Dictionary, key: &[u8]) -> Option<&'a Dictionary> {
    let (_, value) = document.dereference(holder.get(key).ok()?).ok()?;
    value.as_dict().ok()
}

/// Whether the way up from a page comes to an end.
fn has_end(document: &Document, page: ObjectId) -> bool {
    let mut at = Some(page);
    for _ in 0..MAX_PARENTS {
        let Some(dictionary) = at.and_then(|id| document.get_dictionary(id).ok()) else { return true };
        at = dictionary.get(b"Parent").and_then(Object::as_reference).ok();
    }
    false
}
