//! Random histories: what happens to a store, one event after the other; and the smallest one that still
//! fails.

use std::time::Duration;

use super::tested::MINUTE;
use crate::check::{Check, MAX_GROUP};
use crate::policy::{Algorithm, Mode, Policy, PolicyBuilder};

/// Callers that a careless store takes for each other, in pairs.
const CALLERS: [&[u8]; 16] = [
    b"a",
    b"b",
    b"",
    b"\0",
    b"\0\0",
    b"\r\n",
    b"a:b",
    b"A",
    b"{",
    b"}",
    b"}{",
    b"*",
    b"\xff\xfe",
    b"\xff",
    &LONG[0],
    &LONG[1],
];

/// Callers of 64 KiB and a byte, which differ only in the last one.
static LONG: [[u8; 65_537]; 2] = {
    let mut long = [[b'x'; 65_537]; 2];
    long[1][65_536] = b'y';
    long
};

/// Number of policies of one history.
const USED: usize = 5;

/// More units than any limit admits.
const LARGE: [u64; 3] = [1_000_000_000_000, 1 << 40, u64::MAX];

/// An event of a history.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// The number by which other events refer to it.
    pub(super) id: usize,
    pub(super) what: What,
    pub(super) limits: Vec<Limit>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// The clock goes on.
    Advance(Duration),
    /// The clock goes on to a microsecond before the end of a wait of the last decision, of its limits in
    /// turn, and then by microseconds.
    AdvanceToWait(usize, Duration),
    /// The clock goes on to a microsecond before the end of this event's charge, and then by microseconds.
    AdvanceToEnd(usize, Duration),
    Check,
    /// A check that the store may decide at once.
    TryCheck,
    Peek,
    /// A look that may begin a block.
    Judge,
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
        // Most stores ignore leases.
        let with_lease = |builder: PolicyBuilder| {
            let leased = builder.lease(Duration::from_millis(100));
            if leased.try_build().is_ok() { leased } else { builder }
        };
        // Every algorithm, without its parameter and with it; an algorithm without the parameter is an error.
        let shapes = Algorithm::ALL.iter().flat_map(|&algorithm| {
            let plain = Policy::builder("random").algorithm(algorithm).window(MINUTE);
            let other = Policy::builder("other").algorithm(algorithm).window(MINUTE);
            // The first three share their counts.
            [
                plain.max(5),
                with_lease(plain.max(2)),
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
        // Each with the other one of its pair.
        callers.extend(limits.iter().flat_map(|limit| [limit.caller, limit.caller ^ 1]));
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
        let mut history = History(Vec::with_capacity(events));
        while history.0.len() < events {
            match random.index(36) {
                0 => history.add_turns(self, &mut random),
                1 => history.add_end(&used, &mut random),
                2 => history.add_debts(self, &used, &mut random),
                3 => history.add_denial(self, &used, &mut random),
                _ => history.add_event(&used, &mut random),
            }
        }
        history.0
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

/// Events so far. The number of each is its place.
struct History(Vec<Event>);

impl History {
    fn add(&mut self, what: What, limits: Vec<Limit>) -> usize {
        let id = self.0.len();
        self.0.push(Event { id, what, limits });
        id
    }

    /// A random event under these policies.
    fn add_event(&mut self, used: &[usize], random: &mut Random) {
        let what = match random.index(29) {
            0..4 => What::Advance(random.micros(24_000_000)),
            4..7 => What::AdvanceToWait(random.index(6), random.micros(3)),
            7 => What::Peek,
            8 => What::UpTo,
            9..13 => What::Wait(random.micros(90_000_000)),
            13 => What::Reset,
            14..19 => What::Refund(self.earlier(random)),
            19..21 => What::TryCheck,
            21..23 => What::Judge,
            _ => What::Check,
        };
        let size = match random.index(60) {
            0 => MAX_GROUP,
            1 => 0,
            other => 1 + other % 3,
        };
        let size = match what {
            What::Wait(_) if random.index(4) > 0 => 1,
            What::Advance(_) | What::AdvanceToWait(..) | What::Refund(_) => 0,
            _ => size,
        };
        let mut limits: Vec<Limit> = (0..size).map(|_| limit(used, random)).collect();
        // Often the limits of the last event again, so that they are reached.
        let last = self.0.iter().rfind(|last| !last.limits.is_empty());
        if let Some(last) = last.filter(|last| last.limits.len() == size)
            && random.index(2) == 0
        {
            limits.clone_from(&last.limits);
        }
        if let (What::UpTo, Some(first)) = (what, limits.first().copied()) {
            // One cost for all limits.
            for limit in &mut limits {
                limit.cost = first.cost.saturating_mul(3);
            }
        }
        self.add(what, limits);
    }

    /// An earlier event; in half of the cases one of the last waits, whose turn may not be due.
    fn earlier(&self, random: &mut Random) -> usize {
        let waits = self.0.iter().rev().filter(|event| matches!(event.what, What::Wait(_)));
        let wait = waits.take(3).nth(random.index(6)).map(|event| event.id);
        let most = [1, 2, 12, 60][random.index(4)];
        wait.unwrap_or_else(|| self.0.len().saturating_sub(1 + random.index(most)))
    }

    /// Three waits of a bucket that is used up, one of which is given up, at once or after less or more than
    /// a refill.
    fn add_turns(&mut self, world: &World, random: &mut Random) {
        let is_bucket = |policy: &usize| world.policies[*policy].algorithm() == Algorithm::TokenBucket;
        let buckets: Vec<usize> = (0..world.policies.len()).filter(is_bucket).collect();
        let bucket = Limit { policy: buckets[random.index(buckets.len())], caller: random.index(2), cost: 1 };
        let burst = world.policies[bucket.policy].capacity();
        self.add(What::UpTo, vec![Limit { cost: burst, ..bucket }]);
        let waits = [(); 3].map(|()| {
            let limit = Limit { cost: 1 + random.below(burst.min(2)), ..bucket };
            self.add(What::Wait(10 * MINUTE), vec![limit])
        });
        for what in [What::Refund(waits[random.index(3)]), What::Check] {
            if random.index(2) == 0 {
                self.add(What::Advance(random.micros(90_000_000)), Vec::new());
            }
            self.add(what, if matches!(what, What::Check) { vec![bucket] } else { Vec::new() });
        }
    }

    /// A charge that is refunded a microsecond before it ends, or when it has ended.
    fn add_end(&mut self, used: &[usize], random: &mut Random) {
        let limits = vec![Limit { cost: 1 + random.below(2), ..limit(used, random) }];
        let charge = self.add(What::Check, limits.clone());
        self.add(What::AdvanceToEnd(charge, random.micros(3)), Vec::new());
        self.add(What::Refund(charge), Vec::new());
        self.add(What::Check, limits);
    }

    /// A denial, and a check that is tried later.
    fn add_denial(&mut self, world: &World, used: &[usize], random: &mut Random) {
        let limit = Limit { cost: 1, ..limit(used, random) };
        let all = Limit { cost: world.policies[limit.policy].capacity(), ..limit };
        for (what, limit) in [(What::UpTo, all), (What::Check, limit)] {
            self.add(what, vec![limit]);
        }
        self.add(What::Advance(random.micros(90_000_000)), Vec::new());
        self.add(What::TryCheck, vec![limit]);
    }

    /// Two charges of a limit that may go beyond it.
    fn add_debts(&mut self, world: &World, used: &[usize], random: &mut Random) {
        let limit = limit(used, random);
        for _ in 0..2 {
            let cost = 1 + random.below(2 * world.policies[limit.policy].max());
            self.add(What::Overdraw, vec![Limit { cost, ..limit }]);
        }
    }
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

    const fn micros(&mut self, bound: u64) -> Duration {
        Duration::from_micros(self.below(bound))
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
