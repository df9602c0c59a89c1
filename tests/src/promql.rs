//! Queries of alerts and dashboards, compared with the metrics that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use anyhow::{Result, anyhow};
use goodput_catalog::{Kind, Metric};
use goodput_lab::exporters::{others, servers};
use promql_parser::label::Matcher;
pub use promql_parser::parser::Expr;
use promql_parser::parser::token::T_MAX;
use promql_parser::parser::{Call, VectorSelector};
use promql_parser::util::{ExprVisitor, walk_expr};

/// Labels that Prometheus adds to every target's series; `cluster` where the scrape configuration says so.
const TARGET_LABELS: &[&str] = &["cluster", "job", "instance"];

/// The inference servers whose rows the lab has.
const SERVERS: [&str; 2] = ["vllm", "sglang"];

/// What Prometheus makes itself.
const PROMETHEUS: &[(&str, &[&str])] =
    &[("up", &[]), ("ALERTS", &["alertname", "alertstate", "severity"]), ("scrape_duration_seconds", &[])];

/// Parses a query.
///
/// # Errors
/// When it is not PromQL; the error holds the query.
pub fn parse(query: &str) -> Result<Expr> {
    promql_parser::parser::parse(query).map_err(|error| anyhow!("{error} in {query}"))
}

/// Every metric that a query may name.
#[derive(Debug)]
pub struct Vocabulary(BTreeMap<String, Series>);

#[derive(Debug)]
struct Series {
    counter: bool,
    labels: BTreeSet<String>,
}

impl Series {
    fn new<'a>(counter: bool, labels: impl IntoIterator<Item = &'a &'a str>) -> Self {
        Self { counter, labels: labels.into_iter().chain(TARGET_LABELS).map(|label| (*label).to_owned()).collect() }
    }
}

impl Vocabulary {
    /// The metrics of the exporter, the analyzer, inference servers and Prometheus.
    #[must_use]
    pub fn new() -> Self {
        let mut all = BTreeMap::new();
        let is_server = |metric: &&Metric| SERVERS.contains(&metric.collector);
        let of_servers = others::ROWS.iter().chain(servers::ROWS).copied().filter(is_server);
        for metric in goodput_catalog::all().chain(goodput_catalog::analyzer::all()).chain(of_servers) {
            let labels = metric.labels.iter().chain(metric.optional);
            if metric.kind == Kind::Histogram {
                for suffix in ["_bucket", "_sum", "_count"] {
                    let labels = labels.clone().chain(&["le"]).filter(|l| **l != "le" || suffix == "_bucket");
                    all.insert(format!("{}{suffix}", metric.name), Series::new(true, labels));
                }
            } else {
                all.insert(metric.name.to_owned(), Series::new(metric.kind == Kind::Counter, labels));
            }
        }
        all.extend(PROMETHEUS.iter().map(|(name, labels)| ((*name).to_owned(), Series::new(false, *labels))));
        Self(all)
    }

    /// Adds what a recording rule makes of metrics that are known already. The maximum of counters counts as a counter: where
    /// each group has one series at a time, it is one.
    pub fn record(&mut self, name: &str, expr: &Expr) {
        let counter = match expr {
            Expr::Aggregate(max) if max.op.id() == T_MAX => {
                matches!(&*max.expr, Expr::VectorSelector(of) if self.series(of).is_some_and(|s| s.counter))
            }
            _ => false,
        };
        let labels = self.labels(expr);
        self.0.insert(name.to_owned(), Series { counter, labels });
    }

    /// The labels of all metrics in the query.
    #[must_use]
    pub fn labels(&self, expr: &Expr) -> BTreeSet<String> {
        let known = selectors(expr).into_iter().filter_map(|s| self.series(&s));
        known.flat_map(|series| series.labels.iter().cloned()).collect()
    }

    /// What is wrong with a query: metrics and labels that do not exist, rates of what is no counter, and the reverse.
    #[must_use]
    pub fn problems(&self, expr: &Expr) -> Vec<String> {
        let mut problems = Vec::new();
        for selector in selectors(expr) {
            match (&selector.name, self.series(&selector)) {
                (Some(_), Some(series)) => problems.extend(unknown_labels(&selector, series)),
                (name, _) => problems.push(format!("no such metric: {}", name.as_deref().unwrap_or("(none)"))),
            }
        }
        for grouping in Walk::over(expr).groupings {
            let known = self.labels(expr);
            let unknown = grouping.iter().filter(|label| !known.contains(*label));
            problems.extend(unknown.map(|label| format!("no metric of the query has a label {label}")));
        }
        for call in Walk::over(expr).calls {
            problems.extend(self.misuse(&call));
        }
        problems
    }

