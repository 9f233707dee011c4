//! An outage from its beginning to its end, seen from a limiter: what every fault of a store must look like.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use ratelimit_core::{
    Algorithm, Check, GroupOutcome, OnError, Policy, RateLimiter, RedisStore, RedisStoreBuilder, StoreError,
};
use tracing::Level;
use tracing::subscriber::DefaultGuard;

use crate::log::Log;
use crate::noise::Noise;

/// The longest that one decision may take: the deadline, and something for the way there and back.
pub const LONGEST: Duration = Duration::from_millis(120);

/// What a busy machine may add to a promised time. A broken promise shows all the same: by a reply that takes
/// longer than this, or by the number of requests that wait.
pub const SLACK: Duration = Duration::from_secs(1);

const HOUR: Duration = Duration::from_secs(3600);

/// Checked again and again. It fails closed, so an outcome comes from the store.
pub static PROBE: Policy = Policy::builder("probe")
    .max(1_000_000_000)
    .window(HOUR)
    .algorithm(Algorithm::FixedWindow)
    .on_error(OnError::Deny)
    .build();

const fn of_eight(key: &'static str, on_error: OnError) -> Policy {
    Policy::builder(key).max(8).window(HOUR).algorithm(Algorithm::SlidingWindowLog).on_error(on_error).build()
}

static LOCAL: Policy = of_eight("local", OnError::Local);
static DENY: Policy = of_eight("deny", OnError::Deny);
static ALLOW: Policy = of_eight("allow", OnError::Allow);

