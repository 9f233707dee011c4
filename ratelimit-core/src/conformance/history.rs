//! Random histories: what happens to a store, one event after the other; and the smallest one that still fails.

use std::time::Duration;

use super::tested::MINUTE;
use crate::check::{Check, MAX_GROUP};
use crate::policy::{Algorithm, Mode, Policy};

/// Callers that a careless store takes for each other, and a long one behind them.
const CALLERS: [&[u8]; 14] = [
    b"a",
    b"b",
    b"",
    b"\0",
    b"\0\0",
    b"a:b",
    b"A",
    b"{",
    b"}",
    b"}{",
    b"\r\n",
    b"*",
    b"\xff\xfe",
    &[b'x'; 1 << 20],
];

/// Number of policies of one history.
const USED: usize = 5;

/// More units than any limit admits.
const LARGE: [u64; 3] = [1_000_000_000_000, 1 << 40, u64::MAX];

/// An event of a history.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// By which others refer to it.
    pub(super) id: usize,
    pub(super) what: What,
    pub(super) limits: Vec<Limit>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// The clock goes on.
    Advance(Duration),
    /// The clock goes on to a wait that the last decision told, of its limits in turn, but a microsecond; and then by microseconds.
    AdvanceToWait(usize, Duration),
    Check,
    /// A check that the store may decide at once.
    TryCheck,
    Peek,
    UpTo,
    Overdraw,
    Wait(Duration),
    Reset,
    /// What this event was charged is refunded, or its turn given up.
    Refund(usize),
}

/// A limit of an event: its policy, its caller, and the cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    policy: usize,
    caller: usize,
    pub(super) cost: u64,
}

/// What histories are about.
pub(super) struct World {
    pub(super) policies: Vec<Policy>,
}

impl World {
    pub(super) fn new() -> Self {
        // Every algorithm, without its parameter and with it; an algorithm without the parameter is an error.
        let shapes = Algorithm::ALL.iter().flat_map(|&algorithm| {
            let plain = Policy::builder("random").algorithm(algorithm).window(MINUTE);
            let other = Policy::builder("other").algorithm(algorithm).window(MINUTE);
            // The first three share their counts.
            [
                plain.max(5),
                plain.max(2),
                plain.max(5).block(MINUTE + MINUTE / 2),
                plain.max(3).mode(Mode::Shadow),
                plain.max(9).sub_windows(6),
                plain.max(7).burst(3),
                plain.max(3).window(MINUTE + Duration::from_secs(1)),
                other.max(1),
            ]
        });
        #[cfg(feature = "calendar")]
        let shapes = {
            let month = crate::policy::Calendar::month(1).in_zone("Europe/Berlin");
            shapes.chain([Policy::builder("month").calendar(month).max(4)])
        };
        Self { policies: shapes.filter_map(|builder| builder.try_build().ok()).collect() }
    }

