//! A conversation as it is simulated: the session, its twin that is never folded, and the cache of its provider.

use std::collections::BTreeMap;
use std::sync::Arc;

use foreword_core::budget::OverBudget;
use foreword_core::catalog::Agent;
use foreword_core::envelope::Envelope;
use foreword_core::layer::LayerId;
use foreword_core::message::Message;
use foreword_core::prompt::CachePrices;
use foreword_core::session::{Due, Input, InputError, Session};
use foreword_core::settings::{HistoryPolicy, Layout, Settings};
use foreword_core::tokens::Tokens;
use foreword_prompt_cache::CacheSim;
use foreword_provider::cost::{cost, uncached_cost};
use foreword_provider::render::{BodyOptions, Next, Renderer};
use foreword_provider::stream::PromptStream;
use serde_json::value::RawValue;

use super::hindsight::Hindsight;
use super::report::{BreakReport, CacheReport, EnvelopeReport, MessageReport, Report, RequestReport, TokensReport, Totals};
use super::reuse::Earlier;
use super::setup::Setup;
use foreword_engine::session::{Before, diagnose, in_common};

pub(super) struct Simulation {
    pub(super) setup: Setup,
    pub(super) session: Session,
    /// The same conversation as one log that is never folded.
    pub(super) unfolded: Session,
    hindsight: Hindsight,
    prices: Arc<CachePrices>,
    /// Whether the model has not been asked yet, so that its cache is empty.
    is_new_model: bool,
    renderer: Renderer,
    cache: CacheSim,
    earlier: Earlier,
    last_messages: Vec<Arc<Message>>,
    last_cut: usize,
    now_s: u64,
    idle_s: u64,
    pub(super) report: Report,
}

impl Simulation {
    pub(super) fn new(name: &str, agent: &Agent, setup: Setup) -> Result<Self, InputError> {
        let start = |settings: Settings| Session::new(agent.clone(), settings, Arc::clone(&setup.tokenizer));
        let session = start(setup.settings.clone())?;
        let unfolded = start(never_folding(&setup.settings))?;
        let report = Report {
            name: name.to_owned(),
            layout: setup.settings.layout.as_str(),
            provider: setup.dialect.as_str(),
            model: setup.model.name.clone(),
            tokenizer: setup.tokenizer.name().to_owned(),
            requests: Vec::new(),
            totals: Totals::default(),
            error: None,
        };
        Ok(Self {
            session,
            unfolded,
            hindsight: Hindsight::new(),
            prices: Arc::new(setup.model.cache_prices()),
            is_new_model: true,
            renderer: Renderer::new(setup.dialect),
            cache: CacheSim::new(),
            earlier: Earlier::default(),
            last_messages: Vec::new(),
            last_cut: 0,
            now_s: 0,
            idle_s: 0,
            setup,
            report,
        })
    }

    /// Time passes. The session is told by who knows that it is to be.
    pub(super) fn pass(&mut self, seconds: u64) {
        self.now_s = self.now_s.saturating_add(seconds);
        self.idle_s = self.idle_s.saturating_add(seconds);
    }

    /// Tells both sessions something; whether the unfolded one could take it, too. What the real session knows, its unfolded twin may not:
    /// an item that a fold has dropped, say.
    pub(super) fn tell(&mut self, input: &Input) -> Result<(Due, bool), InputError> {
        let due = self.session.apply(input.clone())?;
        Ok((due, self.unfolded.apply(input.clone()).is_ok()))
    }

    /// Another model answers from here on; its cache is empty.
    pub(super) fn change_model(&mut self, setup: Setup) -> Due {
        let due = self.session.change_model(&setup.settings, Arc::clone(&setup.tokenizer));
        self.unfolded.change_model(&never_folding(&setup.settings), Arc::clone(&setup.tokenizer));
        self.renderer = Renderer::new(setup.dialect);
        self.cache = CacheSim::new();
        self.prices = Arc::new(setup.model.cache_prices());
        self.is_new_model = true;
        let model = setup.model.name.as_str();
        // The header names all that answered, so that nobody takes the price for that of the first.
        if self.report.model.rsplit(", then ").next() != Some(model) {
            self.report.model = format!("{}, then {model}", self.report.model);
        }
        self.setup = setup;
        due
    }

    /// Whether the provider has forgotten the prompt: the seconds that passed, where that is so.
    pub(super) fn forgotten_after(&self) -> Option<u64> {
        let lifetime = self.setup.model.cache_prices().lifetime_s;
        let asked = !self.report.requests.is_empty();
        lifetime.filter(|lifetime| asked && self.idle_s >= *lifetime).map(|_| self.idle_s)
    }

