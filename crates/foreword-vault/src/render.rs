//! A note as it is given to a model: what it embeds stands in it, one level deep, and its query blocks are answered.
//!
//! What is embedded stands as a quote below the line that embeds it:
//!
//! ```text
//! ![[Lesson 4#Scales]]
//!
//! > [embedded note: Lesson 4 (Piano/Lesson 4.md#Scales)]
//! > # Scales
//! > Slowly.
//! ```
//!
//! A tag of its own would not do: the whole note is text from outside, so the fence takes the power from every tag in it when the
//! note is put into a prompt. A quote needs no closing: nothing inside it can end it, because every line of it is marked, and a note that
//! is cut to fit is still well formed.

mod page;
mod pictures;

use std::collections::BTreeSet;
use std::ops::Range;

use foreword_core::message::Image;
use foreword_text::fence::is_line_end;

use crate::folder::{FileKind, Problem, stem_of};
use crate::index::Vault;
use crate::links::Resolved;
use foreword_documents::images;
use foreword_markdown as markdown;
use foreword_markdown::note::{Link, Note, Part, QueryBlock};
use foreword_text::reserved;
use pictures::Images;

/// The largest part of one embedded file.
pub const MOST_EMBED_BYTES: usize = 100_000;

/// The largest size of all embedded files of a note.
pub const MOST_EMBEDDED_BYTES: usize = 1_000_000;

/// The largest number of embeds; the others stay links.
pub const MOST_EMBEDS: usize = 200;

/// The largest PDF or canvas that is read.
const MOST_FILE_BYTES: u64 = 50 << 20;

/// How lines written by this module begin; such lines in files are escaped.
const OWN: [&str; 8] = [
    "[embedded canvas:",
    "[embedded note not found:",
    "[embedded note:",
    "[embedded PDF:",
    "[image left out]",
    "[not shown:",
    "[query not answered:",
    "[the rest is left out]",
];

/// The answer to a query block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The text that replaces the block.
    Result {
        /// The result as markdown.
        text: String,
        /// The notes that it is based on.
        read: Vec<String>,
    },
    /// The block is unchanged, for this reason.
    Unanswered(String),
}

/// Operations that this module needs from others: queries, PDFs and canvases.
pub trait Helpers {
    /// Answers a query block of the note at `path`.
    fn answer(&self, vault: &Vault, path: &str, query: &QueryBlock) -> Answer;

    /// The text of a PDF, or the error.
    fn pdf(&self, bytes: &[u8]) -> Result<String, String>;

    /// The text of a canvas, or the error.
    fn canvas(&self, json: &str) -> Result<String, String>;
}

/// A note as rendered for a prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendered {
    /// Its text, with embedded files.
    pub text: String,
    /// Its images, in order, without duplicates.
    pub images: Vec<Image>,
    /// The files that it is based on, in order: while they are unchanged, so is the result.
    pub read: Vec<String>,
    /// Problems to show to the user.
    pub problems: Vec<Problem>,
}

impl Vault {
    /// Renders a file for a prompt: a note, a canvas, a PDF or an image.
    pub fn render(&self, path: &str, helpers: &dyn Helpers) -> Rendered {
        let mut rendering = Rendering::new(self, path, helpers);
        match self.kind(path) {
            FileKind::Note => match self.read_note(path) {
                Ok((text, note)) => rendering.note(&text, &note, 0..text.len()),
                Err(error) => rendering.problem(error.to_string()),
            },
            FileKind::Image => {
                rendering.out.text = format!("![[{path}]]");
                rendering.image(path);
            }
            kind => match rendering.other(path, kind) {
                Ok(text) => rendering.out.text = text,
                Err(what) => rendering.problem(what),
            },
        }
        rendering.finish()
    }

    /// The kind of a file, from its name or the first bytes of an image.
    pub(crate) fn kind(&self, path: &str) -> FileKind {
        let kind = FileKind::of(path);
        let is_image = || {
            let bytes = self.folder().read_bytes(path, images::MOST_FILE_BYTES);
            bytes.is_ok_and(|bytes| images::media_type(&bytes).is_some())
        };
        if kind == FileKind::Other && is_image() { FileKind::Image } else { kind }
    }

