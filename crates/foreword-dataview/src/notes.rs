//! The notes as a query sees them: their fields, looked up when they are asked for and turned into values.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::cursor::{Cursor, is_emoji};
use super::items::item_field;
use super::syntax::RawLink;
use super::value::{Base, Link, MAX_DEPTH, Object, Value, file_name};
use super::{PageRef, Pages};
use foreword_markdown::note::{ListItem, Note, Part};

/// The notes, and which of them were read.
pub(super) struct Notes<'p> {
    pub(super) pages: &'p dyn Pages,
    pub(super) zone: TimeZone,
    read: RefCell<BTreeSet<String>>,
}

/// A field as it stands in a note.
enum Raw<'n> {
    Yaml(&'n serde_json::Value),
    Inline(&'n str),
}

impl<'p> Notes<'p> {
    pub(super) fn new(pages: &'p dyn Pages, zone: TimeZone) -> Self {
        Self { pages, zone, read: RefCell::default() }
    }

    /// The paths of all notes that were read so far, sorted.
    pub(super) fn read(&self) -> Vec<String> {
        self.read.borrow().iter().cloned().collect()
    }

    pub(super) fn page(&self, path: &str) -> Option<PageRef<'p>> {
        let page = self.pages.page(path)?;
        if !self.read.borrow().contains(path) {
            self.read.borrow_mut().insert(path.to_owned());
        }
        Some(page)
    }

    /// A link written in the note `from`, looked up.
    pub(super) fn link(&self, raw: &RawLink, from: &str) -> Link {
        let found = if raw.target.is_empty() { Some(from.to_owned()) } else { self.pages.resolve(&raw.target, from) };
        let path = found.unwrap_or_else(|| raw.target.clone());
        Link { path: path.into(), part: raw.part.clone(), text: raw.text.clone(), embed: raw.embed }
    }

    /// A field of what is at the base of an object; `None` where there is none of that name.
    pub(super) fn field(&self, base: &Base, name: &str) -> Option<Value> {
        match base {
            Base::Nothing => None,
            Base::Page(path) => self.page_field(path, name),
            Base::File(path) => self.file_field(path, name),
            Base::Item(path, at) => item_field(self, path, *at, name),
            Base::Task(path, at) => item_field(self, path, *at, name).or_else(|| self.page_field(path, name)),
        }
    }

    /// The names of the fields that a person gave what is at the base.
    pub(super) fn names(&self, base: &Base) -> Vec<Rc<str>> {
        let (Base::Page(path) | Base::Task(path, _)) = base else { return Vec::new() };
        let Some(page) = self.page(path) else { return Vec::new() };
        let mut names: Vec<Rc<str>> = vec![Rc::from("file")];
        for (key, _) in raw_fields(page.note) {
            if !names.iter().any(|name| **name == *key) {
                names.push(Rc::from(key));
            }
        }
        names
    }

    fn page_field(&self, path: &Rc<str>, name: &str) -> Option<Value> {
        let page = self.page(path)?;
        if name == "file" {
            return Some(Value::object(Base::File(path.clone())));
        }
        let exact = raw_fields(page.note).filter(|(key, _)| *key == name);
        let found = self.values(exact, path);
        found.or_else(|| self.values(raw_fields(page.note).filter(|(key, _)| canonical(key) == name), path))
    }

    /// The value of a field that may be given several times.
    fn values<'n>(&self, fields: impl Iterator<Item = (&'n str, Raw<'n>)>, path: &str) -> Option<Value> {
        let mut values: Vec<Value> = fields.map(|(_, raw)| self.value(&raw, path)).collect();
        if values.len() > 1 { Some(Value::flat_list(values)) } else { values.pop() }
    }

    fn value(&self, raw: &Raw, path: &str) -> Value {
        match raw {
            Raw::Yaml(value) => self.yaml_value(value, path, Typing::Guessed, 1),
            Raw::Inline(text) => self.inline_value(text, path),
        }
    }

    fn file_field(&self, path: &Rc<str>, name: &str) -> Option<Value> {
        let PageRef { facts, note } = self.page(path)?;
        let tags = || note.tags.iter().map(|tag| format!("#{tag}"));
        Some(match name {
            "name" => Value::text(file_name(path)),
            "path" => Value::Text(path.clone()),
            "folder" => Value::text(path.rsplit_once('/').map_or("", |(folder, _)| folder)),
            "ext" => Value::text(path.rsplit_once('.').map_or("", |(_, ext)| ext)),
            "link" => Value::link(Link::to(path.clone())),
            "size" => Value::Number(facts.size as f64),
            "ctime" => self.time(facts.created),
            "cday" => self.time(facts.created).without_time(),
            "mtime" => self.time(facts.modified),
            "mday" => self.time(facts.modified).without_time(),
            "etags" => Value::flat_list(tags().map(Value::text)),
            "tags" => Value::flat_list(with_parents(tags()).into_iter().map(Value::text)),
            "aliases" => Value::flat_list(note.aliases.iter().map(|alias| Value::text(alias.as_str()))),
            "inlinks" => Value::flat_list(self.pages.incoming(path).into_iter().map(|path| Value::link(Link::to(path)))),
            "outlinks" => self.outlinks(note, path),
            "lists" => items(path, note, |_| true),
            "tasks" => items(path, note, |item| item.status.is_some()),
            "frontmatter" => {
                let fields = note.frontmatter.fields.iter();
                let fields = fields.map(|(key, value)| (Rc::from(key.as_str()), self.yaml_value(value, path, Typing::Plain, 2)));
                Object::new(Base::Nothing, fields.collect()).map_or(Value::Null, |object| Value::Object(Rc::new(object)))
            }
            "day" => self.day(note, path)?,
            "starred" => false.into(),
            _ => return None,
        })
    }

    fn time(&self, millis: i64) -> Value {
        Timestamp::from_millisecond(millis).map_or(Value::Null, |time| Value::Date(self.zone.to_datetime(time)))
    }

    fn outlinks(&self, note: &Note, path: &str) -> Value {
        let mut seen = BTreeSet::new();
        let inside = note.links.iter().filter(|link| !is_address(&link.target));
        let links = inside.map(|link| {
            let part = link.part.as_ref().map(|part| match part {
                Part::Heading(chain) => chain.join("#"),
                Part::Block(id) => format!("^{id}"),
            });
            self.link(&RawLink { target: link.target.clone(), part, text: link.text.clone(), embed: link.embed }, path)
        });
        let distinct = links.filter(|link| seen.insert(link.markdown()));
        Value::flat_list(distinct.map(Value::link))
    }

    /// The day a note is about: its field `date` or `day`, or a date in its name.
    fn day(&self, note: &Note, path: &str) -> Option<Value> {
        for (_, raw) in raw_fields(note).filter(|(key, _)| key.eq_ignore_ascii_case("date") || key.eq_ignore_ascii_case("day")) {
            match self.value(&raw, path) {
                date @ Value::Date(_) => return Some(date),
                Value::List(list) => {
                    if let Some(date @ Value::Date(_)) = list.items.first() {
                        return Some(date.clone());
                    }
                }
                Value::Link(link) => {
                    let texts = [Some(&*link.path), link.part.as_deref(), link.text.as_deref()];
                    if let Some(date) = texts.into_iter().flatten().find_map(date_in) {
                        return Some(Value::Date(date));
                    }
                }
                _ => {}
            }
        }
        date_in(file_name(path)).map(Value::Date)
    }

    fn yaml_value(&self, value: &serde_json::Value, path: &str, typing: Typing, depth: u16) -> Value {
        use serde_json::Value as Json;
        match value {
            Json::Null => Value::Null,
            Json::Bool(truth) => (*truth).into(),
            Json::Number(number) => number.as_f64().map_or(Value::Null, Value::from),
            Json::String(text) => match typing {
                Typing::Plain => Value::text(text.as_str()),
                Typing::Guessed => self.yaml_text(text, path),
            },
            _ if depth >= MAX_DEPTH / 2 => Value::Null,
            Json::Array(items) => {
                let items = items.iter().map(|item| self.yaml_value(item, path, typing, depth + 1));
                Value::list(items.collect()).unwrap_or(Value::Null)
            }
            Json::Object(fields) => {
                let fields =
                    fields.iter().map(|(key, value)| (Rc::from(key.as_str()), self.yaml_value(value, path, typing, depth + 1)));
                Object::new(Base::Nothing, fields.collect()).map_or(Value::Null, |object| Value::Object(Rc::new(object)))
            }
        }
    }

    /// In frontmatter a text can be a date, a duration or a link; YAML has its own numbers and lists.
    fn yaml_text(&self, text: &str, path: &str) -> Value {
        let date = whole(text, |cursor| cursor.take_date(&self.zone)).map(Value::Date);
        let duration = || whole(text, Cursor::take_duration).map(Value::Duration);
        let link = || whole(text, Cursor::take_link).map(|link| Value::link(self.link(&link, path)));
        date.or_else(duration).or_else(link).unwrap_or_else(|| Value::text(text))
    }

    /// The value of `key:: value`: one thing or several with commas between them, or else the text as it is.
    pub(super) fn inline_value(&self, text: &str, path: &str) -> Value {
        let text = text.trim();
        if text.is_empty() {
            return Value::Null;
        }
        let read = |cursor: &mut Cursor| {
            let mut values = vec![self.inline_atom(cursor, path)?];
            let mut is_list = false;
            loop {
                cursor.skip_space();
                if cursor.is_at_end() {
                    break;
                }
                cursor.take(",").then_some(())?;
                is_list = true;
                cursor.skip_space();
                if cursor.is_at_end() {
                    break;
                }
                values.push(self.inline_atom(cursor, path)?);
            }
            if is_list { Some(Value::flat_list(values)) } else { values.pop() }
        };
        whole(text, read).unwrap_or_else(|| Value::text(text))
    }

    fn inline_atom(&self, cursor: &mut Cursor, path: &str) -> Option<Value> {
        if let Some(date) = cursor.take_date(&self.zone) {
            return Some(Value::Date(date));
        }
        if let Some(duration) = cursor.take_duration() {
            return Some(Value::Duration(duration));
        }
        if let Some(text) = cursor.take_string() {
            return Some(Value::text(text));
        }
        if let Some(tag) = cursor.take_tag() {
            return Some(Value::text(format!("#{tag}")));
        }
        if let Some(link) = cursor.take_link() {
            return Some(Value::link(self.link(&link, path)));
        }
        if let Some(number) = cursor.take_number() {
            return Some(number.into());
        }
        match cursor.take_name()? {
            "true" | "True" => Some(true.into()),
            "false" | "False" => Some(false.into()),
            "null" => Some(Value::Null),
            _ => None,
        }
    }
}

