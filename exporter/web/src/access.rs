//! Who may do what: scopes of users, groups and bearer tokens, and proxies that say who asks.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use ipnet::IpNet;
use parking_lot::RwLock;
use ring::digest::{SHA256, digest};

use crate::auth::scheme;

goodput_catalog::named! {
    /// What may be done.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Scope {
        /// Send samples and events.
        Ingest = "ingest",
        /// Read everything.
        ReadAll = "read:all",
        /// Change what the program does; includes the other two.
        Admin = "admin",
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().copied().find(|scope| scope.name() == text);
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
    /// Where the proxies are. From elsewhere the headers are ignored.
    pub trusted: Vec<Trusted>,
}

/// Where a trusted proxy is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trusted {
    /// At one of these addresses.
    Network(IpNet),
    /// At the other end of a Unix socket.
    Unix,
}

impl FromStr for Trusted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "unix" {
            return Ok(Self::Unix);
        }
        let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        let expected = "expected an IP address, a network such as 10.1.0.0/16, or unix";
        network.map(Self::Network).map_err(|_| expected.to_owned())
    }
}

impl Proxy {
    /// Who asks, where a trusted proxy says so.
    fn identity(&self, client: Option<IpAddr>, headers: &HeaderMap) -> Option<Identity> {
        let is_there = |trusted: &Trusted| match (trusted, client) {
            (Trusted::Network(network), Some(client)) => network.contains(&client.to_canonical()),
            (Trusted::Unix, None) => true,
            _ => false,
        };
        if !self.trusted.iter().any(is_there) {
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

/// Who asks, by name, as the door found out: an extension of requests. There is none where nothing says who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker(pub String);

/// Who may do what.
#[derive(Debug, Default)]
pub struct Access {
    proxy: Option<Proxy>,
    users: Vec<(String, Vec<Scope>)>,
    groups: Vec<(String, Vec<Scope>)>,
    tokens: Vec<Token>,
}

/// A bearer token's file and scopes, and what was read from it last.
#[derive(Debug)]
struct Token {
    file: PathBuf,
    scopes: Vec<Scope>,
    tag: RwLock<[u8; 32]>,
    /// The file was wrong at the last reading, which the log says once.
    is_wrong: AtomicBool,
}

impl Token {
    fn read(file: PathBuf, scopes: Vec<Scope>) -> Result<Self, String> {
        let tag = RwLock::new(tag_in(&file)?);
        Ok(Self { file, scopes, tag, is_wrong: false.into() })
    }

    fn read_again(&self) {
        let read = tag_in(&self.file);
        let was_wrong = self.is_wrong.swap(read.is_err(), Ordering::Relaxed);
        match read {
            Ok(tag) => *self.tag.write() = tag,
            Err(error) if !was_wrong => tracing::error!("kept a token of web.access as it was: {error}"),
            Err(_) => {}
        }
    }
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
                Who::Token(file) => access.tokens.push(Token::read(file, scopes)?),
            }
        }
        Ok(access)
    }

    /// Reads the tokens' files again. The token of one that became wrong stays as it was, and the log says so.
    pub fn reload(&self) {
        self.tokens.iter().for_each(Token::read_again);
    }

    /// Does anything here say who asks?
    #[must_use]
    pub fn authenticates(&self) -> bool {
        self.proxy.is_some() || !self.tokens.is_empty()
    }

    /// Who asks, as far as a proxy or a token says so.
    pub(crate) fn identity(&self, client: Option<IpAddr>, headers: &HeaderMap) -> Option<Identity> {
        if let Some(identity) = self.proxy.as_ref().and_then(|proxy| proxy.identity(client, headers)) {
            return Some(identity);
        }
        let sent = tag(scheme(headers.get(http::header::AUTHORIZATION)?, "bearer")?);
        self.tokens.iter().any(|token| *token.tag.read() == sent).then_some(Identity::Token(sent))
    }

    /// The name of a user; of a token that of its file.
    pub(crate) fn asker(&self, identity: &Identity) -> Asker {
        let of_token = |sent: &[u8; 32]| {
            let token = self.tokens.iter().find(|token| *token.tag.read() == *sent);
            let name = token.and_then(|token| token.file.file_name()).unwrap_or_default();
            format!("token {}", name.to_string_lossy())
        };
        Asker(match identity {
            Identity::User { name, .. } => name.clone(),
            Identity::Token(sent) => of_token(sent),
        })
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
            Identity::Token(sent) => {
                self.tokens.iter().any(|token| *token.tag.read() == *sent && covers(&token.scopes))
            }
        }
    }
}

/// What is kept of the token in this file.
fn tag_in(file: &Path) -> Result<[u8; 32], String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let token = text.trim();
    // 16 bytes that cannot be guessed are 128 bits at most.
    if token.len() < 16 {
        return Err(format!("{}: expected a token of at least 16 characters", file.display()));
    }
    Ok(tag(token))
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
            trusted: vec!["10.1.0.0/16".parse().unwrap(), "::1".parse().unwrap()],
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
    fn a_proxy_behind_a_unix_socket_is_trusted_where_that_is_said() {
        let headers = headers(&[("x-forwarded-user", "alice")]);
        let by_network = Access::new(Some(proxy()), Vec::new()).unwrap();
        assert_eq!(by_network.identity(None, &headers), None);
        let by_socket = Proxy { trusted: vec!["unix".parse().unwrap()], ..proxy() };
        let by_socket = Access::new(Some(by_socket), Vec::new()).unwrap();
        assert_eq!(by_socket.identity(None, &headers), Some(user("alice", &[])));
        assert_eq!(by_socket.identity(Some([127, 0, 0, 1].into()), &headers), None);
        assert!("local".parse::<Trusted>().unwrap_err().contains("or unix"));
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
        assert_eq!(access.asker(&token), Asker("token token".into()), "the name of the file");
        for wrong in ["Bearer 0123456789abcdeF", "Bearer", "Basic 0123456789abcdef", "Bearer "] {
            assert_eq!(access.identity(None, &headers(&[("authorization", wrong)])), None, "{wrong}");
        }
        let second = headers(&[("authorization", "Bearer ABCDEF9876543210")]);
        std::fs::write(&path, "ABCDEF9876543210").unwrap();
        access.reload();
        assert_eq!(access.identity(None, &headers(&[("authorization", "Bearer 0123456789abcdef")])), None);
        std::fs::write(&path, "short").unwrap();
        access.reload();
        let token = access.identity(None, &second).expect("a file that became wrong changes nothing");
        assert!(access.allows(&token, Scope::Ingest));
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
