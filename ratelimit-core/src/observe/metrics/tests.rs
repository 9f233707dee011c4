//! Tests of what is recorded, with recorders of this thread.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use metrics::{Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder};

use super::*;
use crate::clock::FakeClock;
use crate::limiter::RateLimiter;
use crate::outcome::GroupOutcome;
use crate::policy::{Algorithm, Mode};
use crate::reservation::Reservation;
use crate::store::memory::MemoryStore;
use crate::store::toolkit::Operation;
use crate::store::{Deadline, Store};

#[test]
fn every_metric_is_listed_described_and_documented() {
    let counters = Counters::default();
    metrics::with_local_recorder(&counters, describe);
    let (mut described, mut listed) = (counters.1.lock().unwrap().clone(), ALL.to_vec());
    described.sort();
    listed.sort_unstable();
    assert_eq!(described, listed);
    let table = include_str!("../metrics.rs").lines().filter(|line| line.starts_with("//! | [`"));
    assert_eq!(table.count(), listed.len(), "rows at the top of the file");
}

/// The counters that were incremented, by name and labels; and the time of all waits, in milliseconds. Beside
/// them the names that were described.
#[derive(Clone, Default)]
struct Counters(Arc<Mutex<HashMap<String, u64>>>, Arc<Mutex<Vec<String>>>);

impl Counters {
    fn describe(&self, name: &KeyName) {
        self.1.lock().unwrap().push(name.as_str().to_owned());
    }
}

struct One(Counters, String);

impl CounterFn for One {
    fn increment(&self, value: u64) {
        *self.0.0.lock().unwrap().entry(self.1.clone()).or_default() += value;
    }

    fn absolute(&self, _value: u64) {}
}

impl HistogramFn for One {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
    fn record(&self, value: f64) {
        self.increment((value * 1_000.0).round() as u64);
    }
}

impl Recorder for Counters {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&name);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&name);
    }

    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&name);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels: Vec<&str> = key.labels().map(metrics::Label::value).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        Counter::from_arc(Arc::new(One(self.clone(), name)))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        if key.name() != WAIT_SECONDS {
            return Histogram::noop();
        }
        Histogram::from_arc(Arc::new(One(self.clone(), key.name().to_owned())))
    }
}

