//! Where to listen.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where to listen: a TCP address, or a Unix socket as `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// For every machine that reaches the address.
    Tcp(Address),
    /// For this machine's processes that may write to the socket.
    Unix(PathBuf),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("unix:") {
            Some("") => Err("expected a path after unix:".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|expected: String| format!("{expected}, or unix:PATH")),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A TCP address to listen on: `HOST:PORT`, `[IPV6]:PORT` or `:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Host name or IP address without brackets; empty for every interface.
    pub host: String,
    /// TCP port; 0 lets the kernel choose.
    pub port: u16,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = || "expected HOST:PORT, [IPV6]:PORT or :PORT".to_owned();
        let (host, port) = text.rsplit_once(':').ok_or_else(expected)?;
        let port = port.parse().map_err(|_| expected())?;
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        if bare.is_none() && host.contains([':', '[', ']', ' ', '/']) {
            return Err(expected());
        }
        Ok(Self { host: bare.unwrap_or(host).to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_to_listen_is_written_as_it_was_read() {
        for text in ["127.0.0.1:9401", "[::1]:9401", ":9401", "unix:/run/goodput/web.sock", "unix:web.sock"] {
            assert_eq!(text.parse::<Listen>().map(|listen| listen.to_string()).as_deref(), Ok(text));
        }
        for (text, expected) in [("unix:", "a path"), ("/run/web.sock", "or unix:PATH"), ("9401", "HOST:PORT")] {
            let error = text.parse::<Listen>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
