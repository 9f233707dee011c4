//! Requests as people and programs make them: in sessions, in clumps, more by day than by night.

use ratelimit_core::Timestamp;
use tests::random::Random;

/// Midnight UTC of a day in 2026.
const MIDNIGHT: u64 = 1_789_948_800_000_000;
const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A kind of traffic.
pub(crate) struct Mix {
    pub(crate) name: &'static str,
    seed: u64,
    /// The longest pause of the least eager callers in the afternoon.
    pause: u64,
    /// Rates of sessions in requests a minute, and how many sessions in ten thousand have each.
    rates: &'static [(u64, u64)],
}

/// Against a limit of 100 a minute.
pub(crate) const MIXES: &[Mix] = &[
    Mix {
        name: "Ordinary traffic: few callers come near the limit",
        seed: 1,
        pause: 4 * HOUR,
        rates: &[(3, 3_000), (6, 3_000), (12, 2_700), (25, 1_100), (50, 194), (100, 5), (400, 1)],
    },
    Mix {
        name: "Heavy traffic: one session in five comes near the limit or exceeds it",
        seed: 2,
        pause: 20 * HOUR,
        rates: &[(5, 2_000), (15, 3_000), (40, 3_000), (80, 800), (100, 500), (130, 500), (400, 200)],
    },
];

/// The instants of one caller's requests, in order.
pub(crate) fn requests(mix: &Mix, caller: u64) -> impl Iterator<Item = Timestamp> {
    let mut random = Random((mix.seed << 32) + caller);
    // Half of the callers come as often as the least, a quarter twice as often, and so on: a few come very
    // often.
    let eagerness = 1 << random.next().trailing_zeros().min(6);
    let zone = random.below(6 * HOUR);
    let end = MIDNIGHT + DAY;
    let first = MIDNIGHT + random.below(2 * mix.pause / eagerness);
    let mut session = Session { random, now: first, until: 0, gap: 0, clump: 0 };
    std::iter::from_fn(move || {
        session.next(mix, eagerness, zone);
        (session.now < end).then(|| Timestamp::from_micros(session.now))
    })
}

struct Session {
    random: Random,
    now: u64,
    /// When the session ends.
    until: u64,
    /// Mean time between requests.
    gap: u64,
    /// Requests of this clump still to come.
    clump: u64,
}

impl Session {
    /// Goes to the next request.
    fn next(&mut self, mix: &Mix, eagerness: u64, zone: u64) {
        if self.clump > 0 {
            // A page and what belongs to it.
            self.clump -= 1;
            self.now += 1 + self.random.below(50_000);
            return;
        }
        self.clump = self.random.below(8);
        // As long as all the requests of the clump should have taken; uniform, so on average right.
        self.now += 1 + self.random.below(2 * self.gap * (self.clump + 1) + 1);
        if self.now >= self.until {
            // Between sessions; at four in the morning five times as long as at four in the afternoon.
            let seconds = (self.now + zone + 8 * HOUR) % DAY / SECOND;
            let noon = DAY / 2 / SECOND;
            let nightly = noon + 4 * (noon - seconds.abs_diff(noon));
            let pause = self.random.below(mix.pause / eagerness) * nightly / noon;
            self.now += pause + MINUTE;
            self.until = self.now + MINUTE + self.random.below(19 * MINUTE);
            self.gap = MINUTE / self.rate(mix.rates);
        }
    }

    fn rate(&mut self, rates: &[(u64, u64)]) -> u64 {
        let mut pick = self.random.below(rates.iter().map(|(_, sessions)| sessions).sum());
        for (rate, sessions) in rates {
            if pick < *sessions {
                return *rate;
            }
            pick -= sessions;
        }
        1
    }
}
