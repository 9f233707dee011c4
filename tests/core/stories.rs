//! The examples that published articles about rate limiting give as their tests, on both stores, in injected time.
#![allow(missing_docs, reason = "tests")]

use std::time::Duration;

use ratelimit_core::{Algorithm, Check, Policy};
use tests::timed::Timed;

/// A sliding window counter with sub-windows of one second.
fn counter(max: u64, seconds: u64) -> Policy {
    let builder = Policy::builder("story").max(max).window(Duration::from_secs(seconds));
    builder.algorithm(Algorithm::SlidingWindowCounter).sub_windows(seconds).build()
}

fn log(max: u64, seconds: u64) -> Policy {
    let builder = Policy::builder("story").max(max).window(Duration::from_secs(seconds));
    builder.algorithm(Algorithm::SlidingWindowLog).build()
}

/// The counter over two windows: ten a second.
fn ten_a_second() -> Policy {
    Policy::new("story", 10, Duration::from_secs(1))
}

/// Places in a sub-window at which a test may begin; its result must be the same from each.
const BEGINNINGS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(500), Duration::from_micros(999_999)];

fn passes(store: &Timed, policy: &Policy, caller: &str) -> bool {
    store.check(policy, caller).is_allowed()
}

/// Runs a test once for each beginning, on seconds of the clock that are far apart, each with callers of its own.
fn from_every_beginning(store: &Timed, check: impl Fn(&str, &str)) {
    for (i, beginning) in BEGINNINGS.into_iter().enumerate() {
        let start = tests::timed::MIDNIGHT.as_micros() + i as u64 * 1_000_000_000;
        store.set(start);
        store.advance(beginning);
        check(&format!("client-1 from {beginning:?}"), &format!("client-2 from {beginning:?}"));
    }
}

fn five_pass(store: &Timed, policy: &Policy) {
    from_every_beginning(store, |client, _| {
        for request in 1..=5 {
            assert!(passes(store, policy, client), "request {request} of {client}");
        }
    });
}

fn the_sixth_is_denied(store: &Timed, policy: &Policy) {
    from_every_beginning(store, |client, _| {
        for request in 1..=5 {
            assert!(passes(store, policy, client), "request {request} of {client}");
        }
        assert!(!passes(store, policy, client), "the sixth request of {client}");
    });
}

/// After the window, and a second more for good measure.
fn passes_again_after_the_window(store: &Timed, policy: &Policy) {
    from_every_beginning(store, |client, _| {
        for request in 1..=5 {
            assert!(passes(store, policy, client), "request {request} of {client}");
        }
        assert!(!passes(store, policy, client), "the sixth request of {client}");
        store.advance(policy.window() + Duration::from_secs(1));
        assert!(passes(store, policy, client), "{client} after the window");
    });
}

fn clients_are_apart(store: &Timed, policy: &Policy) {
    from_every_beginning(store, |client, other| {
        for request in 1..=5 {
            assert!(passes(store, policy, client), "request {request} of {client}");
        }
        assert!(!passes(store, policy, client), "the sixth request of {client}");
        for request in 1..=5 {
            assert!(passes(store, policy, other), "request {request} of {other}");
        }
        assert!(!passes(store, policy, other), "the sixth request of {other}");
    });
}

/// Limit 3, window 4 s: three a second apart, a fourth too many, and two seconds later room for one.
fn room_comes_back_bit_by_bit(store: &Timed, policy: &Policy) {
    from_every_beginning(store, |client, _| {
        for request in 1..=3 {
            assert!(passes(store, policy, client), "request {request} of {client}");
            store.advance(Duration::from_secs(1));
        }
        assert!(!passes(store, policy, client), "the fourth request of {client}");
        store.advance(Duration::from_secs(2));
        assert!(passes(store, policy, client), "{client} two seconds later");
    });
}

