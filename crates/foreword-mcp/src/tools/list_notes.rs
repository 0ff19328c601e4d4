//! `list_notes`: paths of notes by folder, tag and time of change, in pages.

use foreword_engine::vault::Listed;
use jiff::civil::Date;
use jiff::{Timestamp, ToSpan as _, Zoned};
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Definition, Effect, nullable, one_line, read};
use crate::notes::Notes;

pub(super) const DEFINITION: Definition = Definition {
    name: "list_notes",
    title: "List notes",
    description: "List notes of the user's vault by folder, by tag and by when they changed, with their size and tags. Sorted by path, or by \
                  the time of change if changed_since is given. Use search_notes to find notes by what they say.",
    arguments,
    required: &[],
    answer,
    effect: Effect::Reads,
    run,
};

/// Notes per page.
const USUAL: usize = 50;
const MOST: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    folder: Option<String>,
    tag: Option<String>,
    changed_since: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

fn arguments() -> Value {
    json!({
        "folder": {"type": "string", "description": "Only notes in this folder and below: `Kitchen`."},
        "tag": {"type": "string", "description": "Only notes with this tag or one below it: `baking` also finds `baking/bread`."},
        "changed_since": {"type": "string", "description": "Only notes changed since: a date (`2026-03-01`), a time in RFC 3339, or days ago (`7d`)."},
        "limit": {"type": "integer", "minimum": 1, "maximum": MOST, "description": format!("Notes per page; {USUAL} by default.")},
        "cursor": {"type": "string", "description": "The next_cursor of the page before, with the other arguments unchanged."},
    })
}

fn answer() -> Value {
    json!({
        "notes": {"type": "array", "items": {
            "type": "object",
            "required": ["path", "title", "bytes", "changed", "tags"],
            "properties": {
                "path": {"type": "string"}, "title": {"type": "string"}, "bytes": {"type": "integer"},
                "changed": {"type": "string", "format": "date-time"}, "tags": {"type": "array", "items": {"type": "string"}},
            },
        }},
        "total": {"type": "integer", "description": "All notes that fit, on all pages."},
        "next_cursor": nullable("string", "Where the next page begins."),
    })
}

fn run(notes: &Notes, arguments: JsonObject) -> Result<Answer, String> {
    let Arguments { folder, tag, changed_since, limit, cursor } = read(arguments)?;
    let folder = folder.map(|folder| folder.trim().trim_matches('/').to_owned()).filter(|folder| !folder.is_empty());
    let tag = tag.map(|tag| tag.trim().trim_start_matches('#').to_lowercase()).filter(|tag| !tag.is_empty());
    let since = changed_since.as_deref().map(|text| moment(text, &Notes::now())).transpose()?;
    let start: usize = match cursor.as_deref() {
        None => 0,
        Some(cursor) => cursor.parse().map_err(|_| format!("{:?} is not a cursor of this list", one_line(cursor)))?,
    };
    let corpus = notes.corpus()?;
    let fits = |listed: &&Listed| {
        let path = &listed.facts.path;
        let in_folder = folder.as_ref().is_none_or(|folder| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')));
        let tagged = tag.as_ref().is_none_or(|tag| listed.note.tags.iter().any(|own| is_below(&own.to_lowercase(), tag)));
        in_folder && tagged && since.is_none_or(|since| listed.facts.modified >= since.as_millisecond())
    };
    let mut found: Vec<&Listed> = corpus.vault().notes().filter(fits).collect();
    if since.is_some() {
        found.sort_by(|a, b| b.facts.modified.cmp(&a.facts.modified).then_with(|| a.facts.path.cmp(&b.facts.path)));
    }
    let total = found.len();
    let limit = limit.unwrap_or(USUAL).clamp(1, MOST);
    let page: Vec<&Listed> = found.into_iter().skip(start).take(limit).collect();
    let next = start.saturating_add(page.len());
    let next = (next < total && !page.is_empty()).then(|| next.to_string());

    let mut text = format!("{} of {total} notes", page.len());
    if let Some(next) = &next {
        text.extend(["; the next page has the cursor ", next]);
    }
    text.push('\n');
    let mut rows = Vec::new();
    for listed in page {
        let changed = changed(listed);
        text.extend([one_line(&listed.facts.path).as_str(), "  ", changed.get(..10).unwrap_or_default()]);
        for tag in listed.note.tags.iter().take(8) {
            text.extend([" #", &one_line(tag)]);
        }
        text.push('\n');
        rows.push(json!({
            "path": listed.facts.path, "title": listed.given_title().unwrap_or(&listed.title), "bytes": listed.facts.size,
            "changed": changed, "tags": listed.note.tags,
        }));
    }
    Ok(Answer { text, structured: json!({"notes": rows, "total": total, "next_cursor": next}) })
}

/// When a note was changed, as RFC 3339.
fn changed(listed: &Listed) -> String {
    Timestamp::from_millisecond(listed.facts.modified).unwrap_or_default().to_string()
}

/// Whether a tag is another one or below it. Both are in lower case.
fn is_below(tag: &str, above: &str) -> bool {
    tag.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The time that a text means.
fn moment(text: &str, now: &Zoned) -> Result<Timestamp, String> {
    let text = text.trim();
    let days = || text.strip_suffix('d')?.trim().parse::<i64>().ok().filter(|days| (0..=36_500).contains(days));
    let date = || -> Option<Timestamp> { Some(text.parse::<Date>().ok()?.to_zoned(now.time_zone().clone()).ok()?.timestamp()) };
    let ago = || Some(now.checked_sub(days()?.days()).ok()?.timestamp());
    let exact = || text.parse::<Timestamp>().ok();
    ago().or_else(exact).or_else(date).ok_or_else(|| {
        format!(
            "{:?} is not a time: use a date (2026-03-01), a time in RFC 3339 (2026-03-01T12:00:00Z) or days ago (7d)",
            one_line(text)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        let now: Zoned = "2026-03-10T12:00:00[UTC]".parse().unwrap();
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(moment(text, &now).ok().map(|time| time.to_string()).as_deref(), expect, "{text:?}");
        };
        check("7d", Some("2026-03-03T12:00:00Z"));
        check("2026-03-01", Some("2026-03-01T00:00:00Z"));
        check("2026-03-01T10:00:00+02:00", Some("2026-03-01T08:00:00Z"));
        check("yesterday", None);
        check("-1d", None);
        check("99999999999d", None);
        check("", None);
    }

    #[test]
    fn tags_below_a_tag() {
        assert!(is_below("baking", "baking") && is_below("baking/bread", "baking"));
        assert!(!is_below("bakingsoda", "baking") && !is_below("bak", "baking"));
    }
}
