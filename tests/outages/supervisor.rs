//! The supervisor of the connection: its settings, what is an outage and what is not, and what it reports.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real waits")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ratelimit_core::{
    Breaker, Policy, RateLimiter, RedisConfigError, RedisCredentials, RedisStore, StoreError,
};
use tests::clock::clocked_server;
use tests::cluster::cluster;
use tests::lane::Lane;
use tests::log::Log;
use tests::outage::PROBE;
use tests::own_process::in_own_process;
use tests::proxy::{Mode, Proxy};
use tests::redis::server;
use tests::within;
use tracing::Level;

const SECOND: Duration = Duration::from_secs(1);

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn decides(limiter: &RateLimiter) -> bool {
    block_on(limiter.check(&PROBE, "a")).is_ok()
}

fn connected(store: RedisStore) -> RateLimiter {
    let limiter = RateLimiter::new(store);
    assert!(within(20 * SECOND, || decides(&limiter)), "never connected");
    limiter
}

// ---- Settings ---------------------------------------------------------------------------------------------

#[test]
fn settings_out_of_bounds_are_rejected_by_name() {
    const URL: &str = "redis://127.0.0.1:1/";
    let builder = || RedisStore::builder(URL);
    let (zero, hours, ok) = (Duration::ZERO, 2 * 3600 * SECOND, SECOND);
    for (builder, expected) in [
        (builder().deadline(zero), "deadline"),
        (builder().deadline(Duration::MAX), "deadline"),
        (builder().connect_timeout(Duration::from_micros(999)), "connect_timeout"),
        (builder().connect_timeout(hours), "connect_timeout"),
        (builder().backoff(zero..=ok), "backoff"),
        (builder().backoff(ok..=hours), "backoff"),
        (builder().backoff(ok..=ok / 2), "backoff"),
        (builder().ping_interval(zero), "ping_interval"),
        (builder().ping_interval(Duration::MAX), "ping_interval"),
        (builder().breaker(Breaker::new().timeouts(0).errors(5)), "breaker"),
        (builder().breaker(Breaker::new().timeouts(3).errors(0)), "breaker"),
        (builder().breaker(Breaker::new().timeouts(1001).errors(5)), "breaker"),
    ] {
        let error = builder.build().unwrap_err();
        assert!(
            matches!(error, RedisConfigError::Setting { setting, .. } if setting == expected),
            "{error:?}"
        );
        assert!(error.to_string().starts_with(&format!("`{expected}` must be ")), "{error}");
    }
    let shortest = Duration::from_millis(1);
    let least = builder().deadline(shortest).connect_timeout(shortest).backoff(shortest..=shortest);
    least.ping_interval(shortest).breaker(Breaker::new().timeouts(1).errors(1)).build().unwrap();
    let longest = 3600 * SECOND;
    let most = builder().deadline(longest).connect_timeout(longest).backoff(longest..=longest);
    most.ping_interval(longest).breaker(Breaker::new().timeouts(1000).errors(1000)).build().unwrap();
}

/// Counts connections, and ends each at once or keeps it open without a word.
fn counting(keeps: bool) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}/", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        while let Ok((connection, _)) = listener.accept() {
            counter.fetch_add(1, Ordering::SeqCst);
            if keeps {
                kept.push(connection);
            }
        }
    });
    (url, count)
}

#[test]
fn connection_attempts_keep_the_configured_pauses() {
    let (url, count) = counting(false);
    let pause = Duration::from_millis(300);
    let began = Instant::now();
    let _limiter = RateLimiter::new(RedisStore::builder(&url).backoff(pause..=pause).build().unwrap());
    assert!(within(20 * SECOND, || count.load(Ordering::SeqCst) >= 4), "four attempts at least");
    // One at once, then one after each pause.
    assert!(began.elapsed() >= 3 * pause, "{:?}", began.elapsed());
}

