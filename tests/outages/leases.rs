//! Leases under faults: processes that are killed and stopped, servers that go, come back and set their clocks.
//!
//! The usual run of the soak is a small one. The full one, of ten million decisions, is
//!
//! ```text
//! LEASES=full cargo test --release -p tests --test outages processes_with_leases
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real waits")]

use std::time::{Duration, Instant};

use tempfile::TempDir;
use tests::lessees::{CALLERS, Lessee, policies, read_uses, replay};
use tests::random::Random;
use tests::redis::server;
use tests::timed::report;

const LESSEE: &str = env!("CARGO_BIN_EXE_lessee");

/// Processes, and decisions in all.
fn size_of_the_run() -> (u32, u64) {
    if std::env::var("LEASES").is_ok_and(|size| size == "full") { (8, 10_000_000) } else { (4, 150_000) }
}

/// Eight processes over one server, with kills and stops among them: every use, replayed at its own instant, passes.
#[test]
fn processes_with_leases_that_are_killed_and_stopped_admit_not_one_too_many() {
    const MAX: u64 = 4_000;
    let Some(server) = server() else { return };
    let (processes, wanted) = size_of_the_run();
    let folder = TempDir::new().unwrap();
    let started = std::cell::Cell::new(0);
    let start = || {
        started.set(started.get() + 1);
        Lessee::start(LESSEE, &server.url(), folder.path(), &started.get().to_string(), processes, MAX)
    };
    let mut lessees: Vec<Lessee> = (0..processes).map(|_| start()).collect();
    let (mut random, began) = (Random(42), Instant::now());
    let (mut kills, mut stops) = (0, 0);
    // Denials come on top.
    while read_uses_size(&folder) < wanted / 2 || kills < 3 || stops < 6 {
        assert!(began.elapsed() < Duration::from_secs(900), "too few decisions");
        std::thread::sleep(Duration::from_millis(20 + random.below(80)));
        let place = random.index(lessees.len());
        match random.below(8) {
            0 | 1 => {
                kills += 1;
                lessees.swap_remove(place).kill();
                lessees.push(start());
            }
            2..=4 => {
                stops += 1;
                lessees[place].signal("STOP");
                std::thread::sleep(Duration::from_millis(random.pick(&[5, 40, 150, 400, 1_200])));
                lessees[place].signal("CONT");
            }
            _ => {}
        }
    }
    let decisions: u64 = lessees.into_iter().map(Lessee::stop).sum();
    let policies = policies(MAX);
    let uses = read_uses(folder.path());
    let leased = uses.iter().filter(|one| one.is_leased).count();
    report(&format!(
        "{processes} processes, {kills} kills, {stops} stops: {} admitted, {leased} of them by held units, {decisions} decisions of \
         the last processes, {:.1} s",
        uses.len(),
        began.elapsed().as_secs_f64()
    ));
    for (number, policy) in policies.iter().enumerate() {
        let of_policy = |count: u16| usize::from(count) / CALLERS == number;
        let leased = uses.iter().filter(|one| of_policy(one.count) && one.is_leased).count();
        assert!(leased > 1_000, "{}: only {leased} by held units", policy.key());
    }
    assert_eq!(replay(&policies, &uses), [], "uses too many");
}

/// The number of uses so far.
fn read_uses_size(folder: &TempDir) -> u64 {
    let files = std::fs::read_dir(folder.path()).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().len() / 16).sum()
}
