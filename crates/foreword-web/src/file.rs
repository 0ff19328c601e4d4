//! Files from a place that the user has configured, byte by byte: no cache and no conversion. The caller checks what it gets.
//!
//! The place itself may be on a private network, because the user named it. A redirect may lead to the same place or to the public internet,
//! over HTTPS.

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::header::{ACCEPT_ENCODING, CONTENT_RANGE, RANGE};
use reqwest::{Client, Response, StatusCode, redirect};
use url::{Host, Url};

use super::address::is_public;
use super::resolve::{Checked, Pass, System};
use super::{MAX_HEADERS, innermost, parse, redirected};

const MAX_REDIRECTS: usize = 5;
/// After this long without a byte, a server is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// No download takes longer.
const MAX_DURATION: Duration = Duration::from_hours(1);
/// How often the caller is asked whether to go on while nothing comes in.
const TICK: Duration = Duration::from_millis(100);

/// A file that could not be had. No message holds a query, which may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The address cannot be used.
    #[error("invalid URL {url:?} ({why}); write it as https://host/folder")]
    Address {
        /// The address.
        url: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A redirect was not followed.
    #[error("{url}: redirect to {to} not followed: {why}")]
    Redirect {
        /// Where it came from.
        url: String,
        /// Where it leads.
        to: String,
        /// Why it is not followed.
        why: &'static str,
    },
    /// The server refused.
    #[error("{url}: the server answered {status}")]
    Status {
        /// The address.
        url: String,
        /// What it answered.
        status: u16,
    },
    /// The server gave another part than the one that was asked for.
    #[error("{url}: the server did not resume the download at byte {start}")]
    Part {
        /// The address.
        url: String,
        /// Where it should begin.
        start: u64,
    },
    /// Nothing came in, or it took too long.
    #[error("{url}: no data for {} seconds, or longer than {} minutes", PATIENCE.as_secs(), MAX_DURATION.as_secs() / 60)]
    TooSlow {
        /// The address.
        url: String,
    },
    /// No connection.
    #[error("{url}: {why}")]
    Network {
        /// The address.
        url: String,
        /// What went wrong.
        why: String,
    },
}

/// A folder on a server.
pub struct FileSource {
    base: Url,
    /// For the server that the user named.
    own: Client,
    /// For wherever it leads.
    public: Client,
}

/// An address as it may be told.
fn told(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

/// The address of an IP literal.
fn literal(url: &Url) -> Option<IpAddr> {
    match url.host() {
        Some(Host::Ipv4(address)) => Some(address.into()),
        Some(Host::Ipv6(address)) => Some(address.into()),
        Some(Host::Domain(_)) | None => None,
    }
}

impl FileSource {
    /// The folder at `url`. Only https, except on this machine by its address.
    pub fn new(url: &str) -> Result<Self, FileError> {
        let wrong = |why| FileError::Address { url: url.split(['?', '#']).next().unwrap_or_default().to_owned(), why };
        let base = parse(url)
            .map_err(|_| FileError::Address { url: String::new(), why: "not a valid URL, or it contains a password" })?;
        if base.scheme() != "https" && !literal(&base).is_some_and(|address| address.is_loopback()) {
            return Err(wrong("only https is supported"));
        }
        // An error says that a provider is there already, which will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = |pass| {
            let builder = Client::builder()
                .no_proxy()
                .redirect(redirect::Policy::none())
                .referer(false)
                .user_agent(concat!("foreword/", env!("CARGO_PKG_VERSION")))
                .http1_max_headers(MAX_HEADERS)
                .connect_timeout(PATIENCE)
                .dns_resolver(Checked { lookup: Arc::new(System), pass });
            builder.build().map_err(|error| FileError::Network { url: told(&base), why: innermost(&error) })
        };
        let (own, public) = (client(Pass::All)?, client(Pass::Public)?);
        Ok(Self { base, own, public })
    }

    /// Gives the file `name` from byte `start` on to `each`: where a stretch begins, and its bytes. The stretches begin at 0 if the server
    /// cannot begin anywhere else. While nothing comes in, `each` gets no bytes several times a second. It ends the download by breaking.
    pub async fn get(
        &self,
        name: &str,
        start: u64,
        each: &mut (dyn FnMut(u64, &[u8]) -> ControlFlow<()> + Send),
    ) -> Result<(), FileError> {
        let deadline = Instant::now() + MAX_DURATION;
        let mut at = self.base.clone();
        if let Ok(mut path) = at.path_segments_mut() {
            path.pop_if_empty().push(name);
        }
        for _ in 0..=MAX_REDIRECTS {
            let client = if at.origin() == self.base.origin() { &self.own } else { &self.public };
            let mut request = client.get(at.clone()).header(ACCEPT_ENCODING, "identity");
            if start > 0 {
                request = request.header(RANGE, format!("bytes={start}-"));
            }
            let Some(response) = patiently(&at, deadline, start, request.send(), each).await? else { return Ok(()) };
            match redirected(&at, &response) {
                Ok(Some(next)) => at = self.followed(&at, next)?,
                Ok(None) => return body(&at, deadline, start, response, each).await,
                Err(_) => return Err(FileError::Redirect { url: told(&at), to: String::new(), why: "not a valid URL" }),
            }
        }
        Err(FileError::Redirect { url: told(&self.base), to: told(&at), why: "too many redirects" })
    }

    /// The next address, if it may be gone to. Where a name leads is checked when it is resolved.
    fn followed(&self, from: &Url, next: Url) -> Result<Url, FileError> {
        let refused = |why| Err(FileError::Redirect { url: told(from), to: told(&next), why });
        if next.origin() == self.base.origin() {
            return Ok(next);
        }
        if next.scheme() != "https" {
            return refused("only https is supported");
        }
        if literal(&next).is_some_and(|address| !is_public(address)) {
            return refused("not on the public internet");
        }
        Ok(next)
    }
}

