//! What the property tests share: how many cases to try, random policies, and random steps of the clock.

use std::time::Duration;

use proptest::prelude::*;
use ratelimit_core::policy::{Calendar, MAX_WINDOW, Weekday};
use ratelimit_core::{Algorithm, Mode, OnError, Policy, PolicyBuilder};

/// The number of random cases: `usual`, unless the environment variable `variable` has another number.
pub fn cases(variable: &str, usual: u32) -> u32 {
    std::env::var(variable).ok().and_then(|number| number.parse().ok()).unwrap_or(usual)
}

/// Any algorithm.
pub fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop::sample::select(Algorithm::ALL)
}

/// Mostly small limits, and some close to the largest.
pub fn max() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 1u64..8,
        3 => 1u64..200,
        1 => 1u64..100_000,
        1 => 999_999_999_000u64..=1_000_000_000_000,
    ]
}

/// Any policy with one of two keys, `a` and `b`: every algorithm, with and without its parameter. It fails
/// closed, so that a store that cannot be reached is an error with its reason and not a fallback outcome.
pub fn policy() -> impl Strategy<Value = Policy> {
    let window_us = prop_oneof![
        3 => (1u64..20).prop_map(|ms| ms * 1000),
        2 => (1u64..100).prop_map(|seconds| seconds * 1_000_000),
        1 => 1000u64..10_000_000,
        1 => (1u64..=366).prop_map(|days| days * 86_400_000_000),
    ];
    (algorithm(), max(), window_us, 1u64..=60, 1u64..50, any::<bool>(), 0usize..2).prop_map(
        |(algorithm, max, window_us, sub_windows, burst, has_parameter, key)| {
            let builder =
                Policy::builder(["a", "b"][key]).max(max).algorithm(algorithm).on_error(OnError::Deny);
            let plain = builder.window(Duration::from_micros(window_us));
            let whole = (window_us - window_us % sub_windows).max(1000 * sub_windows);
            let divided = builder.window(Duration::from_micros(whole)).sub_windows(sub_windows);
            // An algorithm without the parameter is an error, and a bucket may take too long to refill.
            let shaped = [divided, plain.burst(burst)].into_iter().filter(|_| has_parameter);
            shaped.chain([plain]).find_map(|builder| builder.try_build().ok()).unwrap()
        },
    )
}

/// Any [`policy`], of which every other one has a block: as short as it may be, a little longer, or much
/// longer.
pub fn policy_with_block() -> impl Strategy<Value = Policy> {
    let more = prop_oneof![2 => Just(0u64), 2 => 1u64..1_000_000, 1 => Just(86_400_000_000)];
    (policy(), prop::option::of(more)).prop_map(|(policy, more)| {
        let Some(more) = more else { return policy };
        let refill = u128::from(policy.capacity()) * policy.window().as_micros();
        let refill = Duration::from_micros(u64::try_from(refill.div_ceil(u128::from(policy.max()))).unwrap());
        let shortest = policy.window().max(refill);
        let block = (shortest + Duration::from_micros(more)).min(MAX_WINDOW);
        with(&policy, |builder| builder.block(block))
    })
}

/// One to three policies with and without blocks. In every third case there are shadow limits as well: one
/// for each policy with the key `b`, which differs in the mode only, and so has a count of its own.
pub fn policies() -> impl Strategy<Value = Vec<Policy>> {
    let in_shadow = prop_oneof![2 => Just(false), 1 => Just(true)];
    (prop::collection::vec(policy_with_block(), 1..=3), in_shadow).prop_map(|(mut policies, in_shadow)| {
        let tried = policies.iter().filter(|policy| in_shadow && policy.key() == "b");
        let shadows: Vec<Policy> =
            tried.map(|policy| with(policy, |builder| builder.mode(Mode::Shadow))).collect();
        policies.extend(shadows);
        policies
    })
}

/// The same, and in every third case one or two with windows of a calendar: all from one day, or each from a
/// day that requests choose.
pub fn policies_and_calendars() -> impl Strategy<Value = Vec<Policy>> {
    let days = (0u8..4, 1u8..=31, prop::sample::select(&["UTC", "Europe/Berlin", "America/New_York"][..]));
    let days = prop::collection::vec((days, prop::sample::select(&["a", "b"][..]), max()), 1..=2);
    let calendars = (days, any::<bool>()).prop_map(|(days, moves)| {
        let first = days[0].0;
        let policy = |((kind, day, zone), key, max)| {
            let (kind, day, zone) = if moves { (kind, day, zone) } else { first };
            let calendar = match kind {
                0 => Calendar::day(),
                1 => Calendar::week(Weekday::ALL[usize::from(day % 7)]),
                2 => Calendar::month(day),
                _ => Calendar::year(1 + day % 12, day.min(28)),
            };
            let calendar = calendar.in_zone(zone);
            let calendar = if moves { calendar.clamped() } else { calendar };
            Policy::builder(key).max(max).calendar(calendar).on_error(OnError::Deny).build()
        };
        days.into_iter().map(policy).collect()
    });
    (policies(), prop_oneof![2 => Just(Vec::new()), 1 => calendars]).prop_map(|(mut policies, calendars)| {
        policies.extend(calendars);
        policies
    })
}

/// The policy with other settings.
fn with(policy: &Policy, set: impl FnOnce(PolicyBuilder) -> PolicyBuilder) -> Policy {
    let mut builder = Policy::builder("k")
        .max(policy.max())
        .window(policy.window())
        .algorithm(policy.algorithm())
        .on_error(policy.on_error())
        .mode(policy.mode());
    if policy.sub_windows() > 1 {
        builder = builder.sub_windows(policy.sub_windows());
    }
    if policy.capacity() != policy.max() {
        builder = builder.burst(policy.capacity());
    }
    if let Some(block) = policy.block() {
        builder = builder.block(block);
    }
    set(builder).build().with_key(policy.key()).unwrap()
}

/// A step forward, in percent of a window: often none, mostly less than half a window.
pub fn step_forward() -> impl Strategy<Value = i64> {
    prop_oneof![6 => Just(0i64), 6 => 0i64..40, 3 => 40i64..260]
}

/// A step back of up to a window and a half, in percent of a window.
pub fn step_back() -> impl Strategy<Value = i64> {
    -150i64..0
}
