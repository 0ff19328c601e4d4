//! A request: where it goes, what it says, and why.

use std::sync::Arc;

use foreword_provider::dialect::Dialect;
use foreword_provider::endpoint::{self, Delivery};
use foreword_provider::render::Body;
use serde_json::Value;

use crate::Explanation;
use crate::session::Setup;

/// A request for any HTTP client: POST [`Request::body`] with [`Request::headers`] to [`Request::url`].
///
/// ```
/// # fn main() -> Result<(), foreword::Error> {
/// let mut session = foreword::Session::builder("claude-sonnet-5").build()?;
/// let request = session.turn("Hello").request()?;
/// assert_eq!(request.url(), "https://api.anthropic.com/v1/messages");
/// assert!(request.headers("my-key").contains(&("x-api-key".to_owned(), "my-key".to_owned())));
/// assert_eq!(request.json()["messages"][0]["role"], "user");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Request {
    body: Arc<Body>,
    explanation: Arc<Explanation>,
    setup: Arc<Setup>,
}

impl Request {
    pub(crate) fn new(setup: &Arc<Setup>, body: &Body, explanation: Explanation) -> Self {
        Self { body: Arc::new(body.clone()), explanation: Arc::new(explanation), setup: Arc::clone(setup) }
    }

    #[cfg(feature = "client")]
    pub(crate) fn parts(&self) -> (&foreword_provider::model::Model, &Body, Delivery) {
        (&self.setup.model, &self.body, self.delivery())
    }

    fn delivery(&self) -> Delivery {
        if self.setup.stream { Delivery::Stream } else { Delivery::Whole }
    }

    /// The body: canonical JSON, byte for byte what the cache should see. Send these bytes and not a copy that was parsed and
    /// written again.
    pub fn body(&self) -> &[u8] {
        &self.body.bytes
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body.bytes).unwrap_or_default()
    }

    /// The body as a JSON value, to look at.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body.bytes).unwrap_or_default()
    }

    /// The SHA-256 of the body, in hex.
    pub fn sha256(&self) -> String {
        self.body.sha256().to_string()
    }

    /// The headers, with the provider's key.
    pub fn headers(&self, key: &str) -> Vec<(String, String)> {
        let dialect = self.setup.dialect;
        let plain = endpoint::headers(dialect).iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let (name, value) = endpoint::key_header(dialect, key);
        plain.chain(std::iter::once((name.to_owned(), value))).collect()
    }

    /// The address at the format's own provider.
    pub fn url(&self) -> String {
        self.url_at(endpoint::base_url(self.setup.dialect))
    }

    /// The address at another server that speaks the same format: `http://127.0.0.1:8080/v1`.
    pub fn url_at(&self, base: &str) -> String {
        let (path, query) = endpoint::path(self.setup.dialect, &self.setup.model, self.delivery());
        let path: Vec<String> = path.iter().map(|segment| escaped(segment)).collect();
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}/{}{query}", base.trim_end_matches('/'), path.join("/"))
    }

    /// The format of the request and of its answer.
    pub fn dialect(&self) -> Dialect {
        self.setup.dialect
    }

    /// What the request contains and why, what was left out, and what it will cost.
    pub fn explanation(&self) -> &Explanation {
        &self.explanation
    }
}

/// A segment of a path, with what may not stand there escaped.
fn escaped(segment: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'@' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    segment.bytes().map(one).collect()
}
