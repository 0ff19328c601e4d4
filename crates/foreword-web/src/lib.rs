//! Pages of the web as markdown. An address may come from anyone's note, so a fetch reaches only the public internet, is bounded in bytes
//! and time, and takes text only.
//!
//! Every hop is checked: its scheme, its host where that is a literal address, and by the resolver the addresses that its name leads to;
//! those are the ones connected to. Redirects are followed here and not by the client, so each one is checked like a first address.
//!
//! Proxies from the environment are ignored on purpose: a proxy resolves names itself, so the address it connects to could not be
//! checked. Addresses with a user name or password in them are refused.

mod address;
mod cache;
mod charset;
mod file;
mod markdown;
mod resolve;

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use jiff::{SignedDuration, Timestamp};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use reqwest::{Client, Response, redirect};
use url::{Host, Url};

pub use self::file::{FileError, FileSource};

use self::cache::CachedPage;
use self::markdown::Readable;
use self::resolve::{Checked, Lookup, NotPublic, Pass, System};
use foreword_documents::isolated::{self, Fault};
use foreword_documents::pdf::{self, PdfError};

const MAX_URL_BYTES: usize = 8 << 10;
const MAX_HEADERS: usize = 200;

/// How pages are fetched.
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// Hosts that are reached even though they are not public, as `host` or `host:port`.
    pub allow: Vec<String>,
    /// The most bytes of one body.
    pub max_bytes: usize,
    /// How long one fetch may take, redirects and reading included.
    pub timeout: Duration,
    /// How many redirects are followed.
    pub max_redirects: usize,
    /// How long a page in the cache is taken as it is.
    pub max_age: SignedDuration,
    /// What is sent as `User-Agent`.
    pub user_agent: String,
}

impl Default for WebConfig {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            max_bytes: 5 << 20,
            timeout: Duration::from_secs(20),
            max_redirects: 10,
            max_age: SignedDuration::from_hours(24),
            user_agent: concat!("foreword/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// Where a page came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From the web, just now.
    Web,
    /// From the cache, where it is young enough.
    Cache,
    /// From the cache, because fetching failed.
    Fallback {
        /// Why it failed.
        why: String,
    },
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its address after redirects.
    pub url: String,
    /// The address asked for, in its normal form, without `#fragment`.
    pub asked: String,
    /// Its title.
    pub title: Option<String>,
    /// What it says.
    pub markdown: String,
    /// When it was fetched.
    pub fetched: Timestamp,
    /// Where it came from.
    pub origin: Origin,
}

impl Page {
    /// For people: that the page is old, and why, where it is.
    pub fn note(&self) -> Option<String> {
        match &self.origin {
            Origin::Fallback { why } => Some(format!("{why}; this is the page as of {}", self.fetched)),
            Origin::Web | Origin::Cache => None,
        }
    }
}

/// A page that could not be had. No message holds a user name or password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebError {
    /// No address.
    #[error("fetching a page: this is no web address ({0}); write it as https://host/path")]
    Address(&'static str),
    /// Not public.
    #[error(
        "fetching {host}: it is not on the public internet; if you trust it, add \"{host}\" to `allow` under [web] in foreword.toml and allow it with `foreword trust`"
    )]
    NotPublic {
        /// The host, as `host:port`.
        host: String,
    },
    /// It leads back to where it was.
    #[error("fetching {url}: it leads in a circle, back to a page it came from; attach the page that you see in a browser")]
    Circle {
        /// The address asked for.
        url: String,
    },
    /// Too many redirects.
    #[error("fetching {url}: it leads on and on (more than {hops} redirects); attach the page itself")]
    Redirects {
        /// The address asked for.
        url: String,
        /// How many were followed.
        hops: usize,
    },
    /// The server refused.
    #[error("fetching {url}: the server answered {status}; check the address in a browser")]
    Status {
        /// The address.
        url: String,
        /// What it answered.
        status: u16,
    },
    /// Too large.
    #[error("fetching {url}: it has more than {max} bytes; attach a smaller page")]
    TooLarge {
        /// The address.
        url: String,
        /// The limit.
        max: usize,
    },
    /// Too slow.
    #[error("fetching {url}: it took longer than {} seconds; try again later", limit.as_secs_f32())]
    TooSlow {
        /// The address.
        url: String,
        /// The limit.
        limit: Duration,
    },
    /// No text.
    #[error("fetching {url}: it is {found}, and only text, JSON, XML and PDF can be read")]
    NotText {
        /// The address.
        url: String,
        /// What it is.
        found: String,
    },
    /// Could not be read.
    #[error("fetching {url}: {why}")]
    Unreadable {
        /// The address.
        url: String,
        /// Why.
        why: String,
    },
    /// No connection.
    #[error("fetching {url}: {why}; check the connection and the address")]
    Network {
        /// The address.
        url: String,
        /// What went wrong.
        why: String,
    },
    /// No client.
    #[error("setting up to fetch pages: {0}")]
    Setup(String),
}

