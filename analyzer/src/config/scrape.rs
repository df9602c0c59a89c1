//! The list `scrape` of the configuration file. What Prometheus has too bears its name there.

mod access;
mod discovery;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use goodput_settings::kind::{Count, Period, Unset};
use serde_saphyr::Spanned;

use super::file::{non_empty, text};
use super::rows;
use super::values::host_port;
use super::yaml::{Fields, Mistake, Value, line, list, scalar};
use crate::ingest::job::{InstanceFrom, Job};
use crate::ingest::scrape::JobLimits;

/// Reads the list.
pub(super) fn jobs(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for (n, item) in list(name, value, mistakes).iter().enumerate() {
        let path = format!("{name}[{n}].");
        let Some(job) = job(&path, item, mistakes) else { continue };
        if jobs.iter().any(|other| other.name == job.name) {
            let text = format!("{path}name: {:?} is taken by another job", job.name);
            mistakes.push(Mistake { line: line(item), text });
        }
        jobs.push(job);
    }
    jobs
}

fn job(path: &str, item: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<Job> {
    let mut fields = Fields::of(item, path.to_owned(), mistakes);
    let name = fields.required("name", mistakes, non_empty);
    let default = Job::new("");
    let targets = fields.take("targets").map(|(name, value)| texts(&name, value, mistakes, target));
    let interval = fields.optional("interval", default.interval, mistakes, rows::of::<Period>);
    let timeout = fields.optional("timeout", default.timeout.min(interval), mistakes, |value| {
        let timeout = rows::of::<Period>(value)?;
        if timeout <= interval { Ok(timeout) } else { Err("at most the interval".into()) }
    });
    let scheme = fields.optional("scheme", default.scheme, mistakes, scheme);
    let metrics_path = fields.optional("metrics_path", default.metrics_path, mistakes, metrics_path);
    let params = fields.take("params").map(|(name, value)| params(&name, value, mistakes));
    let labels = fields.take("labels").map(|(name, value)| labels(&name, value, mistakes));
    let instance_from = fields.optional("instance_from", default.instance_from, mistakes, instance_from);
    let max_series = fields.optional("max_series", None, mistakes, rows::of::<Unset<Count>>);
    let limits = limits(&mut fields, mistakes);
    let access = Arc::new(access::access(&mut fields, path, item, mistakes));
    let files = fields.take("file_sd_configs").map(|(name, value)| each(&name, value, mistakes, discovery::files));
    let http = fields.take("http_sd_configs").map(|(name, value)| each(&name, value, mistakes, discovery::http));
    let dns = fields.take("dns_sd_configs").map(|(name, value)| each(&name, value, mistakes, discovery::dns));
    fields.finish(mistakes);
    let discoveries = files.into_iter().chain(http).chain(dns).reduce(|all, more| [all, more].concat());
    if targets.is_none() && discoveries.is_none() {
        let text =
            format!("{path}targets: missing, and no list of them: file_sd_configs, http_sd_configs, dns_sd_configs");
        mistakes.push(Mistake { line: line(item), text });
    }
    let (params, labels) = (params.unwrap_or_default(), labels.unwrap_or_default());
    let (targets, discoveries) = (targets.unwrap_or_default(), discoveries.unwrap_or_default());
    let name = name?;
    Some(Job {
        name,
        targets,
        interval,
        timeout,
        scheme,
        metrics_path,
        params,
        labels,
        instance_from,
        max_series,
        limits,
        access,
        discoveries,
    })
}

/// Prometheus' limits of a job: 0 is none.
fn limits(fields: &mut Fields<'_>, mistakes: &mut Vec<Mistake>) -> JobLimits {
    let mut number = |key| fields.optional(key, None, mistakes, limit);
    let (sample_limit, label_limit) = (number("sample_limit"), number("label_limit"));
    let (label_name_length_limit, label_value_length_limit) =
        (number("label_name_length_limit"), number("label_value_length_limit"));
    let target_limit = number("target_limit");
    let body_size_limit = fields.optional("body_size_limit", None, mistakes, size);
    JobLimits {
        sample_limit,
        label_limit,
        label_name_length_limit,
        label_value_length_limit,
        body_size_limit,
        target_limit,
    }
}

fn limit(value: &Value) -> Result<Option<usize>, String> {
    let number = text(value).and_then(|text| text.parse().ok());
    number.map(|number| Some(number).filter(|number| *number > 0)).ok_or_else(|| "a whole number, 0 for none".into())
}

/// Bytes, as Prometheus reads them: all units are powers of 1024.
fn size(value: &Value) -> Result<Option<usize>, String> {
    let text = text(value).unwrap_or_default();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let power = match unit {
        "" | "B" => Some(0),
        "KB" | "KiB" => Some(10),
        "MB" | "MiB" => Some(20),
        "GB" | "GiB" => Some(30),
        _ => None,
    };
    let bytes = power.zip(number.parse::<usize>().ok()).and_then(|(power, number)| number.checked_mul(1 << power));
    bytes.map(|bytes| Some(bytes).filter(|bytes| *bytes > 0)).ok_or_else(|| "a size such as 10MB, 0 for none".into())
}

fn target(value: &Value) -> Result<String, String> {
    host_port(text(value).unwrap_or_default())
}

fn scheme(value: &Value) -> Result<String, String> {
    let known = text(value).filter(|scheme| ["http", "https"].contains(scheme));
    known.map(str::to_owned).ok_or_else(|| "http or https".into())
}

fn metrics_path(value: &Value) -> Result<String, String> {
    let path = text(value).filter(|path| path.starts_with('/') && !path.contains(['?', '#', ' ']));
    path.map(str::to_owned).ok_or_else(|| "a path such as /metrics; what is asked for goes into params".into())
}

fn instance_from(value: &Value) -> Result<InstanceFrom, String> {
    match text(value) {
        Some("address") => Ok(InstanceFrom::Address),
        Some("nodename") => Ok(InstanceFrom::Nodename),
        _ => Err("address or nodename".into()),
    }
}

/// A list of different texts, in order.
fn texts(
    name: &str,
    value: &Spanned<Value>,
    mistakes: &mut Vec<Mistake>,
    read: fn(&Value) -> Result<String, String>,
) -> Vec<String> {
    let mut seen = BTreeSet::new();
    for (n, item) in list(name, value, mistakes).iter().enumerate() {
        let Some(text) = scalar(&format!("{name}[{n}]"), item, mistakes, read) else { continue };
        if !seen.insert(text.clone()) {
            let text = format!("{name}[{n}]: {text:?} is listed twice");
            mistakes.push(Mistake { line: line(item), text });
        }
    }
    seen.into_iter().collect()
}

fn each<T>(
    name: &str,
    value: &Spanned<Value>,
    mistakes: &mut Vec<Mistake>,
    read: fn(&str, &Spanned<Value>, &mut Vec<Mistake>) -> Option<T>,
) -> Vec<T> {
    let items = list(name, value, mistakes).iter().enumerate();
    items.filter_map(|(n, item)| read(&format!("{name}[{n}]."), item, mistakes)).collect()
}

/// The entries of a mapping, or a mistake.
fn entries<'a>(
    name: &str,
    value: &'a Spanned<Value>,
    mistakes: &mut Vec<Mistake>,
) -> &'a [(Spanned<String>, Spanned<Value>)] {
    match &value.value {
        Value::Map(entries) => entries,
        other => {
            mistakes.push(Mistake { line: line(value), text: format!("{name}: expected a mapping, found {other}") });
            &[]
        }
    }
}

