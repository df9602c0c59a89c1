//! The list `scrape` of the configuration file. What Prometheus has too bears its name there.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_saphyr::Spanned;

use super::cli::host_port;
use super::file::{duration_of, non_empty, text};
use super::store::count;
use super::yaml::{Fields, Mistake, Value, line, list, scalar};
use crate::ingest::access::{Access, Credentials, Tls};
use crate::ingest::job::{Discovery, Job};
use crate::ingest::scrape::JobLimits;

/// Reading a few small files costs next to nothing, and a target that comes or goes should not wait.
const FILE_REFRESH: Duration = Duration::from_secs(5);
/// Prometheus' own default for `http_sd_configs`.
const HTTP_REFRESH: Duration = Duration::from_mins(1);

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
    let interval = fields.optional("interval", default.interval, mistakes, duration_of);
    let timeout = fields.optional("timeout", default.timeout.min(interval), mistakes, |value| {
        let timeout = duration_of(value)?;
        if timeout <= interval { Ok(timeout) } else { Err("at most the interval".into()) }
    });
    let scheme = fields.optional("scheme", default.scheme, mistakes, scheme);
    let metrics_path = fields.optional("metrics_path", default.metrics_path, mistakes, metrics_path);
    let params = fields.take("params").map(|(name, value)| params(&name, value, mistakes));
    let labels = fields.take("labels").map(|(name, value)| labels(&name, value, mistakes));
    let max_series = fields.optional("max_series", None, mistakes, |value| count(value).map(Some));
    let limits = limits(&mut fields, mistakes);
    let access = Arc::new(access(&mut fields, path, item, mistakes));
    let files = fields.take("file_sd_configs").map(|(name, value)| each(&name, value, mistakes, file_discovery));
    let http = fields.take("http_sd_configs").map(|(name, value)| each(&name, value, mistakes, http_discovery));
    fields.finish(mistakes);
    if targets.is_none() && files.is_none() && http.is_none() {
        let text = format!("{path}targets: missing, and neither file_sd_configs nor http_sd_configs is there");
        mistakes.push(Mistake { line: line(item), text });
    }
    let (params, labels) = (params.unwrap_or_default(), labels.unwrap_or_default());
    let (targets, discoveries) = (targets.unwrap_or_default(), files.into_iter().chain(http).flatten().collect());
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

/// `tls_config`, `basic_auth` and `authorization` of a job or a discovery.
fn access(fields: &mut Fields<'_>, path: &str, item: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Access {
    let tls = fields.take("tls_config").map(|(name, value)| tls(&name, value, mistakes)).unwrap_or_default();
    let basic = fields.take("basic_auth").map(|(name, value)| basic(&name, value, mistakes));
    let token = fields.take("authorization").map(|(name, value)| token(&name, value, mistakes));
    if basic.is_some() && token.is_some() {
        let text = format!("{path}authorization: expected only one of basic_auth and authorization");
        mistakes.push(Mistake { line: line(item), text });
    }
    Access { tls, credentials: basic.or(token).flatten() }
}