    /// Renders a part of a note. `text` and `note` are from [`Vault::read_note`].
    pub(crate) fn render_part(&self, path: &str, text: &str, note: &Note, part: Range<usize>, helpers: &dyn Helpers) -> Rendered {
        let mut rendering = Rendering::new(self, path, helpers);
        rendering.note(text, note, part);
        rendering.finish()
    }
}

/// The state of rendering a note.
struct Rendering<'a> {
    vault: &'a Vault,
    path: &'a str,
    helpers: &'a dyn Helpers,
    out: Rendered,
    images: Images,
    read: BTreeSet<String>,
    embeds: usize,
    room: usize,
}

impl<'a> Rendering<'a> {
    fn new(vault: &'a Vault, path: &'a str, helpers: &'a dyn Helpers) -> Self {
        Self {
            vault,
            path,
            helpers,
            out: Rendered::default(),
            images: Images::default(),
            read: BTreeSet::from([path.to_owned()]),
            embeds: 0,
            room: MOST_EMBEDDED_BYTES,
        }
    }

    fn finish(mut self) -> Rendered {
        self.out.read = self.read.into_iter().collect();
        self.out.images = self.images.found;
        self.out
    }

    fn problem(&mut self, what: impl Into<String>) {
        self.out.problems.push(Problem::new(self.path, what));
    }

    /// Renders `part` of the note.
    fn note(&mut self, text: &str, note: &Note, part: Range<usize>) {
        let path = self.path;
        self.out.text = self.answered(path, text, note, part, Embeds::Shown);
    }

    /// Renders `part` of a note: answers queries, collects images and, if requested, shows embeds.
    fn answered(&mut self, path: &str, text: &str, note: &Note, part: Range<usize>, embeds: Embeds) -> String {
        let mut edits: Vec<(Range<usize>, String)> = Vec::new();
        let inside = |range: &Range<usize>| part.start <= range.start && range.end <= part.end;
        for query in note.queries.iter().filter(|query| inside(&query.range)) {
            edits.push(self.query(path, text, query));
        }
        for link in note.links.iter().filter(|link| link.embed && inside(&link.range)) {
            edits.extend(self.embed(path, text, link, part.end, embeds));
        }
        edits.sort_by_key(|(range, _)| (range.start, range.end));
        let mut out = String::new();
        let mut at = part.start;
        for (range, instead) in edits {
            // An embed inside a query block goes with it.
            if range.start >= at {
                out.push_str(&reserved::escape(text.get(at..range.start).unwrap_or_default(), &OWN));
                out.push_str(&instead);
                at = range.end;
            }
        }
        out.push_str(&reserved::escape(text.get(at..part.end).unwrap_or_default(), &OWN));
        out
    }

    fn query(&mut self, path: &str, text: &str, query: &QueryBlock) -> (Range<usize>, String) {
        let block = text.get(query.range.clone()).unwrap_or_default();
        let end = if block.ends_with('\n') { "\n" } else { "" };
        match self.helpers.answer(self.vault, path, query) {
            Answer::Result { text, read } => {
                self.read.extend(read);
                (query.range.clone(), format!("{}{end}", reserved::escape(text.trim_end(), &OWN)))
            }
            Answer::Unanswered(why) => {
                self.out.problems.push(Problem::new(path, format!("a query block was left as it is: {why}")));
                let below = if end.is_empty() { "\n" } else { "" };
                (query.range.end..query.range.end, format!("{below}> [query not answered: {}]{end}", one_line(&why)))
            }
        }
    }

