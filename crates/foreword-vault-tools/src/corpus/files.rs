//! Canvases and PDFs of a vault, as they are searched. Reading one can take seconds, so they are read when there is time, and not when a
//! vault is opened. What was read stands in the index and is read again only when the file changed.

use std::time::{Duration, Instant};

use foreword_core::item::ItemId;
use foreword_documents::canvas::{self, CanvasText};
use foreword_documents::pdf::{self, PdfError};
use foreword_search::chunk::note_chunks;
use foreword_search::index::Document;
use foreword_vault::folder::{FileKind, Stamp, Text};
use foreword_vault::index::OtherFile;
use serde::{Deserialize, Serialize};

use super::{Corpus, file_date, is_searched};

/// Of the text of one file, no more is searched: a book, not a library.
const MOST_TEXT_BYTES: usize = 1 << 20;

/// A file whose name, and text as far as there is one, stands in the index.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Indexed {
    /// Of the file that was read.
    stamp: Stamp,
    /// Why its text is not searched, or not all of it.
    pub(super) fault: Option<String>,
}

/// What reading a file came to.
enum Outcome {
    /// Its text, and what is wrong with it.
    Read(String, Option<String>),
    /// There was no time for it.
    Later,
}

impl Corpus {
    /// Reads the canvases and PDFs that changed, small ones first, up to the moment `until`. `watch` is told how many are done, of how
    /// many. How many are left.
    pub fn read_files(&mut self, until: Option<Instant>, watch: &mut dyn FnMut(usize, usize)) -> usize {
        let mut stale: Vec<OtherFile> = self.stale_files().cloned().collect();
        stale.sort_by(|a, b| a.facts.size.cmp(&b.facts.size).then_with(|| a.facts.path.cmp(&b.facts.path)));
        let mut left = 0;
        for (done, file) in stale.iter().enumerate() {
            let time = until.map_or(pdf::TIME, |until| until.saturating_duration_since(Instant::now()).min(pdf::TIME));
            if time.is_zero() {
                left += stale.len() - done;
                break;
            }
            watch(done, stale.len());
            match self.read_file(file, time) {
                Outcome::Read(text, fault) => self.put_file(file, text, fault),
                Outcome::Later => left += 1,
            }
        }
        if left < stale.len() {
            self.save();
        }
        left
    }

    /// Those that are not in the index as they are now.
    fn stale_files(&self) -> impl Iterator<Item = &OtherFile> {
        self.vault.files().filter(|file| {
            let is_text = matches!(file.kind, FileKind::Canvas | FileKind::Pdf) && is_searched(&file.facts.path);
            is_text && self.files.get(&file.facts.path).is_none_or(|indexed| indexed.stamp != file.stamp)
        })
    }

    fn read_file(&self, file: &OtherFile, time: Duration) -> Outcome {
        let most = if file.kind == FileKind::Pdf { pdf::MAX_BYTES } else { canvas::MAX_BYTES };
        let fault = |error: &dyn std::error::Error| Outcome::Read(String::new(), Some(error.to_string()));
        let bytes = match self.vault.folder().read_bytes(&file.facts.path, most as u64) {
            Ok(bytes) => bytes,
            Err(error) => return fault(&error),
        };
        if file.kind == FileKind::Canvas {
            return match canvas::text(&Text::decode(bytes).text) {
                Ok(CanvasText { text, skipped: 0, .. }) => Outcome::Read(text, None),
                Ok(CanvasText { text, skipped, .. }) => {
                    Outcome::Read(text, Some(format!("parts that could not be read: {skipped}")))
                }
                Err(error) => fault(&error),
            };
        }
        match pdf::text_within(&bytes, time) {
            Ok(text) => Outcome::Read(headed(&text), None),
            Err(PdfError::TooSlow(_)) if time < pdf::TIME => Outcome::Later,
            Err(PdfError::Busy) => Outcome::Later,
            Err(error) => fault(&error),
        }
    }

    /// Without a text it is found by its name.
    fn put_file(&mut self, file: &OtherFile, mut text: String, mut fault: Option<String>) {
        if text.len() > MOST_TEXT_BYTES {
            fault = Some(format!(
                "only the first {} KiB of its {} KiB of text are searched",
                MOST_TEXT_BYTES >> 10,
                text.len() >> 10
            ));
            text.truncate(text.floor_char_boundary(MOST_TEXT_BYTES));
        }
        let path = &file.facts.path;
        let name = path.rsplit_once('/').map_or(path.as_str(), |(_, name)| name);
        let date = file_date(name, &file.facts, &self.zone);
        self.index.put(Document { id: ItemId::note(path), date, chunks: note_chunks(name, &text) });
        self.files.insert(path.clone(), Indexed { stamp: file.stamp, fault });
    }
}

/// The text of a PDF with its pages as sections, so that a chunk knows its page.
fn headed(text: &str) -> String {
    let is_page = |line: &str| line.strip_prefix("[Page ").and_then(|rest| rest.strip_suffix(']')).map(str::to_owned);
    let lines = text.lines().map(|line| is_page(line).map_or_else(|| line.to_owned(), |page| format!("# Page {page}")));
    lines.collect::<Vec<_>>().join("\n")
}
