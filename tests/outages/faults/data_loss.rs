//! What a server may forget: scripts, writes that were not replicated, evicted keys.

use std::time::{Duration, Instant};

use ratelimit_core::{Algorithm, OnError, Policy};
use tests::proxy::{Mode, Proxy};
use tests::redis::{server, server_with};

use super::patient;

#[tokio::test(flavor = "multi_thread")]
async fn flushing_scripts_every_10_ms_causes_no_error_and_no_lost_count() {
    let Some(server) = server() else { return };
    let limiter = patient(&server.url());
    let (mut console, done) =
        (server.console(), std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)));
    let stop = std::sync::Arc::clone(&done);
    let storm = std::thread::spawn(move || {
        let mut flushes = 0;
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            console.must("SCRIPT FLUSH");
            flushes += 1;
            std::thread::sleep(Duration::from_millis(10));
        }
        flushes
    });
    for &algorithm in Algorithm::ALL {
        let day = Duration::from_secs(86_400 * 30);
        let policy = Policy::builder("storm")
            .algorithm(algorithm)
            .max(2000)
            .window(day)
            .on_error(OnError::Deny)
            .build();
        let tasks = (0..16).map(|_| {
            let (limiter, policy) = (limiter.clone(), policy.clone());
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..150 {
                    admitted += u32::from(limiter.check(&policy, "a").await.unwrap().is_allowed());
                }
                admitted
            })
        });
        let tasks: Vec<_> = tasks.collect();
        let mut admitted = 0;
        for task in tasks {
            admitted += task.await.unwrap();
        }
        assert_eq!(admitted, 2000, "{algorithm}");
    }
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    println!("{} floods of forgetting", storm.join().unwrap());
}

#[tokio::test]
async fn a_failover_loses_only_what_was_not_replicated() {
    static HUNDRED: Policy = Policy::builder("failover")
        .max(100)
        .window(Duration::from_secs(3600))
        .algorithm(Algorithm::SlidingWindowLog)
        .on_error(OnError::Deny)
        .build();
    let Some(mut master) = server() else { return };
    let replication = Proxy::before(master.port());
    let Some(replica) = server_with(&format!("--replicaof 127.0.0.1 {}", replication.port())) else { return };
    let linked = || {
        let mut raw = replica.console();
        raw.query("ROLE");
        // Array of five: the role, the master's host and port, the state of the link, the offset.
        let lines: Vec<String> = (0..7).map(|_| raw.read()).collect();
        lines.iter().any(|line| line == "connected")
    };
    assert!(tests::within(Duration::from_secs(20), linked), "the replica never synchronised");
    let proxy = Proxy::before(master.port());
    let limiter = patient(&proxy.url());
    let admitted = async |tries: usize| {
        let mut admitted = 0;
        for _ in 0..tries {
            admitted +=
                usize::from(limiter.check(&HUNDRED, "a").await.is_ok_and(|outcome| outcome.is_allowed()));
        }
        admitted
    };
    assert_eq!(admitted(40).await, 40);
    // It waits for what its own connection has written.
    let mut console = master.console();
    console.must("SET mark here");
    assert_eq!(console.query("WAIT 1 10000"), ":1");
    // From here on the replica hears nothing.
    replication.set(Mode::Swallow);
    assert_eq!(admitted(30).await, 30);
    master.kill();
    proxy.retarget(replica.port());
    replica.must("REPLICAOF NO ONE");
    let end = Instant::now() + Duration::from_secs(20);
    while limiter.peek(&HUNDRED, "a").await.is_err() {
        assert!(Instant::now() < end, "the new master is not used");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let after = admitted(200).await;
    println!("failover: {} of 100 admitted, 30 were not replicated", 70 + after);
    assert_eq!(after, 60);
}
