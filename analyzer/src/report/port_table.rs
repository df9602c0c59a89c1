//! The ports of a run that waited for the network, beside what was lost to each.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::most::Most;
use super::sum::Amount;
use super::{Finding, MS_PER_HOUR, text, units};
use goodput_verdict::{Class, PortUse, Standing};

/// What the ports of a run did in the hours in which it waited for the network.
pub type PortTable = Most<PortRow>;

/// A port of a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PortRow {
    /// The node.
    pub node: String,
    /// The RDMA port (`device/port`), or the interface.
    pub port: String,
    /// The highest line rate, in bytes per second; null where it is not told.
    pub rate: Option<f64>,
    /// The time of cells in which it was down, in milliseconds; null where its state is not told.
    pub down_ms: Option<i64>,
    /// Bytes that it sent; null where that is not told.
    pub sent_bytes: Option<f64>,
    /// Times that it waited for an acknowledgement and got none; null where that is not told.
    pub timeouts: Option<f64>,
    /// Retransmissions for each gigabyte sent; null where either is not told, or nothing was sent.
    pub retransmits_per_gigabyte: Option<f64>,
    /// Changes of its link; null where they are not told.
    pub link_changes: Option<f64>,
    /// How long it was asked to pause, in milliseconds; null where that is not told.
    pub paused_ms: Option<f64>,
    /// What is charged to it; null where nothing is.
    pub charged: Option<Amount>,
    /// Timeouts, retransmissions and changes of its link.
    #[serde(skip)]
    events: f64,
}

/// The table of a finding; `None` where nothing is kept of its ports.
pub(super) fn port_table(finding: &Finding, standings: &[Standing]) -> Option<PortTable> {
    let owner = finding.owner.as_deref().filter(|_| finding.class == Class::NetworkSlow)?;
    let used = standings.iter().flat_map(|standing| &standing.ports);
    let used = used.filter(|port| port.owner == owner && port.cluster == finding.cluster);
    let (mut all, mut most) = (BTreeMap::<(&str, &str), PortUse>::new(), 0);
    for port in used {
        most = most.max(port.ports);
        all.entry((&port.node, &port.port)).or_default().add(port);
    }
    let mut rows: Vec<PortRow> = all.into_iter().map(|(at, told)| row(at, &told, finding)).collect();
    let charged = |row: &PortRow| row.charged.as_ref().map_or(0, |amount| amount.gpu_ms);
    rows.sort_by(|a, b| {
        charged(b).cmp(&charged(a)).then(b.events.total_cmp(&a.events)).then(b.down_ms.cmp(&a.down_ms))
    });
    (!rows.is_empty()).then(|| Most::of(rows, most))
}

fn row((node, port): (&str, &str), told: &PortUse, finding: &Finding) -> PortRow {
    let is_it = |charged: &&super::Port| charged.node == node && charged.which.as_deref() == Some(port);
    let sent = told.sent_bytes.filter(|sent| *sent > 0.0);
    PortRow {
        node: node.to_owned(),
        port: port.to_owned(),
        rate: told.rate,
        down_ms: told.down_ms,
        sent_bytes: told.sent_bytes,
        timeouts: told.timeouts,
        retransmits_per_gigabyte: told.retransmits.zip(sent).map(|(again, sent)| again * 1e9 / sent),
        link_changes: told.link_changes,
        paused_ms: told.paused_ms,
        charged: finding.ports.iter().find(is_it).map(|charged| charged.amount.clone()),
        events: told.events(),
    }
}

impl PortTable {
    /// What the table says, in a sentence.
    #[must_use]
    pub fn said(&self, finding: &Finding) -> String {
        let lost = finding.lost.hours();
        let Some((row, charged)) = self.rows.first().and_then(|row| Some((row, row.charged.as_ref()?))) else {
            return format!("{lost} GPU-hours waited for the network. No single port is to blame.");
        };
        let at = text::port(&row.node, Some(&row.port));
        let next = self.rows[1..].iter().map(|row| row.events).fold(0.0, f64::max);
        let others = self.rows.len() - 1 + self.others;
        let most = match row.events > 0.0 && others > 0 {
            true => format!(" Of {others} other ports of the run none has more than {}.", units::count(Some(next))),
            false => String::new(),
        };
        format!("{lost} GPU-hours waited for the network, {} of them for {at}{}.{most}", charged.hours(), row.shows())
    }
}

impl PortRow {
    /// What is the matter with it, as far as that is counted.
    fn shows(&self) -> String {
        let hours = |ms: f64| text::quantity(ms / MS_PER_HOUR);
        let mut all = Vec::new();
        all.extend(
            (self.events > 0.0)
                .then(|| format!("timeouts, retransmissions and link changes: {}", units::count(Some(self.events)))),
        );
        all.extend(self.down_ms.filter(|ms| *ms > 0).map(|ms| format!("down for {} h", hours(ms as f64))));
        all.extend(self.paused_ms.filter(|ms| *ms > 0.0).map(|ms| format!("paused for {} h", hours(ms))));
        if all.is_empty() { String::new() } else { format!(" ({})", all.join("; ")) }
    }

