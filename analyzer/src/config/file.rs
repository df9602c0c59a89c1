//! The configuration file.

use std::fmt;
use std::path::{Path, PathBuf};

use goodput_web::Grant;
use jiff::tz::TimeZone;
use serde_saphyr::Spanned;

use super::application::{self, application};
use super::ingest::{self, IngestSettings};
use super::maintenance;
use super::prices;
use super::reads::ReadLimits;
use super::report::{self, Shown, report};
use super::rows::{self, Variables};
use super::scrape;
use super::serving;
use super::web;
use super::yaml::{Fields, Mistake, Value, line, parse};
use crate::deliver::Settings;
use crate::ingest::job::Job;
use crate::report::serving::ServingTerms;
use crate::report::{Price, Terms};
use goodput_rules::application::Counter;
use goodput_rules::classify::Declared;
use goodput_rules::classify::thresholds::{Listed, Thresholds};
use goodput_rules::signal;
use goodput_store::Options;

/// Everything that can be configured, with defaults for what was left out.
#[derive(Clone, Debug)]
pub struct Config {
    /// Exporters to scrape; none when everything arrives by remote write.
    pub scrape: Vec<Job>,
    /// Zone in which weeks and times of reports are meant.
    pub zone: TimeZone,
    /// What rules hold signals against.
    pub thresholds: Thresholds,
    /// Bounds of the store; [`Config::store_options`] adds its directory and what it keeps.
    pub store: Options,
    /// What GPU time and energy cost; without any, reports have no money.
    pub prices: Vec<Price>,
    /// When and where reports are delivered; none when they are only asked for.
    pub report: Option<Settings>,
    /// What reports show.
    pub shown: Shown,
    /// What jobs count themselves.
    pub application: Vec<Counter>,
    /// What is wanted of inference servers.
    pub serving: ServingTerms,
    /// How much may come in, and how replicas are recognised.
    pub ingest: IngestSettings,
    /// When which GPUs are out of use on purpose.
    pub maintenance: Vec<Declared>,
    /// Bounds of pages and the API.
    pub reads: ReadLimits,
    /// Who may do what.
    pub access: Vec<Grant>,
}

/// Why there is no configuration.
#[derive(Debug)]
pub enum ConfigError {
    /// The file cannot be read.
    Io(PathBuf, std::io::Error),
    /// Everything that is wrong in it, in order of lines.
    Mistakes(PathBuf, Vec<Mistake>),
    /// Everything that is wrong in the environment.
    Environment(Vec<String>),
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Mistakes(path, mistakes) => {
                for (n, mistake) in mistakes.iter().enumerate() {
                    let separator = if n == 0 { "" } else { "\n" };
                    write!(f, "{separator}{}:{}: {}", path.display(), mistake.line, mistake.text)?;
                }
                Ok(())
            }
            Self::Environment(mistakes) => f.write_str(&mistakes.join("\n")),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            scrape: Vec::new(),
            zone: TimeZone::UTC,
            thresholds: Thresholds::default(),
            store: Options::default(),
            prices: Vec::new(),
            report: None,
            shown: Shown::default(),
            application: Vec::new(),
            serving: ServingTerms::default(),
            ingest: IngestSettings::default(),
            maintenance: Vec::new(),
            reads: ReadLimits::default(),
            access: Vec::new(),
        }
    }
}

impl Config {
    /// What reports are made with.
    #[must_use]
    pub fn terms(&self) -> Terms {
        let (prices, serving) = (self.prices.as_slice().into(), self.serving.clone().into());
        Terms { prices, first_at_least: self.shown.first_at_least, serving }
    }

    /// What the store of this directory is told: it keeps what signals use, and the counters of `application`.
    #[must_use]
    pub fn store_options(&self, dir: &Path) -> Options {
        let also = self.application.iter().map(|counter| counter.metric.clone()).collect();
        Options { dir: dir.into(), keep: signal::is_known, also, ..self.store.clone() }
    }

