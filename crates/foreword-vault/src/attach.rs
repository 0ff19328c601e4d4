//! Resolves attachments: finds the files that the user means and reads them as Versions.

mod parse;

use std::collections::BTreeSet;
use std::ops::Range;

use foreword_core::version::Version;
use globset::{GlobBuilder, GlobMatcher};
use jiff::Zoned;

pub use parse::{Ago, Attachment, NotAnAttachment, Since};

use crate::folder::{FileKind, Problem, name_of, nfc, stem_of};
use crate::index::{Listed, Vault};
use crate::links::Resolved;
use crate::render::{Helpers, Rendered, part_of, written};
use foreword_markdown::note::{Note, Part};

/// Foreword keeps agents, rules and chats here. `since:` leaves them out: the user did not write them as notes.
const OWN_FOLDER: &str = "Foreword/";

/// The limits of one attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of notes.
    pub notes: usize,
    /// The largest size of text in bytes.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { notes: 200, bytes: 4 << 20 }
    }
}

/// The content of an attachment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attached {
    /// Sorted by path.
    pub versions: Vec<Version>,
    /// The files that were read, in order.
    pub read: Vec<String>,
    /// Problems: files that were not found, not shown or left out.
    pub problems: Vec<Problem>,
}

impl Vault {
    /// Parses an attachment. A file with exactly this path takes precedence, even if its name looks like a tag or a glob.
    pub fn attachment(&self, text: &str) -> Result<Attachment, NotAnAttachment> {
        match [text, text.trim()].into_iter().find_map(|text| self.path(&nfc(text))) {
            Some(path) => Ok(Attachment::File { target: path.to_owned(), part: None }),
            None => Attachment::parse(text),
        }
    }

    /// The content of an attachment at the time `now`. Web pages are not fetched here and return nothing.
    pub fn attach(&self, attachment: &Attachment, now: &Zoned, limits: Limits, helpers: &dyn Helpers) -> Attached {
        let mut attaching = Attaching { vault: self, helpers, name: attachment.to_string(), out: Attached::default() };
        match attachment {
            Attachment::Url(_) => {}
            Attachment::File { target, part: None } => {
                if let Some(path) = attaching.find(target) {
                    attaching.whole(path, limits);
                }
            }
            Attachment::File { target, part: Some(part) } => {
                if let Some(path) = attaching.find(target) {
                    attaching.part(path, part, limits);
                }
            }
            Attachment::Lines { target, first, last } => {
                if let Some(path) = attaching.find(target) {
                    attaching.lines(path, *first, *last, limits);
                }
            }
            several => match self.meant(several, now) {
                Ok(paths) => attaching.all(&paths, limits),
                Err(what) => attaching.problem(what),
            },
        }
        attaching.out.read.sort();
        attaching.out.read.dedup();
        attaching.out
    }

    /// The notes of an attachment, the most relevant first. If not all fit, the last ones are left out.
    fn meant(&self, attachment: &Attachment, now: &Zoned) -> Result<Vec<&str>, String> {
        let choose = |wanted: &dyn Fn(&Listed) -> bool| -> Vec<&str> {
            self.notes().filter(|listed| wanted(listed)).map(|listed| listed.facts.path.as_str()).collect()
        };
        let paths = match attachment {
            Attachment::Tag(tag) => {
                let tag = tag.to_lowercase();
                choose(&|listed| listed.note.tags.iter().any(|has| is_tag_within(has, &tag)))
            }
            Attachment::Folder(folder) => {
                let folder = if folder.is_empty() { String::new() } else { format!("{}/", folder.to_lowercase()) };
                choose(&|listed| listed.facts.path.to_lowercase().starts_with(&folder))
            }
            Attachment::Glob(glob) => {
                let glob = matcher(glob)?;
                choose(&|listed| glob.is_match(&listed.facts.path))
            }
            Attachment::Since(since) => {
                let moment = since.moment(now);
                let is_own = |path: &str| path.starts_with(OWN_FOLDER);
                let facts = self.notes().map(|listed| &listed.facts);
                let mut changed: Vec<_> = facts.filter(|facts| facts.modified >= moment && !is_own(&facts.path)).collect();
                changed.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.path.cmp(&b.path)));
                changed.into_iter().map(|facts| facts.path.as_str()).collect()
            }
            Attachment::Linked { target, depth } => return self.neighbourhood(target, *depth),
            Attachment::File { .. } | Attachment::Lines { .. } | Attachment::Url(_) => Vec::new(),
        };
        if paths.is_empty() { Err(self.none(attachment)) } else { Ok(paths) }
    }

    /// The note and the notes up to `depth` links away, the nearest first.
    fn neighbourhood(&self, target: &str, depth: u8) -> Result<Vec<&str>, String> {
        let start = self.resolve(target, "").path().and_then(|path| self.get(path));
        let start = start.ok_or_else(|| self.not_found(target))?.facts.path.as_str();
        let mut seen = BTreeSet::from([start]);
        let mut all = vec![start];
        let mut edge = vec![start];
        for _ in 0..depth {
            let next = edge.iter().flat_map(|path| self.outgoing(path).chain(self.incoming(path)));
            let next: BTreeSet<&str> = next.filter(|path| self.get(path).is_some() && !seen.contains(path)).collect();
            seen.extend(&next);
            all.extend(&next);
            edge = next.into_iter().collect();
        }
        Ok(all)
    }

    /// An error message with the nearest matches.
    fn none(&self, attachment: &Attachment) -> String {
        match attachment {
            Attachment::Tag(tag) => {
                let tags = self.notes().flat_map(|listed| listed.note.tags.iter().map(String::as_str));
                format!("no note has this tag{}", nearest(tag, tags, "#"))
            }
            Attachment::Folder(folder) => {
                let folders = self.notes().filter_map(|listed| Some(listed.facts.path.rsplit_once('/')?.0));
                format!("no folder of this name has notes{}", nearest(folder, folders, ""))
            }
            Attachment::Since(_) => "no note changed since then".to_owned(),
            _ => "no note fits".to_owned(),
        }
    }

    fn not_found(&self, target: &str) -> String {
        let names = self.notes().flat_map(|listed| {
            let aliases = listed.note.aliases.iter().map(String::as_str);
            aliases.chain([listed.title.as_str(), listed.facts.path.as_str()])
        });
        let names = names.chain(self.files().map(|file| name_of(&file.facts.path)));
        format!("`{target}` is not in the vault{}", nearest(target, names, ""))
    }
}

