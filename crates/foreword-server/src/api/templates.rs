//! Templates: which there are, what one says, and whether it says what it means.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use foreword_engine::manager::DEFAULT_TEMPLATE;
use foreword_engine::templates::{Listed, Parsed, Template, parse};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Answer;
use super::given::{Given, Path};
use crate::app::{App, blocking};
use crate::problem::{BAD_REQUEST, Problem};

/// Longer ones are not read.
const MOST_BYTES: usize = 256 << 10;

/// A template in the list.
#[derive(Serialize, ToSchema)]
pub(crate) struct ListedView {
    /// Its name, where it comes from, its file, what it is for, whether another of its name comes first, how many things in it are wrong.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    listed: Listed,
    /// Whether it is the one of a managed history that names none.
    default: bool,
}

/// All templates, by name.
#[utoipa::path(get, path = "/templates", tag = "templates", responses((status = 200, body = [ListedView])))]
pub(crate) async fn list(State(app): State<Arc<App>>) -> Answer<Vec<ListedView>> {
    let common = Arc::clone(&app.common);
    let view = |listed: Listed| ListedView { default: listed.name == DEFAULT_TEMPLATE && !listed.hidden, listed };
    blocking(move || Ok(common.shelf().list().into_iter().map(view).collect())).await.map(Json)
}

/// A template.
#[derive(Serialize, ToSchema)]
pub(crate) struct TemplateView {
    /// What it says, step by step, and what is wrong with it.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    template: Template,
    /// Its text as it is written.
    text: String,
}

/// A template as it is written and as it is understood.
#[utoipa::path(get, path = "/templates/{template}", tag = "templates", params(("template" = String, Path)), responses((status = 200, body = TemplateView), (status = 404, body = Problem)))]
pub(crate) async fn show(State(app): State<Arc<App>>, Path(name): Path<String>) -> Answer<TemplateView> {
    let common = Arc::clone(&app.common);
    let found = blocking(move || {
        let (template, text) = common.shelf().to_look_at().read(&name)?;
        Ok(TemplateView { template, text })
    });
    found.await.map(Json)
}

/// The text of a template.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TemplateText {
    /// As it would be written.
    text: String,
}

/// How a text would be understood as a template, and what is wrong with it. Nothing is kept.
#[utoipa::path(post, path = "/templates/check", tag = "templates", request_body = TemplateText, responses((status = 200, body = Object), (status = 400, body = Problem)))]
pub(crate) async fn check(Given(given): Given<TemplateText>) -> Answer<Parsed> {
    if given.text.len() > MOST_BYTES {
        return Err(Problem::new(BAD_REQUEST, format!("a template has at most {MOST_BYTES} bytes")));
    }
    blocking(move || Ok(parse(&given.text))).await.map(Json)
}
