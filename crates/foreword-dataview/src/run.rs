//! A query from its notes to its answer: rows go through the commands in the order they are written.

use std::rc::Rc;

use jiff::Zoned;

use super::evaluate::{self, Eval, Evaluator, Fault, Scope, fault, place};
use super::render;
use super::source;
use super::syntax::{Command, Direction, Expr, Id, Named, Output, Query};
use super::value::{Base, Link, Object, Value};
use super::{Answer, Limit, Pages, Unanswered};

/// A row: what it is called, and its fields.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) id: Value,
    pub(super) data: Rc<Object>,
}

/// The rows, and by what they are grouped: names of the groups, the last command's last.
struct Rows {
    rows: Vec<Row>,
    groups: Vec<Rc<str>>,
}

pub(super) fn run(query: &Query, this: &str, pages: &dyn Pages, now: &Zoned, limit: Limit) -> Result<Answer, Unanswered> {
    let evaluator = Evaluator::new(this, pages, now, limit);
    match answer(&evaluator, query) {
        Ok(markdown) => Ok(Answer { markdown, read: evaluator.notes.read() }),
        Err(Fault::Row(why)) => Err(Unanswered::Failed { why }),
        Err(Fault::Stop(unanswered)) => Err(unanswered),
    }
}

fn answer(evaluator: &Evaluator, query: &Query) -> Eval<String> {
    let mut all = Rows { rows: first_rows(evaluator, query)?, groups: Vec::new() };
    for command in &query.commands {
        all = all.after(evaluator, command)?;
    }
    let Rows { rows, groups } = all;
    match &query.output {
        Output::Task => render::tasks(evaluator, &rows, groups.len()),
        Output::List { id, value } => {
            let rows = each(evaluator, rows, "LIST", |row| {
                let value = value.as_ref().map(|value| evaluator.eval(value, &Scope::of(&row.data))).transpose()?;
                let id = (*id == Id::Shown || value.is_none()).then(|| row.id.clone());
                Ok((id, value))
            })?;
            render::list(evaluator, &rows)
        }
        Output::Table { id, columns } => {
            let first = (*id == Id::Shown).then(|| groups.last().cloned().unwrap_or_else(|| Rc::from("File")));
            let names: Vec<Rc<str>> = first.into_iter().chain(columns.iter().map(|column| column.name.clone())).collect();
            let rows = each(evaluator, rows, "TABLE", |row| {
                let first = (*id == Id::Shown).then(|| Ok(row.id.clone()));
                let values = columns.iter().map(|column| evaluator.eval(&column.expr, &Scope::of(&row.data)));
                first.into_iter().chain(values).collect::<Eval<Vec<_>>>()
            })?;
            render::table(evaluator, &names, &rows)
        }
    }
}

fn first_rows(evaluator: &Evaluator, query: &Query) -> Eval<Vec<Row>> {
    let mut rows = Vec::new();
    for path in source::paths(evaluator, query.source.as_ref())? {
        let Some(page) = evaluator.notes.page(path) else { continue };
        let path: Rc<str> = Rc::from(path);
        let id = Value::link(Link::to(path.clone()));
        if let Output::Task = query.output {
            for (at, _) in page.note.items.iter().enumerate().filter(|(_, item)| item.status.is_some()) {
                rows.push(Row { id: id.clone(), data: Rc::new(Object::of(Base::Task(path.clone(), at))) });
            }
        } else {
            rows.push(Row { id, data: Rc::new(Object::of(Base::Page(path))) });
        }
        bound(evaluator, &rows)?;
    }
    Ok(rows)
}

fn bound(evaluator: &Evaluator, rows: &[Row]) -> Eval<()> {
    evaluator.spend(1)?;
    if rows.len() <= evaluator.limit.rows {
        return Ok(());
    }
    fault(format!("there are more than {} rows; ask for fewer notes with FROM or LIMIT", evaluator.limit.rows))
}

/// Puts each row through `change`. A row with a fault is left out; if all have one, the first is told.
fn each<T>(evaluator: &Evaluator, rows: Vec<Row>, command: &str, change: impl Fn(&Row) -> Eval<T>) -> Eval<Vec<T>> {
    let mut changed = Vec::with_capacity(rows.len());
    let mut first_fault = None;
    for row in rows {
        evaluator.spend(1)?;
        match change(&row) {
            Ok(value) => changed.push(value),
            Err(Fault::Row(why)) => first_fault = first_fault.or(Some(why)),
            Err(stop) => return Err(stop),
        }
    }
    match first_fault {
        Some(why) if changed.is_empty() => fault(format!("{command} fits none of the rows: {why}")),
        _ => Ok(changed),
    }
}

