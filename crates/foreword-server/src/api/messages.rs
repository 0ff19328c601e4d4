//! Turns: sending, stopping, saying it otherwise, and the stream of what happens.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use foreword_engine::session::Preview;
use foreword_engine::tools::Decision;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::Answer;
use super::given::{Given, Path};
use super::sessions::full_name;
use super::shapes;
use crate::actor::Turn;
use crate::app::App;
use crate::problem::{BAD_REQUEST, NOT_FOUND, Problem};
use crate::sse::follow;

/// What a person sends.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMessage {
    /// The words. What they link to with `[[a note]]` is attached.
    words: String,
    /// What else is attached: a note, a folder, a tag, lines, an address.
    #[serde(default)]
    attach: Vec<String>,
    /// The note that is open in front of the user: it is attached, and its images are sent along.
    #[serde(default)]
    active_note: Option<String>,
}

/// Other words.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OtherWords {
    /// The words.
    words: String,
}

/// A turn that has begun.
#[derive(Serialize, ToSchema)]
pub(crate) struct Begun {
    /// The session.
    session: String,
    /// Its first event: a stream with this `Last-Event-ID` tells all that follows.
    event: String,
}

type Accepted = Result<(StatusCode, Json<Begun>), Problem>;

/// The most attachments that one message may name.
const MAX_ATTACHMENTS: usize = 256;

async fn begin(app: &App, session: String, turn: Turn) -> Accepted {
    let session = full_name(app, session).await?;
    let (line, after) = app.hub.turn(&session, turn).await?;
    Ok((StatusCode::ACCEPTED, Json(Begun { session, event: line.feed.id(after) })))
}

fn said(words: &str) -> Result<(), Problem> {
    if words.trim().is_empty() { Err(Problem::new(BAD_REQUEST, "a message without words is not sent")) } else { Ok(()) }
}

/// Refuses a message without words or with too many attachments, whether it would be sent or only previewed.
pub(super) fn check(words: &str, attach: &[String]) -> Result<(), Problem> {
    said(words)?;
    if attach.len() > MAX_ATTACHMENTS {
        let detail = format!(
            "the message names {} attachments, and {MAX_ATTACHMENTS} are the most; attach a folder or a tag instead",
            attach.len()
        );
        return Err(Problem::new(BAD_REQUEST, detail));
    }
    Ok(())
}

/// Sends a message. The answer comes as events.
#[utoipa::path(post, path = "/sessions/{session}/messages", tag = "messages", params(("session" = String, Path)), request_body = NewMessage, responses((status = 202, body = Begun), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn send(State(app): State<Arc<App>>, Path(session): Path<String>, Given(new): Given<NewMessage>) -> Accepted {
    check(&new.words, &new.attach)?;
    begin(&app, session, Turn::New(new.words, new.attach, new.active_note)).await
}

/// What a message would lead to: its layers, items, tokens and expected price. Nothing is sent and nothing is kept.
#[utoipa::path(post, path = "/sessions/{session}/preview", tag = "messages", params(("session" = String, Path)), request_body = NewMessage, responses((status = 200, body = shapes::Preview), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn preview(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    Given(new): Given<NewMessage>,
) -> Answer<Preview> {
    check(&new.words, &new.attach)?;
    let id = full_name(&app, session).await?;
    app.hub.ask(&id, move |desk| desk.preview(new.words, &new.attach, new.active_note.as_deref())).await.map(Json)
}

/// Says something else in an earlier turn and answers it anew; what came after it is no longer part of the session.
#[utoipa::path(put, path = "/sessions/{session}/messages/{turn}", tag = "messages", params(("session" = String, Path), ("turn" = u64, Path, description = "from 1")), request_body = OtherWords, responses((status = 202, body = Begun), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn edit(
    State(app): State<Arc<App>>,
    Path((session, turn)): Path<(String, u64)>,
    Given(new): Given<OtherWords>,
) -> Accepted {
    said(&new.words)?;
    begin(&app, session, Turn::Edit(turn, new.words)).await
}

