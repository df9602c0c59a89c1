//! Lists of targets that other programs keep: files and HTTP servers, in Prometheus' formats, and names in DNS. A list
//! that cannot be read changes nothing: the one before it holds on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use goodput_exposition::excerpt;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use tokio::time::timeout;

use super::Limits;
use super::access::{Access, Clients};
use super::dns::look_up;
use super::job::{Discovery, Job};
use super::scrape::Target;
use goodput_engine::http::causes;

/// Targets of one list: more are a mistake in what keeps it, for one process scrapes this many every 15 s at best.
const MAX_TARGETS: usize = 10_000;

/// Targets and labels of one list that are named when they are left out.
const MAX_LEFT_OUT: usize = 10;

/// How long a server may take to list its targets.
const PATIENCE: Duration = Duration::from_secs(30);

/// Targets with the same labels: the element of Prometheus' lists.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    targets: Vec<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// What is known of one discovery.
pub(super) struct Listed {
    /// By file, URL or name.
    lists: BTreeMap<String, Vec<Target>>,
}

/// A list that could not be read, and why.
pub(super) type Failure = String;

impl Listed {
    pub(super) fn new() -> Self {
        Self { lists: BTreeMap::new() }
    }

    pub(super) fn targets(&self) -> impl Iterator<Item = &Target> {
        self.lists.values().flatten()
    }

    /// Reads every list again; says which could not be read.
    pub(super) async fn refresh(
        &mut self,
        job: &Job,
        discovery: &Discovery,
        clients: &Clients,
        limits: &Limits,
    ) -> Vec<Failure> {
        match discovery {
            Discovery::Files { patterns, .. } => self.files(job, patterns, limits),
            Discovery::Http { url, access, refresh } => {
                let listed = match timeout(PATIENCE, fetch(url, access, *refresh, clients, limits)).await {
                    Ok(listed) => listed.and_then(|text| json(&text)),
                    Err(_) => Err(format!("no complete answer within {PATIENCE:?}")),
                };
                self.keep(url, listed.and_then(|groups| targets(job, groups, limits)))
            }
            Discovery::Dns { names, record, .. } => {
                let mut failures = Vec::new();
                for name in names {
                    let listed = match timeout(PATIENCE, look_up(name, *record)).await {
                        Ok(found) => found.map(|targets| vec![Group { targets, labels: BTreeMap::new() }]),
                        Err(_) => Err(format!("no answer of the resolver within {PATIENCE:?}")),
                    };
                    failures.extend(self.keep(name, listed.and_then(|groups| targets(job, groups, limits))));
                }
                failures
            }
        }
    }

    /// A file that is gone has no targets; one that cannot be read keeps those it had.
    fn files(&mut self, job: &Job, patterns: &[PathBuf], limits: &Limits) -> Vec<Failure> {
        let mut failures = Vec::new();
        let mut found = Vec::new();
        for pattern in patterns {
            match glob::glob(&pattern.to_string_lossy()) {
                Ok(paths) => found.extend(paths.filter_map(Result::ok)),
                Err(error) => failures.push(format!("{}: {error}", pattern.display())),
            }
        }
        self.lists.retain(|name, _| found.iter().any(|path| path.to_string_lossy() == *name));
        for path in found {
            let listed = read(&path).and_then(|groups| targets(job, groups, limits));
            failures.extend(self.keep(&path.to_string_lossy(), listed));
        }
        failures
    }

    fn keep(&mut self, name: &str, listed: Result<(Vec<Target>, Vec<String>), String>) -> Vec<Failure> {
        let reasons = match listed {
            Ok((targets, left_out)) => {
                self.lists.insert(name.to_owned(), targets);
                left_out
            }
            Err(reason) => {
                self.lists.entry(name.to_owned()).or_default();
                vec![format!("{reason}; the targets that are known stay")]
            }
        };
        reasons.into_iter().map(|reason| format!("{name}: {reason}")).collect()
    }
}

