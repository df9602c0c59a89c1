//! What is wrong with a node whatever its GPUs do: damage, what runs out, and checks of the audit that failed.

use std::collections::{BTreeMap, BTreeSet};

use goodput_catalog::host::AUDIT_STATUS;
use goodput_catalog::xid_codes;
use serde::Serialize;

use crate::report::{risk_outlook, risk_remedies, risk_title};
use goodput_exposition::sample::{Series, TimeMs};
use goodput_rules::classify::Thresholds;
use goodput_rules::forecast::{blames_hardware, prospects, xid_level};
use goodput_rules::frame::{Levels, levels, sources};
use goodput_rules::signal::{Entity, Signal};
use goodput_verdict::{Fault, Kind, Level, Prospect, Remedy};

/// How many damaged GPUs, and how many risks, a line names.
const MAX_NAMED: usize = 4;

/// How long links are down before they are named, of a minute that is looked at by default; a reset takes seconds.
const LINK_DOWN_SECONDS: f64 = 30.0;

/// What stands above the verdicts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Health {
    /// GPUs and parts of the network that are damaged, or say so.
    pub damage: Vec<Damaged>,
    /// Does the target export errors or states of any GPU's hardware?
    pub is_damage_known: bool,
    /// What runs out.
    pub risks: Vec<AtRisk>,
    /// Checks of the audit; null where the target exports none.
    pub audit: Option<Audit>,
}

/// A GPU, or a part of the network, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Damaged {
    /// The UUID; null where it is no GPU.
    pub gpu: Option<String>,
    /// An RDMA port (`device/port`), a network interface, or the PCI address of an NVSwitch; null where it is a GPU.
    pub device: Option<String>,
    /// Its index on the node, where a label tells.
    pub index: Option<String>,
    /// Which fault.
    pub fault: Fault,
    /// How pressing it is.
    pub level: Level,
    /// The fault in words.
    pub what: String,
    /// What to do.
    #[serde(skip)]
    pub remedies: &'static [Remedy],
}

/// Something that runs out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AtRisk {
    /// The GPU's UUID, the owner's id, a mount point or the node.
    pub entity: String,
    /// The GPU's index on the node, where it is a GPU.
    pub index: Option<String>,
    /// What runs out, how full it is and when it is full, in words.
    pub what: String,
    /// Seconds until then.
    pub seconds: f64,
}

/// How the checks of the audit ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// Ids of the checks that failed.
    pub failed: BTreeSet<String>,
    /// Ids of the checks that ended in a warning.
    pub warned: BTreeSet<String>,
    /// How many checks there are.
    pub checks: usize,
}

impl Health {
    /// As at a time, from the samples before it.
    pub(super) fn of(
        series: &[Series],
        now: TimeMs,
        indices: &BTreeMap<String, String>,
        thresholds: &Thresholds,
    ) -> Health {
        let sources = sources(series);
        let levels = levels(&sources);
        let (hardware, other): (Vec<Prospect>, Vec<Prospect>) = prospects(series, now, &seen_for_a_minute(thresholds))
            .into_iter()
            .partition(|p| matches!(p.kind, Kind::Hardware(_)));
        let mut damage: Vec<Damaged> = hardware.iter().filter_map(|p| damaged(p, indices)).collect();
        let counted = levels.iter().filter_map(|gpu| counted_xids(gpu, indices));
        // Errors of this minute are among those that were counted since the exporter's start.
        damage.retain(|d| d.fault != Fault::Xid);
        damage.extend(counted);
        let place = |d: &Damaged| (d.gpu.is_none(), number(&d.index), d.gpu.clone(), d.device.clone());
        damage.sort_by_cached_key(|d| (std::cmp::Reverse(d.level), place(d)));
        Health {
            damage,
            is_damage_known: levels.iter().any(tells_damage),
            risks: other.iter().filter_map(|p| at_risk(p, indices)).collect(),
            audit: Audit::of(series),
        }
    }

