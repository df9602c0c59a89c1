//! One row per metric, and only here.
//!
//! A row fixes a metric's name, kind, unit, labels, help, origin and series count. Collectors name rows, never
//! strings; the encoders, `catalog`, `docs/reference/METRICS.md`, dashboards' and alerts' tests and the analyzer's signal table
//! all read the rows. Kind and unit decide the name's suffix, and a test holds every row to that. The exporter's rows are
//! [`all`]; those of the analyzer's own metrics are [`analyzer::all`].

pub mod analyzer;
pub mod cpu;
pub mod dcgm;
pub mod driver;
pub mod ethtool;
pub mod gds;
pub mod gpu;
pub mod health;
pub mod host;
pub mod irq;
pub mod kubelet;
pub mod lustre;
pub mod memory;
pub mod mig;
pub mod nccl;
pub mod network;
pub mod overlay;
pub mod own;
pub mod owner;
pub mod placement;
pub mod process;
pub mod reclaim;
pub mod sampler;
pub mod storage;
pub mod xid;
pub mod xid_codes;

crate::named! {
    /// What a metric's samples mean to `rate()`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Kind {
        /// Only grows while its source lives.
        Counter = "counter",
        /// Goes both ways.
        Gauge = "gauge",
        /// Constant 1; the labels are the content.
        Info = "info",
        /// `_bucket`, `_sum`, `_count` with cumulative buckets.
        Histogram = "histogram",
    }
}

/// The unit of a metric's values. The first group are Prometheus base units; the second are the units dcgm-exporter
/// publishes under its legacy names, kept so that existing dashboards read right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant is the unit it names")]
pub enum Unit {
    None,
    Seconds,
    Bytes,
    Ratio,
    Joules,
    Watts,
    Celsius,
    Hertz,

    Percent,
    Mebibytes,
    Megahertz,
    Millijoules,
    Nanoseconds,
    BytesPerSecond,
    MegabytesPerSecond,

    /// Only read, never shown.
    Milliwatts,
    /// Only read, never shown.
    MebibytesPerSecond,
}

impl Unit {
    /// The unit's name as OpenMetrics and the list of metrics spell it; `None` for a plain number.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Unit::None => return None,
            Unit::Seconds => "seconds",
            Unit::Bytes => "bytes",
            Unit::Ratio => "ratio",
            Unit::Joules => "joules",
            Unit::Watts => "watts",
            Unit::Celsius => "celsius",
            Unit::Hertz => "hertz",
            Unit::Percent => "percent",
            Unit::Mebibytes => "mebibytes",
            Unit::Megahertz => "megahertz",
            Unit::Millijoules => "millijoules",
            Unit::Nanoseconds => "nanoseconds",
            Unit::BytesPerSecond => "bytes per second",
            Unit::MegabytesPerSecond => "megabytes per second",
            Unit::Milliwatts => "milliwatts",
            Unit::MebibytesPerSecond => "mebibytes per second",
        })
    }

    /// A value of this unit in another one; `None` where the two measure different things. MiB are whole ones, rounded
    /// down as DCGM does.
    #[must_use]
    pub fn convert(self, value: f64, to: Unit) -> Option<f64> {
        Some(match (self, to) {
            (from, to) if from == to => value,
            (Unit::Megahertz, Unit::Hertz) => value * 1e6,
            (Unit::Millijoules, Unit::Joules) | (Unit::Milliwatts, Unit::Watts) => value / 1e3,
            (Unit::Percent, Unit::Ratio) => value / 100.0,
            (Unit::Nanoseconds, Unit::Seconds) => value / 1e9,
            (Unit::Bytes, Unit::Mebibytes) => (value / f64::from(1 << 20)).floor(),
            (Unit::Mebibytes, Unit::Bytes) | (Unit::MebibytesPerSecond, Unit::BytesPerSecond) => {
                value * f64::from(1 << 20)
            }
            (Unit::BytesPerSecond, Unit::MegabytesPerSecond) => value / 1e6,
            (Unit::MegabytesPerSecond, Unit::BytesPerSecond) => value * 1e6,
            _ => return None,
        })
    }
}

