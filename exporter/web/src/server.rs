//! Listeners that serve one router until they are stopped.

use std::future::Future;
use std::sync::Arc;

use axum::Router;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::connection::{Acceptor, Limits};
use crate::peers::Connections;
use crate::refused::Refusals;
use crate::{Listener, WebConfig, notify};

/// Listeners that serve one router.
pub struct Server {
    listeners: Vec<Listener>,
    acceptor: Acceptor,
    stop: watch::Sender<()>,
}

impl Server {
    /// Serves `router` on the listeners, within the limits.
    #[must_use]
    pub fn new(
        listeners: Vec<Listener>,
        router: Router,
        web: Arc<WebConfig>,
        limits: Limits,
        refusals: Arc<Refusals>,
    ) -> Self {
        let (stop, stopped) = watch::channel(());
        let connections = Arc::new(Connections::new(limits, refusals));
        Self { listeners, acceptor: Acceptor { router, web, limits, connections, stop: stopped }, stop }
    }

    /// Where it listens: `IP:PORT`, or `unix:PATH`.
    pub fn places(&self) -> impl Iterator<Item = String> {
        self.listeners.iter().filter_map(Listener::place)
    }

    /// `https` where the web configuration has a certificate.
    pub async fn scheme(&self) -> &'static str {
        if self.acceptor.web.rules().await.tls.is_some() { "https" } else { "http" }
    }

    /// Serves until `stop`, then lets running requests end.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { listeners, acceptor, stop: stopper } = self;
        let (connections, limits) = (Arc::clone(&acceptor.connections), acceptor.limits);
        let accepting: Vec<_> =
            listeners.into_iter().map(|listener| tokio::spawn(acceptor.clone().accept(listener))).collect();
        drop(acceptor);
        stop.await;
        notify::stopping();
        let _ = stopper.send(());
        for accepting in accepting {
            let _ = accepting.await;
        }
        let _ = timeout(limits.grace, connections.all_closed()).await;
    }
}
