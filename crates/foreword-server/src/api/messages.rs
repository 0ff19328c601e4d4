//! Turns: sending, stopping and editing messages, and the event stream.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use foreword_engine::attach::given_image;
use foreword_engine::session::{Preview, Version};
use foreword_vault_tools::Decision;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::Answer;
use super::given::{Given, Path};
use super::sessions::full_name;
use super::shapes;
use crate::actor::{Message, Turn};
use crate::app::App;
use crate::problem::{BAD_REQUEST, NOT_FOUND, Problem};
use crate::sse::follow;

/// A new message.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMessage {
    /// The text. Notes linked with `[[a note]]` are attached.
    words: String,
    /// Further attachments: a note, folder, tag, line range or URL.
    #[serde(default)]
    attach: Vec<String>,
    /// The note that is open in the user's editor. It is attached, and its images are sent.
    #[serde(default)]
    active_note: Option<String>,
    /// Leave notes, rules and the project as they were when the session took them in, even if they changed since.
    #[serde(default)]
    frozen: bool,
    /// Texts from elsewhere that are attached, such as files that are open in an editor.
    #[serde(default)]
    resources: Vec<GivenResource>,
    /// Images that are sent with the message.
    #[serde(default)]
    images: Vec<GivenImage>,
}

/// A text that is given with a message.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GivenResource {
    /// Where it comes from, for example `file:///home/user/notes.txt`.
    uri: String,
    /// Its text.
    text: String,
}

/// An image that is given with a message.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GivenImage {
    /// Its data in base64: PNG, JPEG, GIF or WebP.
    data: String,
}

impl NewMessage {
    fn message(self) -> Result<Message, Problem> {
        let NewMessage { words, attach, active_note: active, frozen, resources, images } = self;
        if resources.len() + images.len() > MAX_ATTACHMENTS {
            return Err(Problem::new(BAD_REQUEST, format!("more than {MAX_ATTACHMENTS} resources and images")));
        }
        let mut given: Vec<Version> =
            resources.iter().map(|resource| Version::url(&resource.uri, None, &resource.text)).collect();
        let images = images.iter().zip(1..).map(|(image, number)| {
            let bytes = BASE64_STANDARD.decode(&image.data);
            let bytes = bytes.map_err(|_| Problem::new(BAD_REQUEST, format!("image {number} is not base64")))?;
            given_image(number, &bytes).map_err(|error| Problem::new(BAD_REQUEST, format!("image {number}: {error}")))
        });
        given.extend(images.collect::<Result<Vec<_>, _>>()?);
        Ok(Message { words, attach, active, frozen, given })
    }
}

/// A new text for a message.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OtherWords {
    /// The text.
    words: String,
}

/// A turn that has begun.
#[derive(Serialize, ToSchema)]
pub(crate) struct Begun {
    /// The session's ID.
    session: String,
    /// Its first event: a stream with this `Last-Event-ID` receives all later events.
    event: String,
}

type Accepted = Result<(StatusCode, Json<Begun>), Problem>;

/// The largest number of attachments of a message.
const MAX_ATTACHMENTS: usize = 256;

async fn begin(app: &App, session: String, turn: Turn) -> Accepted {
    let session = full_name(app, session).await?;
    let (line, after) = app.hub.turn(&session, turn).await?;
    Ok((StatusCode::ACCEPTED, Json(Begun { session, event: line.feed.id(after) })))
}

fn said(words: &str) -> Result<(), Problem> {
    if words.trim().is_empty() { Err(Problem::new(BAD_REQUEST, "the message is empty")) } else { Ok(()) }
}

/// Rejects an empty message or too many attachments.
pub(super) fn check(words: &str, attach: &[String]) -> Result<(), Problem> {
    said(words)?;
    if attach.len() > MAX_ATTACHMENTS {
        let detail = format!(
            "the message has {} attachments; the limit is {MAX_ATTACHMENTS}. Attach a folder or a tag instead",
            attach.len()
        );
        return Err(Problem::new(BAD_REQUEST, detail));
    }
    Ok(())
}

