//! The bound, sweeps and overflow counts of the in-process store.

use std::time::Duration;

use super::*;
use crate::clock::FakeClock;
use crate::policy::{Algorithm, Policy};

const MINUTE: Duration = Duration::from_secs(60);

fn policy(key: &'static str, algorithm: Algorithm) -> Policy {
    Policy::builder(key).algorithm(algorithm).max(3).window(MINUTE).build()
}

fn store(max_callers: usize) -> (MemoryStore, FakeClock) {
    let clock = FakeClock::at(Timestamp::from_micros(1_789_948_800_000_000));
    (MemoryStore::with_max_callers(max_callers).with_clock(clock.clone()), clock)
}

fn check_n(store: &MemoryStore, policy: &Policy, caller: &str, cost: u64) -> Outcome {
    store.judge_group(&[Check::new(policy, caller).with_cost(cost)], Operation::Check).outcomes()[0].clone()
}

fn passes(store: &MemoryStore, policy: &Policy, caller: &str) -> bool {
    check_n(store, policy, caller, 1).is_allowed()
}

/// Checks `callers` new callers; returns how many passed.
fn flood(store: &MemoryStore, policy: &Policy, callers: usize) -> usize {
    (0..callers).filter(|i| passes(store, policy, &format!("flood-{i}"))).count()
}

#[test]
fn a_table_holds_no_more_than_its_bound_and_one_for_each_policy() {
    let (one, two) = (policy("one", Algorithm::SlidingWindowCounter), policy("two", Algorithm::TokenBucket));
    for max in [0, 1, 2, 15, 63, 64, 127, 128, 129, 200, 1_000, 5_000] {
        let (store, _) = store(max);
        for i in 0..3 * max + 200 {
            let _ = passes(&store, [&one, &two][i % 2], &format!("{i}"));
        }
        assert!(store.len() <= max.max(1) + 2, "{} for {max}", store.len());
    }
}

#[test]
fn groups_keep_to_the_bound_as_well() {
    let (one, two) = (policy("one", Algorithm::FixedWindow), policy("two", Algorithm::SlidingWindowLog));
    for max in [1, 5, 63, 128, 1_000] {
        let (store, _) = store(max);
        for i in 0..max + 50 {
            let callers: Vec<String> = (0..16).map(|j| format!("{i}/{j}")).collect();
            let group: Vec<Check<'_>> = callers
                .iter()
                .enumerate()
                .map(|(j, caller)| Check::new([&one, &two][j % 2], caller).with_cost(0))
                .collect();
            let _ = store.judge_group(&group, Operation::Check);
            assert!(store.len() <= max + 2, "{} for {max}", store.len());
        }
    }
}

#[test]
fn expired_entries_make_room() {
    let policy = policy("k", Algorithm::SlidingWindowLog);
    for max in [1, 10, 63, 640] {
        let (store, clock) = store(max);
        for round in 0..5 {
            for i in 0..=(max / 2) {
                let caller = format!("{round}/{i}");
                assert_eq!(check_n(&store, &policy, &caller, 3).remaining(), 0, "{caller} has its own count");
            }
            clock.advance(MINUTE + Duration::from_micros(1));
        }
        assert!(store.len() <= max);
    }
}

#[test]
fn a_flood_drops_no_caller_that_still_counts() {
    for &algorithm in Algorithm::ALL {
        let policy = policy("k", algorithm);
        let (store, clock) = store(1_000);
        assert_eq!(check_n(&store, &policy, "active", 1).remaining(), 2);
        assert_eq!(check_n(&store, &policy, "used up", 3).remaining(), 0);
        let denied = check_n(&store, &policy, "used up", 1);
        flood(&store, &policy, 10_000);
        assert_eq!(check_n(&store, &policy, "used up", 1), denied, "{algorithm}");
        assert_eq!(check_n(&store, &policy, "active", 0).remaining(), 2, "{algorithm}");
        // A later flood does not free a denied caller either.
        let wait = denied.retry_after().unwrap();
        clock.advance(wait.saturating_sub(Duration::from_micros(1)));
        flood(&store, &policy, 10_000);
        assert!(!passes(&store, &policy, "used up"), "{algorithm}");
        clock.advance(Duration::from_micros(1));
        assert!(passes(&store, &policy, "used up"), "{algorithm}");
    }
}

