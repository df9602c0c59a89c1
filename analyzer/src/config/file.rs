//! The configuration file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use goodput_settings::kind;
use goodput_web::Grant;
use jiff::tz::TimeZone;
use serde_saphyr::Spanned;

use super::application::{self, application};
use super::destinations::unknown_teams;
use super::ingest::{self, IngestSettings};
use super::maintenance;
use super::prices;
use super::reads::ReadLimits;
use super::report::{self, Shown, report};
use super::rows::{self, Variables};
use super::scrape;
use super::serving;
use super::teams::{self, Showback};
use super::web;
use super::yaml::{Fields, Mistake, Value, line, parse, scalar};
use crate::deliver::Settings;
use crate::ingest::job::Job;
use crate::report::serving::ServingTerms;
use crate::report::{Price, Terms};
use crate::teams::{Live, Team, Teams};
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
    /// Whose GPU time is whose.
    pub team_list: Vec<Team>,
    /// The file that has them; none where the configuration has.
    pub teams_file: Option<PathBuf>,
    /// How shared loss is charged.
    pub showback: Showback,
    /// How much may come in, and how replicas are recognised.
    pub ingest: IngestSettings,
    /// When which GPUs are out of use on purpose.
    pub maintenance: Vec<Declared>,
    /// Bounds of pages and the API.
    pub reads: ReadLimits,
    /// Who may do what.
    pub access: Vec<Grant>,
    /// May people say something about findings? By default on this machine alone.
    pub findings_write: Option<bool>,
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
            team_list: Vec::new(),
            teams_file: None,
            showback: Showback::default(),
            ingest: IngestSettings::default(),
            maintenance: Vec::new(),
            reads: ReadLimits::default(),
            access: Vec::new(),
            findings_write: None,
        }
    }
}

impl Config {
    /// What reports are made with.
    #[must_use]
    pub fn terms(&self) -> Terms {
        let (prices, serving) = (self.prices.as_slice().into(), self.serving.clone().into());
        Terms { prices, first_at_least: self.shown.first_at_least, serving, teams: Live::new(self.teams()) }
    }

    /// The teams, and how the loss that they share is charged.
    #[must_use]
    pub fn teams(&self) -> Arc<Teams> {
        Arc::new(Teams { all: self.team_list.clone(), spread: self.showback.spread })
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
        let mut config = Self::parse(&text).map_err(|mistakes| ConfigError::Mistakes(path.into(), mistakes))?;
        if let Some(file) = &config.teams_file {
            config.team_list = teams::teams_of_file(file, &config.zone)?;
        }
        Ok(config)
    }

    /// The same with what the environment says instead; an error names every variable that is wrong.
    pub fn overridden_by(mut self, variables: Variables<'_>) -> Result<Self, ConfigError> {
        let mut mistakes = Vec::new();
        rows::override_by(&mut self.store, variables, &mut mistakes);
        rows::override_by(&mut self.ingest.limits, variables, &mut mistakes);
        rows::override_by(&mut self.ingest.replicas, variables, &mut mistakes);
        rows::override_by(&mut self.reads, variables, &mut mistakes);
        rows::override_by(&mut self.shown, variables, &mut mistakes);
        rows::override_by(&mut self.showback, variables, &mut mistakes);
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
        let team_list = fields.section("teams", &mut mistakes, |name, value, m| teams::teams(name, value, &zone, m));
        let teams_file = teams_file(&mut fields, !team_list.is_empty(), &mut mistakes);
        let showback = fields.section("showback", &mut mistakes, rows::section);
        let ingest = fields.section("ingest", &mut mistakes, ingest::settings);
        let maintenance = fields.section("maintenance", &mut mistakes, maintenance::maintenance);
        let reads = fields.section("reads", &mut mistakes, rows::section);
        let web::Web { access, findings_write } = fields.section("web", &mut mistakes, web::web);
        fields.finish(&mut mistakes);
        if teams_file.is_none() {
            mistakes.extend(unknown_teams(&root, &team_list));
        }
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
            team_list,
            teams_file,
            showback,
            ingest,
            maintenance,
            reads,
            access,
            findings_write,
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
        teams::write(f, &self.team_list, self.teams_file.as_deref())?;
        writeln!(f, "showback:")?;
        rows::write(&self.showback, f)?;
        ingest::write(f, &self.ingest)?;
        maintenance::write(f, &self.maintenance)?;
        writeln!(f, "reads:")?;
        rows::write(&self.reads, f)?;
        web::write(f, &self.access, self.findings_write)?;
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

/// The file that has the teams, where the configuration itself has none.
fn teams_file(fields: &mut Fields<'_>, has_teams: bool, mistakes: &mut Vec<Mistake>) -> Option<PathBuf> {
    let (name, value) = fields.take("teams_file")?;
    if has_teams {
        let text = format!("{name}: expected only one of teams and teams_file");
        mistakes.push(Mistake { line: line(value), text });
    }
    scalar(&name, value, mistakes, rows::of::<kind::Path>)
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
mod tests;
