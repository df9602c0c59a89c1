//! How a server with Prometheus' HTTP API is reached: what the commands that pull from one have in common.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use goodput_web::{masked, without_query};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use super::history::History;
use crate::ingest::copies::one_of_each;
use goodput_engine::{Engine, Reader, http};
use goodput_exposition::sample::{Batch, Labels, Series, TimeMs};
use goodput_rules::signal::matcher_of;

/// Names the tenant to Mimir and Cortex.
const TENANT: HeaderName = HeaderName::from_static("x-scope-orgid");

/// Credentials, TLS and what to take.
#[derive(clap::Args, Debug)]
pub struct ConnectionArgs {
    /// Only series that match, such as 'cluster="a"'; may be repeated
    #[arg(long = "match", value_name = "MATCHER")]
    pub matchers: Vec<String>,
    /// User of HTTP basic authentication
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub user: Option<String>,
    /// File with the user's password
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// File with a bearer token
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    pub bearer_token_file: Option<PathBuf>,
    /// Tenant of Mimir or Cortex (X-Scope-OrgID)
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<String>,
    /// Certificates (PEM) of authorities to trust besides those of the system
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Client certificate and its key in one file (PEM)
    #[arg(long, value_name = "FILE")]
    pub cert_file: Option<PathBuf>,
    /// Accept answers from which the server says it left something out
    #[arg(long)]
    pub allow_partial: bool,
    /// How samples are read
    #[arg(long, value_name = "READER", default_value = "auto")]
    pub reader: Wanted,
}

/// How samples are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Wanted {
    /// The cheapest that the server answers
    Auto,
    /// Remote read: Prometheus, Mimir, Cortex; staleness markers and external labels included
    #[value(name = "remote_read")]
    RemoteRead,
    /// Export of VictoriaMetrics, staleness markers included
    Victoria,
    /// Range selectors: Thanos and all others
    Promql,
}

impl Wanted {
    fn reader(self) -> Option<Reader> {
        match self {
            Self::Auto => None,
            Self::RemoteRead => Some(Reader::RemoteRead),
            Self::Victoria => Some(Reader::Victoria),
            Self::Promql => Some(Reader::Promql),
        }
    }
}

impl ConnectionArgs {
    /// The engine at this address. One with credentials in it is refused: addresses end up in messages and files.
    pub(super) fn engine(&self, url: &str) -> anyhow::Result<Engine> {
        let scheme = check(url)?.scheme().to_owned();
        Ok(Engine::new(self.client(&scheme)?, url, self.headers()?, self.allow_partial))
    }

    /// The same, with the reader that was used before, or that is asked for, or else the cheapest that it answers.
    pub(super) async fn with_reader(&self, engine: Engine, before: Option<Reader>) -> anyhow::Result<Engine> {
        let asked = self.reader.reader();
        if let (Some(asked), Some(before)) = (asked, before) {
            let (asked, before) = (asked.name(), before.name());
            ensure!(
                asked == before,
                "this backfill began with --reader {before}, and {asked} may give the same series other labels: end it \
                 with {before}, or remove backfill.json to begin again"
            );
        }
        let chosen = engine.by(before.or(asked), &self.matchers).await;
        chosen.with_context(|| match before.or(asked) {
            Some(reader) => format!("the server does not answer --reader {}", reader.name()),
            None => "the server does not say how samples can be read; --reader names a way".to_owned(),
        })
    }

    fn client(&self, scheme: &str) -> anyhow::Result<reqwest::Client> {
        let mut authorities = Vec::new();
        if let Some(path) = &self.ca_file {
            let found = reqwest::Certificate::from_pem_bundle(&read(path)?);
            authorities = found.with_context(|| format!("{}: expected certificates (PEM)", path.display()))?;
        }
        let mut identity = None;
        if let Some(path) = &self.cert_file {
            let found = reqwest::Identity::from_pem(&read(path)?);
            let expected = || format!("{}: expected a certificate and its key (PEM)", path.display());
            identity = Some(found.with_context(expected)?);
        }
        let client = http::client(scheme, || {
            let builder =
                reqwest::Client::builder().user_agent("goodput-analyzer").tls_certs_merge(authorities.clone());
            identity.clone().into_iter().fold(builder, reqwest::ClientBuilder::identity)
        });
        client.map_err(anyhow::Error::msg).context("cannot set up HTTP")
    }

