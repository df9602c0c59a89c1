//! dcgm-exporter's series: every selected row, in the spelling that is asked for.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::policy::{Look, Looks, judge};
use super::window::Windows;
use crate::context::Dcgm;
use crate::source::nvml::{Gpu, Values};
use crate::source::xid::Xids;
use goodput_catalog::dcgm::{self as rows, Read, Row, Text};
use goodput_exposition::Families;

/// dcgm-exporter's names of NVML's states between two GPUs (`nvmlGpuP2PStatus_t`), in the order of their codes.
const LINK_STATES: [&str; 7] = [
    "OK",
    "ChipsetNotSupported",
    "GPUNotSupported",
    "TopologyNotSupported",
    "DisabledByRegKey",
    "NotSupported",
    "Unknown",
];

/// Values of the labels that all series of a GPU have, in the order of the rows.
pub(super) type Labels<'a> = [&'a str; 6];

/// Values of the labels that say whose the GPU is.
pub(super) type OwnerLabels<'a> = [&'a str; 4];

/// What is remembered of a GPU between scrapes.
#[derive(Default)]
pub(super) struct Memory {
    xids: Windows<u64>,
    clock_events: Windows<&'static str>,
    health_xids: Windows<u64>,
    looks: Looks,
}

/// Writes rows of one GPU.
pub(super) struct Writer<'a> {
    dcgm: &'a Dcgm,
    labels: Labels<'a>,
    optional: Vec<&'a str>,
    out: &'a mut Families,
}

impl<'a> Writer<'a> {
    /// Of a GPU: the texts of it that are selected, and its owner, are on every series.
    pub(super) fn new(
        gpu: &'a Gpu,
        labels: Labels<'a>,
        driver: &'a str,
        owner: OwnerLabels<'a>,
        dcgm: &'a Dcgm,
        out: &'a mut Families,
    ) -> Self {
        let text = |row: &&Row| match row.read {
            Read::Text(Text::DriverVersion) => driver,
            Read::Text(text) => gpu.values.texts.get(&text).map_or("", String::as_str),
            _ => "",
        };
        let texts = rows::TEXTS.iter().map(|row| if dcgm.fields.has(row) { text(row) } else { "" });
        Self { dcgm, labels, optional: texts.chain(owner).collect(), out }
    }

    /// Goes on with one of the GPU's MIG instances: another owner, and further labels.
    pub(super) fn of_instance(&mut self, owner: OwnerLabels<'a>, profile: &'a str, id: &'a str) {
        self.optional.truncate(rows::TEXTS.len());
        self.optional.extend(owner.into_iter().chain([profile, id]));
    }

    /// Writes one series, or one per spelling; nothing of a row that is not selected.
    fn write(&mut self, row: &'static Row, extra: &[&str], value: f64) {
        if !self.dcgm.fields.has(row) {
            return;
        }
        for metric in row.spelled(self.dcgm.names) {
            let values: Vec<_> = self.labels.iter().chain(extra).copied().collect();
            self.out.push_with(metric, &values, &self.optional, row.unit.convert(value, metric.unit));
        }
    }

    /// Writes the readings of a GPU or of a MIG instance.
    pub(super) fn readings(&mut self, values: &Values) {
        for row in self.dcgm.fields.rows() {
            if let Ok(value) = values.get(row.read) {
                self.write(row, &[], value);
            }
        }
        for (peer, state) in values.peers.iter() {
            let name = usize::try_from(*state).ok().and_then(|code| LINK_STATES.get(code)).unwrap_or(&"Unknown");
            self.write(&rows::P2P_STATUS, &[&peer.to_string(), name], f64::from(*state));
        }
    }

    /// Writes what is counted, which are events and no readings: the XID that tells why a GPU is lost must outlive its
    /// readings.
    pub(super) fn events(&mut self, gpu: &Gpu, xids: Option<&Xids>, at: Instant, memory: &mut Memory) {
        if let Some(xids) = xids {
            // 0 until one is seen, as dcgm-exporter has it: the only gauge whose 0 means "none".
            self.write(&rows::XID_ERRORS, &[], xids.last.unwrap_or(0) as f64);
        }
        let counts = xids.map(Xids::codes).unwrap_or_default();
        for (xid, count) in &counts {
            self.write(&rows::XID_ERRORS_TOTAL, &[&xid.to_string()], *count as f64);
        }
        let (window, name) = spelled(self.dcgm.xid_window);
        for (xid, count) in memory.xids.grown(at, &counts, window) {
            self.write(&rows::XID_ERRORS_COUNT, &[&xid.to_string(), &name], count as f64);
        }
        self.clock_events(&gpu.totals.clock_events.edges, &rows::CLOCK_EVENTS_TOTAL, None);
        let (window, name) = spelled(self.dcgm.clock_events_window);
        let samples = memory.clock_events.grown(at, &gpu.totals.clock_events.samples, window);
        self.clock_events(&samples, &rows::CLOCK_EVENTS_COUNT, Some(&name));
    }

    /// Writes the judgement of every subsystem. Of a GPU whose readings are not fresh, nothing can be read.
    pub(super) fn health(&mut self, readings: Option<&Values>, xids: Option<&Xids>, at: Instant, memory: &mut Memory) {
        if !self.dcgm.fields.has(&rows::GPU_HEALTH_STATUS) {
            return;
        }
        let look = readings.map(Look::at).unwrap_or_default();
        let before = memory.looks.keep(at, look.clone());
        let counts = xids.map(Xids::codes).unwrap_or_default();
        let counts = memory.health_xids.grown(at, &counts, self.dcgm.xid_window);
        let before = before.as_ref().map(|(look, ago)| (look, *ago));
        for (watch, (grade, code)) in judge(&look, before, &counts, xids.is_some()) {
            self.write(&rows::GPU_HEALTH_STATUS, &[watch, code], f64::from(grade as u8));
        }
    }

    fn clock_events(&mut self, counts: &BTreeMap<&'static str, u64>, row: &'static Row, window: Option<&str>) {
        for (event, count) in counts {
            let extra: Vec<_> = [*event].into_iter().chain(window).collect();
            self.write(row, &extra, *count as f64);
        }
    }
}

/// A window, and its length as the label tells it.
fn spelled(window: Duration) -> (Duration, String) {
    (window, window.as_millis().to_string())
}
