//! The web page: static files that are part of the program.

use axum::Router;
use axum::http::{Uri, header};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::problem::{NOT_FOUND, Problem};

const HTML: &str = "text/html; charset=utf-8";

/// Each file: where it is served, what it is, and its text.
const FILES: [(&str, &str, &str); 1] = [("/", HTML, include_str!("../web/index.html"))];

/// The routes of the page.
pub(crate) fn router() -> Router {
    FILES.into_iter().fold(Router::new(), |router, (path, kind, text)| {
        // The files change with the program, under the same names.
        router.route(path, get(move || async move { ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text) }))
    })
}

/// Anything else.
pub(crate) async fn missing(uri: Uri) -> impl IntoResponse {
    Problem::new(NOT_FOUND, format!("there is nothing at {:?}", uri.path()))
}
