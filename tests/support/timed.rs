//! Limiters whose time the test sets, one for each built-in store, and a macro that stamps a test for each.

use std::future::Future;
use std::io::Write;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use futures_util::{FutureExt, poll};
use ratelimit_core::clock::{Clock, FakeClock};
use ratelimit_core::conformance::Reference;
use ratelimit_core::policy::MAX_WAIT;
use ratelimit_core::{
    Check, GroupOutcome, MemoryStore, Outcome, Policy, RateLimiter, Reservation, Timestamp,
};

use crate::redis::Server;

/// Midnight UTC of a day in 2026: all digits of a real clock are in play, and windows of a day or less begin.
pub const MIDNIGHT: Timestamp = Timestamp::from_micros(1_789_948_800_000_000);

/// A limiter, its clock, and what it needs to live.
#[derive(Debug)]
pub struct Timed {
    pub limiter: RateLimiter,
    pub clock: FakeClock,
    runtime: tokio::runtime::Runtime,
    server: Option<Server>,
    /// Whether time only passes on the wall clock, as if it were set.
    only_wall_clock: bool,
}

/// The specification itself: the pure decision over a map of states.
pub fn reference() -> Timed {
    timed(None, |clock, _| RateLimiter::builder(Reference::new(clock)).clock(clock.clone()).build())
}

/// Counts in memory, with room for more callers than any test has.
pub fn memory() -> Timed {
    timed(None, |clock, _| {
        let store = MemoryStore::with_max_callers(10_000_000).with_clock(clock.clone());
        RateLimiter::new(store)
    })
}

/// Counts in memory, whose wall clock is set while the store's own clock stands still.
pub fn memory_with_set_wall_clock() -> Timed {
    Timed { only_wall_clock: true, ..memory() }
}

/// Counts in a Redis server of its own, if there is one on this machine.
pub fn redis() -> Option<Timed> {
    let server = crate::redis::server()?;
    let store = timed(Some(server), |clock, server| server.unwrap().limiter_at(clock));
    // What this process decides because it has no connection is counted apart.
    let connects = Policy::new("connects", 1, Duration::from_secs(1));
    let is_connected = crate::within(Duration::from_secs(60), || !store.peek(&connects, "").is_degraded());
    assert!(is_connected, "a server that has started has no connection");
    Some(store)
}

fn timed(server: Option<Server>, limiter: impl FnOnce(&FakeClock, Option<&Server>) -> RateLimiter) -> Timed {
    let clock = FakeClock::at(MIDNIGHT);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    Timed { limiter: limiter(&clock, server.as_ref()), clock, runtime, server, only_wall_clock: false }
}

impl Timed {
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// The server, when it is Redis.
    pub const fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Shows the instant `micros`, which may be earlier than before.
    pub fn set(&self, micros: u64) {
        let time = Timestamp::from_micros(micros);
        if self.only_wall_clock { self.clock.set_wall_clock(time) } else { self.clock.set(time) }
    }

    /// Whether the clock may go back: that of a process never does, if it is not the wall clock.
    pub const fn may_go_back(&self) -> bool {
        self.server.is_some() || self.only_wall_clock
    }

    /// Shows the instant `micros`, as does the clock by which Redis lets [keys expire](Server::age_keys).
    pub fn set_with_expiry(&self, micros: u64) {
        let passed = micros.cast_signed() - self.clock.now().as_micros().cast_signed();
        self.set(micros);
        if let Some(server) = &self.server {
            self.run(server.age_keys(passed));
        }
    }

    pub fn check(&self, policy: &Policy, caller: &str) -> Outcome {
        self.run(self.limiter.check(policy, caller)).unwrap()
    }

    pub fn peek(&self, policy: &Policy, caller: &str) -> Outcome {
        self.run(self.limiter.peek(policy, caller)).unwrap()
    }

    /// Takes a turn, and lets the clock stand where it was: the outcome of a wait, without the wait.
    pub fn wait(&self, policy: &Policy, caller: &str, cost: u64, at_most: Duration) -> Outcome {
        let now = self.clock.now();
        self.run(async {
            let mut wait = pin!(self.limiter.wait(policy, caller, cost, at_most));
            self.decide(wait.as_mut(), policy, caller).await.unwrap_or_else(|| {
                // It sleeps, so the store decides nothing meanwhile.
                self.clock.advance(2 * MAX_WAIT);
                let outcome = wait.now_or_never().expect("its turn is due");
                self.clock.set(now);
                outcome
            })
        })
        .unwrap()
    }

    /// Polls a wait until it is decided. `None` if it sleeps then.
    pub async fn decide<F: Future + ?Sized>(
        &self,
        mut wait: Pin<&mut F>,
        policy: &Policy,
        caller: &str,
    ) -> Option<F::Output> {
        let first = poll!(wait.as_mut());
        if let Poll::Ready(output) = first {
            return Some(output);
        }
        // A later request of the same caller is answered later.
        let _ = self.limiter.peek(policy, caller).await.unwrap();
        match poll!(wait) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    pub fn check_all(&self, group: &[Check<'_>]) -> GroupOutcome {
        self.run(self.limiter.check_all(group)).unwrap()
    }

    pub fn peek_all(&self, group: &[Check<'_>]) -> GroupOutcome {
        self.run(self.limiter.peek_all(group)).unwrap()
    }

    pub fn refund(&self, reservation: Reservation<'_>) {
        self.run(self.limiter.refund(reservation)).unwrap();
    }
}

/// Says on the terminal how much was tried. Not with `println!`, which the test harness keeps to itself.
pub fn report(text: &str) {
    std::io::stderr().write_all(format!("{text}\n").as_bytes()).unwrap();
}

/// Stamps two tests out of each body, `in_memory::name` and `in_redis::name`; the second is skipped, visibly,
/// without a server.
#[macro_export]
macro_rules! on_both_stores {
    ($(fn $name:ident($store:ident: &Timed) $body:block)+) => {
        $(fn $name($store: &$crate::timed::Timed) $body)+

        mod in_memory {
            $(
                #[test]
                fn $name() {
                    super::$name(&$crate::timed::memory());
                }
            )+
        }

        mod in_redis {
            $(
                #[test]
                fn $name() {
                    let Some(store) = $crate::timed::redis() else { return };
                    super::$name(&store);
                }
            )+
        }
    };
}