/// A server that gives each command the reply of a function. Counts connections.
fn replying(reply: impl Fn(&[Vec<u8>]) -> String + Copy + Send + 'static) -> (String, Arc<AtomicUsize>) {
    fn number(reader: &mut BufReader<TcpStream>, mark: &str) -> io::Result<usize> {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let number = line.trim_end().strip_prefix(mark).and_then(|number| number.parse().ok());
        number.ok_or_else(|| io::Error::other(line))
    }
    fn serve(mut stream: TcpStream, reply: impl Fn(&[Vec<u8>]) -> String) -> io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        loop {
            let mut words = Vec::new();
            for _ in 0..number(&mut reader, "*")? {
                let mut word = vec![0; number(&mut reader, "$")? + 2];
                reader.read_exact(&mut word)?;
                words.push(word);
            }
            stream.write_all(reply(&words).as_bytes())?;
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            counter.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || serve(stream, reply));
        }
    });
    (address, count)
}

/// The reply of a server that runs the probe of a connection, and refuses every other command.
fn reply_to_probe(words: &[Vec<u8>]) -> String {
    // A check has arguments behind its keys.
    let keys = words.get(2).and_then(|count| str::from_utf8(count).ok()?.trim().parse::<usize>().ok());
    let is_probe = keys.is_some_and(|count| words.len() == 3 + count);
    let reply = match words[0].as_slice() {
        b"EVALSHA\r\n" if is_probe => ":1790000000\r\n",
        b"UNLINK\r\n" => ":15\r\n",
        _ => "-ERR user_script:1: of no use\r\n",
    };
    reply.to_owned()
}

#[test]
fn a_server_that_fails_every_script_is_connected_to_anew_after_each_pause() {
    let (address, count) = replying(reply_to_probe);
    let pause = Duration::from_millis(200);
    let builder = RedisStore::builder(&format!("redis://{address}/")).backoff(pause..=pause).deadline(SECOND);
    let limiter = RateLimiter::new(builder.build().unwrap());
    let (began, mut rejected) = (Instant::now(), 0);
    let connected_anew = within(60 * SECOND, || {
        match block_on(limiter.check(&PROBE, "a")).unwrap_err() {
            StoreError::Rejected { .. } => rejected += 1,
            error => assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}"),
        }
        count.load(Ordering::SeqCst) >= 4
    });
    assert!(connected_anew, "{rejected} errors, {} connections", count.load(Ordering::SeqCst));
    assert!(began.elapsed() >= 3 * pause, "four connections within {:?}", began.elapsed());
    assert!(rejected >= 15, "{rejected} errors: five for each connection");
}

/// Proxies may refuse any other command, and servers may log that the user is not permitted to send it.
#[test]
fn the_first_command_of_a_connection_is_the_probe() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}/", listener.local_addr().unwrap());
    let _limiter = RateLimiter::redis(&url).unwrap();
    let mut sent = [0; 16];
    listener.accept().unwrap().0.read_exact(&mut sent).unwrap();
    assert_eq!(sent.as_slice(), b"*4\r\n$7\r\nEVALSHA\r", "{}", sent.escape_ascii());
}

#[test]
fn a_connection_attempt_ends_at_the_configured_timeout() {
    let shortest = Duration::from_millis(1);
    // With the default, 60 attempts take 30 s.
    for (timeout, attempts) in [(Duration::from_millis(50), 60), (Duration::from_millis(1_500), 2)] {
        let (url, count) = counting(true);
        // With a password, so that an attempt waits for the server's reply to it.
        let url = url.replace("redis://", "redis://:s3cret@");
        let began = Instant::now();
        let builder = RedisStore::builder(&url).connect_timeout(timeout).backoff(shortest..=shortest);
        let _limiter = RateLimiter::new(builder.build().unwrap());
        assert!(within(20 * SECOND, || count.load(Ordering::SeqCst) >= attempts), "{timeout:?}");
        assert!(began.elapsed() >= (u32::try_from(attempts).unwrap() - 1) * timeout, "{:?}", began.elapsed());
    }
}

/// To find the master, and to connect to it.
#[test]
fn an_attempt_by_way_of_a_sentinel_has_the_time_of_two() {
    const STEP: Duration = Duration::from_millis(350);
    // The sentinel names itself, and is slow in both roles.
    static PORT: OnceLock<String> = OnceLock::new();
    let (address, _) = replying(|words| {
        if words[0].starts_with(b"SENTINEL") {
            std::thread::sleep(STEP);
            let port = PORT.wait();
            return format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len());
        }
        if words[0].starts_with(b"ROLE") {
            std::thread::sleep(STEP);
            return MASTER.to_owned();
        }
        reply_to_probe(words)
    });
    PORT.set(address.rsplit(':').next().unwrap().to_owned()).unwrap();
    let builder = RedisStore::builder(&format!("redis-sentinel://{address}/main"));
    let limiter = RateLimiter::new(builder.connect_timeout(STEP * 10 / 7).build().unwrap());
    assert!(within(20 * SECOND, || limiter.is_ready()), "both steps have to end in the time of one");
}

