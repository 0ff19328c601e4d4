//! Sessions: create, list, search, show, rename and delete.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use foreword_engine::session::{
    Ending, FoundNote, NamedMessage, Point, SessionRow, Shared, Store, current_setup, found_by_turn, is_embedded, named_messages,
    new_session_id,
};
use foreword_vault_tools::chats::Role;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::Answer;
use super::given::{Asked, Given, Path, next_page};
use super::{settings, shapes};
use crate::actor::{Begin, OpenSession};
use crate::app::App;
use crate::hub::SessionHandle;
use crate::problem::{BAD_REQUEST, Problem};

/// The longest title, in characters.
const TITLE: usize = 200;

/// A session in a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct SessionView {
    /// The session's ID.
    id: String,
    /// The title.
    title: Option<String>,
    /// When it was created, in milliseconds since 1970.
    created_ms: i64,
    /// When it was last changed.
    touched_ms: i64,
    /// The session that it was forked from.
    forked_from: Option<String>,
    /// The model.
    model: Option<String>,
    /// The provider.
    provider: Option<String>,
    /// Whether the model is the embedded small one, whose answers are less reliable than its sources.
    small: bool,
    /// `log` or `library`.
    layout: Option<String>,
    /// The number of requests.
    requests: u64,
    /// Whether it belongs to a client of the gateway.
    client: bool,
    /// Whether a turn is running.
    running: bool,
    /// The event after which the running turn's events follow.
    event: Option<String>,
}

impl SessionView {
    pub(super) fn new(app: &App, row: &SessionRow) -> Self {
        let text = |pointer: &str| row.setup.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let line = app.hub.known(&row.id);
        Self {
            id: row.id.clone(),
            title: row.title.clone(),
            created_ms: row.created_ms,
            touched_ms: row.touched_ms,
            forked_from: row.forked_from.clone(),
            model: text("/model/name"),
            provider: text("/dialect"),
            small: text("/model/name").is_some_and(|name| is_embedded(&name)),
            layout: text("/settings/layout"),
            requests: row.counts.requests,
            client: is_of_client(row),
            event: line.as_ref().and_then(SessionHandle::turn_event),
            running: line.is_some_and(|line| line.running.load(Ordering::Relaxed)),
        }
    }
}

/// Whether a session belongs to a client of the gateway.
fn is_of_client(row: &SessionRow) -> bool {
    row.setup.get("client").and_then(Value::as_bool).unwrap_or(false)
}

/// A session with its messages.
#[derive(Serialize, ToSchema)]
pub(crate) struct SessionDetail {
    #[serde(flatten)]
    session: SessionView,
    /// The messages.
    messages: Vec<MessageView>,
}

/// A message.
#[derive(Serialize, ToSchema)]
pub(crate) struct MessageView {
    /// The message's ID: `m12`; null if the user edited it in the session's file, or after a crash.
    id: Option<String>,
    /// `user` or `assistant`.
    #[schema(value_type = String)]
    role: Role,
    /// The text.
    text: String,
    /// Its time in milliseconds since 1970.
    at_ms: Option<i64>,
    /// The turn, from 1.
    turn: u64,
    /// The request that the answer belongs to.
    request: Option<u64>,
    /// The attachments: paths of notes, then URLs.
    attached: Vec<String>,
    /// The model's tool calls.
    calls: Vec<CallView>,
    /// Whether it is incomplete.
    cut_off: bool,
    /// The passages found for an answer, the best first; with its last message.
    #[schema(value_type = [shapes::FoundNote])]
    sources: Vec<FoundNote>,
    /// For an answer: why it ended early. For a question: why it has no answer.
    #[schema(value_type = Option<shapes::Ending>)]
    ending: Option<Ending>,
}

/// A tool call.
#[derive(Serialize, ToSchema)]
pub(crate) struct CallView {
    /// The tool's name.
    name: String,
    /// The arguments.
    #[schema(value_type = Object)]
    arguments: Value,
    /// The result.
    #[schema(value_type = Option<Object>)]
    result: Option<Value>,
}