/// The label that rows declare where dcgm-exporter puts the host's name. Its spelling changed between dcgm-exporter's
/// generations, so the exporter writes it as configured.
pub const HOST_LABEL: &str = "Hostname";

/// One metric. `name` is the name of its sample lines (a histogram's without `_bucket` and the like).
#[derive(Debug)]
pub struct Metric {
    /// Sample name, with the `_total` of our own counters.
    pub name: &'static str,
    /// Counter, gauge, info or histogram.
    pub kind: Kind,
    /// Unit of the value.
    pub unit: Unit,
    /// Label names, in the order in which collectors give the values. Optional trailing labels (see
    /// [`Metric::optional`]) follow these.
    pub labels: &'static [&'static str],
    /// Labels that are only present when known, such as the owner of a GPU.
    pub optional: &'static [&'static str],
    /// One sentence; ends with a full stop.
    pub help: &'static str,
    /// The file and field, or NVML call, that the value is read from; empty for the analyzer's.
    pub source: &'static str,
    /// The collector that writes it, as in `--collector.NAME`; the part of the analyzer that it is about.
    pub collector: &'static str,
    /// How many series it makes, as a formula over GPUs, nodes, jobs.
    pub series: &'static str,
    /// The release that introduced it.
    pub since: &'static str,
    /// What people look at it for, where no rule, check or alert reads it; empty otherwise. A phrase without a full stop.
    pub purpose: &'static str,
}

impl Metric {
    /// Is this one of dcgm-exporter's names, whose spelling is not ours to choose?
    #[must_use]
    pub fn is_dcgm(&self) -> bool {
        self.name.starts_with("DCGM_")
    }
}

