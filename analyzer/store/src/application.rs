//! What jobs achieved, in SQLite.

use std::ops::Range;

use super::columns::ACHIEVED;
use super::{Store, StoreError};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::Achieved;

impl Store {
    pub(super) async fn replace_rows(&self, window: &Range<TimeMs>, rows: &[Achieved]) -> Result<(), StoreError> {
        let database = &self.shared.database;
        let stored = async {
            let mut transaction = database.begin().await?;
            ACHIEVED.replace(&mut transaction, window, None, rows).await?;
            transaction.commit().await
        };
        self.shared.changes.lock().within(window);
        stored.await.map_err(|error| database.failed(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Directory, Options, ReadVerdicts, Results};

    fn row(start_ms: TimeMs, owner: Option<&str>, amount: f64) -> Achieved {
        Achieved {
            cluster: None,
            metric: "steps_total".into(),
            unit: "steps".into(),
            start_ms,
            end_ms: start_ms + 10,
            owner: owner.map(str::to_owned),
            subject: "train-0".into(),
            amount,
            covered_ms: 9,
            ideal: Some(0.1),
            served: None,
            model: None,
        }
    }

    #[tokio::test]
    async fn a_window_is_replaced_and_its_neighbours_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(Options::new(dir.path(), |_| true)).await.unwrap();
        store.replace_achieved(0..10, &[row(0, Some("a"), 1.0), row(0, None, 2.0)]).await.unwrap();
        store.replace_achieved(10..20, &[row(10, Some("a"), 3.0)]).await.unwrap();
        store.replace_achieved(0..10, &[row(0, Some("a"), 0.1 + 0.2)]).await.unwrap();
        let expected = [row(0, Some("a"), 0.1 + 0.2), row(10, Some("a"), 3.0)];
        assert_eq!(store.achieved(0..20).await.unwrap(), expected);
        assert_eq!(store.achieved(10..20).await.unwrap(), expected[1..]);
        store.close().await;
        assert_eq!(Directory::new(dir.path()).verdicts(0..20).await.unwrap().achieved, expected);
    }
}