/// What a master replies to `ROLE`.
const MASTER: &str = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";

#[test]
fn behind_a_sentinel_a_slow_function_for_credentials_leaves_the_master_its_time() {
    const STEP: Duration = Duration::from_millis(700);
    static PORT: OnceLock<String> = OnceLock::new();
    let (address, _) = replying(|words| match words[0].as_slice() {
        b"SENTINEL\r\n" => {
            let port = PORT.wait();
            format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len())
        }
        b"AUTH\r\n" => "+OK\r\n".to_owned(),
        b"ROLE\r\n" => {
            std::thread::sleep(STEP);
            MASTER.to_owned()
        }
        _ => reply_to_probe(words),
    });
    PORT.set(address.rsplit(':').next().unwrap().to_owned()).unwrap();
    let builder = RedisStore::builder(&format!("redis-sentinel://{address}/main"));
    let builder = builder.connect_timeout(SECOND).deadline(SECOND).credentials(|| {
        std::thread::sleep(STEP);
        Ok(RedisCredentials::password("s3cret"))
    });
    let limiter = RateLimiter::new(builder.build().unwrap());
    assert!(within(20 * SECOND, || limiter.is_ready()), "both have to end in the time of one");
}

/// A full server evicts keys between two commands, and those of the probe are the first to expire.
#[test]
fn a_server_that_evicts_keys_of_its_probe_is_one_server() {
    let (address, _) = replying(|words| match words {
        // None of the keys is there when they are written again.
        [name, _, count, ..] if name == b"EVALSHA\r\n" && count == b"16\r\n" => ":0\r\n".to_owned(),
        [name, ..] if name == b"UNLINK\r\n" => ":14\r\n".to_owned(),
        _ => reply_to_probe(words),
    });
    let builder = RedisStore::builder(&format!("redis://{address}/")).deadline(SECOND);
    let limiter = RateLimiter::new(builder.build().unwrap());
    assert!(within(20 * SECOND, || limiter.is_ready()));
}

#[test]
fn a_request_waits_for_no_connection_after_an_attempt_that_failed() {
    // Nothing listens at this port any more.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let pause = 3600 * SECOND;
    let builder = RedisStore::builder(&format!("redis://127.0.0.1:{port}/")).deadline(20 * SECOND);
    let limiter = RateLimiter::new(builder.backoff(pause..=pause).build().unwrap());
    // The first check may come before the attempt has failed.
    for round in 0..3 {
        let began = Instant::now();
        let error = block_on(limiter.check(&PROBE, "a")).unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{round}: {error:?}");
        assert!(began.elapsed() < 10 * SECOND, "{round}: {:?}", began.elapsed());
    }
}

#[test]
fn an_idle_connection_is_probed_at_the_configured_interval() {
    let Some(server) = server() else { return };
    for (interval, replaced) in [(Duration::from_millis(50), true), (3600 * SECOND, false)] {
        let proxy = Proxy::before(server.port());
        let limiter = connected(RedisStore::builder(&proxy.url()).ping_interval(interval).build().unwrap());
        proxy.swallow_present();
        // No check is sent meanwhile.
        let patience = if replaced { 20 * SECOND } else { SECOND };
        assert_eq!(within(patience, || proxy.accepted() > 1), replaced, "{interval:?}");
        assert!(!replaced || within(20 * SECOND, || limiter.is_ready()));
    }
}

/// The number of requests, of twenty, that wait for the deadline when the server hangs.
fn waits_in_vain(builder: ratelimit_core::RedisStoreBuilder, server: &tests::redis::Server) -> usize {
    let deadline = Duration::from_millis(50);
    // A ping would be one more command that is late.
    let limiter = connected(builder.deadline(deadline).ping_interval(3600 * SECOND).build().unwrap());
    server.signal("STOP");
    let waits = (0..20).filter(|_| {
        let error = block_on(limiter.check(&PROBE, "a")).unwrap_err();
        matches!(error, StoreError::Timeout { .. })
    });
    let waits = waits.count();
    server.signal("CONT");
    waits
}