    /// The text that an embed adds or replaces.
    fn embed(&mut self, path: &str, text: &str, link: &Link, end: usize, embeds: Embeds) -> Option<(Range<usize>, String)> {
        if let Some(uri) = link.target.strip_prefix("data:") {
            return match self.images.written_in(uri) {
                Ok(name) => {
                    let image = format!("![{}]({name})", link.text.as_deref().unwrap_or_default());
                    Some((link.range.clone(), reserved::escape(&image, &OWN).into_owned()))
                }
                Err(what) => {
                    self.out.problems.push(Problem::new(path, what));
                    Some((link.range.clone(), "[image left out]".to_owned()))
                }
            };
        }
        let found = self.vault.resolve(&link.target, path);
        let to = match &found {
            Resolved::External(_) => return None,
            Resolved::Ambiguous { chosen, candidates } => {
                self.out.problems.push(Problem::new(
                    path,
                    format!("`{}` fits several files: {}; the first is shown", link.target, candidates.join(", ")),
                ));
                Some(*chosen)
            }
            found => found.path(),
        };
        if to.map(FileKind::of) == Some(FileKind::Image) {
            self.image(to?);
            return None;
        }
        if embeds == Embeds::Left {
            return None;
        }
        self.embeds += 1;
        if self.embeds > MOST_EMBEDS {
            if self.embeds == MOST_EMBEDS + 1 {
                self.problem(format!("it embeds more than {MOST_EMBEDS} files; the others stay links"));
            }
            return None;
        }
        let block = self.embedded(link, to);
        Some(below(text, &link.range, end, &block))
    }

    /// The lines of an embedded file, before they are quoted.
    fn embedded(&mut self, link: &Link, to: Option<&str>) -> String {
        let mut part = link.part.as_ref().map(written).unwrap_or_default();
        let Some(to) = to else {
            self.problem(format!("the embedded note `{}` is not in the vault", link.target));
            return format!("[embedded note not found: {}{}]", one_line(&link.target), one_line(&part));
        };
        if to == self.path && link.part.is_none() {
            self.problem("it embeds itself; that is left out");
            return format!("[embedded note: this note itself ({})]", one_line(to));
        }
        let what = match FileKind::of(to) {
            FileKind::Canvas => "canvas",
            FileKind::Pdf => "PDF",
            _ => "note",
        };
        if what != "note" {
            // The rest of it, such as a height, says nothing of what is shown.
            part = page_asked(to, link.part.as_ref()).map(|page| format!("#page={page}")).unwrap_or_default();
        }
        let head = format!("[embedded {what}: {} ({}{})]", one_line(stem_of(to)), one_line(to), one_line(&part));
        self.read.insert(to.to_owned());
        match self.content(to, link.part.as_ref()) {
            Ok(content) => {
                let content = self.fitted(to, content);
                format!("{head}\n{}", content.trim_matches('\n'))
            }
            Err(what) => {
                self.out.problems.push(Problem::new(to, what.as_str()));
                format!("{head}\n[not shown: {}]", one_line(&what))
            }
        }
    }

    fn content(&mut self, to: &str, part: Option<&Part>) -> Result<String, String> {
        let kind = FileKind::of(to);
        if kind != FileKind::Note {
            let text = self.other(to, kind)?;
            return match page_asked(to, part) {
                Some(page) => page::page(&text, page).map(str::to_owned).ok_or_else(|| format!("it has no page {page}")),
                None => Ok(text),
            };
        }
        let (text, note) = self.vault.read_note(to).map_err(|error| error.to_string())?;
        let range = match part {
            None => note.frontmatter.range.end..text.len(),
            Some(part) => part_of(&text, &note, part).ok_or_else(|| format!("`{}` is not in this note", written(part)))?,
        };
        Ok(self.answered(to, &text, &note, range, Embeds::Left))
    }

    fn other(&mut self, path: &str, kind: FileKind) -> Result<String, String> {
        let read = |most| self.vault.folder().read_bytes(path, most).map_err(|error| error.to_string());
        match kind {
            FileKind::Canvas => self.helpers.canvas(&crate::folder::Text::decode(read(MOST_FILE_BYTES)?).text),
            FileKind::Pdf => self.helpers.pdf(&read(MOST_FILE_BYTES)?),
            FileKind::Note | FileKind::Image | FileKind::Other => Err("it is not text that can be shown".to_owned()),
        }
        .map(|text| reserved::escape(&text, &OWN).into_owned())
    }

