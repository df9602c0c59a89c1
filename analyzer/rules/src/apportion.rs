//! Whole numbers given out by weight, without a rest.

/// Splits a whole by weights, exactly: largest remainder, the earlier part first among equals. Negative weights and NaN
/// count as zero; without any weight nothing is given out.
pub fn apportion(whole: i64, weights: &[f64]) -> Vec<i64> {
    let weights: Vec<f64> = weights.iter().map(|w| if *w > 0.0 { *w } else { 0.0 }).collect();
    let total: f64 = weights.iter().sum();
    if whole <= 0 || total <= 0.0 {
        return vec![0; weights.len()];
    }
    let exact: Vec<f64> = weights.iter().map(|w| whole as f64 * (w / total)).collect();
    let mut parts: Vec<i64> = exact.iter().map(|e| e.floor() as i64).collect();
    let mut order: Vec<usize> = (0..parts.len()).filter(|i| weights[*i] > 0.0).collect();
    order.sort_by(|a, b| exact[*b].fract().total_cmp(&exact[*a].fract()));
    let left = whole - parts.iter().sum::<i64>();
    for i in order.into_iter().cycle().take(usize::try_from(left).unwrap_or(0)) {
        parts[i] += 1;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn remainders_go_to_the_largest() {
        assert_eq!(apportion(10, &[1.0, 1.0, 1.0]), [4, 3, 3]);
        assert_eq!(apportion(10, &[0.14, 0.26, 0.6]), [1, 3, 6]);
        assert_eq!(apportion(10, &[0.0, f64::NAN, -1.0]), [0, 0, 0]);
    }

    proptest! {
        #[test]
        fn apportioned_parts_sum_to_the_whole(whole in 0i64..10_000_000, weights in prop::collection::vec(0.0f64..1e6, 1..9)) {
            prop_assume!(weights.iter().sum::<f64>() > 0.0);
            let parts = apportion(whole, &weights);
            prop_assert_eq!(parts.iter().sum::<i64>(), whole);
            prop_assert!(parts.iter().zip(&weights).all(|(p, w)| *p >= 0 && (*w > 0.0 || *p == 0)));
        }
    }
}
