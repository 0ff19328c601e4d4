//! Past requests: their contents, exact bytes and differences.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use foreword_engine::session::{
    Bar, Difference, Inclusion, Inspection, LayerText, Shared, Store as _, Usage, bars, diff as compare, inspect, layer_texts,
    wire as bytes,
};
use foreword_engine::vault::{Agent, Include, ItemId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::Answer;
use super::catalog::{LeftOutView, told};
use super::given::{Asked, Path};
use super::sessions::named;
use super::shapes;
use crate::app::App;
use crate::problem::{INTERNAL, NOT_FOUND, Problem};

/// Lists the requests of a session: size by layer, cache hits, cache breaks and cost.
#[utoipa::path(get, path = "/sessions/{session}/requests", tag = "requests", params(("session" = String, Path)), responses((status = 200, body = [shapes::Bar]), (status = 404, body = Problem)))]
pub(crate) async fn list(State(app): State<Arc<App>>, Path(session): Path<String>) -> Answer<Vec<Bar>> {
    let bars = app.common.with_store(move |store| Ok(bars(store, &named(store, &session)?)?)).await?;
    Ok(Json(bars.into_iter().map(counted_bar).collect()))
}

/// The tokens of a prompt, as estimated and as counted by the provider. Sizes are scaled to the provider's count, so that they
/// match its cache figures.
#[derive(Clone, Copy)]
struct Count {
    estimated: u64,
    counted: u64,
}

impl Count {
    fn new(estimated: u64, usage: Option<&Usage>) -> Self {
        let counted = usage.map_or(0, |usage| usage.read + usage.write + usage.uncached);
        Self { estimated, counted: if counted == 0 { estimated } else { counted } }
    }

    /// Scales estimated tokens to the provider's count.
    fn of(self, tokens: u64) -> u64 {
        let scaled = u128::from(tokens) * u128::from(self.counted) / u128::from(self.estimated.max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    /// Scales sizes that add up to the prompt, preserving the sum.
    fn of_all<'a>(self, sizes: impl Iterator<Item = &'a mut u64>) {
        let (mut before, mut sum) = (0, 0);
        for size in sizes {
            before += *size;
            let until = self.of(before);
            *size = until - sum;
            sum = until;
        }
    }
}

fn counted_bar(mut bar: Bar) -> Bar {
    let count = Count::new(bar.tokens, bar.usage.as_ref());
    count.of_all(bar.layers.iter_mut());
    bar.tokens = count.counted;
    bar
}

/// Scales all sizes to the provider's count.
pub(crate) fn counted(inspection: &mut Inspection) {
    let count = Count::new(inspection.tokens, inspection.usage.as_ref());
    count.of_all(inspection.layers.iter_mut().map(|layer| &mut layer.tokens.0));
    inspection.tokens = count.counted;
    for layer in &mut inspection.layers {
        layer.segments.iter_mut().for_each(|segment| segment.tokens.0 = count.of(segment.tokens.0));
    }
    for entry in &mut inspection.context {
        entry.tokens.0 = count.of(entry.tokens.0);
    }
}

/// A request with descriptions of its items.
#[derive(Serialize, ToSchema)]
pub(crate) struct RequestView {
    /// The record: layers with segments, items with include mode, score, layer, form and tokens, and what was left out and why.
    #[serde(flatten)]
    #[schema(value_type = shapes::Inspection)]
    inspection: Inspection,
    /// Names, descriptions and priorities of the items, by ID.
    items: BTreeMap<String, LeftOutView>,
}

/// Returns the contents of a request from its record.
#[utoipa::path(get, path = "/sessions/{session}/requests/{request}", tag = "requests", params(("session" = String, Path), ("request" = u64, Path, description = "from 0")), responses((status = 200, body = RequestView), (status = 404, body = Problem)))]
pub(crate) async fn show(State(app): State<Arc<App>>, Path((session, request)): Path<(String, u64)>) -> Answer<RequestView> {
    let found = app.common.with_store(move |store| {
        let id = named(store, &session)?;
        let mut inspection = inspect(store, &id, request)?;
        counted(&mut inspection);
        let before = store.request(&id, request)?.input;
        let Agents { then, now } = Agents::of(store, &id, before)?;
        let context = inspection.context.iter().map(|entry| &entry.item);
        let all: Vec<&ItemId> = context.chain(inspection.left_out.iter().map(|left_out| &left_out.item)).collect();
        let items = all.into_iter().map(|item| {
            // What only came later is still told of, as it is now.
            let agent = if then.find(item).is_some() { &then } else { &now };
            (item.to_string(), told(agent, item))
        });
        let items = items.collect();
        for entry in &mut inspection.context {
            // What joins every session is no choice of a person's, also where it joined this one later.
            if then.find(&entry.item).is_some_and(|item| item.include == Include::Always) {
                entry.include = Inclusion::Always;
            }
        }
        Ok(RequestView { inspection, items })
    });
    found.await.map(Json)
}

/// The agent of a session at the time of a request, and now.
struct Agents {
    then: Agent,
    now: Agent,
}

impl Agents {
    fn of(store: &Shared, session: &str, before: u64) -> Result<Self, Problem> {
        let (mut then, mut now) = (None, None);
        for entry in store.log_packed(session, 0)?.into_iter().filter(|entry| entry.kind == "agent") {
            if entry.number < before {
                then = Some(entry.body.clone());
            }
            now = Some(entry.body);
        }
        let first = store.agent(store.session(session)?.agent)?;
        // An agent that an older Foreword wrote tells nothing rather than hiding the request.
        let read = |packed: Option<Value>| -> Result<Agent, Problem> {
            let value = packed.map_or_else(|| Ok(first.clone()), |packed| store.unpack(packed))?;
            Ok(serde_json::from_value(value).unwrap_or_default())
        };
        Ok(Self { then: read(then)?, now: read(now)? })
    }
}

/// Returns the text of each layer of a request.
#[utoipa::path(get, path = "/sessions/{session}/requests/{request}/layers", tag = "requests", params(("session" = String, Path), ("request" = u64, Path)), responses((status = 200, body = [shapes::LayerText]), (status = 404, body = Problem)))]
pub(crate) async fn layers(State(app): State<Arc<App>>, Path((session, request)): Path<(String, u64)>) -> Answer<Vec<LayerText>> {
    let layers = app.common.with_store(move |store| {
        let id = named(store, &session)?;
        let usage = store.ledger(&id)?.into_iter().find(|(number, _)| *number == request).map(|(_, usage)| usage);
        let count = Count::new(store.request(&id, request)?.tokens, usage.as_ref());
        let mut layers = layer_texts(store, &id, request)?;
        let segments = layers.iter_mut().flat_map(|layer| &mut layer.segments);
        segments.for_each(|segment| segment.tokens = count.of(segment.tokens));
        Ok(layers)
    });
    layers.await.map(Json)
}

/// Returns the exact bytes of a request.
#[utoipa::path(get, path = "/sessions/{session}/requests/{request}/wire", tag = "requests", params(("session" = String, Path), ("request" = u64, Path)), responses((status = 200, body = Object), (status = 404, body = Problem)))]
pub(crate) async fn wire(
    State(app): State<Arc<App>>,
    Path((session, request)): Path<(String, u64)>,
) -> Result<impl IntoResponse, Problem> {
    let body = app.common.with_store(move |store| Ok(bytes(store, &named(store, &session)?, request)?)).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body))
}

