//! Everything that a report says, as plain values: the JSON of `foreword audit --json`, and what the screen and the page are drawn from.

use std::collections::BTreeMap;

use foreword_provider::table::ModelTable;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::breaks::{Break, Cause, Evidence, breaks};
use crate::findings::{Finding, findings};
use crate::log::{Agent, Lines, Tokens};
use crate::parts::{Flow, Holding, Kind, flows};
use crate::price::Prices;
use crate::sessions::{Session, Sessions, Step};
use crate::what_if::{Costs, Outcome, SessionFacts, costs, outcomes};

/// The report.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Calls, each once.
    pub calls: u64,
    /// Their tokens.
    pub tokens: Tokens,
    /// The part of the output that was reasoning, where logs say it.
    pub reasoning: u64,
    /// What they cost, in USD.
    pub cost: f64,
    /// The date of the prices.
    pub prices_as_of: String,
    /// When the first call began, and the last one.
    pub span: Option<(Moment, Moment)>,
    /// What could not be priced: calls by model.
    pub unpriced: BTreeMap<String, u64>,
    /// Calls whose output is only what the stream began with.
    pub output_partial: u64,
    /// The sessions.
    pub sessions: Vec<SessionReport>,
    /// Breaks by cause.
    pub causes: Vec<CauseSum>,
    /// What requests did not find because the provider sent them to another machine.
    pub misses: LossSum,
    /// By day, by the clock of this machine.
    pub days: Vec<Group>,
    /// By program.
    pub agents: Vec<Group>,
    /// By folder.
    pub projects: Vec<Group>,
    /// By model.
    pub models: Vec<Group>,
    /// Main threads and sub-agents.
    pub chains: Vec<Group>,
    /// By tool: what its results cost, then and in all later requests that read them again.
    pub tools: Vec<ToolSum>,
    /// The same for MCP servers.
    pub servers: Vec<ToolSum>,
    /// What the prompts were, by what they cost.
    pub parts: Vec<Part>,
    /// The same sessions under other rules.
    pub what_if: Vec<Outcome>,
    /// What is worth doing about it.
    pub findings: Vec<Finding>,
    /// Files that were read.
    pub files: usize,
    /// How their lines were read.
    pub lines: Lines,
    /// What could not be read.
    pub unread: Vec<String>,
}

/// A moment: RFC 3339 in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub i64);

impl Serialize for Moment {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_string())
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => f.write_str("1970-01-01T00:00:00.000Z"),
        }
    }
}

/// A session.
#[derive(Clone, Debug, Serialize)]
pub struct SessionReport {
    /// The program.
    pub agent: Agent,
    /// Its name.
    pub id: String,
    /// Its file.
    pub file: String,
    /// The folder it worked in.
    pub project: String,
    /// When it began.
    pub began: Moment,
    /// When it ended.
    pub ended: Moment,
    /// Its calls.
    pub calls: u64,
    /// Their tokens.
    pub tokens: Tokens,
    /// What they cost.
    pub cost: f64,
    /// Its models.
    pub models: Vec<String>,
    /// Its breaks.
    pub breaks: Vec<BreakReport>,
    /// What its requests did not find because the provider sent them to another machine.
    pub misses: Vec<BreakReport>,
    /// Every call, for the page.
    #[serde(skip)]
    pub bars: Vec<Bar>,
}

/// A break.
#[derive(Clone, Debug, Serialize)]
pub struct BreakReport {
    /// When the call began.
    pub at: Moment,
    /// Why.
    pub cause: Cause,
    /// How sure that is.
    pub evidence: Evidence,
    /// Tokens that could have been read.
    pub tokens: u64,
    /// What that cost.
    pub cost: f64,
    /// Why, in words.
    pub detail: &'static str,
    /// The main thread or a sub-agent.
    pub chain: String,
    /// Seconds without a call before it.
    pub idle_s: i64,
    /// The file and the lines: of the call before, of the sign where there is one, of this call.
    pub file: String,
    /// The lines.
    pub lines: Vec<u32>,
}

/// A call as the page draws it.
#[derive(Clone, Debug, Serialize)]
pub struct Bar {
    /// When it began.
    pub at_ms: i64,
    /// The chain: 0 is the main one.
    pub chain: u32,
    /// Read, written, fresh, output.
    pub tokens: [u64; 4],
    /// What it cost.
    pub cost: f64,
    /// The break, where there is one.
    pub cause: Option<&'static str>,
}