/// Which sessions to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// The page size. Default: 200.
    #[param(maximum = 1000)]
    limit: Option<usize>,
    /// Only sessions after this position: `touched_ms` and `id` of the previous page's last session, joined by `-`.
    #[param(value_type = Option<String>)]
    before: Option<Place>,
    /// Only sessions of gateway clients (`true`), or only others (`false`).
    client: Option<bool>,
}

/// A position in the list of sessions. A session that is used moves to the start; the order of the others is stable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct Place(Reverse<i64>, String);

impl Place {
    fn of(row: &SessionRow) -> Self {
        Self(Reverse(row.touched_ms), row.id.clone())
    }
}

impl TryFrom<String> for Place {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let place = text.rsplit_once('-').and_then(|(ms, id)| Some(Self(Reverse(ms.parse().ok()?), id.to_owned())));
        place.ok_or_else(|| format!("invalid list position {text:?}: expected touched_ms, `-` and the ID of a session"))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0.0, self.1)
    }
}

/// Lists all sessions, the last used first. The `Link` header leads to the next page.
#[utoipa::path(get, path = "/sessions", tag = "sessions", params(ListQuery), responses((status = 200, body = [SessionView]), (status = 400, body = Problem)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Asked(query): Asked<ListQuery>,
) -> Result<(HeaderMap, Json<Vec<SessionView>>), Problem> {
    let ListQuery { limit, before, client } = query;
    let limit = limit.unwrap_or(200).min(1000);
    let rows = app.common.with_store(|store| Ok(store.sessions()?)).await?;
    let mut shown = rows.iter().filter(|row| {
        let is_behind = before.as_ref().is_none_or(|before| Place::of(row) > *before);
        let is_wanted = client.is_none_or(|client| is_of_client(row) == client);
        is_behind && is_wanted && (row.counts.inputs > 0 || app.hub.known(&row.id).is_some())
    });
    let page: Vec<&SessionRow> = shown.by_ref().take(limit).collect();
    let last = page.last().filter(|_| shown.next().is_some());
    let client = client.map(|client| format!("&client={client}")).unwrap_or_default();
    let next = last.map(|row| format!("/api/v1/sessions?before={}&limit={limit}{client}", Place::of(row)));
    Ok((next_page(next), Json(page.into_iter().map(|row| SessionView::new(&app, row)).collect())))
}

/// Options of a new session.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
pub(crate) struct NewSession {
    /// The model's name. Default: the server's model.
    model: Option<String>,
    /// The layout: `log` or `library`. Default: the agent's, the configured one, or `log`.
    layout: Option<String>,
    /// The agent's name.
    agent: Option<String>,
    /// The project's name.
    project: Option<String>,
    /// The mode: `chat`, `qa`, `plan` or `agent`. Default: the configured one, or `chat` (`qa` for the embedded small model).
    mode: Option<String>,
    /// How older messages are sent: `full` (up to the token budget), `window` (the newest ones), `strip` (the last turns and an
    /// automatic summary) or `managed` (the last turns and a summary made from a template).
    history: Option<String>,
    /// The template of a managed history.
    template: Option<String>,
    /// Further settings: `budget`, `history`, `search` and more (see docs/settings.md).
    #[schema(value_type = Option<Object>)]
    settings: Option<serde_json::Value>,
    /// When tools require approval: `always`, `tool` or `never`. Default: the agent's setting.
    asking: Option<String>,
}

impl NewSession {
    /// Options with an agent and a model, and defaults otherwise.
    pub(super) fn of(agent: Option<String>, model: Option<String>) -> Self {
        Self { model, agent, ..Self::default() }
    }