#[test]
fn callers_without_room_share_one_limited_count() {
    let (policy, other) = (policy("k", Algorithm::FixedWindow), policy("other", Algorithm::FixedWindow));
    for max in [1, 63, 128, 5_000] {
        let (store, clock) = store(max);
        // Until every shard is full; then no new caller finds room.
        flood(&store, &policy, 20 * max);
        let stored = store.len();
        assert!(stored <= max + 1);
        let late = |i: usize| format!("late-{i}");
        assert_eq!((0..1_000).filter(|&i| passes(&store, &policy, &late(i))).count(), 0, "all denied");
        assert_eq!((0..1_000).filter(|&i| passes(&store, &other, &late(i))).count(), 3, "its own count");
        let callers: Vec<String> = (0..4).map(late).collect();
        let group: Vec<Check<'_>> =
            callers.iter().map(|caller| Check::new(&other, caller).with_cost(0)).collect();
        let outcome = store.judge_group(&group, Operation::Peek);
        assert!(outcome.outcomes().iter().all(|outcome| outcome.remaining() == 0), "also in a group");
        assert_eq!(store.len(), stored + 1);
        clock.advance(MINUTE);
        assert!(passes(&store, &policy, "flood-0"), "it ends with the window");
    }
}

#[test]
fn a_group_of_callers_without_room_is_charged_once_each() {
    let policy = policy("k", Algorithm::FixedWindow);
    let (store, _) = store(1);
    assert!(passes(&store, &policy, "first"));
    let group = ["second", "third"].map(|caller| Check::new(&policy, caller));
    assert!(store.judge_group(&group, Operation::Check).is_allowed());
    assert_eq!(check_n(&store, &policy, "fourth", 0).remaining(), 1, "two of three are taken");
    assert!(!store.judge_group(&group, Operation::Check).is_allowed());
    assert_eq!(check_n(&store, &policy, "first", 0).remaining(), 2, "a caller with room has its own count");
}

#[test]
fn a_denied_new_caller_and_a_peek_take_no_room() {
    let policy = policy("k", Algorithm::SlidingWindowCounter);
    let (store, _) = store(100);
    assert!(!check_n(&store, &policy, "greedy", 4).is_allowed());
    let _ = store.judge_group(&[Check::new(&policy, "curious")], Operation::Peek);
    let group = [Check::new(&policy, "greedy").with_cost(4), Check::new(&policy, "companion")];
    assert!(!store.judge_group(&group, Operation::Check).is_allowed());
    assert!(store.is_empty());
}

#[test]
fn sweeping_costs_constant_time_on_average() {
    let policy = policy("k", Algorithm::SlidingWindowLog);
    let (store, clock) = store(63);
    assert_eq!(store.overflow(), 1, "one shard beside the overflow counts");
    let mut sweeps = 0;
    // Three windows with 20,000 new callers each.
    for i in 0..60_000 {
        let before = store.shards[0].lock().next_sweep;
        let _ = passes(&store, &policy, &format!("{i}"));
        sweeps += u32::from(store.shards[0].lock().next_sweep != before);
        clock.advance(MINUTE / 20_000);
    }
    // A sweep visits all entries and frees at least a sixteenth: a few sweeps while the table grows, then
    // about sixteen for each window.
    assert!((10..=80).contains(&sweeps), "{sweeps} sweeps");
}

#[test]
fn reset_and_refund_of_callers_without_room_change_no_other_count() {
    let policy = policy("k", Algorithm::FixedWindow);
    let (store, _) = store(1);
    assert!(passes(&store, &policy, "first"));
    let group = [Check::new(&policy, "second")];
    let reservation = store.judge_group(&group, Operation::Check).reservation(&group).unwrap();
    store.refund_all(&reservation).unwrap();
    store.reset_group(&group);
    assert_eq!(check_n(&store, &policy, "third", 0).remaining(), 2, "the shared count stays");
    assert_eq!(check_n(&store, &policy, "first", 0).remaining(), 2);
}

#[test]
fn units_of_the_overflow_count_are_not_refunded_to_a_count_of_its_own() {
    let policy = policy("k", Algorithm::SlidingWindowLog);
    let (store, clock) = store(1);
    assert!(passes(&store, &policy, "first"));
    clock.advance(MINUTE / 2);
    let group = [Check::new(&policy, "second")];
    let overflowed = store.judge_group(&group, Operation::Check).reservation(&group).unwrap();
    // Now there is room.
    clock.advance(MINUTE / 2 + Duration::from_micros(1));
    let own = store.judge_group(&group, Operation::Check);
    assert_eq!(own.outcomes()[0].remaining(), 2);
    store.refund_all(&overflowed).unwrap();
    assert_eq!(check_n(&store, &policy, "second", 0).remaining(), 2);
    store.refund_all(&own.reservation(&group).unwrap()).unwrap();
    assert_eq!(check_n(&store, &policy, "second", 0).remaining(), 3);
}

