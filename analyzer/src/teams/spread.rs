//! Whole numbers given out by whole weights, exactly.

/// Splits a whole by weights: largest remainder, the earlier part first among equals. Without any weight nothing is given out.
/// Weights and whole are not negative.
#[must_use]
pub fn apportion(whole: i64, weights: &[i64]) -> Vec<i64> {
    let total: i128 = weights.iter().copied().map(i128::from).sum();
    if whole <= 0 || total <= 0 {
        return vec![0; weights.len()];
    }
    let exact = |weight: &i64| i128::from(whole) * i128::from(*weight);
    // A part is at most the whole, which is an i64.
    let mut parts: Vec<i64> = weights.iter().map(|w| i64::try_from(exact(w) / total).unwrap_or(whole)).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|n| std::cmp::Reverse(exact(&weights[*n]) % total));
    let left = usize::try_from(whole - parts.iter().sum::<i64>()).unwrap_or_default();
    order.into_iter().take(left).for_each(|n| parts[n] += 1);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn remainders_go_to_the_largest() {
        assert_eq!(apportion(10, &[1, 1, 1]), [4, 3, 3]);
        assert_eq!(apportion(10, &[14, 26, 60]), [1, 3, 6]);
        assert_eq!(apportion(10, &[0, 0]), [0, 0]);
        assert_eq!(apportion(0, &[1, 2]), [0, 0]);
        assert_eq!(apportion(i64::MAX, &[i64::MAX, i64::MAX]), [i64::MAX / 2 + 1, i64::MAX / 2]);
    }

    proptest! {
        #[test]
        fn parts_sum_to_the_whole(whole in 0..i64::MAX, weights in prop::collection::vec(0..i64::MAX, 1..9)) {
            prop_assume!(weights.iter().any(|w| *w > 0));
            let parts = apportion(whole, &weights);
            prop_assert_eq!(parts.iter().map(|p| i128::from(*p)).sum::<i128>(), i128::from(whole));
            prop_assert!(parts.iter().zip(&weights).all(|(part, weight)| *part >= 0 && (*weight > 0 || *part == 0)));
        }
    }
}
