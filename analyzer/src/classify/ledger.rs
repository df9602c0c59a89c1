//! The ledger's arithmetic: integer GPU-milliseconds, exact sums.

/// More was booked than there is, or less: a defect of the judgement, never to be papered over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parts of {booked} ms booked on a whole of {whole} ms")]
pub struct Imbalance {
    /// What there is.
    pub whole: i64,
    /// The sum of the parts.
    pub booked: i64,
}

/// A whole and the parts booked on it so far.
#[derive(Debug)]
pub(crate) struct Account<P> {
    whole: i64,
    booked: i64,
    parts: Vec<(P, i64)>,
}

impl<P> Account<P> {
    /// An account of `whole` milliseconds with nothing booked.
    pub(crate) fn of(whole: i64) -> Self {
        Self { whole, booked: 0, parts: Vec::new() }
    }

    /// What is booked so far.
    pub(crate) fn booked(&self) -> i64 {
        self.booked
    }

    /// What is not booked yet.
    pub(crate) fn rest(&self) -> i64 {
        self.whole - self.booked
    }

    /// Books a part; one of zero leaves no trace.
    pub(crate) fn book(&mut self, part: P, ms: i64) -> Result<(), Imbalance> {
        let booked = self.booked + ms;
        if ms < 0 || booked > self.whole {
            return Err(Imbalance { whole: self.whole, booked });
        }
        self.booked = booked;
        if ms > 0 {
            self.parts.push((part, ms));
        }
        Ok(())
    }

    /// The parts, which sum to the whole.
    pub(crate) fn close(self) -> Result<Vec<(P, i64)>, Imbalance> {
        if self.booked == self.whole {
            Ok(self.parts)
        } else {
            Err(Imbalance { whole: self.whole, booked: self.booked })
        }
    }
}

/// Splits a whole by weights, exactly: largest remainder, the earlier part first among equals. Negative weights and NaN
/// count as zero; without any weight nothing is given out.
pub(crate) fn apportion(whole: i64, weights: &[f64]) -> Vec<i64> {
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

/// Gives each claim what it can explain, at most; claims that together exceed what there is share it by their maxima.
pub(crate) fn share(rest: i64, max_ms: &[i64]) -> Vec<i64> {
    if max_ms.iter().sum::<i64>() <= rest {
        return max_ms.to_vec();
    }
    apportion(rest, &max_ms.iter().map(|m| *m as f64).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn overbooking_is_an_error() {
        let mut account = Account::of(100);
        assert_eq!(account.book("a", 60), Ok(()));
        assert_eq!(account.book("b", 41), Err(Imbalance { whole: 100, booked: 101 }));
        assert_eq!(account.rest(), 40);
        assert_eq!(account.close(), Err(Imbalance { whole: 100, booked: 60 }));
        assert_eq!(Account::<()>::of(1).book((), -1), Err(Imbalance { whole: 1, booked: -1 }));
    }

    #[test]
    fn remainders_go_to_the_largest() {
        assert_eq!(apportion(10, &[1.0, 1.0, 1.0]), [4, 3, 3]);
        assert_eq!(apportion(10, &[0.14, 0.26, 0.6]), [1, 3, 6]);
        assert_eq!(apportion(10, &[0.0, f64::NAN, -1.0]), [0, 0, 0]);
    }

    #[test]
    fn claims_share_only_what_is_scarce() {
        assert_eq!(share(100, &[30, 20]), [30, 20]);
        assert_eq!(share(30, &[60, 30]), [20, 10]);
    }

    proptest! {
        #[test]
        fn apportioned_parts_sum_to_the_whole(whole in 0i64..10_000_000, weights in prop::collection::vec(0.0f64..1e6, 1..9)) {
            prop_assume!(weights.iter().sum::<f64>() > 0.0);
            let parts = apportion(whole, &weights);
            prop_assert_eq!(parts.iter().sum::<i64>(), whole);
            prop_assert!(parts.iter().zip(&weights).all(|(p, w)| *p >= 0 && (*w > 0.0 || *p == 0)));
        }

        #[test]
        fn no_claim_gets_more_than_it_can_explain(rest in 0i64..100_000, max in prop::collection::vec(0i64..100_000, 1..6)) {
            let parts = share(rest, &max);
            prop_assert!(parts.iter().zip(&max).all(|(p, m)| p <= m));
            prop_assert_eq!(parts.iter().sum::<i64>(), rest.min(max.iter().sum()));
        }
    }
}