    /// Resolves the options.
    pub(super) fn read(self, app: &App) -> Result<Begin, Problem> {
        let (layout, history, template) = (self.layout.as_deref(), self.history.as_deref(), self.template.as_deref());
        Ok(Begin {
            settings: settings::session_settings(app, layout, history, template, self.settings)?,
            mode: self.mode.as_deref().map(settings::mode).transpose()?,
            asking: self.asking.as_deref().map(settings::asking).transpose()?,
            chosen: app.config.answers.choose(self.model.as_deref())?,
            agent: self.agent,
            project: self.project,
        })
    }
}

/// Creates a session.
#[utoipa::path(post, path = "/sessions", tag = "sessions", request_body = NewSession, responses((status = 201, body = SessionView), (status = 400, body = Problem)))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Given(new): Given<NewSession>,
) -> Result<(StatusCode, Json<SessionView>), Problem> {
    let begin = new.read(&app)?;
    let id = new_session_id()?;
    app.hub.change(&id, move |desk| desk.begin(begin)).await.inspect_err(|_| app.hub.forget(&id))?;
    let row = app.common.with_store(move |store| Ok(store.session(&id)?)).await?;
    Ok((StatusCode::CREATED, Json(SessionView::new(&app, &row))))
}

/// The full ID of a session, from a prefix or `last`.
pub(super) fn named(store: &Shared, session: &str) -> Result<String, Problem> {
    Ok(session.parse::<Point>()?.session(store)?)
}

/// The same for callers without a store.
pub(super) async fn full_name(app: &App, session: String) -> Result<String, Problem> {
    app.common.with_store(move |store| named(store, &session)).await
}

/// Returns a session with its messages.
#[utoipa::path(get, path = "/sessions/{session}", tag = "sessions", params(("session" = String, Path, description = "its ID, a prefix of it, or `last`")), responses((status = 200, body = SessionDetail), (status = 404, body = Problem)))]
pub(crate) async fn show(State(app): State<Arc<App>>, Path(session): Path<String>) -> Answer<SessionDetail> {
    let (row, messages) = app
        .common
        .with_store(move |store| {
            let row = store.session(&named(store, &session)?)?;
            let messages = messages(store, &row)?;
            let setup = current_setup(store, &row)?;
            Ok((SessionRow { setup, ..row }, messages))
        })
        .await?;
    let (session, mut messages) = (SessionView::new(&app, &row), messages);
    if session.running {
        // What has come in of the answer that is under way is told by its events.
        messages.pop_if(|last| last.cut_off && last.id.is_none());
    }
    Ok(Json(SessionDetail { session, messages }))
}

fn messages(store: &Shared, row: &SessionRow) -> Result<Vec<MessageView>, Problem> {
    let mut turn = 0;
    let entries = named_messages(store, &row.id)?.into_iter().map(|NamedMessage { entry, id, ending, request }| {
        turn += u64::from(entry.role == Role::User);
        let calls =
            entry.calls.into_iter().map(|call| CallView { name: call.name, arguments: call.arguments, result: call.result });
        MessageView {
            id: id.map(|id| id.to_string()),
            role: entry.role,
            text: entry.text,
            at_ms: entry.time.map(jiff::Timestamp::as_millisecond),
            turn,
            request,
            attached: entry.context.notes.into_iter().chain(entry.context.urls).collect(),
            calls: calls.collect(),
            cut_off: entry.cut_off,
            sources: Vec::new(),
            ending,
        }
    });
    let mut messages: Vec<MessageView> = entries.collect();
    let mut found = found_by_turn(store, &row.id)?;
    for message in messages.iter_mut().rev().filter(|message| message.role == Role::Assistant) {
        message.sources = found.remove(&message.turn).unwrap_or_default();
    }
    Ok(messages)
}

/// Changes to a session.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    /// The new title.
    title: String,
}

