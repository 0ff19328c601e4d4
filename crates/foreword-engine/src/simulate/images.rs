//! Images that a note shows: those written into it, and those of the scenario's vault. Pages are not fetched.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreword_core::hash::Hash;
use foreword_core::item::{ItemId, Kind};
use foreword_core::message::Image;
use foreword_core::text::images::images;

use super::load::Loaded;

/// Larger files are not sent.
const MOST_BYTES: u64 = 5 << 20;

const MEDIA_TYPES: [(&str, &str); 5] =
    [("png", "image/png"), ("jpg", "image/jpeg"), ("jpeg", "image/jpeg"), ("gif", "image/gif"), ("webp", "image/webp")];

/// The images of a note that can be had.
pub(super) fn images_of(loaded: &Loaded, note: &str, content: &str) -> Vec<Image> {
    images(content).into_iter().filter_map(|target| written_in(target).or_else(|| in_vault(loaded, note, target))).collect()
}

/// `data:image/png;base64,…`
fn written_in(target: &str) -> Option<Image> {
    let (kind, data) = target.strip_prefix("data:")?.split_once(";base64,")?;
    let known = MEDIA_TYPES.iter().find(|(_, media_type)| *media_type == kind)?;
    STANDARD.decode(data).ok()?;
    let id = ItemId::new(Kind::Image, format!("data-{}", Hash::of(data).short()));
    Some(Image { id, media_type: known.1.to_owned(), data: Arc::from(data) })
}

/// Beside the note, else from the top of the vault; never outside it.
fn in_vault(loaded: &Loaded, note: &str, target: &str) -> Option<Image> {
    let root = fs::canonicalize(loaded.folder.join(loaded.scenario.vault.as_ref()?)).ok()?;
    let (_, ending) = target.rsplit_once('.')?;
    let (_, media_type) = MEDIA_TYPES.iter().find(|(known, _)| ending.eq_ignore_ascii_case(known))?;
    let beside = root.join(Path::new(note).parent()?).join(target);
    let file = [beside, root.join(target)].iter().find_map(|file| fs::canonicalize(file).ok())?;
    let path = file.strip_prefix(&root).ok()?.to_str()?.to_owned();
    if fs::metadata(&file).ok()?.len() > MOST_BYTES {
        return None;
    }
    let data = STANDARD.encode(fs::read(&file).ok()?);
    Some(Image { id: ItemId::new(Kind::Image, path), media_type: (*media_type).to_owned(), data: Arc::from(data) })
}