    /// Its line rate, to be read.
    #[must_use]
    pub fn rate(&self) -> String {
        units::told(self.rate, "bytes per second")
    }

    /// What it sent, to be read.
    #[must_use]
    pub fn sent(&self) -> String {
        units::told(self.sent_bytes, "bytes")
    }

    /// Was it up, to be read.
    #[must_use]
    pub fn state(&self) -> String {
        match self.down_ms {
            None => text::UNKNOWN.into(),
            Some(0) => "up".into(),
            Some(ms) => format!("down for {} h", text::quantity(ms as f64 / MS_PER_HOUR)),
        }
    }

    /// How long it paused, to be read.
    #[must_use]
    pub fn paused(&self) -> String {
        units::told(self.paused_ms.map(|ms| ms / 1000.0), "seconds")
    }

    /// GPU-hours that are charged to it, to be read.
    #[must_use]
    pub fn charged(&self) -> String {
        self.charged.as_ref().map_or("0".into(), Amount::hours)
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::super::{Period, Site, build, html, markdown};
    use goodput_testing::bare;
    use goodput_verdict::{Cause, CauseKind, Class, Culprit, Interval, Outlook, PortUse, Standing};

    fn used(node: &str, port: &str, hour: i64, timeouts: f64) -> PortUse {
        PortUse {
            node: node.to_owned(),
            owner: "llm".to_owned(),
            port: port.to_owned(),
            start_ms: hour * 3_600_000,
            ports: 16,
            rate: Some(5e10),
            sent_bytes: Some(2e12),
            timeouts: Some(timeouts),
            retransmits: Some(1000.0),
            down_ms: (node == "n2").then_some(0),
            ..PortUse::default()
        }
    }

    fn standings() -> Vec<Standing> {
        let of = |hour, timeouts| Standing {
            ports: vec![used("n2", "mlx5_4/1", hour, timeouts), used("n3", "mlx5_4/1", hour, 0.0)],
            ..Standing::default()
        };
        let other = PortUse { owner: "other".to_owned(), ..used("n9", "mlx5_9/1", 0, 1e6) };
        vec![of(0, 200.0), of(1, 14.0), Standing { ports: vec![other], ..Standing::default() }]
    }

    #[test]
    fn a_finding_has_the_ports_of_its_run() {
        let slow = Interval {
            owner: Some("llm".to_owned()),
            charged_to: Some(Culprit { node: "n2".into(), gpu: None }),
            cause: Some(Cause { kind: CauseKind::Errors, which: Some("mlx5_4/1".to_owned()) }),
            ..bare(Class::NetworkSlow, 0..1_800_000)
        };
        let late = Interval { owner: Some("llm".to_owned()), ..bare(Class::CollectiveWait, 1_800_000..1_900_000) };
        let period = Period::between("1970-01-01", "1970-01-02", &TimeZone::UTC).unwrap();
        let outlook = Outlook { standings: standings(), ..Outlook::default() };
        let report = build(&[slow, late], &[], period, &[]).with_outlook(&outlook);
        let tables: Vec<_> = report.findings.iter().map(|finding| finding.port_table.as_ref()).collect();
        let [Some(table), None] = tables[..] else { panic!("{tables:?}") };
        let rows = table.rows.iter().map(|row| {
            (row.node.as_str(), row.timeouts, row.retransmits_per_gigabyte, row.charged.as_ref().map(|a| a.gpu_ms))
        });
        let rows: Vec<_> = rows.collect();
        assert_eq!(rows, [("n2", Some(214.0), Some(0.5), Some(1_800_000)), ("n3", Some(0.0), Some(0.5), None)]);
        assert_eq!(table.others, 14);
        let said = "0.50 GPU-hours waited for the network, 0.50 of them for port mlx5_4/1 of n2 (timeouts, \
                    retransmissions and link changes: 2.21 k). Of 15 other ports of the run none has more than 2 k.";
        let row = "| port mlx5_4/1 of n2 | 50 GB/s | 3.64 TiB | 214 | 0.5 | unknown | unknown | up | 0.50 |";
        let pages = [markdown::render(&report).unwrap(), html::render(&report, &Site::default()).unwrap()];
        assert!(pages.iter().all(|page| page.contains(said)), "{}", pages[0]);
        assert!(pages[0].contains(row), "{}", pages[0]);
        assert!(pages[0].contains("| unknown | unknown | unknown | 0 |"), "{}", pages[0]);
        assert!(pages.iter().all(|page| page.contains("Other ports of the run, which show less: 14.")), "{}", pages[0]);
    }
}