/// Breaks of a cause.
#[derive(Clone, Debug, Serialize)]
pub struct CauseSum {
    /// The cause.
    pub cause: Cause,
    /// Breaks.
    pub count: u64,
    /// Of them, those that the log itself tells.
    pub measured: u64,
    /// Tokens that could have been read.
    pub tokens: u64,
    /// What that cost.
    pub cost: f64,
}

/// Losses without a cause.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LossSum {
    /// How many.
    pub count: u64,
    /// Tokens that could have been read.
    pub tokens: u64,
    /// What that cost.
    pub cost: f64,
}

/// Calls with something in common.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Group {
    /// What they have in common.
    pub name: String,
    /// How many.
    pub calls: u64,
    /// Their tokens.
    pub tokens: Tokens,
    /// What they cost.
    pub cost: f64,
    /// The part of it that breaks cost.
    pub breaks_cost: f64,
}

/// What a tool's results cost.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ToolSum {
    /// The tool, or the server.
    pub name: String,
    /// How often it gave something back.
    pub results: u64,
    /// About so many tokens.
    pub tokens: u64,
    /// What they cost when they joined the prompt.
    pub cost: f64,
    /// What they cost in later requests that had them again.
    pub cost_later: f64,
}

/// What tokens of prompts were.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Part {
    /// What they were.
    pub name: String,
    /// How many, counted once for each request that had them.
    pub tokens: u64,
    /// What they cost.
    pub cost: f64,
}

/// The server of a tool that an MCP server offers.
pub fn server_of(tool: &str) -> Option<&str> {
    let rest = tool.strip_prefix("mcp__")?;
    let server = rest.split_once("__").map_or(rest, |(server, _)| server);
    (!server.is_empty()).then_some(server)
}

#[derive(Default)]
struct Gathering {
    days: BTreeMap<String, Group>,
    agents: BTreeMap<String, Group>,
    projects: BTreeMap<String, Group>,
    models: BTreeMap<String, Group>,
    chains: BTreeMap<String, Group>,
    tools: BTreeMap<String, ToolSum>,
    parts: BTreeMap<String, Part>,
    causes: BTreeMap<Cause, CauseSum>,
}

/// Makes a report of sessions, by the prices of `table`. Days are those of `tz`.
pub fn report(sessions: &Sessions, table: &ModelTable, tz: &TimeZone) -> Report {
    let prices = Prices::new(table, sessions);
    let mut report = Report {
        prices_as_of: prices.as_of().to_owned(),
        lines: sessions.lines,
        files: sessions.files.len(),
        ..Report::default()
    };
    let mut gathering = Gathering::default();
    let mut all_costs: Vec<Costs> = Vec::new();
    for session in &sessions.list {
        let broken: Vec<Vec<Break>> = session.chains.iter().map(|chain| breaks(&prices, chain)).collect();
        let flows: Vec<Vec<Flow>> = session.chains.iter().map(flows).collect();
        all_costs.push(costs(&prices, &SessionFacts { session, breaks: &broken, flows: &flows }));
        gathering.prompts(sessions, &prices, session, &flows);
        let one = one_session(sessions, &prices, session, &broken, &mut report, &mut gathering, tz);
        report.sessions.push(one);
    }
    report.what_if = outcomes(&prices, &sessions.list, &all_costs);
    gathering.finish(&mut report);
    report.findings = findings(sessions, &prices, &report, &all_costs);
    report
}

