//! The text of PDF files. The library that reads them trusts them: it panics on odd files, follows loops until the stack ends and inflates
//! without limit. So `guard` takes the dangerous parts out first, and the reading is done apart, page by page, with a time limit.

mod guard;

use std::fmt::Write as _;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pdf_extract::{Document, MediaBox, OutputDev, OutputError, PlainTextOutput, Transform};

use crate::isolated::{self, Fault, MAX_LEFT_BEHIND};
use foreword_text::reserved;

/// The largest file that is read.
pub const MAX_BYTES: usize = 50 << 20;
/// The most pages that are read; a note at the end tells of the others.
pub const MAX_PAGES: usize = 2_000;
/// How long reading may take.
pub const TIME: Duration = Duration::from_secs(20);
const MAX_TEXT_BYTES: usize = 8 << 20;

/// A PDF without usable text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PdfError {
    /// Too large.
    #[error("reading a PDF: it has {found} bytes and {MAX_BYTES} is the most; attach a part of it")]
    TooLarge {
        /// Its size.
        found: usize,
    },
    /// Locked.
    #[error("reading a PDF: it is locked with a password; save a copy without one")]
    Encrypted,
    /// No text inside.
    #[error("reading a PDF: its {pages} pages hold no text, they may be scanned images; run text recognition over it first")]
    NoText {
        /// How many pages it has.
        pages: usize,
    },
    /// Damaged, or no PDF.
    #[error("reading a PDF: it could not be understood ({0}); it may be damaged, try saving it again with another program")]
    Malformed(String),
    /// Too slow.
    #[error("reading a PDF: it took longer than {0:.0?}; attach a part of it")]
    TooSlow(Duration),
    /// Others are still at work.
    #[error("reading a PDF: {MAX_LEFT_BEHIND} earlier files that took too long are still at work; try again later")]
    Busy,
}

/// The text of a PDF, page by page, each under a `[Page n]` line. Blocks for up to [`TIME`].
pub fn text(bytes: &[u8]) -> Result<String, PdfError> {
    text_within(bytes, TIME)
}

/// The same in less time.
pub fn text_within(bytes: &[u8], time: Duration) -> Result<String, PdfError> {
    if bytes.len() > MAX_BYTES {
        return Err(PdfError::TooLarge { found: bytes.len() });
    }
    let bytes = bytes.to_vec();
    isolated::run(time, move |stop| read(bytes, stop)).unwrap_or_else(|fault| {
        Err(match fault {
            Fault::Panicked => PdfError::Malformed("its structure is inconsistent".to_owned()),
            Fault::TooSlow => PdfError::TooSlow(time),
            Fault::Busy => PdfError::Busy,
        })
    })
}

