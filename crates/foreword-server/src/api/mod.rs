//! The HTTP API under `/api/v1` and its `OpenAPI` document.

mod begin;
mod catalog;
mod clients;
mod forwarded;
mod given;
mod history;
mod items;
mod ledger;
mod login;
mod messages;
mod pins;
mod requests;
mod sessions;
mod settings;
mod shapes;
mod templates;
mod trust;
mod vault;

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use foreword_engine::session::{Health as StoreHealth, Store};
use serde::Serialize;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::problem::{NOT_STORED, Problem};

pub(crate) use requests::counted;

/// The result of a handler.
pub(crate) type Answer<T> = Result<Json<T>, Problem>;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Foreword",
        description = "Sessions (conversations) over a folder of notes: messages, the context sent to the model, and why. Errors are RFC 9457 problem documents.",
        license(name = "MIT OR Apache-2.0")
    ),
    // A server that was started with `--no-auth` needs none.
    security(("token" = []), ("key" = [])),
    modifiers(&Token)
)]
struct Described;

/// How a request presents the server's token.
struct Token;

impl Modify for Token {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        let mut bearer = Http::new(HttpAuthScheme::Bearer);
        bearer.description =
            Some("The server's token (see `foreword keys token`), or the key of a signed-in page. Not required if the server was started with `--no-auth`.".to_owned());
        components.add_security_scheme("token", SecurityScheme::Http(bearer));
        let key = ApiKeyValue::with_description("x-api-key", "The same, in the header that Anthropic's clients send.");
        components.add_security_scheme("key", SecurityScheme::ApiKey(ApiKey::Header(key)));
    }
}

/// The routes of the API with their description.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let (router, description) = OpenApiRouter::with_openapi(Described::openapi()).nest("/api/v1", routes()).split_for_parts();
    let text: Arc<str> = description.to_json().unwrap_or_default().into();
    let document = move || async move { ([("content-type", "application/json")], text.to_string()) };
    // The conventional names for health checks.
    let probes = Router::new().route("/healthz", get(health)).route("/readyz", get(probe));
    router.route("/api/v1/openapi.json", get(document)).merge(probes).with_state(Arc::clone(app))
}

fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(health))
        .routes(routes!(ready))
        .routes(routes!(login::login))
        .routes(routes!(catalog::agents, items::create_agent))
        .routes(routes!(catalog::agent, catalog::edit_agent))
        .routes(routes!(items::create))
        .routes(routes!(items::show, items::edit, items::remove))
        .routes(routes!(catalog::models))
        .routes(routes!(sessions::list, sessions::create))
        .routes(routes!(sessions::search))
        .routes(routes!(sessions::show, sessions::change, sessions::delete))
        .routes(routes!(catalog::items, catalog::add, catalog::remove))
        .routes(routes!(history::fork))
        .routes(routes!(history::rewind))
        .routes(routes!(history::preview_fold, history::fold, history::undo_fold))
        .routes(routes!(history::summaries))
        .routes(routes!(pins::list, pins::add, pins::remove))
        .routes(routes!(settings::show, settings::set))
        .routes(routes!(settings::take_agent))
        .routes(routes!(settings::tools))
        .routes(routes!(templates::list))
        .routes(routes!(templates::check))
        .routes(routes!(templates::show))
        .routes(routes!(messages::send))
        .routes(routes!(messages::preview))
        .routes(routes!(begin::preview))
        .routes(routes!(begin::tools))
        .routes(routes!(messages::edit))
        .routes(routes!(messages::regenerate))
        .routes(routes!(messages::resume))
        .routes(routes!(messages::stop))
        .routes(routes!(messages::approvals))
        .routes(routes!(messages::approve))
        .routes(routes!(messages::events))
        .routes(routes!(requests::list))
        .routes(routes!(requests::show))
        .routes(routes!(requests::layers))
        .routes(routes!(requests::messages))
        .routes(routes!(requests::wire))
        .routes(routes!(requests::diff))
        .routes(routes!(ledger::show))
        .routes(routes!(ledger::report))
        .routes(routes!(ledger::of_session))
        .routes(routes!(clients::list))
        .routes(routes!(clients::show))
        .routes(routes!(forwarded::list))
        .routes(routes!(forwarded::show))
        .routes(routes!(trust::show, trust::decide, trust::revoke))
        .routes(routes!(vault::tree))
        .routes(routes!(vault::note))
        .routes(routes!(vault::complete))
        .routes(routes!(vault::search))
}

/// The state of the server.
#[derive(Serialize, ToSchema)]
struct Health {
    /// Always `ok`.
    status: &'static str,
    /// Foreword's version.
    version: &'static str,
}

/// Returns whether the server is running.
#[allow(clippy::unused_async)] // a handler is a future
#[utoipa::path(get, path = "/health", tag = "server", security(()), responses((status = 200, body = Health)))]
async fn health() -> Json<Health> {
    Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

/// Returns whether the store can be read and written, or what is wrong.
#[utoipa::path(get, path = "/ready", tag = "server", responses((status = 200, body = Health), (status = 503, body = Problem)))]
async fn ready(State(app): State<Arc<App>>) -> Answer<Health> {
    app.common
        .with_store(|store| match store.health() {
            StoreHealth::Well => Ok(Store::sessions(store).map(drop)?),
            StoreHealth::Failing { why, .. } => Err(Problem::new(NOT_STORED, format!("the store does not accept writes: {why}"))),
        })
        .await?;
    Ok(health().await)
}

/// Returns the same without a token and without details.
async fn probe(State(app): State<Arc<App>>) -> Answer<Health> {
    ready(State(app)).await.map_err(|_| Problem::new(NOT_STORED, "the store does not accept writes; see /api/v1/ready"))
}
