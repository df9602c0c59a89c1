//! Flags about the front door of `serve`.

use std::path::PathBuf;

use axum::http::{HeaderName, Uri};
use clap::Args;
use goodput_web::{Listen, Trusted};

/// The front door of `serve`.
#[derive(Args, Clone, Debug)]
pub struct WebArgs {
    /// Listen address: HOST:PORT, :PORT for every interface, or unix:PATH for a Unix socket; the default accepts local
    /// connections only
    #[arg(long = "web.listen-address", default_value = "127.0.0.1:9401", value_name = "ADDRESS")]
    pub listen: Listen,
    /// TLS, client certificates and basic auth: a Prometheus web configuration file
    #[arg(long = "web.config.file", value_name = "FILE")]
    pub web_config: Option<PathBuf>,
    /// Address by which people reach this server through a proxy, such as https://ops.example.com/goodput
    #[arg(long = "web.external-url", value_name = "URL", value_parser = external_url)]
    pub external_url: Option<Uri>,
    /// Host names by which pages and the API may be asked, separated by commas; without them the name is checked on
    /// loopback addresses alone, where localhost, IP addresses and the external URL's host are right
    #[arg(long = "web.allowed-hosts", value_name = "HOST,…", value_delimiter = ',')]
    pub allowed_hosts: Vec<String>,
    /// Connections that may be open; with more an idle one of the address that has the most is closed
    #[arg(long = "web.max-connections", value_name = "N", default_value = "512", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: u32,
    /// Header in which a trusted proxy says who asks, such as X-Forwarded-User; needs --web.auth.trusted-proxies
    #[arg(long = "web.auth.proxy-header", value_name = "NAME", requires = "trusted_proxies")]
    pub proxy_header: Option<HeaderName>,
    /// Header in which a trusted proxy says the groups of who asks, separated by commas
    #[arg(long = "web.auth.proxy-groups-header", value_name = "NAME", requires = "proxy_header")]
    pub proxy_groups_header: Option<HeaderName>,
    /// Where those proxies are, separated by commas: addresses, networks, or unix for all clients of the Unix socket; from
    /// elsewhere the headers are ignored
    #[arg(
        long = "web.auth.trusted-proxies",
        value_name = "CIDR|unix,…",
        value_delimiter = ',',
        requires = "proxy_header"
    )]
    pub trusted_proxies: Vec<Trusted>,
}

fn external_url(text: &str) -> Result<Uri, String> {
    let url: Option<Uri> = text.parse().ok();
    let is_right = |url: &Uri| {
        ["http", "https"].contains(&url.scheme_str().unwrap_or_default())
            && url.host().is_some_and(|host| !host.is_empty())
            && is_plain_path(url.path())
            && url.query().is_none()
    };
    let expected = "expected http:// or https://, a host, and a path of letters, digits and - . _ ~ if any";
    url.filter(is_right).ok_or_else(|| expected.to_owned())
}

/// Is it made of characters that RFC 3986 calls unreserved? They are written in one way only, so that a path can be compared.
fn is_plain_path(path: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~/".contains(c);
    path.chars().all(plain) && !path.contains("//") && !path.split('/').any(|part| [".", ".."].contains(&part))
}
