//! Accepting connections: bounded in number, in header size and in time.
//!
//! hyper is used directly, as `axum::serve` sets no time limit for request headers.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::config::AllowedSans;
use crate::peers::{Connections, PeerKey, Place};
use crate::refused::Reason;
use crate::{Listener, WebConfig};

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Open connections. With more of them an idle one is closed: the one that was idle for longest, of the peer that has
    /// the most.
    pub connections: usize,
    /// Open connections of one peer: an IPv4 address, or the /64 network of an IPv6 address.
    pub of_peer: usize,
    /// For a TLS handshake.
    pub handshake: Duration,
    /// From a connection's opening, or its last response, to the end of the next request's headers. Longer than the
    /// usual scrape interval of 15 s, so that Prometheus keeps its connection.
    pub header: Duration,
    /// Until a connection is asked to close, which it does after its current response; bounds what a slow reader can hold.
    pub age: Duration,
    /// How long that response may take, counted from the age.
    pub last_response: Duration,
    /// From the end of the program until a connection is cut.
    pub grace: Duration,
}

impl Limits {
    /// Those of an exporter, which Prometheus and a few people ask.
    #[must_use]
    pub fn exporter() -> Self {
        Self {
            connections: 256,
            of_peer: 128,
            handshake: Duration::from_secs(10),
            header: Duration::from_secs(20),
            age: Duration::from_secs(120),
            last_response: Duration::from_secs(10),
            grace: Duration::from_secs(10),
        }
    }

    /// Those of a server that many senders keep connections to: 512 connections, as Prometheus'
    /// `--web.max-connections`, half of them at most of one peer. A table of verdicts may take minutes to download.
    #[must_use]
    pub fn server() -> Self {
        let (age, last_response) = (Duration::from_secs(900), Duration::from_secs(900));
        Self { connections: 512, of_peer: 256, age, last_response, ..Self::exporter() }
    }
}

/// Largest request head in bytes; Prometheus' is below one KiB.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// This end of a request's connection; `None` where the kernel does not say, and for a Unix socket.
#[derive(Clone, Copy, Debug)]
pub struct Local(pub Option<SocketAddr>);

/// The two ends of a connection; none of a Unix socket.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    client: Option<SocketAddr>,
    local: Option<SocketAddr>,
}

/// What every connection of a server shares.
#[derive(Clone)]
pub(crate) struct Acceptor {
    pub(crate) router: Router,
    pub(crate) web: Arc<WebConfig>,
    pub(crate) limits: Limits,
    pub(crate) connections: Arc<Connections>,
    /// Changes when the program ends.
    pub(crate) stop: watch::Receiver<()>,
}

impl Acceptor {
    /// Accepts until the program ends.
    pub(crate) async fn accept(self, listener: Listener) {
        let mut stop = self.stop.clone();
        loop {
            let accepted = tokio::select! {
                accepted = self.accept_one(&listener) => accepted,
                _ = stop.changed() => return,
            };
            match accepted {
                Ok(()) => {}
                Err(error) if is_of_the_client(&error) => {}
                Err(error) => {
                    // Out of descriptors or memory: only time helps.
                    tracing::warn!("cannot accept connections: {error}");
                    sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    async fn accept_one(&self, listener: &Listener) -> io::Result<()> {
        match listener {
            Listener::Tcp(listener) => {
                let (stream, client) = listener.accept().await?;
                // Responses are small and sent in one piece: Nagle's algorithm would only delay them.
                let _ = stream.set_nodelay(true);
                // An IPv4 client of a socket for both is called by its IPv4 address.
                let client = SocketAddr::new(client.ip().to_canonical(), client.port());
                let ends = Ends { client: Some(client), local: stream.local_addr().ok() };
                self.admit(stream, ends);
            }
            Listener::Unix(listener) => self.admit(listener.accept().await?.0, Ends::default()),
        }
        Ok(())
    }

    fn admit(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, ends: Ends) {
        if let Some(place) = self.connections.admit(PeerKey::of_client(ends.client.map(|client| client.ip()))) {
            tokio::spawn(self.clone().serve(stream, ends, place));
        }
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin, ends: Ends, place: Place) {
        let place = Arc::new(place);
        tokio::select! {
            () = self.talk(stream, ends, &place) => {}
            () = place.cut() => {}
        }
    }

    async fn talk(self, stream: impl AsyncRead + AsyncWrite + Unpin, ends: Ends, place: &Arc<Place>) {
        let rules = self.web.rules().await;
        let Some(tls) = rules.tls.clone() else { return self.http(stream, ends, place).await };
        let failed = |detail: &str| self.connections.refusals().note(Reason::Handshake, place.peer(), detail);
        match timeout(self.limits.handshake, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                let certificates = stream.get_ref().1.peer_certificates();
                match rules.allowed_sans.as_ref().map_or(Ok(()), |sans: &AllowedSans| sans.allow(certificates)) {
                    Ok(()) => self.http(stream, ends, place).await,
                    Err(reason) => failed(&reason),
                }
            }
            Ok(Err(error)) => failed(&format!("no TLS handshake: {error}")),
            Err(_) => failed(&format!("no TLS handshake in {:?}", self.limits.handshake)),
        }
    }

    async fn http(mut self, io: impl AsyncRead + AsyncWrite + Unpin, ends: Ends, place: &Arc<Place>) {
        let (router, at_work) = (TowerToHyperService::new(self.router), Arc::clone(place));
        let service = service_fn(move |mut request: Request<Incoming>| {
            let extensions = request.extensions_mut();
            if let Some(client) = ends.client {
                extensions.insert(ConnectInfo(client));
            }
            extensions.insert(Local(ends.local));
            extensions.insert(Arc::clone(&at_work));
            let (answer, place) = (router.call(request), Arc::clone(&at_work));
            async move {
                place.begin();
                let answer = answer.await;
                place.end();
                answer
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(io), service);
        let mut connection = pin!(connection);
        let aged = timeout(self.limits.age, async {
            tokio::select! { ended = connection.as_mut() => Some(ended), _ = self.stop.changed() => None }
        });
        let ended = match aged.await {
            Ok(Some(ended)) => ended,
            at_its_end => {
                connection.as_mut().graceful_shutdown();
                let stopping = async {
                    if at_its_end.is_err() {
                        // An error says that the program is ending as well.
                        let _ = self.stop.changed().await;
                    }
                    sleep(self.limits.grace).await;
                };
                tokio::select! {
                    ended = timeout(self.limits.last_response, connection) => ended.unwrap_or(Ok(())),
                    () = stopping => Ok(()),
                }
            }
        };
        if let Err(error) = ended {
            // A connection that has served is kept by its client, and may be idle.
            if error.is_timeout() && !place.has_served() {
                let detail = format!("no whole head of a request in {:?}", self.limits.header);
                self.connections.refusals().note(Reason::SlowHead, place.peer(), &detail);
            } else {
                tracing::debug!("connection ended: {error}");
            }
        }
    }
}

fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