/// The state of resolving one attachment.
struct Attaching<'a> {
    vault: &'a Vault,
    helpers: &'a dyn Helpers,
    name: String,
    out: Attached,
}

impl<'a> Attaching<'a> {
    fn problem(&mut self, what: impl Into<String>) {
        self.out.problems.push(Problem::new(self.name.as_str(), what));
    }

    /// Finds the file that the user means.
    fn find(&mut self, target: &str) -> Option<&'a str> {
        let vault = self.vault;
        if let Some(path) = vault.path(target) {
            return Some(path);
        }
        let found = match vault.resolve(target, "") {
            Resolved::Ambiguous { candidates, .. } => {
                let all = candidates.join(", ");
                self.problem(format!("`{target}` fits several files: {all}; the first is attached. Write more of its path"));
                candidates.first().and_then(|path| vault.path(path))
            }
            found => found.path().and_then(|path| vault.path(path)),
        };
        if found.is_none() {
            self.problem(vault.not_found(target));
        }
        found
    }

    fn rendered(&mut self, rendered: Rendered) -> Rendered {
        self.out.read.extend(rendered.read.iter().cloned());
        self.out.problems.extend(rendered.problems.iter().cloned());
        rendered
    }

    fn whole(&mut self, path: &str, limits: Limits) {
        if self.vault.kind(path) == FileKind::Other {
            self.problem(format!("`{path}` is neither a note nor a canvas, a PDF or an image"));
            return;
        }
        self.all(&[path], limits);
    }

    /// Attaches whole files until a limit is reached.
    fn all(&mut self, paths: &[&str], limits: Limits) {
        let mut taken = Vec::new();
        let mut left_out = Vec::new();
        let mut room = limits.bytes;
        for (count, path) in paths.iter().enumerate() {
            // A file known to be too large need not be read.
            let known = self.vault.get(path).map_or(0, |listed| usize::try_from(listed.facts.size).unwrap_or(usize::MAX));
            if count >= limits.notes || (known > room && paths.len() > 1) {
                left_out.push(*path);
                continue;
            }
            let rendered = self.vault.render(path, self.helpers);
            if rendered.text.len() > room && paths.len() > 1 {
                left_out.push(path);
                continue;
            }
            let mut rendered = self.rendered(rendered);
            if rendered.text.len() > room {
                let all = rendered.text.len();
                rendered.text.truncate(rendered.text.floor_char_boundary(room));
                self.problem(format!("`{path}` has {all} bytes; the first {} are attached", rendered.text.len()));
            }
            room -= rendered.text.len();
            // What could not be read is no empty note.
            let is_image = self.vault.kind(path) == FileKind::Image;
            let failed = (rendered.text.is_empty() || (is_image && rendered.images.is_empty())) && !rendered.problems.is_empty();
            if !failed {
                taken.push((*path, Version::note(path, Some(stem_of(path)), &rendered.text, rendered.images)));
            }
        }
        taken.sort_by_key(|(path, _)| *path);
        self.out.versions.extend(taken.into_iter().map(|(_, version)| version));
        left_out.sort_unstable();
        if !left_out.is_empty() {
            const NAMED: usize = 20;
            let named = left_out.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
            let more = if left_out.len() > NAMED { format!(" and {} more", left_out.len() - NAMED) } else { String::new() };
            let Limits { notes, bytes } = limits;
            self.problem(format!(
                "{} of {} notes are left out, because one attachment brings at most {notes} notes and {bytes} bytes: {named}{more}",
                left_out.len(),
                paths.len(),
            ));
        }
    }

    fn part(&mut self, path: &str, part: &Part, limits: Limits) {
        let Some((text, note)) = self.read_note(path) else { return };
        let Some(range) = part_of(&text, &note, part) else {
            let near = match part {
                Part::Heading(names) => {
                    let headings = note.headings.iter().map(|heading| heading.text.as_str());
                    nearest(names.last().map_or("", String::as_str), headings, "#")
                }
                Part::Block(id) => nearest(id, note.blocks.iter().map(|block| block.id.as_str()), "#^"),
            };
            return self.problem(format!("`{path}` has no `{}`{near}", written(part)));
        };
        let lines = lines_of(&text, &range);
        self.selection(path, &text, &note, range, lines, limits);
    }

    fn lines(&mut self, path: &str, first: u32, last: u32, limits: Limits) {
        let Some((text, note)) = self.read_note(path) else { return };
        let count = u32::try_from(text.lines().count()).unwrap_or(u32::MAX);
        if first > count {
            self.problem(format!("`{path}` has {count} lines; there is no line {first}"));
            return;
        }
        if last > count {
            self.problem(format!("`{path}` has {count} lines; lines {first} to {count} are attached"));
        }
        let last = last.min(count);
        let mut ends = text.match_indices('\n').map(|(at, _)| at + 1).chain([text.len()]);
        let start = if first == 1 { 0 } else { ends.nth(first as usize - 2).unwrap_or(text.len()) };
        let end = ends.nth((last - first) as usize).unwrap_or(text.len());
        self.selection(path, &text, &note, start..end, (first, last), limits);
    }

    fn read_note(&mut self, path: &str) -> Option<(String, Note)> {
        if self.vault.get(path).is_none() {
            self.problem(format!("`{path}` is not a note, so it has no parts or lines; attach it whole"));
            return None;
        }
        self.vault.read_note(path).map_err(|error| self.problem(error.to_string())).ok()
    }

    fn selection(&mut self, path: &str, text: &str, note: &Note, range: Range<usize>, lines: (u32, u32), limits: Limits) {
        let rendered = self.vault.render_part(path, text, note, range, self.helpers);
        let mut rendered = self.rendered(rendered);
        if rendered.text.len() > limits.bytes {
            rendered.text.truncate(rendered.text.floor_char_boundary(limits.bytes));
            self.problem(format!("the part has more than {} bytes; its start is attached", limits.bytes));
        }
        let version = Version::selection(path, lines.0, lines.1, &rendered.text);
        self.out.versions.push(Version { images: rendered.images, ..version });
    }
}

