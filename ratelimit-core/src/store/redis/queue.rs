//! Batches: requests that come while a call is under way go together into the next one.
//!
//! Nothing waits for a batch to fill. With nothing under way a request is sent at once, by itself; under load one call
//! decides about many, in the order in which they came and with one reading of the clock. A call for each would decide the
//! same: the script judges each request with what those before it were charged. Another is sent while the first is under
//! way when half of one could be filled, or when the first takes longer than a millisecond.
//!
//! A cluster has one queue for each part of its slots, and one call for each caller who occurs in what was waiting: while a
//! slot moves from one node to another, a call for several callers might find some of them here and some there.

mod round_trip;

use std::collections::BTreeMap;
use std::mem;
use std::pin::pin;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, timeout_at};

use self::round_trip::{Lately, PACE};
use super::command::Question;
use super::deadline::Patience;
use super::error::Failure;
use super::key::Key;
use super::link::{Progress, Shared};
use super::protocol::{self, Encoder, Reply, Request};
use super::topology::{SLOT_RANGES, slot_range};
use crate::error::StoreError;

/// Most limits in one call, so that no call keeps other users of the server waiting: it takes one or two tenths of a
/// millisecond, and with logs, which count for several limits each, one millisecond at most. A single group that has more
/// goes in a call of its own.
const CAP: usize = 128;

/// If at least this many limits are queued, the next call is sent immediately, so that the server never idles. With fewer,
/// two calls would only be smaller than one.
const CROWD: usize = CAP / 2;

/// Most calls in flight of one queue: what 64 * 128 limits need. More requests wait in the queue until their deadline.
const MOST_UNDER_WAY: usize = 64;

/// A queued request.
struct Waiter {
    request: Request,
    patience: Patience,
    answer: Answer,
}

impl Waiter {
    /// The part of [`CAP`] that the request takes.
    fn weight(&self) -> usize {
        self.request.limits.iter().map(|limit| limit.rule.weight()).sum()
    }
}

/// The channel for a reply.
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

    /// Queues a request whose keys are on one node; the result waits for the reply.
    pub(super) fn submit(&self, request: Request, patience: Patience) -> Pending {
        let range = range(&self.shared, &request);
        let (answer, decided) = oneshot::channel();
        // The thread may be busy with connecting, which over TLS takes computing: what is bound to fail does so here.
        if let Some(failure) = self.shared.refusal(range) {
            let _ = answer.send(Err(failure));
        } else {
            // There is no receiver when the thread has ended, and then no answer either.
            let _ = self.senders[range].send(Waiter { request, patience, answer });
        }
        Pending(decided)
    }
}

/// A reply to come.
pub(super) struct Pending(oneshot::Receiver<Result<Reply, Failure>>);

impl Pending {
    pub(super) async fn reply(self) -> Result<Reply, StoreError> {
        self.0.await.unwrap_or(Err(Failure::Unavailable)).map_err(StoreError::from)
    }
}

/// Serves one queue, for ever.
async fn serve(shared: Arc<Shared>, mut queue: mpsc::UnboundedReceiver<Waiter>, encoder: Arc<Encoder>) {
    let mut under_way = JoinSet::new();
    let mut waiting: Vec<Waiter> = Vec::with_capacity(CAP);
    let mut sent = Instant::now();
    let lately = Arc::new(Lately::default());
    loop {
        // What the last call had no room for counts by its limits, what waits in the channel by its requests.
        let left_over: usize = waiting.iter().map(Waiter::weight).sum();
        while !under_way.is_empty() && left_over + queue.len() < CROWD {
            if timeout_at(sent + lately.pace(), under_way.join_next()).await.is_err() {
                break;
            }
        }
        // A task ends at the latest deadline of its requests; that of a queued request may be earlier.
        while under_way.len() >= MOST_UNDER_WAY {
            let _ = timeout_at(Instant::now() + PACE, under_way.join_next()).await;
            while let Ok(waiter) = queue.try_recv() {
                waiting.push(waiter);
            }
            let now = Instant::now();
            for waiter in waiting.extract_if(.., |waiter| waiter.patience.until() <= now) {
                tell(waiter.answer, Err(waiter.patience.too_late()));
            }
        }
        if waiting.is_empty() && queue.recv_many(&mut waiting, CAP).await == 0 {
            return;
        }
        while waiting.len() < CAP
            && let Ok(waiter) = queue.try_recv()
        {
            waiting.push(waiter);
        }
        // In the order in which the requests were made, however the threads took turns.
        waiting.sort_by_key(|waiter| waiter.patience.since);
        let batch = cut(&mut waiting);
        for waiters in by_caller(batch, shared.is_cluster()) {
            let (shared, encoder, lately) = (Arc::clone(&shared), Arc::clone(&encoder), Arc::clone(&lately));
            under_way.spawn(settle(shared, waiters, encoder, lately));
        }
        sent = Instant::now();
        // The calls are sent before the next is put together.
        yield_now().await;
        while under_way.try_join_next().is_some() {}
    }
}

