//! Values and rows as markdown. Dates are written the ISO way, which a model reads without doubt; links as wikilinks with their path.

use std::fmt::Write;
use std::rc::Rc;

use jiff::civil::DateTime;

use super::evaluate::{Eval, Evaluator, MAX_TEXT, fault};
use super::items::descendants;
use super::run::Row;
use super::value::{Base, Link, Object, Value};
use foreword_markdown::note::ListItem;

const NOTHING_FOUND: &str = "No results.\n";

/// A value in one line of text, as `string(…)` makes it.
pub(super) fn text(evaluator: &Evaluator, value: &Value) -> Eval<String> {
    let mut out = String::new();
    write(evaluator, value, Nesting::Outside, &mut out)?;
    Ok(out)
}

/// Lists inside others have brackets.
#[derive(Clone, Copy, PartialEq)]
enum Nesting {
    Outside,
    Inside,
}

fn write(evaluator: &Evaluator, value: &Value, place: Nesting, out: &mut String) -> Eval<()> {
    let before = out.len();
    match value {
        Value::Null => out.push('-'),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number_text(*number)),
        Value::Text(text) => out.push_str(text),
        Value::Date(date) => out.push_str(&date_text(*date)),
        Value::Duration(span) => out.push_str(&span.text()),
        Value::Link(link) => out.push_str(&link.markdown()),
        Value::List(list) => {
            let (open, close) = if place == Nesting::Inside { ("[", "]") } else { ("", "") };
            out.push_str(open);
            for (at, item) in list.items.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                write(evaluator, item, Nesting::Inside, out)?;
            }
            out.push_str(close);
        }
        Value::Object(object) => write_object(evaluator, object, out)?,
    }
    evaluator.spend(1 + out.len().saturating_sub(before) / 64)?;
    if out.len() > MAX_TEXT { fault(format!("a text of more than {MAX_TEXT} bytes")) } else { Ok(()) }
}

/// A note is shown as its link and a task as its text; other objects field by field.
fn write_object(evaluator: &Evaluator, object: &Object, out: &mut String) -> Eval<()> {
    match &object.base {
        Base::Page(path) | Base::File(path) => out.push_str(&Link::to(path.clone()).markdown()),
        Base::Item(path, at) | Base::Task(path, at) => {
            let item = evaluator.notes.page(path).and_then(|page| page.note.items.get(*at));
            out.push_str(&item.map(item_text).unwrap_or_default());
        }
        Base::Nothing => {
            out.push_str("{ ");
            for (at, (name, value)) in object.added.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                out.push_str(name);
                out.push_str(": ");
                write(evaluator, value, Nesting::Inside, out)?;
            }
            out.push_str(" }");
        }
    }
    Ok(())
}

fn item_text(item: &ListItem) -> String {
    let text = item.text.split_whitespace().collect::<Vec<_>>().join(" ");
    match item.status {
        Some(status) => format!("[{status}] {text}"),
        None => text,
    }
}

/// As JavaScript writes numbers.
pub(super) fn number_text(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let number = if number == 0.0 { 0.0 } else { number };
    number.to_string()
}

fn date_text(date: DateTime) -> String {
    if date.time() == jiff::civil::Time::midnight() {
        date.date().to_string()
    } else {
        date.strftime("%Y-%m-%d %H:%M").to_string()
    }
}

/// Markdown up to a limit.
struct Page<'e, 'p> {
    evaluator: &'e Evaluator<'p>,
    out: String,
    left_out: usize,
}

impl<'e, 'p> Page<'e, 'p> {
    fn new(evaluator: &'e Evaluator<'p>) -> Self {
        Self { evaluator, out: String::new(), left_out: 0 }
    }

    /// Adds what stands for one row, if there is room; once one does not fit, none does.
    fn add(&mut self, part: &str) -> Eval<()> {
        self.evaluator.spend(1 + part.len() / 16)?;
        if self.left_out > 0 || self.out.len() + part.len() > self.evaluator.limit.bytes {
            self.left_out += 1;
        } else {
            self.out.push_str(part);
        }
        Ok(())
    }

    fn end(mut self) -> String {
        if self.left_out > 0 {
            // Writing to a string cannot fail.
            let _ = writeln!(self.out, "\n({} more left out: the answer is too long.)", self.left_out);
        }
        self.out
    }
}

/// Rows of `LIST`: a name, a value, or both.
pub(super) fn list(evaluator: &Evaluator, rows: &[(Option<Value>, Option<Value>)]) -> Eval<String> {
    if rows.is_empty() {
        return Ok(NOTHING_FOUND.to_owned());
    }
    let mut page = Page::new(evaluator);
    for (id, value) in rows {
        let mut part = String::from("-");
        if let Some(id) = id {
            part.push(' ');
            part.push_str(&one_line(&text(evaluator, id)?));
        }
        match value {
            Some(Value::List(items)) if !items.items.is_empty() => {
                part.push_str(if id.is_some() { ":\n" } else { "\n" });
                bullets(evaluator, &items.items, 1, &mut part)?;
            }
            Some(value) => {
                part.push_str(if id.is_some() { ": " } else { " " });
                part.push_str(&or_dash(one_line(&text(evaluator, value)?)));
                part.push('\n');
            }
            None => part.push('\n'),
        }
        page.add(&part)?;
    }
    Ok(page.end())
}

