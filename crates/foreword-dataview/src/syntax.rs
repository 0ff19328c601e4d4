//! A query as it was written: plain values, made by the parser and walked by the evaluator.
//!
//! Rows of operators and of accesses are kept flat, so that the tree is only as deep as the parentheses in the text.

use std::rc::Rc;

use super::functions::Function;
use super::value::Value;

/// A Dataview query, parsed.
#[derive(Clone, Debug)]
pub struct Query {
    pub(super) output: Output,
    /// `None`: all notes.
    pub(super) source: Option<Source>,
    pub(super) commands: Vec<Command>,
    pub(super) needs: Needs,
}

impl Query {
    /// What its answer depends on besides the notes of the vault.
    pub fn needs(&self) -> Needs {
        self.needs
    }
}

/// What an answer depends on besides the notes of the vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Whether it depends on the note that the query stands in.
    pub this: bool,
    /// How it depends on the clock.
    pub clock: Clock,
}

/// How an answer depends on the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clock {
    /// Not at all.
    Never,
    /// It changes with the day.
    Day,
    /// It changes all the time.
    Instant,
}

/// Whether the name of a row is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Id {
    Shown,
    Hidden,
}

#[derive(Clone, Debug)]
pub(super) enum Output {
    List { id: Id, value: Option<Expr> },
    Table { id: Id, columns: Vec<Named> },
    Task,
}

/// An expression and what it is called: as the query says, or as it is written.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) name: Rc<str>,
    pub(super) expr: Expr,
}

#[derive(Clone, Debug)]
pub(super) enum Command {
    Where(Expr),
    Sort(Vec<(Expr, Direction)>),
    Group(Named),
    Flatten(Named),
    Limit(Expr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

#[derive(Clone, Debug)]
pub(super) enum Source {
    /// Without `#`.
    Tag(String),
    /// A folder, or else a note.
    Path(String),
    /// Notes that link to it; empty for the note of the query.
    Incoming(String),
    /// Notes that it links to.
    Outgoing(String),
    Not(Box<Source>),
    /// From left to right, without precedence, as Dataview does.
    Chain(Box<Source>, Vec<(Junction, Source)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Junction {
    And,
    Or,
}

#[derive(Clone, Debug)]
pub(super) enum Expr {
    Literal(Value),
    /// `date(today)` and its like.
    Moment(Moment),
    Link(RawLink),
    Variable(Rc<str>),
    Not(Box<Expr>),
    /// Operators of one precedence, from left to right.
    Chain(Box<Expr>, Vec<(Op, Expr)>),
    /// `a.b["c"][0]`
    Path(Box<Expr>, Vec<Expr>),
    List(Vec<Expr>),
    Object(Vec<(Rc<str>, Expr)>),
    Call(&'static Function, Vec<Expr>),
    Lambda(Rc<Lambda>),
}

#[derive(Debug)]
pub(super) struct Lambda {
    pub(super) parameters: Vec<Rc<str>>,
    pub(super) body: Expr,
}

/// A link as written; where it leads depends on the note it stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawLink {
    pub(super) target: String,
    /// What follows the `#`, `^` included.
    pub(super) part: Option<String>,
    pub(super) text: Option<String>,
    pub(super) embed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    And,
    Or,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
    Plus,
    Minus,
    Times,
    Over,
    Modulo,
}

impl Op {
    /// How it is written, for messages.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::And => "and",
            Self::Or => "or",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Times => "*",
            Self::Over => "/",
            Self::Modulo => "%",
        }
    }
}

/// A time that is told relative to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    Now,
    Today,
    Yesterday,
    Tomorrow,
    WeekStart,
    WeekEnd,
    MonthStart,
    MonthEnd,
    YearStart,
    YearEnd,
}

impl Moment {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "now" => Self::Now,
            "today" => Self::Today,
            "yesterday" => Self::Yesterday,
            "tomorrow" => Self::Tomorrow,
            "sow" | "start-of-week" => Self::WeekStart,
            "eow" | "end-of-week" => Self::WeekEnd,
            "som" | "start-of-month" => Self::MonthStart,
            "eom" | "end-of-month" => Self::MonthEnd,
            "soy" | "start-of-year" => Self::YearStart,
            "eoy" | "end-of-year" => Self::YearEnd,
            _ => return None,
        })
    }

    pub(super) fn clock(self) -> Clock {
        if self == Self::Now { Clock::Instant } else { Clock::Day }
    }
}
