//! Accepting connections: bounded in number, in header size and in time.
//!
//! hyper is used directly, as `axum::serve` sets no time limit for request headers.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use listenfd::ListenFd;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::web_config::WebConfig;
use crate::config::Address;

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Open connections; more wait in the kernel's queue.
    pub(super) connections: u32,
    /// For a TLS handshake.
    pub(super) handshake: Duration,
    /// From a connection's opening, or its last response, to the end of the next request's headers. Longer than the
    /// usual scrape interval of 15 s, so that Prometheus keeps its connection.
    pub(super) header: Duration,
    /// Until a connection is asked to close; bounds what a slow reader can hold.
    pub(super) age: Duration,
    /// From then, or from the end of the program, until it is cut.
    pub(super) grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 128,
            handshake: Duration::from_secs(10),
            header: Duration::from_secs(20),
            age: Duration::from_secs(120),
            grace: Duration::from_secs(10),
        }
    }
}

/// Largest request head in bytes; Prometheus' is below one KiB.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Who is at the other end of a request's connection.
#[derive(Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Opens a listening socket. `:PORT` is every interface, by IPv6 and IPv4 where the kernel has both.
pub(super) async fn bind(address: &Address) -> io::Result<TcpListener> {
    if !address.host.is_empty() {
        return TcpListener::bind((address.host.as_str(), address.port)).await;
    }
    match TcpListener::bind(("::", address.port)).await {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => TcpListener::bind(("0.0.0.0", address.port)).await,
        bound => bound,
    }
}

/// The listening sockets that systemd has opened (sd_listen_fds(3)).
pub(super) fn inherited() -> anyhow::Result<Vec<TcpListener>> {
    let mut sockets = ListenFd::from_env();
    anyhow::ensure!(sockets.len() > 0, "--web.systemd-socket: expected sockets from systemd, found none in LISTEN_FDS");
    let mut listeners = Vec::new();
    for index in 0..sockets.len() {
        let listener =
            sockets.take_tcp_listener(index).context("--web.systemd-socket: expected listening TCP sockets")?;
        let listener = listener.context("--web.systemd-socket: a socket was taken twice")?;
        listener.set_nonblocking(true)?;
        listeners.push(TcpListener::from_std(listener)?);
    }
    Ok(listeners)
}

/// What every connection of a server shares.
#[derive(Clone)]
pub(super) struct Acceptor {
    pub(super) router: Router,
    pub(super) web: Arc<WebConfig>,
    pub(super) limits: Limits,
    /// One permit per open connection.
    pub(super) slots: Arc<Semaphore>,
    /// Changes when the program ends.
    pub(super) stop: watch::Receiver<()>,
}

impl Acceptor {
    /// Accepts until the program ends.
    pub(super) async fn accept(mut self, listener: TcpListener) {
        loop {
            let Ok(slot) = self.slots.clone().acquire_owned().await else { return };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = self.stop.changed() => return,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let acceptor = self.clone();
                    tokio::spawn(async move {
                        acceptor.serve(stream, Peer(peer)).await;
                        drop(slot);
                    });
                }
                Err(error) if is_of_the_client(&error) => {}
                Err(error) => {
                    // Out of descriptors or memory: only time helps.
                    tracing::warn!("cannot accept connections: {error}");
                    sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    async fn serve(self, stream: TcpStream, peer: Peer) {
        // Small responses in one piece are what there is; waiting for more helps nobody.
        let _ = stream.set_nodelay(true);
        let Some(tls) = self.web.rules().await.tls.clone() else { return self.http(stream, peer).await };
        match timeout(self.limits.handshake, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.http(stream, peer).await,
            Ok(Err(error)) => tracing::debug!("no TLS handshake: {error}"),
            Err(_) => tracing::debug!("no TLS handshake in {:?}", self.limits.handshake),
        }
    }

    async fn http(mut self, io: impl AsyncRead + AsyncWrite + Unpin, peer: Peer) {
        let router = TowerToHyperService::new(self.router);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            router.call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(io), service);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = async { tokio::select! { () = sleep(self.limits.age) => {}, _ = self.stop.changed() => {} } } => {
                connection.as_mut().graceful_shutdown();
                timeout(self.limits.grace, connection).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = ended {
            tracing::debug!("connection ended: {error}");
        }
    }
}

fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
