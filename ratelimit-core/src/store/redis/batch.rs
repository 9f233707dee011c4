//! Batches: requests that come while a call is under way go together into the next one.
//!
//! Nothing waits for a batch to fill. With nothing under way a request is sent at once, by itself; under load one call
//! decides about many, in the order in which they came and with one reading of the clock. A call for each would decide the
//! same: the script judges each request with what those before it were charged. Another is sent while the first is under
//! way when half of one could be filled, or when the first takes longer than a millisecond.
//!
//! A cluster has one queue for each part of its slots, and one call for each caller who occurs in what was waiting: while a
//! slot moves from one node to another, a call for several callers might find some of them here and some there.

use std::collections::BTreeMap;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, timeout_at};

use super::connection::{Progress, Question, Shared};
use super::fault::Failure;
use super::keys::Key;
use super::topology::{SLOT_RANGES, slot_range};
use super::wire::{self, Encoder, Reply, Request};
use crate::error::StoreError;

/// Most limits in one call, so that no call keeps other users of the server waiting: one or two tenths of a millisecond.
const CAP: usize = 128;

/// So long at least what comes waits for the call that is under way. A server nearby has answered by then; where the way is
/// longer, several calls are on it.
const PACE: Duration = Duration::from_millis(1);

/// When so many wait as a call is sent or answered, another is sent at once, so that the server has it when it is done with
/// the last. With fewer, two calls would only be smaller than one.
const CROWD: usize = CAP / 2;

/// Most calls under way of one queue.
const MOST_UNDER_WAY: usize = 16;

/// One who waits for a decision.
struct Waiter {
    request: Request,
    until: Instant,
    answer: Answer,
}

/// Where he waits.
type Answer = oneshot::Sender<Result<Reply, Failure>>;

/// Where requests wait. What is in here is bounded by time: nobody waits longer than the deadline.
pub(super) struct Queues {
    senders: Box<[mpsc::UnboundedSender<Waiter>]>,
    shared: Arc<Shared>,
}

impl Queues {
    /// Queues that are served on `runtime`.
    pub(super) fn start(shared: &Arc<Shared>, runtime: &Handle, encoder: &Arc<Encoder>) -> Self {
        let size = if shared.is_cluster() { SLOT_RANGES } else { 1 };
        let senders = (0..size).map(|_| {
            let (sender, receiver) = mpsc::unbounded_channel();
            runtime.spawn(serve(Arc::clone(shared), receiver, Arc::clone(encoder)));
            sender
        });
        Self { senders: senders.collect(), shared: Arc::clone(shared) }
    }

    /// Has a request judged, whose keys are on one node.
    pub(super) async fn decide(&self, request: Request) -> Result<Reply, StoreError> {
        let range = range(&self.shared, &request);
        // The thread may be busy with connecting, which over TLS takes computing: what is bound to fail does so here.
        if let Some(failure) = self.shared.refusal(range) {
            return Err(failure.into());
        }
        let (answer, decided) = oneshot::channel();
        // From here on, so that waiting for the thread counts as well.
        let until = Instant::now() + self.shared.deadline();
        // There is no receiver when the thread has ended, and then no answer either.
        let _ = self.senders[range].send(Waiter { request, until, answer });
        decided.await.unwrap_or(Err(Failure::Unavailable)).map_err(StoreError::from)
    }
}

/// Serves one queue, for ever.
async fn serve(shared: Arc<Shared>, mut queue: mpsc::UnboundedReceiver<Waiter>, encoder: Arc<Encoder>) {
    let mut under_way = JoinSet::new();
    let mut waiting = Vec::with_capacity(CAP);
    let mut sent = Instant::now();
    let lately = Arc::new(Lately::default());
    loop {
        while !under_way.is_empty() && queue.len() < CROWD {
            if timeout_at(sent + lately.pace(), under_way.join_next()).await.is_err() {
                break;
            }
        }
        // A task ends by its deadline, and whoever waits for what was not answered is told.
        while under_way.len() >= MOST_UNDER_WAY {
            let _ = under_way.join_next().await;
        }
        if queue.recv_many(&mut waiting, CAP).await == 0 {
            return;
        }
        // Who came first is first, however the threads took turns.
        waiting.sort_by_key(|waiter| waiter.until);
        for waiters in by_caller(mem::take(&mut waiting), shared.is_cluster()) {
            let lately = Arc::clone(&lately);
            under_way.spawn(settle_all(Arc::clone(&shared), waiters, Arc::clone(&encoder), lately));
        }
        sent = Instant::now();
        // They send before anybody who came later does.
        yield_now().await;
        while under_way.try_join_next().is_some() {}
    }
}