    fn headers(&self) -> anyhow::Result<HeaderMap> {
        let authorization = match (&self.user, &self.password_file, &self.bearer_token_file) {
            (Some(user), Some(file), _) => {
                let credentials = format!("{user}:{}", secret(file)?);
                Some(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(credentials)))
            }
            (_, _, Some(file)) => Some(format!("Bearer {}", secret(file)?)),
            _ => None,
        };
        let mut headers = HeaderMap::new();
        if let Some(text) = authorization {
            let mut value = HeaderValue::from_str(&text).context("expected a secret without control characters")?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        if let Some(tenant) = &self.tenant {
            let value = HeaderValue::from_str(tenant).context("--tenant: expected no control characters")?;
            headers.insert(TENANT, value);
        }
        Ok(headers)
    }
}

/// What is pulled from a server.
pub(super) struct Pull<'a> {
    pub(super) engine: &'a Engine,
    pub(super) metrics: Vec<String>,
    pub(super) matchers: &'a [String],
    /// Labels for the series that have none of that name.
    pub(super) labels: &'a [(String, String)],
    /// Labels that tell the replicas of one Prometheus apart.
    pub(super) replica_labels: &'a [String],
}

impl Pull<'_> {
    /// Of some metrics not all series are asked for: those that no signal is made of.
    pub(super) fn matchers_of(&self, metric: &str) -> Vec<String> {
        self.matchers.iter().map(String::as_str).chain(matcher_of(metric)).map(str::to_owned).collect()
    }

    /// Stores all samples of the range, metric by metric; `after` is called for each.
    pub(super) async fn part(
        &self,
        range: &Range<TimeMs>,
        history: &mut History,
        mut after: impl FnMut(&History) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for metric in &self.metrics {
            let batch = self.engine.samples(metric, &self.matchers_of(metric), range.clone()).await?;
            history.append(labelled(one_of_each(batch, self.replica_labels), self.labels)).await?;
            after(history)?;
        }
        Ok(())
    }
}

fn labelled(batch: Batch, more: &[(String, String)]) -> Batch {
    let labelled = |Series { labels, samples }: Series| {
        let own = labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let new = more.iter().filter(|(name, _)| labels.get(name).is_none()).cloned();
        Series { labels: Labels::new(own.chain(new)), samples }
    };
    if more.is_empty() { batch } else { batch.into_iter().map(labelled).collect() }
}

fn check(address: &str) -> anyhow::Result<reqwest::Url> {
    const EXPECTED: &str = "expected what stands before /api/v1/, such as http://prometheus:9090";
    let parsed = reqwest::Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = parsed.with_context(|| format!("{:?} is no address: {EXPECTED}", masked(address)))?;
    ensure!(
        url.username().is_empty() && url.password().is_none(),
        "credentials in the address of {}: expected them by --user and --password-file",
        url.host_str().unwrap_or_default()
    );
    ensure!(url.query().is_none() && url.fragment().is_none(), "{}: {EXPECTED}", without_query(address));
    Ok(url)
}

fn secret(path: &Path) -> anyhow::Result<String> {
    let text = String::from_utf8(read(path)?).with_context(|| format!("{}: expected UTF-8", path.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Options {
        #[command(flatten)]
        connection: ConnectionArgs,
    }

    #[test]
    fn of_pods_those_of_jobs_alone_are_asked_for() {
        let Options { connection } = Options::parse_from(["x", "--match", "cluster=\"a\""]);
        let engine = connection.engine("http://a").unwrap();
        let pull = Pull {
            engine: &engine,
            metrics: Vec::new(),
            matchers: &connection.matchers,
            labels: &[],
            replica_labels: &[],
        };
        assert_eq!(pull.matchers_of("up"), ["cluster=\"a\""]);
        assert_eq!(pull.matchers_of("kube_pod_owner"), ["cluster=\"a\"", "owner_kind=~\".*Job|JobSet\""]);
    }

    #[test]
    fn an_address_is_a_url_without_credentials() {
        for good in
            ["http://prometheus:9090", "https://mimir.example/prometheus/", "http://vm:8481/select/0/prometheus"]
        {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in ["prometheus:9090", "prometheus", "ftp://a/", "http://a/?b=c"] {
            assert!(check(bad).unwrap_err().to_string().contains("http://prometheus:9090"), "{bad}");
        }
        for bad in ["http://ann:s3cret@[::1/", "ann:s3cret@a", "http://a/?token=s3cret"] {
            let told = check(bad).unwrap_err().to_string();
            assert!(!told.contains("s3cret"), "{told}");
        }
        let told = check("http://ann:s3cret@a/").unwrap_err().to_string();
        assert!(told.contains("--password-file") && !told.contains("s3cret"), "{told}");
    }
}