/// The first and last line of a byte range, from 1.
fn lines_of(text: &str, range: &Range<usize>) -> (u32, u32) {
    let number = |end: usize| {
        let ends = text.get(..end).unwrap_or_default().matches('\n').count();
        u32::try_from(ends + 1).unwrap_or(u32::MAX)
    };
    let inside = text.get(range.clone()).unwrap_or_default();
    let end = range.start + inside.trim_end_matches('\n').len();
    (number(range.start), number(end.max(range.start)))
}

/// Whether a tag is `tag` (in lower case) or a subtag of it.
fn is_tag_within(has: &str, tag: &str) -> bool {
    has.to_lowercase().strip_prefix(tag).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

pub(crate) fn matcher(glob: &str) -> Result<GlobMatcher, String> {
    /// The longest glob in bytes.
    const MOST_BYTES: usize = 1_000;
    if glob.len() > MOST_BYTES {
        return Err(format!("a glob has at most {MOST_BYTES} bytes"));
    }
    let glob = glob.strip_prefix("./").unwrap_or(glob);
    let built = GlobBuilder::new(glob).literal_separator(true).case_insensitive(true).build();
    built.map(|glob| glob.compile_matcher()).map_err(|error| format!("it is not a glob: {error}"))
}

/// `; the nearest: …`, with the names most similar to `wanted`.
fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>, mark: &str) -> String {
    const SHOWN: usize = 3;
    /// The smallest useful similarity, from 0 to 1.
    const ALIKE: f64 = 0.4;
    let wanted = pairs(wanted);
    let mut near: Vec<(f64, &str)> =
        names.map(|name| (likeness(&wanted, &pairs(name)), name)).filter(|near| near.0 >= ALIKE).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    near.dedup_by(|a, b| a.1 == b.1);
    let shown: Vec<String> = near.iter().take(SHOWN).map(|(_, name)| format!("`{mark}{name}`")).collect();
    if shown.is_empty() { String::new() } else { format!("; the nearest: {}", shown.join(", ")) }
}

/// The character pairs of a file name, without folder and extension.
fn pairs(name: &str) -> BTreeSet<(char, char)> {
    /// The longest name to compare.
    const MOST_CHARS: usize = 200;
    let lower = stem_of(name).to_lowercase();
    let chars: Vec<char> = std::iter::once(' ').chain(lower.chars().take(MOST_CHARS)).chain([' ']).collect();
    chars.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

fn likeness(a: &BTreeSet<(char, char)>, b: &BTreeSet<(char, char)>) -> f64 {
    2.0 * a.intersection(b).count() as f64 / (a.len() + b.len()) as f64
}

#[cfg(test)]
mod tests;
