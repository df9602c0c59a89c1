//! Does confidence mean something? Of the GPU-time that verdicts claim in a band of confidence, how much is right.

use serde::Serialize;

use goodput_verdict::Class;

/// Where bands begin, the highest first: the grades that rules give (counted, inferred, weak), and what lies below.
const FROM: [f64; 4] = [0.9, 0.75, 0.5, 0.0];
/// Confidence is a mean over milliseconds, so the last bits of a grade may be lost.
const ROUNDING: f64 = 1e-6;

/// Claims by band of confidence, the highest band first.
///
/// `unexplained` and `no_data` claim nothing and are in no band.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Calibration {
    /// GPU-milliseconds that were given a class.
    pub claimed_ms: i64,
    /// GPU-milliseconds of these that were given the true one.
    pub right_ms: i64,
    /// Each band.
    pub bands: Vec<Band>,
}

/// Claims of about the same confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Band {
    /// Lowest confidence of the band.
    pub from: f64,
    /// Confidence at which the next band begins; 1 is in the first band.
    pub to: f64,
    /// GPU-milliseconds that were given a class with this confidence.
    pub claimed_ms: i64,
    /// GPU-milliseconds of these that were given the true one.
    pub right_ms: i64,
    /// Share of the claims that is right; absent where nothing was claimed.
    pub right_share: Option<f64>,
    /// Share of all right claims, of any confidence, that this band has; absent where nothing is right.
    pub share_of_right: Option<f64>,
}

/// The band of a verdict; none where it claims nothing.
pub(super) fn band(class: &str, confidence: f64) -> Option<usize> {
    let claims = class != Class::Unexplained.name() && class != Class::NoData.name();
    claims.then(|| FROM.iter().position(|from| confidence + ROUNDING >= *from).unwrap_or(FROM.len() - 1))
}

impl Calibration {
    /// From GPU-milliseconds by band: what was claimed, and whether it is right.
    pub(super) fn of(claims: impl Iterator<Item = (usize, bool, i64)>) -> Calibration {
        let mut sums = [(0, 0); FROM.len()];
        for (band, is_right, ms) in claims {
            sums[band].0 += ms;
            sums[band].1 += if is_right { ms } else { 0 };
        }
        let claimed_ms = sums.iter().map(|(claimed, _)| claimed).sum();
        let right_ms = sums.iter().map(|(_, right)| right).sum();
        let share = |part: i64, whole: i64| (whole > 0).then(|| part as f64 / whole as f64);
        let one = |(n, (claimed, right)): (usize, (i64, i64))| Band {
            from: FROM[n],
            to: if n == 0 { 1.0 } else { FROM[n - 1] },
            claimed_ms: claimed,
            right_ms: right,
            right_share: share(right, claimed),
            share_of_right: share(right, right_ms),
        };
        Calibration { claimed_ms, right_ms, bands: sums.into_iter().enumerate().map(one).collect() }
    }

    /// The claims that are called sure: those of at least 0.9.
    #[must_use]
    pub fn sure(&self) -> Option<&Band> {
        self.bands.first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_claims_nothing_is_in_no_band_and_a_mean_of_a_grade_is_in_its_band() {
        assert_eq!((band("unexplained", 0.9), band("no_data", 1.0)), (None, None));
        let bands = [1.0, 0.9, 0.9 - 1e-12, 0.89, 0.75, 0.6, 0.5, 0.2, f64::NAN].map(|c| band("idle_held", c));
        assert_eq!(bands, [0, 0, 0, 1, 1, 2, 2, 3, 3].map(Some));
    }

    #[test]
    fn shares_are_of_the_claims_of_a_band_and_of_all_right_claims() {
        let claims = [(0, true, 90), (0, false, 10), (1, true, 60), (1, false, 40)];
        let calibration = Calibration::of(claims.into_iter());
        assert_eq!((calibration.claimed_ms, calibration.right_ms), (200, 150));
        let sure = calibration.sure().unwrap();
        assert_eq!((sure.right_share, sure.share_of_right), (Some(0.9), Some(0.6)));
        let weak = calibration.bands[2];
        assert_eq!((weak.right_share, weak.share_of_right, weak.from, weak.to), (None, Some(0.0), 0.5, 0.75));
        assert_eq!(Calibration::of(std::iter::empty()).bands[0].share_of_right, None);
    }
}
