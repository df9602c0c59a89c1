//! A straight line through points that does not mind outliers.

use crate::median::{median, median_of_sorted};

/// A slope and its 90 % interval, in units of y per unit of x, and the level at x = 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Trend {
    pub(super) low: f64,
    pub(super) slope: f64,
    pub(super) high: f64,
    pub(super) level: f64,
}

/// Two-sided 90 % of the normal distribution.
const Z: f64 = 1.645;

/// The median of the slopes of all pairs of points, with the interval that Kendall's statistic gives it (P. K. Sen,
/// Journal of the American Statistical Association 63, 1968). `None` with fewer than three different x.
pub(super) fn theil_sen(points: &[(f64, f64)]) -> Option<Trend> {
    let pairs = points.iter().enumerate().flat_map(|(i, a)| points[..i].iter().map(move |b| (a, b)));
    let slopes = pairs.filter(|(a, b)| a.0 != b.0).map(|(a, b)| (a.1 - b.1) / (a.0 - b.0));
    let mut slopes: Vec<f64> = slopes.collect();
    slopes.sort_unstable_by(f64::total_cmp);
    let count = points.len() as f64;
    if slopes.len() < 3 {
        return None;
    }
    let spread = Z * (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    let rank = |position: f64| slopes[(position.max(0.0) as usize).min(slopes.len() - 1)];
    let slope = median_of_sorted(&slopes)?;
    let level = median(points.iter().map(|(x, y)| y - slope * x).collect())?;
    let all = slopes.len() as f64;
    Some(Trend { low: rank((all - spread) / 2.0 - 1.0), slope, high: rank((all + spread) / 2.0), level })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_beside_outliers() {
        let mut points: Vec<(f64, f64)> = (0..20).map(|i| (f64::from(i), 3.0 + 2.0 * f64::from(i))).collect();
        (points[3].1, points[15].1) = (500.0, -500.0);
        let trend = theil_sen(&points).unwrap();
        assert_eq!((trend.slope, trend.level), (2.0, 3.0));
        assert!(trend.low <= 2.0 && 2.0 <= trend.high && trend.low > 0.0, "{trend:?}");
    }

    #[test]
    fn what_goes_up_and_down_has_no_slope_for_sure() {
        let points: Vec<(f64, f64)> = (0..20).map(|i| (f64::from(i), f64::from(i % 4))).collect();
        let trend = theil_sen(&points).unwrap();
        assert!(trend.low <= 0.0 && 0.0 <= trend.high, "{trend:?}");
    }

    #[test]
    fn two_points_are_no_trend() {
        assert_eq!(theil_sen(&[(0.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(theil_sen(&[(0.0, 1.0), (0.0, 2.0), (0.0, 3.0), (0.0, 4.0)]), None);
    }
}
