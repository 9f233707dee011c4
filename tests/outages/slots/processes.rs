//! Several processes that take and free slots of the same callers, under faults.
//!
//! The usual runs are short. The soak, with eight processes, 200 callers and streams of up to 30 s, is
//!
//! ```text
//! cargo test --release -p tests --test outages streams_of_many_processes -- --ignored --nocapture
//! ```

use std::thread::sleep;
use std::time::{Duration, Instant};

use ratelimit_core::{RateLimiter, RedisStore, StoreError};
use tempfile::TempDir;
use tests::holders::{Holder, Mark, Work, begun, caller, most_at_a_time, now, policy};
use tests::noise::Noise;
use tests::outage::millis;
use tests::random::Random;
use tests::redis::server;
use tests::sentinel::{Sentinels, master_port, sentinels};
use tests::timed::report;
use tests::within;

use super::HOLDER;
use crate::failover::wait_until;

/// Time until slots of a crashed process are free. On a busy machine the test may notice later.
const FREE_WITHIN: Duration = Duration::from_secs(10);

/// Processes over one server, and the requests that ran in them.
struct Run {
    url: String,
    folder: TempDir,
    work: Work,
    holders: Vec<Holder>,
    started: u32,
    /// Requests of processes that are gone.
    marks: Vec<Mark>,
    /// Peeks at the slots. It is connected from the start, as the processes are.
    observer: RateLimiter,
    random: Random,
    noise: Noise,
}

/// A run that is over.
struct Ran {
    marks: Vec<Mark>,
    /// Time from the end of the last process until all slots were free.
    free_after: Duration,
    /// The error of the last peek that failed.
    unanswered: Option<StoreError>,
}

impl Run {
    fn start(url: &str, work: Work, processes: usize) -> Self {
        let (folder, url) = (TempDir::new().unwrap(), url.to_owned());
        let (holders, marks) = (Vec::new(), Vec::new());
        let observer = RateLimiter::new(RedisStore::builder(&url).build().unwrap());
        let (random, noise) = (Random(42), Noise::watch());
        let mut run = Self { url, folder, work, holders, started: 0, marks, observer, random, noise };
        (0..processes).for_each(|_| run.start_one());
        run
    }

    fn start_one(&mut self) {
        self.started += 1;
        let name = self.started.to_string();
        self.holders.push(Holder::start(HOLDER, &self.url, self.folder.path(), &name, self.work));
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
        sleep(time);
        self.holders[place].signal("CONT");
    }

    /// The requests that have begun.
    fn requests(&self) -> usize {
        begun(&self.marks) + self.holders.iter().map(|holder| begun(&holder.marks())).sum::<usize>()
    }

