//! The web page: static files that are part of the program.

use axum::Router;
use axum::http::{HeaderMap, Method, Uri, header};
use axum::response::Response;
use axum::routing::get;
use foreword_audit::page as report;

use crate::problem::{Hearer, NOT_FOUND, Problem, WRONG_METHOD};

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Each file: where it is served, what it is, and its text.
const FILES: [(&str, &str, &str); 35] = [
    ("/", HTML, include_str!("../web/index.html")),
    ("/api.html", HTML, include_str!("../web/api.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("../web/style.css")),
    ("/icon.svg", "image/svg+xml", include_str!("../web/icon.svg")),
    ("/api.js", SCRIPT, include_str!("../web/api.js")),
    ("/catalog.js", SCRIPT, include_str!("../web/catalog.js")),
    ("/chat.js", SCRIPT, include_str!("../web/chat.js")),
    ("/clients.js", SCRIPT, include_str!("../web/clients.js")),
    ("/composer.js", SCRIPT, include_str!("../web/composer.js")),
    ("/context.js", SCRIPT, include_str!("../web/context.js")),
    ("/dom.js", SCRIPT, include_str!("../web/dom.js")),
    ("/figures.js", SCRIPT, include_str!("../web/figures.js")),
    ("/ending.js", SCRIPT, include_str!("../web/ending.js")),
    ("/fold.js", SCRIPT, include_str!("../web/fold.js")),
    ("/layers.js", SCRIPT, include_str!("../web/layers.js")),
    ("/ledger.js", SCRIPT, include_str!("../web/ledger.js")),
    ("/lines.js", SCRIPT, include_str!("../web/lines.js")),
    ("/main.js", SCRIPT, include_str!("../web/main.js")),
    ("/markdown.js", SCRIPT, include_str!("../web/markdown.js")),
    ("/note.js", SCRIPT, include_str!("../web/note.js")),
    ("/picture.js", SCRIPT, include_str!("../web/picture.js")),
    ("/preview.js", SCRIPT, include_str!("../web/preview.js")),
    ("/report.css", "text/css; charset=utf-8", report::STYLE),
    ("/report.js", SCRIPT, report::SCRIPT),
    ("/reportsheet.js", SCRIPT, include_str!("../web/reportsheet.js")),
    ("/request.js", SCRIPT, include_str!("../web/request.js")),
    ("/sessions.js", SCRIPT, include_str!("../web/sessions.js")),
    ("/settings.js", SCRIPT, include_str!("../web/settings.js")),
    ("/sheet.js", SCRIPT, include_str!("../web/sheet.js")),
    ("/sources.js", SCRIPT, include_str!("../web/sources.js")),
    ("/tabs.js", SCRIPT, include_str!("../web/tabs.js")),
    ("/theme.js", SCRIPT, include_str!("../web/theme.js")),
    ("/trust.js", SCRIPT, include_str!("../web/trust.js")),
    ("/tryit.js", SCRIPT, include_str!("../web/tryit.js")),
    ("/vendor/markdown-it.esm.min.mjs", SCRIPT, include_str!("../web/vendor/markdown-it.esm.min.mjs")),
];

/// Whether a path is one of the page's files.
pub(crate) fn is_file(path: &str) -> bool {
    FILES.iter().any(|(file, ..)| *file == path)
}

/// The routes of the page.
pub(crate) fn router() -> Router {
    FILES.into_iter().fold(Router::new(), |router, (path, kind, text)| {
        // The files change with the program, under the same names.
        router
            .route(path, get(move || async move { ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text) }))
    })
}

/// The handler for unknown paths.
#[allow(clippy::unused_async)] // a handler is a future
pub(crate) async fn missing(uri: Uri, headers: HeaderMap) -> Response {
    Hearer::of(&uri, &headers).told(Problem::new(NOT_FOUND, format!("{:?} not found", uri.path())))
}

/// The handler for unsupported methods. The `Allow` header lists the supported ones.
#[allow(clippy::unused_async)] // a handler is a future
pub(crate) async fn wrong_method(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let detail = format!("{:?} does not support {method}; see the Allow header", uri.path());
    Hearer::of(&uri, &headers).told(Problem::new(WRONG_METHOD, detail))
}

#[cfg(test)]
mod tests {
    use foreword_engine::session::Hash;

    use super::*;

    #[test]
    fn code_of_others_is_what_was_published() {
        let on_record = include_str!("../web/vendor/README.md");
        let vendored: Vec<_> = FILES.iter().filter(|(path, ..)| path.starts_with("/vendor/")).collect();
        assert!(!vendored.is_empty());
        for (path, _, text) in vendored {
            let hash = Hash::of(text).to_string();
            let name = path.rsplit('/').next().unwrap_or_default();
            let is_on_record = on_record.lines().any(|line| line.contains(name) && line.contains(&hash));
            assert!(is_on_record, "{name} has the SHA-256 {hash}, which web/vendor/README.md does not name");
        }
    }
}
