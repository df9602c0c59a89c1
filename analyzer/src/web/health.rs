//! How a GPU is, by what is stored of it: who holds it, what its series name, and the last readings of its errors.

use super::chosen::Chosen;
use super::clock::HOUR_MS;
use super::link;
use super::outlook::{self, Risks};
use super::page::{Link, Problem};
use super::view::Of;
use crate::app::Progress;
use crate::report::{Names, text};
use goodput_exposition::sample::{Labels, Series, TimeMs, is_stale};
use goodput_rules::signal::{Signal, metrics_of};
use goodput_store::{Samples, Selection, StoreError};

/// What is read, and what it is called.
const READINGS: [(Signal, &str); 11] = [
    (Signal::GpuRecoveryAction, "action that the driver wants"),
    (Signal::GpuResetRequired, "reset required"),
    (Signal::GpuXid, "last XID"),
    (Signal::GpuXidRestartApp, "XIDs, restart the program"),
    (Signal::GpuXidReset, "XIDs, reset the GPU or restart the node"),
    (Signal::GpuXidOther, "other XIDs"),
    (Signal::GpuEccUncorrected, "ECC errors, uncorrected"),
    (Signal::GpuEccCorrected, "ECC errors, corrected"),
    (Signal::GpuRemapPending, "row remap pending"),
    (Signal::GpuRemapFailed, "row remap failed"),
    (Signal::GpuRemappedRows, "remapped rows"),
];

/// Labels that say which GPU it is, as exporters call them.
const IDENTITY: [(&str, &[&str]); 3] =
    [("serial", &["serial"]), ("driver", &["DCGM_FI_DRIVER_VERSION", "driver_version"]), ("PCI", &["pci_bus_id"])];

/// What is known of a GPU.
pub(super) struct Health {
    /// Who holds it by the last judged minutes; `None` where these say nothing of it.
    pub(super) holders: Option<Vec<Link>>,
    pub(super) identity: Vec<(&'static str, String)>,
    pub(super) readings: Vec<Reading>,
    /// What was read as 0.
    pub(super) zero: Vec<&'static str>,
    /// None where nothing of it is at risk.
    pub(super) risks: Option<Risks>,
    /// The last sample's time.
    pub(super) as_of: Option<String>,
}

/// A reading that is not 0.
pub(super) struct Reading {
    pub(super) what: &'static str,
    pub(super) value: String,
    pub(super) metric: String,
}

impl Health {
    /// Of a GPU at the end of the period, or now.
    pub(super) async fn of(store: &impl Samples, uuid: &str, chosen: &Chosen) -> Result<Self, StoreError> {
        let (mut series, mut known) = (Vec::new(), Vec::new());
        for label in ["UUID", "uuid"] {
            let labels = vec![(label.to_owned(), uuid.to_owned())];
            let metrics = metrics_of(&READINGS.map(|(signal, _)| signal));
            let range = chosen.end_ms - 2 * HOUR_MS..chosen.end_ms;
            series.extend(store.select(&Selection { metrics, labels: labels.clone(), range }).await?);
            let metrics = metrics_of(&[Signal::GpuBusy, Signal::GpuUtilization, Signal::FbUsed]);
            known.extend(store.known(&Selection { metrics, labels, range: 0..0 }));
        }
        let mut all: Vec<(TimeMs, f64, Reading)> = series.iter().filter_map(reading).collect();
        all.sort_by_key(|(.., reading)| READINGS.iter().position(|(_, what)| *what == reading.what));
        let as_of = all.iter().map(|(time, ..)| *time).max().map(|time| chosen.clock.show(time));
        let (zero, readings): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, value, _)| *value == 0.0);
        let mut zero: Vec<&str> = zero.into_iter().map(|(.., reading)| reading.what).collect();
        zero.dedup();
        Ok(Self {
            holders: None,
            identity: identity(&known),
            zero,
            readings: readings.into_iter().map(|(.., reading)| reading).collect(),
            risks: None,
            as_of,
        })
    }

    /// The same with who holds it and what is at risk, by the last judged minutes.
    pub(super) fn judged(
        self,
        progress: &Progress,
        uuid: &str,
        (names, chosen): (&Names, &Chosen),
        of: Of<'_>,
    ) -> Result<Self, Problem> {
        let mut own = progress.last_minutes.iter().filter(|i| i.gpu == uuid).peekable();
        let holders = own.peek().is_some().then(|| {
            let runs = own.filter_map(|i| Some((i.holder()?, link::run_of(i, chosen)?)));
            let mut runs: Vec<Link> = runs.map(|(name, href)| Link::new(href, name)).collect();
            runs.sort_by(|a, b| a.text.cmp(&b.text));
            runs.dedup();
            runs
        });
        let risks = outlook::of_gpu(progress, uuid, names, chosen, of)?;
        let has_risks = !risks.lines.is_empty() || risks.view.is_empty;
        Ok(Self { holders, risks: has_risks.then_some(risks), ..self })
    }
}

fn identity(known: &[Labels]) -> Vec<(&'static str, String)> {
    let first = |names: &[&str]| {
        let values = || names.iter().flat_map(|name| known.iter().filter_map(|labels| labels.get(name)));
        values().find(|value| !value.is_empty()).map(str::to_owned)
    };
    IDENTITY.iter().filter_map(|(what, names)| Some((*what, first(names)?))).collect()
}

/// The last sample of a series.
fn reading(series: &Series) -> Option<(TimeMs, f64, Reading)> {
    let metric = series.labels.metric();
    let is_of = |signal: Signal| metrics_of(&[signal]).iter().any(|name| name == metric);
    let last = series.samples.iter().rev().find(|sample| !is_stale(sample.value))?;
    let labels =
        ["xid", "action", "kind"].iter().filter_map(|name| Some(format!("{name}={}", series.labels.get(name)?)));
    let labels = labels.collect::<Vec<_>>().join(", ");
    let (_, what) = READINGS.iter().find(|(signal, _)| is_of(*signal))?;
    let metric = if labels.is_empty() { metric.to_owned() } else { format!("{metric}, {labels}") };
    Some((last.time_ms, last.value, Reading { what, value: text::number(last.value), metric }))
}
