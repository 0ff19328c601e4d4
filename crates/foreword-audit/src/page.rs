//! The report as one HTML file that needs nothing from elsewhere, and the same parts for the server's page.

use serde::Serialize;
use serde_json::{Value, json};

use crate::report::{Bar, Report};

const PAGE: &str = include_str!("page.html");

/// A module with one function, `drawReport(element, data, title)`.
pub const SCRIPT: &str = include_str!("page.js");

/// How what it draws looks.
pub const STYLE: &str = include_str!("page.css");

/// Sessions whose calls are drawn; the dearest.
const DRAWN: usize = 200;

/// Bars beyond so many are left out, so that a browser can still open the file.
const MOST_BARS: usize = 100_000;

#[derive(Serialize)]
struct Drawn<'a> {
    agent: &'static str,
    id: &'a str,
    project: &'a str,
    cost: f64,
    calls: u64,
    /// When it began, and for each call: seconds since then, chain, read, written, fresh, output, cost, cause.
    began: i64,
    bars: Vec<Value>,
}

/// The page of a report.
pub fn page(report: &Report) -> String {
    // Nothing in a text may end the element that it stands in.
    let data = data(report).to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    PAGE.replacen("\"STYLE\"", STYLE, 1).replacen("\"SCRIPT\"", SCRIPT, 1).replacen("\"DATA\"", &data, 1)
}

/// What the page is drawn from.
pub fn data(report: &Report) -> Value {
    let mut dearest: Vec<usize> = (0..report.sessions.len()).collect();
    dearest.sort_by(|a, b| report.sessions[*b].cost.total_cmp(&report.sessions[*a].cost));
    let mut room = MOST_BARS;
    let mut drawn = Vec::new();
    for session in dearest.into_iter().take(DRAWN).map(|at| &report.sessions[at]) {
        if session.bars.len() > room {
            break;
        }
        room -= session.bars.len();
        let began = session.bars.first().map_or(0, |bar| bar.at_ms);
        let bars = session.bars.iter().map(|bar| row(bar, began)).collect();
        let (agent, id, project) = (session.agent.name(), session.id.as_str(), session.project.as_str());
        drawn.push(Drawn { agent, id, project, cost: session.cost, calls: session.calls, began, bars });
    }
    json!({
        "calls": report.calls,
        "tokens": report.tokens,
        "cost": report.cost,
        "prices": report.prices_as_of,
        "span": report.span,
        "count": report.sessions.len(),
        "causes": report.causes,
        "misses": report.misses,
        "parts": report.parts,
        "what_if": report.what_if,
        "findings": report.findings,
        "agents": report.agents,
        "models": report.models,
        "projects": report.projects,
        "chains": report.chains,
        "days": report.days,
        "tools": report.tools.iter().take(25).collect::<Vec<_>>(),
        "servers": report.servers,
        "unpriced": report.unpriced,
        "partial": report.output_partial,
        "lines": report.lines,
        "drawn": drawn,
    })
}

fn row(bar: &Bar, began: i64) -> Value {
    let [read, written, fresh, output] = bar.tokens;
    let cost = (bar.cost * 1e6).round() / 1e6;
    json!([(bar.at_ms - began) / 1000, bar.chain, read, written, fresh, output, cost, bar.cause.unwrap_or_default()])
}
