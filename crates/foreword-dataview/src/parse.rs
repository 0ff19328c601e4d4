//! From text to a [`Query`]: commands and sources. Recursive descent with a limit on nesting; expressions are in `expression`.

use std::rc::Rc;

use super::cursor::Cursor;
use super::syntax::{Clock, Command, Direction, Id, Junction, Named, Needs, Output, Query, Source};

/// Longer queries are refused.
const MAX_LENGTH: usize = 64 * 1024;
/// How deep parentheses, lists and calls may be nested.
const MAX_NESTING: u32 = 64;
/// How many commands may follow each other: each can add a field to every row.
const MAX_COMMANDS: usize = 64;

/// Why a text is not a query that can be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It breaks the grammar.
    #[error("line {line} of the query, at `{found}`: expected {expected}")]
    Malformed {
        /// Where, from 1.
        line: usize,
        /// What stands there.
        found: String,
        /// What could stand there.
        expected: String,
    },
    /// It is fine in Dataview, but not known here.
    #[error("{what} is not supported")]
    Unsupported {
        /// What is not known.
        what: String,
    },
}

/// Parses a Dataview query.
pub fn parse(text: &str) -> Result<Query, ParseError> {
    if text.len() > MAX_LENGTH {
        let what = format!("a query of {} bytes (the limit is {MAX_LENGTH})", text.len());
        return Err(ParseError::Unsupported { what });
    }
    Parser::new(text).query()
}

