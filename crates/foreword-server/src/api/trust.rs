//! Permissions that the vault asks for, and the user's decisions.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use foreword_trust::{ClaimView, TrustError, Verdict};
use foreword_vault_tools::sandbox;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Answer;
use super::given::Given;
use crate::app::{App, blocking};
use crate::problem::{BAD_REQUEST, CHANGED, Problem, UNAVAILABLE};

/// The largest number of decisions per request.
const MAX_DECISIONS: usize = 1_000;

/// The permissions that the vault asks for.
#[derive(Serialize, ToSchema)]
pub(crate) struct TrustView {
    /// The vault's folder.
    vault: String,
    /// Whether decisions are pending.
    restricted: bool,
    /// Where sessions are stored while the vault's `.foreword` folder is not trusted.
    state_outside: Option<String>,
    /// Why programs cannot run in a sandbox; null if they can.
    no_sandbox: Option<String>,
    /// The claims: each has no effect until it is allowed.
    #[schema(value_type = [ClaimSchema])]
    claims: Vec<ClaimView>,
}

/// A claim: something that has no effect until it is allowed.
#[derive(Serialize, ToSchema)]
#[allow(dead_code)] // it describes another crate's type
struct ClaimSchema {
    /// The claim's ID, which is stable while its content changes.
    id: String,
    /// `tool_server`, `project_pages`, `internal_hosts`, `template`, `instructions` or `state`.
    kind: String,
    /// A one-line title.
    title: String,
    /// The effects, line by line.
    effects: Vec<String>,
    /// The file or folder in the vault.
    file: String,
    /// The content that a decision applies to.
    content: String,
    /// Whether it starts a program, which can be given access to the network and the home folder.
    program: bool,
    /// The hash of the content.
    sha256: String,
    /// `allowed`, `declined`, `new` or `changed`.
    standing: String,
    /// What its program may access, if it is allowed.
    grants: Option<GrantsSchema>,
    /// The difference since the decision, if it changed.
    diff: Option<String>,
}

/// What a program may access beyond the vault.
#[derive(Serialize, Deserialize, ToSchema)]
#[allow(dead_code)] // it describes another crate's type
struct GrantsSchema {
    /// The network.
    network: bool,
    /// The user's home folder.
    home: bool,
    /// Everything, because there was no sandbox when the user decided. Clients cannot set it.
    unconfined: bool,
}

/// Decisions.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decisions {
    /// The decisions.
    #[schema(value_type = [DecisionSchema])]
    decisions: Vec<Verdict>,
}

/// A decision about exactly what was shown.
#[derive(Deserialize, ToSchema)]
#[allow(dead_code)] // it describes another crate's type
struct DecisionSchema {
    /// The claim's ID.
    id: String,
    /// The hash of its content as shown.
    sha256: String,
    /// Whether it is allowed.
    allowed: bool,
    /// What its program may access. Default: nothing.
    grants: Option<GrantsSchema>,
}

impl From<TrustError> for Problem {
    fn from(error: TrustError) -> Self {
        match error {
            TrustError::Changed(_) => Self::new(CHANGED, error),
            TrustError::File { .. } | TrustError::Damaged { .. } | TrustError::Sessions { .. } => Self::new(UNAVAILABLE, error),
        }
    }
}

fn view(app: &App) -> TrustView {
    let vault = app.common.vault();
    let trust = app.common.trust();
    let claims: Vec<ClaimView> = trust.claims(&vault).into_iter().map(ClaimView::from).collect();
    let state = trust.state();
    TrustView {
        vault: vault.root().display().to_string(),
        restricted: claims.iter().any(|claim| claim.standing.is_open()),
        state_outside: state.outside.then(|| state.path.display().to_string()),
        no_sandbox: sandbox::availability().err(),
        claims,
    }
}

/// Returns the permissions that the vault asks for, and the decisions.
#[utoipa::path(get, path = "/trust", tag = "trust", responses((status = 200, body = TrustView)))]
pub(crate) async fn show(State(app): State<Arc<App>>) -> Answer<TrustView> {
    blocking(move || Ok(view(&app))).await.map(Json)
}

/// Decides about claims. If any of them changed since it was shown, no decision is saved.
#[utoipa::path(post, path = "/trust", tag = "trust", request_body = Decisions, responses((status = 200, body = TrustView), (status = 400, body = Problem), (status = 412, body = Problem)))]
pub(crate) async fn decide(State(app): State<Arc<App>>, Given(given): Given<Decisions>) -> Answer<TrustView> {
    if given.decisions.len() > MAX_DECISIONS {
        return Err(Problem::new(BAD_REQUEST, format!("at most {MAX_DECISIONS} decisions per request")));
    }
    let verdicts = given.decisions;
    blocking(move || {
        let mut trust = app.common.trust();
        trust.decide(&app.common.vault(), &verdicts)?;
        Ok(view(&app))
    })
    .await
    .map(Json)
}

/// Deletes all decisions about the vault.
#[utoipa::path(delete, path = "/trust", tag = "trust", responses((status = 200, body = TrustView), (status = 503, body = Problem)))]
pub(crate) async fn revoke(State(app): State<Arc<App>>) -> Answer<TrustView> {
    blocking(move || {
        app.common.trust().revoke()?;
        Ok(view(&app))
    })
    .await
    .map(Json)
}
