//! Who may come in: the right host (DNS rebinding), the right origin (requests that another site makes a browser send), the token or a
//! key (`caller`), not too often; and what a browser may do with what goes out.
//!
//! A browser sends nothing by itself that would let it in: the page adds its key to each request. A cookie would be sent to every
//! program that listens on another port of this machine.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument as _;

use crate::app::App;
use crate::caller::{Caller, Wants};
use crate::page;
use crate::problem::{BAD_REQUEST, Hearer, NOT_FROM_HERE, Problem, TIMEOUT, TOO_MANY};
use crate::rate::Rate;
use crate::timed::Timed;

/// The address a request comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Scripts, styles and requests are the server's own; nothing else is loaded, framed or sent anywhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Paths that need no token beside the page's files: they say nothing about the vault, or they are where a browser gets its key.
const PUBLIC: [&str; 5] = ["/api/v1/health", "/api/v1/login", "/api/v1/openapi.json", "/healthz", "/readyz"];

/// Lets a request through or says why not.
pub(crate) async fn guard(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let limits = &app.config.limits;
    // A client of the gateway that wants its answer whole waits for all of it.
    let limit = if is_gateway(request.uri().path()) { limits.stream } else { limits.request };
    let hearer = Hearer::of(request.uri(), request.headers());
    let stalled = Arc::new(AtomicBool::new(false));
    let began = Instant::now();
    // A query may hold a code that opens the page, so only the path is logged.
    let id = app.requests.fetch_add(1, Ordering::Relaxed);
    let span = tracing::info_span!("http", id, method = %request.method(), path = request.uri().path());
    let admitted = admit(&app, &mut request);
    let answered = if let Err(problem) = admitted {
        Err(problem)
    } else {
        let request = request.map(|body| Timed::body(body, limits.body_idle, limits.body_time, Arc::clone(&stalled)));
        tokio::time::timeout(limit, next.run(request).instrument(span.clone())).await.map_err(|_| {
            let limit = limit.as_secs();
            Problem::new(TIMEOUT, format!("no answer within {limit} s; the operation may still complete"))
        })
    };
    // Whatever was made of half a body, the client hears why only half was there.
    let answered = if stalled.load(Ordering::Relaxed) {
        Err(Problem::new(TIMEOUT, "the request body did not arrive in time; nothing was done"))
    } else {
        answered
    };
    let mut response = answered.unwrap_or_else(|problem| hearer.told(problem));
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let (status, ms) = (response.status().as_u16(), began.elapsed().as_millis());
    span.in_scope(|| tracing::info!(status, ms, "request"));
    response
}

/// Whether a path is one of the gateway.
fn is_gateway(path: &str) -> bool {
    path.starts_with("/v1/") || path.starts_with("/v1beta/")
}

/// Google's clients may send their key in the query: it becomes the header that others send, and is in no address from then on.
fn move_key(request: &mut Request) {
    let (path, Some(query)) = (request.uri().path(), request.uri().query()) else { return };
    if !path.starts_with("/v1beta/") {
        return;
    }
    let Some(key) = query.split('&').find_map(|pair| pair.strip_prefix("key=")) else { return };
    let Ok(value) = HeaderValue::try_from(key) else { return };
    let rest: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("key=")).collect();
    let address = if rest.is_empty() { path.to_owned() } else { format!("{path}?{}", rest.join("&")) };
    let Ok(uri) = Uri::try_from(address) else { return };
    *request.uri_mut() = uri;
    request.headers_mut().entry("x-goog-api-key").or_insert(value);
}

