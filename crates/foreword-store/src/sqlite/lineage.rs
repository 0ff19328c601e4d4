//! Which rows belong to a session: its branch's own, and the first ones of the branches it came from.

use rusqlite::Connection;

use crate::Result;
use crate::error::doing;
use crate::row::Counts;

/// Past every row; the largest number SQLite can hold.
const END: u64 = i64::MAX as u64;

/// A stretch of a session's past that lies in one branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) branch: i64,
    /// Its first rows here.
    pub(super) from: Counts,
    /// The first that are no longer part of the session.
    pub(super) until: Counts,
}

/// All stretches, oldest first.
pub(super) fn lineage(connection: &Connection, branch: i64) -> Result<Vec<Stretch>> {
    let failed = doing("follow a session's branches");
    let mut statement =
        connection.prepare_cached("SELECT parent, inputs, requests FROM branches WHERE id = ?1").map_err(&failed)?;
    let mut stretches = Vec::new();
    let (mut next, mut until) = (Some(branch), Counts { inputs: END, requests: END });
    while let Some(branch) = next {
        let (parent, inputs, requests): (Option<i64>, u64, u64) =
            statement.query_row([branch], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).map_err(&failed)?;
        let from = Counts { inputs, requests };
        stretches.push(Stretch { branch, from, until });
        until = Counts { inputs: until.inputs.min(inputs), requests: until.requests.min(requests) };
        // A parent is older than its child, so this ends.
        next = parent.filter(|parent| *parent < branch);
    }
    stretches.reverse();
    Ok(stretches)
}

/// How far the rows of a branch go, those it took over included.
pub(super) fn counts(connection: &Connection, branch: i64) -> Result<Counts> {
    let sql = "SELECT coalesce((SELECT max(number) + 1 FROM log WHERE branch = b.id), b.inputs),
                      coalesce((SELECT max(number) + 1 FROM requests WHERE branch = b.id), b.requests)
               FROM branches b WHERE b.id = ?1";
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_row([branch], |row| Ok(Counts { inputs: row.get(0)?, requests: row.get(1)? })))
        .map_err(doing("count a session's rows"))
}

/// The branch in which a request stands.
pub(super) fn of_request(stretches: &[Stretch], request: u64) -> Option<i64> {
    let holds = |stretch: &&Stretch| (stretch.from.requests..stretch.until.requests).contains(&request);
    stretches.iter().find(holds).map(|stretch| stretch.branch)
}