/// Takes the requests from the front that fit into one call, at least one.
fn cut(waiting: &mut Vec<Waiter>) -> Vec<Waiter> {
    let mut weight = 0;
    let fitting = waiting.iter().position(|waiter| {
        weight += waiter.weight();
        weight > CAP
    });
    match fitting {
        None => mem::replace(waiting, Vec::with_capacity(CAP)),
        Some(size) => waiting.drain(..size.max(1)).collect(),
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

/// A request of a call that is in flight; without a channel once its deadline has passed.
struct InFlight {
    patience: Patience,
    answer: Option<Answer>,
}

/// Sends one call for all these requests, and gives each its reply, or an error at its deadline.
async fn settle(shared: Arc<Shared>, mut waiters: Vec<Waiter>, encoder: Arc<Encoder>, lately: Arc<Lately>) {
    let start = Instant::now();
    // A request whose reply would come too late is not sent, so that it is not charged for nothing. One that has more than
    // half of its time left is sent in any case: otherwise one slow answer would keep back all requests with less time.
    let takes = lately.takes(shared.deadline());
    let is_late = |patience: Patience| patience.until() <= start + takes.min(patience.limit / 2);
    for waiter in waiters.extract_if(.., |waiter| is_late(waiter.patience)) {
        tell(waiter.answer, Err(waiter.patience.too_late()));
    }
    // Nor is one that was given up.
    waiters.retain(|waiter| !waiter.answer.is_closed());
    let Some(first) = waiters.first() else { return };
    let range = range(&shared, &first.request);
    let (mut requests, mut waiting) = (Vec::with_capacity(waiters.len()), Vec::with_capacity(waiters.len()));
    for Waiter { request, patience, answer } in waiters {
        requests.push(request);
        waiting.push(InFlight { patience, answer: Some(answer) });
    }
    let (call, batch) = encoder.encode(requests);
    let question = Question::Run(call);
    let progress = Progress::default();
    let mut asked = pin!(shared.call(&question, range, &progress));
    let mut is_noted = false;
    let answer = loop {
        let in_flight = waiting.iter().filter(|waiter| waiter.answer.is_some());
        let Some(until) = in_flight.map(|waiter| waiter.patience.until()).min() else {
            // How the call ends still says how the server is, also where all requests had little time.
            match timeout_at(start + shared.deadline(), asked).await {
                Ok(Ok(_)) => lately.took(start.elapsed()),
                Err(_) if !is_noted => _ = shared.late(range, &progress),
                _ => {}
            }
            return;
        };
        if let Ok(answer) = timeout_at(until, asked.as_mut()).await {
            break answer;
        }
        // One call is one failure, however many requests are in it.
        is_noted = is_noted || shared.late(range, &progress);
        for waiter in waiting.iter_mut().filter(|waiter| waiter.patience.until() <= until) {
            if let Some(answer) = waiter.answer.take() {
                tell(answer, Err(waiter.patience.too_late()));
            }
        }
    };
    if answer.is_ok() {
        lately.took(start.elapsed());
    }
    let replies = answer.and_then(|value| batch.decode(value).ok_or(Failure::Protocol(protocol::EXPECTED)));
    let waiting = waiting.into_iter().map(|waiter| waiter.answer);
    match replies {
        Ok(replies) => {
            for (reply, answer) in replies.into_iter().zip(waiting) {
                if let Some(answer) = answer {
                    tell(answer, Ok(reply));
                }
            }
        }
        Err(failure) => waiting.flatten().for_each(|answer| tell(answer, Err(failure.clone()))),
    }
}

/// Sends a request its reply, unless the request was given up meanwhile.
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
