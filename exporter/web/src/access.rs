//! Who may do what: scopes of users, groups and bearer tokens, and proxies that say who asks.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use ipnet::IpNet;
use ring::digest::{SHA256, digest};

use crate::auth::scheme;

/// What may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Send samples and events.
    Ingest,
    /// Read everything.
    ReadAll,
    /// Change what the program does; includes the other two.
    Admin,
}

impl Scope {
    /// Its name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::ReadAll => "read:all",
            Self::Admin => "admin",
        }
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = [Self::Ingest, Self::ReadAll, Self::Admin];
        let found = known.into_iter().find(|scope| scope.name() == text);
        found.ok_or_else(|| format!("expected ingest, read:all or admin, found {text:?}"))
    }
}

/// What a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// `None`: anyone may ask.
    pub scope: Option<Scope>,
    /// Is `Host` checked? Not where programs ask: the names that they use are on no list.
    pub host: bool,
}

impl Needs {
    /// Health.
    pub const NOTHING: Self = Self { scope: None, host: false };
    /// What senders post to.
    pub const INGEST: Self = Self { scope: Some(Scope::Ingest), host: false };
    /// What Prometheus scrapes.
    pub const METRICS: Self = Self { scope: Some(Scope::ReadAll), host: false };
    /// What people read.
    pub const READ: Self = Self { scope: Some(Scope::ReadAll), host: true };
    /// What changes the program.
    pub const ADMIN: Self = Self { scope: Some(Scope::Admin), host: true };
}

/// What each route of a program needs.
pub type NeedsOf = fn(&Method, &str) -> Needs;

/// Who gets scopes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// A user of the web configuration, or one that a trusted proxy names.
    User(String),
    /// A group that a trusted proxy names.
    Group(String),
    /// A client with the bearer token in this file.
    Token(PathBuf),
}

/// The scopes of a user, group or token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Of whom.
    pub who: Who,
    /// Which.
    pub scopes: Vec<Scope>,
}

/// Proxies that say who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// The header with the user.
    pub user: HeaderName,
    /// The header with the user's groups, separated by commas.
    pub groups: Option<HeaderName>,
    /// The proxies' own addresses. From others the headers are ignored.
    pub trusted: Vec<IpNet>,
}

impl Proxy {
    /// Who asks, where a trusted proxy says so.
    fn identity(&self, peer: IpAddr, headers: &HeaderMap) -> Option<Identity> {
        let peer = peer.to_canonical();
        if !self.trusted.iter().any(|network| network.contains(&peer)) {
            return None;
        }
        let text = |value: &HeaderValue| value.to_str().ok().map(str::trim).map(str::to_owned);
        let mut users = headers.get_all(&self.user).iter();
        // Two of them: one is not the proxy's.
        let (Some(user), None) = (users.next().and_then(text), users.next()) else { return None };
        let groups = self.groups.iter().flat_map(|name| headers.get_all(name)).filter_map(text);
        let groups = groups.flat_map(|list| list.split(',').map(|group| group.trim().to_owned()).collect::<Vec<_>>());
        (!user.is_empty())
            .then(|| Identity::User { name: user, groups: groups.filter(|group| !group.is_empty()).collect() })
    }
}

/// Who asks.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// A person or program with a name.
    User {
        /// The name.
        name: String,
        /// The groups that a proxy named.
        groups: Vec<String>,
    },
    /// The holder of a token: the digest of it.
    Token([u8; 32]),
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User { name, .. } => write!(f, "user {name:?}"),
            Self::Token(_) => f.write_str("a token"),
        }
    }
}

/// Who may do what.
#[derive(Debug, Default)]
pub struct Access {
    proxy: Option<Proxy>,
    users: Vec<(String, Vec<Scope>)>,
    groups: Vec<(String, Vec<Scope>)>,
    tokens: Vec<([u8; 32], Vec<Scope>)>,
}

impl Access {
    /// Reads the tokens' files.
    ///
    /// # Errors
    /// Names the file that cannot be read, or holds no token.
    pub fn new(proxy: Option<Proxy>, grants: Vec<Grant>) -> Result<Self, String> {
        let mut access = Self { proxy, ..Self::default() };
        for Grant { who, scopes } in grants {
            match who {
                Who::User(name) => access.users.push((name, scopes)),
                Who::Group(name) => access.groups.push((name, scopes)),
                Who::Token(path) => {
                    let read = std::fs::read_to_string(&path);
                    let text = read.map_err(|error| format!("{}: {error}", path.display()))?;
                    let token = text.trim();
                    // 16 bytes that cannot be guessed are 128 bits at most.
                    if token.len() < 16 {
                        return Err(format!("{}: expected a token of at least 16 characters", path.display()));
                    }
                    access.tokens.push((tag(token), scopes));
                }
            }
        }
        Ok(access)
    }

    /// Does anything here say who asks?
    #[must_use]
    pub fn authenticates(&self) -> bool {
        self.proxy.is_some() || !self.tokens.is_empty()
    }