fn params(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Vec<(String, Vec<String>)> {
    let mut params = Vec::new();
    for (key, values) in entries(name, value, mistakes) {
        let path = format!("{name}.{}", key.value);
        let values = list(&path, values, mistakes).iter().enumerate();
        let any = |value: &Value| text(value).map(str::to_owned).ok_or_else(|| "a text".to_owned());
        let values = values.filter_map(|(n, item)| scalar(&format!("{path}[{n}]"), item, mistakes, any)).collect();
        params.push((key.value.clone(), values));
    }
    params
}

fn labels(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Vec<(String, String)> {
    let mut labels = Vec::new();
    for (key, value) in entries(name, value, mistakes) {
        let path = format!("{name}.{}", key.value);
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !key.value.chars().all(letters)
            || key.value.starts_with(|c: char| c.is_ascii_digit())
            || key.value.starts_with("__")
        {
            let text = format!(
                "{path}: expected a label name of letters, digits and underscores that does not begin with two"
            );
            mistakes.push(Mistake { line: line(value), text });
        }
        let Some(text) = scalar(&path, value, mistakes, non_empty) else { continue };
        labels.push((key.value.clone(), text));
    }
    labels
}

/// Writes the list in the file's own form.
pub(super) fn write(f: &mut fmt::Formatter<'_>, jobs: &[Job]) -> fmt::Result {
    writeln!(f, "scrape:{}", if jobs.is_empty() { " []" } else { "" })?;
    for job in jobs {
        writeln!(f, "  - name: {:?}\n    targets: {:?}", job.name, job.targets)?;
        writeln!(f, "    interval: {}ms\n    timeout: {}ms", job.interval.as_millis(), job.timeout.as_millis())?;
        writeln!(f, "    scheme: {}\n    metrics_path: {:?}", job.scheme, job.metrics_path)?;
        let params: Vec<_> = job.params.iter().map(|(name, values)| format!("{name:?}: {values:?}")).collect();
        let labels: Vec<_> = job.labels.iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
        for (key, entries) in [("params", params), ("labels", labels)] {
            if !entries.is_empty() {
                writeln!(f, "    {key}: {{{}}}", entries.join(", "))?;
            }
        }
        if job.instance_from == InstanceFrom::Nodename {
            writeln!(f, "    instance_from: nodename")?;
        }
        if let Some(max) = job.max_series {
            writeln!(f, "    max_series: {max}")?;
        }
        for (key, limit) in job.limits.list() {
            if let Some(limit) = limit {
                writeln!(f, "    {key}: {limit}")?;
            }
        }
        access::write(f, &job.access, "    ")?;
        for (key, way) in [("file_sd_configs", "file"), ("http_sd_configs", "http"), ("dns_sd_configs", "dns")] {
            let discoveries: Vec<_> = job.discoveries.iter().filter(|discovery| discovery.way() == way).collect();
            if !discoveries.is_empty() {
                writeln!(f, "    {key}:")?;
            }
            discoveries.into_iter().try_for_each(|discovery| discovery::write(f, discovery))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    const WHOLE: &str = "\
scrape:
- name: gpus
  targets: [node1:9400]
  scheme: https
  metrics_path: /gpu
  params: {'collect[]': [a, 'b c'], empty: []}
  max_series: 5000
  sample_limit: 2000
  label_limit: 30
  label_name_length_limit: 0
  label_value_length_limit: 200
  body_size_limit: 10MB
  target_limit: 100
  labels: {cluster: c1, rack: '7'}
  tls_config:
    ca_file: ca.pem
    cert_file: me.pem
    key_file: me.key
    server_name: gpu.example
    insecure_skip_verify: true
  basic_auth: {username: scraper, password_file: password}
  file_sd_configs:
  - files: ['targets/*.json', more.yml]
  - {files: [fast.yaml], refresh_interval: 1s}
  http_sd_configs:
  - url: https://inventory:8080/targets?kind=gpu
    refresh_interval: 30s
    authorization: {type: Token, credentials_file: token}
  dns_sd_configs:
  - {names: [exporters.gpu.svc], type: A, port: 9400}
  - {names: [a.example, b.example.], type: AAAA, port: 9401, refresh_interval: 5s}
  - {names: [_metrics._tcp.exporters.gpu.svc]}
  instance_from: nodename
- {name: other, http_sd_configs: [{url: 'http://i/t', tls_config: {ca_file: x}}], authorization: {credentials_file: c}}
";

    #[test]
    fn everything_is_read_and_printed_as_a_config() {
        let config = Config::parse(WHOLE).unwrap();
        let [gpus, other] = &config.scrape[..] else { panic!("{:?}", config.scrape) };
        assert_eq!((gpus.scheme.as_str(), gpus.metrics_path.as_str()), ("https", "/gpu"));
        assert_eq!(gpus.params[0].1, ["a", "b c"]);
        assert_eq!((gpus.max_series, other.max_series), (Some(5000), None));
        let limits = gpus.limits.list().map(|(_, limit)| limit);
        assert_eq!(limits, [Some(2000), Some(30), None, Some(200), Some(10 << 20), Some(100)]);
        assert_eq!(other.limits, JobLimits::default());
        assert_eq!(gpus.labels, [("cluster".to_owned(), "c1".to_owned()), ("rack".to_owned(), "7".to_owned())]);
        assert_eq!(gpus.access.tls.identity, Some(("me.pem".into(), "me.key".into())));
        let refreshes: Vec<_> = gpus.discoveries.iter().map(|d| (d.way(), d.refresh().as_secs())).collect();
        assert_eq!(refreshes, [("file", 5), ("file", 1), ("http", 30), ("dns", 30), ("dns", 5), ("dns", 30)]);
        assert_eq!((gpus.instance_from, other.instance_from), (InstanceFrom::Nodename, InstanceFrom::Address));
        assert_eq!((other.discoveries[0].refresh(), other.targets.len()), (discovery::HTTP_REFRESH, 0));
        let printed = config.to_string();
        assert_eq!(Config::parse(&printed).unwrap().scrape, config.scrape, "{printed}");
    }

    #[test]
    fn each_mistake_is_named_with_its_line() {
        let expected_files = "expected a path or pattern that ends in .json, .yml or .yaml";
        for (job, error) in [
            ("targets: {}", "scrape[0].targets: expected a list, found a mapping".to_owned()),
            (
                "interval: 5s",
                "scrape[0].targets: missing, and no list of them: file_sd_configs, http_sd_configs, dns_sd_configs"
                    .to_owned(),
            ),
            (
                "sample_limit: -1, targets: ['n:1']",
                "scrape[0].sample_limit: expected a whole number, 0 for none, found \"-1\"".to_owned(),
            ),
            (
                "body_size_limit: 10XB, targets: ['n:1']",
                "scrape[0].body_size_limit: expected a size such as 10MB, 0 for none, found \"10XB\"".to_owned(),
            ),
            ("scheme: ftp, targets: ['n:1']", "scrape[0].scheme: expected http or https, found \"ftp\"".to_owned()),
            (
                "metrics_path: 'm?x=1', targets: ['n:1']",
                "scrape[0].metrics_path: expected a path such as /metrics; what is asked for goes into params, found \"m?x=1\"".to_owned(),
            ),
            ("params: {a: b}, targets: ['n:1']", "scrape[0].params.a: expected a list, found \"b\"".to_owned()),
            ("basic_auth: s3cret, targets: ['n:1']", "scrape[0].basic_auth.password_file: missing|scrape[0].basic_auth.username: missing|scrape[0].basic_auth: expected a mapping, found a text".to_owned()),
            ("targets: ['u:s3cret@n:1']", "scrape[0].targets[0]: expected HOST:PORT such as node1:9400, found \"***@n:1\"".to_owned()),
            ("labels: [a], targets: ['n:1']", "scrape[0].labels: expected a mapping, found a list".to_owned()),
            (
                "labels: {__a: b}, targets: ['n:1']",
                "scrape[0].labels.__a: expected a label name of letters, digits and underscores that does not begin with two".to_owned(),
            ),
            (
                "tls_config: {cert_file: c}, targets: ['n:1']",
                "scrape[0].tls_config.key_file: missing".to_owned(),
            ),
            (
                "tls_config: {server_name: 10.0.0.1}, targets: ['n:1']",
                "scrape[0].tls_config.server_name: expected a DNS name, found \"10.0.0.1\"".to_owned(),
            ),
            (
                "tls_config: {insecure_skip_verify: yes}, targets: ['n:1']",
                "scrape[0].tls_config.insecure_skip_verify: expected true or false, found \"yes\"".to_owned(),
            ),
            (
                "basic_auth: {username: u, password: p}, targets: ['n:1']",
                "scrape[0].basic_auth.password: unknown key, expected one of username, password_file|scrape[0].basic_auth.password_file: missing".to_owned(),
            ),
            (
                "basic_auth: {username: u, password_file: p}, authorization: {credentials_file: c}, targets: ['n:1']",
                "scrape[0].authorization: expected only one of basic_auth and authorization".to_owned(),
            ),
            (
                "file_sd_configs: [{files: ['t.txt']}]",
                format!("scrape[0].file_sd_configs[0].files: expected at least one|scrape[0].file_sd_configs[0].files[0]: {expected_files}, found \"t.txt\""),
            ),
            (
                "instance_from: pod, targets: ['n:1']",
                "scrape[0].instance_from: expected address or nodename, found \"pod\"".to_owned(),
            ),
            (
                "dns_sd_configs: [{names: ['a b'], type: MX, port: 1}, {names: [a], type: A}, {names: [a], port: 9400}, {names: [a], type: A, port: 0}]",
                "scrape[0].dns_sd_configs[0].names: expected at least one|\
                 scrape[0].dns_sd_configs[0].names[0]: expected a DNS name, found \"a b\"|\
                 scrape[0].dns_sd_configs[0].type: expected A, AAAA or SRV, found \"MX\"|\
                 scrape[0].dns_sd_configs[1].port: missing|\
                 scrape[0].dns_sd_configs[2].port: expected no port with the type SRV, whose records have it, found \"9400\"|\
                 scrape[0].dns_sd_configs[3].port: expected a port from 1 to 65535, found \"0\""
                    .to_owned(),
            ),
            (
                "http_sd_configs: [{url: 'http://u:p@h/'}]",
                "scrape[0].http_sd_configs[0].url: expected an address such as http://inventory:8080/targets, without user and password, found \"http://***@h/\"".to_owned(),
            ),
        ] {
            let mistakes = Config::parse(&format!("scrape:\n- {{name: a, {job}}}\n")).unwrap_err();
            assert!(mistakes.iter().all(|m| m.line == 2), "{mistakes:?}");
            let shown: Vec<&str> = mistakes.iter().map(|m| m.text.as_str()).collect();
            assert_eq!(shown.join("|"), error);
        }
    }
}