/// The targets of a list, and what was left out of it: a target that is none, and labels beyond the limit. It is an error
/// where nothing would be left.
fn targets(job: &Job, groups: Vec<Group>, limits: &Limits) -> Result<(Vec<Target>, Vec<String>), String> {
    let count = groups.iter().map(|group| group.targets.len()).sum::<usize>();
    if count > MAX_TARGETS {
        return Err(format!("{count} targets, more than {MAX_TARGETS}"));
    }
    let (mut all, mut left_out) = (Vec::with_capacity(count), Vec::new());
    for (n, Group { targets, labels }) in groups.into_iter().enumerate() {
        let mut leave_out = |what: String| {
            if left_out.len() < MAX_LEFT_OUT {
                left_out.push(format!("group {}: {what}", n + 1));
            }
        };
        let fits = |name: &str, value: &str| !name.is_empty() && name.len() + value.len() <= limits.label_bytes;
        let (labels, too_long): (Vec<_>, Vec<_>) = labels.into_iter().partition(|(name, value)| fits(name, value));
        for (name, value) in too_long {
            let (bytes, limit) = (name.len() + value.len(), limits.label_bytes);
            leave_out(format!("label {:?} of {bytes} bytes is left out, expected 1 to {limit}", excerpt(&name)));
        }
        for address in targets {
            match job.target(&address, &labels) {
                Ok(_) if address.len() + "instance".len() > limits.label_bytes => {
                    leave_out(format!("target {:?} of {} bytes is left out", excerpt(&address), address.len()));
                }
                Ok(target) => all.push(target),
                Err(reason) => leave_out(reason),
            }
        }
    }
    match left_out.first().filter(|_| all.is_empty() && count > 0) {
        Some(reason) => Err(reason.clone()),
        None => Ok((all, left_out)),
    }
}

fn read(path: &Path) -> Result<Vec<Group>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => json(&text),
        // A file with nothing but comments lists nothing.
        _ => serde_saphyr::from_str::<Option<Vec<Group>>>(&text)
            .map(Option::unwrap_or_default)
            .map_err(|error| format!("expected a list of targets in YAML: {}", error.without_snippet())),
    }
}

fn json(text: &str) -> Result<Vec<Group>, String> {
    serde_json::from_str(text).map_err(|error| format!("expected a list of targets in JSON: {error}"))
}

/// Prometheus' HTTP discovery: status 200, `application/json`, the whole list each time.
async fn fetch(
    url: &str,
    access: &Arc<Access>,
    refresh: Duration,
    clients: &Clients,
    limits: &Limits,
) -> Result<String, String> {
    let request = clients.get(access, url)?;
    let request = request.header("X-Prometheus-Refresh-Interval-Seconds", refresh.as_secs_f64().to_string());
    let told = |error: reqwest::Error| causes(&error.without_url());
    let mut response = request.send().await.map_err(told)?;
    if response.status() != reqwest::StatusCode::OK {
        return Err(format!("status {}, expected 200", response.status().as_u16()));
    }
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content_type.split(';').next().unwrap_or_default().trim() != "application/json" {
        return Err(format!("content type {content_type:?}, expected application/json"));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(told)? {
        if body.len() + chunk.len() > limits.decompressed_bytes {
            return Err(format!("body of more than the limit of {} bytes", limits.decompressed_bytes));
        }
        body.extend_from_slice(&chunk);
    }
    String::from_utf8(body).map_err(|_| "expected UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_target_or_label_of_a_list_costs_itself() {
        let long = "x".repeat(100_000);
        let group = |targets: &[&str], labels: &[(&str, &str)]| Group {
            targets: targets.iter().map(|target| (*target).to_owned()).collect(),
            labels: labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        };
        let (job, limits) = (Job::new("gpu"), Limits::default());
        let groups = vec![
            group(&["n1:1", "n2", &format!("{long}:1")], &[("rack", "r1"), ("x", &long)]),
            group(&["n3:1"], &[("", "no name"), ("__param_x", &long)]),
        ];
        let (all, left_out) = targets(&job, groups, &limits).unwrap();
        let instances: Vec<_> = all.iter().map(|target| target.labels[0].1.as_str()).collect();
        assert_eq!(instances, ["n1:1", "n3:1"]);
        assert!(all.iter().flat_map(|target| &target.labels).all(|(name, value)| name.len() + value.len() < 20));
        assert_eq!((all[0].labels[2].0.as_str(), all[1].url.as_str()), ("rack", "http://n3:1/metrics"));
        assert_eq!(left_out.len(), 5, "{left_out:?}");
        assert_eq!(left_out[0], "group 1: label \"x\" of 100001 bytes is left out, expected 1 to 5120");
        assert!(left_out.iter().all(|reason| reason.len() < 200), "{left_out:?}");
        let error = targets(&job, vec![group(&["n1", "n2"], &[])], &limits).unwrap_err();
        assert!(error.starts_with("group 1: expected HOST:PORT such as node1:9400, found \"n1\""), "{error}");
    }
}