    /// Reads the file, if one is named.
    pub fn load(path: Option<&Path>) -> Result<Self, ConfigError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let text = std::fs::read_to_string(path).map_err(|e| ConfigError::Io(path.into(), e))?;
        Self::parse(&text).map_err(|mistakes| ConfigError::Mistakes(path.into(), mistakes))
    }

    /// The same with what the environment says instead; an error names every variable that is wrong.
    pub fn overridden_by(mut self, variables: Variables<'_>) -> Result<Self, ConfigError> {
        let mut mistakes = Vec::new();
        rows::override_by(&mut self.store, variables, &mut mistakes);
        rows::override_by(&mut self.ingest.limits, variables, &mut mistakes);
        rows::override_by(&mut self.ingest.replicas, variables, &mut mistakes);
        rows::override_by(&mut self.reads, variables, &mut mistakes);
        rows::override_by(&mut self.shown, variables, &mut mistakes);
        if let Some(settings) = &mut self.report {
            rows::override_by(settings, variables, &mut mistakes);
        }
        for threshold in Thresholds::default().list() {
            let set =
                |text: &str| in_range(&threshold, Some(text)).map(|number| self.thresholds.set(threshold.name, number));
            rows::from_variable("thresholds", threshold.name, variables, &mut mistakes, set);
        }
        mistakes.extend(too_short(&self.store));
        if mistakes.is_empty() { Ok(self) } else { Err(ConfigError::Environment(mistakes)) }
    }

    /// Reads the text; every mistake is in the error, in order of lines.
    pub fn parse(text: &str) -> Result<Self, Vec<Mistake>> {
        let root = parse(text).map_err(|mistake| vec![mistake])?;
        let mut mistakes = Vec::new();
        let mut fields = Fields::of(&root, String::new(), &mut mistakes);
        let zone = fields.optional("zone", TimeZone::UTC, &mut mistakes, zone);
        let scrape = fields.section("scrape", &mut mistakes, scrape::jobs);
        let thresholds = fields.section("thresholds", &mut mistakes, thresholds);
        let store = fields.section("store", &mut mistakes, store);
        let prices = fields.section("prices", &mut mistakes, |name, value, m| prices::prices(name, value, &zone, m));
        let (report, shown) = fields.section("report", &mut mistakes, report);
        let application = fields.section("application", &mut mistakes, application);
        let serving = fields.section("serving", &mut mistakes, serving::serving);
        let ingest = fields.section("ingest", &mut mistakes, ingest::settings);
        let maintenance = fields.section("maintenance", &mut mistakes, maintenance::maintenance);
        let reads = fields.section("reads", &mut mistakes, rows::section);
        let access = fields.section("web", &mut mistakes, web::grants);
        fields.finish(&mut mistakes);
        mistakes.sort();
        let config = Self {
            scrape,
            zone,
            thresholds,
            store,
            prices,
            report,
            shown,
            application,
            serving,
            ingest,
            maintenance,
            reads,
            access,
        };
        if mistakes.is_empty() { Ok(config) } else { Err(mistakes) }
    }
}

/// The effective configuration, in the file's own form.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "zone: {}", self.zone.iana_name().unwrap_or("UTC"))?;
        scrape::write(f, &self.scrape)?;
        writeln!(f, "store:")?;
        rows::write(&self.store, f)?;
        prices::write(f, &self.prices)?;
        report::write(self.report.as_ref(), &self.shown, f)?;
        application::write(&self.application, f)?;
        serving::write(f, &self.serving)?;
        ingest::write(f, &self.ingest)?;
        maintenance::write(f, &self.maintenance)?;
        writeln!(f, "reads:")?;
        rows::write(&self.reads, f)?;
        web::write(f, &self.access)?;
        writeln!(f, "thresholds:")?;
        for t in self.thresholds.list() {
            writeln!(f, "  # {}; default {}; {}\n  {}: {}", t.unit, t.default, t.source, t.name, t.value)?;
        }
        Ok(())
    }
}