/// Whether texts are looked at for what they could mean.
#[derive(Clone, Copy)]
enum Typing {
    Plain,
    Guessed,
}

impl Value {
    pub(super) fn without_time(self) -> Self {
        match self {
            Self::Date(date) => Self::Date(date.date().at(0, 0, 0, 0)),
            other => other,
        }
    }
}

/// What `read` finds, if that is the whole text.
fn whole<'t, T>(text: &'t str, read: impl FnOnce(&mut Cursor<'t>) -> Option<T>) -> Option<T> {
    let mut cursor = Cursor::new(text);
    read(&mut cursor).filter(|_| cursor.is_at_end())
}

/// The fields of a note in Dataview's order; those of list items that are no tasks belong to the note too.
fn raw_fields(note: &Note) -> impl Iterator<Item = (&str, Raw<'_>)> {
    let front = note.frontmatter.fields.iter().map(|(key, value)| (key.as_str(), Raw::Yaml(value)));
    let items = note.items.iter().filter(|item| item.status.is_none()).flat_map(|item| &item.fields);
    front.chain(items.chain(&note.fields).map(|field| (field.key.as_str(), Raw::Inline(field.value.as_str()))))
}

fn items(path: &Rc<str>, note: &Note, wanted: impl Fn(&ListItem) -> bool) -> Value {
    let places = note.items.iter().enumerate().filter(|(_, item)| wanted(item));
    Value::flat_list(places.map(|(at, _)| Value::object(Base::Item(path.clone(), at))))
}

