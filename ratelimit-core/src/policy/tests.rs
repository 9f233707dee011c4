//! Bounds, shared states and texts of policies.

use super::*;

fn error(builder: PolicyBuilder) -> PolicyError {
    builder.try_build().unwrap_err()
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

const BUILDER: PolicyBuilder = Policy::builder("k");
const BUCKET: PolicyBuilder = BUILDER.algorithm(Algorithm::TokenBucket);

#[test]
fn the_defaults_are_100_per_60_s_over_two_windows() {
    let policy = BUILDER.build();
    assert_eq!((policy.key(), policy.name()), ("k", "k"));
    assert_eq!((policy.max(), policy.capacity(), policy.sub_windows()), (100, 100, 1));
    assert_eq!(policy.window(), Duration::from_secs(60));
    assert_eq!(policy.algorithm(), Algorithm::SlidingWindowCounter);
}

#[test]
fn max_is_from_1_to_a_trillion() {
    assert_eq!(error(BUILDER.max(0)), PolicyError::Max);
    assert_eq!(error(BUILDER.max(MAX_UNITS + 1)), PolicyError::Max);
    assert_eq!(error(BUILDER.max(u64::MAX)), PolicyError::Max);
    for max in [1, MAX_UNITS] {
        assert_eq!(BUILDER.max(max).build().max(), max);
    }
}

#[test]
fn the_window_is_from_a_millisecond_to_366_days_in_whole_microseconds() {
    for outside in
        [Duration::ZERO, Duration::from_nanos(999_999), MAX_WINDOW + Duration::from_nanos(1), Duration::MAX]
    {
        assert_eq!(error(BUILDER.window(outside)), PolicyError::Window, "{outside:?}");
    }
    for fraction in [1, 500, 999] {
        let window = Duration::from_millis(5) + Duration::from_nanos(fraction);
        assert_eq!(error(BUILDER.window(window)), PolicyError::WindowNotMicroseconds, "{window:?}");
    }
    for inside in [MIN_WINDOW, micros(1_001), micros(31_622_399_999_999), MAX_WINDOW] {
        assert_eq!(BUILDER.window(inside).build().window(), inside);
    }
}

#[test]
fn sub_windows_are_from_1_to_60_and_divide_the_window() {
    for outside in [0, MAX_SUB_WINDOWS + 1, u64::MAX] {
        assert_eq!(error(BUILDER.sub_windows(outside)), PolicyError::SubWindows, "{outside}");
    }
    for inside in [1, 2, 59, MAX_SUB_WINDOWS] {
        let builder = BUILDER.window(micros(59 * 60_000));
        assert_eq!(builder.sub_windows(inside).build().sub_windows(), inside);
    }
    assert_eq!(error(BUILDER.window(micros(1_001)).sub_windows(2)), PolicyError::SubWindowsNotWhole);
    let counter = Algorithm::SlidingWindowCounter;
    for &other in Algorithm::ALL.iter().filter(|algorithm| **algorithm != counter) {
        let builder = BUILDER.algorithm(other).sub_windows(1);
        assert_eq!(error(builder), PolicyError::SubWindowsWithoutCounter, "{other}");
    }
}

#[test]
fn a_burst_is_from_1_to_a_trillion_and_only_for_the_token_bucket() {
    for outside in [0, MAX_UNITS + 1, u64::MAX] {
        assert_eq!(error(BUCKET.burst(outside)), PolicyError::Burst, "{outside}");
    }
    assert_eq!(BUCKET.burst(1).build().capacity(), 1);
    assert_eq!(BUCKET.max(MAX_UNITS).burst(MAX_UNITS).build().capacity(), MAX_UNITS);
    for &other in Algorithm::ALL.iter().filter(|algorithm| **algorithm != Algorithm::TokenBucket) {
        let builder = BUILDER.algorithm(other).burst(100);
        assert_eq!(error(builder), PolicyError::BurstWithoutTokenBucket, "{other}");
    }
}

#[test]
fn a_full_burst_refills_within_366_days() {
    let bucket = BUCKET.max(1).window(Duration::from_secs(86_400));
    assert_eq!(bucket.burst(366).build().capacity(), 366);
    assert_eq!(error(bucket.burst(367)), PolicyError::Refill);
    assert_eq!(error(BUCKET.max(1).window(MAX_WINDOW).burst(2)), PolicyError::Refill);
    assert_eq!(error(BUCKET.max(1).burst(MAX_UNITS)), PolicyError::Refill);
    // A third of a microsecond more than 366 days.
    let thirds = BUCKET.max(3).window(micros(1_000_000)).burst(3 * 31_622_400);
    assert!(thirds.try_build().is_ok());
    assert_eq!(error(BUCKET.max(3).window(micros(1_000_001)).burst(3 * 31_622_400)), PolicyError::Refill);
}

#[test]
fn a_block_is_from_the_window_to_366_days_in_whole_microseconds() {
    let minute = BUILDER.window(Duration::from_secs(60));
    for outside in
        [Duration::ZERO, micros(59_999_999), MAX_WINDOW + Duration::from_nanos(1), MAX_WINDOW + micros(1)]
    {
        assert_eq!(error(minute.block(outside)), PolicyError::Block, "{outside:?}");
    }
    assert_eq!(error(minute.block(Duration::from_nanos(60_000_000_500))), PolicyError::Block);
    for inside in [Duration::from_secs(60), micros(60_000_001), MAX_WINDOW] {
        assert_eq!(minute.block(inside).build().block(), Some(inside));
    }
    assert_eq!(minute.build().block(), None);
}

#[test]
fn a_block_is_at_least_the_time_to_refill_a_bucket() {
    // 7 tokens at 3 per second: 2 and a third seconds.
    let bucket = BUCKET.max(3).window(Duration::from_secs(1)).burst(7);
    assert_eq!(error(bucket.block(micros(2_333_333))), PolicyError::Block);
    assert!(bucket.block(micros(2_333_334)).try_build().is_ok());
    assert_eq!(error(bucket.burst(1).block(micros(999_999))), PolicyError::Block, "also the window");
    assert!(bucket.burst(1).block(Duration::from_secs(1)).try_build().is_ok());
}

#[test]
fn a_block_and_a_lease_do_not_change_the_counts() {
    let policy = BUILDER.block(MAX_WINDOW).lease(MAX_LEASE).build();
    assert_eq!(policy.state_id(), BUILDER.build().state_id());
    let renamed = policy.with_key("other").unwrap();
    assert_eq!((renamed.block(), renamed.lease()), (Some(MAX_WINDOW), Some(MAX_LEASE)));
}

#[test]
fn a_shadow_limit_has_counts_of_its_own() {
    for builder in [BUILDER, BUCKET] {
        let (enforced, shadow) = (builder.build(), builder.mode(Mode::Shadow).build());
        assert_eq!((enforced.mode(), shadow.mode()), (Mode::Enforce, Mode::Shadow));
        assert_ne!(shadow.state_id(), enforced.state_id());
        assert_eq!(builder.mode(Mode::Shadow).block(MAX_WINDOW).build().state_id(), shadow.state_id());
        let [enforced, shadow] = [enforced, shadow].map(|policy| policy.with_key("other").unwrap());
        assert_eq!((enforced.mode(), shadow.mode()), (Mode::Enforce, Mode::Shadow));
        assert_ne!(shadow.state_id(), enforced.state_id());
    }
}

#[test]
fn a_lease_is_above_nothing_and_at_most_ten_seconds() {
    for bad in [Duration::ZERO, MAX_LEASE + micros(1), Duration::from_nanos(1_500)] {
        assert_eq!(error(BUILDER.lease(bad)), PolicyError::Lease, "{bad:?}");
    }
    for good in [micros(1), Duration::from_millis(100), MAX_LEASE] {
        assert_eq!(BUILDER.lease(good).build().lease(), Some(good));
    }
    assert_eq!(BUILDER.build().lease(), None);
}

#[test]
fn only_fixed_windows_and_sliding_window_counters_have_a_lease() {
    let second = Duration::from_secs(1);
    for &algorithm in Algorithm::ALL {
        let built = Policy::builder("k").algorithm(algorithm).lease(second).try_build();
        if matches!(algorithm, Algorithm::FixedWindow | Algorithm::SlidingWindowCounter) {
            assert_eq!(built.unwrap().lease(), Some(second), "{algorithm}");
        } else {
            assert_eq!(built, Err(PolicyError::LeaseWithoutWindow), "{algorithm}");
        }
    }
}

#[test]
fn keys_and_names_are_printable_and_need_no_escape() {
    for bad in ["", " ", "a b", "a\tb", "a{b", "a}b", "a\"b", "a\\b", "\u{e9}", "a\u{7f}", "a\0b"] {
        assert_eq!(error(Policy::builder(bad)), PolicyError::Key, "{bad:?}");
        assert_eq!(error(BUILDER.name(bad)), PolicyError::Name, "{bad:?}");
        assert_eq!(BUILDER.build().with_key(bad), Err(PolicyError::Key), "{bad:?}");
        assert_eq!(BUILDER.build().with_name(bad), Err(PolicyError::Name), "{bad:?}");
    }
    let (longest, longer) = ("x".repeat(MAX_NAME_LEN), "x".repeat(MAX_NAME_LEN + 1));
    assert_eq!(BUILDER.build().with_key(longer.clone()), Err(PolicyError::Key));
    assert_eq!(BUILDER.build().with_name(longer), Err(PolicyError::Name));
    for good in ["k", "user-api", "shop::orders::list", "a:b/c.d_e~!@#$%^&*()'`<>|,;?=+[]", &longest] {
        let policy = BUILDER.build().with_key(good).unwrap().with_name(good).unwrap();
        assert_eq!((policy.key(), policy.name()), (good, good));
    }
}

#[test]
fn the_name_is_shown_and_the_key_counts() {
    let named = BUILDER.name("shown").build();
    assert_eq!((named.key(), named.name()), ("k", "shown"));
    assert_eq!(named.state_id(), BUILDER.build().state_id());
}

#[test]
fn policies_share_a_state_when_its_counts_mean_the_same() {
    let id = |builder: PolicyBuilder| builder.build().state_id();
    let base = id(BUILDER);
    assert_eq!(id(BUILDER.max(7)), base, "a changed max keeps the counts");
    assert_ne!(id(Policy::builder("other")), base);
    assert_ne!(id(BUILDER.window(Duration::from_secs(61))), base);
    assert_ne!(id(BUILDER.sub_windows(6)), base);
    assert_ne!(id(BUILDER.algorithm(Algorithm::SlidingWindowLog)), base);
    assert_eq!(id(BUILDER.sub_windows(1)), base);
    let bucket = id(BUCKET);
    assert_ne!(bucket, base);
    assert_ne!(id(BUCKET.max(7).burst(100)), bucket, "an instant means another level at another rate");
    assert_ne!(id(BUCKET.burst(7)), bucket);
    assert_eq!(id(BUCKET.burst(100)), bucket);
    let renamed = BUILDER.build().with_key("other").unwrap();
    assert_eq!(renamed.state_id(), id(Policy::builder("other")), "a key made at run time is a key");
}

/// A custom store may keep digests, of which the fingerprint is a part, for longer than a version of this
/// crate.
#[test]
fn the_fingerprint_of_a_policy_stays_as_it_was() {
    let counter = Policy::builder("k").window(Duration::from_secs(3600)).sub_windows(6).build();
    assert_eq!(counter.state_id(), 0x27d9_a3e2_4d45_80f4);
    let bucket =
        Policy::builder("k").algorithm(Algorithm::TokenBucket).max(100).burst(150).mode(Mode::Shadow);
    assert_eq!(bucket.build().state_id(), 0xa4b7_1e99_786f_3f6a);
}

#[test]
fn every_error_names_what_is_expected() {
    for error in [
        PolicyError::Key,
        PolicyError::Name,
        PolicyError::Max,
        PolicyError::Window,
        PolicyError::WindowNotMicroseconds,
        PolicyError::SubWindows,
        PolicyError::SubWindowsNotWhole,
        PolicyError::SubWindowsWithoutCounter,
        PolicyError::Burst,
        PolicyError::BurstWithoutTokenBucket,
        PolicyError::Refill,
        PolicyError::Block,
    ] {
        let text = error.to_string();
        assert_eq!(text, error.message());
        assert!(text.contains(" must be ") || text.contains(" is only for "), "{text}");
    }
}

#[test]
#[should_panic(expected = "max must be from 1 to 1000000000000")]
fn build_panics_with_the_text_of_the_error() {
    let _ = Policy::new("k", 0, Duration::from_secs(60));
}

#[test]
fn a_concurrency_limit_has_only_a_maximum() {
    const SLOTS: PolicyBuilder = BUILDER.algorithm(Algorithm::Concurrency);
    let streams = Policy::concurrency("streams", 3);
    assert!(streams.is_concurrency() && !BUILDER.build().is_concurrency());
    assert_eq!((streams.max(), streams.capacity(), streams.window()), (3, 3, Duration::from_secs(10)));
    assert_eq!(error(SLOTS.max(0)), PolicyError::Max);
    for wrong in [SLOTS.window(micros(10_000_000)), SLOTS.block(MAX_WINDOW), SLOTS.lease(MAX_LEASE)] {
        assert_eq!(error(wrong), PolicyError::OnlyForRates);
    }
    assert_eq!(error(SLOTS.sub_windows(1)), PolicyError::SubWindowsWithoutCounter);
    assert_eq!(error(SLOTS.burst(1)), PolicyError::BurstWithoutTokenBucket);
    let set = SLOTS.max(5).on_error(OnError::Deny).mode(Mode::Shadow).name("n").build();
    assert_eq!(set.with_settings(Settings::new()).unwrap(), set);
    assert_eq!(Policy::concurrency("k", 5).state_id(), SLOTS.max(9).build().state_id(), "the slots stay");
    assert_ne!(Policy::concurrency("k", 5).state_id(), BUILDER.window(micros(HOLD_US)).build().state_id());
}

#[test]
fn the_error_of_overrides_names_the_fields_that_they_may_set() {
    let text = PolicyError::NotOverridable.to_string();
    for field in Field::ALL {
        assert_eq!(text.contains(field.as_str()), field.is_overridable(), "{}", field.as_str());
    }
}