fn read(mut bytes: Vec<u8>, stop: &AtomicBool) -> Result<String, PdfError> {
    guard::disarm_bytes(&mut bytes);
    let malformed =
        |error: pdf_extract::Error| PdfError::Malformed(error.to_string().lines().next().unwrap_or_default().to_owned());
    let mut document = Document::load_mem(&bytes).map_err(malformed)?;
    drop(bytes);
    // Many files are locked against changes only: those open with an empty password.
    if document.is_encrypted() && document.decrypt("").is_err() {
        return Err(PdfError::Encrypted);
    }
    let readable = guard::disarm(&mut document);
    let pages = document.get_pages();
    if pages.is_empty() {
        return Err(PdfError::Malformed("it has no pages".to_owned()));
    }

    let mut text = String::new();
    let (mut unread, mut some) = (0, false);
    for (number, id) in pages.iter().take(MAX_PAGES) {
        let mut page = String::new();
        let room = MAX_TEXT_BYTES.saturating_sub(text.len());
        let mut output = Capped { inner: PlainTextOutput::new(&mut page), room, stop };
        let whole = || pdf_extract::output_doc_page(&document, &mut output, *number).is_ok();
        let mut taken = readable.contains(id) && panic::catch_unwind(AssertUnwindSafe(whole)).unwrap_or(false);
        if !taken && readable.contains(id) && !stop.load(Ordering::Relaxed) && page.len() < room {
            // Fonts that it cannot read, such as Chinese ones that are not embedded: the library below knows more of them, if no lines.
            let plain = panic::catch_unwind(AssertUnwindSafe(|| document.extract_text(&[*number]).ok())).ok().flatten();
            if let Some(mut plain) = plain.filter(|plain| plain.trim().len() > page.trim().len()) {
                plain.truncate(plain.floor_char_boundary(room));
                page = plain;
                taken = true;
            }
        }
        unread += usize::from(!taken);
        let page = tidy(&page);
        let page = reserved::escape(&page, &["[Page 0"]);
        some |= !page.is_empty();
        let _ = write!(text, "[Page {number}]\n\n{page}\n\n");
        if stop.load(Ordering::Relaxed) || text.len() >= MAX_TEXT_BYTES {
            break;
        }
    }
    if !some {
        return Err(if unread == 0 {
            PdfError::NoText { pages: pages.len() }
        } else {
            PdfError::Malformed(format!("{unread} of its pages could not be read"))
        });
    }
    text.truncate(text.trim_end().len());
    if unread > 0 {
        let _ = write!(text, "\n\n[{unread} pages could not be read in full.]");
    }
    if pages.len() > MAX_PAGES {
        let _ = write!(text, "\n\n[{} further pages are left out.]", pages.len() - MAX_PAGES);
    }
    Ok(text)
}

/// Takes characters while there is room and nobody asked to stop.
struct Capped<'a> {
    inner: PlainTextOutput<&'a mut String>,
    room: usize,
    stop: &'a AtomicBool,
}

impl OutputDev for Capped<'_> {
    fn begin_page(&mut self, number: u32, media: &MediaBox, art: Option<(f64, f64, f64, f64)>) -> Result<(), OutputError> {
        self.inner.begin_page(number, media, art)
    }

    fn end_page(&mut self) -> Result<(), OutputError> {
        self.inner.end_page()
    }

    fn output_character(
        &mut self,
        place: &Transform,
        width: f64,
        spacing: f64,
        size: f64,
        text: &str,
    ) -> Result<(), OutputError> {
        if self.room < text.len() || self.stop.load(Ordering::Relaxed) {
            return Err(OutputError::FormatError(std::fmt::Error));
        }
        self.room -= text.len();
        self.inner.output_character(place, width, spacing, size, text)
    }

    fn begin_word(&mut self) -> Result<(), OutputError> {
        self.inner.begin_word()
    }

    fn end_word(&mut self) -> Result<(), OutputError> {
        self.inner.end_word()
    }

    fn end_line(&mut self) -> Result<(), OutputError> {
        self.inner.end_line()
    }
}

/// One blank line at most, no space at the end of lines, ligatures as the letters they are, no control characters.
fn tidy(page: &str) -> String {
    let mut tidied = String::with_capacity(page.len());
    let mut blank = 0;
    for line in page.lines() {
        let line = line.trim();
        blank = if line.is_empty() { blank + 1 } else { 0 };
        if blank > 1 {
            continue;
        }
        for c in line.chars() {
            match c {
                'ﬀ' => tidied.push_str("ff"),
                'ﬁ' => tidied.push_str("fi"),
                'ﬂ' => tidied.push_str("fl"),
                'ﬃ' => tidied.push_str("ffi"),
                'ﬄ' => tidied.push_str("ffl"),
                '\u{a0}' | '\t' => tidied.push(' '),
                '\u{ad}' => tidied.push('-'),
                c if c.is_control() => {}
                c => tidied.push(c),
            }
        }
        tidied.push('\n');
    }
    tidied.trim().to_owned()
}

#[cfg(test)]
mod tests;