pub(super) struct Parser<'t> {
    text: &'t str,
    pub(super) cursor: Cursor<'t>,
    pub(super) needs: Needs,
    nesting: u32,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, cursor: Cursor::new(text), needs: Needs { this: false, clock: Clock::Never }, nesting: 0 }
    }

    /// The error that something else was expected here.
    pub(super) fn expected<T>(&self, expected: &str) -> Result<T, ParseError> {
        let rest = self.cursor.rest().trim_start();
        let found: String = rest.lines().next().unwrap_or_default().chars().take(20).collect();
        let found = if rest.is_empty() { "the end".to_owned() } else { found };
        let line = self.text.get(..self.cursor.at()).unwrap_or_default().matches('\n').count() + 1;
        Err(ParseError::Malformed { line, found, expected: expected.to_owned() })
    }

    pub(super) fn unsupported<T>(what: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError::Unsupported { what: what.into() })
    }

    pub(super) fn expect(&mut self, token: &str) -> Result<(), ParseError> {
        self.cursor.skip_space();
        if self.cursor.take(token) { Ok(()) } else { self.expected(&format!("`{token}`")) }
    }

    /// Runs `read` one level deeper.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, ParseError>) -> Result<T, ParseError> {
        if self.nesting >= MAX_NESTING {
            return Self::unsupported(format!("nesting deeper than {MAX_NESTING} levels"));
        }
        self.nesting += 1;
        let result = read(self);
        self.nesting -= 1;
        result
    }

    fn query(mut self) -> Result<Query, ParseError> {
        self.cursor.skip_space();
        let output = self.output()?;
        let mut source = None;
        let mut commands = Vec::new();
        loop {
            self.cursor.skip_space();
            if self.cursor.is_at_end() {
                return Ok(Query { output, source, commands, needs: self.needs });
            }
            if self.cursor.take_word("from") {
                if source.is_some() || !commands.is_empty() {
                    return self.expected("FROM only once, before the other commands");
                }
                source = Some(self.source()?);
            } else if commands.len() < MAX_COMMANDS {
                commands.push(self.command()?);
            } else {
                return Self::unsupported(format!("a query of more than {MAX_COMMANDS} commands"));
            }
        }
    }

    fn output(&mut self) -> Result<Output, ParseError> {
        if self.cursor.take_word("list") {
            let id = self.id();
            let value = if self.is_at_command() { None } else { Some(self.expression()?) };
            Ok(Output::List { id, value })
        } else if self.cursor.take_word("table") {
            let id = self.id();
            let columns = if self.is_at_command() { Vec::new() } else { self.separated(Self::named)? };
            Ok(Output::Table { id, columns })
        } else if self.cursor.take_word("task") {
            Ok(Output::Task)
        } else if self.cursor.is_at_word("calendar") {
            Self::unsupported("a CALENDAR query")
        } else if self.text.contains("dv.") {
            Self::unsupported("a query in JavaScript (dataviewjs)")
        } else {
            self.expected("LIST, TABLE or TASK")
        }
    }

    fn id(&mut self) -> Id {
        self.cursor.skip_space();
        let start = self.cursor;
        if self.cursor.take_word("without") {
            self.cursor.skip_space();
            if self.cursor.take_word("id") {
                self.cursor.skip_space();
                return Id::Hidden;
            }
        }
        self.cursor = start;
        Id::Shown
    }

    /// Whether a command starts here, or the query ends. `sort(` is the function.
    pub(super) fn is_at_command(&self) -> bool {
        let cursor = self.cursor;
        let word = ["from", "where", "sort", "group", "flatten", "limit"].into_iter().find(|word| cursor.is_at_word(word));
        cursor.is_at_end() || word.is_some_and(|word| word != "sort" || !cursor.rest()[word.len()..].starts_with('('))
    }

    fn command(&mut self) -> Result<Command, ParseError> {
        if self.cursor.take_word("where") {
            Ok(Command::Where(self.expression()?))
        } else if self.cursor.take_word("sort") {
            Ok(Command::Sort(self.separated(|parser| Ok((parser.expression()?, parser.direction())))?))
        } else if self.cursor.take_word("limit") {
            Ok(Command::Limit(self.expression()?))
        } else if self.cursor.take_word("flatten") {
            Ok(Command::Flatten(self.named()?))
        } else if self.cursor.take_word("group") {
            self.cursor.skip_space();
            if self.cursor.take_word("by") { Ok(Command::Group(self.named()?)) } else { self.expected("BY") }
        } else {
            self.expected("FROM, WHERE, SORT, GROUP BY, FLATTEN or LIMIT")
        }
    }

    fn direction(&mut self) -> Direction {
        self.cursor.skip_space();
        if ["desc", "descending"].into_iter().any(|word| self.cursor.take_word(word)) {
            return Direction::Down;
        }
        // The word may be left out.
        let _ = ["asc", "ascending"].into_iter().any(|word| self.cursor.take_word(word));
        Direction::Up
    }

    /// `expression [AS name]`
    fn named(&mut self) -> Result<Named, ParseError> {
        self.cursor.skip_space();
        let start = self.cursor.at();
        let expr = self.expression()?;
        let written = self.cursor.since(start).split_whitespace().collect::<Vec<_>>().join(" ");
        self.cursor.skip_space();
        if !self.cursor.take_word("as") {
            return Ok(Named { name: written.into(), expr });
        }
        self.cursor.skip_space();
        let name = self.cursor.take_string().or_else(|| self.cursor.take_name().map(str::to_owned));
        match name {
            Some(name) => Ok(Named { name: Rc::from(name), expr }),
            None => self.expected("a name, or a text in quotes, after AS"),
        }
    }

    /// One or more, with commas between them.
    fn separated<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T, ParseError>) -> Result<Vec<T>, ParseError> {
        let mut all = vec![read(self)?];
        loop {
            self.cursor.skip_space();
            if !self.cursor.take(",") {
                return Ok(all);
            }
            all.push(read(self)?);
        }
    }

    fn source(&mut self) -> Result<Source, ParseError> {
        let first = self.source_atom()?;
        let mut rest = Vec::new();
        loop {
            self.cursor.skip_space();
            let junction = if self.cursor.take_word("and") || self.cursor.take("&") {
                Junction::And
            } else if self.cursor.take_word("or") || self.cursor.take("|") {
                Junction::Or
            } else if rest.is_empty() {
                return Ok(first);
            } else {
                return Ok(Source::Chain(Box::new(first), rest));
            };
            rest.push((junction, self.source_atom()?));
        }
    }

    fn source_atom(&mut self) -> Result<Source, ParseError> {
        self.cursor.skip_space();
        if self.cursor.take("(") {
            let inner = self.nested(Self::source)?;
            self.expect(")")?;
            Ok(inner)
        } else if self.cursor.take("-") || self.cursor.take("!") || self.cursor.take_word("not") {
            Ok(Source::Not(Box::new(self.nested(Self::source_atom)?)))
        } else if self.cursor.take_word("outgoing") {
            self.expect("(")?;
            let target = self.source_link()?;
            self.expect(")")?;
            Ok(Source::Outgoing(target))
        } else if self.cursor.rest().starts_with("[[") {
            Ok(Source::Incoming(self.source_link()?))
        } else if self.cursor.is_at_word("csv") {
            Self::unsupported("FROM csv(…)")
        } else if let Some(path) = self.cursor.take_string() {
            Ok(Source::Path(path))
        } else {
            match self.cursor.take_tag() {
                Some(tag) if !tag.is_empty() => Ok(Source::Tag(tag.trim_end_matches('/').to_owned())),
                _ => self.expected("a source: #tag, \"folder\", [[note]] or outgoing([[note]])"),
            }
        }
    }

    fn source_link(&mut self) -> Result<String, ParseError> {
        self.cursor.skip_space();
        self.needs.this = true;
        match self.cursor.take_link() {
            Some(link) => Ok(link.target),
            None => self.expected("a link: [[note]]"),
        }
    }
}
