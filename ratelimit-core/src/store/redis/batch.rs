//! Batches: requests that come while a call is under way go together into the next one.
//!
//! Nothing waits for a batch to fill. With nothing under way a request is sent at once, by itself; under load one call
//! decides about many, in the order in which they came and with one reading of the clock. A call for each would decide the
//! same: the script judges each request with what those before it were charged. Only when several calls could be filled,
//! another is sent while the first is under way.
//!
//! A cluster has one queue for each part of its slots, and one call for each caller who occurs in what was waiting: while a
//! slot moves from one node to another, a call for several callers might find some of them here and some there.

use std::collections::BTreeMap;
use std::mem;
use std::pin::pin;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, timeout_at};

use super::connection::{Progress, Question, Shared};
use super::fault::Failure;
use super::topology::{SLOT_RANGES, hash_tag};
use super::wire::{self, Reply, Request};
use crate::error::StoreError;

/// Most limits in one call, so that no call keeps other users of the server waiting: two or three tenths of a millisecond.
const CAP: usize = 128;

/// Most calls under way of one queue: one that the server works at, and one that is sent or answered.
const MOST_UNDER_WAY: usize = 2;

/// So many have to wait for the second. With fewer, two calls would only be smaller than one.
const CROWD: usize = 2 * CAP;

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
    now: Now,
}

/// Reads the instant that scripts are to believe, in microseconds; 0 is the server's own clock.
pub(super) type Now = Arc<dyn Fn() -> u64 + Send + Sync>;

impl Queues {
    /// Queues that are served on `runtime`.
    pub(super) fn start(shared: &Arc<Shared>, runtime: &Handle, now: &Now) -> Self {
        let size = if shared.is_cluster() { SLOT_RANGES } else { 1 };
        let senders = (0..size).map(|_| {
            let (sender, receiver) = mpsc::unbounded_channel();
            runtime.spawn(serve(Arc::clone(shared), receiver, Arc::clone(now)));
            sender
        });
        Self { senders: senders.collect(), shared: Arc::clone(shared), now: Arc::clone(now) }
    }

    /// The instant that scripts are to believe.
    pub(super) fn now(&self) -> u64 {
        (self.now)()
    }

    /// Has a request judged, whose keys are on one node.
    pub(super) async fn decide(&self, request: Request) -> Result<Reply, StoreError> {
        let range = self.shared.range(first_key(&request));
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
async fn serve(shared: Arc<Shared>, mut queue: mpsc::UnboundedReceiver<Waiter>, now: Now) {
    let mut under_way = JoinSet::new();
    let mut waiting = Vec::with_capacity(CAP);
    loop {
        // What comes meanwhile waits, unless it is very much. A task ends by its deadline, and whoever waits for
        // what was not answered is told.
        while under_way.len() >= MOST_UNDER_WAY || (!under_way.is_empty() && queue.len() < CROWD) {
            let _ = under_way.join_next().await;
        }
        if queue.recv_many(&mut waiting, CAP).await == 0 {
            return;
        }
        let start = Instant::now();
        for Waiter { answer, .. } in waiting.extract_if(.., |waiter| waiter.until <= start) {
            tell(answer, Err(shared.too_late()));
        }
        // Who no longer waits has nothing charged.
        waiting.retain(|waiter| !waiter.answer.is_closed());
        // Who came first is first, however the threads took turns.
        waiting.sort_by_key(|waiter| waiter.until);
        let mut calls = by_caller(mem::take(&mut waiting), shared.is_cluster());
        if under_way.is_empty() && queue.is_empty() && calls.len() == 1 {
            if let Some(waiters) = calls.pop() {
                settle_all(Arc::clone(&shared), waiters, Arc::clone(&now)).await;
            }
            continue;
        }
        for waiters in calls {
            under_way.spawn(settle_all(Arc::clone(&shared), waiters, Arc::clone(&now)));
        }
        // They send before anybody who came later does.
        yield_now().await;
    }
}

/// Those whose keys are on one node in any case, in their order.
fn by_caller(waiting: Vec<Waiter>, is_cluster: bool) -> Vec<Vec<Waiter>> {
    if !is_cluster {
        return if waiting.is_empty() { Vec::new() } else { vec![waiting] };
    }
    let mut callers: BTreeMap<String, Vec<Waiter>> = BTreeMap::new();
    for waiter in waiting {
        let caller = first_key(&waiter.request).map(hash_tag).unwrap_or_default().to_owned();
        callers.entry(caller).or_default().push(waiter);
    }
    callers.into_values().collect()
}

/// Has all judged, in their order, with as few calls as may be.
async fn settle_all(shared: Arc<Shared>, waiters: Vec<Waiter>, now: Now) {
    let (mut batch, mut size) = (Vec::with_capacity(waiters.len()), 0);
    for waiter in waiters {
        let limits = waiter.request.limits.len();
        if size + limits > CAP && !batch.is_empty() {
            settle(&shared, mem::take(&mut batch), now()).await;
            size = 0;
        }
        size += limits;
        batch.push(waiter);
    }
    settle(&shared, batch, now()).await;
}

/// Asks one call for all who wait, who are in the order of their deadlines, and answers each by his own.
async fn settle(shared: &Shared, waiters: Vec<Waiter>, now: u64) {
    let range = shared.range(first_key(&waiters[0].request));
    let (mut requests, mut waiting) = (Vec::with_capacity(waiters.len()), Vec::with_capacity(waiters.len()));
    for Waiter { request, until, answer } in waiters {
        requests.push(request);
        waiting.push((until, answer));
    }
    let question = Question::Run(wire::encode_check(now, &requests));
    let progress = Progress::default();
    let mut asked = pin!(shared.call(&question, range, &progress));
    let (mut waiting, mut gone) = (waiting.into_iter(), 0);
    let answer = loop {
        let Some(&(until, _)) = waiting.as_slice().first() else { return };
        if let Ok(answer) = timeout_at(until, asked.as_mut()).await {
            break answer;
        }
        shared.late(range, &progress);
        gone += 1;
        if let Some((_, waiter)) = waiting.next() {
            tell(waiter, Err(shared.too_late()));
        }
    };
    let replies = answer.and_then(|value| {
        let replies = wire::decode_check(&value, &requests).ok_or(Failure::Protocol(wire::EXPECTED))?;
        Ok(replies.skip(gone).collect::<Vec<Reply>>())
    });
    match replies {
        Ok(replies) => {
            for (reply, (_, waiter)) in replies.into_iter().zip(waiting) {
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

/// The key that tells where in a cluster a request belongs.
fn first_key(request: &Request) -> Option<&str> {
    request.limits.first().map(|limit| limit.key.as_str())
}
