//! The client of the Redis store: URLs, permissions, distance, and requests that share a connection.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use ratelimit_core::{Algorithm, RateLimiter, RedisConfigError, RedisStore};
use tests::lane::Lane;
use tests::noise::Noise;
use tests::outage::SLACK;
use tests::proxy::{Mode, Proxy};
use tests::redis::server;

use super::{MINUTE, policy};

#[tokio::test]
async fn a_long_round_trip_fails_no_request_and_keeps_the_connection() {
    let Some(server) = server() else { return };
    let policy = policy(Algorithm::SlidingWindowLog, 1_000, Duration::from_secs(60));
    // The server knows the script; otherwise it would have to be sent in a second round trip.
    assert!(server.limiter().check(&policy, "first").await.unwrap().is_allowed());
    let over_a_lane = async |lane: Lane| {
        let proxy = Proxy::before(server.port());
        // More than half of what a decision may take.
        proxy.set(Mode::Distance(Duration::from_millis(1_600)));
        let builder = RedisStore::builder(&proxy.url()).deadline(Duration::from_secs(3));
        let store = builder.connect_timeout(Duration::from_secs(10)).build().unwrap();
        let limiter = RateLimiter::new(store);
        lane.until_connected(&limiter).await;
        let connections = proxy.accepted();
        let tasks = (0..50).map(|task: u64| {
            let (limiter, policy) = (limiter.clone(), policy.clone());
            async move {
                // Not all at once, so that they are not all in one batch.
                tokio::time::sleep(Duration::from_millis(task * 20)).await;
                for _ in 0..2 {
                    let outcome = lane.check(&limiter, &policy, task.to_le_bytes()).await;
                    assert!(outcome.unwrap().is_allowed(), "{lane:?}");
                }
            }
        });
        join_all(tasks).await;
        assert_eq!(proxy.accepted(), connections);
    };
    tokio::join!(over_a_lane(Lane::Store), over_a_lane(Lane::Worker));
}

#[test]
fn a_limiter_works_from_any_runtime_and_ends_with_its_last_handle() {
    let Some(server) = server() else { return };
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limiter = server.limiter();
    for left in [2, 1, 0] {
        let outcome = runtime().block_on(limiter.check(&MINUTE, "a")).unwrap();
        assert_eq!(outcome.remaining(), left);
    }
    // Not even a runtime is needed.
    let outcome = futures_util::future::FutureExt::boxed(limiter.check(&MINUTE, "a"));
    assert!(!block_on_without_runtime(outcome).unwrap().is_allowed());
    drop(limiter);
    let gone = tests::within(Duration::from_secs(5), || {
        runtime().block_on(async { server.info("clients", "connected_clients").await }) == 1
    });
    assert!(gone, "the connection outlives the limiter");
}

/// Runs a future on this thread, without a runtime.
fn block_on_without_runtime<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

#[tokio::test]
async fn a_host_without_an_address_is_reported_by_the_connection() {
    for url in [
        "redis://:s3cret@no-such-host.invalid:6379/",
        "redis-sentinel://:s3cret@no-such-host.invalid:1,no-other-host.invalid:2/main",
        "redis-cluster://:s3cret@no-such-host.invalid:1,no-other-host.invalid:2",
    ] {
        let (started, noise) = (Instant::now(), Noise::watch());
        let limiter = RateLimiter::redis(url).unwrap();
        let built_after = started.elapsed();
        assert!(
            built_after < SLACK / 2 + noise.worst(),
            "DNS kept the constructor waiting for {built_after:?}"
        );
        assert!(!limiter.is_ready());
        let end = started + Duration::from_secs(20);
        let reason = loop {
            // Without a reason while the first attempt is being made, and with another if DNS takes too long.
            let error = limiter.check(&MINUTE, "a").await.unwrap_err();
            let reason = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            if reason.contains("no-such-host.invalid") || Instant::now() > end {
                break reason;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert!(
            reason.starts_with("the Redis host `no-such-host.invalid` does not resolve: "),
            "{url}: {reason}"
        );
        assert!(!reason.contains("s3cret"), "{reason}");
    }
}

#[test]
fn an_invalid_url_is_reported_without_its_secrets() {
    for (url, expected) in [
        ("", "there is no `://` behind a scheme; expected redis://[user:password@]host"),
        ("localhost:6379", "there is no `://` behind a scheme; expected redis://[user:password@]host"),
        ("redis:/localhost", "there is no `://` behind a scheme; expected redis://[user:password@]host"),
        (
            "rediss:s3cret@localhost",
            "there is no `://` behind a scheme; expected redis://[user:password@]host",
        ),
        ("http://localhost:6379", "unknown scheme"),
        ("redis://localhost:6379/#insecure", "a fragment (`#..`) has no meaning here"),
        ("rediss://localhost:6379/#insecure", "a fragment (`#..`) has no meaning here"),
        ("redis-sentinel://localhost:26379/main#insecure", "a fragment (`#..`) has no meaning here"),
        ("redis-cluster://localhost:6379#insecure", "a fragment (`#..`) has no meaning here"),
        ("redis://:s3cret#more@localhost", "write a `#` in a password as `%23`"),
        ("memcached://:s3cret@localhost", "unknown scheme"),
        ("redis://:s3cret@localhost:70000/", "invalid port number"),
        ("redis://:s3cret@localhost:port/", "invalid port number"),
        ("redis://:s3cret@", "empty host"),
        ("redis://:s3cret@localhost/db", "Invalid database number"),
        ("redis-sentinel://:s3cret@127.0.0.1:26379", "no service name"),
        ("redis-sentinel://:s3cret@127.0.0.1:26379/", "no service name"),
        ("redis-sentinel://:s3cret@127.0.0.1:port/main", "invalid port number"),
        ("redis-cluster://:s3cret@127.0.0.1:7000,:7001", "empty host"),
        ("redis://:s3cret@localhost/?db=2", "the option `db` has no meaning here; write the database behind"),
        ("redis://:s3cret@localhost/?database=2", "the option `database` has no meaning here; write"),
        ("redis://localhost/1?password=s3cret", "the option `password` has no meaning here"),
        ("redis-cluster://:s3cret@localhost:1/?protocol=resp3", "the option `protocol` has no meaning here"),
        ("redis-sentinel://:s3cret@localhost:1/main?s=s3cret", "the option `s` has no meaning here"),
        ("unix:///run/redis.sock?pass=s3cret&database=1", "the option `database` has no meaning here"),
        ("redis://:pa?s3cret@localhost", "write a `?` in a password as `%3F`"),
        ("redis://localhost/?s3cret%20", "the option `..` has no meaning here"),
        ("redis-cluster://:s3cret@localhost:1/main", "Invalid database number"),
        ("redis-sentinel://:s3cret@localhost:1/main/db", "Invalid database number"),
        ("redis-sentinel://:s3cret@localhost:1/main/1/2", "Invalid database number"),
        ("redis://:s3\ncret@localhost", "there is a line break or another control character in it"),
    ] {
        let error = RateLimiter::redis(url).unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        let text = format!("{error}: {source} / {error:?} / {:?}", RedisStore::builder(url));
        assert!(text.contains(expected), "{url}: {text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
    let prefix = RedisStore::builder("redis://127.0.0.1/").prefix("{}").build().unwrap_err();
    assert!(matches!(prefix, RedisConfigError::Prefix));
}
