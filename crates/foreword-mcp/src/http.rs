//! Streamable HTTP: one path, keys, and limits. The transport itself checks the host and the origin, so that no web page can use it.

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::sync::Semaphore;

use crate::Admit;
use crate::server::Server;

/// The path of the server.
const PATH: &str = "/mcp";

/// Connections at a time.
const MOST_CONNECTIONS: usize = 128;

/// The largest request in bytes.
const MOST_BODY: usize = 8 << 20;

/// How long a client may take to send the head of a request.
const HEAD: Duration = Duration::from_secs(10);

type Service = StreamableHttpService<Server, LocalSessionManager>;
type Body = BoxBody<Bytes, Infallible>;

pub(crate) async fn serve(server: Server, listener: TcpListener, admit: Option<Admit>) -> std::io::Result<()> {
    let config = StreamableHttpServerConfig::default().with_max_request_body_bytes(MOST_BODY).enforce_origin_validation();
    let service: Service = StreamableHttpService::new(move || Ok(server.clone()), Arc::default(), config);
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let connections = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&connections).acquire_owned().await else { return Ok(()) };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, for example: others will be closed.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (service, admit) = (service.clone(), admit.clone());
        tokio::spawn(async move {
            let answer = service_fn(move |request| answer(service.clone(), admit.clone(), request));
            let mut connection = http1::Builder::new();
            connection.timer(TokioTimer::new()).header_read_timeout(HEAD);
            // A client that breaks off has its own reasons.
            let _ = connection.serve_connection(TokioIo::new(stream), answer).await;
            drop(place);
        });
    }
}

async fn answer(service: Service, admit: Option<Admit>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    if request.uri().path() != PATH {
        return Ok(refused(StatusCode::NOT_FOUND, "the server is at /mcp"));
    }
    let key = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    if !admit.is_none_or(|admit| key.is_some_and(|key| admit(key.trim()))) {
        let mut response =
            refused(StatusCode::UNAUTHORIZED, "send a key as `Authorization: Bearer KEY`; `foreword keys new` makes one");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
        return Ok(response);
    }
    Ok(service.handle(request).await)
}

fn refused(status: StatusCode, why: &'static str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from_static(why.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}
