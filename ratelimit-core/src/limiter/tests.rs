//! Tests of custom stores, of decisions without awaiting, and of settlements that are errors.

mod slots;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::*;
use crate::check::MAX_GROUP;
use crate::clock::{FakeClock, Timestamp};
use crate::error::SettleError;
use crate::policy::OnError;
use crate::reservation::Reservation;
use crate::store::memory::MemoryStore;
use crate::store::toolkit::owned;
use crate::store::{Deadline, Store};

const MINUTE: Duration = Duration::from_secs(60);

/// A limiter in memory with room for `callers` callers.
fn limiter(clock: &FakeClock, callers: usize) -> RateLimiter {
    RateLimiter::new(MemoryStore::with_max_callers(callers).with_clock(clock.clone()))
}

fn clock() -> FakeClock {
    FakeClock::at(Timestamp::from_micros(1_789_948_800_000_000))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
fn a_group_that_is_too_large_is_not_decided() {
    let clock = clock();
    let limiter = limiter(&clock, 1000);
    let policy = Policy::new("k", 1000, MINUTE);
    let group = vec![Check::new(&policy, "a"); MAX_GROUP + 1];
    // An error and not `None`, after which an application would call `check_all`.
    assert!(matches!(limiter.try_check_all(&group), Err(StoreError::GroupTooLarge { .. })));
    assert!(matches!(block_on(limiter.check_all(&group)), Err(StoreError::GroupTooLarge { .. })));
    assert_eq!(block_on(limiter.peek(&policy, "a")).unwrap().remaining(), 1000, "nothing was taken");
    assert!(limiter.try_check_all(&group[1..]).unwrap().is_some_and(|outcome| outcome.is_allowed()));
}

#[test]
fn a_memory_store_is_recognized_whatever_passes_it() {
    fn generic<S: Store>(store: S) -> RateLimiter {
        RateLimiter::builder(store).build()
    }
    let limiter = generic(MemoryStore::new());
    assert_eq!(limiter.store_kind(), "memory");
    assert!(matches!(limiter.inner.store, Backend::Memory(_)));
    assert!(limiter.is_ready());
    assert_eq!(limiter.with_deadline(MINUTE).deadline(), None);
}

/// A custom store over one in memory, with or without the provided methods.
#[derive(Debug)]
struct Custom {
    counts: MemoryStore,
    /// Whether it implements the provided methods.
    provides: bool,
    ready: AtomicBool,
    /// Timeouts of its calls.
    timeouts: Arc<Mutex<Vec<Duration>>>,
}

impl Custom {
    fn new(provides: bool) -> Self {
        let counts = MemoryStore::new().with_clock(clock());
        Self { counts, provides, ready: AtomicBool::new(false), timeouts: Arc::default() }
    }
}

const DEADLINE: Duration = Duration::from_millis(100);

impl Store for Custom {
    async fn decide(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        deadline: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        self.timeouts.lock().push(deadline.timeout());
        if deadline.remaining().is_zero() {
            return Err(StoreError::timeout(deadline.timeout()));
        }
        Ok(self.counts.judge_group(group, operation))
    }

    async fn reset(&self, group: &[Check<'_>], deadline: Deadline) -> Result<(), StoreError> {
        self.timeouts.lock().push(deadline.timeout());
        self.counts.reset(group, deadline).await
    }

    async fn refund(&self, reservation: &Reservation<'_>, deadline: Deadline) -> Result<(), StoreError> {
        self.timeouts.lock().push(deadline.timeout());
        self.counts.refund(reservation, deadline).await
    }

    fn try_decide(&self, group: &[Check<'_>], operation: Operation) -> Option<GroupOutcome> {
        let decides = self.provides && operation == Operation::Check && group.len() != 3;
        decides.then(|| self.counts.judge_group(group, operation))
    }

    fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    fn kind(&self) -> &'static str {
        "map"
    }

    fn deadline(&self) -> Option<Duration> {
        self.provides.then_some(DEADLINE)
    }
}

#[test]
fn a_custom_store_decides_without_awaiting_what_it_can() {
    let policy = Policy::new("k", 1, MINUTE);
    let group = |size| vec![Check::new(&policy, "a"); size];
    let awaits = RateLimiter::new(Custom::new(false));
    assert_eq!(awaits.try_check(&policy, "a").unwrap(), None);
    assert_eq!(awaits.try_check_all(&group(1)).unwrap(), None);
    assert!(block_on(awaits.check(&policy, "a")).unwrap().is_allowed(), "nothing was charged");
    assert_eq!(awaits.try_check(&policy, "a").unwrap(), None, "a denial is no exception");

    let decides = RateLimiter::new(Custom::new(true));
    assert!(decides.try_check(&policy, "a").unwrap().unwrap().is_allowed());
    assert!(!decides.try_check(&policy, "a").unwrap().unwrap().is_allowed());
    assert_eq!(decides.try_check_all(&group(3)).unwrap(), None);
}

/// A store whose answers have no outcome.
#[derive(Debug)]
struct NoOutcomes {
    decides_at_once: bool,
}

impl Store for NoOutcomes {
    async fn decide(&self, _: &[Check<'_>], _: Operation, _: Deadline) -> Result<GroupOutcome, StoreError> {
        Ok(GroupOutcome::new(Timestamp::default(), []))
    }

    async fn reset(&self, _: &[Check<'_>], _: Deadline) -> Result<(), StoreError> {
        Ok(())
    }

    async fn refund(&self, _: &Reservation<'_>, _: Deadline) -> Result<(), StoreError> {
        Ok(())
    }

    fn try_decide(&self, _: &[Check<'_>], _: Operation) -> Option<GroupOutcome> {
        self.decides_at_once.then(|| GroupOutcome::new(Timestamp::default(), []))
    }
}

#[test]
fn an_answer_without_outcomes_is_decided_by_the_failure_policy() {
    let policy = |on_error| Policy::builder("k").max(3).window(MINUTE).on_error(on_error).build();
    let (closed, local) = (policy(OnError::Deny), policy(OnError::Local));
    let group = |policy| [Check::new(policy, "a"), Check::new(policy, "b")];
    for decides_at_once in [false, true] {
        let limiter = RateLimiter::new(NoOutcomes { decides_at_once });
        let is_protocol = |error: StoreError| matches!(error, StoreError::Protocol { .. });
        block_on(async {
            assert!(is_protocol(limiter.check(&closed, "a").await.unwrap_err()));
            assert!(is_protocol(limiter.check_all(&group(&closed)).await.unwrap_err()));
            assert!(is_protocol(limiter.peek(&closed, "a").await.unwrap_err()));
            assert!(is_protocol(limiter.peek_all(&group(&closed)).await.unwrap_err()));

            for remaining in [2, 1] {
                let outcome = limiter.check_all(&group(&local)).await.unwrap();
                assert!(outcome.is_allowed() && outcome.is_degraded());
                assert_eq!(outcome.outcomes().len(), 2);
                assert_eq!(limiter.peek(&local, "a").await.unwrap().remaining(), remaining);
            }
            assert!(limiter.check(&local, "a").await.unwrap().is_degraded());
            assert!(!limiter.check(&local, "a").await.unwrap().is_allowed(), "counted in this process");
        });
        if decides_at_once {
            assert!(is_protocol(limiter.try_check(&closed, "a").unwrap_err()));
            assert!(is_protocol(limiter.try_check_all(&group(&closed)).unwrap_err()));
            assert!(!limiter.try_check(&local, "a").unwrap().unwrap().is_allowed());
            assert!(!limiter.try_check_all(&group(&local)).unwrap().unwrap().is_allowed());
        } else {
            assert_eq!(limiter.try_check(&closed, "a").unwrap(), None);
        }
    }
}

#[test]
fn a_custom_store_reports_its_kind_readiness_and_deadline() {
    let store = Custom::new(true);
    let timeouts = Arc::clone(&store.timeouts);
    let limiter = RateLimiter::new(store);
    assert_eq!(limiter.store_kind(), "map");
    assert!(!limiter.is_ready());
    assert_eq!(limiter.deadline(), Some(DEADLINE));
    assert_eq!(limiter.with_deadline(MINUTE).deadline(), Some(DEADLINE), "the store's own is shorter");
    let shorter = limiter.with_deadline(DEADLINE / 5);
    assert_eq!(
        shorter.with_deadline(DEADLINE / 2).deadline(),
        Some(DEADLINE / 5),
        "an earlier one is shorter"
    );
    let rest = Duration::from_millis(30);
    let limiter = limiter.with_deadline(rest);
    assert_eq!(limiter.deadline(), Some(rest));

    let policy = Policy::builder("k").max(1).window(MINUTE).on_error(OnError::Deny).build();
    let group = [Check::new(&policy, "a"), Check::new(&policy, "b"), Check::new(&policy, "c")];
    block_on(async {
        let outcome = limiter.check_all(&group).await.unwrap();
        let _ = limiter.peek(&policy, "a").await.unwrap();
        limiter.refund(outcome.reservation(&group).unwrap()).await.unwrap();
        limiter.reset(&policy, "a").await.unwrap();
        let none_left = limiter.with_deadline(Duration::ZERO).check_all(&group).await;
        assert!(matches!(none_left, Err(StoreError::NoTimeLeft)), "{none_left:?}");
    });
    assert_eq!(*timeouts.lock(), [rest, rest, rest, rest, Duration::ZERO]);
}

#[test]
fn an_installed_limiter_is_not_replaced_and_the_other_is_given_back() {
    let installed = RateLimiter::new(Custom::new(true)).install().unwrap();
    let error = RateLimiter::in_memory().install().unwrap_err();
    assert!(std::ptr::eq(error.installed(), installed));
    assert!(error.to_string().contains("installed already"), "{error}");
    assert_eq!(format!("{error:?}"), r#"InstallError { installed: "map", rejected: "memory" }"#);
    assert_eq!(error.into_limiter().store_kind(), "memory");
    assert_eq!(RateLimiter::installed().unwrap().store_kind(), "map");
}

#[test]
fn a_settlement_without_the_store_is_an_error_and_charges_nothing_in_this_process() {
    let limiter = RateLimiter::new(Custom::new(false));
    let out = limiter.with_deadline(Duration::ZERO);
    let policy = Policy::builder("k").max(5).window(MINUTE).on_error(OnError::Local).build();
    let group = [Check::new(&policy, "a")];
    block_on(async {
        let reservation = limiter.check_all(&group).await.unwrap().reservation(&group).unwrap();
        let settled = out.settle(reservation, 4).await;
        assert!(matches!(settled, Err(SettleError::Store(StoreError::NoTimeLeft))), "{settled:?}");
        let peeked = out.peek(&policy, "a").await.unwrap();
        assert_eq!((peeked.is_degraded(), peeked.remaining()), (true, 5));
    });
}

#[test]
fn what_cannot_be_settled_is_an_error() {
    let limiter = limiter(&clock(), 1000);
    let (one, other) = (Policy::new("one", 5, MINUTE), Policy::new("other", 5, MINUTE));
    let group = [Check::new(&one, "a"), Check::new(&other, "a")];
    block_on(async {
        let mut reservation = limiter.check_all(&group).await.unwrap().reservation(&group).unwrap();
        let error = limiter.settle(owned(&reservation), 3).await.unwrap_err();
        assert!(matches!(error, SettleError::NotOneCharge { size: 2 }), "{error}");
        assert!(error.to_string().contains("`Reservation::take_limit`"), "{error}");
        let single = reservation.take_limit("other").unwrap();
        let error = limiter.settle(owned(&single), 1_000_000_000_001).await.unwrap_err();
        assert!(matches!(error, SettleError::TooManyUnits { units: 1_000_000_000_001 }), "{error}");
        assert!(reservation.take_limit("a third").is_none());
        limiter.settle(single, 4).await.unwrap();
        let left = [limiter.peek(&one, "a").await.unwrap(), limiter.peek(&other, "a").await.unwrap()];
        assert_eq!(left.map(|outcome| outcome.remaining()), [4, 1], "the other limit keeps its charge");
    });
}

#[test]
fn a_charge_is_taken_out_of_a_reservation_once() {
    let limiter = limiter(&clock(), 1000);
    let (requests, tokens) = (Policy::new("requests", 5, MINUTE), Policy::new("tokens", 9, MINUTE));
    let group = [Check::new(&requests, "a"), Check::new(&tokens, "a").with_cost(6)];
    block_on(async {
        assert!(limiter.check_n(&tokens, "a", 3).await.unwrap().is_allowed());
        let mut reservation = limiter.check_all(&group).await.unwrap().reservation(&group).unwrap();
        let taken = reservation.take_limit("tokens").unwrap();
        assert!(reservation.take_limit("tokens").is_none());
        limiter.settle(taken, 4).await.unwrap();
        limiter.refund(reservation).await.unwrap();
        let left = [limiter.peek(&requests, "a").await.unwrap(), limiter.peek(&tokens, "a").await.unwrap()];
        assert_eq!(left.map(|outcome| outcome.remaining()), [5, 2], "the refund is of requests only");
    });
}