    fn misuse(&self, call: &Call) -> Option<String> {
        let wants_counter = match call.func.name {
            "rate" | "irate" | "increase" | "resets" => true,
            "delta" | "idelta" | "deriv" | "predict_linear" => false,
            _ => return None,
        };
        let of = call.args.args.iter().find_map(|arg| match &**arg {
            Expr::MatrixSelector(matrix) => Some(&matrix.vs),
            _ => None,
        })?;
        let is_counter = self.series(of)?.counter;
        (is_counter != wants_counter).then(|| format!("{} of {}", call.func.name, of.name.as_deref().unwrap_or("?")))
    }

    fn series(&self, selector: &VectorSelector) -> Option<&Series> {
        self.0.get(selector.name.as_deref()?)
    }
}

impl Default for Vocabulary {
    fn default() -> Self {
        Self::new()
    }
}

/// Every selector of a query.
#[must_use]
pub fn selectors(expr: &Expr) -> Vec<VectorSelector> {
    Walk::over(expr).selectors
}

/// The matchers of a selector, its name aside.
pub fn matchers(selector: &VectorSelector) -> impl Iterator<Item = &Matcher> {
    selector.matchers.matchers.iter().chain(selector.matchers.or_matchers.iter().flatten())
}

fn unknown_labels(selector: &VectorSelector, series: &Series) -> Vec<String> {
    let name = selector.name.as_deref().unwrap_or_default();
    let unknown = matchers(selector).filter(|matcher| !series.labels.contains(&matcher.name));
    unknown.map(|matcher| format!("{name} has no label {}", matcher.name)).collect()
}

/// The parts of a query that can be wrong.
#[derive(Default)]
struct Walk {
    selectors: Vec<VectorSelector>,
    calls: Vec<Call>,
    groupings: Vec<Vec<String>>,
}

impl Walk {
    fn over(expr: &Expr) -> Self {
        let mut walk = Self::default();
        let Ok(_) = walk_expr(&mut walk, expr);
        walk
    }
}

impl ExprVisitor for Walk {
    type Error = Infallible;

    fn pre_visit(&mut self, expr: &Expr) -> Result<bool, Infallible> {
        match expr {
            Expr::VectorSelector(selector) => self.selectors.push(selector.clone()),
            Expr::MatrixSelector(matrix) => self.selectors.push(matrix.vs.clone()),
            Expr::Call(call) => self.calls.push(call.clone()),
            Expr::Aggregate(aggregate) => {
                self.groupings.extend(aggregate.modifier.as_ref().map(|by| by.labels().labels.clone()));
            }
            Expr::Binary(binary) => {
                let modifier = binary.modifier.as_ref();
                self.groupings.extend(modifier.and_then(|m| m.matching.as_ref()).map(|on| on.labels().labels.clone()));
                self.groupings.extend(modifier.and_then(|m| m.card.labels()).map(|extra| extra.labels.clone()));
            }
            _ => {}
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_names_what_does_not_exist_or_misuses_it_is_found() {
        let mut vocabulary = Vocabulary::new();
        vocabulary.record("gpu:violation:max", &parse("max without (pod) (DCGM_FI_DEV_POWER_VIOLATION)").unwrap());
        for (query, problem) in [
            ("rate(goodput_gpu_busy_seconds_total{gpu=\"0\"}[5m]) > 0.5 and on (instance) up == 1", None),
            ("rate(goodput_gpu_idle_gap_seconds_bucket{le=\"1\"}[5m])", None),
            ("rate(gpu:violation:max{gpu=\"0\"}[5m])", None),
            ("goodput_gpu_bussy_seconds_total", Some("no such metric: goodput_gpu_bussy_seconds_total")),
            ("sum(up + nonsense)", Some("no such metric: nonsense")),
            ("{gpu=\"0\"}", Some("no such metric: (none)")),
            ("up{gpu=\"0\"}", Some("up has no label gpu")),
            ("sum by (gpuu) (goodput_gpu_processes)", Some("no metric of the query has a label gpuu")),
            ("up and on (instnce) up", Some("no metric of the query has a label instnce")),
            (
                "up * on (instance) group_left (kernal) goodput_node_info",
                Some("no metric of the query has a label kernal"),
            ),
            ("rate(goodput_gpu_processes[5m])", Some("rate of goodput_gpu_processes")),
            ("delta(goodput_gpu_busy_seconds_total[5m])", Some("delta of goodput_gpu_busy_seconds_total")),
        ] {
            let expected: Vec<_> = problem.into_iter().map(str::to_owned).collect();
            assert_eq!(vocabulary.problems(&parse(query).unwrap()), expected, "{query}");
        }
        assert!(parse("rate(up[5m)").is_err());
    }
}