async fn body(
    url: &Url,
    deadline: Instant,
    start: u64,
    mut response: Response,
    each: &mut (dyn FnMut(u64, &[u8]) -> ControlFlow<()> + Send),
) -> Result<(), FileError> {
    let mut at = match response.status() {
        StatusCode::OK => 0,
        StatusCode::PARTIAL_CONTENT => {
            let range = response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
            if !range.is_some_and(|range| range.starts_with(&format!("bytes {start}-"))) {
                return Err(FileError::Part { url: told(url), start });
            }
            start
        }
        status => return Err(FileError::Status { url: told(url), status: status.as_u16() }),
    };
    loop {
        let Some(chunk) = patiently(url, deadline, at, response.chunk(), each).await? else { return Ok(()) };
        let Some(chunk) = chunk else { return Ok(()) };
        if each(at, &chunk).is_break() {
            return Ok(());
        }
        at += chunk.len() as u64;
    }
}

/// What the server gives, while the caller wants it; nothing once the caller does not.
async fn patiently<T>(
    url: &Url,
    deadline: Instant,
    at: u64,
    work: impl Future<Output = reqwest::Result<T>>,
    each: &mut (dyn FnMut(u64, &[u8]) -> ControlFlow<()> + Send),
) -> Result<Option<T>, FileError> {
    let mut work = pin!(work);
    let until = deadline.min(Instant::now() + PATIENCE);
    loop {
        if let Ok(done) = tokio::time::timeout(TICK, &mut work).await {
            return done.map(Some).map_err(|error| FileError::Network { url: told(url), why: innermost(&error) });
        }
        if each(at, &[]).is_break() {
            return Ok(None);
        }
        if Instant::now() >= until {
            return Err(FileError::TooSlow { url: told(url) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_or_this_machine() {
        let check = |url: &str, expect: bool| assert_eq!(FileSource::new(url).is_ok(), expect, "{url}");
        check("https://mirror.example/weights", true);
        check("https://10.0.0.7/weights/", true);
        check("http://127.0.0.1:8080/w", true);
        check("http://[::1]:8080/w", true);
        check("http://mirror.example/w", false);
        check("http://localhost/w", false);
        check("http://10.0.0.7/w", false);
        check("ftp://mirror.example/w", false);
        check("file:///etc", false);
        check("https://user:hunter2@mirror.example/w", false);
        check("", false);
    }

    #[test]
    fn redirects_lead_to_the_same_place_or_to_the_public_internet() {
        let check = |to: &str, expect: &str| {
            let source = FileSource::new("https://mirror.example/w?secret=1").unwrap();
            let said = match source.followed(&source.base, Url::parse(to).unwrap()) {
                Ok(next) => next.to_string(),
                Err(error) => error.to_string(),
            };
            assert!(said.contains(expect) && !said.contains("secret"), "{to}: {said}");
        };
        check("https://mirror.example/other", "https://mirror.example/other");
        check("https://files.example/w", "https://files.example/w");
        check("http://files.example/w", "only https");
        check("http://mirror.example/w", "only https");
        for private in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]", "192.168.1.1", "0x7f.1"] {
            check(&format!("https://{private}/w"), "not on the public internet");
        }
    }
}