/// Answers the last turn anew.
#[utoipa::path(post, path = "/sessions/{session}/regenerate", tag = "messages", params(("session" = String, Path)), responses((status = 202, body = Begun), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn regenerate(State(app): State<Arc<App>>, Path(session): Path<String>) -> Accepted {
    begin(&app, session, Turn::Regenerate).await
}

/// Answers a question that has no answer yet.
#[utoipa::path(post, path = "/sessions/{session}/resume", tag = "messages", params(("session" = String, Path)), responses((status = 202, body = Begun), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn resume(State(app): State<Arc<App>>, Path(session): Path<String>) -> Accepted {
    begin(&app, session, Turn::GoOn).await
}

/// Ends the turn that runs. What was said until then is kept.
#[utoipa::path(post, path = "/sessions/{session}/stop", tag = "messages", params(("session" = String, Path)), responses((status = 204)))]
pub(crate) async fn stop(State(app): State<Arc<App>>, Path(session): Path<String>) -> Result<StatusCode, Problem> {
    let session = full_name(&app, session).await?;
    if let Some(line) = app.hub.known(&session) {
        line.stop.store(true, Ordering::Relaxed);
    }
    Ok(StatusCode::NO_CONTENT)
}

/// What a person says to a tool that waits.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answered {
    /// `once`, `session` (from now on in this session, for this tool) or `no`.
    decision: String,
}

/// Answers an `approval` event: whether the tool may run.
#[utoipa::path(post, path = "/sessions/{session}/approvals/{approval}", tag = "tools", params(("session" = String, Path), ("approval" = u64, Path)), request_body = Answered, responses((status = 204), (status = 404, body = Problem)))]
pub(crate) async fn approve(
    State(app): State<Arc<App>>,
    Path((session, approval)): Path<(String, u64)>,
    Given(answered): Given<Answered>,
) -> Result<StatusCode, Problem> {
    let decision = match answered.decision.as_str() {
        "once" => Decision::Once,
        "session" => Decision::Session,
        "no" => Decision::No,
        other => return Err(Problem::new(BAD_REQUEST, format!("{other:?} is no decision: expected once, session or no"))),
    };
    let session = full_name(&app, session).await?;
    let line = app.hub.known(&session).filter(|line| line.approvals.answer(approval, decision));
    line.map(|_| StatusCode::NO_CONTENT).ok_or_else(|| Problem::new(NOT_FOUND, "nothing waits for this answer any more"))
}

/// The tools that wait for an answer, as their `approval` events told.
#[utoipa::path(get, path = "/sessions/{session}/approvals", tag = "tools", params(("session" = String, Path)), responses((status = 200, body = [Object]), (status = 404, body = Problem)))]
pub(crate) async fn approvals(State(app): State<Arc<App>>, Path(session): Path<String>) -> Answer<Vec<Value>> {
    let session = full_name(&app, session).await?;
    Ok(Json(app.hub.known(&session).map(|line| line.approvals.waiting()).unwrap_or_default()))
}

/// What happens in a session, as server-sent events: `turn`, `cache_cold`, `request`, `sources`, `part`, `call`, `result`, `approval`, `approved`, `done`, `problem`, `note`, `changed`. `lost`
/// tells that some can no longer be told; then the session is to be read again. A stream begins with what happens next, or behind the event
/// that `Last-Event-ID` names.
#[utoipa::path(get, path = "/sessions/{session}/events", tag = "messages", params(("session" = String, Path), ("last-event-id" = Option<String>, Header)), responses((status = 200, content_type = "text/event-stream", body = String), (status = 404, body = Problem)))]
pub(crate) async fn events(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let session = full_name(&app, session).await?;
    let line = app.hub.line(&session)?;
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    Ok(follow(line.feed, last, app.config.limits.stream, app.end.subscribe()))
}