fn bullets(evaluator: &Evaluator, items: &[Value], depth: usize, out: &mut String) -> Eval<()> {
    for item in items {
        evaluator.spend(1)?;
        let indent = "    ".repeat(depth);
        match item {
            Value::List(list) if !list.items.is_empty() => {
                let _ = writeln!(out, "{indent}-");
                bullets(evaluator, &list.items, depth + 1, out)?;
            }
            _ => {
                let line = or_dash(one_line(&text(evaluator, item)?));
                let _ = writeln!(out, "{indent}- {line}");
            }
        }
        if out.len() > MAX_TEXT {
            return fault(format!("a text of more than {MAX_TEXT} bytes"));
        }
    }
    Ok(())
}

/// Rows of `TABLE`. Cells are not padded: that would cost tokens and tell nothing.
pub(super) fn table(evaluator: &Evaluator, names: &[Rc<str>], rows: &[Vec<Value>]) -> Eval<String> {
    if rows.is_empty() || names.is_empty() {
        return Ok(NOTHING_FOUND.to_owned());
    }
    let mut page = Page::new(evaluator);
    let head: Vec<String> = names.iter().map(|name| cell(name)).collect();
    page.add(&format!("| {} |\n|{}\n", head.join(" | "), " --- |".repeat(names.len())))?;
    for row in rows {
        let cells = row.iter().map(|value| Ok(or_dash(cell(&text(evaluator, value)?)))).collect::<Eval<Vec<_>>>()?;
        page.add(&format!("| {} |\n", cells.join(" | ")))?;
    }
    Ok(page.end())
}

fn cell(text: &str) -> String {
    let mut cell = String::with_capacity(text.len());
    let mut before = ' ';
    for c in text.trim().chars() {
        match c {
            '|' if before != '\\' => cell.push_str("\\|"),
            '\n' => cell.push_str("<br>"),
            _ => cell.push(c),
        }
        before = c;
    }
    cell
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

/// Rows of `TASK`, under their groups, or under their notes where they are not grouped.
pub(super) fn tasks(evaluator: &Evaluator, rows: &[Row], groups: usize) -> Eval<String> {
    if rows.is_empty() {
        return Ok(NOTHING_FOUND.to_owned());
    }
    let mut page = Page::new(evaluator);
    let data: Vec<&Object> = rows.iter().map(|row| &*row.data).collect();
    task_group(&mut page, &data, groups, "")?;
    Ok(page.end())
}

fn task_group(page: &mut Page, rows: &[&Object], groups: usize, above: &str) -> Eval<()> {
    let field = |row: &Object, name: &str| row.added.iter().find(|(key, _)| **key == *name).map(|(_, value)| value.clone());
    if groups == 0 {
        return task_list(page, rows, above.is_empty());
    }
    for row in rows {
        let key = one_line(&text(page.evaluator, &field(row, "key").unwrap_or(Value::Null))?);
        let head = if above.is_empty() { key } else { format!("{above} / {key}") };
        let Some(Value::List(inner)) = field(row, "rows") else { continue };
        let inner: Vec<&Object> =
            inner.items.iter().filter_map(|row| if let Value::Object(row) = row { Some(&**row) } else { None }).collect();
        if groups == 1 {
            let space = if page.out.is_empty() { "" } else { "\n" };
            page.add(&format!("{space}{head}\n\n"))?;
        }
        task_group(page, &inner, groups - 1, &head)?;
    }
    Ok(())
}

/// A task comes with all that is nested in it, and is not repeated where it is nested in another.
fn task_list(page: &mut Page, rows: &[&Object], is_under_notes: bool) -> Eval<()> {
    let places = rows.iter().filter_map(|row| match &row.base {
        Base::Task(path, at) | Base::Item(path, at) => Some((path, *at)),
        _ => None,
    });
    let places: Vec<(&Rc<str>, usize)> = places.collect();
    let wanted: std::collections::BTreeSet<_> = places.iter().copied().collect();
    let mut last = None;
    for (path, at) in places {
        let Some(note) = page.evaluator.notes.page(path).map(|page| page.note) else { continue };
        let Some(item) = note.items.get(at) else { continue };
        let mut above = item.parent.map(|parent| parent as usize).filter(|parent| *parent < at);
        while let Some(parent) = above.filter(|parent| !wanted.contains(&(path, *parent))) {
            page.evaluator.spend(1)?;
            above = note.items.get(parent).and_then(|item| item.parent).map(|next| next as usize).filter(|next| *next < parent);
        }
        if above.is_some() {
            continue;
        }
        if is_under_notes && last != Some(path) {
            let space = if page.out.is_empty() { "" } else { "\n" };
            page.add(&format!("{space}{}\n\n", Link::to(path.clone()).markdown()))?;
            last = Some(path);
        }
        page.add(&format!("- {}\n", item_text(item)))?;
        let mut parents = vec![at];
        for (below, item) in descendants(note, at) {
            while parents.last().is_some_and(|last| item.parent.is_none_or(|parent| parent as usize != *last))
                && parents.len() > 1
            {
                parents.pop();
            }
            let indent = "    ".repeat(parents.len().min(16));
            page.add(&format!("{indent}- {}\n", item_text(item)))?;
            parents.push(below);
        }
    }
    Ok(())
}
