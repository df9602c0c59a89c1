//! Faults that are reported in another way, not reported for two minutes, or reported next to another cluster stay the
//! same faults: traces of the lab, rewritten, get the verdicts that they had.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use anyhow::{Context as _, Result, ensure};
use goodput_analyzer::evaluate::{Trace, evaluate, find_all};
use goodput_catalog::Metric;
use goodput_catalog::dcgm::{POWER_USAGE, TOTAL_ENERGY};
use goodput_exposition::sample::{Labels, Sample, Series};
use goodput_lab::exporters::Exporters;
use goodput_lab::exporters::others::DISK_WRITTEN;
use goodput_lab::families::{FAMILIES, plan};
use goodput_lab::record::{Plan, record};
use goodput_rules::classify::{Thresholds, judge_series};
use goodput_rules::forecast::risks;

/// A sample of a trace: what stands before the value, the value, and the time in seconds.
#[derive(Clone, Copy)]
struct Line<'a> {
    series: &'a str,
    value: &'a str,
    time: f64,
}

impl<'a> Line<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let (rest, time) = line.rsplit_once(' ')?;
        let (series, value) = rest.rsplit_once(' ')?;
        Some(Line { series, value, time: time.parse().ok()? })
    }

    fn is(&self, row: &Metric) -> bool {
        self.series.split('{').next() == Some(row.name)
    }

    fn is_of(&self, job: &str) -> bool {
        self.series.contains(&format!("job=\"{job}\""))
    }
}

