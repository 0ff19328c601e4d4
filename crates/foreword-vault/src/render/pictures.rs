//! Images that go with a note, each once.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreword_core::hash::Hash;
use foreword_core::item::{ItemId, Kind};
use foreword_core::message::Image;

use crate::folder::Folder;
use foreword_documents::images::{self, MOST_FILE_BYTES};

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
        let bytes = folder.read_bytes(path, MOST_FILE_BYTES).map_err(|error| format!("image left out: {error}"))?;
        self.take(id, &bytes)
    }

    /// Takes an image that is written into a note, given what follows `data:`, and gives its name.
    pub(super) fn written_in(&mut self, uri: &str) -> Result<String, String> {
        let (_, data) = uri.split_once(";base64,").ok_or("an image in a data URI was left out: it is not in base64")?;
        if data.len() as u64 > MOST_FILE_BYTES / 3 * 4 + 4 {
            return Err(format!("an image in a data URI was left out: it has more than {MOST_FILE_BYTES} bytes"));
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
        self.found.push(images::image(id, bytes)?);
        Ok(())
    }
}
