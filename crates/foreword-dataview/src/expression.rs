//! Expressions, from the loosest operators to the tightest: `and or`, comparisons, `+ -`, `* / %`, accesses.

use std::rc::Rc;

use jiff::tz::TimeZone;

use super::functions;
use super::parse::{ParseError, Parser};
use super::syntax::{Expr, Lambda, Moment, Op};
use super::value::Value;

/// Operators by precedence, loosest first; of two that start alike, the longer first.
const LEVELS: [&[(&str, Op)]; 4] = [
    &[("and", Op::And), ("or", Op::Or), ("&&", Op::And), ("||", Op::Or), ("&", Op::And), ("|", Op::Or)],
    &[
        (">=", Op::GreaterOrEqual),
        ("<=", Op::LessOrEqual),
        ("!=", Op::NotEqual),
        (">", Op::Greater),
        ("<", Op::Less),
        ("==", Op::Equal),
        ("=", Op::Equal),
    ],
    &[("+", Op::Plus), ("-", Op::Minus)],
    &[("*", Op::Times), ("/", Op::Over), ("%", Op::Modulo)],
];

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Result<Expr, ParseError> {
        self.nested(|parser| parser.chain(0))
    }

    fn chain(&mut self, level: usize) -> Result<Expr, ParseError> {
        let Some(operators) = LEVELS.get(level) else { return self.path() };
        let first = self.chain(level + 1)?;
        let mut rest = Vec::new();
        loop {
            let before = self.cursor;
            self.cursor.skip_space();
            let Some(op) = self.operator(operators) else {
                self.cursor = before;
                break;
            };
            rest.push((op, self.chain(level + 1)?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Chain(Box::new(first), rest) })
    }

    fn operator(&mut self, operators: &[(&str, Op)]) -> Option<Op> {
        let is_word = |sign: &str| sign.starts_with(char::is_alphabetic);
        let found =
            operators.iter().find(|(sign, _)| if is_word(sign) { self.cursor.take_word(sign) } else { self.cursor.take(sign) });
        found.map(|(_, op)| *op)
    }

    fn path(&mut self) -> Result<Expr, ParseError> {
        self.cursor.skip_space();
        let base = self.atom()?;
        let mut steps = Vec::new();
        loop {
            if self.cursor.take(".") {
                match self.cursor.take_name() {
                    Some(name) => steps.push(Expr::Literal(Value::text(name))),
                    None => return self.expected("the name of a field after `.`"),
                }
            } else if self.cursor.take("[") {
                steps.push(self.expression()?);
                self.expect("]")?;
            } else if self.cursor.rest().starts_with('(') {
                return Self::unsupported("calling anything but a function by its name");
            } else {
                return Ok(if steps.is_empty() { base } else { Expr::Path(Box::new(base), steps) });
            }
        }
    }

    fn atom(&mut self) -> Result<Expr, ParseError> {
        if let Some(link) = self.cursor.take_link() {
            self.needs.this = true;
            return Ok(Expr::Link(link));
        }
        if self.cursor.take("!") {
            return Ok(Expr::Not(Box::new(self.nested(Self::path)?)));
        }
        if self.cursor.take("[") {
            return Ok(Expr::List(self.until("]", Self::expression)?));
        }
        if self.cursor.take("{") {
            return Ok(Expr::Object(self.until("}", Self::entry)?));
        }
        if let Some(parameters) = self.lambda_parameters() {
            let body = self.expression()?;
            return Ok(Expr::Lambda(Rc::new(Lambda { parameters, body })));
        }
        if self.cursor.take("(") {
            let inner = self.expression()?;
            self.expect(")")?;
            return Ok(inner);
        }
        if let Some(text) = self.cursor.take_string() {
            return Ok(Expr::Literal(Value::text(text)));
        }
        if let Some(number) = self.cursor.take_number() {
            return Ok(Expr::Literal(number.into()));
        }
        if let Some(tag) = self.cursor.take_tag() {
            return Ok(Expr::Literal(Value::text(format!("#{tag}"))));
        }
        self.word()
    }

    /// A variable, a constant or a call.
    fn word(&mut self) -> Result<Expr, ParseError> {
        if self.is_at_command() {
            return self.expected("an expression");
        }
        if let Some(moment) = self.literal_call() {
            return Ok(moment);
        }
        let Some(name) = self.cursor.take_name() else { return self.expected("an expression") };
        if self.cursor.rest().starts_with('(') {
            let Some(function) = functions::named(name) else {
                return Self::unsupported(format!("the function `{name}`"));
            };
            self.cursor.take("(");
            self.needs.this |= function.needs_this();
            return Ok(Expr::Call(function, self.until(")", Self::expression)?));
        }
        Ok(match name {
            "true" | "True" => Expr::Literal(true.into()),
            "false" | "False" => Expr::Literal(false.into()),
            "null" => Expr::Literal(Value::Null),
            _ => {
                self.needs.this |= name == "this";
                Expr::Variable(Rc::from(name))
            }
        })
    }

    /// `date(2025-09-01)`, `date(today)` and `dur(3 days)`, whose arguments are no expressions.
    fn literal_call(&mut self) -> Option<Expr> {
        let mut cursor = self.cursor;
        let name = cursor.take_name().filter(|_| cursor.take("("))?;
        cursor.skip_space();
        let found = match name {
            "date" => {
                if let Some(name) = cursor.take_name() {
                    Expr::Moment(Moment::named(name)?)
                } else {
                    let start = cursor.at();
                    cursor.take_date(&TimeZone::UTC)?;
                    // A time with an offset depends on the reader's zone, so it is the function that reads the text.
                    Expr::Call(functions::named("date")?, vec![Expr::Literal(Value::text(cursor.since(start)))])
                }
            }
            "dur" => Expr::Literal(Value::Duration(cursor.take_duration()?)),
            _ => return None,
        };
        cursor.skip_space();
        cursor.take(")").then_some(())?;
        self.cursor = cursor;
        if let Expr::Moment(moment) = found {
            self.needs.clock = self.needs.clock.max(moment.clock());
        }
        Some(found)
    }

    /// `(a, b) =>`, or nothing taken.
    fn lambda_parameters(&mut self) -> Option<Vec<Rc<str>>> {
        let mut cursor = self.cursor;
        let mut parameters = Vec::new();
        cursor.take("(").then_some(())?;
        cursor.skip_space();
        while let Some(name) = cursor.take_name() {
            parameters.push(Rc::from(name));
            cursor.skip_space();
            if !cursor.take(",") {
                break;
            }
            cursor.skip_space();
        }
        cursor.take(")").then_some(())?;
        cursor.skip_space();
        cursor.take("=>").then_some(())?;
        self.cursor = cursor;
        Some(parameters)
    }

    fn entry(&mut self) -> Result<(Rc<str>, Expr), ParseError> {
        self.cursor.skip_space();
        let name = self.cursor.take_string().or_else(|| self.cursor.take_name().map(str::to_owned));
        let Some(name) = name else { return self.expected("a name before `:`") };
        self.expect(":")?;
        Ok((Rc::from(name), self.expression()?))
    }

    /// What stands between commas until `end`, which is taken too.
    fn until<T>(&mut self, end: &str, read: impl Fn(&mut Self) -> Result<T, ParseError>) -> Result<Vec<T>, ParseError> {
        let mut all = Vec::new();
        self.cursor.skip_space();
        if self.cursor.take(end) {
            return Ok(all);
        }
        loop {
            all.push(read(self)?);
            self.cursor.skip_space();
            if self.cursor.take(end) {
                return Ok(all);
            }
            self.expect(",")?;
        }
    }
}
