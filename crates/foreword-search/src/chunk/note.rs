//! Cuts a note where its headings, blocks and sentences end, so that a chunk is about one thing and knows under which headings it stands.

use std::ops::Range;

use super::{CHUNK_CHARS, Chunk, lines, pack};

/// Deeper headings do not end a chunk: what stands under them belongs together.
const ENDING_LEVEL: usize = 3;

/// Frontmatter a note can be found by; the rest of it is for machines.
const FINDABLE: [&str; 5] = ["title", "aliases", "alias", "tags", "description"];

/// The chunks of a note with the given title: first its name with its tags and other names, then its text, each stretch embedded behind its
/// headings. Ranges are bytes of `text`, in order, and together hold all of it but white space and frontmatter.
///
/// The name is embedded alone, so that a renamed note keeps the vectors of its text; its words are found with every chunk.
pub fn note_chunks(title: &str, text: &str) -> Vec<Chunk> {
    let body = body_start(text);
    let detail = findable(&text[..body]);
    let name = format!("{title}\n{detail}").trim_end().to_owned();
    let mut chunks = vec![Chunk { text: name, range: body..body, context: title.to_owned(), detail, ..Chunk::default() }];
    for section in sections(text, body) {
        for range in pack(text, blocks(text, section.range)) {
            let text = match section.path.as_str() {
                "" => text[range.clone()].to_owned(),
                path => format!("{path}\n{}", &text[range.clone()]),
            };
            let context = [title, &section.path].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" > ");
            chunks.push(Chunk { text, range, context, ..Chunk::default() });
        }
    }
    chunks
}

struct Section {
    range: Range<usize>,
    path: String,
}

/// Where the note begins behind its frontmatter.
fn body_start(text: &str) -> usize {
    let mut all = lines(text);
    if all.next().is_none_or(|(_, line)| line.trim_start_matches('\u{feff}').trim_end() != "---") {
        return 0;
    }
    all.find(|(_, line)| matches!(line.trim_end(), "---" | "...")).map_or(0, |(start, line)| start + line.len())
}

fn findable(frontmatter: &str) -> String {
    let mut found = String::new();
    let mut wanted = false;
    for (_, line) in lines(frontmatter) {
        let key = line.split_once(':').filter(|(key, _)| !key.starts_with([' ', '\t', '-', '#']));
        let value = match key {
            Some((key, value)) => {
                wanted = FINDABLE.iter().any(|known| key.trim().eq_ignore_ascii_case(known));
                value
            }
            None => line.trim_start().trim_start_matches("- "),
        };
        if wanted && !value.trim().is_empty() && value.trim() != "---" {
            found.push_str(value.trim());
            found.push(' ');
        }
    }
    found.truncate(found.trim_end().len());
    found
}

/// Tells lines inside code fences from the others.
#[derive(Default)]
struct Fences {
    open: Option<(char, usize)>,
}

impl Fences {
    /// Whether `line` belongs to a fenced block.
    fn inside(&mut self, line: &str) -> bool {
        let line = line.trim();
        let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'));
        let length = mark.map_or(0, |mark| line.chars().take_while(|c| *c == mark).count());
        match (self.open, mark) {
            (Some((open, least)), Some(mark)) if mark == open && length >= least && line.len() == length => self.open = None,
            (None, Some(mark)) if length >= 3 => self.open = Some((mark, length)),
            (None, _) => return false,
            (Some(_), _) => {}
        }
        true
    }
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let rest = line.get(level..)?;
    let fits = (1..=6).contains(&level) && rest.starts_with([' ', '\t', '\n', '\r']) || (level > 0 && rest.is_empty());
    fits.then(|| (level, rest.trim().trim_end_matches('#').trim_end()))
}

/// The stretches between headings that end a chunk.
fn sections(text: &str, body: usize) -> Vec<Section> {
    let mut found = Vec::new();
    let mut headings: Vec<(usize, &str)> = Vec::new();
    let mut start = body;
    let mut fences = Fences::default();
    for (at, line) in lines(&text[body..]) {
        if fences.inside(line) {
            continue;
        }
        let Some((level, words)) = heading(line).filter(|(level, _)| *level <= ENDING_LEVEL) else { continue };
        found.push(Section { range: start..body + at, path: path(&headings) });
        headings.retain(|(above, _)| *above < level);
        headings.push((level, words));
        start = body + at;
    }
    found.push(Section { range: start..text.len(), path: path(&headings) });
    found
}

fn path(headings: &[(usize, &str)]) -> String {
    let words = headings.iter().map(|(_, words)| words.chars().take(CHUNK_CHARS / 5).collect::<String>());
    words.filter(|words| !words.is_empty()).collect::<Vec<_>>().join(" > ")
}

/// The blocks of a section: what stands between blank lines, with fenced code in one.
fn blocks(text: &str, section: Range<usize>) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut open: Option<Range<usize>> = None;
    let mut fences = Fences::default();
    for (at, line) in lines(&text[section.clone()]) {
        let start = section.start + at;
        if !fences.inside(line) && line.trim().is_empty() {
            found.extend(open.take());
        } else if !line.trim().is_empty() {
            let end = start + line.trim_end().len();
            let first = start + (line.len() - line.trim_start().len());
            open = Some(open.map_or(first, |open| open.start)..end);
        }
    }
    found.extend(open);
    found
}
