//! The values that expressions have. They are shared, never changed, and know how deep they are, so that no walk over one can
//! exhaust the stack.

use std::rc::Rc;

use jiff::civil::DateTime;

use super::span::Span;

/// Lists and objects are not nested deeper than this.
pub(super) const MAX_DEPTH: u16 = 48;

#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(f64),
    Text(Rc<str>),
    Date(DateTime),
    Duration(Span),
    Link(Rc<Link>),
    List(Rc<List>),
    Object(Rc<Object>),
}

/// A link that has been looked up: `path` is the note's, or what was written where there is no such note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) path: Rc<str>,
    /// What follows the `#`, `^` included.
    pub(super) part: Option<String>,
    pub(super) text: Option<String>,
    pub(super) embed: bool,
}

impl Link {
    pub(super) fn to(path: impl Into<Rc<str>>) -> Self {
        Self { path: path.into(), part: None, text: None, embed: false }
    }

    /// What it points at, in Dataview's words.
    pub(super) fn kind(&self) -> &'static str {
        match &self.part {
            None => "file",
            Some(part) if part.starts_with('^') => "block",
            Some(_) => "header",
        }
    }

    /// The text it is shown with.
    pub(super) fn shown(&self) -> String {
        match (&self.text, &self.part) {
            (Some(text), _) => text.clone(),
            (None, None) => file_name(&self.path).to_owned(),
            (None, Some(part)) => format!("{} > {}", file_name(&self.path), part.trim_start_matches('^')),
        }
    }

    pub(super) fn markdown(&self) -> String {
        let embed = if self.embed { "!" } else { "" };
        let part = self.part.as_ref().map(|part| format!("#{part}")).unwrap_or_default();
        format!("{embed}[[{}{part}|{}]]", self.path, self.shown())
    }
}

/// The name of a file, without folder and extension.
pub(super) fn file_name(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem })
}

#[derive(Debug)]
pub(super) struct List {
    pub(super) items: Vec<Value>,
    depth: u16,
}

/// Something with fields: those of `base`, and before them those that were added.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) base: Base,
    pub(super) added: Vec<(Rc<str>, Value)>,
    depth: u16,
}

/// Where the fields of an object come from. Those of notes are looked up when they are asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Base {
    /// Only what was added.
    Nothing,
    /// A note.
    Page(Rc<str>),
    /// The `file` of a note.
    File(Rc<str>),
    /// A list item of a note, by its place.
    Item(Rc<str>, usize),
    /// A list item; behind its fields those of its note, as rows of a task query have.
    Task(Rc<str>, usize),
}

/// A value that would be nested too deep.
#[derive(Debug)]
pub(super) struct TooDeep;

fn depth_over<'a>(values: impl Iterator<Item = &'a Value>) -> Result<u16, TooDeep> {
    let depth = values.map(Value::depth).max().unwrap_or(0) + 1;
    if depth > MAX_DEPTH { Err(TooDeep) } else { Ok(depth) }
}

impl Object {
    pub(super) fn of(base: Base) -> Self {
        Self { base, added: Vec::new(), depth: 1 }
    }

    pub(super) fn new(base: Base, added: Vec<(Rc<str>, Value)>) -> Result<Self, TooDeep> {
        let depth = depth_over(added.iter().map(|(_, value)| value))?;
        Ok(Self { base, added, depth })
    }

    /// The same with one more field, which hides another of that name.
    pub(super) fn with(&self, name: &Rc<str>, value: Value) -> Result<Self, TooDeep> {
        let mut added: Vec<_> = self.added.iter().filter(|(key, _)| key != name).cloned().collect();
        added.push((name.clone(), value));
        Self::new(self.base.clone(), added)
    }
}

impl Value {
    pub(super) fn text(text: impl Into<Rc<str>>) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn link(link: Link) -> Self {
        Self::Link(Rc::new(link))
    }

    pub(super) fn object(base: Base) -> Self {
        Self::Object(Rc::new(Object::of(base)))
    }

    pub(super) fn list(items: Vec<Self>) -> Result<Self, TooDeep> {
        let depth = depth_over(items.iter())?;
        Ok(Self::List(Rc::new(List { items, depth })))
    }

    /// A list of what a note holds, which is never nested deep; what is all the same is left out.
    pub(super) fn flat_list(items: impl IntoIterator<Item = Self>) -> Self {
        let items: Vec<Self> = items.into_iter().filter(|item| item.depth() < MAX_DEPTH).collect();
        let depth = items.iter().map(Self::depth).max().unwrap_or(0) + 1;
        Self::List(Rc::new(List { items, depth }))
    }

    fn depth(&self) -> u16 {
        match self {
            Self::List(list) => list.depth,
            Self::Object(object) => object.depth,
            _ => 0,
        }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Its type, in Dataview's words.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::Date(_) => "date",
            Self::Duration(_) => "duration",
            Self::Link(_) => "link",
            Self::List(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// Whether it counts as true: it is there and not empty.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Bool(truth) => *truth,
            Self::Number(number) => *number != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::Date(_) => true,
            Self::Duration(span) => span.millis_in_all() != 0.0,
            Self::Link(link) => !link.path.is_empty(),
            Self::List(list) => !list.items.is_empty(),
            Self::Object(object) => object.base != Base::Nothing || !object.added.is_empty(),
        }
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

/// A count, which no vault makes larger than a float can hold.
pub(super) fn count(number: usize) -> Value {
    Value::Number(number as f64)
}
