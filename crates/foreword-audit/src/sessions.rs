//! Logs become sessions: copies of a call are counted once, and the calls of each chain stand in the order in which they were sent.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::log::{Agent, Call, FileLog, Lines, Name, Signs};

/// A call in its session.
#[derive(Clone, Debug)]
pub struct Step {
    /// What the log says of it. Its names point to [`Sessions::names`].
    pub call: Call,
    /// The file it stands in, by its place in [`Sessions::files`].
    pub file: u32,
    /// What tools gave back just before it: the tool and the size.
    pub results: Vec<(Name, u64)>,
    /// Whether it counts: it is no copy, and it is within what was asked for.
    pub counts: bool,
}

/// The calls of the main thread, or of one sub-agent, in the order in which they were sent.
#[derive(Clone, Debug)]
pub struct Chain {
    /// `main`, or the sub-agent.
    pub name: String,
    /// Its calls.
    pub steps: Vec<Step>,
}

/// A session.
#[derive(Clone, Debug)]
pub struct Session {
    /// The program.
    pub agent: Agent,
    /// Its name.
    pub id: String,
    /// Its main file.
    pub file: String,
    /// The folder it worked in.
    pub project: String,
    /// Its chains, the main one first.
    pub chains: Vec<Chain>,
}

/// All sessions.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    /// The sessions, the first begun first.
    pub list: Vec<Session>,
    /// What the names of calls mean.
    pub names: Vec<String>,
    /// Files.
    pub files: Vec<String>,
    /// How lines were read.
    pub lines: Lines,
}

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Calls from this moment on, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// Sessions of a folder: its path, or the end of it.
    pub project: Option<String>,
    /// A session by its name, or the start of it.
    pub session: Option<String>,
}

impl Filter {
    fn takes(&self, session: &Session) -> bool {
        let project = self.project.as_deref().is_none_or(|wanted| {
            let wanted = wanted.trim_end_matches('/');
            session.project == wanted
                || session.project.strip_suffix(wanted).is_some_and(|rest| rest.ends_with('/'))
                || session.project.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('/'))
        });
        project && self.session.as_deref().is_none_or(|wanted| session.id.starts_with(wanted))
    }
}

impl Sessions {
    /// The text of a name.
    pub fn name(&self, name: Name) -> &str {
        usize::try_from(name).ok().and_then(|at| self.names.get(at)).map_or("", String::as_str)
    }

    /// Joins what was read.
    pub fn join(mut logs: Vec<FileLog>, filter: &Filter) -> Self {
        // The oldest first: a copy is what another file had before.
        logs.sort_by(|a, b| begun(a).cmp(&begun(b)).then_with(|| a.part.cmp(&b.part)).then_with(|| a.file.cmp(&b.file)));
        let mut joined = Self::default();
        let mut places: HashMap<String, Name> = HashMap::new();
        let mut seen: HashMap<(Agent, u64), (Agent, String)> = HashMap::new();
        let mut found: BTreeMap<(Agent, String), Gathered> = BTreeMap::new();
        let mut order: Vec<(Agent, String)> = Vec::new();
        for log in logs {
            joined.lines += log.lines;
            let file = u32::try_from(joined.files.len()).unwrap_or_default();
            joined.files.push(log.file.clone());
            let names: Vec<Name> = log
                .names
                .iter()
                .map(|name| {
                    *places.entry(name.clone()).or_insert_with(|| {
                        joined.names.push(name.clone());
                        u32::try_from(joined.names.len() - 1).unwrap_or_default()
                    })
                })
                .collect();
            let mapped = |name: Name| usize::try_from(name).ok().and_then(|at| names.get(at)).copied().unwrap_or_default();
            let key = (log.agent, log.session.clone());
            let gathered = found.entry(key.clone()).or_insert_with(|| {
                order.push(key.clone());
                Gathered::default()
            });
            if gathered.file.is_empty() || (gathered.part && !log.part) {
                gathered.file.clone_from(&log.file);
                gathered.part = log.part;
            }
            if gathered.project.is_empty() || (!log.part && !log.project.is_empty()) {
                gathered.project.clone_from(&log.project);
            }
            let mut results: HashMap<u32, Vec<(Name, u64)>> = HashMap::new();
            for result in &log.results {
                results.entry(result.call).or_default().push((mapped(result.tool), result.chars));
            }
            for (place, mut call) in log.calls.into_iter().enumerate() {
                for name in [&mut call.chain, &mut call.model, &mut call.version, &mut call.effort] {
                    *name = mapped(*name);
                }
                if call.id != 0 {
                    match seen.get(&(log.agent, call.id)) {
                        // The same session has it: once is enough.
                        Some(owner) if *owner == key => {
                            gathered.again(&call);
                            continue;
                        }
                        Some(_) => call.copied = true,
                        None => {
                            seen.insert((log.agent, call.id), key.clone());
                        }
                    }
                }
                let results = u32::try_from(place).ok().and_then(|place| results.remove(&place)).unwrap_or_default();
                let counts = !call.copied && filter.since_ms.is_none_or(|since| call.start_ms.max(call.end_ms) >= since);
                gathered.chains.entry(call.chain).or_default().push(Step { call, file, results, counts });
            }
        }
        for key in order {
            let Some(gathered) = found.remove(&key) else { continue };
            let session = joined.session(key, gathered);
            if filter.takes(&session) && session.chains.iter().flat_map(|chain| &chain.steps).any(|step| step.counts) {
                joined.list.push(session);
            }
        }
        joined
    }

    fn session(&self, (agent, id): (Agent, String), gathered: Gathered) -> Session {
        let mut chains: Vec<Chain> = gathered
            .chains
            .into_iter()
            .map(|(name, mut steps)| {
                steps.sort_by_key(|step| step.call.start_ms);
                // Where copies end, another process went on.
                let mut before = false;
                for step in &mut steps {
                    if before && !step.call.copied {
                        step.call.signs.add(Signs::RESUMED);
                    }
                    before = step.call.copied;
                }
                Chain { name: self.name(name).to_owned(), steps }
            })
            .collect();
        chains.sort_by_key(|chain| (chain.name != "main", chain.steps.first().map_or(0, |step| step.call.start_ms)));
        Session { agent, id, file: gathered.file, project: gathered.project, chains }
    }

    /// Each name once.
    pub fn models(&self) -> HashSet<Name> {
        self.list.iter().flat_map(|session| &session.chains).flat_map(|chain| &chain.steps).map(|step| step.call.model).collect()
    }
}

#[derive(Default)]
struct Gathered {
    file: String,
    part: bool,
    project: String,
    chains: BTreeMap<Name, Vec<Step>>,
}

impl Gathered {
    /// A second record of a call may know how long the reply became.
    fn again(&mut self, call: &Call) {
        /// A record of the same call is not far away.
        const NEAR: usize = 5_000;
        let steps = self.chains.entry(call.chain).or_default();
        if let Some(step) = steps.iter_mut().rev().take(NEAR).find(|step| step.call.id == call.id) {
            step.call.tokens.output = step.call.tokens.output.max(call.tokens.output);
            step.call.output_partial &= call.output_partial;
        }
    }
}

fn begun(log: &FileLog) -> i64 {
    log.calls.iter().map(|call| call.start_ms).filter(|ms| *ms > 0).min().unwrap_or(i64::MAX)
}
