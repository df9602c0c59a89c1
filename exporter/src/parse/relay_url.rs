//! The address of a dcgm-exporter to relay.

use std::fmt;
use std::str::FromStr;

/// Where a dcgm-exporter is asked: `http://HOST[:PORT][/PATH]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayUrl {
    /// Its name or address, without brackets.
    pub host: String,
    /// 80 where none is given.
    pub port: u16,
    /// `/metrics` where none is given; with the query.
    pub path: String,
}

impl FromStr for RelayUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected http://HOST[:PORT][/PATH], such as http://localhost:9401/metrics".to_owned();
        let rest = text.strip_prefix("http://").ok_or_else(expected)?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| expected())?),
            _ => (authority, 80),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let plain = |text: &str, others: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c));
        let good = match bare {
            Some(address) => plain(address, ":."),
            None => plain(host, "-._"),
        };
        if host.is_empty() || !good || !plain(path, "/-._~%?=&") {
            return Err(expected());
        }
        let path = if path.is_empty() { "/metrics" } else { path };
        Ok(Self { host: bare.unwrap_or(host).to_owned(), port, path: path.to_owned() })
    }
}

impl fmt::Display for RelayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "http://[{}]:{}{}", self.host, self.port, self.path),
            false => write!(f, "http://{}:{}{}", self.host, self.port, self.path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_in_every_form() {
        for (text, written) in [
            ("http://localhost:9401/metrics", "http://localhost:9401/metrics"),
            ("http://localhost", "http://localhost:80/metrics"),
            ("http://[::1]:9401", "http://[::1]:9401/metrics"),
            ("http://[::1]", "http://[::1]:80/metrics"),
            ("http://10.0.0.1:1/a/b?x=1", "http://10.0.0.1:1/a/b?x=1"),
        ] {
            assert_eq!(text.parse::<RelayUrl>().unwrap().to_string(), written, "{text}");
        }
        for text in [
            "",
            "localhost:9401",
            "https://localhost:9401",
            "http://",
            "http://:80",
            "http://a:b",
            "http://u:p@h:1",
            "http://a b",
        ] {
            let error = text.parse::<RelayUrl>().unwrap_err();
            assert!(error.starts_with("expected http://HOST"), "{text}");
        }
    }
}
