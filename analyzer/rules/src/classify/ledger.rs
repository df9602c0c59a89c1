//! The ledger's arithmetic: integer GPU-milliseconds, exact sums.

use crate::apportion;

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
    fn claims_share_only_what_is_scarce() {
        assert_eq!(share(100, &[30, 20]), [30, 20]);
        assert_eq!(share(30, &[60, 30]), [20, 10]);
    }

    proptest! {
        #[test]
        fn no_claim_gets_more_than_it_can_explain(rest in 0i64..100_000, max in prop::collection::vec(0i64..100_000, 1..6)) {
            let parts = share(rest, &max);
            prop_assert!(parts.iter().zip(&max).all(|(p, m)| p <= m));
            prop_assert_eq!(parts.iter().sum::<i64>(), rest.min(max.iter().sum()));
        }
    }
}
