//! The API without a network, for a program that offers sessions in another way, such as an editor's protocol. It begins, runs and
//! stores sessions exactly as the HTTP API does.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tokio::sync::watch;

use crate::app::App;
use crate::config::Config;
use crate::feed::{Feed, Next};
use crate::listen::ServeError;
use crate::{api, problem::Problem};

/// The largest answer in bytes.
const MOST_ANSWER: usize = 64 << 20;

/// The API of one vault.
#[derive(Clone)]
pub struct InProcess {
    app: Arc<App>,
    router: Router,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct CallError {
    /// The HTTP status.
    pub status: u16,
    /// What happened and what to do.
    pub detail: String,
}

impl From<Problem> for CallError {
    fn from(problem: Problem) -> Self {
        Self { status: problem.status, detail: problem.detail }
    }
}

impl InProcess {
    /// Opens the vault; to be called within a runtime.
    pub fn start(config: Config) -> Result<Self, ServeError> {
        let app = Arc::new(App::new(config, 0)?);
        let limit = axum::extract::DefaultBodyLimit::max(app.config.limits.body);
        let router = api::router(&app).layer(limit);
        Ok(Self { app, router })
    }

    /// Calls the API: `path` begins behind `/api/v1`. An answer without a body is null.
    pub async fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, CallError> {
        let wrong = |error: &dyn std::fmt::Display| CallError {
            status: StatusCode::INTERNAL_SERVER_ERROR.as_u16(),
            detail: error.to_string(),
        };
        let request = Request::builder().method(method).uri(format!("/api/v1{path}"));
        let request = match body {
            Some(body) => request.header(header::CONTENT_TYPE, "application/json").body(Body::from(body.to_string())),
            None => request.body(Body::empty()),
        };
        let request = request.map_err(|error| wrong(&error))?;
        let Ok(response) = TowerToHyperService::new(self.router.clone()).call(request).await;
        let status = response.status();
        let bytes = to_bytes(response.into_body(), MOST_ANSWER).await.map_err(|error| wrong(&error))?;
        let value = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).map_err(|error| wrong(&error))? };
        if status.is_success() {
            return Ok(value);
        }
        let detail = value.get("detail").and_then(Value::as_str).unwrap_or_else(|| status.as_str());
        Err(CallError { status: status.as_u16(), detail: detail.to_owned() })
    }

    /// The events of a session from now on.
    pub fn events(&self, session: &str) -> Result<Events, CallError> {
        let feed = self.app.hub.line(session)?.feed;
        Ok(Events { at: feed.last(), news: feed.watch(), feed })
    }

    /// Stops all turns and stores what came of them.
    pub async fn close(&self) {
        self.app.hub.stop_all();
        let (app, grace) = (Arc::clone(&self.app), self.app.config.limits.grace);
        let _ = tokio::task::spawn_blocking(move || app.hub.close(grace)).await;
    }
}

/// The events of a session, as the event stream of the API has them.
pub struct Events {
    feed: Arc<Feed>,
    at: u64,
    news: watch::Receiver<u64>,
}

impl Events {
    /// The next events, as name and data; `lost` if some were missed. Waits for at least one.
    pub async fn next(&mut self) -> Vec<(&'static str, Value)> {
        loop {
            self.news.mark_unchanged();
            match self.feed.after(self.at) {
                Next::Lost(last) => {
                    self.at = last;
                    return vec![("lost", Value::Null)];
                }
                Next::Events(events) if !events.is_empty() => {
                    self.at = events.last().map_or(self.at, |event| event.number);
                    let read = |data: &str| serde_json::from_str(data).unwrap_or(Value::Null);
                    return events.into_iter().map(|event| (event.name, read(&event.data))).collect();
                }
                Next::Events(_) => {}
            }
            // The feed is held here, so it does not end.
            let _ = self.news.changed().await;
        }
    }
}
