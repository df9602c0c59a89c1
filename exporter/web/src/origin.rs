//! Requests that a page of another site makes a browser send, and names that do not mean this server. Pure.

use std::net::{IpAddr, Ipv6Addr};

use http::header::{HOST, ORIGIN};
use http::uri::{Authority, Uri};
use http::{HeaderMap, HeaderValue, Method};

/// By which names people reach the server.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    /// What people type into their browser, behind a proxy (`--web.external-url`).
    pub external: Option<Uri>,
    /// Names that are taken, without ports. Where there are any, no others are; without them `Host` is checked on
    /// loopback addresses alone.
    pub names: Vec<String>,
    /// What a refused client is advised to do.
    pub hint: &'static str,
}

impl Hosts {
    /// Is this `Host` one of this server? By other names a page of another site may reach it: its name is given a second
    /// address, that of this machine (DNS rebinding).
    pub(crate) fn allows(&self, host: Option<&str>, is_loopback: bool) -> bool {
        if self.names.is_empty() && !is_loopback {
            return true;
        }
        let Some(name) = host.and_then(|host| host.parse::<Authority>().ok()).map(|host| host.host().to_lowercase())
        else {
            return false;
        };
        let listed = |known: &str| known.eq_ignore_ascii_case(&name);
        let external = self.external.as_ref().and_then(Uri::host);
        if self.names.iter().any(|known| listed(known)) || external.is_some_and(listed) {
            return true;
        }
        // Unlike a name, an address cannot be pointed at another machine.
        self.names.is_empty() && (name == "localhost" || name.ends_with(".localhost") || is_address(&name))
    }

    /// Does a page of another site send this? Browsers say where a request comes from; programs say nothing.
    pub(crate) fn is_foreign(&self, method: &Method, headers: &HeaderMap) -> bool {
        if method.is_safe() {
            return false;
        }
        let text = |value: &HeaderValue| value.to_str().map(str::to_owned).unwrap_or_default();
        if let Some(site) = headers.get("sec-fetch-site").map(text)
            && !["same-origin", "none"].contains(&site.as_str())
        {
            return true;
        }
        let Some(origin) = headers.get(ORIGIN).map(text) else { return false };
        let Ok(origin) = origin.parse::<Uri>() else { return true };
        let Some(from) = origin.authority() else { return true };
        let host = headers.get(HOST).map(text).and_then(|host| host.parse::<Authority>().ok());
        let own = |own: &Authority| same(from, own, origin.scheme_str());
        let external = self.external.as_ref().filter(|external| external.scheme() == origin.scheme());
        !host.as_ref().is_some_and(own) && !external.and_then(Uri::authority).is_some_and(own)
    }
}

/// Name and port are the same; a port that is not there is the scheme's own.
fn same(one: &Authority, other: &Authority, scheme: Option<&str>) -> bool {
    let usual = if scheme == Some("https") { 443 } else { 80 };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(usual);
    one.host().eq_ignore_ascii_case(other.host()) && port(one) == port(other)
}

fn is_address(name: &str) -> bool {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    bare.map_or(name.parse::<IpAddr>().is_ok(), |v6| v6.parse::<Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_loopback_only_names_that_cannot_be_pointed_elsewhere_are_taken() {
        let hosts = Hosts { external: Some("https://goodput.example/x".parse().unwrap()), ..Hosts::default() };
        for (host, expected) in [
            (Some("localhost:9401"), true),
            (Some("LOCALHOST"), true),
            (Some("a.localhost:1"), true),
            (Some("127.0.0.1:9401"), true),
            (Some("[::1]:9401"), true),
            (Some("10.0.0.1"), true),
            (Some("goodput.example"), true),
            (Some("Goodput.Example:8443"), true),
            (Some("evil.example:9401"), false),
            (Some("localhost.evil.example"), false),
            (Some("127.0.0.1.evil.example"), false),
            (Some(""), false),
            (Some("a b"), false),
            (None, false),
        ] {
            assert_eq!(hosts.allows(host, true), expected, "{host:?}");
            assert!(hosts.allows(host, false), "elsewhere every name is taken: {host:?}");
        }
        let listed = Hosts { names: vec!["gp.lan".into()], ..hosts };
        for (host, expected) in [
            ("gp.lan:9401", true),
            ("GP.lan", true),
            ("goodput.example", true),
            ("localhost", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!([true, false].map(|is| listed.allows(Some(host), is)), [expected; 2], "{host}");
        }
    }

    #[test]
    fn what_a_page_of_another_site_sends_is_foreign() {
        let hosts = Hosts { external: Some("https://goodput.example".parse().unwrap()), ..Hosts::default() };
        let foreign = |method: Method, site: Option<&'static str>, origin: Option<&'static str>| {
            let mut headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("node1:9400"))]);
            site.map(|site| headers.insert("sec-fetch-site", HeaderValue::from_static(site)));
            origin.map(|origin| headers.insert(ORIGIN, HeaderValue::from_static(origin)));
            hosts.is_foreign(&method, &headers)
        };
        for (site, origin, expected) in [
            (None, None, false),
            (Some("same-origin"), Some("http://node1:9400"), false),
            (Some("none"), None, false),
            (None, Some("http://NODE1:9400"), false),
            (None, Some("https://goodput.example"), false),
            (None, Some("https://goodput.example:443"), false),
            (Some("cross-site"), None, true),
            (Some("same-site"), Some("http://node1:9400"), true),
            (None, Some("http://node1:9401"), true),
            (None, Some("http://evil.example"), true),
            (None, Some("http://goodput.example"), true),
            (None, Some("null"), true),
            (None, Some("http://node1:9400@evil.example"), true),
        ] {
            assert_eq!(foreign(Method::POST, site, origin), expected, "{site:?} {origin:?}");
            assert_eq!(foreign(Method::DELETE, site, origin), expected, "{site:?} {origin:?}");
            assert!(!foreign(Method::GET, site, origin), "reading is what browsers protect");
        }
    }
}
