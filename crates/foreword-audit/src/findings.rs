//! What is worth doing: at most five things, the most money first, each with the setting that does it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::breaks::Cause;
use crate::log::Agent;
use crate::price::Prices;
use crate::report::Report;
use crate::sessions::Sessions;
use crate::what_if::Costs;

/// No report has more.
const MOST: usize = 5;

/// What saves less of the whole is not worth a line.
const LEAST_SHARE: f64 = 0.01;

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What to do, and where.
    pub title: String,
    /// What it would have saved over the whole time, in USD.
    pub saves: f64,
    /// What was spent where it acts.
    pub of: f64,
    /// The same for thirty days.
    pub saves_per_month: f64,
    /// What was spent there, for thirty days.
    pub of_per_month: f64,
    /// The setting, word for word.
    pub setting: String,
    /// What it rests on.
    pub why: String,
}

struct Finder {
    monthly: f64,
    found: Vec<Finding>,
}

impl Finder {
    fn add(&mut self, title: String, saves: f64, of: f64, setting: &str, why: String) {
        if saves > 0.0 {
            self.found.push(Finding {
                title,
                saves,
                of,
                saves_per_month: saves * self.monthly,
                of_per_month: of * self.monthly,
                setting: setting.to_owned(),
                why,
            });
        }
    }
}

/// What `report` and the sessions behind it suggest.
pub(crate) fn findings(sessions: &Sessions, prices: &Prices, report: &Report, costs: &[Costs]) -> Vec<Finding> {
    let mut finder = Finder { monthly: 30.0 / report.days_spanned(), found: Vec::new() };
    lifetimes(&mut finder, sessions, costs);
    outputs(&mut finder, sessions, report, costs);
    servers(&mut finder, report);
    sub_agents(&mut finder, sessions, prices);
    broken(&mut finder, report);
    let mut found = finder.found;
    found.retain(|finding| finding.saves >= report.cost * LEAST_SHARE);
    found.sort_by(|a, b| b.saves.total_cmp(&a.saves));
    found.truncate(MOST);
    found
}

/// The last folder of a path, as people call a project.
pub(crate) fn short(project: &str) -> &str {
    let name = project.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or_default();
    if name.is_empty() { "no folder" } else { name }
}

/// Another lifetime for a project.
fn lifetimes(finder: &mut Finder, sessions: &Sessions, costs: &[Costs]) {
    let mut projects: BTreeMap<&str, Costs> = BTreeMap::new();
    for (session, cost) in sessions.list.iter().zip(costs).filter(|(session, _)| session.agent == Agent::ClaudeCode) {
        let sum = projects.entry(&session.project).or_default();
        sum.actual += cost.actual;
        sum.logged += cost.logged;
        sum.short += cost.short;
        sum.long += cost.long;
    }
    for (project, sum) in projects {
        let (saves, name, setting) = if sum.long <= sum.short {
            (sum.logged - sum.long, "1-hour lifetime", "ENABLE_PROMPT_CACHING_1H=1")
        } else {
            (sum.logged - sum.short, "5-minute lifetime", "FORCE_PROMPT_CACHING_5M=1")
        };
        let setting =
            format!("Claude Code, .claude/settings.json of the project: {{\"env\": {{\"{}\"}}}}", setting.replace('=', "\": \""));
        let why = "every request of its sessions was run again under that lifetime".to_owned();
        finder.add(format!("{name} for {}", short(project)), saves, sum.actual, &setting, why);
    }
}

/// Long tool results.
fn outputs(finder: &mut Finder, sessions: &Sessions, report: &Report, costs: &[Costs]) {
    for agent in [Agent::ClaudeCode, Agent::Codex] {
        let mine = sessions.list.iter().zip(costs).filter(|(session, _)| session.agent == agent);
        let (saves, of) =
            mine.fold((0.0, 0.0), |(saves, of), (_, cost)| (saves + cost.actual - cost.short_results, of + cost.actual));
        let setting = match agent {
            Agent::ClaudeCode => {
                "Claude Code: BASH_MAX_OUTPUT_LENGTH=8000, MAX_MCP_OUTPUT_TOKENS=2000; or the gateway, which shows long outputs in part"
            }
            _ => "Codex, config.toml: tool_output_token_limit = 2000",
        };
        let worst = report.tools.first().map_or("", |tool| tool.name.as_str());
        let why = format!("results over 2,000 tokens are read again by every later request; {worst} costs most");
        finder.add(format!("long tool results out of the prompt ({})", agent.name()), saves, of, setting, why);
    }
}

/// A server that costs more than it is worth is a matter of taste; what it costs is not.
fn servers(finder: &mut Finder, report: &Report) {
    if let Some(server) = report.servers.first() {
        let cost = server.cost + server.cost_later;
        let why = format!("{} results, about {} tokens, most of it paid again by later requests", server.results, server.tokens);
        let setting =
            "Claude Code: MAX_MCP_OUTPUT_TOKENS, or leave the server out of the projects that do not need it (.mcp.json)";
        finder.add(format!("shorter answers of the MCP server {}", server.name), cost * 0.5, cost, setting, why);
    }
}

/// Sub-agents on an expensive model.
fn sub_agents(finder: &mut Finder, sessions: &Sessions, prices: &Prices) {
    let Ok(cheaper) = prices.table().find("claude-haiku-4-5") else { return };
    let (mut now, mut then) = (0.0, 0.0);
    for session in sessions.list.iter().filter(|session| session.agent == Agent::ClaudeCode) {
        for step in session.chains.iter().filter(|chain| chain.name != "main").flat_map(|chain| &chain.steps) {
            if let Some(cost) = prices.call(&step.call).filter(|_| step.counts) {
                now += cost;
                then += cost.min(crate::price::charge(&cheaper, &step.call.tokens, step.call.percent));
            }
        }
    }
    let why = "the same tokens at that model's prices; whether it does the work as well is for you to judge".to_owned();
    finder.add(
        "a smaller model for sub-agents".to_owned(),
        now - then,
        now,
        "Claude Code: CLAUDE_CODE_SUBAGENT_MODEL=haiku",
        why,
    );
}

/// Breaks that habits cause.
fn broken(finder: &mut Finder, report: &Report) {
    for sum in &report.causes {
        let (title, setting) = match sum.cause {
            Cause::Model => (
                "keep one model and effort in a session",
                "choose the model before the first message (--model), start a new session for another one",
            ),
            Cause::Tools => (
                "load tools when a session begins",
                "Claude Code: ENABLE_TOOL_SEARCH=false where few tools are configured; reload plugins between sessions",
            ),
            Cause::Resume => (
                "go on in the running process instead of resuming",
                "leave the session open, or begin a new one from a summary (/compact before /exit)",
            ),
            Cause::Compaction => (
                "compact earlier, at a natural end",
                "Claude Code: /compact at the end of a task, or CLAUDE_AUTOCOMPACT_PCT_OVERRIDE",
            ),
            _ => continue,
        };
        let why = format!("{} breaks, {} tokens written again", sum.count, sum.tokens);
        // Some of it is wanted.
        finder.add(title.to_owned(), sum.cost * 0.7, report.cost, setting, why);
    }
}