#[test]
fn the_circuit_breaker_opens_after_the_configured_number_of_timeouts() {
    let Some(server) = server() else { return };
    let builder = || RedisStore::builder(&server.url());
    let waits = [
        builder().breaker(Breaker::new().timeouts(1).errors(1)),
        builder(),
        builder().breaker(Breaker::new().timeouts(7).errors(5)),
    ]
    .map(|builder| waits_in_vain(builder, &server));
    assert_eq!(waits, [1, 3, 7]);
}

// ---- What is an outage, and what is not -------------------------------------------------------------------

#[tokio::test]
async fn timeouts_with_replies_between_them_are_not_an_outage() {
    let Some(server) = server() else { return };
    for lane in Lane::BOTH {
        let proxy = Proxy::before(server.port());
        let builder = RedisStore::builder(&proxy.url()).ping_interval(3600 * SECOND);
        let limiter = RateLimiter::new(builder.deadline(SECOND).build().unwrap());
        lane.until_connected(&limiter).await;
        let connections = proxy.accepted();
        for round in 0..2 {
            proxy.set(Mode::Hold);
            // By the timeout of the second, the call of the first has ended without a reply, too.
            for _ in 0..2 {
                let error = lane.check(&limiter, &PROBE, "a").await.unwrap_err();
                assert!(matches!(error, StoreError::Timeout { .. }), "{lane:?}, {round}: {error:?}");
            }
            proxy.set(Mode::Pass);
            for _ in 0..10 {
                assert!(lane.check(&limiter, &PROBE, "a").await.is_ok(), "{lane:?}, {round}");
            }
        }
        let status = limiter.store_status().connection.unwrap();
        assert_eq!((proxy.accepted(), status.lanes), (connections, connections), "all connections served on");
    }
}

#[test]
fn a_silent_connection_of_the_store_is_replaced_whatever_other_connections_do() {
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    let builder = RedisStore::builder(&proxy.url()).ping_interval(SECOND / 20);
    let limiter = RateLimiter::new(builder.build().unwrap());
    let worker = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    worker.block_on(Lane::Worker.until_connected(&limiter));
    let connections = || limiter.store_status().connection.unwrap().connections;
    let before = connections();
    // The worker's connection is the newest. Its replies say nothing about that of the store.
    proxy.swallow_all_but_newest();
    let is_replaced = within(20 * SECOND, || {
        let _ = worker.block_on(Lane::Worker.check(&limiter, &PROBE, "a"));
        connections() > before
    });
    assert!(is_replaced, "the silent connection is kept");
}

#[test]
fn no_request_waits_for_a_connection_attempt_that_takes_longer_than_a_decision_may() {
    let (url, _) = counting(true);
    // With a password, so that an attempt waits for the server's reply to it.
    let builder = RedisStore::builder(&url.replace("redis://", "redis://:s3cret@"));
    let limiter = RateLimiter::new(builder.connect_timeout(600 * SECOND).build().unwrap());
    let fails_at_once =
        || matches!(block_on(limiter.check(&PROBE, "a")), Err(StoreError::Unavailable { .. }));
    assert!(within(10 * SECOND, fails_at_once), "requests wait for the attempt");
    assert!((0..20).all(|_| fails_at_once()), "a later one waits for it");
}

#[test]
fn a_log_that_panics_does_not_end_the_connection() {
    in_own_process(|| {
        let Some(mut server) = server() else { return };
        let panics = Log::that_panics_once_at("no longer serves");
        let limiter = connected(RedisStore::builder(&server.url()).build().unwrap());
        server.kill();
        assert!(within(10 * SECOND, || panics.load(Ordering::SeqCst) == 1), "the log was not written to");
        assert!(block_on(limiter.check(&PROBE, "a")).is_err());
        server.restart();
        assert!(within(20 * SECOND, || decides(&limiter)), "the connection is not made again");
    });
}

// ---- Reports ----------------------------------------------------------------------------------------------