/// Waits until the store has answered.
#[allow(clippy::disallowed_methods, reason = "a deadline for a real process, not logic")]
pub async fn until_settled(limiter: &RateLimiter) {
    let end = Instant::now() + Duration::from_secs(30);
    while limiter.check(&PROBE, "settled").await.is_err() {
        assert!(Instant::now() < end, "no answer");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A limiter, one of four instances, that is about to lose its store.
#[derive(Debug)]
pub struct Outage {
    name: String,
    pub limiter: RateLimiter,
    pub noise: Noise,
    log: Log,
    _guard: DefaultGuard,
    report: Vec<String>,
    longest: Duration,
}

impl Outage {
    /// A limiter on the server at `url`, as users get it.
    pub fn of(name: &str, url: &str) -> Self {
        Self::with(name, RedisStore::builder(url))
    }

    /// The same with settings.
    pub fn with(name: &str, builder: RedisStoreBuilder) -> Self {
        let (log, guard) = Log::of_thread();
        let four = NonZeroU32::new(4).unwrap();
        let limiter = RateLimiter::builder(builder.build().unwrap()).instances(four).build();
        Self {
            name: name.to_owned(),
            limiter,
            noise: Noise::watch(),
            log,
            _guard: guard,
            report: Vec::new(),
            longest: LONGEST,
        }
    }

    /// Lets decisions take longer than usual: a debug build computes for a while to connect over TLS.
    #[must_use]
    pub fn with_slack(mut self, slack: Duration) -> Self {
        self.longest += slack;
        self
    }

    /// Whether the store decides, and how long the check took.
    #[allow(clippy::disallowed_methods, reason = "measures")]
    pub async fn probe(&self) -> (bool, Duration) {
        let sent = Instant::now();
        let decided = match self.limiter.check(&PROBE, "probe").await {
            Ok(outcome) => {
                assert!(!outcome.is_degraded());
                true
            }
            Err(
                StoreError::Unavailable { .. }
                | StoreError::Misconfigured { .. }
                | StoreError::Timeout { .. },
            ) => false,
            Err(error) => panic!("{}: {error:?}", self.name),
        };
        (decided, sent.elapsed())
    }

    /// Waits until the store decides.
    pub async fn until_up(&self) {
        self.until_decided(Duration::from_secs(20)).await;
    }

    /// Waits until requests no longer wait for the store, and reports the slowest until then.
    pub async fn until_noticed(&mut self) {
        let (mut checks, mut slowest, mut in_a_row) = (0u32, Duration::ZERO, 0);
        while in_a_row < 5 {
            let (decided, took) = self.probe().await;
            slowest = slowest.max(took);
            checks += 1;
            assert!(checks < 100_000, "{}: never noticed", self.name);
            // A reply of the store takes longer than this only while the store is being lost.
            in_a_row = if decided || took > Duration::from_millis(20) { 0 } else { in_a_row + 1 };
            if decided {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        assert!(slowest <= self.longest + self.noise.slack(), "{}: {slowest:?}", self.name);
        self.report.push(format!("slowest answer {:.1} ms", millis(slowest)));
    }

    /// Waits until attempts to connect follow each other at their longest pause.
    pub async fn lasts(&self) {
        tokio::time::sleep(Duration::from_millis(1500)).await;
    }

    /// Waits until the store does not decide; for an outage that may end before it is noticed everywhere.
    pub async fn until_lost(&self) {
        while self.probe().await.0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Every failure policy applies, for a limiter that is one of four instances.
    #[allow(clippy::disallowed_methods, reason = "measures")]
    pub async fn policies_apply(&mut self) {
        let caller = self.name.clone();
        let check = async |policy: &Policy| self.limiter.check(policy, &caller).await;
        for left in [1, 0] {
            let outcome = check(&LOCAL).await.unwrap();
            assert!(outcome.is_degraded() && outcome.is_allowed(), "{caller}: {outcome:?}");
            // The client sees the whole limit.
            assert_eq!((outcome.capacity(), outcome.remaining()), (8, left), "{caller}");
        }
        let outcome = check(&LOCAL).await.unwrap();
        assert!(outcome.is_degraded() && !outcome.is_allowed(), "{caller}: {outcome:?}");
        assert!(outcome.retry_after().is_some());
        assert!(check(&DENY).await.is_err(), "{caller}");
        for _ in 0..20 {
            let outcome = check(&ALLOW).await.unwrap();
            assert!(outcome.is_degraded() && outcome.is_allowed(), "{caller}: {outcome:?}");
            assert_eq!((outcome.capacity(), outcome.remaining()), (8, 8), "{caller}");
        }
        let mixed = [Check::new(&LOCAL, &caller), Check::new(&ALLOW, &caller)];
        let denied = self.limiter.check_all(&mixed).await.unwrap();
        assert!(denied.is_degraded() && !denied.is_allowed(), "{caller}: {denied:?}");
        let with_deny = [Check::new(&ALLOW, &caller), Check::new(&DENY, &caller)];
        assert!(self.limiter.check_all(&with_deny).await.is_err(), "{caller}");
        let mut took: Vec<Duration> = Vec::new();
        for _ in 0..1000 {
            let sent = Instant::now();
            let _: GroupOutcome = self.limiter.check_all(&[Check::new(&ALLOW, &caller)]).await.unwrap();
            took.push(sent.elapsed());
        }
        took.sort_unstable();
        self.report.push(format!("p99 once noticed {:.3} ms", millis(took[990])));
        // Once an outage is noticed, no request waits for the store.
        assert!(
            took[990] < LONGEST / 2,
            "{caller}: more than 10 of 1000 waited, for {:?} and more",
            took[990]
        );
    }

    #[allow(clippy::disallowed_methods, reason = "a deadline")]
    /// Waits until the store decides again, at most `limit` after now, and looks at what the outage has left.
    pub async fn ends_within(&mut self, limit: Duration) {
        let (took, slowest) = self.until_decided(limit + SLACK + Duration::from_secs(5)).await;
        let name = &self.name;
        assert!(took <= limit + self.noise.slack(), "{name}: back after {took:?}, limit {limit:?}");
        assert!(slowest <= self.longest + self.noise.slack(), "{name}: {slowest:?}");
        self.report.push(format!("back after {:.0} ms", millis(took)));
        // The fallback's counts were not handed to the store. Checks may have found another connection before
        // the store has found that its own is silent.
        for policy in [&LOCAL, &DENY, &ALLOW] {
            let end = Instant::now() + limit + SLACK;
            let outcome = loop {
                match self.limiter.peek(policy, &self.name).await {
                    Ok(outcome) => break outcome,
                    Err(error) => assert!(Instant::now() < end, "{name}: {error}"),
                }
            };
            if !outcome.is_degraded() {
                assert_eq!((outcome.capacity(), outcome.remaining()), (8, 8), "{name}: {}", policy.key());
            }
        }
        self.was_told_once().await;
        println!("{name}: {} (noise {:.1} ms)", self.report.join(", "), millis(self.noise.worst()));
    }

    #[allow(clippy::disallowed_methods, reason = "measures")]
    async fn until_decided(&self, limit: Duration) -> (Duration, Duration) {
        let (began, mut slowest) = (Instant::now(), Duration::ZERO);
        loop {
            let (decided, took) = self.probe().await;
            slowest = slowest.max(took);
            if decided {
                return (began.elapsed(), slowest);
            }
            assert!(began.elapsed() < limit, "{}: not back after {limit:?}", self.name);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// One log line when the store was lost and one when it was back, instead of one for each request.
    #[allow(clippy::disallowed_methods, reason = "a deadline")]
    async fn was_told_once(&self) {
        let end = Instant::now() + Duration::from_secs(10);
        while self.log.at(Level::WARN).is_empty() {
            assert!(Instant::now() < end, "{}: no log line says that the store is back", self.name);
            self.probe().await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let (lost, back) = (self.log.at(Level::ERROR), self.log.at(Level::WARN));
        // A machine that pauses for longer than the deadline makes a few outages of its own; of the requests
        // that failed there were more than a thousand.
        assert!(lost.len() <= 5 && lost.len().abs_diff(back.len()) <= 1, "{}: {lost:?} {back:?}", self.name);
        assert!(lost.iter().all(|line| line.contains("failure policies apply")), "{lost:?}");
        assert!(back.iter().all(|line| line.contains("answers again")), "{back:?}");
    }
}

/// For reports.
pub fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
