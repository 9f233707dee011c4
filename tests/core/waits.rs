//! Waiting for a turn: order, denials, dropped futures and outages.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::pin::Pin;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join;
use ratelimit_core::clock::FakeClock;
use ratelimit_core::policy::{MAX_WAIT, MAX_WINDOW};
use ratelimit_core::store::toolkit::owned;
use ratelimit_core::{
    Algorithm, Check, MemoryStore, Mode, OnError, Outcome, Policy, PolicyBuilder, RateLimiter, SettleError,
    StoreError, WaitError,
};
use tests::timed::{MIDNIGHT, Timed};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn bucket(max: u64, window: Duration, burst: u64) -> PolicyBuilder {
    Policy::builder("turns").algorithm(Algorithm::TokenBucket).max(max).window(window).burst(burst)
}

/// A future of a wait, which any runtime can take.
type Wait<'a> = Pin<Box<dyn Future<Output = Result<Outcome, WaitError>> + Send + 'a>>;

fn wait<'a>(store: &'a Timed, policy: &'a Policy, caller: &'a str, cost: u64, at_most: Duration) -> Wait<'a> {
    Box::pin(store.limiter.wait(policy, caller, cost, at_most))
}

/// Polls a wait until it is decided. `None` if it sleeps then.
fn decided(store: &Timed, wait: &mut Wait<'_>, policy: &Policy, caller: &str) -> Option<Outcome> {
    store.run(store.decide(wait.as_mut(), policy, caller)).map(Result::unwrap)
}

/// Calls of scripts so far; 0 in memory.
fn calls(store: &Timed) -> u64 {
    store.server().map_or(0, |server| store.run(server.script_calls()))
}

/// Gives up a turn that is not due, and awaits that the store knows, and has dropped the denials that it
/// remembers of the caller.
fn give_up(store: &Timed, turn: Wait<'_>, policy: &Policy, caller: &str) {
    let before = calls(store);
    drop(turn);
    if store.server().is_some() {
        assert!(tests::within(Duration::from_secs(10), || calls(store) > before), "no refund was sent");
    }
    // The server counts the refund before its reply is read. A later request of the same caller is answered
    // later.
    let _ = store.peek(policy, caller);
}

/// Has the server learn the scripts, so that one call more is one refund.
fn learn_scripts(store: &Timed) {
    let policy = bucket(1, SECOND, 1).build();
    let group = [Check::new(&policy, "learn")];
    let reservation = store.check_all(&group).reservation(&group).unwrap();
    store.refund(reservation);
}

