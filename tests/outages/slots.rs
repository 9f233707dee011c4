//! Slots under faults: processes that are killed and stopped, connections that are cut, data that is lost.
//!
//! The usual run of the soak is a short one. The long one, of eight processes, 200 callers and streams of up to 30 s, is
//!
//! ```text
//! cargo test --release -p tests --test outages streams_of_many_processes -- --ignored --nocapture
//! ```
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real waits")]

use std::time::{Duration, Instant};

use ratelimit_core::{Check, Policy, RateLimiter, RedisStore};
use tempfile::TempDir;
use tests::holders::{Holder, Mark, Work, caller, most_at_a_time, policy};
use tests::random::Random;
use tests::redis::{Server, server};
use tests::timed::report;

const HOLDER: &str = env!("CARGO_BIN_EXE_holder");

/// Processes over one server, and the faults that they met.
struct Run<'s> {
    server: &'s Server,
    folder: TempDir,
    work: Work,
    holders: Vec<Holder>,
    started: u32,
    /// What ran in processes that are gone.
    marks: Vec<Mark>,
    random: Random,
}

impl<'s> Run<'s> {
    fn start(server: &'s Server, work: Work, processes: usize) -> Self {
        let folder = TempDir::new().unwrap();
        let (holders, marks) = (Vec::new(), Vec::new());
        let mut run = Self { server, folder, work, holders, started: 0, marks, random: Random(42) };
        (0..processes).for_each(|_| run.start_one());
        run
    }

    fn start_one(&mut self) {
        self.started += 1;
        let name = self.started.to_string();
        self.holders.push(Holder::start(HOLDER, &self.server.url(), self.folder.path(), &name, self.work));
    }

    fn kill_one(&mut self) {
        let place = self.random.index(self.holders.len());
        let marks = self.holders.swap_remove(place).kill();
        self.marks.extend(marks);
        self.start_one();
    }

    fn stop_one(&mut self, time: Duration) {
        let place = self.random.index(self.holders.len());
        self.holders[place].signal("STOP");
        std::thread::sleep(time);
        self.holders[place].signal("CONT");
    }

    /// Kills all processes. Returns the most that ran at a time, the number of requests, and how long until all slots were free.
    async fn end(mut self) -> (i64, usize, Duration) {
        for holder in self.holders.drain(..) {
            self.marks.extend(holder.kill());
        }
        let gone = Instant::now();
        let limiter = RateLimiter::new(RedisStore::builder(&self.server.url()).build().unwrap());
        let policy = policy(self.work.max);
        for number in 0..self.work.callers {
            while limiter.peek(&policy, caller(number)).await.map_or(0, |peeked| peeked.remaining())
                < self.work.max
            {
                assert!(gone.elapsed() < Duration::from_secs(30), "slots that no request holds");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        let free_after = gone.elapsed();
        let requests = self.marks.iter().filter(|mark| mark.begins).count();
        (most_at_a_time(self.marks), requests, free_after)
    }
}

#[tokio::test]
async fn killed_and_stopped_processes_and_cut_connections_never_exceed_the_limit() {
    let Some(server) = server() else { return };
    let work = Work { callers: 2, max: 6, tasks: 10, longest: 1_500 };
    let mut run = Run::start(&server, work, 3);
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(400));
        server.kill_clients();
        run.stop_one(Duration::from_millis(700));
        run.kill_one();
    }
    std::thread::sleep(Duration::from_millis(400));
    let (most, requests, free_after) = run.end().await;
    report(&format!(
        "at most {most} of 6 at a time in {requests} requests; all slots free {free_after:.1?} after the last process was killed"
    ));
    assert!(requests > 100);
    assert_eq!(most, 6, "never more, and the limit is reached");
    assert!(free_after < Duration::from_millis(10_500), "{free_after:?}");
}

static STREAMS: Policy = Policy::concurrency("streams", 3);

fn limiter(server: &Server) -> RateLimiter {
    RateLimiter::new(RedisStore::builder(&server.url()).build().unwrap())
}