/// Sends a message. The answer arrives as events.
#[utoipa::path(post, path = "/sessions/{session}/messages", tag = "messages", params(("session" = String, Path)), request_body = NewMessage, responses((status = 202, body = Begun), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn send(State(app): State<Arc<App>>, Path(session): Path<String>, Given(new): Given<NewMessage>) -> Accepted {
    check(&new.words, &new.attach)?;
    begin(&app, session, Turn::New(new.message()?)).await
}

/// Previews the next request: layers, items, tokens and expected cost. Nothing is sent or stored.
#[utoipa::path(post, path = "/sessions/{session}/preview", tag = "messages", params(("session" = String, Path)), request_body = NewMessage, responses((status = 200, body = shapes::Preview), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn preview(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    Given(new): Given<NewMessage>,
) -> Answer<Preview> {
    check(&new.words, &new.attach)?;
    let id = full_name(&app, session).await?;
    let message = new.message()?;
    app.hub.ask(&id, move |desk| desk.preview(message)).await.map(Json)
}

/// Replaces the message of an earlier turn and answers it again. Later turns are no longer part of the session.
#[utoipa::path(put, path = "/sessions/{session}/messages/{turn}", tag = "messages", params(("session" = String, Path), ("turn" = u64, Path, description = "from 1")), request_body = OtherWords, responses((status = 202, body = Begun), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn edit(
    State(app): State<Arc<App>>,
    Path((session, turn)): Path<(String, u64)>,
    Given(new): Given<OtherWords>,
) -> Accepted {
    said(&new.words)?;
    begin(&app, session, Turn::Edit(turn, new.words)).await
}

/// Answers the last message again.
#[utoipa::path(post, path = "/sessions/{session}/regenerate", tag = "messages", params(("session" = String, Path)), responses((status = 202, body = Begun), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn regenerate(State(app): State<Arc<App>>, Path(session): Path<String>) -> Accepted {
    begin(&app, session, Turn::Regenerate).await
}

/// Answers a message that has no answer yet.
#[utoipa::path(post, path = "/sessions/{session}/resume", tag = "messages", params(("session" = String, Path)), responses((status = 202, body = Begun), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn resume(State(app): State<Arc<App>>, Path(session): Path<String>) -> Accepted {
    begin(&app, session, Turn::GoOn).await
}

/// Stops the running turn. Text received so far is kept.
#[utoipa::path(post, path = "/sessions/{session}/stop", tag = "messages", params(("session" = String, Path)), responses((status = 204)))]
pub(crate) async fn stop(State(app): State<Arc<App>>, Path(session): Path<String>) -> Result<StatusCode, Problem> {
    let session = full_name(&app, session).await?;
    if let Some(line) = app.hub.known(&session) {
        line.stop();
    }
    Ok(StatusCode::NO_CONTENT)
}

/// The decision about a pending approval.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answered {
    /// `once`, `session` (allow this tool for the rest of the session) or `no`.
    decision: String,
}

/// Decides an `approval` event: whether the tool may run.
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
        other => return Err(Problem::new(BAD_REQUEST, format!("invalid decision {other:?}: expected once, session or no"))),
    };
    let session = full_name(&app, session).await?;
    let line = app.hub.known(&session).filter(|line| line.approvals.answer(approval, decision));
    line.map(|_| StatusCode::NO_CONTENT).ok_or_else(|| Problem::new(NOT_FOUND, "this approval is no longer pending"))
}

/// Lists the pending approvals, as in their `approval` events.
#[utoipa::path(get, path = "/sessions/{session}/approvals", tag = "tools", params(("session" = String, Path)), responses((status = 200, body = [Object]), (status = 404, body = Problem)))]
pub(crate) async fn approvals(State(app): State<Arc<App>>, Path(session): Path<String>) -> Answer<Vec<Value>> {
    let session = full_name(&app, session).await?;
    Ok(Json(app.hub.known(&session).map(|line| line.approvals.waiting()).unwrap_or_default()))
}

/// Streams the events of a session as server-sent events.
///
/// The events are `turn`, `cache_cold`, `request`, `sources`, `part`, `call`, `result`, `approval`, `approved`, `done`, `problem`, `note` and
/// `changed`. After `lost`, some events are missing, and the session must be read again. A stream begins with the next event, or after
/// the one in `Last-Event-ID`.
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
