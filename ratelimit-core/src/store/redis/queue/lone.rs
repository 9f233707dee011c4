//! Lone calls: about one request, with nothing else queued or in flight.
//!
//! After some of them in a row another one is likely. It needs neither a task nor the interval: the queue itself waits for its
//! reply, or for other requests. Under load that would wake the queue for each batch, so it is not done there.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::inbox::InboxReader;

/// Number of lone calls in a row after which the queue waits for the next one itself.
const AFTER: u32 = 3;

/// Time for which the early timer is set: less than most deadlines, and long beside a round trip.
const EARLY: Duration = Duration::from_millis(40);

/// The lone calls of one queue.
pub(super) struct LoneCalls {
    in_a_row: u32,
    /// Due before the deadline of a call that is made now. Without it that deadline would be the first of all timers of the
    /// thread, which then writes to itself and sleeps once more to learn of it: two system calls for each call.
    early: Pin<Box<Sleep>>,
}

impl LoneCalls {
    pub(super) fn new() -> Self {
        Self { in_a_row: 0, early: Box::pin(sleep_until(Instant::now())) }
    }

    /// Counts a call. Returns whether the queue waits for it itself.
    pub(super) fn count(&mut self, is_lone: bool) -> bool {
        self.in_a_row = if is_lone { self.in_a_row.saturating_add(1) } else { 0 };
        self.in_a_row > AFTER
    }

    /// Waits for the end of a call, or for other requests; then it returns the call, which goes on.
    pub(super) async fn run<Call: Future<Output = ()>>(
        &mut self,
        mut call: Pin<Box<Call>>,
        inbox: &mut InboxReader,
    ) -> Option<Pin<Box<Call>>> {
        let mut others_queued = pin!(inbox.wait_for(1));
        let has_ended = poll_fn(|task| {
            if self.early.as_mut().poll(task).is_ready() {
                self.early.as_mut().reset(Instant::now() + EARLY);
                // Polled again, since this sets the timer.
                let _ = self.early.as_mut().poll(task);
            }
            // A panic ends this call, not the queue.
            let polled = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(task)));
            if !matches!(polled, Ok(Poll::Pending)) {
                return Poll::Ready(true);
            }
            others_queued.as_mut().poll(task).map(|()| false)
        });
        if has_ended.await { None } else { Some(call) }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::store::redis::queue::inbox::inbox;
    use crate::store::redis::queue::request::tests::check;

    #[tokio::test]
    async fn the_queue_waits_itself_for_the_fourth_lone_call_in_a_row() {
        let mut calls = LoneCalls::new();
        let lone = |calls: &mut LoneCalls| calls.count(true);
        assert_eq!([(); 5].map(|()| lone(&mut calls)), [false, false, false, true, true]);
        assert!(!calls.count(false));
        assert_eq!([(); 4].map(|()| lone(&mut calls)), [false, false, false, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lone_call_goes_on_elsewhere_when_another_request_is_queued() {
        let (inbox, mut reader) = inbox();
        let mut calls = LoneCalls::new();
        assert!(calls.run(Box::pin(std::future::ready(())), &mut reader).await.is_none());
        assert!(calls.run(Box::pin(async { panic!("as a recorder may") }), &mut reader).await.is_none());
        let (end, ended) = oneshot::channel::<()>();
        let (request, _reply) = check();
        inbox.push(request);
        let call = calls.run(Box::pin(async { ended.await.unwrap() }), &mut reader).await;
        end.send(()).unwrap();
        call.expect("it has not ended").await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_early_timer_is_set_again_only_when_it_was_due() {
        let (_inbox, mut reader) = inbox();
        let mut calls = LoneCalls::new();
        let start = Instant::now();
        for (elapsed, due) in [(0, 40), (10, 40), (39, 40), (45, 85)] {
            sleep_until(start + Duration::from_millis(elapsed)).await;
            calls.run(Box::pin(std::future::ready(())), &mut reader).await;
            assert_eq!(calls.early.deadline(), start + Duration::from_millis(due), "{elapsed}");
        }
    }
}
