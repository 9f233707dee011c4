//! Tests of slots of concurrency limits, in memory and in custom stores.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::*;
use crate::clock::{Clock, FakeClock};
use crate::outcome::Decision;
use crate::reservation::Reservation;
use crate::slots::Slots;
use crate::store::toolkit::{Operation, State, decide_with, owned, refund_with, reset_with};
use crate::store::{Deadline, Store};

static TWO: Policy = Policy::concurrency("two", 2);

/// A store as a user writes one.
#[derive(Debug)]
struct Custom {
    clock: FakeClock,
    states: Arc<Mutex<HashMap<u128, State>>>,
    /// Whether a refund takes a round trip, and goes on by itself.
    is_remote: bool,
}

const KEY: [u8; 16] = [5; 16];

impl Store for Custom {
    async fn decide(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        _: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        Ok(decide_with(group, operation, self.clock.now(), &KEY, &mut *self.states.lock()).outcome)
    }

    async fn reset(&self, group: &[Check<'_>], _: Deadline) -> Result<(), StoreError> {
        reset_with(group, Timestamp::default(), &KEY, &mut *self.states.lock());
        Ok(())
    }

    async fn refund(&self, reservation: &Reservation<'_>, _: Deadline) -> Result<(), StoreError> {
        let (now, states, charges) = (self.clock.now(), Arc::clone(&self.states), owned(reservation));
        let refund = move || refund_with(&charges, now, &KEY, &mut *states.lock());
        if self.is_remote {
            std::thread::spawn(refund);
            std::future::pending().await
        } else {
            refund();
            Ok(())
        }
    }
}

fn custom(is_remote: bool) -> RateLimiter {
    RateLimiter::new(Custom { clock: clock(), states: Arc::default(), is_remote })
}

/// Waits until `free` slots are free: a refund may end in the background.
fn until_free(limiter: &RateLimiter, free: u64) {
    for _ in 0..10_000 {
        if block_on(limiter.peek(&TWO, "a")).unwrap().remaining() == free {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{free} slots are never free");
}

#[test]
fn a_slot_is_held_until_it_is_dropped_in_every_store() {
    for limiter in [limiter(&clock(), 1000), limiter(&clock(), 1), custom(false), custom(true)] {
        // Takes the only room of the smaller store in memory.
        let _ = block_on(limiter.check(&Policy::new("k", 5, MINUTE), "first")).unwrap();
        let acquire = || block_on(limiter.acquire(&TWO, "a")).unwrap();
        let (first, second) = (acquire().unwrap(), acquire().unwrap());
        let busy = acquire().unwrap_err();
        assert_eq!((busy.decision(), busy.retry_after(), busy.remaining()), (Decision::Busy, None, 0));
        assert!(busy.is_busy() && !busy.is_allowed() && busy.next_unit_after().is_none());
        drop(first.clone());
        assert!(acquire().is_err(), "a clone holds the same slot");
        drop(first);
        until_free(&limiter, 1);
        let third = acquire().unwrap();
        assert!(acquire().is_err());
        drop((second, third));
        until_free(&limiter, 2);
    }
}

#[test]
fn a_check_of_one_limit_takes_no_slot() {
    for limiter in [limiter(&clock(), 1000), limiter(&clock(), 1), custom(false)] {
        for _ in 0..5 {
            assert!(block_on(limiter.check(&TWO, "a")).unwrap().is_allowed());
            assert_ne!(
                limiter.try_check(&TWO, "a").unwrap().map(|outcome| outcome.is_allowed()),
                Some(false)
            );
        }
        let slots = [(); 2].map(|()| block_on(limiter.acquire(&TWO, "a")).unwrap().unwrap());
        assert!(block_on(limiter.check(&TWO, "a")).unwrap().is_busy());
        drop(slots);
    }
}

#[test]
fn an_outcome_holds_its_slots_until_they_are_taken() {
    for limiter in [limiter(&clock(), 1000), custom(false)] {
        let rate = Policy::new("rate", 10, MINUTE);
        let group = [Check::new(&TWO, "a"), Check::new(&rate, "a"), Check::new(&TWO, "a")];
        let mut outcome = block_on(limiter.check_all(&group)).unwrap();
        let busy = block_on(limiter.check_all(&group)).unwrap();
        assert!(busy.is_busy() && busy.retry_after().is_none());
        assert_eq!(busy.outcomes()[1].remaining(), 9, "the rate is not charged");
        let slots = outcome.take_slots();
        assert!(outcome.take_slots().is_empty());
        drop(outcome);
        assert!(block_on(limiter.peek_all(&group)).unwrap().is_busy());
        drop(slots);
        until_free(&limiter, 2);
        assert!(block_on(limiter.check_all(&group[1..2])).unwrap().take_slots().is_empty());
    }
}

/// If a rate denies as well, the group has its wait.
#[test]
fn a_group_is_busy_if_only_slots_are_missing() {
    let (limiter, rate) = (limiter(&clock(), 1000), Policy::new("rate", 1, MINUTE));
    let group = [Check::new(&TWO, "a").with_cost(2), Check::new(&rate, "a")];
    let held = block_on(limiter.check_all(&group)).unwrap();
    let denied = block_on(limiter.check_all(&group)).unwrap();
    assert!(denied.outcomes()[0].is_busy() && !denied.is_busy());
    assert_eq!(denied.retry_after(), denied.outcomes()[1].retry_after());
    assert!(denied.retry_after().is_some());
    let never = [group[0].with_cost(3), group[1]];
    let never = block_on(limiter.check_all(&never)).unwrap();
    assert!(!never.is_busy() && never.retry_after().is_none());
    assert!(!held.is_busy());
}

#[test]
fn a_group_that_its_rate_denies_frees_no_slot_of_others() {
    for limiter in [limiter(&clock(), 1000), custom(false)] {
        let rate = Policy::new("rate", 1, MINUTE);
        let held = block_on(limiter.acquire(&TWO, "a")).unwrap();
        assert!(block_on(limiter.check(&rate, "a")).unwrap().is_allowed());
        let group = [Check::new(&TWO, "a"), Check::new(&rate, "a")];
        assert!(!block_on(limiter.check_all(&group)).unwrap().is_allowed());
        assert_eq!(block_on(limiter.peek(&TWO, "a")).unwrap().remaining(), 1);
        drop(held);
    }
}

/// A full table, and a reset, drop no slots that are held.
#[test]
fn slots_that_are_held_are_neither_evicted_nor_reset_in_memory() {
    let clock = clock();
    let limiter = limiter(&clock, 2);
    let slots: Vec<Slots> =
        ["a", "a", "b"].map(|caller| block_on(limiter.acquire(&TWO, caller)).unwrap().unwrap()).into();
    clock.advance(Duration::from_secs(400 * 86_400));
    for caller in 0..50 {
        let _ = block_on(limiter.check(&Policy::new("k", 5, MINUTE), caller.to_string())).unwrap();
    }
    block_on(limiter.reset(&TWO, "a")).unwrap();
    let free = |caller: &str| block_on(limiter.peek(&TWO, caller)).unwrap().remaining();
    assert_eq!((free("a"), free("b")), (0, 1));
    drop(slots);
    assert_eq!((free("a"), free("b")), (2, 2));
}

/// In a custom store a reset forgets held slots. Slots from before it free nothing later.
#[test]
fn slots_from_before_a_reset_free_nothing_in_a_custom_store() {
    let (clock, states) = (clock(), Arc::default());
    let limiter = RateLimiter::new(Custom { clock: clock.clone(), states, is_remote: false });
    let before = block_on(limiter.acquire(&TWO, "a")).unwrap();
    block_on(limiter.reset(&TWO, "a")).unwrap();
    clock.advance(Duration::from_micros(1));
    let after = block_on(limiter.acquire(&TWO, "a")).unwrap();
    drop(before);
    assert_eq!(block_on(limiter.peek(&TWO, "a")).unwrap().remaining(), 1);
    drop(after);
    assert_eq!(block_on(limiter.peek(&TWO, "a")).unwrap().remaining(), 2);
}

#[cfg(feature = "stats")]
#[test]
fn the_statistics_show_how_many_slots_are_held() {
    // The last one decides by its failure policy.
    let no_outcomes = RateLimiter::new(NoOutcomes { decides_at_once: false });
    for limiter in [limiter(&clock(), 1000), custom(false), no_outcomes] {
        let held = |limiter: &RateLimiter| limiter.stats().limits()[0].held();
        let slots = ["a", "a", "b"].map(|caller| block_on(limiter.acquire(&TWO, caller)).unwrap());
        assert!(block_on(limiter.acquire(&TWO, "a")).unwrap().is_err());
        assert_eq!(held(&limiter), 3);
        drop(slots);
        assert_eq!(held(&limiter), 0);
    }
}