fn admit(app: &App, request: &mut Request) -> Result<(), Problem> {
    move_key(request);
    let path = request.uri().path();
    let headers = request.headers();
    let reach = &app.config.reach;
    let host = host(request.uri(), headers)?;
    if !reach.is_called(host) {
        return Err(Problem::new(
            NOT_FROM_HERE,
            format!("the host name {host:?} is not allowed; use the server's address, or start it with `--host` and this name"),
        ));
    }
    let address = request.extensions().get::<Peer>().map(|Peer(peer)| client(*peer));
    let now = Instant::now();
    let within = |rate: &Rate| match address {
        Some(address) if !rate.allows(address, now) => {
            Err(Problem::new(TOO_MANY, "too many requests from this address; wait a moment"))
        }
        _ => Ok(()),
    };
    // A link of another site may lead to the page: its files hold nothing.
    if page::is_file(path) {
        return within(&app.rates.files);
    }
    same_origin(headers, host)?;
    if PUBLIC.contains(&path) {
        return within(&app.rates.files);
    }
    let wants = if is_gateway(path) { Wants::Gateway } else { Wants::Api };
    match Caller::of(reach, &app.keys, wants, headers) {
        Ok(caller) => {
            // Wrong guesses of the same address are counted elsewhere: they take nothing from who has the token.
            app.rates.known.as_ref().map_or(Ok(()), within)?;
            request.extensions_mut().insert(caller);
            Ok(())
        }
        Err(problem) => within(&app.rates.refused).and(Err(problem)),
    }
}

/// An IPv4 client is one client, whether it comes by IPv4 or through an IPv6 socket; an IPv6 one is its network.
pub(crate) fn client(peer: SocketAddr) -> IpAddr {
    match peer.ip().to_canonical() {
        IpAddr::V6(address) => IpAddr::from((u128::from(address) >> 64 << 64).to_be_bytes()),
        address @ IpAddr::V4(_) => address,
    }
}

/// How the server is called: one `Host`, or the host of a whole address in the first line.
fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Result<&'a str, Problem> {
    let mut named = headers.get_all(header::HOST).iter();
    match (uri.authority(), named.next(), named.next()) {
        (None, Some(host), None) => host.to_str().map_err(|_| Problem::new(BAD_REQUEST, "the Host header is not text")),
        (Some(authority), Some(host), None) if host == authority.as_str() => Ok(authority.as_str()),
        _ => Err(Problem::new(BAD_REQUEST, "exactly one Host header is required")),
    }
}

/// A browser says which site a request comes from. Programs that are no browsers say nothing, and no site can make them ask.
fn same_origin(headers: &HeaderMap, host: &str) -> Result<(), Problem> {
    let other = |what: &str| Err(Problem::new(NOT_FROM_HERE, format!("pages of {what} cannot use this server")));
    for origin in headers.get_all(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or("an unreadable origin");
        let site = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if !site.is_some_and(|site| site.eq_ignore_ascii_case(host)) {
            return other(&format!("{origin:?}"));
        }
    }
    for site in headers.get_all("sec-fetch-site") {
        if site != "same-origin" && site != "none" {
            return other("another site");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins() {
        let check = |headers: &[(&'static str, &'static str)], expect: bool| {
            let map: HeaderMap =
                headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect();
            assert_eq!(same_origin(&map, "localhost:4949").is_ok(), expect, "{headers:?}");
        };
        check(&[], true);
        check(&[("origin", "http://localhost:4949")], true);
        check(&[("origin", "https://localhost:4949")], true);
        check(&[("origin", "http://localhost:4950")], false);
        check(&[("origin", "http://evil.example")], false);
        check(&[("origin", "null")], false);
        check(&[("origin", "")], false);
        check(&[("origin", "localhost:4949")], false);
        check(&[("sec-fetch-site", "same-origin")], true);
        check(&[("sec-fetch-site", "none")], true);
        check(&[("sec-fetch-site", "same-site")], false);
        check(&[("sec-fetch-site", "cross-site")], false);
        check(&[("origin", "http://localhost:4949"), ("sec-fetch-site", "cross-site")], false);
    }

    #[test]
    fn clients() {
        let check = |one: &str, other: &str, same: bool| {
            assert_eq!(client(one.parse().unwrap()) == client(other.parse().unwrap()), same, "{one} {other}");
        };
        check("10.0.0.1:1", "10.0.0.1:2", true);
        check("10.0.0.1:1", "[::ffff:10.0.0.1]:2", true);
        check("10.0.0.1:1", "10.0.0.2:1", false);
        check("[2001:db8::1]:1", "[2001:db8::2]:1", true);
        check("[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false);
    }
}