    /// Kills all processes, and waits until all slots are free. Fails if that takes too long.
    async fn end(mut self) -> Ran {
        for holder in self.holders.drain(..) {
            self.marks.extend(holder.kill());
        }
        let gone = Instant::now();
        let (mut free_after, mut unanswered) = (Duration::ZERO, None);
        let policy = policy(self.work.max);
        for number in 0..self.work.callers {
            loop {
                match self.observer.peek(&policy, caller(number)).await {
                    Ok(peeked) if peeked.remaining() == self.work.max => break,
                    Ok(_) => free_after = gone.elapsed(),
                    Err(error) => unanswered = Some(error),
                }
                assert!(gone.elapsed() < Duration::from_secs(60), "held for {free_after:?}, {unanswered:?}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        assert!(free_after < FREE_WITHIN + self.noise.slack(), "{free_after:?}, {unanswered:?}");
        Ran { marks: self.marks, free_after, unanswered }
    }
}

impl Ran {
    fn requests(&self) -> usize {
        begun(&self.marks)
    }

    /// The largest number of requests of one caller that ran at a time, between two instants.
    fn most(&self, from: u64, till: u64) -> i64 {
        most_at_a_time(&self.marks, from..till)
    }
}

#[tokio::test]
async fn killed_and_stopped_processes_and_cut_connections_never_exceed_the_limit() {
    let Some(server) = server() else { return };
    let work = Work { callers: 2, max: 6, tasks: 10, longest: 1_500 };
    let mut run = Run::start(&server.url(), work, 3);
    for _ in 0..3 {
        sleep(Duration::from_millis(400));
        server.kill_clients();
        run.stop_one(Duration::from_millis(700));
        run.kill_one();
    }
    sleep(Duration::from_millis(400));
    assert!(within(Duration::from_secs(60), || run.requests() > 100), "{} requests", run.requests());
    let ran = run.end().await;
    let (most, requests, free_after) = (ran.most(0, u64::MAX), ran.requests(), ran.free_after);
    report(&format!(
        "at most {most} of 6 at a time in {requests} requests; all slots free {free_after:.1?} after the last process was killed"
    ));
    assert_eq!(most, 6, "never more, and the limit is reached");
}

/// A master fails while slots are held. Returns the instant of the fault, and of the promotion of a replica.
async fn fail_over(set_up: &mut Sentinels, fail: impl FnOnce(&mut Sentinels)) -> (u64, u64) {
    let (watcher, first) = (set_up.watcher(2), set_up.master.port());
    let fault = now();
    fail(set_up);
    wait_until(move || master_port(watcher).is_some_and(|port| port != first)).await;
    (fault, now())
}

/// The replica may lack the last writes. So more requests may run until each process has reported its slots,
/// which takes at most 3.5 s, and until the requests that began before have ended.
async fn lose_a_master(name: &str, fail: impl FnOnce(&mut Sentinels), recover: impl FnOnce(&mut Sentinels)) {
    let Some(mut set_up) = sentinels().await else { return };
    let noise = Noise::watch();
    let work = Work { callers: 2, max: 6, tasks: 10, longest: 1_500 };
    let run = Run::start(&set_up.url(), work, 3);
    sleep(Duration::from_millis(1_500));
    let (fault, promoted) = fail_over(&mut set_up, fail).await;
    sleep(Duration::from_secs(2));
    recover(&mut set_up);
    sleep(Duration::from_secs(7));
    let settled = promoted + 5_500_000 + u64::try_from(noise.slack().as_micros()).unwrap();
    let ran = run.end().await;
    let spans = [(0, fault), (fault, settled), (settled, u64::MAX)];
    let [before, meanwhile, after] = spans.map(|(from, till)| ran.most(from, till));
    report(&format!(
        "{name}: promoted after {} ms; at most {before} of 6 at a time before, {meanwhile} in the 5 s after it and {after} later, \
         in {} requests; all slots free {:.1?} after the last process was killed, {:?} (noise {:.1} ms)",
        (promoted - fault) / 1_000,
        ran.requests(),
        ran.free_after,
        ran.unanswered,
        millis(noise.worst())
    ));
    assert_eq!((before, after), (6, 6), "{name}: never more, and the limit is reached");
    assert!(meanwhile <= 12, "{name}: {meanwhile}");
}

#[tokio::test]
async fn slots_are_counted_again_soon_after_a_master_was_killed() {
    lose_a_master("Sentinel, master killed", |set_up| set_up.master.kill(), |_| {}).await;
}

#[tokio::test]
async fn slots_are_counted_again_soon_after_a_master_hung() {
    let stop = |set_up: &mut Sentinels| set_up.master.signal("STOP");
    lose_a_master("Sentinel, master hung", stop, |set_up| set_up.master.signal("CONT")).await;
}

const SOAK: Work = Work { callers: 200, max: 3, tasks: 60, longest: 30_000 };

#[tokio::test]
#[ignore = "takes three minutes"]
async fn streams_of_many_processes_never_exceed_the_limit() {
    let Some(server) = server() else { return };
    let mut run = Run::start(&server.url(), SOAK, 8);
    let (mut kills, mut stops, mut cuts) = (0, 0, 0);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(150) {
        sleep(Duration::from_millis(500 + run.random.below(1_500)));
        match run.random.below(4) {
            0 => {
                run.kill_one();
                kills += 1;
            }
            1 => {
                run.stop_one(Duration::from_secs(5));
                stops += 1;
            }
            2 => {
                server.kill_clients();
                cuts += 1;
            }
            _ => {}
        }
    }
    let ran = run.end().await;
    let (most, requests, free_after) = (ran.most(0, u64::MAX), ran.requests(), ran.free_after);
    report(&format!(
        "{kills} kills, {stops} stops of 5 s, all connections cut {cuts} times: at most {most} of 3 at a time in {requests} requests; \
         all slots free {free_after:.1?} after the last process was killed"
    ));
    assert_eq!(most, 3, "never more, and the limit is reached");
}

/// Faults after which more requests may run. After each fault, the longest stream ends before the next fault.
#[tokio::test]
#[ignore = "takes five minutes"]
async fn streams_of_many_processes_exceed_the_limit_by_no_more_than_the_unreported_slots() {
    let rest = || sleep(Duration::from_millis(SOAK.longest + 5_000));
    for round in 1..=2 {
        let Some(mut set_up) = sentinels().await else { return };
        let mut run = Run::start(&set_up.url(), SOAK, 8);
        sleep(Duration::from_secs(10));
        let began = now();
        run.stop_one(Duration::from_secs(20));
        rest();
        let lost = now();
        set_up.master.must("FLUSHALL");
        rest();
        let (fault, promoted) = fail_over(&mut set_up, |set_up| set_up.master.kill()).await;
        rest();
        let ran = run.end().await;
        let spans = [(0, began), (began, lost), (lost, fault), (fault, u64::MAX)];
        let [calm, stopped, lost, failed_over] = spans.map(|(from, till)| ran.most(from, till));
        report(&format!(
            "round {round}: at most {calm} of 3 at a time before the faults, {stopped} with a stop of 20 s, {lost} with lost data, \
             {failed_over} with a fail-over in {} ms, in {} requests; all slots free {:.1?} after the last process was killed",
            (promoted - fault) / 1_000,
            ran.requests(),
            ran.free_after
        ));
        assert_eq!(calm, 3);
        assert!([stopped, lost, failed_over].iter().all(|most| (3..=6).contains(most)));
    }
}
