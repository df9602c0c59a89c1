//! Senders that leave while their request is in work: the handler is dropped at its nth poll, for every n.

use std::pin::pin;
use std::task::Poll;

/// Polls a future this often, each time that it asks for it, and drops it then. Returns its output if it ended before.
pub(super) async fn polled<T>(future: impl Future<Output = T>, polls: usize) -> Option<T> {
    let mut left = polls;
    let mut future = pin!(future);
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
