//! What a replay remembers, exact as long as there is room, and bounded.

use std::io::{self, Read as _};
use std::time::Duration;

use ratelimit_core::store::toolkit::{Operation, State};
use ratelimit_core::{Algorithm, Check, Policy, PolicyBuilder, Timestamp};

use crate::census::Census;
use crate::input::Log;
use crate::judge::{DIGEST_KEY, Judge};

const START: u64 = 1_763_596_800_000_000;

/// Seconds after the start of some requests of one caller: bursts, pauses and single ones.
fn requests(seed: u64) -> Vec<u64> {
    let mut state = seed;
    let mut at = 0;
    let step = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        at += [0, 0, 1, 2, 11, 70][usize::try_from(state >> 33).unwrap() % 6];
        at
    };
    (0..120).map(step).collect()
}

fn builders() -> Vec<PolicyBuilder> {
    let builder = Policy::builder("k").window(Duration::from_secs(60));
    let mut builders: Vec<_> = Algorithm::ALL.iter().map(|algorithm| builder.algorithm(*algorithm)).collect();
    builders.push(builder.sub_windows(6));
    builders
}

/// The smallest number under which none of these requests is denied, found by trying.
fn smallest(builder: PolicyBuilder, is_bucket: bool, requests: &[u64]) -> u64 {
    let denies_nothing = |number: &u64| {
        let builder = if is_bucket { builder.burst(*number) } else { builder.max(*number) };
        let (policy, mut state) = (builder.build(), State::new(&builder.build()));
        requests.iter().all(|second| {
            let at = Timestamp::from_micros(START + second * 1_000_000);
            state.decide(&policy, 1, at, Operation::Check).is_allowed()
        })
    };
    (1..10_000).find(denies_nothing).unwrap()
}

#[test]
fn a_peak_is_the_smallest_number_that_denies_nothing() {
    for builder in builders() {
        let builder = builder.max(7);
        let policy = builder.build();
        let is_bucket = policy.algorithm() == Algorithm::TokenBucket;
        let mut expected = Vec::new();
        let mut census = Census::new(&policy, policy.window(), 1_000).unwrap();
        for seed in 0..10 {
            let requests = requests(seed);
            for second in &requests {
                let at = Timestamp::from_micros(START + second * 1_000_000);
                census.add(u128::from(seed), at, true, false);
            }
            expected.push(smallest(builder, is_bucket, &requests));
        }
        expected.sort_unstable();
        let shares = std::array::from_fn::<u64, 10, _>(|index| 100 * (index as u64 + 1));
        assert_eq!(census.needed(shares).to_vec(), expected, "{}", policy.algorithm());
    }
}

#[test]
fn an_answer_that_does_not_count_needs_its_unit_for_a_moment_only() {
    for builder in builders() {
        let policy = builder.max(7).build();
        let mut census = Census::new(&policy, policy.window(), 10).unwrap();
        for second in 0..50 {
            census.add(1, Timestamp::from_micros(START + second * 1_000), second < 2, false);
        }
        assert_eq!(census.needed([1_000]), [3], "{}", policy.algorithm());
    }
}

#[test]
fn too_many_callers_become_a_sample() {
    let policy = Policy::new("k", 5, Duration::from_secs(60));
    let mut census = Census::new(&policy, policy.window(), 1_000).unwrap();
    for caller in 0..100_000_u64 {
        let caller = caller.to_be_bytes();
        let digest = Check::new(&policy, &caller).digest(&DIGEST_KEY);
        // One of ten asks three times, and is denied.
        for _ in 0..if caller[7] % 10 == 0 { 3 } else { 1 } {
            census.add(digest, Timestamp::from_micros(START), true, caller[7] % 10 == 0);
        }
    }
    assert!(census.one_of() >= 100, "one of {}", census.one_of());
    assert!((80_000..120_000).contains(&census.callers()), "{}", census.callers());
    assert!((5_000..15_000).contains(&census.denied()), "{}", census.denied());
    assert_eq!(census.needed([500, 990]), [1, 3]);
}

#[test]
fn the_judge_drops_what_has_expired_and_takes_no_more_callers_than_it_may() {
    let policy = Policy::new("k", 1, Duration::from_secs(60));
    let mut judge = Judge::new(100);
    let mut check = |caller: u64, seconds: u64| {
        let (caller, at) = (caller.to_be_bytes(), Timestamp::from_micros(START + seconds * 1_000_000));
        judge.check(&[Check::new(&policy, &caller)], at).map(|outcome| outcome.is_allowed())
    };
    for caller in 0..100 {
        assert_eq!(check(caller, 0), Some(true));
    }
    assert_eq!((check(100, 0), check(7, 0)), (None, Some(false)), "no room, but known callers are judged");
    // A sweep comes after some requests.
    let after = (0..3_000).map(|_| check(100, 200)).collect::<Vec<_>>();
    assert!(after.contains(&Some(true)), "the others have expired");
}

#[test]
fn a_file_without_line_breaks_needs_no_memory() {
    let endless = io::repeat(b'x').take(50_000_000).chain(io::Cursor::new("\nshort\n"));
    let mut log = Log::new(Box::new(endless)).unwrap();
    assert!(log.next().unwrap());
    assert_eq!((log.line().len(), log.place().as_str()), (64 * 1024, "line 1"));
    assert!(log.next().unwrap());
    assert_eq!((log.line(), log.number()), (&b"short"[..], 2));
    assert!(!log.next().unwrap());
}
