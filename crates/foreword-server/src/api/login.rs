//! Sign-in: exchanges a one-time code for a key that the page adds to each request.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Extension, State};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Answer;
use super::given::Given;
use crate::app::App;
use crate::guard::{Peer, client};
use crate::problem::{INTERNAL, NO_TOKEN, Problem, TOO_MANY};

/// A code.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Code {
    /// The code after `#code=` in the URL that `foreword serve` or `foreword keys url` printed.
    code: String,
}

/// A key.
#[derive(Serialize, ToSchema)]
pub(crate) struct PageKey {
    /// For the `Authorization` header, after `Bearer`. It expires after 30 days, or with the server's token.
    key: String,
}

/// Exchanges a code for a key. A code works once, within a few minutes.
#[allow(clippy::unused_async)] // a handler is a future
#[utoipa::path(post, path = "/login", tag = "server", security(()), request_body = Code, responses((status = 200, body = PageKey), (status = 400, body = Problem), (status = 401, body = Problem)))]
pub(crate) async fn login(
    State(app): State<Arc<App>>,
    Extension(Peer(peer)): Extension<Peer>,
    Given(Code { code }): Given<Code>,
) -> Answer<PageKey> {
    let used = || {
        if app.rates.refused.allows(client(peer), Instant::now()) {
            Problem::new(NO_TOKEN, "this URL was already used or has expired; get a new one with `foreword keys url`")
        } else {
            Problem::new(TOO_MANY, "too many requests from this address; wait a moment")
        }
    };
    let token = app.config.reach.token().ok_or_else(used)?;
    let key = token.take_code(app.port, &code).map_err(|error| Problem::new(INTERNAL, error))?;
    key.map(|key| Json(PageKey { key })).ok_or_else(used)
}