impl WebError {
    /// Whether an earlier copy will do: the page is out of reach, which says nothing against it.
    fn is_passing(&self) -> bool {
        match self {
            Self::Network { .. } | Self::TooSlow { .. } => true,
            Self::Status { status, .. } => *status == 429 || *status >= 500,
            _ => false,
        }
    }
}

/// Fetches pages.
pub struct Fetcher {
    config: WebConfig,
    cache: Option<PathBuf>,
    /// For public hosts.
    public: Client,
    /// For hosts on the list.
    allowed: Client,
}

impl Fetcher {
    /// Sets up to fetch; pages are kept in the folder `cache`, if one is given.
    pub fn new(config: WebConfig, cache: Option<PathBuf>) -> Result<Self, WebError> {
        Self::with_lookup(config, cache, &(Arc::new(System) as Arc<dyn Lookup>))
    }

    fn with_lookup(config: WebConfig, cache: Option<PathBuf>, lookup: &Arc<dyn Lookup>) -> Result<Self, WebError> {
        // An error says that a provider is there already, which will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = |pass| {
            let builder = Client::builder()
                .no_proxy()
                .redirect(redirect::Policy::none())
                .referer(false)
                .user_agent(&config.user_agent)
                .http1_max_headers(MAX_HEADERS)
                .connect_timeout(config.timeout / 2)
                .dns_resolver(Checked { lookup: Arc::clone(lookup), pass });
            builder.build().map_err(|error| WebError::Setup(innermost(&error)))
        };
        Ok(Self { public: client(Pass::Public)?, allowed: client(Pass::All)?, config, cache })
    }

    /// A page, from the cache where it is young enough. `now` is what it will be dated with.
    pub async fn fetch(&self, url: &str, now: Timestamp) -> Result<Page, WebError> {
        let asked = parse(url)?;
        match self.kept(&asked).await {
            Some(kept) if now.duration_since(kept.fetched) < self.config.max_age => Ok(page(kept, Origin::Cache)),
            kept => self.renew(asked, kept, now).await,
        }
    }

    /// A page from the web, whatever the cache holds; an earlier copy only where the web is out of reach.
    pub async fn refresh(&self, url: &str, now: Timestamp) -> Result<Page, WebError> {
        let asked = parse(url)?;
        let kept = self.kept(&asked).await;
        self.renew(asked, kept, now).await
    }

    /// The copy in the cache. Other vaults keep pages there too, with other lists: a page that was had by the list of one is given to
    /// those alone whose list allows each host that needed it.
    async fn kept(&self, asked: &Url) -> Option<CachedPage> {
        let (folder, asked) = (self.cache.clone()?, asked.to_string());
        let kept = tokio::task::spawn_blocking(move || cache::get(&folder, &asked)).await.ok()??;
        let allowed = |url: &String| Url::parse(url).is_ok_and(|url| self.allows(&url));
        kept.by_list.iter().all(allowed).then_some(kept)
    }

    fn allows(&self, url: &Url) -> bool {
        self.config.allow.iter().any(|entry| allows(entry, url))
    }

    async fn renew(&self, asked: Url, kept: Option<CachedPage>, now: Timestamp) -> Result<Page, WebError> {
        let limit = self.config.timeout;
        let fetched = tokio::time::timeout(limit, self.get(&asked)).await;
        match fetched.unwrap_or_else(|_| Err(WebError::TooSlow { url: asked.to_string(), limit })) {
            Ok((chain, readable)) => {
                let Readable { title, markdown } = readable;
                let url = chain.last().unwrap_or(&asked).to_string();
                let mut by_list: Vec<String> = chain.iter().filter(|hop| self.allows(hop)).map(origin).collect();
                by_list.sort();
                by_list.dedup();
                let fresh = CachedPage { asked: asked.into(), url, by_list, title, markdown, fetched: now };
                self.keep(fresh.clone()).await;
                Ok(page(fresh, Origin::Web))
            }
            Err(error) => match kept {
                Some(kept) if error.is_passing() => Ok(page(kept, Origin::Fallback { why: error.to_string() })),
                _ => Err(error),
            },
        }
    }

    /// Keeps a page. Where that fails the page is no worse, it will only be fetched again.
    async fn keep(&self, page: CachedPage) {
        if let Some(folder) = self.cache.clone() {
            // A page that is not cached is fetched again.
            let _ = tokio::task::spawn_blocking(move || cache::put(&folder, &page)).await;
        }
    }

    /// What stands at an address, and the addresses that led there, the first and the last included.
    async fn get(&self, asked: &Url) -> Result<(Vec<Url>, Readable), WebError> {
        let mut seen = vec![asked.clone()];
        let mut at = asked.clone();
        loop {
            let response = self.ask(&at).await?;
            if let Some(next) = redirected(&at, &response)? {
                if seen.contains(&next) {
                    return Err(WebError::Circle { url: asked.to_string() });
                }
                if seen.len() > self.config.max_redirects {
                    return Err(WebError::Redirects { url: asked.to_string(), hops: seen.len() - 1 });
                }
                seen.push(next.clone());
                at = next;
                continue;
            }
            if !response.status().is_success() {
                return Err(WebError::Status { url: at.to_string(), status: response.status().as_u16() });
            }
            let readable = self.body(&at, response).await?;
            return Ok((seen, readable));
        }
    }

    async fn ask(&self, url: &Url) -> Result<Response, WebError> {
        let host = shown_host(url);
        let allowed = self.allows(url);
        // The resolver never sees literal addresses, in whatever spelling they came.
        let literal = match url.host() {
            Some(Host::Ipv4(address)) => Some(address.into()),
            Some(Host::Ipv6(address)) => Some(address.into()),
            Some(Host::Domain(_)) | None => None,
        };
        if !allowed && literal.is_some_and(|address| !address::is_public(address)) {
            return Err(WebError::NotPublic { host });
        }
        let client = if allowed { &self.allowed } else { &self.public };
        let request = client
            .get(url.clone())
            .header(ACCEPT, "text/html, text/markdown, text/plain, */*;q=0.5")
            .header(ACCEPT_ENCODING, "identity");
        request.send().await.map_err(|error| network(url, &error))
    }

    async fn body(&self, url: &Url, mut response: Response) -> Result<Readable, WebError> {
        let max = self.config.max_bytes;
        let too_large = || WebError::TooLarge { url: url.to_string(), max };
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_ascii_lowercase);
        let (kind, encoding) = (header(CONTENT_TYPE), header(CONTENT_ENCODING));
        let kind = Kind::read(kind.as_deref().unwrap_or_default());
        if let Kind::Other(found) = kind {
            return Err(WebError::NotText { url: url.to_string(), found });
        }
        if response.content_length().is_some_and(|length| length > max as u64) {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| network(url, &error))? {
            if bytes.len() + chunk.len() > max {
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        let address = url.clone();
        // Inflating, parsing and converting are work, and not this task's: others wait on it.
        let work = move |_: &_| read(kind, encoding.as_deref(), bytes, max, &address);
        let limit = self.config.timeout;
        let done = tokio::task::spawn_blocking(move || isolated::run(limit, work)).await;
        match done {
            Ok(Ok(found)) => found,
            Ok(Err(Fault::TooSlow)) => Err(WebError::TooSlow { url: url.to_string(), limit }),
            Ok(Err(Fault::Busy)) => Err(unreadable(url, "earlier pages that took too long are still at work; try again later")),
            Ok(Err(Fault::Panicked)) | Err(_) => Err(unreadable(url, "its content could not be understood")),
        }
    }
}

