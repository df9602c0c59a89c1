//! What is to be expected of nodes, and how they are set up.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Judge, JudgeError, Node, Reader};
use goodput_exposition::sample::{Series, TimeMs};
use goodput_rules::classify::Judged;
use goodput_rules::{forecast, signal, tuning};
use goodput_store::{Results, Samples, StoreError};
use goodput_verdict::{Outlook, Prospect, Standing};

impl<S: Samples, R: Results> Judge<S, R> {
    /// Risks, advisories and standings, by node.
    pub(super) async fn look_ahead(
        &self,
        reader: &mut Reader<'_, S>,
        window: &Range<TimeMs>,
        until: TimeMs,
        judged: &Judged,
    ) -> Result<BTreeMap<Node, Outlook>, JudgeError> {
        let range = window.start..window.end.min(until);
        let standings = self.standings(reader, &range, judged).await?;
        let series = self.foreseen(reader, &range).await?;
        let (span, thresholds) = (window.clone(), self.thresholds.clone());
        let risks = tokio::task::spawn_blocking(move || forecast::risks(&series, &span, until, &thresholds)).await;
        let mut by_node: BTreeMap<Node, Outlook> = BTreeMap::new();
        for risk in risks.map_err(|_| JudgeError::Died(window.clone()))? {
            let node = (risk.last.cluster.clone(), risk.last.node.clone());
            by_node.entry(node).or_default().risks.push(risk);
        }
        for advisory in &judged.advisories {
            let node = (advisory.cluster.clone(), advisory.node.clone());
            by_node.entry(node).or_default().advisories.push(advisory.clone());
        }
        for standing in standings {
            let node = (standing.cluster.clone(), standing.node.clone());
            by_node.entry(node).or_default().standings.push(standing);
        }
        Ok(by_node)
    }

    /// How every node is set up at the end of the range, with how it kept up.
    async fn standings(
        &self,
        reader: &mut Reader<'_, S>,
        range: &Range<TimeMs>,
        judged: &Judged,
    ) -> Result<Vec<Standing>, JudgeError> {
        let look = range.end..range.end;
        let series = reader.within(&tuning::metrics(), &look, (tuning::LOOK_MS, 0)).await?;
        let (span, paired) = (range.clone(), judged.paired.clone());
        let (ports, mounts) = (judged.ports.clone(), judged.mounts.clone());
        let collectives = judged.collectives.clone();
        let standings = move || tuning::standings(&series, &span, &paired, &ports, &mounts, &collectives);
        let standings = tokio::task::spawn_blocking(standings).await;
        standings.map_err(|_| JudgeError::Died(range.clone()))
    }

    /// What is to be expected, by all samples before a time; stores nothing.
    pub async fn prospects(&self, reader: &mut Reader<'_, S>, now: TimeMs) -> Result<Vec<Prospect>, JudgeError> {
        let series = self.foreseen(reader, &(now..now)).await?;
        let thresholds = self.thresholds.clone();
        let prospects = tokio::task::spawn_blocking(move || forecast::prospects(&series, now, &thresholds)).await;
        prospects.map_err(|_| JudgeError::Died(now..now))
    }

    /// The series that forecasts within the range look at.
    async fn foreseen(&self, reader: &mut Reader<'_, S>, range: &Range<TimeMs>) -> Result<Vec<Series>, StoreError> {
        let metrics = signal::metrics_of(&forecast::SIGNALS);
        reader.within(&metrics, range, (self.forecast_window_ms(), 0)).await
    }
}