    /// What to do about the GPU's worst damage, where something has to be done at once.
    pub(super) fn remedies(&self, gpu: &str) -> Option<&'static [Remedy]> {
        let acts = |d: &&Damaged| d.gpu.as_deref() == Some(gpu) && d.level == Level::Act;
        self.damage.iter().find(acts).map(|d| d.remedies)
    }

    /// Only what is about one of these GPUs, or about no GPU.
    pub(super) fn keep(&mut self, gpus: &BTreeSet<String>) {
        self.damage.retain(|d| d.gpu.as_ref().is_none_or(|gpu| gpus.contains(gpu)));
        self.risks.retain(|r| r.index.is_none() || gpus.contains(&r.entity));
    }

    /// Three lines, one of each kind; each names the first few of its kind, or all of them.
    pub(super) fn lines(&self, has_all: bool) -> [String; 3] {
        let joined = |all: Vec<String>, none: &str| match all.len().checked_sub(MAX_NAMED).filter(|_| !has_all) {
            _ if all.is_empty() => none.to_owned(),
            Some(more) if more > 0 => format!("{}; and {more} more, see --verbose", all[..MAX_NAMED].join("; ")),
            _ => all.join("; "),
        };
        let damage = self.damage.iter().map(|d| format!("{}: {}", d.subject(), d.what)).collect();
        let no_damage = if self.is_damage_known {
            "none"
        } else {
            "unknown: the target exports no errors and no states of hardware"
        };
        let risk = |r: &AtRisk| match &r.index {
            Some(index) => format!("GPU {index}: {}", r.what),
            None => format!("{}: {}", r.entity, r.what),
        };
        let audit = self
            .audit
            .as_ref()
            .map_or_else(|| format!("unknown: the target exports no {}", AUDIT_STATUS.name), Audit::line);
        [
            format!("damage  {}", joined(damage, no_damage)),
            format!("risks   {}", joined(self.risks.iter().map(risk).collect(), "none")),
            format!("audit   {audit}"),
        ]
    }
}

impl Damaged {
    fn subject(&self) -> String {
        let name = || self.gpu.as_ref().or(self.device.as_ref()).cloned().unwrap_or_default();
        self.index.as_ref().map_or_else(name, |index| format!("GPU {index}"))
    }
}

/// Indices in their order as numbers.
fn number(index: &Option<String>) -> Option<u32> {
    index.as_ref().and_then(|index| index.parse().ok())
}

/// A port or NVLinks that are down for most of what is seen are down.
fn seen_for_a_minute(thresholds: &Thresholds) -> Thresholds {
    Thresholds { link_down_seconds: thresholds.link_down_seconds.min(LINK_DOWN_SECONDS), ..thresholds.clone() }
}

fn tells_damage(levels: &Levels<'_>) -> bool {
    const TOLD: [Signal; 5] = [
        Signal::GpuXid,
        Signal::GpuRemapPending,
        Signal::GpuEccUncorrected,
        Signal::GpuResetRequired,
        Signal::GpuRecoveryAction,
    ];
    !levels.xids.is_empty() || TOLD.iter().any(|signal| !levels.samples(*signal).is_empty())
}

fn damaged(prospect: &Prospect, indices: &BTreeMap<String, String>) -> Option<Damaged> {
    let (Kind::Hardware(fault), Some(damage)) = (prospect.kind, prospect.damage()) else { return None };
    let (gpu, device) = if fault.is_of_gpu() {
        (prospect.entity.split('/').next().map(str::to_owned), None)
    } else {
        (None, Some(prospect.entity.clone()))
    };
    let what = fault.name().replace('_', " ");
    Some(Damaged {
        index: gpu.as_ref().and_then(|gpu| indices.get(gpu)).cloned(),
        gpu,
        device,
        fault,
        level: damage.level,
        what,
        remedies: risk_remedies(prospect.kind),
    })
}