#[allow(clippy::too_many_arguments)] // one walk over the calls fills everything that sums them
fn one_session(
    sessions: &Sessions,
    prices: &Prices,
    session: &Session,
    broken: &[Vec<Break>],
    report: &mut Report,
    gathering: &mut Gathering,
    tz: &TimeZone,
) -> SessionReport {
    let mut one = SessionReport {
        agent: session.agent,
        id: session.id.clone(),
        file: session.file.clone(),
        project: session.project.clone(),
        began: Moment(i64::MAX),
        ended: Moment(i64::MIN),
        calls: 0,
        tokens: Tokens::default(),
        cost: 0.0,
        models: Vec::new(),
        breaks: Vec::new(),
        misses: Vec::new(),
        bars: Vec::new(),
    };
    for (number, (chain, broken)) in session.chains.iter().zip(broken).enumerate() {
        for (at, step) in chain.steps.iter().enumerate().filter(|(_, step)| step.counts) {
            let call = &step.call;
            let cost = prices.call(call);
            let model = sessions.name(call.model);
            let count = u64::from(call.count);
            if cost.is_none() {
                *report.unpriced.entry(if model.is_empty() { "unknown" } else { model }.to_owned()).or_default() += count;
            }
            let cost = cost.unwrap_or_default();
            let broke = broken.iter().find(|one| one.step == at);
            let lost = broke.map_or(0.0, |one| one.cost);
            one.calls += count;
            one.tokens += call.tokens;
            one.cost += cost;
            one.began = one.began.min(Moment(call.start_ms));
            one.ended = one.ended.max(Moment(call.end_ms));
            report.reasoning = report.reasoning.saturating_add(call.reasoning);
            report.output_partial += u64::from(call.output_partial);
            if !one.models.iter().any(|there| there == model) && !model.is_empty() {
                one.models.push(model.to_owned());
            }
            let day = Timestamp::from_millisecond(call.start_ms)
                .map(|time| time.to_zoned(tz.clone()).date().to_string())
                .unwrap_or_default();
            let thread = if chain.name == "main" { "main thread" } else { "sub-agents" };
            for (groups, name) in [
                (&mut gathering.days, day.as_str()),
                (&mut gathering.agents, session.agent.name()),
                (&mut gathering.projects, session.project.as_str()),
                (&mut gathering.models, model),
                (&mut gathering.chains, thread),
            ] {
                let group = groups.entry(name.to_owned()).or_default();
                group.calls += count;
                group.tokens += call.tokens;
                group.cost += cost;
                group.breaks_cost += lost;
            }
            let tokens = [call.tokens.cache_read, call.tokens.written(), call.tokens.input, call.tokens.output];
            let cause = broke.map(|one| one.cause.name());
            let chain_number = u32::try_from(number).unwrap_or(u32::MAX);
            one.bars.push(Bar { at_ms: call.start_ms, chain: chain_number, tokens, cost, cause });
            if let Some(broke) = broke {
                let told = told(sessions, &chain.steps, broke, &chain.name);
                if broke.cause == Cause::Provider {
                    report.misses.count += 1;
                    report.misses.tokens = report.misses.tokens.saturating_add(broke.tokens);
                    report.misses.cost += broke.cost;
                    one.misses.push(told);
                } else {
                    let sum = gathering.causes.entry(broke.cause).or_insert(CauseSum {
                        cause: broke.cause,
                        count: 0,
                        measured: 0,
                        tokens: 0,
                        cost: 0.0,
                    });
                    sum.count += 1;
                    sum.measured += u64::from(broke.evidence == Evidence::Measured);
                    sum.tokens = sum.tokens.saturating_add(broke.tokens);
                    sum.cost += broke.cost;
                    one.breaks.push(told);
                }
            }
        }
    }
    one.breaks.sort_by_key(|one| one.at);
    one.misses.sort_by_key(|one| one.at);
    one.bars.sort_by_key(|bar| bar.at_ms);
    report.calls += one.calls;
    report.tokens += one.tokens;
    report.cost += one.cost;
    report.span = Some(match report.span {
        Some((from, to)) => (from.min(one.began), to.max(one.ended)),
        None => (one.began, one.ended),
    });
    one
}

fn told(sessions: &Sessions, steps: &[Step], broke: &Break, chain: &str) -> BreakReport {
    let line = |at: usize| steps.get(at).map_or(0, |step| step.call.line);
    let step = steps.get(broke.step);
    let file = step.and_then(|step| sessions.files.get(usize::try_from(step.file).ok()?)).cloned().unwrap_or_default();
    let same_file = |at: usize| steps.get(at).map(|step| step.file) == step.map(|step| step.file);
    let before = broke.step.checked_sub(1).filter(|at| same_file(*at)).map(line);
    let sign = step.map(|step| step.call.sign_line);
    let mut lines: Vec<u32> = [before, sign, Some(line(broke.step))].into_iter().flatten().filter(|line| *line > 0).collect();
    lines.sort_unstable();
    lines.dedup();
    BreakReport {
        at: Moment(step.map_or(0, |step| step.call.start_ms)),
        cause: broke.cause,
        evidence: broke.evidence,
        tokens: broke.tokens,
        cost: broke.cost,
        detail: broke.detail,
        chain: chain.to_owned(),
        idle_s: broke.idle_ms / 1000,
        file,
        lines,
    }
}