#[test]
fn debug_shows_neither_the_digest_key_nor_the_table() {
    let (store, policy) = (MemoryStore::with_max_callers(70), policy("k", Algorithm::FixedWindow));
    let empty = format!("{store:?}");
    assert!(passes(&store, &policy, "a"));
    assert_eq!(format!("{store:?}"), empty, "the table");
    assert_eq!(empty, "MemoryStore { max_per_shard: 70, .. }");
}

#[cfg(feature = "calendar")]
const DAY: Duration = Duration::from_secs(86_400);

/// A store with room for one caller, a clock at 2026-01-20T00:00:00Z, and a policy for each day on which a
/// month may begin, which differs from request to request.
#[cfg(feature = "calendar")]
fn months<const N: usize>(days: [u8; N]) -> (MemoryStore, FakeClock, [Policy; N]) {
    use crate::policy::Calendar;

    let (store, clock) = store(1);
    clock.set(Timestamp::from_micros(1_768_867_200_000_000));
    let policy = |day| Policy::builder("k").calendar(Calendar::month(day).clamped()).max(3).build();
    (store, clock, days.map(policy))
}

/// What is spent under a label stays spent until no window has the label: another caller gets no room.
#[cfg(feature = "calendar")]
#[test]
fn a_spent_budget_is_not_swept_while_a_later_day_has_its_label() {
    let (store, clock, [first, last]) = months([1, 31]);
    assert_eq!(check_n(&store, &first, "a", 3).remaining(), 0);
    // After 1 February, where the window of the charge ended.
    clock.advance(DAY * 13);
    assert!(passes(&store, &first, "b"), "an overflow count");
    assert!(!passes(&store, &last, "a"), "the month that begins on 31 January");
    clock.advance(DAY * 60);
    assert!(passes(&store, &last, "a"));
}

#[cfg(feature = "calendar")]
#[test]
fn a_refund_reaches_the_window_of_its_charge_by_any_day() {
    let (store, clock, [early, late]) = months([15, 20]);
    let group = [Check::new(&early, "a").with_cost(2)];
    let charged = store.judge_group(&group, Operation::Check).reservation(&group).unwrap();
    clock.advance(DAY);
    assert_eq!(check_n(&store, &late, "a", 1).remaining(), 0);
    store.refund_all(&charged).unwrap();
    assert_eq!(check_n(&store, &late, "a", 0).remaining(), 2);
}

#[cfg(feature = "calendar")]
#[test]
fn a_refund_reaches_the_window_of_its_charge_from_a_clock_that_went_back() {
    let (store, clock, [first]) = months([1]);
    let (now, group) = (clock.now(), [Check::new(&first, "a").with_cost(2)]);
    let charged = store.judge_group(&group, Operation::Check).reservation(&group).unwrap();
    // The month before.
    clock.set(Timestamp::from_micros(now.as_micros() - 30 * 86_400_000_000));
    store.refund_all(&charged).unwrap();
    clock.set(now);
    assert_eq!(check_n(&store, &first, "a", 0).remaining(), 3);
}

#[test]
fn a_shadow_limit_takes_no_turn() {
    let (store, _) = store(10);
    let shadow = Policy::builder("shadow").algorithm(Algorithm::TokenBucket).max(1).window(MINUTE);
    let shadow = shadow.mode(crate::policy::Mode::Shadow).build();
    let wait = || {
        let operation = Operation::Wait { at_most_us: 3_600_000_000 };
        store.judge_group(&[Check::new(&shadow, "a")], operation).outcomes()[0].clone()
    };
    for would_deny in [false, true, true] {
        let outcome = wait();
        assert_eq!((outcome.would_deny(), outcome.due_after()), (would_deny, Duration::ZERO));
        assert_eq!(outcome.reset_after(), MINUTE, "charged once");
    }
}

/// Header fields show an instant of the system clock on the wall clock. That of a calendar is there already.
#[cfg(feature = "calendar")]
#[test]
fn the_instant_of_a_calendar_window_is_not_one_of_the_system_clock() {
    let day = Policy::builder("day").max(9).calendar(crate::policy::Calendar::day()).build();
    let rate = policy("rate", Algorithm::FixedWindow);
    let [day, rate] = [&day, &rate].map(|policy| Check::new(policy, "a"));
    let system = MemoryStore::new();
    let is_by_system_clock = |store: &MemoryStore, group: &[Check<'_>]| {
        let outcome = store.judge_group(group, Operation::Check);
        outcome.outcomes().iter().map(|outcome| outcome.is_by_system_clock).collect::<Vec<_>>()
    };
    assert_eq!(is_by_system_clock(&system, &[day, rate]), [false, true]);
    assert_eq!(is_by_system_clock(&system, &[day]), [false]);
    assert_eq!(is_by_system_clock(&system, &[rate]), [true]);
    assert_eq!(is_by_system_clock(&store(10).0, &[day, rate]), [false, false]);
}