/// A message as sent.
#[derive(Serialize, ToSchema)]
pub(crate) struct SentView {
    /// `tools` for the list of tools, or `system`, `user`, `assistant`, `tool`.
    role: String,
    /// The text, followed by tool calls.
    text: String,
}

/// The fields of a stored message.
#[derive(Deserialize)]
struct Recorded {
    role: String,
    #[serde(default)]
    pieces: Vec<RecordedPiece>,
    #[serde(default)]
    calls: Vec<Value>,
}

#[derive(Deserialize)]
struct RecordedPiece {
    text: String,
}

/// Returns the tools and messages of a request, in the order in which the model reads them.
#[utoipa::path(get, path = "/sessions/{session}/requests/{request}/messages", tag = "requests", params(("session" = String, Path), ("request" = u64, Path)), responses((status = 200, body = [SentView]), (status = 404, body = Problem)))]
pub(crate) async fn messages(
    State(app): State<Arc<App>>,
    Path((session, request)): Path<(String, u64)>,
) -> Answer<Vec<SentView>> {
    let found = app.common.with_store(move |store| {
        let id = named(store, &session)?;
        let tools = layer_texts(store, &id, request)?.into_iter().next().into_iter().flat_map(|layer| layer.segments);
        let mut all: Vec<SentView> = tools.map(|tool| SentView { role: "tools".to_owned(), text: tool.text }).collect();
        for value in store.messages(&id, request)? {
            let Recorded { role, pieces, calls } = serde_json::from_value(value).map_err(|error| {
                Problem::new(INTERNAL, format!("cannot read a message of request {request} of session {id}: {error}"))
            })?;
            let words: String = pieces.into_iter().map(|piece| piece.text).collect();
            let said = Some(words).filter(|words| !words.is_empty()).into_iter();
            let lines: Vec<String> = said.chain(calls.iter().map(call)).collect();
            all.push(SentView { role, text: lines.join("\n") });
        }
        Ok(all)
    });
    found.await.map(Json)
}

/// A call as text.
fn call(call: &Value) -> String {
    let name = call.get("name").and_then(Value::as_str).unwrap_or("a tool");
    format!("{name}({})", call.get("arguments").unwrap_or(&Value::Null))
}

/// The request to compare with.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DiffQuery {
    /// The earlier request. Default: the previous one.
    before: Option<u64>,
    /// The session of the earlier request. Default: the same session.
    session: Option<String>,
}

/// Compares a request with an earlier one: first differing byte, item, cause and cost.
#[utoipa::path(get, path = "/sessions/{session}/requests/{request}/diff", tag = "requests", params(("session" = String, Path), ("request" = u64, Path), DiffQuery), responses((status = 200, body = shapes::Difference), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn diff(
    State(app): State<Arc<App>>,
    Path((session, request)): Path<(String, u64)>,
    Asked(query): Asked<DiffQuery>,
) -> Answer<Difference> {
    let found = app.common.with_store(move |store| {
        let id = named(store, &session)?;
        let other = query.session.as_deref().map_or_else(|| Ok(id.clone()), |other| named(store, other))?;
        let Some(before) = query.before.or_else(|| request.checked_sub(1)) else {
            return Err(Problem::new(NOT_FOUND, "the first request has no previous one"));
        };
        Ok(compare(store, (&other, before), (&id, request))?)
    });
    found.await.map(Json)
}
