//! A whole exposition as a batch.

use std::borrow::Cow;
use std::collections::HashMap;
use std::iter;

use crate::sample::{Batch, Labels, Sample, Series, TimeMs};
use crate::{Format, Limits, Points, TextError};

/// Reads a whole exposition in which nothing is wrong; samples without a timestamp get `time_ms`. Of several values of a
/// series at one time the first stays.
pub fn parse(body: &str, format: Format, limits: Limits, time_ms: TimeMs) -> Result<Batch, TextError> {
    let mut places: HashMap<Labels, usize> = HashMap::new();
    let mut samples: Vec<Vec<Sample>> = Vec::new();
    let mut points = Points::new(body, format, limits);
    while let Some(point) = points.next() {
        let mut point = point?;
        if let Some(fault) = point.fault {
            return Err(TextError { line: points.line(), reason: fault.detail });
        }
        let sample = Sample { time_ms: point.time_ms.unwrap_or(time_ms), value: point.value };
        let name = iter::once((Cow::Borrowed("__name__"), point.name));
        let place = *places.entry(Labels::new(name.chain(point.labels.drain(..)))).or_insert(samples.len());
        points.give_back(point.labels);
        match samples.get_mut(place) {
            Some(known) => known.push(sample),
            None => samples.push(vec![sample]),
        }
    }
    points.finish()?;
    for samples in &mut samples {
        samples.sort_by_key(|sample| sample.time_ms);
        samples.dedup_by_key(|sample| sample.time_ms);
    }
    let mut labels: Vec<_> = places.into_iter().collect();
    labels.sort_unstable_by_key(|(_, place)| *place);
    Ok(labels.into_iter().zip(samples).map(|((labels, _), samples)| Series { labels, samples }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::LabelsRef;

    type Plain = Vec<(String, Vec<(f64, TimeMs)>)>;

    /// Labels, values and times of every series, in order.
    fn plain(body: &str, limits: Limits) -> Result<Plain, String> {
        let batch = parse(body, Format::Text, limits, 1000).map_err(|error| error.to_string())?;
        let labels = |series: &LabelsRef<'_>| series.iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>();
        let samples = |samples: &[Sample]| samples.iter().map(|sample| (sample.value, sample.time_ms)).collect();
        Ok(batch.series().map(|series| (labels(&series.labels).join(","), samples(series.samples))).collect())
    }

    #[test]
    fn the_first_value_of_a_series_at_a_time_stays() {
        let body = "a 1\nb{x=\"1\",y=\"\"} 5 30\na 2\nb{x=\"1\"} 4 20\n";
        let expected = [("__name__=a", vec![(1.0, 1000)]), ("__name__=b,x=1", vec![(4.0, 20), (5.0, 30)])];
        assert_eq!(plain(body, Limits::NONE).unwrap(), expected.map(|(labels, samples)| (labels.to_owned(), samples)));
    }

    #[test]
    fn one_fault_or_bad_line_is_an_error() {
        let limits = Limits { samples: 2, labels: 2, label_bytes: 9 };
        let error = |body| plain(body, limits).unwrap_err();
        assert_eq!(error("a 1\nb\n"), "line 2: expected a number, found \"\"");
        assert_eq!(error("a 1\nb 1\nc 1\n"), "line 3: more than 2 samples");
        assert_eq!(error("a 1\na{b=\"1\",c=\"2\"} 1\n"), "line 2: more than 2 labels");
        assert_eq!(error("a{b=\"123456789\"} 1\n"), "line 1: label \"b\" of 10 bytes, more than 9");
    }
}
