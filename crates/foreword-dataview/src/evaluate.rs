//! Expressions over rows. A fault in one row leaves that row out, as in Dataview; a fault of the whole query stops it.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use jiff::civil::DateTime;
use jiff::{ToSpan, Zoned};

use super::functions;
use super::notes::Notes;
use super::operators::apply;
use super::pattern::Pattern;
use super::syntax::{Expr, Lambda, Moment, Op};
use super::value::{Base, Object, TooDeep, Value};
use super::{Limit, Pages, Unanswered};

/// No text gets longer than this.
pub(super) const MAX_TEXT: usize = 1 << 20;

/// Why an expression has no value.
#[derive(Debug)]
pub(super) enum Fault {
    /// It does not fit this row.
    Row(String),
    /// The query as a whole cannot go on.
    Stop(Unanswered),
}

pub(super) type Eval<T = Value> = Result<T, Fault>;

impl From<TooDeep> for Fault {
    fn from(_: TooDeep) -> Self {
        Self::Row("the value is nested too deep".to_owned())
    }
}

pub(super) fn fault<T>(why: impl Into<String>) -> Eval<T> {
    Err(Fault::Row(why.into()))
}

pub(super) struct Evaluator<'p> {
    pub(super) notes: Notes<'p>,
    pub(super) this: Rc<str>,
    pub(super) limit: Limit,
    pub(super) patterns: RefCell<BTreeMap<String, Rc<Pattern>>>,
    now: DateTime,
    started: Instant,
    steps: Cell<u64>,
}

/// What the names in an expression mean: parameters of lambdas first, then the fields of the row.
#[derive(Clone, Copy)]
pub(super) struct Scope<'s> {
    row: &'s Object,
    local: Option<Local<'s>>,
}

#[derive(Clone, Copy)]
struct Local<'s> {
    name: &'s str,
    value: &'s Value,
    outer: Option<&'s Local<'s>>,
}

impl<'s> Scope<'s> {
    pub(super) fn of(row: &'s Object) -> Self {
        Self { row, local: None }
    }

    fn local(&self, name: &str) -> Option<Value> {
        let mut next = self.local.as_ref();
        while let Some(local) = next {
            if local.name == name {
                return Some(local.value.clone());
            }
            next = local.outer;
        }
        None
    }
}

impl<'p> Evaluator<'p> {
    pub(super) fn new(this: &str, pages: &'p dyn Pages, now: &Zoned, limit: Limit) -> Self {
        Self {
            notes: Notes::new(pages, now.time_zone().clone()),
            this: Rc::from(this),
            limit,
            patterns: RefCell::default(),
            now: now.datetime(),
            started: Instant::now(),
            steps: Cell::new(0),
        }
    }

    /// Counts steps, and now and then looks at the clock.
    pub(super) fn spend(&self, steps: usize) -> Eval<()> {
        const BETWEEN_LOOKS: u64 = 64;
        let before = self.steps.get();
        let after = before.saturating_add(steps as u64);
        self.steps.set(after);
        if after > self.limit.steps {
            let why = format!("it takes more than {} steps; ask for fewer notes with FROM or LIMIT", self.limit.steps);
            return Err(Fault::Stop(Unanswered::Failed { why }));
        }
        if before / BETWEEN_LOOKS != after / BETWEEN_LOOKS && self.started.elapsed() > self.limit.time {
            return Err(Fault::Stop(Unanswered::TimedOut { time: self.limit.time }));
        }
        Ok(())
    }

    /// A new text, if it is not too long.
    pub(super) fn new_text(&self, text: String) -> Eval {
        self.spend(1 + text.len() / 16)?;
        if text.len() > MAX_TEXT {
            return fault(format!("a text of more than {MAX_TEXT} bytes"));
        }
        Ok(Value::text(text))
    }

    /// A new list, if it is not too long.
    pub(super) fn new_list(&self, items: Vec<Value>) -> Eval {
        self.spend(1 + items.len())?;
        if items.len() > self.limit.rows {
            return fault(format!("a list of more than {} values", self.limit.rows));
        }
        Ok(Value::list(items)?)
    }