/// Errors that the hardware is to blame for, whenever they came: a minute is too short to see one come.
fn counted_xids(gpu: &Levels<'_>, indices: &BTreeMap<String, String>) -> Option<Damaged> {
    let Entity::Gpu(uuid) = gpu.entity else { return None };
    let counted = gpu.xids.iter().map(|(code, samples)| (*code, samples.last().map_or(0.0, |s| s.value)));
    let last = gpu.samples(Signal::GpuXid).last().map(|s| (s.value as u64, 0.0));
    let mut codes: BTreeMap<u64, f64> = BTreeMap::new();
    for (code, count) in counted.filter(|(_, count)| *count >= 1.0).chain(last) {
        let most = codes.entry(code).or_default();
        *most = most.max(count);
    }
    let blamed = codes.into_iter().filter_map(|(code, count)| Some((xid_codes::find(code)?, count)));
    let blamed: Vec<_> = blamed.filter(|(code, _)| blames_hardware(code.class)).collect();
    let level = blamed.iter().map(|(code, _)| xid_level(code)).max()?;
    let shown = blamed.iter().map(|(code, count)| {
        let times = if *count > 1.0 { format!(" {count:.0} times") } else { String::new() };
        format!("XID {}{times} ({}; at once: {})", code.code, code.meaning, code.action.name().replace('_', " "))
    });
    Some(Damaged {
        gpu: Some(uuid.to_owned()),
        device: None,
        index: indices.get(uuid).cloned(),
        fault: Fault::Xid,
        level,
        what: shown.collect::<Vec<_>>().join(", "),
        remedies: risk_remedies(Kind::Hardware(Fault::Xid)),
    })
}

fn at_risk(prospect: &Prospect, indices: &BTreeMap<String, String>) -> Option<AtRisk> {
    Some(AtRisk {
        entity: prospect.entity.clone(),
        index: indices.get(&prospect.entity).cloned(),
        what: format!("{}, {}", risk_title(prospect.kind), risk_outlook(prospect)?),
        seconds: prospect.at_risk()?.likely_seconds,
    })
}

impl Audit {
    fn of(series: &[Series]) -> Option<Audit> {
        let mut audit = Audit::default();
        let mut checks = BTreeSet::new();
        for told in series.iter().filter(|s| s.labels.metric() == AUDIT_STATUS.name) {
            let Some(check) = told.labels.get("check") else { continue };
            checks.insert(check);
            if told.samples.last().is_some_and(|s| s.value == 1.0) {
                match told.labels.get("status") {
                    Some("fail") => audit.failed.insert(check.to_owned()),
                    Some("warn") => audit.warned.insert(check.to_owned()),
                    _ => continue,
                };
            }
        }
        audit.checks = checks.len();
        (audit.checks > 0).then_some(audit)
    }

