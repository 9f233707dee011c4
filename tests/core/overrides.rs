//! What becomes of counts when overrides change a number: rows of the table in `docs/overrides.md`, on both stores, with processes
//! that disagree for a while. Which policies share a count is tested beside `Policy`.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use ratelimit_core::clock::FakeClock;
use ratelimit_core::{Algorithm, MemoryStore, Policy, RateLimiter, Timestamp};
use tests::redis::{self, Server};
use tests::store::START;

const CALLER: &str = "acct-42";

static WINDOW: Policy = Policy::builder("window").max(5).algorithm(Algorithm::FixedWindow).build();
static COUNTER: Policy = Policy::builder("counter").max(5).build();
static LOG: Policy = Policy::builder("log").max(5).algorithm(Algorithm::SlidingWindowLog).build();
static BUCKET: Policy = Policy::builder("bucket").max(5).algorithm(Algorithm::TokenBucket).build();
static BLOCKING: Policy = Policy::builder("blocking").max(1).block(Duration::from_secs(600)).build();

/// A process: it counts in the store of another one, and has overrides of its own.
struct Process {
    limiter: RateLimiter,
    overrides: RateLimiter,
}

impl Process {
    fn policy(&self, policy: &Policy) -> Policy {
        self.overrides.in_force_for(policy, None, CALLER).policy().clone()
    }

    /// How many of so many requests pass.
    async fn passed(&self, policy: &Policy, requests: usize) -> usize {
        let policy = self.policy(policy);
        let mut passed = 0;
        for _ in 0..requests {
            passed += usize::from(self.limiter.check(&policy, CALLER).await.unwrap().is_allowed());
        }
        passed
    }

    /// The wait that a request is told.
    async fn wait(&self, policy: &Policy) -> Option<Duration> {
        self.limiter.peek(&self.policy(policy), CALLER).await.unwrap().retry_after()
    }
}

/// Two processes on one store, on each store: the first without overrides, the second with these.
async fn disagreeing(overrides: &str, check: impl AsyncFn(Process, Process, FakeClock)) {
    let run = async |limiters: [RateLimiter; 2], clock: FakeClock| {
        let process = |limiter: RateLimiter, text: &str| {
            let policies = [&WINDOW, &COUNTER, &LOG, &BUCKET, &BLOCKING];
            let builder = RateLimiter::builder(MemoryStore::new()).policies(policies);
            Process { limiter, overrides: builder.overrides(text.parse().unwrap()).unwrap().build() }
        };
        let [first, second] = limiters;
        check(process(first, ""), process(second, overrides), clock).await;
    };
    let clock = || FakeClock::at(Timestamp::from_micros(START * 1_000_000));
    let at = clock();
    let memory = RateLimiter::new(MemoryStore::new().with_clock(at.clone()));
    run([memory.clone(), memory], at).await;
    if let Some(server) = redis::server() {
        let at = clock();
        let limiter = |server: &Server| server.limiter_at(&at);
        run([limiter(&server), limiter(&server)], at.clone()).await;
    }
}

#[tokio::test]
async fn max_keeps_the_count_of_windows_and_logs() {
    let text = "[limit.window]\nmax = 8\n[limit.counter]\nmax = 8\n[limit.log]\nmax = 8";
    disagreeing(text, async |old, new, _| {
        for policy in [&WINDOW, &COUNTER, &LOG] {
            assert_eq!(old.passed(policy, 4).await, 4, "{}", policy.name());
            assert_eq!(new.passed(policy, 3).await, 3, "{}", policy.name());
            // Each judges one count by its own number.
            assert_eq!(
                (old.passed(policy, 1).await, new.passed(policy, 9).await),
                (0, 1),
                "{}",
                policy.name()
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_smaller_max_admits_nothing_until_the_count_is_below_it() {
    disagreeing("[limit.window]\nmax = 2", async |old, new, clock| {
        assert_eq!(old.passed(&WINDOW, 4).await, 4);
        assert_eq!((new.passed(&WINDOW, 3).await, old.passed(&WINDOW, 3).await), (0, 1));
        clock.advance(Duration::from_secs(60));
        assert_eq!((new.passed(&WINDOW, 3).await, old.passed(&WINDOW, 9).await), (2, 3));
    })
    .await;
}

#[tokio::test]
async fn a_burst_starts_a_full_bucket_and_the_old_one_is_used_again_without_it() {
    disagreeing("[limit.bucket]\nburst = 8", async |old, new, clock| {
        assert_eq!(old.passed(&BUCKET, 9).await, 5);
        assert_eq!(new.passed(&BUCKET, 9).await, 8);
        // A fifth of the window refills one of five tokens.
        clock.advance(Duration::from_secs(12));
        assert_eq!((old.passed(&BUCKET, 9).await, new.passed(&BUCKET, 9).await), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn a_block_that_runs_is_obeyed_and_a_shorter_one_shortens_it() {
    disagreeing("[limit.blocking]\nblock = '5m'", async |old, new, _| {
        assert_eq!(old.passed(&BLOCKING, 2).await, 1);
        assert_eq!(old.wait(&BLOCKING).await, Some(Duration::from_secs(600)));
        assert_eq!(new.passed(&BLOCKING, 1).await, 0);
        assert_eq!(new.wait(&BLOCKING).await, Some(Duration::from_secs(300)));
    })
    .await;
    disagreeing("[limit.blocking]\nblock = 'off'", async |old, new, clock| {
        assert_eq!(old.passed(&BLOCKING, 2).await, 1);
        assert_eq!(new.passed(&BLOCKING, 1).await, 0, "obeyed");
        clock.advance(Duration::from_secs(601));
        assert_eq!(new.passed(&BLOCKING, 2).await, 1);
        assert!(new.wait(&BLOCKING).await.unwrap() <= Duration::from_secs(120), "begins none");
    })
    .await;
}