    /// Cuts an embedded file to the remaining room.
    fn fitted(&mut self, path: &str, mut content: String) -> String {
        let most = MOST_EMBED_BYTES.min(self.room);
        if content.len() > most {
            let all = content.len();
            content.truncate(content.floor_char_boundary(most));
            let shown = content.len();
            content.push_str("\n[the rest is left out]");
            let path = path.to_owned();
            self.out.problems.push(Problem::new(path, format!("embedded with {shown} of its {all} bytes; attach it to see all")));
            self.room -= shown;
        } else {
            self.room -= content.len();
        }
        content
    }

    fn image(&mut self, path: &str) {
        self.read.insert(path.to_owned());
        if let Err(what) = self.images.in_vault(self.vault.folder(), path) {
            self.out.problems.push(Problem::new(path, what));
        }
    }
}

/// Whether embeds are shown: in the note itself, but not in embedded notes.
#[derive(Clone, Copy, PartialEq)]
enum Embeds {
    Shown,
    Left,
}

/// The page of a PDF in a link, as `#page=2`.
fn page_asked(to: &str, part: Option<&Part>) -> Option<u32> {
    match part {
        Some(Part::Heading(names)) if FileKind::of(to) == FileKind::Pdf => {
            names.first()?.split('&').find_map(|setting| setting.strip_prefix("page=")?.parse().ok())
        }
        _ => None,
    }
}

/// The byte range of a part of a note.
pub(crate) fn part_of(text: &str, note: &Note, part: &Part) -> Option<Range<usize>> {
    match part {
        Part::Heading(path) => markdown::section(text, note, path),
        Part::Block(id) => markdown::block(text, note, id),
    }
}

/// A part as written in a link.
pub(crate) fn written(part: &Part) -> String {
    match part {
        Part::Heading(path) => path.iter().fold(String::new(), |all, name| all + "#" + name),
        Part::Block(id) => format!("#^{id}"),
    }
}

/// Where an embed's quote goes: replacing a line that contains only the embed, or below the line or its table. It has the same
/// indentation and quote marks as the line, so that it stays in its list or quote.
fn below(text: &str, embed: &Range<usize>, end: usize, block: &str) -> (Range<usize>, String) {
    let start = text.get(..embed.start).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let line_end = |from: usize| text.get(from..end).and_then(|after| after.find('\n')).map_or(end, |at| from + at);
    let mut stop = line_end(embed.end);
    let line = text.get(start..stop).unwrap_or_default();
    let prefix: &str = &line[..line.len() - line.trim_start_matches([' ', '\t', '>']).len()];
    let quote = |block: &str| {
        let mut out = String::with_capacity(block.len() + block.len() / 8);
        // Whatever a reader may take for the end of a line is one: each line needs its mark.
        for line in block.split_inclusive(is_line_end) {
            out.push_str(prefix);
            out.push_str(if line.starts_with(is_line_end) { ">" } else { "> " });
            out.push_str(line);
        }
        out
    };
    let alone = line.trim_end().len() + start == embed.end && start + prefix.len() == embed.start;
    if alone {
        return (start..stop, quote(block));
    }
    let is_row = |line: &str| line.trim_start_matches([' ', '\t', '>']).starts_with('|');
    while is_row(line) && stop < end && is_row(text.get(stop + 1..line_end(stop + 1)).unwrap_or_default()) {
        stop = line_end(stop + 1);
    }
    let gap = if is_row(line) { format!("\n{}\n", prefix.trim_end()) } else { "\n".to_owned() };
    (stop..stop, format!("{gap}{}", quote(block)))
}

/// The text on one line, for lines written by this module.
fn one_line(text: &str) -> String {
    reserved::escape(&reserved::one_line(text), &OWN).into_owned()
}

#[cfg(test)]
mod tests;