/// The remedy that a limiter at `url` reports, in its errors and in its log.
fn reported_remedy(url: &str, log: &Log) -> (String, String) {
    let seen = log.at(Level::ERROR).len();
    let limiter = RateLimiter::redis(url).unwrap();
    let mut error_remedy = None;
    let found = within(10 * SECOND, || match block_on(limiter.check(&PROBE, "a")) {
        Err(StoreError::Misconfigured { remedy, .. }) => {
            error_remedy = Some(remedy.to_owned());
            true
        }
        _ => false,
    });
    assert!(found, "nothing to set up at {url}");
    let lines = log.at(Level::ERROR).split_off(seen);
    let line = lines.into_iter().find(|line| line.contains("not set up"));
    (error_remedy.unwrap(), line.unwrap_or_default())
}

#[test]
fn a_misconfigured_server_is_reported_with_its_remedy() {
    in_own_process(|| {
        let Some(server) = server() else { return };
        let Some(cluster) = block_on(cluster(false)) else { return };
        let log = Log::of_process();
        server.must("ACL SETUSER app on >s3cret ~* +@all");
        server.must("ACL SETUSER weak on >s3cret ~* +@all -hdel");
        let at = |user: &str, rest: &str| format!("redis://{user}127.0.0.1:{}/{rest}", server.port());
        let node = |scheme: &str, i: usize| format!("{scheme}://127.0.0.1:{}", cluster.nodes[i].port());
        let cases = [
            (at("app:wr0ng@", ""), "the user or the password", "AuthenticationFailed"),
            (at("", "99"), "no database of the number", "out of range"),
            (node("redis-cluster", 0).replace("//", "//app:wr0ng@"), "the user or the password", "Password"),
            (format!("redis-sentinel://127.0.0.1:{}/main", server.port()), "not a sentinel", "sentinel"),
            (at("weak:s3cret@", ""), "may not run", "HDEL"),
            (format!("redis-cluster://127.0.0.1:{}", server.port()), "redis://", "cluster support disabled"),
            (node("redis", 1), "redis-cluster://", "several servers"),
            (node("redis-cluster", 0) + "/1", "no other database than 0", "cluster mode"),
        ];
        for (url, remedy, words) in &cases {
            let (error_remedy, line) = reported_remedy(url, &log);
            println!("{error_remedy}\n  {line}");
            assert!(error_remedy.contains(remedy), "{url}: {error_remedy}");
            assert!(line.contains(remedy) && (line.contains(words)), "{url}: {line}");
            assert!(!line.contains("s3cret") && !line.contains("wr0ng"), "{line}");
            assert!(!line.contains(&server.port().to_string()), "the address: {line}");
        }
        server.must("CONFIG SET requirepass other");
        let (remedy, line) = reported_remedy(&at("", ""), &log);
        assert!(remedy.contains("requires a password") && line.contains("NOAUTH"), "{remedy}: {line}");
        for line in [log.at(Level::ERROR), log.at(Level::WARN), log.at(Level::INFO)].concat() {
            assert!(!line.contains("127.0.0.1"), "{line}");
        }
    });
}

/// The warnings of a limiter at `url` about the server, within a second after it has connected.
fn warnings(url: &str, log: &Log) -> Vec<String> {
    let seen = log.at(Level::WARN).len();
    let limiter = RateLimiter::new(RedisStore::builder(url).deadline(2 * SECOND).build().unwrap());
    assert!(within(20 * SECOND, || limiter.is_ready()), "never connected");
    within(SECOND, || log.at(Level::WARN).len() > seen);
    log.at(Level::WARN).split_off(seen)
}

/// A server whose clock is an hour ahead, behind a proxy that replies to `TIME` itself, as Envoy does.
fn behind_envoy() -> String {
    let (address, _) = replying(|words| match words[0].as_slice() {
        b"TIME\r\n" => "*2\r\n$10\r\n1795945438\r\n$16\r\n1795945438613574\r\n".to_owned(),
        b"EVALSHA\r\n" => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            format!(":{}\r\n", (now + 3600 * SECOND).as_micros())
        }
        _ => reply_to_probe(words),
    });
    format!("redis://{address}/")
}

