//! How a person names a session and a request of it: `SESSION`, `SESSION@TURN`, `SESSION@TURN.STEP`. Without a session, `@TURN` is one of
//! the last session.

use std::fmt::{self, Display};
use std::str::FromStr;

use foreword_store::{Store, StoreError};

/// A session, and optionally a turn and a step, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The session's ID, a prefix of it, or `last`.
    pub session: String,
    /// The turn.
    pub turn: Option<u64>,
    /// The request within the turn. Default: the last one.
    pub step: Option<u64>,
}

/// An invalid reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid session {0:?}: expected SESSION, SESSION@TURN or SESSION@TURN.STEP, with turns and steps from 1")]
pub struct NotAPoint(String);

impl FromStr for Point {
    type Err = NotAPoint;

    fn from_str(text: &str) -> Result<Self, NotAPoint> {
        let not = || NotAPoint(text.to_owned());
        let number = |text: &str| text.parse().ok().filter(|number: &u64| *number > 0).ok_or_else(not);
        let (session, rest) = text.split_once('@').map_or((text, None), |(session, rest)| (session, Some(rest)));
        let session = if session.is_empty() && rest.is_some() { "last" } else { session };
        if session.is_empty() {
            return Err(not());
        }
        let (turn, step) = match rest.map(|rest| rest.split_once('.').map_or((rest, None), |(turn, step)| (turn, Some(step)))) {
            None => (None, None),
            Some((turn, step)) => (Some(number(turn)?), step.map(number).transpose()?),
        };
        Ok(Self { session: session.to_owned(), turn, step })
    }
}

impl Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.session)?;
        self.turn.map_or(Ok(()), |turn| write!(f, "@{turn}"))?;
        self.step.map_or(Ok(()), |step| write!(f, ".{step}"))
    }
}

impl Point {
    /// The session's ID. It is an error if a turn is given.
    pub fn session(&self, store: &dyn Store) -> Result<String, StoreError> {
        match self.turn {
            Some(turn) => Err(StoreError::Refused(format!("expected a session without a turn; remove @{turn}"))),
            None => self.name(store),
        }
    }

    /// The session's ID, ignoring the turn.
    pub fn name(&self, store: &dyn Store) -> Result<String, StoreError> {
        let sessions = store.sessions()?;
        if self.session == "last" {
            let last = sessions.first().map(|row| row.id.clone());
            return last.ok_or_else(|| StoreError::NoSession(self.session.clone()));
        }
        let named: Vec<&str> = sessions.iter().map(|row| row.id.as_str()).filter(|id| id.starts_with(&self.session)).collect();
        if let Some(exact) = named.iter().find(|id| **id == self.session) {
            return Ok((*exact).to_owned());
        }
        match named.as_slice() {
            [one] => Ok((*one).to_owned()),
            [] => Err(StoreError::NoSession(self.session.clone())),
            several => Err(StoreError::Ambiguous(self.session.clone(), several.join(", "))),
        }
    }

    /// The session and the request. Default: the last request.
    pub fn request(&self, store: &dyn Store) -> Result<(String, u64), StoreError> {
        let session = self.name(store)?;
        let requests = store.requests(&session)?;
        let of_turn: Vec<u64> = requests
            .iter()
            .filter(|request| self.turn.is_none_or(|turn| request.run + 1 == turn))
            .map(|request| request.number)
            .collect();
        let found = match self.step {
            Some(step) => usize::try_from(step - 1).ok().and_then(|at| of_turn.get(at)),
            None => of_turn.last(),
        };
        let missing = || StoreError::NoTurn { session: session.clone(), turn: self.turn, step: self.step };
        found.copied().ok_or_else(missing).map(|number| (session.clone(), number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points() {
        let check = |text: &str, expect: Option<(&str, Option<u64>, Option<u64>)>| {
            let point = text.parse::<Point>().ok();
            assert_eq!(point.as_ref().map(|point| (point.session.as_str(), point.turn, point.step)), expect, "{text}");
            let named = text.strip_prefix('@').map_or(text.to_owned(), |rest| format!("last@{rest}"));
            assert_eq!(point.map(|point| point.to_string()), expect.map(|_| named));
        };
        check("abc", Some(("abc", None, None)));
        check("abc@3", Some(("abc", Some(3), None)));
        check("last@3.2", Some(("last", Some(3), Some(2))));
        check("@1.2", Some(("last", Some(1), Some(2))));
        for bad in ["", "@", "@0", "a@", "a@0", "a@x", "a@1.", "a@1.0", "a@-1"] {
            check(bad, None);
        }
    }
}
