//! The fields of list items and tasks.

use std::rc::Rc;

use jiff::tz::TimeZone;

use super::PageRef;
use super::cursor::Cursor;
use super::notes::{Notes, canonical};
use super::value::{Base, Link, Value, count};
use foreword_markdown::note::{ListItem, Note};

/// A field of the item at a place; `None` where there is none of that name.
pub(super) fn item_field(notes: &Notes, path: &Rc<str>, at: usize, name: &str) -> Option<Value> {
    let PageRef { note, .. } = notes.page(path)?;
    let item = note.items.get(at)?;
    let is_task = item.status.is_some();
    Some(match name {
        "text" => Value::text(item.text.as_str()),
        "line" => line(item),
        "lineCount" => count(item.text.lines().count().max(1)),
        "path" => Value::Text(path.clone()),
        "task" | "real" => is_task.into(),
        "tags" => Value::flat_list(item.tags.iter().map(|tag| Value::text(format!("#{tag}")))),
        "section" | "header" => Value::link(section(note, item, path)),
        "link" => Value::link(match &item.block {
            Some(id) => Link { part: Some(format!("^{id}")), ..Link::to(path.clone()) },
            None => section(note, item, path),
        }),
        "outlinks" => outlinks(notes, item, path),
        "annotated" => (!item.fields.is_empty() || SHORTHANDS.iter().any(|(key, _)| shorthand(item, key).is_some())).into(),
        "parent" => line(note.items.get(item.parent? as usize)?),
        "blockId" => Value::text(item.block.as_deref()?),
        "children" | "subtasks" => {
            let children = descendants(note, at).filter(|(_, child)| child.parent.is_some_and(|parent| parent as usize == at));
            Value::flat_list(children.map(|(at, _)| Value::object(Base::Item(path.clone(), at))))
        }
        "status" => Value::text(item.status?.to_string()),
        "checked" => (item.status? != ' ').into(),
        "completed" if is_task => is_done(item).into(),
        "fullyCompleted" if is_task => {
            let tasks = descendants(note, at).filter(|(_, item)| item.status.is_some()).all(|(_, item)| is_done(item));
            (is_done(item) && tasks).into()
        }
        _ => {
            let aliases = ALIASES.iter().find(|(key, _)| is_task && *key == name).map_or(&[] as &[&str], |(_, aliases)| aliases);
            let own = written(notes, item, path, name);
            return own.or_else(|| aliases.iter().find_map(|alias| written(notes, item, path, alias)));
        }
    })
}

/// Other keys under which people write a task's dates.
const ALIASES: &[(&str, &[&str])] =
    &[("created", &["ctime", "cday"]), ("due", &["duetime", "dueday"]), ("completion", &["completed", "comptime", "compday"])];

/// Emoji before a date, and the field they stand for.
const SHORTHANDS: &[(&str, &[char])] = &[
    ("created", &['➕']),
    ("start", &['🛫']),
    ("scheduled", &['⏳', '⌛']),
    ("due", &['📅', '📆', '🗓']),
    ("completion", &['✅']),
];

/// The items nested in the one at a place, at any depth. They stand right behind it.
pub(super) fn descendants(note: &Note, at: usize) -> impl Iterator<Item = (usize, &ListItem)> {
    let behind = note.items.iter().enumerate().skip(at + 1);
    behind.take_while(move |(_, item)| item.parent.is_some_and(|parent| parent as usize >= at))
}

/// What people wrote in the item under a key.
fn written(notes: &Notes, item: &ListItem, path: &str, name: &str) -> Option<Value> {
    let of = |wanted: &dyn Fn(&str) -> bool| {
        let fields = item.fields.iter().filter(|field| wanted(&field.key));
        let mut values: Vec<Value> = fields.map(|field| notes.inline_value(&field.value, path)).collect();
        if values.len() > 1 { Some(Value::flat_list(values)) } else { values.pop() }
    };
    let found = of(&|key| key == name).or_else(|| of(&|key| canonical(key) == name));
    found.or_else(|| Some(notes.inline_value(shorthand(item, name)?, path)))
}

/// The date behind an emoji.
fn shorthand<'i>(item: &'i ListItem, name: &str) -> Option<&'i str> {
    let (_, signs) = SHORTHANDS.iter().find(|(key, _)| *key == name)?;
    item.text.match_indices(*signs).find_map(|(at, sign)| {
        let behind = item.text[at + sign.len()..].trim_start_matches('\u{FE0F}').trim_start();
        let date = behind.get(..10)?;
        Cursor::new(date).take_date(&TimeZone::UTC)?;
        Some(date)
    })
}

fn line(item: &ListItem) -> Value {
    // Dataview counts lines from 0.
    Value::Number(f64::from(item.line.saturating_sub(1)))
}

pub(super) fn is_done(item: &ListItem) -> bool {
    matches!(item.status, Some('x' | 'X'))
}

fn section(note: &Note, item: &ListItem, path: &Rc<str>) -> Link {
    let heading = item.heading.and_then(|heading| note.headings.get(heading as usize));
    Link { part: heading.map(|heading| heading.text.clone()), ..Link::to(path.clone()) }
}

fn outlinks(notes: &Notes, item: &ListItem, path: &str) -> Value {
    let starts = item.text.match_indices("[[");
    let links = starts.filter_map(|(at, _)| Cursor::new(&item.text[at..]).take_link());
    Value::flat_list(links.map(|link| Value::link(notes.link(&link, path))))
}