/// The counters after these checks of the limiter.
fn counted(limiter: &RateLimiter, groups: &[&[Check<'_>]]) -> Vec<(String, u64)> {
    let counters = Counters::default();
    metrics::with_local_recorder(&counters, || {
        for group in groups {
            let _ = limiter.try_check_all(group).unwrap();
        }
    });
    let mut counted: Vec<_> = counters.0.lock().unwrap().drain().collect();
    counted.sort();
    counted
}

#[test]
fn a_shadow_limit_that_would_deny_has_an_outcome_of_its_own() {
    let limiter = RateLimiter::builder(MemoryStore::new()).near_limit_ratio(0.0).build();
    let shadow = Policy::builder("shadow").max(1).mode(Mode::Shadow).build();
    let enforced = Policy::new("enforced", 2, Duration::from_secs(60));
    let group = [Check::new(&shadow, "a"), Check::new(&enforced, "a")];
    let expected = [
        ("ratelimit_decisions_total enforced allowed", 2),
        ("ratelimit_decisions_total enforced denied", 1),
        ("ratelimit_decisions_total shadow allowed", 1),
        ("ratelimit_decisions_total shadow would_deny", 2),
    ];
    let expected = expected.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(counted(&limiter, &[&group, &group, &group]), expected);
}

#[test]
fn a_look_is_a_decision() {
    let limiter = RateLimiter::builder(MemoryStore::new()).near_limit_ratio(0.0).build();
    let guesses = Policy::new("guesses", 1, Duration::from_secs(60));
    let rate = Policy::new("rate", 9, Duration::from_secs(60));
    let guess = Check::new(&guesses, "a");
    let group = [guess.uncharged(), Check::new(&rate, "a")];
    let expected = [
        ("ratelimit_decisions_total guesses allowed", 3),
        ("ratelimit_decisions_total guesses denied", 1),
        ("ratelimit_decisions_total rate allowed", 3),
    ];
    let expected = expected.map(|(name, count)| (name.to_owned(), count));
    // Two looks that pass, the charge, and a look that denies.
    assert_eq!(counted(&limiter, &[&group, &group, &[guess], &group]), expected);
}

#[test]
fn an_admitted_request_that_leaves_less_than_a_share_is_near_the_limit() {
    let policy = Policy::new("k", 20, Duration::from_secs(60));
    for (ratio, near) in [(None, 2), (Some(0.5), 10), (Some(0.0), 0)] {
        let builder = RateLimiter::builder(MemoryStore::new());
        let limiter = match ratio {
            Some(ratio) => builder.near_limit_ratio(ratio),
            None => builder,
        };
        let limiter = limiter.build();
        let group = [Check::new(&policy, "a")];
        // 20 are admitted, 5 denied.
        let counted = counted(&limiter, &[&group[..]; 25]);
        let found = counted.iter().find(|(name, _)| name == "ratelimit_near_limit_total k");
        assert_eq!(found.map_or(0, |(_, count)| *count), near, "{ratio:?}: {counted:?}");
    }
}

#[test]
fn a_limit_that_passes_in_a_denied_group_is_not_allowed_and_is_near_no_limit() {
    let limiter = RateLimiter::builder(MemoryStore::new()).near_limit_ratio(1.0).build();
    let (full, free) =
        (Policy::new("full", 1, Duration::from_secs(60)), Policy::new("free", 2, Duration::from_secs(60)));
    // An admitted request that leaves this one unit would be near the limit.
    assert!(limiter.try_check(&free, "a").unwrap().is_some());
    let group = [Check::new(&free, "a"), Check::new(&full, "a").with_cost(2)];
    let expected = [("denied", "full"), ("passed", "free")];
    let counted = counted(&limiter, &[&group]);
    assert_eq!(counted.len(), 2, "{counted:?}");
    for (outcome, policy) in expected {
        let name = format!("ratelimit_decisions_total {policy} {outcome}");
        assert!(counted.contains(&(name, 1)), "{counted:?}");
    }
}

#[test]
fn a_wait_is_one_decision_and_tells_its_time() {
    let store = MemoryStore::new().with_clock(FakeClock::default());
    let limiter = RateLimiter::builder(store).near_limit_ratio(0.0).build();
    let bucket = Policy::builder("k").algorithm(Algorithm::TokenBucket).max(1);
    let policy = bucket.window(Duration::from_secs(1)).build();
    let counters = Counters::default();
    metrics::with_local_recorder(&counters, || {
        // The second is given up before its turn.
        for (at_most, is_over) in [(0, true), (1, false), (0, true)] {
            let wait = pin!(limiter.wait(&policy, "a", 1, Duration::from_secs(at_most)));
            assert_eq!(wait.poll(&mut Context::from_waker(Waker::noop())).is_ready(), is_over);
        }
    });
    let mut counted: Vec<_> = counters.0.lock().unwrap().drain().collect();
    counted.sort();
    let expected = [
        ("ratelimit_decisions_total k allowed", 2),
        ("ratelimit_decisions_total k denied", 1),
        ("ratelimit_wait_seconds", 1_000),
    ];
    assert_eq!(counted, expected.map(|(name, count)| (name.to_owned(), count)));
}

/// A store whose answer is always this error.
#[derive(Debug)]
struct Failing(fn() -> StoreError);

impl Store for Failing {
    async fn decide(&self, _: &[Check<'_>], _: Operation, _: Deadline) -> Result<GroupOutcome, StoreError> {
        Err((self.0)())
    }

    async fn reset(&self, _: &[Check<'_>], _: Deadline) -> Result<(), StoreError> {
        Err((self.0)())
    }

    async fn refund(&self, _: &Reservation<'_>, _: Deadline) -> Result<(), StoreError> {
        Err((self.0)())
    }
}

#[test]
fn every_class_of_failures_begins_at_0_so_that_the_first_failure_is_a_rise() {
    let policy = Policy::new("k", 1, Duration::from_secs(60));
    let errors: [fn() -> StoreError; 6] = [
        || StoreError::unavailable("down"),
        || StoreError::misconfigured("set it up", "wrong"),
        || StoreError::timeout(Duration::from_millis(100)),
        || StoreError::rejected("no"),
        || StoreError::protocol("a reply"),
        || StoreError::corrupt_state("k"),
    ];
    for (failed, error) in errors.into_iter().enumerate() {
        let counters = Counters::default();
        let failures = || {
            let counters = counters.0.lock().unwrap();
            CLASSES.map(|class| counters.get(&format!("{STORE_FAILURES} {class}")).copied())
        };
        metrics::with_local_recorder(&counters, || {
            let limiter = RateLimiter::new(Failing(error));
            assert_eq!(failures(), [Some(0); 6]);
            let check = pin!(limiter.check(&policy, "a"));
            assert!(check.poll(&mut Context::from_waker(Waker::noop())).is_ready());
        });
        let mut expected = [Some(0); 6];
        expected[failed] = Some(1);
        assert_eq!(failures(), expected);
    }
}

#[cfg(feature = "overrides")]
#[test]
fn both_ends_of_a_reload_begin_at_0_with_the_watch() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "# none\n").unwrap();
    let counters = Counters::default();
    metrics::with_local_recorder(&counters, || {
        let overrides = crate::overrides::Overrides::from_file(file.path()).unwrap().watch(true);
        let _limiter = RateLimiter::builder(MemoryStore::new()).overrides(overrides).build();
    });
    let counters = counters.0.lock().unwrap();
    let expected = ["applied", "rejected"].map(|outcome| (format!("{OVERRIDES_RELOADS} {outcome}"), 0));
    assert_eq!(*counters, HashMap::from(expected));
}