    pub(super) fn group(&self, limits: &[Limit]) -> Vec<Check<'_>> {
        let check = |limit: &Limit| {
            Check::new(&self.policies[limit.policy], CALLERS[limit.caller]).with_cost(limit.cost)
        };
        limits.iter().map(check).collect()
    }

    /// A check of this cost under each policy, for the callers of these limits and the first two.
    pub(super) fn everything(&self, limits: &[Limit], cost: u64) -> Vec<Check<'_>> {
        let mut callers = vec![0, 1];
        callers.extend(limits.iter().map(|limit| limit.caller));
        callers.sort_unstable();
        callers.dedup();
        let checks = callers.iter().flat_map(|&caller| {
            self.policies.iter().map(move |policy| Check::new(policy, CALLERS[caller]).with_cost(cost))
        });
        checks.collect()
    }

    pub(super) fn random(&self, seed: u64, events: usize) -> Vec<Event> {
        let mut random = Random(seed);
        // Few of all, so that limits are reached.
        let used: Vec<usize> = (0..USED).map(|_| random.index(self.policies.len())).collect();
        let mut history: Vec<Event> = Vec::with_capacity(events);
        for id in 0..events {
            let mut event = event(id, &used, &mut random);
            // Often the limits of the last event again, so that they are reached.
            let last = history.iter().rfind(|last| !last.limits.is_empty());
            if let Some(last) = last.filter(|last| last.limits.len() == event.limits.len())
                && random.index(2) == 0
            {
                event.limits.clone_from(&last.limits);
            }
            if let (What::UpTo, Some(first)) = (event.what, event.limits.first().copied()) {
                // One cost for all limits.
                event.limits.iter_mut().for_each(|limit| limit.cost = first.cost.saturating_mul(3));
            }
            history.push(event);
        }
        history
    }

    /// An event as a line of text.
    pub(super) fn describe(&self, event: &Event) -> String {
        let limits = event.limits.iter().map(|limit| {
            let policy = &self.policies[limit.policy];
            let caller = CALLERS[limit.caller];
            let caller = match caller.len() {
                0..10 => format!("b\"{}\"", caller.escape_ascii()),
                length => format!("a caller of {length} bytes"),
            };
            format!("{} of {caller} under {policy:?}", limit.cost)
        });
        let limits: Vec<String> = limits.collect();
        format!("event {}: {:?} {}", event.id, event.what, limits.join("\n  and "))
    }
}

/// A random event under these policies.
fn event(id: usize, used: &[usize], random: &mut Random) -> Event {
    let earlier = |random: &mut Random| {
        let most = [1, 2, 12, 60][random.index(4)];
        id.saturating_sub(1 + random.index(most))
    };
    let what = match random.index(28) {
        0..4 => What::Advance(Duration::from_micros(random.below(24_000_000))),
        4..7 => What::AdvanceToWait(random.index(6), Duration::from_micros(random.below(3))),
        7 => What::Peek,
        8 => What::UpTo,
        9 => What::Overdraw,
        10..14 => What::Wait(Duration::from_micros(random.below(90_000_000))),
        14 => What::Reset,
        15..20 => What::Refund(earlier(random)),
        20..22 => What::TryCheck,
        _ => What::Check,
    };
    let size = match random.index(60) {
        0 => MAX_GROUP,
        1 => 0,
        other => 1 + other % 3,
    };
    let size = match what {
        What::Overdraw => 1,
        What::Wait(_) if random.index(4) > 0 => 1,
        What::Advance(_) | What::AdvanceToWait(..) | What::Refund(_) => 0,
        _ => size,
    };
    let limits = (0..size).map(|_| limit(used, random)).collect();
    Event { id, what, limits }
}

/// A limit under one of these policies.
fn limit(used: &[usize], random: &mut Random) -> Limit {
    let caller = if random.index(8) == 0 { random.index(CALLERS.len()) } else { random.index(2) };
    let cost = match random.index(40) {
        0 => LARGE[random.index(LARGE.len())],
        _ => random.below(4),
    };
    Limit { policy: used[random.index(used.len())], caller, cost }
}

/// A linear congruential generator (Knuth's MMIX), so that every run is the same.
struct Random(u64);

impl Random {
    const fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).unwrap_or_default()
    }
}

/// The smallest history that still fails, found by leaving out events and limits; and its failure.
pub(super) fn smallest<F>(
    mut history: Vec<Event>,
    mut failure: F,
    fails: impl Fn(&[Event]) -> Option<F>,
) -> (Vec<Event>, F) {
    let mut size = history.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < history.len() {
            let mut shorter = history.clone();
            shorter.drain(at..(at + size).min(history.len()));
            match fails(&shorter) {
                Some(found) => (history, failure) = (shorter, found),
                None => at += size,
            }
        }
        size /= 2;
    }
    for at in 0..history.len() {
        let mut limit = 0;
        while limit < history[at].limits.len() && history[at].limits.len() > 1 {
            let mut smaller = history.clone();
            smaller[at].limits.remove(limit);
            match fails(&smaller) {
                Some(found) => (history, failure) = (smaller, found),
                None => limit += 1,
            }
        }
    }
    (history, failure)
}