/// Declares enums whose variants have a name each.
#[macro_export]
#[doc(hidden)]
macro_rules! named {
    ($($(#[$attr:meta])* $vis:vis enum $kind:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* })*) => {$(
        $(#[$attr])*
        $vis enum $kind { $($(#[$doc])* $variant,)* }

        #[allow(dead_code, reason = "some are only named, some only listed")]
        impl $kind {
            /// Every one, in order.
            $vis const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name in all that is written: metrics, JSON, reports, stored results.
            #[must_use]
            $vis const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    )*};
}

/// Declares rows as statics and lists them all.
#[macro_export]
#[doc(hidden)]
macro_rules! metric_rows {
    ($($(#[$attr:meta])* $id:ident = $kind:ident $unit:ident $name:literal [$($label:literal),*] $(+ [$($opt:literal),*])?
       { $help:literal, $(from $source:literal,)? by $collector:literal, series $series:literal, since $since:literal
         $(, for $purpose:literal)? })*) => {
        $(
            $(#[$attr])*
            #[doc = $help]
            pub static $id: $crate::Metric = $crate::Metric {
                name: $name,
                kind: $crate::Kind::$kind,
                unit: $crate::Unit::$unit,
                labels: &[$($label),*],
                optional: &[$($($opt),*)?],
                help: $help,
                source: concat!($($source)?),
                collector: $collector,
                series: $series,
                since: $since,
                purpose: concat!($($purpose)?),
            };
        )*
        /// Every row of this file, in order.
        pub static ROWS: &[&$crate::Metric] = &[$(&$id),*];
    };
}

/// Every metric of the exporter.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    let own = [
        gpu::ROWS,
        host::ROWS,
        irq::ROWS,
        memory::ROWS,
        mig::ROWS,
        own::ROWS,
        sampler::ROWS,
        health::ROWS,
        xid::ROWS,
        process::ROWS,
        storage::ROWS,
        network::ROWS,
        cpu::ROWS,
        owner::ROWS,
        placement::ROWS,
        lustre::ROWS,
        overlay::ROWS,
        driver::ROWS,
        ethtool::ROWS,
        gds::ROWS,
        kubelet::ROWS,
        nccl::ROWS,
        reclaim::ROWS,
    ]
    .into_iter()
    .flatten()
    .copied();
    dcgm::metrics().chain(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of both programs.
    fn both() -> impl Iterator<Item = &'static Metric> {
        all().chain(analyzer::all())
    }

    fn required_suffix(unit: Unit) -> Option<&'static str> {
        match unit {
            Unit::None => None,
            Unit::Seconds => Some("_seconds"),
            Unit::Bytes => Some("_bytes"),
            Unit::Ratio => Some("_ratio"),
            Unit::Joules => Some("_joules"),
            Unit::Watts => Some("_watts"),
            Unit::Celsius => Some("_celsius"),
            Unit::Hertz => Some("_hertz"),
            Unit::Percent
            | Unit::Mebibytes
            | Unit::Megahertz
            | Unit::Millijoules
            | Unit::Nanoseconds
            | Unit::BytesPerSecond
            | Unit::MegabytesPerSecond
            | Unit::Milliwatts
            | Unit::MebibytesPerSecond => Some("(not a base unit)"),
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = both().map(|m| m.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    /// Prometheus shows one HELP text at a time, without its neighbours.
    #[test]
    fn every_help_text_stands_alone() {
        for metric in both() {
            let first = metric.help.split([' ', ',']).next().unwrap_or_default();
            let refers = ["Such", "Those", "That", "It", "They", "Them", "Their", "What", "Same"].contains(&first);
            assert!(!refers && !metric.help.starts_with("The same"), "{}: {}", metric.name, metric.help);
        }
    }

    #[test]
    fn every_file_of_rows_is_listed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let files = |folder: &str| std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let listed: Vec<_> = both().map(|m| m.name).collect();
        let mut rows = 0;
        for file in files(folder).filter(|path| path.is_file()).chain(files(&format!("{folder}/analyzer"))) {
            let text = std::fs::read_to_string(&file).unwrap();
            let declared = text.lines().filter(|line| line.starts_with("    ") && line.contains(" = "));
            for name in declared.filter_map(|line| line.split('"').nth(1)).filter(|name| name.starts_with("goodput_")) {
                assert!(listed.contains(&name), "{} declares {name}, which no list has", file.display());
                rows += 1;
            }
        }
        assert!(rows > 200, "found {rows} rows");
    }

    #[test]
    fn own_names_say_kind_and_unit() {
        for m in both().filter(|m| !m.is_dcgm()) {
            let stem = m.name.strip_suffix("_total").unwrap_or(m.name);
            assert_eq!(m.kind == Kind::Counter, m.name.ends_with("_total"), "{}: _total is for counters", m.name);
            assert_eq!(m.kind == Kind::Info, m.name.ends_with("_info"), "{}: _info is for infos", m.name);
            if let Some(suffix) = required_suffix(m.unit) {
                assert!(stem.ends_with(suffix), "{}: unit {:?} wants {suffix}", m.name, m.unit);
            }
        }
    }

    #[test]
    fn rows_are_complete() {
        for m in both() {
            let of_analyzer = m.source.is_empty();
            assert!(m.help.ends_with('.') && !m.help.contains('\n'), "{}: help is one sentence", m.name);
            assert!(!m.series.is_empty() && !m.collector.is_empty(), "{}", m.name);
            // The analyzer's own scrape jobs, which Prometheus shows as `exported_job`.
            let allowed = |label: &str| of_analyzer && label == "job";
            let mut labels = m.labels.iter().chain(m.optional);
            let reserved = labels.any(|l| ["instance", "job", "le", "quantile"].contains(l) && !allowed(l));
            assert!(!reserved, "{}: a label clashes with a target label", m.name);
        }
        assert!(all().all(|m| !m.source.is_empty()) && analyzer::all().all(|m| m.source.is_empty()));
    }
}