    /// Makes the request that is due.
    pub(super) fn request(&mut self) -> Result<(), OverBudget> {
        let envelope = self.session.request()?;
        let lifetime = self.setup.model.cache_prices().lifetime_s;
        let cold = self.report.requests.is_empty() || lifetime.is_some_and(|lifetime| self.idle_s >= lifetime);
        if self.unfolded.request().is_ok() {
            let cold = cold || self.is_new_model;
            let budget = &self.session.settings().budget;
            self.hindsight.push(&self.unfolded, envelope.tools.tokens, cold, &self.prices, budget);
        }
        self.is_new_model = false;
        let options = BodyOptions {
            ttl: self.setup.ttl,
            previous_len: Some(in_common(&self.last_messages, self.session.messages())).filter(|len| *len > 0),
            fold_len: self.session.before_next_fold(),
            // Where tools can be called, the next request most likely continues this one.
            next: if envelope.tools.allowed.is_empty() { Next::Turn } else { Next::Step },
            ..BodyOptions::default()
        };
        let body = self.renderer.render(&self.setup.model, &self.session.prompt(&envelope), &options);
        let used = self.cache.request(self.now_s, &body.prompt, &self.setup.model);
        let reusable = self.earlier.reusable(&body.prompt);
        let broke = self.diagnose(&envelope, &body.prompt, used.read, cold);
        let sha256 = body.sha256().to_string();
        let cost = cost(&self.setup.model, &used);
        let totals = &mut self.report.totals;
        totals.requests += 1;
        totals.input_tokens += used.total();
        totals.read += used.read;
        totals.write += used.write;
        totals.uncached += used.uncached;
        totals.cost += cost;
        totals.cost_uncached += uncached_cost(&self.setup.model, used.total());
        self.last_cut = envelope.cut;
        let cache = CacheReport { reusable, read: used.read, write: used.write, uncached: used.uncached, cost, broke };
        let text = String::from_utf8_lossy(&body.bytes).into_owned();
        self.report.requests.push(RequestReport {
            index: self.report.requests.len(),
            turn: envelope.turn,
            epoch: envelope.epoch,
            messages: self.session.messages().iter().map(|message| MessageReport::from(&**message)).collect(),
            context: self.session.context(&envelope),
            tools: envelope.tools.allowed.clone(),
            body: RawValue::from_string(text).unwrap_or_default(),
            body_sha256: sha256,
            tokens: self.tokens(&envelope),
            cache,
            envelope: EnvelopeReport {
                layers: self.session.layers(&envelope).into_iter().map(Into::into).collect(),
                combined_sha256: envelope.combined,
            },
            left_out: envelope.left_out,
            notes: envelope.notes,
            began: envelope.began,
        });
        self.last_messages = self.session.messages().to_vec();
        self.earlier.push(body.prompt);
        self.idle_s = 0;
        Ok(())
    }

    fn tokens(&self, envelope: &Envelope) -> TokensReport {
        let layers = LayerId::ALL.iter().map(|layer| (layer.as_str(), envelope.layers[layer.index()].tokens));
        let by_layer: BTreeMap<_, _> = layers.chain([("TOOLS", envelope.tools.tokens)]).collect();
        TokensReport { total: envelope.tokens, budget: self.session.settings().budget.prompt, by_layer }
    }

    fn diagnose(&self, envelope: &Envelope, prompt: &PromptStream, read: Tokens, cold: bool) -> Option<BreakReport> {
        let before = Before { prompt: self.earlier.last()?, cut: self.last_cut, cold };
        let head = self.session.messages().first().map(|message| &**message);
        diagnose(&before, envelope, head, prompt, &self.setup.model, read)
    }

    /// What came of it.
    pub(super) fn finish(mut self) -> Report {
        let cost = self.report.totals.cost;
        self.report.totals.hindsight_cost = self.hindsight.cost().map_or(cost, |best| best.min(cost));
        self.report
    }
}

/// The same settings for a log that grows without end.
fn never_folding(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    settings.layout = Layout::Log;
    settings.budget.item = Some(settings.budget.item_cap());
    settings.budget.prompt = Tokens(u64::MAX / 4);
    settings.history = HistoryPolicy::Full;
    settings.prices = CachePrices { input: 0.0, read: 0.0, write: 0.0, lifetime_s: None, ..CachePrices::default() };
    settings
}
