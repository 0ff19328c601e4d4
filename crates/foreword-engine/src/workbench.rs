//! The workbench: the notes, the search and the tools of a session.

use std::ops::ControlFlow;

use foreword_core::catalog::{Agent, Include};
use foreword_core::item::{ItemId, Kind};
use foreword_core::select::Select;
use foreword_core::session::TurnResult;
use foreword_core::settings::Settings;
use foreword_core::tokens::Tokens;
use foreword_search::index::{Index, Query as Search};
use foreword_tools::{Output, Toolbox};
use tokio_util::sync::CancellationToken;

use crate::session::{Call, Called, Citable, InputError, Outputs, Own, RecordedSession, Scores, Size, Sources, ToolHost};
use foreword_vault_tools::VaultTools;
use foreword_vault_tools::corpus::agent_documents;
use foreword_vault_tools::find::{Detail, MOST_SOURCES, Query, SOURCE_BYTES, render, strategy};
use foreword_vault_tools::vectors;

/// The instruction below the sources of a question.
const CITE: &str = "Answer from these sources alone. Put [^n] behind each statement, n being the number of the source that says so. \
                    Where they do not say, say that the notes do not. Do not list the sources at the end.";

/// The same for a small model, to keep replies short and based on the notes.
const ANSWER: &str = "Answer in one short sentence, with words from the notes above.";

/// The number of sources for a small model and the size of each in bytes: it reads all of them before it answers.
const SMALL: (usize, usize) = (3, 700);

/// Sources may use this fraction of the context window.
const SHARE: u64 = 12;
/// For ordinary text.
const BYTES_PER_TOKEN: usize = 4;

/// The notes, the search and the tools of a session.
pub struct Workbench {
    desk: VaultTools,
    toolbox: Toolbox,
    /// The room for the sources of a question, in bytes.
    room: usize,
    waiting: Waiting,
    /// Tool outputs of a script.
    played: Option<Outputs>,
}

/// The agent's items with the include mode `agent`.
#[derive(Default)]
struct Waiting {
    agent: Option<Agent>,
    index: Index,
}

impl Workbench {
    /// Creates a workbench. Sources use at most a fraction of `window`.
    pub fn new(desk: VaultTools, toolbox: Toolbox, window: Tokens) -> Self {
        let share = usize::try_from(window.0 / SHARE).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN);
        let room = share.min(desk.select().top_n.clamp(1, MOST_SOURCES) * SOURCE_BYTES);
        Self { desk, toolbox, room, waiting: Waiting::default(), played: None }
    }

    /// Uses the tool outputs of a script.
    #[must_use]
    pub fn played(mut self, outputs: Option<Outputs>) -> Self {
        self.played = outputs;
        self
    }

    /// The notes.
    pub fn desk(&self) -> &VaultTools {
        &self.desk
    }

    /// The tools.
    pub fn toolbox(&mut self) -> &mut Toolbox {
        &mut self.toolbox
    }

    /// The agent with the tools that are available now; tools of the engine are kept.
    pub fn equip(&self, agent: &Agent) -> Agent {
        let own = agent.tools.iter().filter(|tool| Own::of(&tool.id()).is_some()).cloned();
        Agent { servers: self.toolbox.servers(), tools: self.toolbox.tools().into_iter().chain(own).collect(), ..agent.clone() }
    }

    /// Updates a session after tools were added or removed.
    pub fn update(&mut self, session: &mut RecordedSession, now_ms: i64) -> Result<(), InputError> {
        if session.setup().is_embedded() {
            return Ok(());
        }
        self.toolbox.changed();
        let agent = self.equip(session.session().agent());
        if agent.tools != session.session().agent().tools {
            session.change_agent(agent, now_ms)?;
        }
        Ok(())
    }
}