tests::on_both_stores! {
    fn a_wait_sleeps_until_its_turn_and_a_thousandth_longer(store: &Timed) {
        // The burst is larger than the request, so that the turn is not too old to be given back when it
        // begins.
        let policy = bucket(1, SECOND, 3).build();
        assert_eq!(store.wait(&policy, "a", 3, Duration::ZERO).due_after(), Duration::ZERO);
        let mut turn = wait(store, &policy, "a", 1, SECOND);
        assert!(decided(store, &mut turn, &policy, "a").is_none());
        store.advance(Duration::from_micros(1_000_999));
        assert!(turn.as_mut().now_or_never().is_none(), "clocks differ in speed");
        store.advance(Duration::from_micros(1));
        let outcome = turn.now_or_never().unwrap().unwrap();
        assert_eq!((outcome.is_allowed(), outcome.due_after(), outcome.cost()), (true, SECOND, 1));
        assert_eq!(outcome.at(), MIDNIGHT);
        let next = store.peek(&policy, "a").retry_after();
        assert_eq!(next, Some(Duration::from_millis(999)), "what began is not given back");
    }

    fn a_wait_that_is_due_at_once_leaves_no_debt_whatever_its_call_decides_beside_it(store: &Timed) {
        let policy = bucket(1, SECOND, 6).build();
        let at = MIDNIGHT.as_micros();
        for beside in ["nothing", "a peek", "a turn"] {
            // On a busy machine both may take a call of their own.
            let is_one_call = (0..50).any(|attempt| {
                let caller = &*format!("beside {beside}, {attempt}");
                store.set(at);
                assert_eq!(store.peek(&policy, caller).remaining(), 6);
                let before = store.server().map(|_| calls(store));
                let at_once = store.limiter.wait(&policy, caller, 2, HOUR);
                let outcome = store.run(async {
                    match beside {
                        "nothing" => at_once.await,
                        "a peek" => join(at_once, store.limiter.peek(&policy, caller)).await.0,
                        _ => join(at_once, store.limiter.wait(&policy, caller, 4, HOUR)).await.0,
                    }
                });
                assert!(outcome.unwrap().due_after().is_zero(), "{caller}");
                let made = before.map_or(1, |before| calls(store) - before);
                // A debt moves with a clock that goes back. Other charges stay: the bucket is empty then.
                store.set(at - 10_000_000);
                let outcome = store.peek(&policy, caller);
                assert_eq!((outcome.remaining(), outcome.reset_after()), (0, 6 * SECOND), "{caller}");
                made == 1
            });
            assert!(is_one_call, "beside {beside}");
        }
    }

    fn a_dropped_wait_gives_its_turn_back_if_it_is_the_last(store: &Timed) {
        learn_scripts(store);
        let policy = bucket(1, SECOND, 1).build();
        assert!(store.check(&policy, "a").is_allowed());
        let [mut first, mut second] = [(); 2].map(|()| wait(store, &policy, "a", 1, HOUR));
        for turn in [&mut first, &mut second] {
            assert!(decided(store, turn, &policy, "a").is_none());
        }
        // Moving the second turn to the first one's place would start it and the next one at once.
        give_up(store, first, &policy, "a");
        assert_eq!(store.peek(&policy, "a").retry_after(), Some(3 * SECOND));
        store.advance(SECOND / 2);
        give_up(store, second, &policy, "a");
        assert_eq!(store.peek(&policy, "a").retry_after(), Some(SECOND * 3 / 2), "the first one's place is lost");
    }

    fn the_last_turn_is_given_back_however_late(store: &Timed) {
        learn_scripts(store);
        let policy = bucket(1, SECOND, 1).build();
        assert!(store.check(&policy, "a").is_allowed());
        for due in 1..=4 {
            assert_eq!(store.wait(&policy, "a", 1, HOUR).due_after(), due * SECOND);
        }
        let mut turn = wait(store, &policy, "a", 1, HOUR);
        assert!(decided(store, &mut turn, &policy, "a").is_none());
        // Longer than the bucket takes to refill: another charge would be too old.
        store.advance(2 * SECOND);
        give_up(store, turn, &policy, "a");
        assert_eq!(store.peek(&policy, "a").retry_after(), Some(3 * SECOND), "in place of 4 s");
    }

    fn once_all_turns_are_due_charges_are_given_back_as_before(store: &Timed) {
        let policy = bucket(100, 100 * SECOND, 100).build();
        let left = |caller: &str| store.peek(&policy, caller).remaining();
        let settles = |caller: &str, remaining| {
            let group = [Check::new(&policy, caller).with_cost(50)];
            let reservation = store.check_all(&group).reservation(&group).unwrap();
            store.run(store.limiter.settle(reservation, 10)).unwrap();
            assert_eq!(left(caller), remaining, "{caller}");
        };
        // A wait that need not wait, and one that had to.
        assert!(store.wait(&policy, "a", 100, HOUR).due_after().is_zero());
        assert_eq!(store.wait(&policy, "a", 1, HOUR).due_after(), SECOND);
        settles("b", 90);
        let group = [Check::new(&policy, "c").with_cost(60)];
        let reservation = store.check_all(&group).reservation(&group).unwrap();
        assert_eq!(store.wait(&policy, "c", 41, HOUR).due_after(), SECOND);
        store.advance(SECOND);
        store.run(store.limiter.settle(reservation, 10)).unwrap();
        assert_eq!(store.peek(&policy, "c").reset_after(), 50 * SECOND, "the turn is due");
        store.advance(1_000 * SECOND);
        settles("a", 90);
    }

    fn a_charge_with_turns_behind_it_stays_and_an_error_tells_that(store: &Timed) {
        let policy = bucket(10, 10 * SECOND, 10).build();
        let charged = |units| {
            let group = [Check::new(&policy, "a").with_cost(units)];
            store.check_all(&group).reservation(&group).unwrap().into_owned()
        };
        let (first, second) = (charged(5), charged(5));
        assert_eq!(store.wait(&policy, "a", 4, HOUR).due_after(), 4 * SECOND);
        // A settlement behind the turn changes nothing of that.
        store.run(store.limiter.settle(owned(&second), 6)).unwrap();
        let full = store.peek(&policy, "a").reset_after();
        assert_eq!(full, 15 * SECOND);
        let refunded = store.run(store.limiter.refund(owned(&first)));
        assert!(matches!(refunded, Err(StoreError::TurnsNotDue)), "{refunded:?}");
        let settled = store.run(store.limiter.settle(owned(&first), 1));
        assert!(matches!(&settled, Err(SettleError::TurnsNotDue { limit, .. }) if limit == "turns"), "{settled:?}");
        assert_eq!(store.peek(&policy, "a").reset_after(), full);
        // What no longer counts cannot move a turn either.
        store.advance(5 * SECOND);
        store.refund(first);
        assert_eq!(store.peek(&policy, "a").reset_after(), 10 * SECOND);
    }

    fn the_debt_of_a_settlement_keeps_no_charge(store: &Timed) {
        let policy = bucket(10, 10 * SECOND, 10).build();
        let charged = || {
            let group = [Check::new(&policy, "a").with_cost(5)];
            store.check_all(&group).reservation(&group).unwrap().into_owned()
        };
        let (first, second) = (charged(), charged());
        let reset_after = || store.peek(&policy, "a").reset_after();
        store.run(store.limiter.settle(first, 12)).unwrap();
        assert_eq!(reset_after(), 17 * SECOND);
        store.run(store.limiter.settle(owned(&second), 4)).unwrap();
        assert_eq!(reset_after(), 16 * SECOND);
        // A turn in the debt does, also where a clock that goes back moves the debt.
        assert_eq!(store.wait(&policy, "a", 1, HOUR).due_after(), 7 * SECOND);
        for back in [Duration::ZERO, SECOND] {
            store.set((MIDNIGHT.as_micros()) - u64::try_from(back.as_micros()).unwrap());
            let _ = store.check(&policy, "a");
            let settled = store.run(store.limiter.settle(owned(&second), 4));
            assert!(matches!(settled, Err(SettleError::TurnsNotDue { .. })), "{settled:?}");
        }
    }

    fn a_turn_that_was_taken_stays_when_another_charge_is_refunded(store: &Timed) {
        let policy = bucket(1, SECOND, 1).build();
        let group = [Check::new(&policy, "a")];
        let reservation = store.check_all(&group).reservation(&group).unwrap();
        assert_eq!(store.wait(&policy, "a", 1, HOUR).due_after(), SECOND);
        let refunded = store.run(store.limiter.refund(reservation));
        assert!(matches!(refunded, Err(StoreError::TurnsNotDue)), "{refunded:?}");
        assert_eq!(store.peek(&policy, "a").retry_after(), Some(2 * SECOND));
        let other = Policy::builder("windows").max(1).window(HOUR).build();
        let group = [Check::new(&other, "a")];
        let reservation = store.check_all(&group).reservation(&group).unwrap();
        store.refund(reservation);
        assert!(store.check(&other, "a").is_allowed(), "other limits are refunded");
    }

    fn turns_of_less_than_a_microsecond_are_not_given_back(store: &Timed) {
        learn_scripts(store);
        // Two turns may end in the same microsecond, so the end shows nothing.
        let policy = bucket(4_000_000, SECOND, 1).build();
        assert!(store.check(&policy, "a").is_allowed());
        let [mut first, mut second] = [(); 2].map(|()| wait(store, &policy, "a", 1, SECOND));
        for turn in [&mut first, &mut second] {
            assert!(decided(store, turn, &policy, "a").is_none());
        }
        give_up(store, first, &policy, "a");
        let ends = [(); 2].map(|()| store.wait(&policy, "a", 1, SECOND).reset_after().as_micros());
        assert_eq!(ends, [1, 2], "the fourth quarter of a microsecond, and the fifth");
    }

    fn a_shadow_limit_does_not_wait(store: &Timed) {
        let policy = bucket(1, SECOND, 1).mode(Mode::Shadow).build();
        for would_deny in [false, true, true] {
            let mut at_once = wait(store, &policy, "a", 1, HOUR);
            let outcome = decided(store, &mut at_once, &policy, "a").expect("it does not sleep");
            assert_eq!((outcome.is_allowed(), outcome.would_deny()), (true, would_deny));
        }
        assert_eq!(store.peek(&policy, "a").reset_after(), SECOND, "charged once");
    }

    fn the_longest_wait_is_charged_in_full(store: &Timed) {
        // Of 10^12 units a second no more than those of one second can be counted.
        let half = 500_000_000_000;
        let policy = bucket(2 * half, SECOND, half).build();
        let error = store.run(store.limiter.wait(&policy, "a", 1, SECOND / 2)).unwrap_err();
        let WaitError::TooLong { longest, .. } = error else { panic!("{error}") };
        assert_eq!(longest, Duration::from_micros(499_999));
        assert!(store.wait(&policy, "a", half, longest).due_after().is_zero());
        let last = store.wait(&policy, "a", half - 1_000_000, longest);
        assert_eq!((last.due_after(), last.reset_after()), (longest, longest + SECOND / 2));
        assert_eq!(store.wait(&policy, "a", 1, longest).retry_after(), Some(SECOND / 2));
    }
}