async fn until_up(limiter: &RateLimiter) {
    let began = Instant::now();
    while limiter.peek(&STREAMS, "a").await.map_or(true, |peeked| peeked.is_degraded()) {
        assert!(began.elapsed() < Duration::from_secs(20), "the store does not come back");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The server comes back empty. What runs is told of before anything else on the new connection.
#[tokio::test]
async fn a_server_that_lost_its_data_is_told_what_runs_before_anything_else() {
    let Some(mut server) = server() else { return };
    let holder = limiter(&server);
    until_up(&holder).await;
    let slots = [holder.acquire(&STREAMS, "a").await.unwrap(), holder.acquire(&STREAMS, "a").await.unwrap()];
    assert!(slots.iter().all(|slot| slot.as_ref().is_ok_and(|slot| !slot.is_empty())));
    server.restart();
    until_up(&holder).await;
    let other = limiter(&server);
    until_up(&other).await;
    assert_eq!(other.peek(&STREAMS, "a").await.unwrap().remaining(), 1);
    // Lost without a new connection: with the next renewal.
    server.must("FLUSHALL");
    let lost = Instant::now();
    while other.peek(&STREAMS, "a").await.unwrap().remaining() != 1 {
        assert!(lost.elapsed() < Duration::from_secs(5), "not told again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    report(&format!("told again {:.1?} after the data was lost", lost.elapsed()));
    drop(slots);
}

/// Slots of an outage count in the process, and are freed there.
#[tokio::test]
async fn slots_of_an_outage_are_counted_in_the_process() {
    let Some(mut server) = server() else { return };
    let limiter = limiter(&server);
    until_up(&limiter).await;
    server.kill();
    let began = Instant::now();
    while !limiter.peek(&STREAMS, "a").await.unwrap().is_degraded() {
        assert!(began.elapsed() < Duration::from_secs(10), "the loss is not noticed");
    }
    let held: Vec<_> = [
        limiter.acquire(&STREAMS, "a").await,
        limiter.acquire(&STREAMS, "a").await,
        limiter.acquire(&STREAMS, "a").await,
    ]
    .into_iter()
    .map(|slot| slot.unwrap().unwrap())
    .collect();
    let busy = limiter.acquire(&STREAMS, "a").await.unwrap().unwrap_err();
    assert!(busy.is_busy() && busy.is_degraded());
    drop(held);
    assert!(limiter.acquire(&STREAMS, "a").await.unwrap().is_ok());
    server.restart();
    until_up(&limiter).await;
    assert_eq!(limiter.peek(&STREAMS, "a").await.unwrap().remaining(), 3);
}

/// A connection that is cut loses replies. What they granted is free again with the next message.
#[tokio::test]
async fn a_lost_reply_costs_a_slot_until_the_next_message() {
    let Some(server) = server() else { return };
    let limiter = limiter(&server);
    until_up(&limiter).await;
    let wide = Policy::concurrency("wide", 1_000);
    let slot = limiter.acquire(&wide, "a").await.unwrap().unwrap();
    for _ in 0..20 {
        let asked: Vec<_> = (0..20).map(|_| limiter.acquire(&wide, "a")).collect();
        let asked = futures_util::future::join_all(asked);
        let cut = async { server.kill_clients() };
        let _ = futures_util::future::join(asked, cut).await;
        until_up(&limiter).await;
    }
    let other = limiter_that_is_up(&server).await;
    let began = Instant::now();
    while other.peek(&wide, "a").await.unwrap().remaining() != 999 {
        assert!(began.elapsed() < Duration::from_secs(8), "slots that no request holds");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    report(&format!("only what runs is held {:.1?} after the last loss", began.elapsed()));
    drop(slot);
}

async fn limiter_that_is_up(server: &Server) -> RateLimiter {
    let limiter = limiter(server);
    until_up(&limiter).await;
    limiter
}

#[tokio::test]
#[ignore = "takes five minutes"]
async fn streams_of_many_processes_stay_within_the_told_bounds() {
    let Some(server) = server() else { return };
    let work = Work { callers: 200, max: 3, tasks: 60, longest: 30_000 };
    // Faults after which never more than the limit may run.
    let mut run = Run::start(&server, work, 8);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(150) {
        std::thread::sleep(Duration::from_millis(500 + run.random.below(1_500)));
        match run.random.below(4) {
            0 => run.kill_one(),
            1 => run.stop_one(Duration::from_secs(5)),
            2 => server.kill_clients(),
            _ => {}
        }
    }
    let (most, requests, free_after) = run.end().await;
    report(&format!(
        "kills, stops of 5 s and cut connections: at most {most} of 3 at a time in {requests} requests; all slots free \
         {free_after:.1?} after the last process was killed"
    ));
    assert_eq!(most, 3);
    assert!(free_after < Duration::from_millis(10_500), "{free_after:?}");
    // Faults after which as many more may run.
    let mut run = Run::start(&server, work, 8);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_secs(5));
        match run.random.below(2) {
            0 => run.stop_one(Duration::from_secs(20)),
            _ => server.must("FLUSHALL"),
        }
    }
    let (most, requests, free_after) = run.end().await;
    report(&format!(
        "stops of 20 s and lost data: at most {most} at a time, of 3, in {requests} requests; all slots free {free_after:.1?} after \
         the last process was killed"
    ));
    assert!((3..=6).contains(&most), "{most}");
    assert!(free_after < Duration::from_millis(10_500), "{free_after:?}");
}

/// A group of several callers is decided caller by caller in a cluster: nothing is held of a denied one, and all of an admitted one.
#[tokio::test]
async fn a_denied_group_of_several_callers_in_a_cluster_holds_no_slot() {
    let Some(cluster) = tests::cluster::cluster(false).await else { return };
    let limiter = || {
        let store = RedisStore::builder(&cluster.url()).deadline(Duration::from_secs(10)).build().unwrap();
        RateLimiter::new(store)
    };
    let (limiter, other) = (limiter(), limiter());
    until_up(&limiter).await;
    let one = Policy::concurrency("one", 1);
    let callers: Vec<String> = (0..8).map(|number| format!("caller-{number}")).collect();
    let group: Vec<Check<'_>> = callers.iter().map(|caller| Check::new(&one, caller)).collect();
    let last = other.acquire(&one, &callers[7]).await.unwrap().unwrap();
    let denied = limiter.check_all(&group).await.unwrap();
    assert!(denied.is_busy() && !denied.outcomes()[0].is_busy());
    for caller in &callers[..7] {
        let began = Instant::now();
        while !other.peek(&one, caller).await.unwrap().is_allowed() {
            assert!(began.elapsed() < Duration::from_secs(5), "{caller}");
        }
    }
    drop(last);
    let began = Instant::now();
    let held = loop {
        let outcome = limiter.check_all(&group).await.unwrap();
        if outcome.is_allowed() {
            break outcome;
        }
        assert!(began.elapsed() < Duration::from_secs(5));
    };
    // Longer than an entry lives without renewals.
    tokio::time::sleep(Duration::from_secs(11)).await;
    for caller in &callers {
        assert!(other.peek(&one, caller).await.unwrap().is_busy(), "{caller}");
    }
    drop(held);
}