    pub(super) fn eval(&self, expr: &Expr, scope: &Scope) -> Eval {
        self.spend(1)?;
        match expr {
            Expr::Literal(value) => Ok(value.clone()),
            Expr::Moment(moment) => self.moment(*moment).map(Value::Date),
            Expr::Link(raw) => Ok(Value::link(self.notes.link(raw, &self.this))),
            Expr::Variable(name) => Ok(self.variable(name, scope)),
            Expr::Not(inner) => Ok((!self.eval(inner, scope)?.is_true()).into()),
            Expr::Chain(first, rest) => self.chain(first, rest, scope),
            Expr::Path(base, steps) => self.path(base, steps, scope),
            Expr::List(items) => self.new_list(self.eval_all(items, scope)?),
            Expr::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| Ok((name.clone(), self.eval(value, scope)?)));
                let fields = fields.collect::<Eval<Vec<_>>>()?;
                Ok(Value::Object(Rc::new(Object::new(Base::Nothing, fields)?)))
            }
            Expr::Call(function, arguments) => match arguments.as_slice() {
                [list, Expr::Lambda(lambda)] => functions::call_with(self, function, &self.eval(list, scope)?, lambda, scope),
                _ => functions::call(self, function, &self.eval_all(arguments, scope)?),
            },
            Expr::Lambda(_) => fault("`=>` makes sense only in map, filter and the like"),
        }
    }

    fn eval_all(&self, exprs: &[Expr], scope: &Scope) -> Eval<Vec<Value>> {
        exprs.iter().map(|expr| self.eval(expr, scope)).collect()
    }

    /// Calls a lambda with up to two arguments.
    pub(super) fn call_lambda(&self, lambda: &Lambda, arguments: &[&Value], scope: &Scope) -> Eval {
        let mut names = lambda.parameters.iter().zip(arguments);
        let Some((name, value)) = names.next() else { return self.eval(&lambda.body, scope) };
        let first = Local { name, value, outer: scope.local.as_ref() };
        let Some((name, value)) = names.next() else {
            return self.eval(&lambda.body, &Scope { row: scope.row, local: Some(first) });
        };
        let second = Local { name, value, outer: Some(&first) };
        self.eval(&lambda.body, &Scope { row: scope.row, local: Some(second) })
    }

    fn variable(&self, name: &Rc<str>, scope: &Scope) -> Value {
        if let Some(value) = scope.local(name) {
            return value;
        }
        if let Some(value) = self.object_field(scope.row, name) {
            return value;
        }
        match &**name {
            "this" => Value::object(Base::Page(self.this.clone())),
            _ => Value::Null,
        }
    }

    pub(super) fn object_field(&self, object: &Object, name: &str) -> Option<Value> {
        let added = object.added.iter().find(|(key, _)| **key == *name).map(|(_, value)| value.clone());
        added.or_else(|| self.notes.field(&object.base, name))
    }

    /// Operators from left to right. What `and` and `or` cannot change any more is not looked at.
    fn chain(&self, first: &Expr, rest: &[(Op, Expr)], scope: &Scope) -> Eval {
        let mut left = self.eval(first, scope)?;
        for (op, right) in rest {
            left = match op {
                Op::And if !left.is_true() => false.into(),
                Op::Or if left.is_true() => true.into(),
                Op::And | Op::Or => self.eval(right, scope)?.is_true().into(),
                _ => apply(self, *op, &left, &self.eval(right, scope)?)?,
            };
        }
        Ok(left)
    }

    fn path(&self, base: &Expr, steps: &[Expr], scope: &Scope) -> Eval {
        let mut value = match base {
            // The row itself: for fields whose names are no names, `row["a b"]`.
            Expr::Variable(name) if &**name == "row" => {
                Value::Object(Rc::new(Object::new(scope.row.base.clone(), scope.row.added.clone())?))
            }
            _ => self.eval(base, scope)?,
        };
        for step in steps {
            let index = self.eval(step, scope)?;
            value = self.index(&value, &index)?;
        }
        Ok(value)
    }

    /// `value[index]`, of a list each item's.
    pub(super) fn index(&self, value: &Value, index: &Value) -> Eval {
        self.spend(1)?;
        Ok(match (value, index) {
            (Value::Object(object), Value::Text(name)) => self.object_field(object, name).unwrap_or(Value::Null),
            (Value::Link(link), Value::Text(name)) => {
                let page = Base::Page(link.path.clone());
                self.notes.field(&page, name).unwrap_or(Value::Null)
            }
            (Value::List(list), Value::Number(at)) => {
                place(*at).and_then(|at| list.items.get(at)).cloned().unwrap_or(Value::Null)
            }
            (Value::List(list), Value::Text(_)) => {
                let mut found = Vec::with_capacity(list.items.len());
                for item in &list.items {
                    match self.index(item, index) {
                        Ok(value) => found.push(value),
                        Err(Fault::Row(_)) => {}
                        Err(stop) => return Err(stop),
                    }
                }
                self.new_list(found)?
            }
            (Value::Text(text), Value::Number(at)) => {
                let found = place(*at).and_then(|at| text.chars().nth(at));
                found.map_or(Value::Null, |c| Value::text(c.to_string()))
            }
            (Value::Date(date), Value::Text(unit)) => date_part(*date, unit).map_or(Value::Null, Value::from),
            (Value::Duration(span), Value::Text(unit)) => span.in_unit(unit).map_or(Value::Null, Value::from),
            (Value::Null | Value::Bool(_) | Value::Number(_), Value::Text(_) | Value::Number(_)) => Value::Null,
            _ => return fault(format!("a field of type {} cannot be looked up in one of type {}", index.kind(), value.kind())),
        })
    }

    fn moment(&self, moment: Moment) -> Eval<DateTime> {
        let today = self.now.date();
        let start = |date: jiff::civil::Date| date.at(0, 0, 0, 0);
        let end = |date: jiff::civil::Date| date.at(23, 59, 59, 999_000_000);
        let into_week = i64::from(today.weekday().to_monday_zero_offset());
        let found = match moment {
            Moment::Now => Ok(self.now),
            Moment::Today => Ok(start(today)),
            Moment::Yesterday => today.yesterday().map(start),
            Moment::Tomorrow => today.tomorrow().map(start),
            Moment::WeekStart => today.checked_sub(into_week.days()).map(start),
            Moment::WeekEnd => today.checked_add((6 - into_week).days()).map(end),
            Moment::MonthStart => Ok(start(today.first_of_month())),
            Moment::MonthEnd => Ok(end(today.last_of_month())),
            Moment::YearStart => Ok(start(today.first_of_year())),
            Moment::YearEnd => Ok(end(today.last_of_year())),
        };
        found.or_else(|_| fault("a date outside the calendar"))
    }

    /// The order of values: null first, then by type, then by value. Total, so that sorting is safe.
    pub(super) fn compare(&self, a: &Value, b: &Value) -> Eval<Ordering> {
        self.spend(1)?;
        let by_kind = || a.kind().cmp(b.kind());
        Ok(match (a, b) {
            (Value::Null, Value::Null) => Ordering::Equal,
            (Value::Null, _) => Ordering::Less,
            (_, Value::Null) => Ordering::Greater,
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Number(a), Value::Number(b)) => compare_numbers(*a, *b),
            (Value::Number(a), Value::Text(b)) => padded(b).map_or_else(by_kind, |b| compare_numbers(*a, b)),
            (Value::Text(a), Value::Number(b)) => padded(a).map_or_else(by_kind, |a| compare_numbers(a, *b)),
            (Value::Text(a), Value::Text(b)) => {
                self.spend(a.len().min(b.len()) / 64)?;
                let numbers = match (padded(a), padded(b)) {
                    (Some(a), Some(b)) => compare_numbers(a, b),
                    (a, b) => b.is_some().cmp(&a.is_some()), // as numbers stand before texts
                };
                numbers.then_with(|| super::operators::compare_texts(a, b))
            }
            (Value::Date(a), Value::Date(b)) => a.cmp(b),
            (Value::Duration(a), Value::Duration(b)) => compare_numbers(a.millis_in_all(), b.millis_in_all()),
            // Links are looked up when they are made, so two to one note have one path however they are written.
            (Value::Link(a), Value::Link(b)) => {
                a.path.cmp(&b.path).then_with(|| a.kind().cmp(b.kind())).then_with(|| a.part.cmp(&b.part))
            }
            (Value::List(a), Value::List(b)) => {
                if Rc::ptr_eq(a, b) {
                    return Ok(Ordering::Equal);
                }
                for (a, b) in a.items.iter().zip(&b.items) {
                    let order = self.compare(a, b)?;
                    if order.is_ne() {
                        return Ok(order);
                    }
                }
                a.items.len().cmp(&b.items.len())
            }
            (Value::Object(a), Value::Object(b)) => return self.compare_objects(a, b),
            _ => by_kind(),
        })
    }

    fn compare_objects(&self, a: &Rc<Object>, b: &Rc<Object>) -> Eval<Ordering> {
        let order = a.base.cmp(&b.base);
        if order.is_ne() || Rc::ptr_eq(a, b) {
            return Ok(order);
        }
        let sorted = |object: &Rc<Object>| {
            let mut fields = object.added.clone();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            fields
        };
        let (a, b) = (sorted(a), sorted(b));
        let order = a.iter().map(|(name, _)| name).cmp(b.iter().map(|(name, _)| name));
        if order.is_ne() {
            return Ok(order);
        }
        for ((_, a), (_, b)) in a.iter().zip(&b) {
            let order = self.compare(a, b)?;
            if order.is_ne() {
                return Ok(order);
            }
        }
        Ok(Ordering::Equal)
    }
}

