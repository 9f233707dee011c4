//! Panics of the application's code that the store calls: its metrics recorder, and what wakes its tasks. A
//! panic costs at most the requests of one call.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use ratelimit_core::{OnError, Policy, RateLimiter, RedisStore, StoreError};
use tests::clock_at_start;
use tests::outage::PROBE;
use tests::own_process::in_own_process;
use tests::proxy::{Mode, Proxy};
use tests::redis::server;
use tests::within;

const SECOND: Duration = Duration::from_secs(1);

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn decides(limiter: &RateLimiter) -> bool {
    block_on(limiter.check(&PROBE, "a")).is_ok()
}

fn connected(url: &str, deadline: Duration) -> RateLimiter {
    // No pings: each would be one more late command.
    let builder = RedisStore::builder(url).deadline(deadline).ping_interval(3600 * SECOND);
    let limiter = RateLimiter::new(builder.build().unwrap());
    assert!(within(20 * SECOND, || decides(&limiter)), "never connected");
    limiter
}

/// A metrics recorder that panics at some events of one metric.
struct Faulty {
    metric: &'static str,
    left: Arc<AtomicUsize>,
}

impl Faulty {
    /// Installs it. The number that it returns is that of the panics to come.
    fn install(metric: &'static str) -> Arc<AtomicUsize> {
        let left = Arc::new(AtomicUsize::new(0));
        metrics::set_global_recorder(Self { metric, left: Arc::clone(&left) }).unwrap();
        left
    }

    fn meet(&self, key: &Key) {
        if key.name() == self.metric {
            let take = |left: usize| left.checked_sub(1);
            let is_left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok();
            assert!(!is_left, "a faulty recorder");
        }
    }
}

impl Recorder for Faulty {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.meet(key);
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.meet(key);
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.meet(key);
        Histogram::noop()
    }
}

#[test]
fn a_panic_of_the_recorder_while_a_batch_is_sent_costs_no_request() {
    in_own_process(|| {
        let Some(server) = server() else { return };
        let panics = Faulty::install("ratelimit_redis_batch_requests");
        let limiter = connected(&server.url(), 10 * SECOND);
        for round in 0..3 {
            panics.store(1, Ordering::SeqCst);
            assert!(decides(&limiter), "{round}");
            assert_eq!(panics.load(Ordering::SeqCst), 0, "{round}: no batch was sent");
        }
    });
}

#[test]
fn a_panic_of_the_recorder_when_the_breaker_opens_does_not_keep_it_open() {
    in_own_process(|| {
        let Some(server) = server() else { return };
        let panics = Faulty::install("ratelimit_redis_open_slot_ranges");
        let limiter = connected(&server.url(), 10 * SECOND);
        panics.store(1, Ordering::SeqCst);
        // Its errors leave the connection as it is.
        server.must("CONFIG SET maxmemory 1");
        let is_open = || !limiter.store_status().connection.unwrap().open_slot_ranges.is_empty();
        assert!(within(20 * SECOND, || !decides(&limiter) && is_open()), "it opens");
        server.must("CONFIG SET maxmemory 0");
        assert!(within(20 * SECOND, || decides(&limiter)), "it stays open");
        assert_eq!(panics.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn a_panic_of_the_recorder_while_leases_are_swept_ends_no_sweeping() {
    in_own_process(|| {
        let Some(server) = server() else { return };
        let panics = Faulty::install("ratelimit_lease_held_units");
        let clock = clock_at_start();
        let limiter = RateLimiter::new(server.builder_at(&clock).build().unwrap());
        let other = RateLimiter::new(server.builder_at(&clock).build().unwrap());
        let lease = Duration::from_millis(100);
        let policy = Policy::builder("swept").max(1_000).window(60 * SECOND).on_error(OnError::Deny);
        let leased = policy.lease(lease).build();
        let held = || limiter.store_status().connection.unwrap().leases.held;
        let mut used = 0;
        assert!(within(20 * SECOND, || limiter.is_ready() && other.is_ready()));
        while held() < 10 {
            used += u64::from(block_on(limiter.check(&leased, "a")).unwrap().is_allowed());
        }
        panics.store(2, Ordering::SeqCst);
        assert!(within(20 * SECOND, || panics.load(Ordering::SeqCst) == 0), "swept after a panic");
        // Nothing comes for an interval.
        clock.advance(lease);
        let left = || block_on(other.peek(&leased, "a")).unwrap().remaining();
        assert!(
            within(20 * SECOND, || left() == 1_000 - used),
            "{used} used, {} left, {} held",
            left(),
            held()
        );
    });
}

#[test]
fn a_panic_of_the_recorder_while_connections_are_counted_ends_no_watch_over_them() {
    in_own_process(|| {
        let Some(server) = server() else { return };
        let panics = Faulty::install("ratelimit_redis_connected");
        let interval = Duration::from_millis(10);
        let builder = RedisStore::builder(&server.url()).deadline(10 * SECOND).ping_interval(interval);
        let limiter = RateLimiter::new(builder.build().unwrap());
        assert!(within(20 * SECOND, || decides(&limiter)));
        panics.store(3, Ordering::SeqCst);
        assert!(within(20 * SECOND, || panics.load(Ordering::SeqCst) == 0), "counted after a panic");
        assert!(decides(&limiter));
    });
}

/// What wakes a task, and panics. Executors are the application's choice.
struct FaultyWaker(AtomicUsize);

impl Wake for FaultyWaker {
    fn wake(self: Arc<Self>) {
        assert!(self.0.fetch_add(1, Ordering::SeqCst) > 0, "a faulty waker");
    }
}

#[test]
fn a_panic_at_a_deadline_ends_no_queue() {
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    let limiter = connected(&proxy.url(), SECOND);
    proxy.set(Mode::Hold);
    let faulty = Arc::new(FaultyWaker(AtomicUsize::new(0)));
    {
        let mut check = pin!(limiter.check(&PROBE, "a"));
        let waker = Waker::from(Arc::clone(&faulty));
        assert!(check.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert!(within(20 * SECOND, || faulty.0.load(Ordering::SeqCst) > 0), "its deadline passes");
        assert!(matches!(block_on(check), Err(StoreError::Timeout { .. })));
    }
    // Deadlines are still kept.
    let error = block_on(limiter.check(&PROBE, "a")).unwrap_err();
    assert!(matches!(error, StoreError::Timeout { .. }), "{error:?}");
    proxy.set(Mode::Pass);
    assert!(within(20 * SECOND, || decides(&limiter)), "the queue has ended");
}