fn tls(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Tls {
    let mut fields = Fields::of(value, format!("{name}."), mistakes);
    let ca_file = fields.optional("ca_file", None, mistakes, some_file);
    let cert = fields.optional("cert_file", None, mistakes, some_file);
    let key = fields.optional("key_file", None, mistakes, some_file);
    let server_name = fields.optional("server_name", None, mistakes, server_name);
    let insecure_skip_verify = fields.optional("insecure_skip_verify", false, mistakes, boolean);
    fields.finish(mistakes);
    for (given, missing) in [(&cert, "key_file"), (&key, "cert_file")] {
        if given.is_some() && (cert.is_none() || key.is_none()) {
            mistakes.push(Mistake { line: line(value), text: format!("{name}.{missing}: missing") });
        }
    }
    Tls { ca_file, identity: cert.zip(key), server_name, insecure_skip_verify }
}

fn basic(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<Credentials> {
    let mut fields = Fields::of(value, format!("{name}."), mistakes);
    let username = fields.required("username", mistakes, non_empty);
    let password_file = fields.required("password_file", mistakes, file);
    fields.finish(mistakes);
    Some(Credentials::Basic { username: username?, password_file: password_file? })
}

fn token(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<Credentials> {
    let mut fields = Fields::of(value, format!("{name}."), mistakes);
    let scheme = fields.optional("type", "Bearer".to_owned(), mistakes, |value| {
        let word = non_empty(value)?;
        let is_word = word.chars().all(|c| c.is_ascii_alphanumeric()) && !word.eq_ignore_ascii_case("basic");
        if is_word { Ok(word) } else { Err("a scheme such as Bearer; for Basic there is basic_auth".into()) }
    });
    let credentials_file = fields.required("credentials_file", mistakes, file);
    fields.finish(mistakes);
    Some(Credentials::Token { scheme, credentials_file: credentials_file? })
}

fn file_discovery(path: &str, item: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<Discovery> {
    let mut fields = Fields::of(item, path.to_owned(), mistakes);
    let patterns = fields.take("files").map(|(name, value)| texts(&name, value, mistakes, pattern));
    if patterns.as_ref().is_none_or(Vec::is_empty) {
        mistakes.push(Mistake { line: line(item), text: format!("{path}files: expected at least one") });
    }
    let refresh = fields.optional("refresh_interval", FILE_REFRESH, mistakes, duration_of);
    fields.finish(mistakes);
    Some(Discovery::Files { patterns: patterns?.into_iter().map(PathBuf::from).collect(), refresh })
}

fn pattern(value: &Value) -> Result<String, String> {
    let known = |text: &&str| {
        glob::Pattern::new(text).is_ok() && [".json", ".yml", ".yaml"].iter().any(|ending| text.ends_with(ending))
    };
    text(value)
        .filter(known)
        .map(str::to_owned)
        .ok_or_else(|| "a path or pattern that ends in .json, .yml or .yaml".into())
}

fn http_discovery(path: &str, item: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<Discovery> {
    let mut fields = Fields::of(item, path.to_owned(), mistakes);
    let url = fields.required("url", mistakes, url);
    let refresh = fields.optional("refresh_interval", HTTP_REFRESH, mistakes, duration_of);
    let access = Arc::new(access(&mut fields, path, item, mistakes));
    fields.finish(mistakes);
    Some(Discovery::Http { url: url?, access, refresh })
}

fn url(value: &Value) -> Result<String, String> {
    let given = text(value).unwrap_or_default();
    let parsed: Option<reqwest::Url> = given.parse().ok();
    // A password in an address would be shown by whatever names it.
    let plain = |url: &reqwest::Url| ["http", "https"].contains(&url.scheme()) && url.username().is_empty();
    match parsed.filter(|url| plain(url) && url.password().is_none()) {
        Some(_) => Ok(given.to_owned()),
        None => Err("an address such as http://inventory:8080/targets, without user and password".into()),
    }
}

fn server_name(value: &Value) -> Result<Option<String>, String> {
    let name = text(value).filter(|name| {
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        !name.is_empty() && name.chars().all(letters) && name.parse::<std::net::IpAddr>().is_err()
    });
    name.map(|name| Some(name.to_owned())).ok_or_else(|| "a DNS name".into())
}

fn boolean(value: &Value) -> Result<bool, String> {
    text(value).and_then(|text| text.parse().ok()).ok_or_else(|| "true or false".into())
}

fn file(value: &Value) -> Result<PathBuf, String> {
    text(value).filter(|path| !path.is_empty()).map(PathBuf::from).ok_or_else(|| "a path".into())
}

fn some_file(value: &Value) -> Result<Option<PathBuf>, String> {
    file(value).map(Some)
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
        if let Some(max) = job.max_series {
            writeln!(f, "    max_series: {max}")?;
        }
        for (key, limit) in job.limits.list() {
            if let Some(limit) = limit {
                writeln!(f, "    {key}: {limit}")?;
            }
        }
        write_access(f, &job.access, "    ")?;
        for (key, way) in [("file_sd_configs", "file"), ("http_sd_configs", "http")] {
            let discoveries: Vec<_> = job.discoveries.iter().filter(|discovery| discovery.way() == way).collect();
            if !discoveries.is_empty() {
                writeln!(f, "    {key}:")?;
            }
            discoveries.into_iter().try_for_each(|discovery| write_discovery(f, discovery))?;
        }
    }
    Ok(())
}

fn write_discovery(f: &mut fmt::Formatter<'_>, discovery: &Discovery) -> fmt::Result {
    let refresh = discovery.refresh().as_millis();
    match discovery {
        Discovery::Files { patterns, .. } => {
            writeln!(f, "      - files: {patterns:?}\n        refresh_interval: {refresh}ms")
        }
        Discovery::Http { url, access, .. } => {
            writeln!(f, "      - url: {url:?}\n        refresh_interval: {refresh}ms")?;
            write_access(f, access, "        ")
        }
    }
}

fn write_access(f: &mut fmt::Formatter<'_>, access: &Access, indent: &str) -> fmt::Result {
    let Tls { ca_file, identity, server_name, insecure_skip_verify } = &access.tls;
    let (cert, key) = identity.as_ref().map(|(cert, key)| (cert, key)).unzip();
    let mut tls = String::new();
    for (name, path) in [("ca_file", ca_file.as_ref()), ("cert_file", cert), ("key_file", key)] {
        if let Some(path) = path {
            writeln!(tls, "{indent}  {name}: {path:?}")?;
        }
    }
    if let Some(name) = server_name {
        writeln!(tls, "{indent}  server_name: {name}")?;
    }
    if *insecure_skip_verify {
        writeln!(tls, "{indent}  insecure_skip_verify: true")?;
    }
    if !tls.is_empty() {
        write!(f, "{indent}tls_config:\n{tls}")?;
    }
    match &access.credentials {
        None => Ok(()),
        Some(Credentials::Basic { username, password_file }) => {
            writeln!(f, "{indent}basic_auth: {{username: {username:?}, password_file: {password_file:?}}}")
        }
        Some(Credentials::Token { scheme, credentials_file }) => {
            writeln!(f, "{indent}authorization: {{type: {scheme}, credentials_file: {credentials_file:?}}}")
        }
    }
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
        assert_eq!(refreshes, [("file", 5), ("file", 1), ("http", 30)]);
        assert_eq!((other.discoveries[0].refresh(), other.targets.len()), (HTTP_REFRESH, 0));
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
                "scrape[0].targets: missing, and neither file_sd_configs nor http_sd_configs is there".to_owned(),
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
