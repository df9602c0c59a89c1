//! Samples read out of the head and the segments.

use super::catalogue::SeriesId;
use super::embedded::Store;
use super::holes::Hole;
use super::segments::settle;
use super::{Samples, Selection, StoreError};
use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};

impl Samples for Store {
    async fn select(&self, selection: &Selection) -> Result<Vec<Series>, StoreError> {
        let ids = self.shared.catalogue.read().matching(selection);
        let range = selection.range.clone();
        let (segments, recent) = {
            let state = self.shared.state.read();
            let recent: Vec<Vec<Sample>> = ids.iter().map(|id| state.head.range(*id, &range).to_vec()).collect();
            (state.overlapping(&range), recent)
        };
        let stored = self.shared.read(segments, ids.clone(), range).await?;
        let catalogue = self.shared.catalogue.read();
        let join = |((id, mut samples), recent): ((SeriesId, Vec<Sample>), Vec<Sample>)| {
            samples.extend(recent);
            settle(&mut samples);
            let labels = catalogue.labels(id).filter(|_| !samples.is_empty())?.clone();
            Some(Series { labels, samples })
        };
        Ok(ids.into_iter().zip(stored).zip(recent).filter_map(join).collect())
    }

    fn known(&self, selection: &Selection) -> Vec<Labels> {
        let catalogue = self.shared.catalogue.read();
        catalogue.matching(selection).into_iter().filter_map(|id| catalogue.labels(id).cloned()).collect()
    }

    fn raw_from(&self) -> Option<TimeMs> {
        self.shared.state.read().raw_from
    }

    fn holes(&self) -> Vec<Hole> {
        self.shared.state.read().holes.clone()
    }
}
