//! Checks that every request passes before it is answered: number of requests, client address, host name and user.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use http::header::{AUTHORIZATION, HOST, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderValue, StatusCode};

use crate::access::{Access, Asker, Identity, NeedsOf};
use crate::auth::Authenticator;
use crate::config::{Rules, WebConfig};
use crate::connection::Local;
use crate::guesses::Full;
use crate::origin::Hosts;
use crate::peers::{PeerKey, Place};
use crate::refused::{Reason, Refusals};

/// What every request passes.
pub struct Door {
    web: Arc<WebConfig>,
    authenticator: Authenticator,
    access: Access,
    hosts: Hosts,
    needs: NeedsOf,
    refusals: Arc<Refusals>,
}

/// Why a request goes no further.
struct Refusal {
    status: StatusCode,
    reason: Reason,
    text: String,
}

impl Refusal {
    fn new(status: StatusCode, reason: Reason, text: impl Into<String>) -> Self {
        Self { status, reason, text: text.into() }
    }
}

impl Door {
    /// A door with the rules of the web configuration and of `access`.
    ///
    /// # Errors
    /// When the kernel gives no random bytes.
    pub fn new(
        web: Arc<WebConfig>,
        access: Access,
        hosts: Hosts,
        needs: NeedsOf,
        refusals: Arc<Refusals>,
    ) -> Result<Arc<Self>, String> {
        let authenticator = Authenticator::new().map_err(|_| "the kernel gives no random bytes")?;
        Ok(Arc::new(Self { web, authenticator, access, hosts, needs, refusals }))
    }

    /// Reads again what says who may do what; the web configuration has a `reload` of its own.
    pub fn reload(&self) {
        self.access.reload();
    }

    /// Puts the door before the router.
    pub fn before(self: &Arc<Self>, router: Router) -> Router {
        router.layer(from_fn_with_state(Arc::clone(self), pass))
    }

    async fn admit(&self, rules: &Rules, request: &Parts) -> Result<Option<Asker>, Refusal> {
        if rules.rate.as_ref().is_some_and(|rate| !rate.allows(Instant::now())) {
            let text = "more requests than rate_limit of the web configuration lets through";
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, Reason::Rate, text));
        }
        let needs = (self.needs)(&request.method, request.uri.path());
        if needs.host {
            self.check_host(request)?;
        }
        if self.hosts.is_foreign(&request.method, &request.headers) {
            let text = "sent by a page of another site";
            return Err(Refusal::new(StatusCode::FORBIDDEN, Reason::Origin, text));
        }
        let Some(scope) = needs.scope.filter(|_| self.is_locked(rules)) else { return Ok(None) };
        let identity = self.identity(rules, request).await?;
        if !self.access.allows(&identity, scope) {
            let text = format!("{identity:?} has not the scope {}, which this needs", scope.name());
            return Err(Refusal::new(StatusCode::FORBIDDEN, Reason::Forbidden, text));
        }
        Ok(Some(self.access.asker(&identity)))
    }

    fn is_locked(&self, rules: &Rules) -> bool {
        !rules.users.is_empty() || self.access.authenticates()
    }

    fn check_host(&self, request: &Parts) -> Result<(), Refusal> {
        let local = request.extensions.get::<Local>().and_then(|local| local.0);
        let is_loopback = local.is_some_and(|local| local.ip().to_canonical().is_loopback());
        let host = request.headers.get(HOST).and_then(|host| host.to_str().ok());
        if self.hosts.allows(host, is_loopback) {
            return Ok(());
        }
        let (host, hint) = (host.unwrap_or_default(), self.hosts.hint);
        let text = format!("Host {host:?} is not a name of this server; {hint}");
        Err(Refusal::new(StatusCode::FORBIDDEN, Reason::Host, text))
    }

    async fn identity(&self, rules: &Rules, request: &Parts) -> Result<Identity, Refusal> {
        if let Some(identity) = self.access.identity(address(request), &request.headers) {
            return Ok(identity);
        }
        let place = request.extensions.get::<Arc<Place>>().cloned();
        // While the answer to a wrong password is held, the connection may be closed for another.
        let held = move || {
            if let Some(place) = place {
                place.end()
            }
        };
        let authorization = request.headers.get(AUTHORIZATION);
        match self.authenticator.user(&rules.users, authorization, key(request), held).await {
            Ok(Some(name)) => Ok(Identity::User { name, groups: Vec::new() }),
            Ok(None) => Err(Refusal::new(StatusCode::UNAUTHORIZED, Reason::Unauthenticated, "unauthorized")),
            Err(Full) => {
                let text = "too many passwords wait to be checked; try again in some seconds";
                Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, Reason::Guesses, text))
            }
        }
    }

    fn refuse(&self, refusal: Refusal, rules: &Rules, peer: PeerKey) -> Response {
        let Refusal { status, reason, text } = refusal;
        self.refusals.note(reason, peer, &text);
        let mut response = (status, format!("{text}\n")).into_response();
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            let scheme = if rules.users.is_empty() { "Bearer" } else { "Basic" };
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
        }
        if [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS].contains(&status) {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }
}

/// The client's address; `None` for a Unix socket.
fn address(request: &Parts) -> Option<IpAddr> {
    request.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip())
}

fn key(request: &Parts) -> PeerKey {
    PeerKey::of_client(address(request))
}

async fn pass(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let rules = door.web.rules().await;
    let (mut parts, body) = request.into_parts();
    let mut response = match door.admit(&rules, &parts).await {
        Ok(asker) => {
            asker.map(|asker| parts.extensions.insert(asker));
            next.run(Request::from_parts(parts, body)).await
        }
        Err(refusal) => door.refuse(refusal, &rules, key(&parts)),
    };
    let headers = response.headers_mut();
    // No answer is to be taken for something else than it says it is.
    headers.entry(X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
    headers.extend(rules.headers.clone());
    response
}
