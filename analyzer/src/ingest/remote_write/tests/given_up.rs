//! Senders that leave before their answer.

use super::super::super::given_up::polled;
use super::*;
use crate::app::Intake;
use goodput_exposition::sample::Batch;
use goodput_store::{Options, Samples as _, Selection, Store, StoreError, wall_clock};

fn receiver<S: Ingest>(store: S, limits: Limits) -> Arc<Receiver<S>> {
    let work = Arc::new(Work::new(limits, Arc::default()));
    Arc::new(Receiver { store, work, replicas: Replicas::new(Default::default()) })
}

fn request(body: Vec<u8>) -> Request {
    Request::builder().header(header::CONTENT_LENGTH, body.len()).body(body.into()).unwrap()
}

#[tokio::test]
async fn what_is_stored_is_noted_whenever_the_sender_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Options::new(dir.path(), |_| true)).await.unwrap();
    let intake = Intake::new(store.clone());
    let receiver = receiver(intake.clone(), Limits::default());
    let start = wall_clock() - 1_000_000;
    let (mut polls, mut unanswered) = (0, 0);
    for n in 1..1000 {
        polls += 1;
        // Each request is earlier than the one before: none is hidden by another.
        let time_ms = start - n * 1000;
        let body = body(&[time_series(&[("__name__", "m"), ("instance", &format!("n{n}"))], &[(1.0, time_ms)])]);
        let answer = polled(receive(State(Arc::clone(&receiver)), request(body)), polls).await;
        // What is in the queue before a flush is committed before it.
        store.flush().await.unwrap();
        let range = time_ms..time_ms + 1;
        let found = store.select(&Selection { range, ..Selection::default() }).await.unwrap();
        assert_eq!(
            intake.take_earliest(),
            found.first().map(|series| series.samples[0].time_ms),
            "after {polls} polls"
        );
        let account = intake.account();
        assert_eq!(account.last_sample.contains_key(&format!("n{n}")), !found.is_empty());
        assert_eq!(account.samples.stored as usize, account.last_sample.len());
        if let Some(answer) = answer {
            assert_eq!((answer.status().as_u16(), found.len()), (204, 1));
            if unanswered > 0 {
                break;
            }
            // The commit was quicker than the next poll: the polls are gone through again.
            polls = 0;
            continue;
        }
        unanswered += found.len();
    }
    assert!(unanswered > 0, "no request was given up between its commit and its answer");
}

/// Is asked for a metric, and answers when it may.
#[derive(Clone)]
struct Pausing {
    asked: std::sync::mpsc::SyncSender<()>,
    go_on: Arc<parking_lot::Mutex<std::sync::mpsc::Receiver<()>>>,
}

impl Ingest for Pausing {
    async fn append(&self, _: Batch) -> Result<Appended, StoreError> {
        Ok(Appended::default())
    }

    fn keeps(&self, _: &str) -> bool {
        self.asked.send(()).unwrap();
        self.go_on.lock().recv().unwrap();
        false
    }
}

const WORK_BYTES: usize = 64 << 10;

#[tokio::test]
async fn decoding_keeps_its_bounds_after_the_sender_has_left() {
    let ((asked, was_asked), (go_on, may_go_on)) = (std::sync::mpsc::sync_channel(1), std::sync::mpsc::channel());
    let store = Pausing { asked, go_on: Arc::new(parking_lot::Mutex::new(may_go_on)) };
    let receiver = receiver(store, Limits { requests: 1, work_bytes: WORK_BYTES, ..Limits::default() });
    let long = "x".repeat(6000);
    let body = body(&[time_series(&[("__name__", "m"), ("a", &long)], &[(1.0, 1)])]);
    let mut handler = Box::pin(receive(State(Arc::clone(&receiver)), request(body)));
    while was_asked.try_recv().is_err() {
        tokio::select! { biased; _ = &mut handler => panic!("it ended"), () = tokio::task::yield_now() => {} }
    }
    drop(handler);
    let work = Arc::clone(&receiver.work);
    let sender = std::net::IpAddr::from([10, 0, 0, 1]);
    assert_eq!(work.place(sender).err().map(|busy| busy.to_string()), Some("1 requests are in work".to_owned()));
    assert!(work.memory(WORK_BYTES).is_err(), "its memory is in use");
    go_on.send(()).unwrap();
    while work.place(sender).is_err() || work.memory(WORK_BYTES).is_err() {
        tokio::task::yield_now().await;
    }
}
