//! What the ranks of a run did in collectives, beside what was lost to waiting: it may overlap computing, and is in no sum.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Finding, Names, text};
use goodput_verdict::{Class, CollectiveUse, Standing};

/// Classes of waiting in collectives.
const WAITING: [Class; 3] = [Class::CollectiveWait, Class::Straggler, Class::NetworkSlow];

/// The time of a run in collectives, of half hours in which enough of them were matched between its ranks.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InCollectives {
    /// GPU-seconds in them. The GPU may have computed at the same time.
    pub seconds: f64,
    /// Of that, waiting for late ranks; the rest is transfer.
    pub late_seconds: f64,
    /// The GPU that came last most often, of all ranks; null where none came last by a tenth.
    pub last: Option<LastComer>,
}

/// A GPU that came last.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LastComer {
    /// Its node.
    pub node: String,
    /// Its UUID.
    pub gpu: String,
    /// Share of the matched collectives that it was in.
    pub share: f64,
}

/// That of a finding's run; `None` where nothing is known of it.
pub(super) fn in_collectives(finding: &Finding, standings: &[Standing]) -> Option<InCollectives> {
    let owner = finding.owner.as_deref().filter(|_| WAITING.contains(&finding.class))?;
    let used = standings.iter().flat_map(|standing| &standing.collectives);
    let mut gpus: BTreeMap<(&str, &str), CollectiveUse> = BTreeMap::new();
    for used in used.filter(|used| used.owner == owner && used.cluster == finding.cluster) {
        gpus.entry((&used.node, &used.gpu)).or_default().add(used);
    }
    let most = gpus.iter().max_by_key(|(_, used)| used.last).filter(|(_, used)| used.last > 0);
    let last = most.map(|((node, gpu), used)| LastComer {
        node: (*node).to_owned(),
        gpu: (*gpu).to_owned(),
        share: used.last as f64 / used.collectives as f64,
    });
    let sum = |of: fn(&CollectiveUse) -> f64| gpus.values().map(of).sum::<f64>();
    let seconds = sum(|used| used.seconds);
    (seconds > 0.0).then(|| InCollectives { seconds, late_seconds: sum(|used| used.late_seconds), last })
}

impl InCollectives {
    /// In a line.
    #[must_use]
    pub fn said(&self, names: &Names) -> String {
        let (hours, late) = (text::quantity(self.seconds / 3600.0), self.late_seconds / self.seconds);
        let last = self.last.as_ref().map(|last| {
            let share = text::percent(Some(last.share));
            format!(
                "; last most often: {} {}, in {share} of those compared",
                names.on_node(&last.node, &last.gpu),
                last.gpu
            )
        });
        let late = text::percent(Some(late));
        format!("{hours} GPU-hours of communicator time, {late} of it late ranks{}", last.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::super::{Period, Site, build, html, markdown};
    use goodput_testing::bare;
    use goodput_verdict::{Class, CollectiveUse, Interval, Outlook, Standing};

    #[test]
    fn a_finding_has_the_time_of_its_run_in_collectives() {
        let used = |owner: &str, gpu: &str, last| CollectiveUse {
            node: "n2".to_owned(),
            owner: owner.to_owned(),
            gpu: gpu.to_owned(),
            seconds: 900.0,
            late_seconds: 450.0,
            collectives: 200,
            last,
            ..CollectiveUse::default()
        };
        let all = |gpus: &[(&str, u64)]| Standing {
            collectives: gpus.iter().map(|(gpu, last)| used("llm", gpu, *last)).collect(),
            ..Standing::default()
        };
        let other = Standing { collectives: vec![used("other", "GPU-9", 200)], ..Standing::default() };
        let standings = vec![all(&[("GPU-1", 20), ("GPU-2", 180)]), all(&[("GPU-1", 60), ("GPU-2", 20)]), other];
        let outlook = Outlook { standings, ..Outlook::default() };
        let of = |class, owner: &str, span| Interval { owner: Some(owner.to_owned()), ..bare(class, span) };
        let waits = of(Class::CollectiveWait, "llm", 0..1_800_000);
        let starves = of(Class::DataloaderCpu, "llm", 1_800_000..1_900_000);
        let silent = of(Class::Straggler, "silent", 1_900_000..1_950_000);
        let period = Period::between("1970-01-01", "1970-01-02", &TimeZone::UTC).unwrap();
        let report = build(&[waits, starves, silent], &[], period, &[]).with_outlook(&outlook);
        let told: Vec<_> = report.findings.iter().map(|finding| finding.collectives.as_ref()).collect();
        let [Some(told), None, None] = told[..] else { panic!("{told:?}") };
        assert_eq!((told.seconds, told.late_seconds), (3600.0, 1800.0));
        assert_eq!(told.last.as_ref().map(|last| (last.gpu.as_str(), last.share)), Some(("GPU-2", 0.5)));
        let said = "1.00 GPU-hours of communicator time, 50.0 % of it late ranks; last most often: ";
        let pages = [markdown::render(&report).unwrap(), html::render(&report, &Site::default()).unwrap()];
        assert!(pages.iter().all(|page| page.replace('\u{a0}', " ").contains(said)), "{}", pages[0]);
        assert!(pages[0].contains("- In collectives: 1.00 GPU-hours"), "{}", pages[0]);
    }
}
