//! Notes as resources, and the completion of their paths and tags.

use std::collections::BTreeSet;

use foreword_engine::vault::Vault;
use rmcp::ErrorData;
use rmcp::model::{
    CompletionInfo, ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource, ResourceContents,
    ResourceTemplate,
};

use crate::notes::Notes;

/// Resources per page.
const PAGE: usize = 200;

/// The largest note that is sent as a resource.
const MOST_BYTES: usize = 4 << 20;

const NOTE: &str = "note:///";
const TAG: &str = "tag:///";
const MARKDOWN: &str = "text/markdown";

/// The URI of a note.
fn uri(path: &str) -> String {
    let mut uri = NOTE.to_owned();
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => uri.push(char::from(byte)),
            _ => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                uri.extend(['%', char::from(DIGITS[usize::from(byte >> 4)]), char::from(DIGITS[usize::from(byte & 15)])]);
            }
        }
    }
    uri
}

/// The text behind a scheme, decoded.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            let value = digit(rest.next())? * 16 + digit(rest.next())?;
            bytes.push(u8::try_from(value).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// A page of notes, sorted by path. A cursor is the number of the first note of the page.
pub(crate) fn list(notes: &Notes, cursor: Option<&str>) -> Result<ListResourcesResult, ErrorData> {
    let wrong = || ErrorData::invalid_params("the cursor is not one of this list", None);
    let start: usize = cursor.map_or(Ok(0), str::parse).map_err(|_| wrong())?;
    let corpus = notes.corpus().map_err(|error| ErrorData::internal_error(error, None))?;
    let all = corpus.vault().notes();
    let total = all.len();
    let page = all.skip(start).take(PAGE).map(|listed| {
        let path = &listed.facts.path;
        let title = listed.given_title().unwrap_or(&listed.title);
        Resource::new(uri(path), path.clone()).with_title(title).with_mime_type(MARKDOWN).with_size(listed.facts.size)
    });
    let mut result = ListResourcesResult::with_all_items(page.collect());
    let end = start.saturating_add(PAGE);
    result.next_cursor = (end < total).then(|| end.to_string());
    Ok(result)
}

/// The resources that are named by a path or a tag.
pub(crate) fn templates() -> ListResourceTemplatesResult {
    let note = ResourceTemplate::new(format!("{NOTE}{{+path}}"), "note").with_title("A note").with_mime_type(MARKDOWN);
    let note = note.with_description("A note by its path in the vault, as it stands in its file.");
    let tag = ResourceTemplate::new(format!("{TAG}{{+tag}}"), "tag").with_title("Notes with a tag").with_mime_type(MARKDOWN);
    let tag = tag.with_description("A list of the notes with a tag.");
    ListResourceTemplatesResult::with_all_items(vec![note, tag])
}

/// The content of a note or of a tag's list.
pub(crate) fn read(notes: &Notes, wanted: &str) -> Result<ReadResourceResult, ErrorData> {
    let missing = || ErrorData::resource_not_found(format!("there is no resource {wanted:?}"), None);
    let corpus = notes.corpus().map_err(|error| ErrorData::internal_error(error, None))?;
    let text = if let Some(path) = wanted.strip_prefix(NOTE) {
        let path = decoded(path).ok_or_else(missing)?;
        // Only listed notes are read, so no path leads out of the vault.
        corpus.vault().get(&path).ok_or_else(missing)?;
        corpus.vault().read(&path).map_err(|error| ErrorData::internal_error(error.to_string(), None))?.text
    } else {
        let tag = wanted.strip_prefix(TAG).and_then(decoded).ok_or_else(missing)?.to_lowercase();
        let tagged = |listed: &&foreword_engine::vault::Listed| listed.note.tags.iter().any(|own| own.to_lowercase() == tag);
        let mut lines = String::new();
        for listed in corpus.vault().notes().filter(tagged) {
            lines.extend(["- [[", &listed.facts.path, "]]\n"]);
        }
        if lines.is_empty() {
            return Err(missing());
        }
        lines
    };
    if text.len() > MOST_BYTES {
        return Err(ErrorData::invalid_params(
            format!("{wanted:?} is too large for a resource; read_note reads it in pages"),
            None,
        ));
    }
    Ok(ReadResourceResult::new(vec![ResourceContents::text(text, wanted).with_mime_type(MARKDOWN)]))
}

/// Completes the variable of a resource template.
pub(crate) fn complete(notes: &Notes, template: &str, variable: &str, begun: &str) -> Result<CompletionInfo, ErrorData> {
    let corpus = notes.corpus().map_err(|error| ErrorData::internal_error(error, None))?;
    let names: BTreeSet<String> = match (template.split(':').next(), variable) {
        (Some("note"), "path") => paths(corpus.vault()),
        (Some("tag"), "tag") => corpus.vault().notes().flat_map(|listed| listed.note.tags.iter().cloned()).collect(),
        _ => return Err(ErrorData::invalid_params(format!("{template:?} has no variable {variable:?}"), None)),
    };
    Ok(fitting(names, begun))
}

fn paths(vault: &Vault) -> BTreeSet<String> {
    vault.notes().map(|listed| listed.facts.path.clone()).collect()
}

/// The names that fit, at most as many as the protocol allows: first those that begin with the text, or whose file name does, then
/// those that contain it.
fn fitting(names: BTreeSet<String>, begun: &str) -> CompletionInfo {
    let begun = begun.to_lowercase();
    let rank = |name: &String| {
        let name = name.to_lowercase();
        let last = name.rsplit('/').next().unwrap_or_default();
        match () {
            () if name.starts_with(&begun) => Some(0),
            () if last.starts_with(&begun) => Some(1),
            () if name.contains(&begun) => Some(2),
            () => None,
        }
    };
    let mut fitting: Vec<(u8, String)> = names.into_iter().filter_map(|name| Some((rank(&name)?, name))).collect();
    fitting.sort();
    let total = fitting.len();
    let values = fitting.into_iter().map(|(_, name)| name).take(CompletionInfo::MAX_VALUES).collect();
    let mut completion = CompletionInfo::default();
    completion.values = values;
    completion.total = u32::try_from(total).ok();
    completion.has_more = Some(total > CompletionInfo::MAX_VALUES);
    completion
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_lead_back_to_paths() {
        let check = |path: &str, expect: &str| {
            assert_eq!(uri(path), expect);
            assert_eq!(decoded(&expect[NOTE.len()..]).as_deref(), Some(path));
        };
        check("Kitchen/Bread.md", "note:///Kitchen/Bread.md");
        check("Küche/100 % Roggen#1?.md", "note:///K%C3%BCche/100%20%25%20Roggen%231%3F.md");
        for broken in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(decoded(broken), None, "{broken}");
        }
    }

    #[test]
    fn names_that_begin_come_first() {
        let names = ["Garden/Beds.md", "Beds.md", "Kitchen/Bread.md", "Old beds.md"].map(str::to_owned);
        let check = |begun: &str, expect: &[&str]| assert_eq!(fitting(names.clone().into(), begun).values, expect, "{begun}");
        check("bed", &["Beds.md", "Garden/Beds.md", "Old beds.md"]);
        check("kitchen/", &["Kitchen/Bread.md"]);
        check("x", &[]);
    }
}