impl Rows {
    fn after(self, evaluator: &Evaluator, command: &Command) -> Eval<Self> {
        let Self { rows, mut groups } = self;
        let rows = match command {
            Command::Where(condition) => {
                let kept = each(evaluator, rows, "WHERE", |row| {
                    Ok(evaluator.eval(condition, &Scope::of(&row.data))?.is_true().then(|| row.clone()))
                })?;
                kept.into_iter().flatten().collect()
            }
            Command::Sort(keys) => sort(evaluator, rows, keys)?,
            Command::Limit(amount) => limit(evaluator, rows, amount)?,
            Command::Flatten(named) => {
                if groups.last() == Some(&named.name) {
                    groups.pop();
                }
                flatten(evaluator, rows, named)?
            }
            Command::Group(named) => {
                groups.push(named.name.clone());
                group(evaluator, rows, named)?
            }
        };
        Ok(Self { rows, groups })
    }
}

fn sort(evaluator: &Evaluator, rows: Vec<Row>, keys: &[(Expr, Direction)]) -> Eval<Vec<Row>> {
    let keyed = each(evaluator, rows, "SORT", |row| {
        let values = keys.iter().map(|(key, _)| evaluator.eval(key, &Scope::of(&row.data)));
        Ok((values.collect::<Eval<Vec<_>>>()?, row.clone()))
    })?;
    let sorted = evaluate::sort(keyed, &|(a, _), (b, _)| {
        for ((a, b), (_, direction)) in a.iter().zip(b).zip(keys) {
            let order = evaluator.compare(a, b)?;
            if order.is_ne() {
                return Ok(if *direction == Direction::Up { order } else { order.reverse() });
            }
        }
        Ok(std::cmp::Ordering::Equal)
    })?;
    Ok(sorted.into_iter().map(|(_, row)| row).collect())
}

fn limit(evaluator: &Evaluator, mut rows: Vec<Row>, amount: &Expr) -> Eval<Vec<Row>> {
    match evaluator.eval(amount, &Scope::of(&Object::of(Base::Nothing)))? {
        Value::Number(number) => {
            rows.truncate(place(number.trunc()).unwrap_or(0));
            Ok(rows)
        }
        other => fault(format!("LIMIT takes a number, not a value of type {}", other.kind())),
    }
}

fn flatten(evaluator: &Evaluator, rows: Vec<Row>, named: &Named) -> Eval<Vec<Row>> {
    let valued = each(evaluator, rows, "FLATTEN", |row| {
        let values = match evaluator.eval(&named.expr, &Scope::of(&row.data))? {
            Value::List(list) => list.items.clone(),
            value => vec![value],
        };
        Ok((row.clone(), values))
    })?;
    let mut flat = Vec::with_capacity(valued.len());
    for (row, values) in valued {
        for value in values {
            evaluator.spend(row.data.added.len())?;
            flat.push(Row { id: row.id.clone(), data: Rc::new(row.data.with(&named.name, value)?) });
            bound(evaluator, &flat)?;
        }
    }
    Ok(flat)
}

fn group(evaluator: &Evaluator, rows: Vec<Row>, named: &Named) -> Eval<Vec<Row>> {
    let keyed = each(evaluator, rows, "GROUP BY", |row| Ok((evaluator.eval(&named.expr, &Scope::of(&row.data))?, row.clone())))?;
    let sorted = evaluate::sort(keyed, &|(a, _), (b, _)| evaluator.compare(a, b))?;
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    for (key, row) in sorted {
        let row = Value::Object(row.data);
        match groups.last_mut() {
            Some((last, rows)) if evaluator.compare(last, &key)?.is_eq() => rows.push(row),
            _ => groups.push((key, vec![row])),
        }
    }
    let rows = groups.into_iter().map(|(key, rows)| {
        let mut fields = vec![(Rc::from("key"), key.clone()), (Rc::from("rows"), Value::list(rows)?)];
        if !matches!(&*named.name, "key" | "rows") {
            fields.push((named.name.clone(), key.clone()));
        }
        Ok(Row { id: key, data: Rc::new(Object::new(Base::Nothing, fields)?) })
    });
    rows.collect()
}
