//! Accepts connections within limits, and shuts down gracefully.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use foreword_engine::session::StoreError;
use foreword_engine::vault::OpenError;
use foreword_trust::TrustError;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

use crate::app::App;
use crate::app::ended;
use crate::config::{Config, Limits};
use crate::connections::{Connection, Connections, NoRoom};
use crate::guard::Peer;
use crate::{api, gateway, guard, page};

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port.
    #[error("cannot listen on {0}: {1}; choose another port with `--port`")]
    Listen(SocketAddr, io::Error),
    /// The vault.
    #[error(transparent)]
    Vault(#[from] OpenError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The decisions about the vault.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// A thread.
    #[error("cannot start: {0}")]
    Thread(#[from] io::Error),
    /// The script.
    #[error(transparent)]
    Script(#[from] foreword_engine::session::ScriptError),
}

/// A server that is ready to take connections.
pub struct Server {
    listener: TcpListener,
    app: Arc<App>,
    router: Router,
}

impl Server {
    /// Opens the vault and the port; to be called within a runtime.
    pub fn start(address: SocketAddr, config: Config) -> Result<Self, ServeError> {
        let wrong = |error| ServeError::Listen(address, error);
        let listener = listen(address).map_err(wrong)?;
        let app = Arc::new(App::new(config, listener.local_addr().map_err(wrong)?.port())?);
        let layer = axum::middleware::from_fn_with_state(Arc::clone(&app), guard::guard);
        let limit = axum::extract::DefaultBodyLimit::max(app.config.limits.body);
        let router = api::router(&app)
            .merge(gateway::router(&app))
            .merge(page::router())
            .fallback(page::missing)
            // Of all routes that are there by now.
            .method_not_allowed_fallback(page::wrong_method)
            .layer(limit)
            .layer(layer);
        Ok(Self { listener, app, router })
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Serves until `end` completes. Pending requests then have some seconds; running turns are stopped and saved.
    pub async fn run(self, end: impl Future<Output = ()>) {
        let Self { listener, app, router } = self;
        let limits = app.config.limits;
        let connections = Connections::new(limits.connections, limits.connections_per_address);
        let mut end = pin!(end);
        loop {
            let next = async {
                let Ok((stream, peer)) = listener.accept().await else {
                    // Too many open files, or a client that went away: neither ends the server.
                    connections.close_idlest();
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    return None;
                };
                loop {
                    match connections.enter(guard::client(peer)) {
                        Ok(place) => return Some((stream, peer, place)),
                        Err(NoRoom::Address) => return None,
                        // It waits, and the others behind it in the system's queue.
                        Err(NoRoom::Server) => {
                            // After a timeout it looks again.
                            let _ = tokio::time::timeout(Duration::from_millis(50), connections.one_left()).await;
                        }
                    }
                }
            };
            let taken = tokio::select! {
                taken = next => taken,
                () = &mut end => break,
            };
            if let Some((stream, peer, place)) = taken {
                tokio::spawn(connection(stream, peer, router.clone(), limits, app.end.subscribe(), place));
            }
        }
        drop(listener);
        app.end.send_replace(true);
        app.hub.stop_all();
        // After the grace the rest is cut off.
        let _ = tokio::time::timeout(limits.grace, connections.all_left()).await;
        // A panic is reported where it happens, and the server ends anyway.
        let _ = tokio::task::spawn_blocking(move || {
            app.hub.close(limits.grace);
            app.gateway.forwarder.settle();
        })
        .await;
    }
}

/// How many clients may wait to be taken, where the system allows that many. Who finds the queue full tries again a second later.
const QUEUE: u32 = 4096;

/// Opens a port.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Elsewhere it would let two programs have the same port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(QUEUE)
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: Limits,
    mut end: watch::Receiver<bool>,
    place: Connection,
) {
    // Without it, small frames only arrive later.
    let _ = stream.set_nodelay(true);
    let inner = TowerToHyperService::new(router);
    let place = Arc::new(place);
    let of_service = Arc::clone(&place);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        let begun = of_service.begin();
        let answered = inner.call(request.map(Body::new));
        async move {
            let Some(begun) = begun else { return Err(io::Error::from(io::ErrorKind::ConnectionAborted)) };
            let Ok(response) = answered.await;
            Ok(response.map(|body| begun.ends_with(body)))
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.idle).max_headers(limits.headers).max_buf_size(limits.head);
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // What a connection died of is its client's business.
    tokio::select! {
        _ = served.as_mut() => {}
        () = place.closed() => {}
        () = ended(&mut end) => {
            served.as_mut().graceful_shutdown();
            // After the grace the connection is cut off.
            let _ = tokio::time::timeout(limits.grace, served).await;
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn clients_that_come_at_once_are_all_let_into_the_queue() {
        let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
        if most.trim().parse().is_ok_and(|most: usize| most < 512) {
            return; // the system does not let a program have a longer queue
        }
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        // Nobody takes them meanwhile.
        let clients: Vec<_> = (0..500).map(|_| tokio::spawn(TcpStream::connect(address))).collect();
        let mut connected = Vec::new();
        for client in clients {
            let client = tokio::time::timeout(Duration::from_secs(20), client).await.expect("it was let in").unwrap();
            connected.push(client.unwrap());
        }
        assert_eq!(connected.len(), 500);
    }
}