/// When every look-up takes long, requests are decided all the same.
#[test]
fn a_first_connection_serves_before_the_server_was_looked_at() {
    let (address, _) = replying(|words| match words[0].as_slice() {
        b"INFO\r\n" => {
            std::thread::sleep(20 * SECOND);
            String::new()
        }
        _ => reply_to_probe(words),
    });
    let builder = RedisStore::builder(&format!("redis://{address}/")).connect_timeout(60 * SECOND);
    let limiter = RateLimiter::new(builder.build().unwrap());
    assert!(within(10 * SECOND, || limiter.is_ready()), "it waits for the look at the server");
}

#[test]
fn problems_of_a_server_are_logged_on_connecting_with_their_remedy() {
    in_own_process(|| {
        let Some(healthy) = server() else { return };
        let log = Log::of_process();
        let expect_one = |warnings: Vec<String>, words: &[&str]| {
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(words.iter().all(|words| warnings[0].contains(words)), "{words:?}: {warnings:?}");
            println!("{}", warnings[0]);
        };
        assert_eq!(warnings(&healthy.url(), &log), Vec::<String>::new());
        healthy.must("CONFIG SET maxmemory-policy volatile-ttl");
        assert_eq!(
            warnings(&healthy.url(), &log),
            Vec::<String>::new(),
            "without a bound nothing is evicted"
        );
        healthy.must("CONFIG SET maxmemory 100mb");
        expect_one(warnings(&healthy.url(), &log), &["volatile-ttl", "set `maxmemory-policy noeviction`"]);
        healthy.must("CONFIG SET maxmemory-policy noeviction");

        let version = {
            let mut console = healthy.console();
            console.query("INFO server");
            (0..3).map(|_| console.read()).find(|line| line.starts_with("redis_version:")).unwrap()
        };
        let old = version.replacen(|c: char| c.is_ascii_digit(), "5", 1);
        let proxy = Proxy::before(healthy.port());
        proxy.set(Mode::Replace(version.leak(), old.leak()));
        expect_one(warnings(&proxy.url(), &log), &["older than 6.2", "need Redis 6.2, Valkey 7.2, or newer"]);

        if let Some(mut clocked) = clocked_server() {
            clocked.ahead(3_600_000_000);
            let ahead = warnings(&clocked.server.url(), &log);
            assert!(ahead[0].contains("apart_ms=3600") || ahead[0].contains("apart_ms=3599"), "{ahead:?}");
            expect_one(ahead, &["clocks", "synchronise both with NTP"]);
        }
        let ahead = warnings(&behind_envoy(), &log);
        assert!(ahead[0].contains("apart_ms=3600") || ahead[0].contains("apart_ms=3599"), "{ahead:?}");
        expect_one(ahead, &["clocks"]);

        // Only for a limit of a day or more, and once; the servers of these tests keep nothing.
        let seen = || {
            log.at(Level::WARN)
                .into_iter()
                .filter(|line| line.contains("neither persists nor replicates"))
                .count()
        };
        let limiter = connected(RedisStore::builder(&healthy.url()).deadline(2 * SECOND).build().unwrap());
        let check = |seconds| {
            let policy = Policy::new("long", 10, Duration::from_secs(seconds));
            let _ = block_on(limiter.check(&policy, "a")).unwrap();
        };
        check(86_399);
        assert_eq!(seen(), 0);
        let is_told = || {
            check(86_400);
            seen() == 1
        };
        assert!(within(20 * SECOND, is_told));
        check(7 * 86_400);
        assert_eq!(seen(), 1);
        healthy.must("CONFIG SET save '3600 1'");
        let limiter = connected(RedisStore::builder(&healthy.url()).deadline(2 * SECOND).build().unwrap());
        let is_told = || {
            let day = Policy::new("long", 10, Duration::from_secs(86_400));
            let _ = block_on(limiter.check(&day, "a")).unwrap();
            seen() > 1
        };
        assert!(!within(SECOND, is_told), "a server that persists");
        healthy.must("CONFIG SET save ''");

        // Any node of a cluster.
        let Some(cluster) = block_on(cluster(false)) else { return };
        cluster.nodes[1].must("CONFIG SET maxmemory 100mb");
        cluster.nodes[1].must("CONFIG SET maxmemory-policy allkeys-lru");
        expect_one(warnings(&cluster.url(), &log), &["allkeys-lru", "noeviction"]);
        cluster.nodes[1].must("CONFIG SET maxmemory-policy noeviction");
    });
}