fn zone(value: &Value) -> Result<TimeZone, String> {
    let named = |name: &str| TimeZone::get(name).ok();
    let expected = "the IANA name of a time zone such as Europe/Berlin";
    text(value).and_then(named).ok_or_else(|| expected.into())
}

fn store(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Options {
    let options = rows::section(name, value, mistakes);
    mistakes.extend(too_short(&options).map(|text| Mistake { line: line(value), text }));
    options
}

/// Verdicts that are not final rest on samples, and final ones outlive them.
fn too_short(options: &Options) -> Option<String> {
    let (samples, results) = options.retention.zip(options.retention_results)?;
    (results < samples).then(|| "store.retention_results: expected store.retention or longer, found less".to_owned())
}

pub(super) fn non_empty(value: &Value) -> Result<String, String> {
    text(value).filter(|t| !t.is_empty()).map(str::to_owned).ok_or_else(|| "a name".into())
}

pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Scalar(text) => Some(text),
        _ => None,
    }
}

/// The defaults, with the numbers that the file names in their place.
fn thresholds(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Thresholds {
    let mut fields = Fields::of(value, format!("{name}."), mistakes);
    let mut thresholds = Thresholds::default();
    for threshold in Thresholds::default().list() {
        let read = |value: &Value| in_range(&threshold, text(value));
        let number = fields.optional(threshold.name, threshold.default, mistakes, read);
        thresholds.set(threshold.name, number);
    }
    fields.finish(mistakes);
    thresholds
}

fn in_range(threshold: &Listed, text: Option<&str>) -> Result<f64, String> {
    let number = text.and_then(|t| t.parse().ok()).filter(|n| (threshold.min..=threshold.max).contains(n));
    number.ok_or_else(|| format!("{} to {} {}", threshold.min, threshold.max, threshold.unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_file() {
        let config = Config::parse(
            "zone: Europe/Berlin\n\
             scrape:\n\
             - name: gpus\n  targets: [node1:9400, '[::1]:9400']\n  interval: 30s\n\
             - name: fast\n  targets: [node2:9400]\n  interval: 5s\n",
        )
        .unwrap();
        assert_eq!(config.zone.iana_name(), Some("Europe/Berlin"));
        assert_eq!(config.scrape[0].targets, ["[::1]:9400", "node1:9400"]);
        assert_eq!((config.scrape[0].interval.as_secs(), config.scrape[0].timeout.as_secs()), (30, 10));
        assert_eq!(config.scrape[1].timeout.as_secs(), 5, "the default timeout is never above the interval");
    }

    #[test]
    fn nothing_configured_is_the_default() {
        for text in ["", "# only a comment\n", "scrape: []\n"] {
            assert_eq!(Config::parse(text).unwrap().to_string(), Config::default().to_string(), "{text:?}");
        }
    }

    #[test]
    fn what_check_config_prints_is_a_config() {
        let config = Config::parse(
            "thresholds: {idle_window_seconds: 600}\nreads: {reports: 2, max_rows: 1000}\nstore: {head_bytes: 4096, keep_unknown: true, retention: 30d, retention_bytes: 1000000, retention_results: 52w}\nscrape: [{name: a, targets: ['n:1'], interval: 1m30s}]\n",
        )
        .unwrap();
        assert!(config.to_string().contains("\n  idle_window_seconds: 600\n"));
        assert_eq!(Config::parse(&config.to_string()).unwrap().to_string(), config.to_string());
    }

    #[test]
    fn all_mistakes_are_listed_at_once() {
        let file = "zone: Mars/Olympus\n\
                    scrape:\n\
                    - name: gpus\n  targets: [node1]\n  interval: fast\n\
                    colour: red\n\
                    thresholds:\n  no_such: 1\n  sustained_busy_rati: 1\n";
        let mistakes = Config::parse(file).unwrap_err();
        let error = ConfigError::Mistakes("goodput.yml".into(), mistakes).to_string();
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines.len(), 6, "{error}");
        for (line, start) in lines.iter().zip([
            "goodput.yml:1: zone: expected the IANA name of a time zone such as Europe/Berlin, found \"Mars/Olympus\"",
            "goodput.yml:4: scrape[0].targets[0]: expected HOST:PORT such as node1:9400, found \"node1\"",
            "goodput.yml:5: scrape[0].interval: expected a positive duration such as 15s, 500ms or 1m30s, found \"fast\"",
            "goodput.yml:6: colour: unknown key, expected one of zone, scrape, thresholds, store, prices, report, application, serving",
            "goodput.yml:8: thresholds.no_such: unknown key, expected one of ",
            "goodput.yml:9: thresholds.sustained_busy_rati: unknown key (did you mean sustained_busy_ratio?), expected one of ",
        ]) {
            assert!(line.starts_with(start), "{line}\n{start}");
        }
    }

    #[test]
    fn each_mistake_is_named_with_its_line() {
        for (file, error) in [
            (
                "thresholds:\n  confidence_floor: 1.5\n",
                "2: thresholds.confidence_floor: expected 0 to 1 ratio, found \"1.5\"",
            ),
            (
                "thresholds: {iowait_cores: many}\n",
                "1: thresholds.iowait_cores: expected 0 to 1000000 cores, found \"many\"",
            ),
            ("store: {keep_unknown: maybe}\n", "1: store.keep_unknown: expected true or false, found \"maybe\""),
            (
                "store: {retention: 12h}\n",
                "1: store.retention: expected 1d or longer, such as 15d, 2w or 36h, or forever, found \"12h\"",
            ),
            (
                "store: {retention_bytes: 10GB}\n",
                "1: store.retention_bytes: expected a whole number of bytes above 0, or unlimited, found \"10GB\"",
            ),
            (
                "store: {retention: 30d, retention_results: 2w}\n",
                "1: store.retention_results: expected store.retention or longer, found less",
            ),
            ("store: {head_bytes: 0}\n", "1: store.head_bytes: expected a whole number above 0, found \"0\""),
            ("reads: {requests: none}\n", "1: reads.requests: expected a whole number above 0, found \"none\""),
            ("- 1\n", "1: the file: expected a mapping, found a list"),
            ("scrape: yes\n", "1: scrape: expected a list, found \"yes\""),
            ("scrape:\n- targets: ['n:1']\n", "2: scrape[0].name: missing"),
            (
                "scrape:\n- name: a\n",
                "2: scrape[0].targets: missing, and no list of them: file_sd_configs, http_sd_configs, dns_sd_configs",
            ),
            ("scrape:\n- {name: a, targets: ['n:1', 'n:1']}\n", "2: scrape[0].targets[1]: \"n:1\" is listed twice"),
            (
                "scrape:\n- {name: a, targets: ['n:1']}\n- {name: a, targets: ['n:2']}\n",
                "3: scrape[1].name: \"a\" is taken by another job",
            ),
            (
                "scrape:\n- {name: a, targets: ['n:1'], interval: 5s, timeout: 6s}\n",
                "2: scrape[0].timeout: expected at most the interval, found \"6s\"",
            ),
        ] {
            let mistakes = Config::parse(file).unwrap_err();
            let shown: Vec<String> = mistakes.iter().map(|m| format!("{}: {}", m.line, m.text)).collect();
            assert_eq!(shown, [error]);
        }
        for (broken, line) in [("zone: [UTC\n", 1), ("zone: UTC\nzone: UTC\n", 2)] {
            let mistakes = Config::parse(broken).unwrap_err();
            assert!(mistakes.len() == 1 && mistakes[0].text.starts_with("expected YAML: "), "{mistakes:?}");
            assert_eq!(mistakes[0].line, line, "{mistakes:?}");
        }
    }
}