#[test]
fn what_cannot_wait_is_an_error_that_names_the_limit() {
    let limiter = RateLimiter::in_memory();
    let text = |builder: PolicyBuilder, cost, at_most| {
        let policy = builder.build();
        limiter.wait(&policy, "a", cost, at_most).now_or_never().unwrap().unwrap_err().to_string()
    };
    let good = bucket(10, SECOND, 10);
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindowCounter, Algorithm::SlidingWindowLog] {
        assert_eq!(
            text(Policy::builder("turns").algorithm(algorithm), 1, SECOND),
            format!(
                "the limit `turns` counts by `{algorithm}`, which has no turns to wait for; expected `token_bucket`"
            )
        );
    }
    assert_eq!(
        text(good.block(HOUR), 1, SECOND),
        "the limit `turns` has a block, which would forget the turns that were taken; remove its block"
    );
    assert_eq!(
        text(good, 11, SECOND),
        "a cost of 11 never passes the limit `turns`; expected at most its burst, 10"
    );
    assert_eq!(
        text(good, 1, 365 * 24 * HOUR),
        "a request cannot wait 31536000s for the limit `turns`; expected at most 86400s"
    );
    assert_eq!(
        text(bucket(1, MAX_WINDOW, 1), 1, SECOND),
        "a request cannot wait 1s for the limit `turns`; expected at most 0ns"
    );
    assert!(limiter.wait(&good.build(), "a", 10, MAX_WAIT).now_or_never().unwrap().unwrap().is_allowed());
}

