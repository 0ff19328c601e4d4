//! `webFetch`: a page of the web as markdown, a page of ours at a time.

use std::thread;

use foreword_core::catalog::Tool;
use foreword_tools::{Builtin, Output};
use foreword_web::{Fetcher, Page as WebPage, WebConfig};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime;

use super::pages::Page;
use super::{Reach, VaultTools, brief, described, output, read};
use foreword_trust::VaultTrust;
use foreword_trust::audit::Audit;

pub(super) struct WebFetch {
    desk: VaultTools,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    url: String,
    from_line: Option<usize>,
}

impl WebFetch {
    pub(super) fn new(desk: VaultTools) -> Self {
        Self { desk }
    }

    fn answer(&self, arguments: &Value) -> Result<String, String> {
        let Arguments { url, from_line } = read(arguments)?;
        // On a thread with a runtime of its own: whoever called may be inside of another one, which must neither be blocked on nor drop this one.
        let fetched = thread::scope(|scope| scope.spawn(|| self.fetch(&url)).join());
        let fetched =
            fetched.unwrap_or_else(|_| Err("Fetching the page failed in a way that is a fault of this tool.".to_owned()))?;
        let page = Page::of(&fetched.markdown, from_line.unwrap_or(1), usize::MAX, self.desk.page())?;
        let title = fetched.title.as_deref().map(|title| format!("\ntitle: {}", brief(title))).unwrap_or_default();
        let old = fetched.note().map(|note| format!("\nnote: {}", brief(&note))).unwrap_or_default();
        Ok(format!("{}, {}{title}{old}\n\n{}", brief(&fetched.url), page.place(), page.text))
    }

    fn fetch(&self, url: &str) -> Result<WebPage, String> {
        let allow = {
            let corpus = self.desk.corpus();
            VaultTrust::open_or_restricted(self.desk.places(), corpus.vault().root()).internal_hosts(corpus.vault())
        };
        Audit::new(&self.desk.places().state).url(url, "page");
        let config = WebConfig { allow, ..WebConfig::default() };
        let fetcher = Fetcher::new(config, Some(self.desk.places().pages())).map_err(|error| error.to_string())?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("setting up to fetch pages: {error}"))?;
        runtime.block_on(fetcher.fetch(url, self.desk.now().timestamp())).map_err(|error| error.to_string())
    }
}

impl Builtin for WebFetch {
    fn tool(&self) -> Tool {
        described(
            "webFetch",
            Reach::ReadsOutside,
            "Fetch a page of the public web and give its text as markdown (HTML, plain text, JSON, XML or PDF). Use it for an address that the \
             user gave or that stands in a note; it does not search the web, so do not guess addresses. The user is asked first. Long pages \
             come in parts; the first line of the answer says which lines these are and how to go on. A page fetched within the last day is \
             not fetched again.",
            &json!({
                "url": {"type": "string", "description": "The whole address, with https:// or http://."},
                "fromLine": {"type": "integer", "minimum": 1, "description": "The line to begin with; 1 where it is left out."}
            }),
            &["url"],
        )
    }

    fn run(&mut self, arguments: &Value) -> Output {
        output(self.answer(arguments))
    }
}
