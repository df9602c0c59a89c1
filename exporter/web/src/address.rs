//! Where to listen.

use std::fmt;
use std::str::FromStr;

/// Where to listen: `HOST:PORT`, `[IPV6]:PORT` or `:PORT`.
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
