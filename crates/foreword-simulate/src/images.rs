//! Images that a note shows: those written into it, and those of the scenario's vault. Pages are not fetched.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreword_core::hash::Hash;
use foreword_core::item::{ItemId, Kind};
use foreword_core::message::Image;
use foreword_documents::images::{MOST_FILE_BYTES, image};
use foreword_text::images::images;

use super::load::Loaded;

/// The images of a note that can be had.
pub(super) fn images_of(loaded: &Loaded, note: &str, content: &str) -> Vec<Image> {
    images(content).into_iter().filter_map(|target| written_in(target).or_else(|| in_vault(loaded, note, target))).collect()
}

/// `data:image/png;base64,…`
fn written_in(target: &str) -> Option<Image> {
    let (_, data) = target.strip_prefix("data:")?.split_once(";base64,")?;
    let id = ItemId::new(Kind::Image, format!("data-{}", Hash::of(data).short()));
    image(id, &STANDARD.decode(data).ok()?).ok()
}

/// Beside the note, else from the top of the vault; never outside it.
fn in_vault(loaded: &Loaded, note: &str, target: &str) -> Option<Image> {
    let root = fs::canonicalize(loaded.folder.join(loaded.scenario.vault.as_ref()?)).ok()?;
    let beside = root.join(Path::new(note).parent()?).join(target);
    let file = [beside, root.join(target)].iter().find_map(|file| fs::canonicalize(file).ok())?;
    let path = file.strip_prefix(&root).ok()?.to_str()?.to_owned();
    if fs::metadata(&file).ok()?.len() > MOST_FILE_BYTES {
        return None;
    }
    image(ItemId::new(Kind::Image, path), &fs::read(&file).ok()?).ok()
}