/// Changes a session's title.
#[utoipa::path(patch, path = "/sessions/{session}", tag = "sessions", params(("session" = String, Path)), request_body = Change, responses((status = 204), (status = 404, body = Problem)))]
pub(crate) async fn change(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    Given(change): Given<Change>,
) -> Result<StatusCode, Problem> {
    let title: String = change.title.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(TITLE).collect();
    if title.is_empty() {
        return Err(Problem::new(BAD_REQUEST, "the title must not be empty"));
    }
    let id = full_name(&app, session).await?;
    app.hub.change(&id, move |desk| desk.rename(&title)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes a session. Its markdown file is kept.
#[utoipa::path(delete, path = "/sessions/{session}", tag = "sessions", params(("session" = String, Path)), responses((status = 204), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn delete(State(app): State<Arc<App>>, Path(session): Path<String>) -> Result<StatusCode, Problem> {
    let id = full_name(&app, session).await?;
    app.hub.change(&id, OpenSession::delete).await?;
    app.hub.forget(&id);
    Ok(StatusCode::NO_CONTENT)
}

/// A search.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchQuery {
    /// Words or prefixes of words, which must all be in one message or in the title.
    q: String,
    /// The largest number of results.
    limit: Option<usize>,
}

/// A message, or a session whose title matches.
#[derive(Serialize, ToSchema)]
#[schema(as = FoundMessage)]
pub(crate) struct FoundView {
    /// The session's ID.
    session: String,
    /// The title.
    title: Option<String>,
    /// The turn, from 1; null if the title matches.
    turn: Option<u64>,
    /// Its time in milliseconds since 1970.
    at_ms: i64,
    /// The text around the match; empty for titles.
    text: String,
}

/// Searches titles, then messages, including messages that left the prompt.
#[utoipa::path(get, path = "/search", tag = "sessions", params(SearchQuery), responses((status = 200, body = [FoundView])))]
pub(crate) async fn search(State(app): State<Arc<App>>, Asked(query): Asked<SearchQuery>) -> Answer<Vec<FoundView>> {
    let store = app.common.store();
    let found = crate::app::blocking(move || {
        let limit = query.limit.unwrap_or(20).min(100);
        let rows = store.sessions()?;
        let titled = rows.iter().filter(|row| row.title.as_deref().is_some_and(|title| has_words(title, &query.q)));
        let titled = titled.map(|row| FoundView {
            session: row.id.clone(),
            title: row.title.clone(),
            turn: None,
            at_ms: row.touched_ms,
            text: String::new(),
        });
        let titles: BTreeMap<&str, Option<&String>> = rows.iter().map(|row| (row.id.as_str(), row.title.as_ref())).collect();
        let found = store.search(&query.q, limit)?.into_iter().map(|found| FoundView {
            title: titles.get(found.session.as_str()).copied().flatten().cloned(),
            turn: Some(found.entry.run + 1),
            at_ms: found.entry.at_ms,
            text: around(&said(&found.entry.body), &query.q),
            session: found.session,
        });
        Ok(titled.chain(found).take(limit).collect())
    });
    Ok(Json(found.await?))
}

/// Whether each word is a prefix of a word in the title.
fn has_words(title: &str, words: &str) -> bool {
    let title = title.to_lowercase();
    let begins = |word: &str| title.split(|c: char| !c.is_alphanumeric()).any(|part| part.starts_with(word));
    let lower = words.to_lowercase();
    let mut wanted = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).peekable();
    wanted.peek().is_some() && wanted.all(begins)
}

/// The text of a log entry.
fn said(body: &Value) -> String {
    match body {
        Value::Array(lines) => lines.iter().filter_map(|line| line.get("text")?.as_str()).collect::<Vec<_>>().join("\n"),
        body => ["words", "text", "output"].iter().find_map(|name| body.get(name)?.as_str()).unwrap_or_default().to_owned(),
    }
}

/// The text around the first match.
fn around(text: &str, words: &str) -> String {
    let lower = text.to_lowercase();
    let at = words.split_whitespace().filter_map(|word| lower.find(&word.to_lowercase())).min().unwrap_or(0);
    let before = lower.get(..at).unwrap_or_default().chars().count();
    text.chars().skip(before.saturating_sub(40)).take(200).collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
}
