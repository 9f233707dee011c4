//! What decides in this process: ours, governor and the floor, as closures over a caller's number.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, FakeRelativeClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter as Governor};
use ratelimit_actix::ratelimit_core::clock::{Clock as _, SystemClock};
use ratelimit_actix::{MemoryStore, Policy, RateLimiter};

use crate::caller::Caller;
use crate::clocks::{START_US, Still};
use crate::floor::Floor;
use crate::{MAX, WINDOW, ours};

/// A decision about one caller; false is a denial.
pub type Decide = Box<dyn Fn(Caller) -> bool + Send + Sync>;

/// Callers for which ours has room.
pub const ROOM: usize = 2_500_000;

/// The names of what decides here.
pub const NAMES: [&str; 7] =
    [OURS, OURS_STILL, GOVERNOR, GOVERNOR_STILL, GOVERNOR_FAST_STILL, FLOOR, FLOOR_STILL];

/// Ours as it comes.
pub const OURS: &str = "ours";
/// Ours without the cost of a clock.
pub const OURS_STILL: &str = "ours, clock still";
/// governor as it comes.
pub const GOVERNOR: &str = "governor";
/// governor without the cost of a clock.
pub const GOVERNOR_STILL: &str = "governor, clock still";
/// governor with another hash, without the cost of a clock.
pub const GOVERNOR_FAST_STILL: &str = "governor with foldhash, clock still";
/// One hash and one atomic exchange, with the same clock as ours.
pub const FLOOR: &str = "floor";
/// One hash and one atomic exchange.
pub const FLOOR_STILL: &str = "floor, clock still";

/// The same limit for governor: a full burst of [`MAX`], which is back after [`WINDOW`].
pub fn quota() -> Quota {
    let burst = NonZeroU32::new(MAX as u32).expect("not 0");
    let step = Duration::from_nanos(WINDOW.as_nanos() as u64 / MAX);
    Quota::with_period(step).expect("not 0").allow_burst(burst)
}

/// What goes by this name, without callers.
///
/// # Panics
///
/// When nothing does.
pub fn make(name: &str) -> Decide {
    match name {
        OURS => in_store(MemoryStore::with_max_callers(ROOM), ours::builder().build()),
        OURS_STILL => {
            in_store(MemoryStore::with_max_callers(ROOM).with_clock(Still), ours::builder().build())
        }
        GOVERNOR => Box::new({
            let governor = Governor::<Caller, _, _, NoOpMiddleware<_>>::dashmap(quota());
            move |caller| governor.check_key(&caller).is_ok()
        }),
        GOVERNOR_STILL => Box::new({
            let governor = with_clock(FakeRelativeClock::default(), std::hash::RandomState::default());
            move |caller| governor.check_key(&caller).is_ok()
        }),
        GOVERNOR_FAST_STILL => Box::new({
            let governor = with_clock(FakeRelativeClock::default(), foldhash::fast::RandomState::default());
            move |caller| governor.check_key(&caller).is_ok()
        }),
        FLOOR => Box::new({
            let (floor, clock) = (Floor::new(MAX, WINDOW.as_micros() as u64), SystemClock::new());
            move |caller| floor.check(caller.as_ref(), clock.now().as_micros())
        }),
        FLOOR_STILL => Box::new({
            let floor = Floor::new(MAX, WINDOW.as_micros() as u64);
            move |caller| floor.check(caller.as_ref(), START_US)
        }),
        _ => panic!("nothing is named {name}"),
    }
}

/// Ours with another store or policy.
pub fn in_store(store: MemoryStore, policy: Policy) -> Decide {
    let limiter = RateLimiter::new(store);
    Box::new(move |caller| {
        limiter
            .try_check(&policy, caller)
            .is_ok_and(|outcome| outcome.is_some_and(|outcome| outcome.is_allowed()))
    })
}

type Keyed<C, S> = Governor<Caller, DashMapStateStore<Caller, S>, C, NoOpMiddleware<<C as Clock>::Instant>>;

fn with_clock<C: Clock, S: std::hash::BuildHasher + Clone + Default>(clock: C, hasher: S) -> Keyed<C, S> {
    Governor::dashmap_with_clock_and_hasher(quota(), clock, hasher)
}