/// Sorts, stable. Merges by hand because a comparison may stop the query.
pub(super) fn sort<T>(items: Vec<T>, order: &dyn Fn(&T, &T) -> Eval<Ordering>) -> Eval<Vec<T>> {
    let mut runs: Vec<Vec<T>> = items.into_iter().map(|item| vec![item]).collect();
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut pairs = runs.into_iter();
        while let Some(left) = pairs.next() {
            merged.push(match pairs.next() {
                Some(right) => merge(left, right, order)?,
                None => left,
            });
        }
        runs = merged;
    }
    Ok(runs.pop().unwrap_or_default())
}
fn merge<T>(left: Vec<T>, right: Vec<T>, order: &dyn Fn(&T, &T) -> Eval<Ordering>) -> Eval<Vec<T>> {
    let mut all = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let side = if order(a, b)?.is_gt() { &mut right } else { &mut left };
        all.extend(side.next());
    }
    all.extend(left);
    all.extend(right);
    Ok(all)
}

/// The number in `01`: frontmatter keeps it as it is written, and YAML means a number.
fn padded(text: &str) -> Option<f64> {
    let is_padded = text.len() > 1 && text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_padded { text.parse().ok() } else { None }
}

fn compare_numbers(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// A number as a place in a list; part of one is not a place.
pub(super) fn place(number: f64) -> Option<usize> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be a whole number in range")]
    (number >= 0.0 && number.fract() == 0.0 && number < 1e15).then_some(number as usize)
}

fn date_part(date: DateTime, unit: &str) -> Option<f64> {
    Some(match unit {
        "year" => f64::from(date.year()),
        "month" => f64::from(date.month()),
        "weekyear" => f64::from(date.date().iso_week_date().week()),
        "week" => f64::from(date.day() / 7 + 1),
        "weekday" => f64::from(date.weekday().to_monday_one_offset()),
        "day" => f64::from(date.day()),
        "hour" => f64::from(date.hour()),
        "minute" => f64::from(date.minute()),
        "second" => f64::from(date.second()),
        "millisecond" => f64::from(date.millisecond()),
        _ => return None,
    })
}