impl Gathering {
    /// What the tokens of a session's prompts were, and what they cost.
    fn prompts(&mut self, sessions: &Sessions, prices: &Prices, session: &Session, flows: &[Vec<Flow>]) {
        for (chain, flows) in session.chains.iter().zip(flows) {
            let mut holding = Holding::default();
            for (step, flow) in chain.steps.iter().zip(flows) {
                holding.change(&flow.change);
                let counts = step.counts && step.call.count == 1;
                let prompt = prices.prompt(&step.call).unwrap_or_default();
                let each = prices.each(&step.call);
                // What is new is paid as new; the rest is shared by what was there before.
                let new: f64 = flow.added.iter().map(|(_, tokens)| tokens).sum();
                let first = each.map_or(0.0, |each| each.write);
                let old = holding.tokens().max(1.0);
                let later = if new > 0.0 && holding.parts.is_empty() { 0.0 } else { (prompt - new * first).max(0.0) / old };
                let first = if holding.parts.is_empty() && new > 0.0 { prompt / new } else { first.min(prompt / new.max(1.0)) };
                if counts {
                    for (kind, tokens) in &holding.parts {
                        self.paid(sessions, *kind, *tokens, tokens * later, false);
                    }
                    for (kind, tokens) in &flow.added {
                        self.paid(sessions, *kind, *tokens, tokens * first, true);
                    }
                    for (tool, _) in &step.results {
                        let tool = self.tools.entry(sessions.name(*tool).to_owned()).or_default();
                        tool.results += 1;
                    }
                }
                holding.add(&flow.added);
            }
        }
    }

    fn paid(&mut self, sessions: &Sessions, kind: Kind, tokens: f64, cost: f64, first: bool) {
        let name = match kind {
            Kind::Start => "system prompt and tools",
            Kind::User => "words of the user",
            Kind::Reply => "replies",
            Kind::Summary => "summaries",
            Kind::Other => "reminders and the like",
            Kind::Tool(name) => {
                let tool = self.tools.entry(sessions.name(name).to_owned()).or_default();
                if first {
                    tool.tokens = tool.tokens.saturating_add(whole(tokens));
                    tool.cost += cost;
                } else {
                    tool.cost_later += cost;
                }
                sessions.name(name)
            }
        };
        let name = if matches!(kind, Kind::Tool(_)) { format!("results of {name}") } else { name.to_owned() };
        let part = self.parts.entry(name).or_default();
        part.tokens = part.tokens.saturating_add(whole(tokens));
        part.cost += cost;
    }

    fn finish(self, report: &mut Report) {
        fn named<T>(groups: BTreeMap<String, T>, name: fn(&mut T) -> &mut String, cost: fn(&T) -> f64) -> Vec<T> {
            let mut list: Vec<T> = groups
                .into_iter()
                .map(|(key, mut group)| {
                    *name(&mut group) = key;
                    group
                })
                .collect();
            list.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
            list
        }
        let groups = |groups| named(groups, |group: &mut Group| &mut group.name, |group| group.cost);
        report.days = groups(self.days);
        report.days.sort_by(|a, b| a.name.cmp(&b.name));
        report.agents = groups(self.agents);
        report.projects = groups(self.projects);
        report.models = groups(self.models);
        report.chains = groups(self.chains);
        let mut servers: BTreeMap<String, ToolSum> = BTreeMap::new();
        for (name, tool) in &self.tools {
            if let Some(server) = server_of(name) {
                let sum = servers.entry(server.to_owned()).or_default();
                sum.results += tool.results;
                sum.tokens = sum.tokens.saturating_add(tool.tokens);
                sum.cost += tool.cost;
                sum.cost_later += tool.cost_later;
            }
        }
        let tools = |tools| named(tools, |tool: &mut ToolSum| &mut tool.name, |tool| tool.cost + tool.cost_later);
        report.tools = tools(self.tools);
        report.servers = tools(servers);
        report.parts = named(self.parts, |part: &mut Part| &mut part.name, |part| part.cost);
        report.causes = self.causes.into_values().collect();
        report.causes.sort_by(|a, b| b.cost.total_cmp(&a.cost));
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // token counts are small and not negative
fn whole(tokens: f64) -> u64 {
    tokens.max(0.0).round() as u64
}

impl Report {
    /// Days from the first call to the last, one at least.
    pub fn days_spanned(&self) -> f64 {
        const DAY_MS: f64 = 86_400_000.0;
        self.span.map_or(1.0, |(from, to)| ((to.0 - from.0) as f64 / DAY_MS).max(1.0))
    }

    /// The share of breaks that nothing in the log explains.
    pub fn unexplained(&self) -> f64 {
        let all: u64 = self.causes.iter().map(|sum| sum.count).sum();
        let open: u64 = self.causes.iter().filter(|sum| sum.cause == Cause::Unexplained).map(|sum| sum.count).sum();
        if all == 0 { 0.0 } else { open as f64 / all as f64 }
    }
}
