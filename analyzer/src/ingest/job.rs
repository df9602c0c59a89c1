//! What is scraped alike, and where its targets come from.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::http::uri::Authority;
use goodput_exposition::excerpt;
use reqwest::Url;

use super::access::Access;
use super::scrape::{JobLimits, Target};

/// Exporters that are scraped alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The `job` label of their series.
    pub name: String,
    /// `HOST:PORT` each.
    pub targets: Vec<String>,
    /// Time from one scrape to the next.
    pub interval: Duration,
    /// When a scrape is given up; at most `interval`.
    pub timeout: Duration,
    /// `http` or `https`.
    pub scheme: String,
    /// Where on the target its metrics are.
    pub metrics_path: String,
    /// What is asked for in the query.
    pub params: Vec<(String, Vec<String>)>,
    /// Further labels of their series.
    pub labels: Vec<(String, String)>,
    /// What the label `instance` says.
    pub instance_from: InstanceFrom,
    /// Active series that all targets together may have; `None`: as many as one sender.
    pub max_series: Option<usize>,
    /// Limits of each scrape, and of the number of targets.
    pub limits: JobLimits,
    /// TLS and credentials.
    pub access: Arc<Access>,
    /// Where further targets are listed.
    pub discoveries: Vec<Discovery>,
}

/// What the label `instance` of a target's series says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum InstanceFrom {
    /// Its address, unless a list of targets gives the label.
    #[default]
    Address,
    /// The name of its node, which `goodput_node_info` tells: a pod that is replaced has another address, and goes on with
    /// the series.
    Nodename,
}

/// A list of targets that another program keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// Prometheus' `file_sd_configs`: files of JSON or YAML.
    Files {
        /// Paths; `*`, `?` and `[…]` stand for what they do in a shell.
        patterns: Vec<PathBuf>,
        /// How often they are read.
        refresh: Duration,
    },
    /// Prometheus' `http_sd_configs`.
    Http {
        /// What is asked.
        url: String,
        /// TLS and credentials.
        access: Arc<Access>,
        /// How often it is asked.
        refresh: Duration,
    },
    /// Prometheus' `dns_sd_configs`: a target at each record of the names.
    Dns {
        /// What is looked up.
        names: Vec<String>,
        /// Which of their records.
        record: Record,
        /// How often they are looked up.
        refresh: Duration,
    },
}

/// Records of a name in DNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// Its addresses of one type; the targets listen on this port.
    Address(Family, u16),
    /// SRV (RFC 2782): hosts, each with its port.
    Service,
}

impl Record {
    /// The record type as it is configured.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Address(family, _) => family.name(),
            Self::Service => "SRV",
        }
    }
}

/// Addresses of a DNS record type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    A,
    /// IPv6.
    Aaaa,
}

impl Family {
    /// The record type as it is configured.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
        }
    }

    /// Is the address one of these?
    pub(super) fn has(self, address: IpAddr) -> bool {
        address.is_ipv4() == (self == Self::A)
    }
}

impl Discovery {
    /// Its name in logs and metrics.
    #[must_use]
    pub fn way(&self) -> &'static str {
        match self {
            Self::Files { .. } => "file",
            Self::Http { .. } => "http",
            Self::Dns { .. } => "dns",
        }
    }

    /// How often it is asked.
    #[must_use]
    pub fn refresh(&self) -> Duration {
        match self {
            Self::Files { refresh, .. } | Self::Http { refresh, .. } | Self::Dns { refresh, .. } => *refresh,
        }
    }
}