/// How long the last call that was answered took, in microseconds.
#[derive(Default)]
struct Lately(AtomicU64);

impl Lately {
    /// So long an answer will take, if nothing changes; never so long that nobody could wait for it.
    fn takes(&self, deadline: Duration) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed)).min(deadline / 2)
    }

    /// How long to wait before another call is sent while one is under way: as many as may be under way are then evenly on
    /// it, and nobody waits long for his turn.
    fn pace(&self) -> Duration {
        PACE.max(Duration::from_micros(self.0.load(Ordering::Relaxed) / MOST_UNDER_WAY as u64))
    }

    fn took(&self, time: Duration) {
        self.0.store(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Those whose keys are on one node in any case, in their order.
fn by_caller(waiting: Vec<Waiter>, is_cluster: bool) -> Vec<Vec<Waiter>> {
    if !is_cluster {
        return if waiting.is_empty() { Vec::new() } else { vec![waiting] };
    }
    let mut callers: BTreeMap<[u8; 16], Vec<Waiter>> = BTreeMap::new();
    for waiter in waiting {
        let caller = first_key(&waiter.request).map(|key| *key.caller()).unwrap_or_default();
        callers.entry(caller).or_default().push(waiter);
    }
    callers.into_values().collect()
}

/// Has all judged, in their order, with as few calls as may be.
async fn settle_all(shared: Arc<Shared>, waiters: Vec<Waiter>, encoder: Arc<Encoder>, lately: Arc<Lately>) {
    let (mut batch, mut size) = (Vec::with_capacity(waiters.len()), 0);
    for waiter in waiters {
        let limits = waiter.request.limits.len();
        if size + limits > CAP && !batch.is_empty() {
            settle(&shared, mem::take(&mut batch), &encoder, &lately).await;
            size = 0;
        }
        size += limits;
        batch.push(waiter);
    }
    settle(&shared, batch, &encoder, &lately).await;
}

/// Asks one call for all who wait, who are in the order of their deadlines, and answers each by his own.
async fn settle(shared: &Shared, mut waiters: Vec<Waiter>, encoder: &Encoder, lately: &Lately) {
    let start = Instant::now();
    // For whom the answer would come too late is not asked, so that nobody is charged for nothing.
    let answerable = start + lately.takes(shared.deadline());
    for Waiter { answer, .. } in waiters.extract_if(.., |waiter| waiter.until <= answerable) {
        tell(answer, Err(shared.too_late()));
    }
    // Nor for whom nobody waits any more.
    waiters.retain(|waiter| !waiter.answer.is_closed());
    let Some(first) = waiters.first() else { return };
    let range = range(shared, &first.request);
    let (mut requests, mut waiting) = (Vec::with_capacity(waiters.len()), Vec::with_capacity(waiters.len()));
    for Waiter { request, until, answer } in waiters {
        requests.push(request);
        waiting.push((until, answer));
    }
    let (call, batch) = encoder.encode(requests);
    let question = Question::Run(call);
    let progress = Progress::default();
    let mut asked = pin!(shared.call(&question, range, &progress));
    let (mut waiting, mut gone, mut is_noted) = (waiting.into_iter(), 0, false);
    let answer = loop {
        let Some(&(until, _)) = waiting.as_slice().first() else { return };
        if let Ok(answer) = timeout_at(until, asked.as_mut()).await {
            break answer;
        }
        // One call is one failure, however many wait for it.
        is_noted = is_noted || shared.late(range, &progress);
        gone += 1;
        if let Some((_, waiter)) = waiting.next() {
            tell(waiter, Err(shared.too_late()));
        }
    };
    if answer.is_ok() {
        lately.took(start.elapsed());
    }
    let replies = answer.and_then(|value| batch.decode(value).ok_or(Failure::Protocol(wire::EXPECTED)));
    match replies {
        Ok(replies) => {
            for (reply, (_, waiter)) in replies.into_iter().skip(gone).zip(waiting) {
                tell(waiter, Ok(reply));
            }
        }
        Err(failure) => waiting.for_each(|(_, waiter)| tell(waiter, Err(failure.clone()))),
    }
}

/// Answers one who waits, unless he has gone meanwhile.
fn tell(waiter: Answer, answer: Result<Reply, Failure>) {
    let _ = waiter.send(answer);
}

/// The part of a cluster's slots that a request belongs to.
fn range(shared: &Shared, request: &Request) -> usize {
    match first_key(request) {
        Some(key) if shared.is_cluster() => slot_range(&key.hash_tag()),
        _ => 0,
    }
}

/// The key that tells where in a cluster a request belongs.
fn first_key(request: &Request) -> Option<&Key> {
    request.limits.first().map(|limit| &limit.key)
}