#[test]
fn in_an_outage_the_failure_policy_says_who_waits_for_what() {
    let (builder, watch) = tests::store::watched_builder();
    let clock = FakeClock::default();
    let limiter = builder.clock(clock.clone()).build();
    watch.fail(true);
    let policy = |on_error| bucket(1, HOUR, 1).on_error(on_error).build();
    let open = policy(OnError::Allow);
    for _ in 0..3 {
        let outcome = limiter.wait(&open, "a", 1, HOUR).now_or_never().unwrap().unwrap();
        assert!(outcome.is_allowed() && outcome.is_degraded() && outcome.due_after().is_zero());
    }
    let error = limiter.wait(&policy(OnError::Deny), "a", 1, HOUR).now_or_never().unwrap().unwrap_err();
    assert!(matches!(error, WaitError::Store(StoreError::Unavailable { .. })), "{error}");
    // Turns of this process.
    let local = policy(OnError::Local);
    let next = |at_most| Box::pin(limiter.wait(&local, "a", 1, at_most));
    assert!(next(HOUR).now_or_never().unwrap().unwrap().is_degraded());
    for _ in 0..2 {
        let mut given_up = next(HOUR);
        assert!(given_up.as_mut().now_or_never().is_none());
    }
    let mut turn = next(HOUR);
    assert!(turn.as_mut().now_or_never().is_none());
    let denied = next(HOUR).now_or_never().unwrap().unwrap();
    assert!(!denied.is_allowed() && denied.retry_after() > Some(HOUR) && denied.is_degraded());
    clock.advance(HOUR + HOUR / 1_000);
    let outcome = turn.now_or_never().unwrap().unwrap();
    assert!(outcome.is_allowed() && outcome.is_degraded());
    assert!(outcome.due_after() <= HOUR && outcome.due_after() + Duration::from_secs(60) > HOUR);
}

#[test]
fn without_room_for_the_caller_the_turn_is_that_of_the_overflow_count_and_is_not_given_back() {
    let clock = FakeClock::at(MIDNIGHT);
    let limiter = RateLimiter::new(MemoryStore::with_max_callers(1).with_clock(clock));
    let policy = bucket(1, SECOND, 1).build();
    let next = |caller: &'static str| Box::pin(limiter.wait(&policy, caller, 1, HOUR));
    for caller in ["a", "b"] {
        assert!(next(caller).now_or_never().unwrap().unwrap().due_after().is_zero());
    }
    let mut shared = next("c");
    assert!(shared.as_mut().now_or_never().is_none());
    drop(shared);
    let wait = limiter.peek(&policy, "d").now_or_never().unwrap().unwrap().retry_after();
    assert_eq!(wait, Some(2 * SECOND));
}