impl Job {
    /// A job of this name without targets, as the configuration makes it when it says nothing else.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let Target { interval, timeout, .. } = Target::new(name, "");
        Self {
            name: name.to_owned(),
            targets: Vec::new(),
            interval,
            timeout,
            scheme: "http".to_owned(),
            metrics_path: "/metrics".to_owned(),
            params: Vec::new(),
            labels: Vec::new(),
            instance_from: InstanceFrom::default(),
            max_series: None,
            limits: JobLimits::default(),
            access: Arc::default(),
            discoveries: Vec::new(),
        }
    }

    /// What the scraper needs to know about one address. Labels of the target go before those of the job; `__scheme__`,
    /// `__metrics_path__` and `__param_…` say how it is asked, and other labels that begin with two underscores are for
    /// discovery alone, as in Prometheus.
    pub fn target(&self, address: &str, labels: &[(String, String)]) -> Result<Target, String> {
        if !is_host_port(address) {
            return Err(format!("expected HOST:PORT such as node1:9400, found {:?}", excerpt(address)));
        }
        let special = |name: &str| labels.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
        let scheme = special("__scheme__").unwrap_or(&self.scheme);
        let path = special("__metrics_path__").unwrap_or(&self.metrics_path);
        let slash = if path.starts_with('/') { "" } else { "/" };
        let mut url: Url = format!("{scheme}://{address}{slash}{path}")
            .parse()
            .map_err(|error| format!("no address of {address:?}, {scheme:?} and {path:?}: {error}"))?;
        if !["http", "https"].contains(&url.scheme()) {
            return Err(format!("{address}: scheme {scheme:?}, expected http or https"));
        }
        let given = labels.iter().filter_map(|(name, value)| Some((name.strip_prefix("__param_")?, value.as_str())));
        let given: Vec<_> = given.collect();
        let asked = self.params.iter().filter(|(name, _)| given.iter().all(|(other, _)| other != name));
        let asked = asked.flat_map(|(name, values)| values.iter().map(move |value| (name.as_str(), value.as_str())));
        let all: Vec<_> = asked.chain(given.iter().copied()).collect();
        if !all.is_empty() {
            url.query_pairs_mut().extend_pairs(all);
        }
        let mut target = Target::new(&self.name, address);
        let own = labels.iter().filter(|(name, _)| !name.starts_with("__"));
        for (name, value) in self.labels.iter().chain(own) {
            target.labels.retain(|(other, _)| other != name);
            target.labels.push((name.clone(), value.clone()));
        }
        target.labels.sort();
        let url = url.to_string();
        let (interval, timeout, max_series, limits) = (self.interval, self.timeout, self.max_series, self.limits);
        let (instance_from, access) = (self.instance_from, Arc::clone(&self.access));
        Ok(Target { url, interval, timeout, instance_from, max_series, limits, access, ..target })
    }
}

/// Is this `HOST:PORT`, and nothing else that a URL may have there?
pub(crate) fn is_host_port(text: &str) -> bool {
    text.parse::<Authority>().is_ok_and(|a| a.port_u16().is_some()) && !text.contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(labels: &[(&str, &str)]) -> Vec<(String, String)> {
        labels.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn labels_of_a_target_say_who_it_is_and_how_it_is_asked() {
        let job = Job {
            params: vec![
                ("collect[]".to_owned(), vec!["a b".to_owned(), "c".to_owned()]),
                ("x".to_owned(), vec!["1".to_owned()]),
            ],
            labels: pairs(&[("cluster", "c1"), ("rack", "r0")]),
            ..Job::new("gpus")
        };
        let plain = job.target("n1:9400", &[]).unwrap();
        assert_eq!(plain.url, "http://n1:9400/metrics?collect%5B%5D=a+b&collect%5B%5D=c&x=1");
        assert_eq!(plain.labels, pairs(&[("cluster", "c1"), ("instance", "n1:9400"), ("job", "gpus"), ("rack", "r0")]));
        let special = pairs(&[
            ("__metrics_path__", "gpu"),
            ("__scheme__", "https"),
            ("__param_x", "2"),
            ("__meta_dc", "d"),
            ("rack", "r1"),
            ("instance", "one"),
        ]);
        let special = job.target("n1:9400", &special).unwrap();
        assert_eq!(special.url, "https://n1:9400/gpu?collect%5B%5D=a+b&collect%5B%5D=c&x=2");
        assert_eq!(special.labels, pairs(&[("cluster", "c1"), ("instance", "one"), ("job", "gpus"), ("rack", "r1")]));
        assert!(job.target("n1", &[]).unwrap_err().starts_with("expected HOST:PORT such as node1:9400, found \"n1\""));
        assert!(job.target("n1:1", &pairs(&[("__scheme__", "ftp")])).unwrap_err().contains("expected http or https"));
    }
}
