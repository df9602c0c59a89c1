//! How dcgm-exporter's families are selected and written: its settings for labels, fields and devices. Our own
//! families are always there, and always written the same way.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use goodput_catalog::{HOST_LABEL, Kind, Metric};

use super::{CounterType, Counters, Devices, Head};

/// Further constant labels of a GPU's series, by the GPU's UUID.
pub type Constants = BTreeMap<String, Vec<(&'static str, String)>>;

/// The settings. The default serves what is collected of every device, without the host label.
#[derive(Clone, Debug, Default)]
pub struct Style {
    /// How [`HOST_LABEL`] is written; `None` leaves it out.
    pub host_label: Option<&'static str>,
    /// Write blanks in the model's name as dashes.
    pub dashed_model: bool,
    /// The devices whose families are served.
    pub devices: Devices,
    /// The fields that are served; `None` for all.
    pub counters: Option<Arc<Counters>>,
    /// Further constant labels.
    pub constants: Constants,
}

impl Style {
    /// Is this sample served?
    pub(super) fn wants(&self, metric: &Metric, values: &[&str]) -> bool {
        !metric.is_dcgm() || self.lists(metric.name) && self.devices.include(value_of(metric, values, "gpu"))
    }

    /// Is a family of this name served?
    pub(super) fn lists(&self, name: &str) -> bool {
        self.counters.as_ref().is_none_or(|counters| counters.family(name).is_some())
    }

    /// The lines about a family, with type and help of the counters file where it gives them.
    pub(super) fn head(&self, metric: &'static Metric) -> Head {
        let mut head = Head::from(metric);
        let counter = self.counters.as_ref().filter(|_| metric.is_dcgm()).and_then(|c| c.family(metric.name));
        let Some(counter) = counter else { return head };
        head.kind = match counter.kind {
            CounterType::Gauge => Some(Kind::Gauge),
            CounterType::Counter => Some(Kind::Counter),
            CounterType::Histogram | CounterType::Summary | CounterType::Label => head.kind,
        };
        if !counter.help.is_empty() {
            head.help = counter.help.clone().into();
        }
        head
    }

    /// A label of a row as it is written; `None` leaves it out.
    pub(super) fn label<'a>(
        &self,
        metric: &Metric,
        name: &'static str,
        value: &'a str,
    ) -> Option<(&'static str, Cow<'a, str>)> {
        match name {
            HOST_LABEL => self.host_label.map(|name| (name, value.into())),
            "modelName" if self.dashed_model && metric.is_dcgm() => Some((name, value.replace(' ', "-").into())),
            _ => Some((name, value.into())),
        }
    }

    /// The further labels of a sample.
    pub(super) fn constants<'a>(
        &'a self,
        metric: &Metric,
        values: &[&str],
    ) -> impl Iterator<Item = (&'static str, &'a str)> + use<'a> {
        let uuid = value_of(metric, values, "UUID").filter(|_| metric.is_dcgm());
        let constants = uuid.and_then(|uuid| self.constants.get(uuid));
        constants.into_iter().flatten().map(|(name, value)| (*name, value.as_str()))
    }
}

fn value_of<'a>(metric: &Metric, values: &[&'a str], label: &str) -> Option<&'a str> {
    let at = metric.labels.iter().position(|name| *name == label)?;
    values.get(at).copied()
}
