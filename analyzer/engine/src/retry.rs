//! Asks again, as often as an error is worth.

use std::time::Duration;

use tracing::warn;

use crate::ReadError;

/// The pause before the second attempt; it doubles. Tests of this crate wait for no server.
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 500 });

/// The outcome of the first attempt that succeeds, or of the last one.
pub(crate) async fn again<T>(attempt: impl AsyncFn() -> Result<T, ReadError>) -> Result<T, ReadError> {
    let (mut pause, mut number) = (PAUSE, 1);
    loop {
        match attempt().await {
            Err(error) if number < error.attempts() => {
                warn!(%error, pause_ms = pause.as_millis(), "asking again");
                tokio::time::sleep(pause).await;
                (pause, number) = (pause * 2, number + 1);
            }
            outcome => return outcome,
        }
    }
}
