//! Limiters for tests: with a clock that stands still, and with a store that counts its calls and fails or
//! waits on command.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ratelimit_actix::ratelimit_core::Timestamp;
use ratelimit_actix::ratelimit_core::clock::FakeClock;
use ratelimit_actix::ratelimit_core::store::toolkit::Operation;
use ratelimit_actix::ratelimit_core::store::{Deadline, Store};
use ratelimit_actix::{
    Check, GroupOutcome, MemoryStore, RateLimiter, RateLimiterBuilder, Reservation, StoreError,
};
use tokio::sync::Semaphore;

/// Text in the errors of a failing store, which is for the log and no client may see.
pub const SECRET: &str = "fire in the server room";

/// Where the clocks of tests stand at their start, in Unix seconds: the first instant of a minute.
pub const START: u64 = 1_700_000_040;

/// A limiter in memory whose time the test moves.
pub fn clocked() -> (RateLimiter, FakeClock) {
    let clock = FakeClock::at(Timestamp::from_micros(START * 1_000_000));
    let store = MemoryStore::new().with_clock(clock.clone());
    (RateLimiter::new(store), clock)
}

/// A limiter in memory whose time stands still.
pub fn fresh() -> RateLimiter {
    clocked().0
}

/// A limiter over a store in memory that can be watched and disturbed, and whose time stands still.
pub fn watched() -> (RateLimiter, Arc<Watch>) {
    let (builder, watch) = watched_builder();
    (builder.build(), watch)
}

/// Settings for a limiter over such a store.
pub fn watched_builder() -> (RateLimiterBuilder, Arc<Watch>) {
    let watch = Arc::new(Watch::default());
    let store = WatchedStore {
        counts: MemoryStore::new().with_clock(FakeClock::at(Timestamp::from_micros(START * 1_000_000))),
        watch: Arc::clone(&watch),
    };
    (RateLimiter::builder(store), watch)
}

/// The test's end of a watched store.
#[derive(Debug)]
pub struct Watch {
    calls: AtomicUsize,
    tries: AtomicUsize,
    limits: AtomicUsize,
    refunds: AtomicUsize,
    peeks: AtomicUsize,
    looks: AtomicUsize,
    resets: AtomicUsize,
    fails: AtomicBool,
    refunds_fail: AtomicBool,
    settles: AtomicBool,
    gate: Semaphore,
    held: AtomicBool,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            calls: AtomicUsize::new(0),
            tries: AtomicUsize::new(0),
            limits: AtomicUsize::new(0),
            refunds: AtomicUsize::new(0),
            peeks: AtomicUsize::new(0),
            looks: AtomicUsize::new(0),
            resets: AtomicUsize::new(0),
            fails: AtomicBool::new(false),
            refunds_fail: AtomicBool::new(false),
            settles: AtomicBool::new(false),
            gate: Semaphore::new(0),
            held: AtomicBool::new(false),
        }
    }
}

impl Watch {
    /// The number of checks.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// How often the store was asked to decide without awaiting.
    pub fn tries(&self) -> usize {
        self.tries.load(Ordering::SeqCst)
    }

    /// The number of limits in all checks.
    pub fn limits(&self) -> usize {
        self.limits.load(Ordering::SeqCst)
    }

    /// The number of refunds.
    pub fn refunds(&self) -> usize {
        self.refunds.load(Ordering::SeqCst)
    }

    /// The number of groups that were peeked at.
    pub fn peeks(&self) -> usize {
        self.peeks.load(Ordering::SeqCst)
    }

    /// The number of groups that were looked at before a charge.
    pub fn looks(&self) -> usize {
        self.looks.load(Ordering::SeqCst)
    }

    /// The number of resets.
    pub fn resets(&self) -> usize {
        self.resets.load(Ordering::SeqCst)
    }

    /// Whether every call fails from now on.
    pub fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    /// Lets every refund fail from now on, and nothing else.
    pub fn fail_refunds(&self) {
        self.refunds_fail.store(true, Ordering::SeqCst);
    }

    /// Lets settlements pass from now on, even if every other call fails: by units that the store holds.
    pub fn settle_by_held_units(&self) {
        self.settles.store(true, Ordering::SeqCst);
    }

    fn answer(&self) -> Result<(), StoreError> {
        if self.fails.load(Ordering::SeqCst) {
            let cause = io::Error::other(SECRET);
            return Err(StoreError::unavailable(cause));
        }
        Ok(())
    }

    /// Lets calls wait from now on.
    pub fn hold(&self) {
        self.held.store(true, Ordering::SeqCst);
    }

    /// Lets one waiting call go on.
    pub fn release(&self) {
        self.gate.add_permits(1);
    }
}

#[derive(Debug)]
struct WatchedStore {
    counts: MemoryStore,
    watch: Arc<Watch>,
}

impl Store for WatchedStore {
    async fn decide(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        deadline: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        if let Operation::Check | Operation::UpTo = operation {
            self.watch.calls.fetch_add(1, Ordering::SeqCst);
        }
        if operation == Operation::Peek {
            self.watch.peeks.fetch_add(1, Ordering::SeqCst);
        }
        if operation == Operation::Judge {
            self.watch.looks.fetch_add(1, Ordering::SeqCst);
        }
        if operation == Operation::Check {
            self.watch.limits.fetch_add(group.len(), Ordering::SeqCst);
            if self.watch.held.load(Ordering::SeqCst) {
                self.watch.gate.acquire().await.unwrap().forget();
            }
        }
        if operation != Operation::Overdraw || !self.watch.settles.load(Ordering::SeqCst) {
            self.watch.answer()?;
        }
        self.counts.decide(group, operation, deadline).await
    }

    fn try_decide(&self, _: &[Check<'_>], _: Operation) -> Option<GroupOutcome> {
        self.watch.tries.fetch_add(1, Ordering::SeqCst);
        None
    }

    async fn reset(&self, group: &[Check<'_>], deadline: Deadline) -> Result<(), StoreError> {
        self.watch.resets.fetch_add(1, Ordering::SeqCst);
        self.watch.answer()?;
        self.counts.reset(group, deadline).await
    }

    async fn refund(&self, reservation: &Reservation<'_>, deadline: Deadline) -> Result<(), StoreError> {
        self.watch.refunds.fetch_add(1, Ordering::SeqCst);
        self.watch.answer()?;
        if self.watch.refunds_fail.load(Ordering::SeqCst) {
            return Err(StoreError::unavailable(io::Error::other(SECRET)));
        }
        self.counts.refund(reservation, deadline).await
    }
}