    /// Who asks, as far as a proxy or a token says so.
    pub(crate) fn identity(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<Identity> {
        if let (Some(proxy), Some(peer)) = (&self.proxy, peer)
            && let Some(identity) = proxy.identity(peer, headers)
        {
            return Some(identity);
        }
        let token = tag(scheme(headers.get(http::header::AUTHORIZATION)?, "bearer")?);
        self.tokens.iter().any(|(known, _)| *known == token).then_some(Identity::Token(token))
    }

    /// May they? Where nothing is granted to any user or group, every user may do everything.
    pub(crate) fn allows(&self, identity: &Identity, scope: Scope) -> bool {
        let covers = |scopes: &Vec<Scope>| scopes.contains(&scope) || scopes.contains(&Scope::Admin);
        match identity {
            Identity::User { .. } if self.users.is_empty() && self.groups.is_empty() => true,
            Identity::User { name, groups } => {
                self.users.iter().any(|(user, scopes)| user == name && covers(scopes))
                    || self.groups.iter().any(|(group, scopes)| groups.contains(group) && covers(scopes))
            }
            Identity::Token(token) => self.tokens.iter().any(|(known, scopes)| known == token && covers(scopes)),
        }
    }
}

/// What is kept of a token. Digests are compared, not tokens: how long that takes says nothing of the token.
fn tag(token: &str) -> [u8; 32] {
    let mut tag = [0; 32];
    tag.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    fn proxy() -> Proxy {
        Proxy {
            user: HeaderName::from_static("x-forwarded-user"),
            groups: Some(HeaderName::from_static("x-forwarded-groups")),
            trusted: vec!["10.1.0.0/16".parse().unwrap(), "::1/128".parse().unwrap()],
        }
    }

    fn user(name: &str, groups: &[&str]) -> Identity {
        Identity::User { name: name.into(), groups: groups.iter().map(|group| (*group).to_owned()).collect() }
    }

    #[test]
    fn a_proxys_word_counts_from_its_own_address_alone() {
        let access = Access::new(Some(proxy()), Vec::new()).unwrap();
        let alice = headers(&[("x-forwarded-user", "alice"), ("x-forwarded-groups", "ml, ops,")]);
        for (peer, headers, expected) in [
            ("10.1.2.3", alice.clone(), Some(user("alice", &["ml", "ops"]))),
            ("::ffff:10.1.2.3", headers(&[("x-forwarded-user", " alice ")]), Some(user("alice", &[]))),
            ("10.2.0.1", alice.clone(), None),
            ("127.0.0.1", alice, None),
            ("10.1.2.3", headers(&[("x-forwarded-user", "")]), None),
            ("10.1.2.3", headers(&[("x-forwarded-user", "alice"), ("x-forwarded-user", "root")]), None),
            ("10.1.2.3", headers(&[("x-forwarded-groups", "ops")]), None),
        ] {
            assert_eq!(access.identity(Some(peer.parse().unwrap()), &headers), expected, "{peer} {headers:?}");
        }
    }

    #[test]
    fn a_token_has_its_own_scopes_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        let grant = Grant { who: Who::Token(path.clone()), scopes: vec![Scope::Ingest] };
        let access = Access::new(None, vec![grant.clone()]).unwrap();
        let token = access.identity(None, &headers(&[("authorization", "bearer 0123456789abcdef")])).unwrap();
        assert!(access.allows(&token, Scope::Ingest) && !access.allows(&token, Scope::ReadAll));
        for wrong in ["Bearer 0123456789abcdeF", "Bearer", "Basic 0123456789abcdef", "Bearer "] {
            assert_eq!(access.identity(None, &headers(&[("authorization", wrong)])), None, "{wrong}");
        }
        std::fs::write(&path, "short").unwrap();
        let error = Access::new(None, vec![grant]).unwrap_err();
        assert!(error.contains("token: expected a token of at least 16") && !error.contains("short"), "{error}");
    }

    #[test]
    fn users_and_groups_may_what_is_granted_and_everything_where_nothing_is() {
        let open = Access::default();
        assert!(open.allows(&user("anyone", &[]), Scope::Admin));
        let grant = |who, scope| Grant { who, scopes: vec![scope] };
        let grants = vec![
            grant(Who::User("prometheus".into()), Scope::Ingest),
            grant(Who::Group("ops".into()), Scope::Admin),
            grant(Who::User("alice".into()), Scope::ReadAll),
        ];
        let access = Access::new(None, grants).unwrap();
        for (identity, may) in [
            (user("prometheus", &[]), [true, false, false]),
            (user("alice", &[]), [false, true, false]),
            (user("bob", &["ops"]), [true, true, true]),
            (user("bob", &["ml"]), [false, false, false]),
            (user("ops", &[]), [false, false, false]),
        ] {
            let allowed = [Scope::Ingest, Scope::ReadAll, Scope::Admin].map(|scope| access.allows(&identity, scope));
            assert_eq!(allowed, may, "{identity:?}");
        }
    }
}