/// `#a/b` is also `#a`.
fn with_parents(tags: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for tag in tags {
        let ends = tag.rmatch_indices('/').map(|(at, _)| at).collect::<Vec<_>>();
        for end in std::iter::once(tag.len()).chain(ends) {
            if seen.insert(tag[..end].to_lowercase()) {
                all.push(tag[..end].to_owned());
            }
        }
    }
    all
}

/// A field's name as it can be written in a query: lower case, `-` for spaces, nothing but letters, digits and emoji.
pub(super) fn canonical(key: &str) -> String {
    let mut name = String::with_capacity(key.len());
    for c in key.trim().chars() {
        if c.is_whitespace() {
            if !name.ends_with('-') {
                name.push('-');
            }
        } else if c.is_alphanumeric() || c == '_' || c == '-' {
            name.extend(c.to_lowercase());
        } else if is_emoji(c) {
            name.push(c);
        }
    }
    name
}

/// `2025-09-01` or `20250901`, anywhere in the text.
fn date_in(text: &str) -> Option<DateTime> {
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let date = |year: &str, month: &str, day: &str| {
        let is_date = digits(year) && digits(month) && digits(day);
        let date = is_date.then(|| Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?).ok())?;
        date.map(|date| date.at(0, 0, 0, 0))
    };
    text.char_indices().find_map(|(at, _)| {
        let dashed = text.get(at..at + 10).filter(|part| part.is_ascii() && &part[4..5] == "-" && &part[7..8] == "-");
        let dashed = dashed.and_then(|part| date(&part[..4], &part[5..7], &part[8..]));
        let plain =
            || text.get(at..at + 8).filter(|part| part.is_ascii()).and_then(|part| date(&part[..4], &part[4..6], &part[6..]));
        dashed.or_else(plain)
    })
}

/// Whether a link leads out of the vault.
fn is_address(target: &str) -> bool {
    target.split_once(':').is_some_and(|(scheme, _)| scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_names() {
        for (key, expect) in [
            ("Due Date", "due-date"),
            ("  a   b ", "a-b"),
            ("**Bold** key!", "bold-key"),
            ("snake_Case-2", "snake_case-2"),
            ("Größe", "größe"),
            ("📅 When", "📅-when"),
            ("!?", ""),
        ] {
            assert_eq!(canonical(key), expect, "{key}");
        }
    }

    #[test]
    fn dates_in_names() {
        for (name, expect) in [
            ("2025-09-01", Some("2025-09-01T00:00:00")),
            ("Daily 20250901 b", Some("2025-09-01T00:00:00")),
            ("ünï 2025-09-01", Some("2025-09-01T00:00:00")),
            ("2025-13-01", None),
            ("2025-09", None),
            ("日本2025年", None),
        ] {
            assert_eq!(date_in(name).map(|date| date.to_string()).as_deref(), expect, "{name}");
        }
    }
}