    fn line(&self) -> String {
        let count = |n: usize| if n == 1 { "1 warning".to_owned() } else { format!("{n} warnings") };
        let of = format!("of {} checks; goodput-exporter audit on the node says how to fix them", self.checks);
        let failed: Vec<&str> = self.failed.iter().map(String::as_str).collect();
        match (failed.len(), self.warned.len()) {
            (0, 0) => format!("all {} checks passed", self.checks),
            (0, warned) => format!("none failed, {} {of}", count(warned)),
            (_, warned) => format!("failed: {}; {} {of}", failed.join(", "), count(warned)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_exposition::sample::Sample;
    use goodput_exposition::{Format, Limits, parse};

    /// A minute of scrapes that all say this.
    fn minute(text: &str) -> Vec<Series> {
        minute_of(|_| text.to_owned())
    }

    fn minute_of(text: impl Fn(i64) -> String) -> Vec<Series> {
        let mut all: BTreeMap<_, Vec<Sample>> = BTreeMap::new();
        for second in 0..=60 {
            let text = format!("node_uname_info{{nodename=\"n1\",instance=\"n1:9400\"}} 1\n{}", text(second));
            for series in parse(&text, Format::Text, Limits::NONE, 1000 * second).unwrap() {
                all.entry(series.labels).or_default().extend(series.samples);
            }
        }
        all.into_iter().map(|(labels, samples)| Series { labels, samples }).collect()
    }

    fn health(text: &str) -> Health {
        let indices = [("GPU-a", "3"), ("GPU-b", "10")].map(|(uuid, index)| (uuid.to_owned(), index.to_owned()));
        Health::of(&minute(text), 60_000, &indices.into(), &Thresholds::default())
    }

    const GPU: [&str; 2] =
        ["gpu=\"3\",UUID=\"GPU-a\",instance=\"n1:9400\"", "gpu=\"10\",UUID=\"GPU-b\",instance=\"n1:9400\""];

    #[test]
    fn an_xid_that_came_before_the_minute_is_damage_and_so_is_a_pending_remap() {
        let [a, b] = GPU;
        let health = health(&format!(
            "goodput_gpu_xid_errors_total{{{b},xid=\"79\",class=\"bus\",action=\"restart_node\"}} 2\n\
             goodput_gpu_xid_errors_total{{{a},xid=\"13\",class=\"app_hw\",action=\"restart_app\"}} 5\n\
             DCGM_FI_DEV_ROW_REMAP_PENDING{{{a}}} 1\n"
        ));
        let found: Vec<_> = health.damage.iter().map(|d| (d.index.as_deref(), d.fault)).collect();
        assert_eq!(found, [(Some("3"), Fault::RemapPending), (Some("10"), Fault::Xid)], "{health:?}");
        let [damage, risks, audit] = health.lines(false);
        assert!(damage.starts_with("damage  GPU 3: remap pending; GPU 10: XID 79 2 times ("), "{damage}");
        assert_eq!(risks, "risks   none");
        assert!(audit.starts_with("audit   unknown: the target exports no goodput_audit_status"), "{audit}");
        assert!(health.remedies("GPU-b").is_some() && health.remedies("GPU-c").is_none());
    }

    #[test]
    fn nvlinks_of_one_gpu_that_are_down_for_the_minute_are_damage() {
        let links = |index: u8, up: u8, down: u8| {
            let gpu = format!("gpu=\"{index}\",UUID=\"GPU-{index}\",instance=\"n1:9400\"");
            let of = |state: &str, count: u8| format!("goodput_gpu_nvlink_links{{{gpu},state=\"{state}\"}} {count}\n");
            of("up", up) + &of("down", down)
        };
        let health = health(&[links(0, 18, 0), links(1, 17, 1), links(2, 18, 0)].concat());
        assert_eq!(health.lines(false)[0], "damage  GPU-1: nvlink down");
    }

    #[test]
    fn a_port_that_times_out_is_named_whichever_gpu_is_asked_for() {
        let count = |second: i64| {
            format!(
                "goodput_rdma_transport_events_total{{device=\"mlx5_4\",port=\"1\",kind=\"local_ack_timeout_err\",instance=\"n1:9400\"}} {}\n",
                10 * second
            )
        };
        let mut health = Health::of(&minute_of(count), 60_000, &BTreeMap::new(), &Thresholds::default());
        health.keep(&BTreeSet::from(["GPU-a".to_owned()]));
        assert_eq!(health.lines(false)[0], "damage  mlx5_4/1: rdma transport");
    }

    #[test]
    fn the_last_xid_of_dcgm_exporter_is_damage_where_the_hardware_is_to_blame() {
        let [a, b] = GPU;
        let health = health(&format!("DCGM_FI_DEV_XID_ERRORS{{{a}}} 79\nDCGM_FI_DEV_XID_ERRORS{{{b}}} 13\n"));
        assert_eq!(health.damage.iter().map(|d| d.gpu.as_deref()).collect::<Vec<_>>(), [Some("GPU-a")], "{health:?}");
    }

    #[test]
    fn no_damage_is_not_the_same_as_no_data_of_damage() {
        let [a, _] = GPU;
        assert_eq!(health(&format!("DCGM_FI_DEV_ROW_REMAP_PENDING{{{a}}} 0\n")).lines(false)[0], "damage  none");
        let unknown = health(&format!("DCGM_FI_DEV_GPU_UTIL{{{a}}} 0\n")).lines(false);
        assert!(unknown[0].starts_with("damage  unknown: "), "{unknown:?}");
    }

    #[test]
    fn checks_that_failed_are_named_and_warnings_counted() {
        let check = |check: &str, status: &str, value: u8| {
            format!("goodput_audit_status{{check=\"{check}\",status=\"{status}\",instance=\"n1:9400\"}} {value}\n")
        };
        let all =
            [check("swap_off", "fail", 1), check("thp", "warn", 1), check("thp", "fail", 0), check("irq", "pass", 1)];
        let told = health(&all.concat());
        let expected =
            "audit   failed: swap_off; 1 warning of 3 checks; goodput-exporter audit on the node says how to fix them";
        assert_eq!(told.lines(false)[2], expected);
        assert_eq!(health(&check("irq", "pass", 1)).lines(false)[2], "audit   all 1 checks passed");
    }
}
