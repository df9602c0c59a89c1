//! The front door of the analyzer: its listener, and what each of its routes needs of who asks.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::http::{Method, Uri};
use goodput_web::{
    Access, Door, Grant, Hosts, Limits, Listener, Needs, Proxy, Refusals, Server, WebConfig, raise_descriptor_limit,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use super::below::below;
use crate::config::WebArgs;

/// Between two readings of the tokens' files.
const TOKENS_EVERY: Duration = Duration::from_secs(10);

/// What is listened on, and who may come in.
pub(super) struct Front {
    listener: Listener,
    door: Arc<Door>,
    /// The path below which people find it behind a proxy; empty without one.
    path: String,
    web: Arc<WebConfig>,
    limits: Limits,
    refusals: Arc<Refusals>,
}

impl Front {
    /// Opens the listening socket; nothing is answered yet.
    pub(super) async fn open(args: &WebArgs, grants: Vec<Grant>) -> anyhow::Result<Self> {
        let web = Arc::new(WebConfig::load(args.web_config.clone()).map_err(anyhow::Error::msg)?);
        raise_descriptor_limit();
        let proxy = args.proxy_header.clone().map(|user| Proxy {
            user,
            groups: args.proxy_groups_header.clone(),
            trusted: args.trusted_proxies.clone(),
        });
        let access = Access::new(proxy, grants).map_err(|error| anyhow::anyhow!("web.access: {error}"))?;
        let hosts = Hosts {
            external: args.external_url.clone(),
            names: args.allowed_hosts.clone(),
            hint: "name it with --web.external-url or --web.allowed-hosts",
        };
        let listen = &args.listen;
        let listener = Listener::open(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
        let open = !access.authenticates() && !web.rules().await.authenticate();
        if open && !listener.is_local() {
            tracing::warn!(
                "everyone who reaches {listen} may read everything and send samples; --web.config.file or \
                 --web.auth.proxy-header asks who they are, --web.listen-address=127.0.0.1:9401 keeps others out"
            );
        }
        let refusals = Arc::<Refusals>::default();
        let door =
            Door::new(Arc::clone(&web), access, hosts, needs, Arc::clone(&refusals)).map_err(anyhow::Error::msg)?;
        let connections = args.max_connections as usize;
        let limits = Limits { connections, of_peer: (connections / 2).max(1), ..Limits::server() };
        let path = args.external_url.as_ref().map_or("", Uri::path).trim_end_matches('/').to_owned();
        Ok(Self { listener, door, path, web, limits, refusals })
    }

    pub(super) fn refusals(&self) -> Arc<Refusals> {
        Arc::clone(&self.refusals)
    }

    /// The server of these routes.
    pub(super) fn before(self, routes: Router) -> Server {
        let router = below(&self.path, self.door.before(routes));
        tokio::spawn(reload(Arc::clone(&self.web), self.door));
        Server::new(vec![self.listener], router, self.web, self.limits, self.refusals)
    }
}

/// Reads the web configuration and the tokens again on SIGHUP; a change of their files is noticed without it.
async fn reload(web: Arc<WebConfig>, door: Arc<Door>) {
    let Ok(mut hangup) = signal(SignalKind::hangup()) else { return };
    loop {
        tokio::select! {
            Some(()) = hangup.recv() => web.reload().await,
            () = sleep(TOKENS_EVERY) => {}
        }
        let door = Arc::clone(&door);
        let _ = tokio::task::spawn_blocking(move || door.reload()).await;
    }
}

/// What each route needs. Samples and events are sent, everything else is read; what changes something needs the most.
pub(super) fn needs(method: &Method, path: &str) -> Needs {
    match path {
        // Its links have a token of their own.
        "/-/healthy" | "/-/ready" | "/unsubscribe" => Needs::NOTHING,
        "/metrics" => Needs::METRICS,
        "/api/v1/write" | "/api/v1/events" => Needs::INGEST,
        _ if method.is_safe() => Needs::READ,
        _ => Needs::ADMIN,
    }
}