impl Waiting {
    /// Updates the index for the agent.
    fn follow(&mut self, agent: &Agent) {
        if self.agent.as_ref() == Some(agent) {
            return;
        }
        self.index = Index::new();
        let items = agent.by_id();
        let waits = |id: &ItemId| items.get(id).is_some_and(|item| item.include == Include::Agent);
        for document in agent_documents(agent).into_iter().filter(|document| waits(&document.id)) {
            self.index.put(document);
        }
        self.agent = Some(agent.clone());
    }
}

impl ToolHost for Workbench {
    fn run(&mut self, call: &Call<'_>, stop: &CancellationToken) -> Output {
        if let Some(outputs) = self.played.as_mut().filter(|outputs| outputs.has(&call.call.name)) {
            return outputs.run(call, stop);
        }
        match &call.tool {
            Ok(Called { tool, arguments }) => self.toolbox.call(tool, arguments, stop),
            Err(why) => Output::failed(why.clone()),
        }
    }

    fn check(&mut self, called: &Called) -> Result<(), String> {
        self.toolbox.check(&called.tool, &called.arguments)
    }

    fn sources(&mut self, words: &str, size: Size, room: Tokens) -> Result<Sources, String> {
        let today = self.desk.now().date();
        let mut select = self.desk.select().within(room);
        let (source_bytes, detail, guidance) = match size {
            Size::Small => (SMALL.1, Detail::Name, ANSWER),
            Size::Large => (self.room / select.top_n.clamp(1, MOST_SOURCES), Detail::All, CITE),
        };
        if size == Size::Small {
            select.top_n = select.top_n.min(SMALL.0);
        }
        let query = Query { text: words, period: None, today, select, kinds: &[Kind::Note], source_bytes };
        let found = self.desk.find(&query);
        // A small model cannot use these remarks; the user sees them in the notes of the request.
        let remarks = found.remarks.iter().filter(|_| size == Size::Large);
        let mut output = remarks.flat_map(|remark| ["(", remark, ")\n"]).collect::<String>();
        let passages = render(&mut output, &found.sources, detail, self.room);
        output.push_str(if passages.is_empty() { "Nothing in the notes fits the question. Say so." } else { guidance });
        let shown = found.sources.into_iter().take(passages.len());
        let citable = shown.map(|source| Citable { number: source.number, path: source.path });
        let result = TurnResult {
            tool: "localSearch".to_owned(),
            output,
            found: passages,
            remarks: found.remarks,
            ..TurnResult::default()
        };
        Ok(Sources { result, citable: citable.collect() })
    }

    fn take_warnings(&mut self) -> Vec<String> {
        self.desk.take_warning().into_iter().collect()
    }

    fn scores(&mut self, words: &str, agent: &Agent, settings: &Settings) -> Result<Scores, String> {
        self.waiting.follow(agent);
        let index = &mut self.waiting.index;
        let (chunks, embedded) = index.chunks();
        if chunks == 0 {
            return Ok(Scores::new());
        }
        let model = self.desk.meaning().load(&mut |_| ControlFlow::Continue(())).ok();
        if let Some(model) = model.filter(|_| embedded < chunks) {
            vectors::embed(index, &self.desk.places().embeddings(), model, &mut |_, _| ControlFlow::Continue(()));
        }
        // The core chooses; here everything is scored. Where tools are chosen apart, they are also scored apart: how sure a score is depends
        // on what it competes with.
        let all = [Kind::Rule, Kind::Reference, Kind::Tool];
        let domains: Vec<(Select, &[Kind])> = match settings.select_tools {
            Some(tools) => vec![(settings.select, &all[..2]), (tools, &all[2..])],
            None => vec![(settings.select, &all)],
        };
        let scores = domains.into_iter().flat_map(|(select, kinds)| {
            let strategy = strategy(select.strategy);
            let search = Search { embedder: model, strategy, kinds, top_n: chunks, top_k: chunks, ..Search::new(words) };
            index.scores(&search)
        });
        Ok(scores.collect())
    }
}
