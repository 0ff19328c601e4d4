//! Images that go with a note: read safely, told by their first bytes and not by their names, within what providers take.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreword_core::hash::Hash;
use foreword_core::item::{ItemId, Kind};
use foreword_core::message::Image;

use crate::folder::Folder;

/// A larger image is not sent.
const MOST_BYTES: u64 = 5 << 20;

/// Images beyond so many are not sent.
const MOST_IMAGES: usize = 20;

/// The images of one note, each once.
#[derive(Default)]
pub(super) struct Images {
    pub(super) found: Vec<Image>,
}

impl Images {
    /// Takes the image at `path`.
    pub(super) fn in_vault(&mut self, folder: &Folder, path: &str) -> Result<(), String> {
        let id = ItemId::new(Kind::Image, path);
        if self.has(&id)? {
            return Ok(());
        }
        let bytes = folder.read_bytes(path, MOST_BYTES).map_err(|error| format!("image left out: {error}"))?;
        self.take(id, &bytes)
    }

    /// Takes an image that is written into a note, given what follows `data:`, and gives its name.
    pub(super) fn written_in(&mut self, uri: &str) -> Result<String, String> {
        let (_, data) = uri.split_once(";base64,").ok_or("an image in a data URI was left out: it is not in base64")?;
        if data.len() as u64 > MOST_BYTES / 3 * 4 + 4 {
            return Err(format!("an image in a data URI was left out: it has more than {MOST_BYTES} bytes"));
        }
        let name = format!("data-{}", Hash::of(data).short());
        let id = ItemId::new(Kind::Image, &name);
        if !self.has(&id)? {
            let bytes = STANDARD.decode(data).map_err(|error| format!("an image in a data URI was left out: {error}"))?;
            self.take(id, &bytes)?;
        }
        Ok(name)
    }

    fn has(&self, id: &ItemId) -> Result<bool, String> {
        let has = self.found.iter().any(|image| image.id == *id);
        if !has && self.found.len() >= MOST_IMAGES {
            return Err(format!("image left out: at most {MOST_IMAGES} go with one note"));
        }
        Ok(has)
    }

    fn take(&mut self, id: ItemId, bytes: &[u8]) -> Result<(), String> {
        let media_type = media_type(bytes).ok_or("image left out: it is no PNG, JPEG, GIF or WebP, which models take")?;
        self.found.push(Image { id, media_type: media_type.to_owned(), data: Arc::from(STANDARD.encode(bytes)) });
        Ok(())
    }
}

/// What the bytes are, if it is something that models take.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}