/// How much more of the time is wrong when the trace is rewritten.
fn worse(family: &str, exporters: Exporters, rewrite: impl Fn(&[Line<'_>]) -> String) -> Result<f64> {
    worse_in(family, 0, exporters, rewrite)
}

/// The same of one member of the family.
fn worse_in(family: &str, member: u64, exporters: Exporters, rewrite: impl Fn(&[Line<'_>]) -> String) -> Result<f64> {
    let dir = tempfile::tempdir()?;
    record(&plan_of(family, member, exporters)?, dir.path())?;
    let wrong = || Ok::<_, anyhow::Error>(evaluate(&[dir.path().to_owned()], &Thresholds::default())?.all);
    let before = wrong()?.wrong_class_share;
    let file = find_all(&[dir.path().to_owned()])?.remove(0).join("metrics.om");
    let text = std::fs::read_to_string(&file)?;
    let lines: Vec<Line<'_>> = text.lines().filter_map(Line::of).collect();
    std::fs::write(&file, rewrite(&lines) + "# EOF\n")?;
    Ok(wrong()?.wrong_class_share - before)
}

fn plan_of(family: &str, member: u64, exporters: Exporters) -> Result<Plan> {
    let family = FAMILIES.iter().find(|f| f.name == family).with_context(|| format!("no family {family}"))?;
    Ok(Plan { exporters, ..plan(family, member) })
}

/// Each line as the function has it.
fn each(lines: &[Line<'_>], line: impl Fn(Line<'_>) -> String) -> String {
    lines.iter().map(|one| line(*one) + "\n").collect()
}

fn text(line: Line<'_>) -> String {
    let Line { series, value, time } = line;
    format!("{series} {value} {time:.3}")
}

/// When the first sample is from.
fn begin(lines: &[Line<'_>]) -> f64 {
    lines.iter().map(|line| line.time).fold(f64::INFINITY, f64::min)
}

/// The line with so much more.
fn more(line: Line<'_>, by: f64) -> String {
    let value = line.value.parse().map_or(f64::NAN, |value: f64| value + by).to_string();
    text(Line { value: &value, ..line })
}

/// Two minutes in the middle in which every scrape fails, as when a `DaemonSet` is rolled out: each series has a marker at
/// the first of them.
fn with_outage(lines: &[Line<'_>]) -> String {
    let middle = (begin(lines) + lines.iter().map(|line| line.time).fold(0.0, f64::max)) / 2.0;
    let outage = middle..middle + 120.0;
    let mut marked = HashSet::new();
    let mut told = String::new();
    for line in lines {
        let is_out = outage.contains(&line.time);
        if !is_out || marked.insert(line.series) {
            told += &(text(Line { value: if is_out { "NaN" } else { line.value }, ..*line }) + "\n");
        }
    }
    told
}

#[test]
fn an_outage_of_two_minutes_ends_no_hold() -> Result<()> {
    for family in ["long_gang_wait", "long_start", "lost_work_xid", "gang_wait"] {
        let worse = worse(family, Exporters::Ours, with_outage)?;
        assert!(worse < 0.03, "{family}: {worse:.3} more of the time is wrong");
    }
    Ok(())
}

#[test]
fn an_exporters_pod_holds_nothing_whatever_its_name() -> Result<()> {
    for family in ["maintenance", "partial_allocation"] {
        let renamed = |lines: &[Line<'_>]| {
            each(lines, |line| {
                let series =
                    line.series.replace(",pod=", ",exported_pod=").replace(",namespace=", ",exported_namespace=");
                let own = "job=\"dcgm\",namespace=\"gpu\",pod=\"metrics-7wqxn\"";
                text(Line { series: &series.replace("job=\"dcgm\"", own), ..line })
            })
        };
        assert_eq!(worse(family, Exporters::DcgmAndNode, renamed)?, 0.0, "{family}");
    }
    Ok(())
}

#[test]
fn a_host_name_with_its_domain_is_the_same_without() -> Result<()> {
    for family in ["maintenance", "gang_wait", "dataloader_storage"] {
        let with_domain = |lines: &[Line<'_>]| {
            each(lines, |line| {
                let series = line.series.replace("nodename=\"n1\"", "nodename=\"n1.example.com\"");
                text(Line { series: &series.replace("nodename=\"n2\"", "nodename=\"n2.example.com\""), ..line })
            })
        };
        assert_eq!(worse(family, Exporters::DcgmAndNode, with_domain)?, 0.0, "{family}");
    }
    Ok(())
}

#[test]
fn what_daemons_of_the_node_use_is_not_the_jobs() -> Result<()> {
    // Two CPUs a node, spread over those that it has.
    let busier = |lines: &[Line<'_>]| {
        let mut cpus: BTreeMap<String, HashSet<&str>> = BTreeMap::new();
        let is_user = |line: &Line<'_>| line.is_of("node") && line.series.contains("mode=\"user\"");
        let instance = |line: &Line<'_>| line.series.split("instance=").nth(1).unwrap_or_default()[..4].to_owned();
        for line in lines.iter().filter(|line| is_user(line)) {
            cpus.entry(instance(line)).or_default().insert(line.series);
        }
        let first = begin(lines);
        each(lines, |line| {
            if !is_user(&line) {
                return text(line);
            }
            more(line, 2.0 * (line.time - first) / cpus[&instance(&line)].len() as f64)
        })
    };
    for family in ["plain_starts", "gang_wait"] {
        let worse = worse(family, Exporters::DcgmAndNode, busier)?;
        assert!(worse < 0.01, "{family}: {worse:.3} more of the time is wrong");
    }
    Ok(())
}

#[test]
fn a_restart_may_be_told_later_than_the_gpus() -> Result<()> {
    let late = |lines: &[Line<'_>]| {
        each(lines, |line| text(Line { time: line.time + if line.is_of("node") { 17.0 } else { 0.0 }, ..line }))
    };
    let worse = worse("lost_work_node", Exporters::DcgmAndNode, late)?;
    assert!(worse < 0.03, "{worse:.3} more of the time is wrong");
    Ok(())
}

#[test]
fn a_board_may_draw_more_than_its_model_when_it_rests() -> Result<()> {
    let warmer = |lines: &[Line<'_>]| {
        let first = begin(lines);
        each(lines, |line| {
            let joules = 8.0 * (line.time - first);
            let is = |row| line.is(row);
            if is(&POWER_USAGE.legacy) || is(&POWER_USAGE.current) {
                more(line, 8.0)
            } else if is(&TOTAL_ENERGY.legacy) {
                more(line, 1000.0 * joules)
            } else if is(&TOTAL_ENERGY.current) {
                more(line, joules)
            } else {
                text(line)
            }
        })
    };
    let worse = worse("keep_alive", Exporters::Ours, warmer)?;
    assert!(worse < 0.01, "{worse:.3} more of the time is wrong");
    Ok(())
}

#[test]
fn others_that_write_for_a_minute_make_no_save_of_late_reads() -> Result<()> {
    let written = |lines: &[Line<'_>]| {
        // The first minute of an hour, as of a job of cron.
        let hour = (begin(lines) / 3600.0).ceil() * 3600.0;
        each(lines, |line| match line.is(&DISK_WRITTEN) {
            true => more(line, 30e6 * (line.time - hour).clamp(0.0, 60.0)),
            false => text(line),
        })
    };
    let worse = worse_in("near_miss", 1, Exporters::DcgmAndNode, written)?;
    assert!(worse < 0.01, "{worse:.3} more of the time is wrong");
    Ok(())
}

/// The series of a cluster whose clock runs so much later; its GPUs have UUIDs of their own, everything else its name.
fn within(cluster: &str, later_ms: i64, series: &[Series]) -> Vec<Series> {
    let one = |s: &Series| {
        let named = s.labels.iter().map(|(name, value)| match name {
            "UUID" | "uuid" => (name, format!("{value}-{cluster}")),
            _ => (name, value.to_owned()),
        });
        let labels: Vec<(&str, String)> = named.chain([("cluster", cluster.to_owned())]).collect();
        let samples = s.samples.iter().map(|sample| Sample { time_ms: sample.time_ms + later_ms, ..*sample });
        Series {
            labels: Labels::new(labels.iter().map(|(name, value)| (*name, value.as_str()))),
            samples: samples.collect(),
        }
    };
    series.iter().map(one).collect()
}

/// What a cluster is told: verdicts, advisories, pairs of nodes, and risks.
fn told(cluster: &str, series: &[Series], window: &Range<i64>) -> Result<impl PartialEq + use<>> {
    let (t, is_its) = (Thresholds::default(), |name: &Option<String>| name.as_deref() == Some(cluster));
    let mut judged = judge_series(series, window.clone(), &t)?;
    judged.intervals.retain(|i| is_its(&i.cluster));
    judged.advisories.retain(|a| is_its(&a.cluster));
    judged.paired.retain(|p| is_its(&p.cluster));
    let mut risks = risks(series, window, window.end, &t);
    risks.retain(|risk| is_its(&risk.last.cluster));
    ensure!(!judged.intervals.is_empty(), "no verdict on {cluster}");
    Ok((judged.intervals, judged.advisories, judged.paired, risks))
}

#[test]
fn a_cluster_is_judged_as_if_there_were_no_other() -> Result<()> {
    for (family, exporters) in [
        ("gang_wait", Exporters::Ours),
        ("long_gang_wait", Exporters::DcgmAndNode),
        ("lost_work_node", Exporters::Ours),
        ("straggler", Exporters::Ours),
        ("disk_fills", Exporters::DcgmAndNode),
    ] {
        let dir = tempfile::tempdir()?;
        record(&plan_of(family, 0, exporters)?, dir.path())?;
        let trace = Trace::read(&find_all(&[dir.path().to_owned()])?.remove(0))?;
        let spans = || trace.truth.iter().map(|row| &row.span);
        let (start, end) = (spans().map(|s| s.start).min(), spans().map(|s| s.end).max());
        let window = start.zip(end).map(|(start, end)| start..end).context("no truth")?;
        let east = within("east", 0, &trace.series);
        let both = [east.clone(), within("west", 17 * 60_000, &trace.series)].concat();
        let is_alike = told("east", &east, &window)? == told("east", &both, &window)?;
        assert!(is_alike, "{family}: a cluster of the same names changes what is told");
    }
    Ok(())
}