tests::on_both_stores! {
    // Sub-windows: the sliding window counter in Redis.

    fn a_counter_with_sub_windows_lets_five_of_five_pass(store: &Timed) {
        five_pass(store, &counter(5, 10));
    }

    fn a_counter_with_sub_windows_denies_the_sixth_of_five(store: &Timed) {
        the_sixth_is_denied(store, &counter(5, 60));
    }

    fn a_counter_with_sub_windows_lets_pass_again_after_the_window(store: &Timed) {
        passes_again_after_the_window(store, &counter(5, 2));
    }

    fn a_counter_with_sub_windows_keeps_clients_apart(store: &Timed) {
        clients_are_apart(store, &counter(5, 10));
    }

    fn a_counter_with_sub_windows_gives_room_back_bit_by_bit(store: &Timed) {
        room_comes_back_bit_by_bit(store, &counter(3, 4));
    }

    // The sliding window log in Redis.

    fn a_log_lets_five_of_five_pass(store: &Timed) {
        five_pass(store, &log(5, 10));
    }

    fn a_log_denies_the_sixth_of_five(store: &Timed) {
        the_sixth_is_denied(store, &log(5, 60));
    }

    fn a_log_lets_pass_again_after_the_window(store: &Timed) {
        passes_again_after_the_window(store, &log(5, 2));
    }

    fn a_log_keeps_clients_apart(store: &Timed) {
        clients_are_apart(store, &log(5, 10));
    }

    fn a_log_gives_room_back_bit_by_bit(store: &Timed) {
        room_comes_back_bit_by_bit(store, &log(3, 4));
    }

    fn a_log_does_not_count_a_denied_request(store: &Timed) {
        let policy = log(3, 4);
        from_every_beginning(store, |client, _| {
            for request in 1..=3 {
                assert!(passes(store, &policy, client), "request {request} of {client}");
            }
            // Denied all through the window, which would fill the next one if they counted.
            for second in 0..4 {
                for _ in 0..10 {
                    assert!(!passes(store, &policy, client), "{client} after {second} s");
                }
                store.advance(Duration::from_secs(1));
            }
            store.advance(Duration::from_micros(1));
            for request in 1..=3 {
                assert!(passes(store, &policy, client), "request {request} of {client} after the window");
            }
            assert!(!passes(store, &policy, client), "{client} has used its window up");
        });
    }

    // The two-window counter behind an annotation.

    fn ten_under_the_limit_pass(store: &Timed) {
        from_every_beginning(store, |client, _| {
            for request in 1..=10 {
                assert!(passes(store, &ten_a_second(), client), "request {request} of {client}");
            }
        });
    }

    fn the_eleventh_over_the_limit_is_denied(store: &Timed) {
        from_every_beginning(store, |client, _| {
            for request in 1..=10 {
                assert!(passes(store, &ten_a_second(), client), "request {request} of {client}");
            }
            assert!(!passes(store, &ten_a_second(), client), "the eleventh request of {client}");
        });
    }

    fn one_client_at_its_limit_leaves_another_its_own(store: &Timed) {
        from_every_beginning(store, |client, other| {
            for request in 1..=10 {
                assert!(passes(store, &ten_a_second(), client), "request {request} of {client}");
            }
            assert!(passes(store, &ten_a_second(), other), "{other}");
            assert_eq!(store.peek(&ten_a_second(), other).remaining(), 9);
        });
    }

    fn ten_remain_before_the_first_request_and_nine_after_it(store: &Timed) {
        from_every_beginning(store, |client, _| {
            assert_eq!(store.peek(&ten_a_second(), client).remaining(), 10);
            assert_eq!(store.check(&ten_a_second(), client).remaining(), 9);
            assert_eq!(store.peek(&ten_a_second(), client).remaining(), 9);
        });
    }
    fn two_limits_over_one_log_report_the_next_unit_of_each_in_any_order(store: &Timed) {
        let (narrow, wide) = (log(6, 60), log(20, 60));
        for is_narrow_first in [true, false] {
            let caller = format!("narrow first: {is_narrow_first}");
            let start = tests::timed::MIDNIGHT.as_micros() + u64::from(is_narrow_first) * 1_000_000_000;
            for second in 1..=4 {
                store.set(start + second * 1_000_000);
                assert!(passes(store, &wide, &caller), "{second} s, {caller}");
            }
            store.set(start + 5_000_000);
            let (one, other) = if is_narrow_first { (&narrow, &wide) } else { (&wide, &narrow) };
            let group = [Check::new(one, &caller), Check::new(other, &caller)];
            let admitted = store.check_all(&group);
            assert!(admitted.is_allowed(), "{caller}");
            let outcomes = admitted.outcomes();
            let (narrow, wide) = if is_narrow_first { (0, 1) } else { (1, 0) };
            // Six of six units are taken; the unit of second 1 still counts 60 s later.
            let next = Duration::from_micros(56_000_001);
            assert_eq!(outcomes[narrow].next_unit_after(), Some(next), "{caller}");
            assert_eq!((outcomes[wide].remaining(), outcomes[wide].next_unit_after()), (14, None), "{caller}");
        }
    }
}
