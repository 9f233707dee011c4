//! A made-up day of a service, always the same: ordinary users, one crawler, and one attempt to log in with stolen passwords.

use std::io::{self, Write};

/// 2025-11-20, a Thursday, in seconds since the epoch.
const DAY: u64 = 1_763_596_800;
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// How many of 1,000 ordinary visits begin in each hour of the day.
const VISITS: [u64; 24] =
    [14, 8, 5, 4, 4, 6, 14, 28, 42, 50, 52, 54, 58, 56, 52, 50, 52, 56, 66, 78, 86, 80, 55, 30];

/// Hours of the crawler, and seconds between two of its requests at most.
const CRAWL: (u64, u64) = (2 * HOUR, 5 * HOUR);
const CRAWL_PAUSE: u64 = 2;
/// Begin and end of the attack, its addresses, and seconds between two attempts of an address.
const ATTACK: (u64, u64) = (14 * HOUR + 10 * MINUTE, 14 * HOUR + 50 * MINUTE);
const ATTACKERS: u64 = 8;
const ATTACK_PAUSE: u64 = 3;

/// One request: when, of which address, and what.
type Request = (u64, [u8; 4], What);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Search(u64),
    Item(u64),
    /// A log-in, and whether the password is right.
    LogIn(bool),
    Crawled(u64),
    Stolen,
}

/// Writes the log of the day with so many ordinary users, in the combined format.
pub(crate) fn write(users: u32, out: &mut dyn Write) -> io::Result<()> {
    for (at, [a, b, c, d], what) in requests(users) {
        let (request, status, agent) = match what {
            What::Search(word) => (format!("GET /search?q=word-{word}"), 200, "Mozilla/5.0"),
            What::Item(item) => (format!("GET /items/{item}"), 200, "Mozilla/5.0"),
            What::LogIn(true) => ("POST /login".to_owned(), 200, "Mozilla/5.0"),
            What::LogIn(false) => ("POST /login".to_owned(), 401, "Mozilla/5.0"),
            What::Crawled(item) => (format!("GET /items/{item}"), 200, "crawler/1.0"),
            What::Stolen => ("POST /login".to_owned(), 401, "python-requests/2.32"),
        };
        let second = at - DAY;
        let (hour, minute, second) = (second / HOUR, second / MINUTE % 60, second % 60);
        writeln!(
            out,
            "{a}.{b}.{c}.{d} - - [20/Nov/2025:{hour:02}:{minute:02}:{second:02} +0000] \"{request} HTTP/1.1\" {status} 512 \"-\" \"{agent}\""
        )?;
    }
    Ok(())
}

fn requests(users: u32) -> Vec<Request> {
    let mut random = Random(7);
    let mut requests = Vec::new();
    for user in 0..users {
        visits(user, &mut random, &mut requests);
    }
    let (mut at, end) = CRAWL;
    while at < end {
        requests.push((DAY + at, [203, 0, 113, 7], What::Crawled(random.below(100_000))));
        at += random.below(CRAWL_PAUSE + 1);
    }
    for attacker in 0..ATTACKERS {
        let mut at = ATTACK.0 + random.below(5 * MINUTE);
        while at < ATTACK.1 {
            requests.push((DAY + at, [198, 51, 100, last_byte(attacker)], What::Stolen));
            at += 1 + random.below(2 * ATTACK_PAUSE - 1);
        }
    }
    // The day ends at midnight.
    requests.retain(|(at, ..)| *at < DAY + 24 * HOUR);
    requests.sort_unstable();
    requests
}

/// One to three visits of a user, each with a few pages, and a log-in in every second one.
fn visits(user: u32, random: &mut Random, requests: &mut Vec<Request>) {
    let [_, b, c, d] = user.to_be_bytes();
    let address = [10, b, c, d];
    for _ in 0..=random.below(3) {
        let mut at = random.hour() * HOUR + random.below(HOUR);
        if random.below(2) == 0 {
            // One of twelve passwords is mistyped.
            while random.below(12) == 0 {
                requests.push((DAY + at, address, What::LogIn(false)));
                at += 3 + random.below(10);
            }
            requests.push((DAY + at, address, What::LogIn(true)));
        }
        for _ in 0..3 + random.below(20) {
            at += 1 + random.below(40);
            let what = if random.below(3) == 0 {
                What::Search(random.below(500))
            } else {
                What::Item(random.below(100_000))
            };
            requests.push((DAY + at, address, what));
        }
    }
}

fn last_byte(number: u64) -> u8 {
    u8::try_from(number % 250 + 1).unwrap_or(0)
}

/// Random numbers that are the same in each run: `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// An hour of the day, as often as visits begin in it.
    fn hour(&mut self) -> u64 {
        let mut rest = self.below(VISITS.iter().sum());
        let hour = VISITS.iter().position(|visits| {
            let is_in = rest < *visits;
            rest = rest.saturating_sub(*visits);
            is_in
        });
        hour.unwrap_or(0) as u64
    }
}