fn unreadable(url: &Url, why: &str) -> WebError {
    WebError::Unreadable { url: url.to_string(), why: why.to_owned() }
}

fn page(kept: CachedPage, origin: Origin) -> Page {
    let CachedPage { asked, url, by_list: _, title, markdown, fetched } = kept;
    Page { url, asked, title, markdown, fetched, origin }
}

/// An address that may be asked for.
fn parse(url: &str) -> Result<Url, WebError> {
    if url.len() > MAX_URL_BYTES {
        return Err(WebError::Address("it is too long"));
    }
    let mut url = Url::parse(url.trim()).map_err(|_| WebError::Address("it cannot be parsed"))?;
    url.set_fragment(None);
    if !matches!(url.scheme(), "http" | "https") {
        return Err(WebError::Address("only http and https are fetched"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(WebError::Address("it has a user name or password in it, which is never sent"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(WebError::Address("it has no host"));
    }
    Ok(url)
}

/// Where a response leads on to.
fn redirected(from: &Url, response: &Response) -> Result<Option<Url>, WebError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(LOCATION) else { return Ok(None) };
    let location = String::from_utf8_lossy(location.as_bytes());
    let next = from.join(&location).map_err(|_| WebError::Address("it leads on to something that is none"))?;
    parse(next.as_str()).map(Some)
}

fn shown_host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Scheme, host and port of an address: all of it that the list looks at.
fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Whether an entry of the list, `host` or `host:port`, means the host of `url`.
fn allows(entry: &str, url: &Url) -> bool {
    let entry = entry.trim().to_ascii_lowercase();
    let host = url.host_str().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
    entry == host || url.port_or_known_default().is_some_and(|port| entry == format!("{host}:{port}"))
}

fn network(url: &Url, error: &reqwest::Error) -> WebError {
    let mut at: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = at {
        if inner.is::<NotPublic>() {
            return WebError::NotPublic { host: shown_host(url) };
        }
        at = inner.source();
    }
    WebError::Network { url: url.to_string(), why: innermost(error) }
}

/// What an error comes down to; the outer ones repeat the address.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut at = error.source();
    while let Some(inner) = at {
        text = inner.to_string();
        at = inner.source();
    }
    text
}

/// What a body is said to be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Html(Option<String>),
    Text(Option<String>),
    Data(&'static str, Option<String>),
    Pdf,
    Unsaid,
    Other(String),
}

impl Kind {
    /// From a `Content-Type` in lower case.
    fn read(header: &str) -> Self {
        let (kind, rest) = header.split_once(';').unwrap_or((header, ""));
        let charset = rest.split(';').find_map(|part| part.trim().strip_prefix("charset="));
        let charset = charset.map(|label| label.trim_matches(['"', '\'', ' ']).to_owned());
        match kind.trim() {
            "text/html" | "application/xhtml+xml" => Self::Html(charset),
            "application/json" | "text/json" | "application/x-ndjson" => Self::Data("json", charset),
            "application/xml" | "text/xml" => Self::Data("xml", charset),
            kind if kind.ends_with("+json") => Self::Data("json", charset),
            kind if kind.ends_with("+xml") && kind != "image/svg+xml" => Self::Data("xml", charset),
            kind if kind.starts_with("text/") => Self::Text(charset),
            "application/markdown" | "application/x-markdown" | "application/yaml" | "application/toml" => Self::Text(charset),
            "application/pdf" => Self::Pdf,
            "" | "application/octet-stream" => Self::Unsaid,
            other => Self::Other(other.chars().take(100).filter(|c| !c.is_control()).collect()),
        }
    }
}

fn read(kind: Kind, encoding: Option<&str>, bytes: Vec<u8>, max: usize, url: &Url) -> Result<Readable, WebError> {
    let bytes = match encoding {
        None | Some("" | "identity") => bytes,
        // Not asked for, but some servers send nothing else.
        Some("gzip" | "x-gzip") => {
            let mut plain = Vec::new();
            let read = MultiGzDecoder::new(bytes.as_slice()).take(max as u64 + 1).read_to_end(&mut plain);
            read.map_err(|_| unreadable(url, "it was sent compressed and cannot be unpacked"))?;
            if plain.len() > max {
                return Err(WebError::TooLarge { url: url.to_string(), max });
            }
            plain
        }
        Some(_) => return Err(unreadable(url, "it was sent in a compression that was not asked for")),
    };
    if bytes.starts_with(b"%PDF-") || kind == Kind::Pdf {
        let markdown = pdf::text(&bytes).map_err(|error: PdfError| unreadable(url, &error.to_string()))?;
        return Ok(Readable { title: None, markdown });
    }
    if is_binary(&bytes) {
        return Err(WebError::NotText { url: url.to_string(), found: "no text, whatever it is called".to_owned() });
    }
    Ok(match kind {
        Kind::Html(charset) => markdown::from_html(&charset::decode(&bytes, charset.as_deref()), url),
        Kind::Data(language, charset) => markdown::from_data(&charset::decode(&bytes, charset.as_deref()), language),
        Kind::Text(charset) => markdown::from_text(&charset::decode(&bytes, charset.as_deref())),
        Kind::Unsaid | Kind::Pdf | Kind::Other(_) => {
            let text = charset::decode(&bytes, None);
            let start = text.trim_start().get(..14).unwrap_or_default().to_ascii_lowercase();
            if start.starts_with("<!doctype html") || start.starts_with("<html") {
                markdown::from_html(&text, url)
            } else {
                markdown::from_text(&text)
            }
        }
    })
}

/// Whether bytes are no text, by their start: zero bytes (outside UTF-16) or many control characters.
fn is_binary(bytes: &[u8]) -> bool {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return false;
    }
    let start = &bytes[..bytes.len().min(4096)];
    let control = start.iter().filter(|byte| matches!(byte, 1..=8 | 14..=26 | 28..=31)).count();
    start.contains(&0) || control * 10 > start.len()
}

#[cfg(test)]
mod tests;
