//! Deadlines and batches: how long requests wait for Redis, and in which order calls decide about them.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "real time is what is tested")]

use std::time::{Duration, Instant};

use actix_web::http::StatusCode;
use actix_web::test::{TestRequest, call_service, init_service};
use actix_web::{App, Responder, get, web};
use futures_util::future::join_all;
use ratelimit_actix::{Limit, Quotas, RateLimitMiddleware, rate_limit};
use ratelimit_core::store::toolkit::Operation;
use ratelimit_core::store::{Deadline, Store};
use ratelimit_core::{
    Algorithm, Breaker, Check, OnError, Policy, RateLimiter, RedisStore, RedisStoreBuilder, StoreError,
};
use tests::lane::Lane;
use tests::log::Log;
use tests::proxy::{Mode, Proxy};
use tests::redis::server;
use tracing::Level;

const SECOND: Duration = Duration::from_secs(1);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn policy(key: String) -> Policy {
    // No window ends during a test: with one, units come back.
    let builder = Policy::builder("p").max(1_000_000).window(YEAR).algorithm(Algorithm::FixedWindow);
    builder.on_error(OnError::Deny).build().with_key(key).unwrap()
}

/// A limiter over a store that has answered.
async fn connected(store: RedisStoreBuilder) -> RateLimiter {
    let limiter = RateLimiter::new(store.build().unwrap());
    let end = Instant::now() + 30 * SECOND;
    while !limiter.is_ready() {
        assert!(Instant::now() < end, "no connection");
        tokio::time::sleep(SECOND / 100).await;
    }
    limiter
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_groups_is_decided_in_its_order() {
    decides_a_flood_in_order(Lane::Store).await;
}

#[tokio::test]
async fn a_flood_of_groups_of_a_worker_is_decided_in_its_order() {
    decides_a_flood_in_order(Lane::Worker).await;
}

/// More limits wait than the calls in flight can hold at first.
async fn decides_a_flood_in_order(lane: Lane) {
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    proxy.set(Mode::Distance(Duration::from_millis(10)));
    let limiter = connected(RedisStore::builder(&proxy.url()).deadline(30 * SECOND)).await;
    lane.until_connected(&limiter).await;
    let policies: Vec<Policy> = (0..64).map(|i| policy(format!("p{i}"))).collect();
    // Of every size, so that calls are cut at every place; more than one call can hold at the end.
    let group: Vec<Check<'_>> = policies.iter().map(|policy| Check::new(policy, "caller")).collect();
    let _ = limiter.check_all(&group).await.unwrap();
    let (limiter, group) = (&limiter, &group);
    let requests = (0..2_000).map(|i| async move { lane.check_all(limiter, &group[..=i % 64]).await });
    let left: Vec<u64> = join_all(requests)
        .await
        .into_iter()
        .map(|answer| answer.unwrap().outcomes()[0].remaining())
        .collect();
    let overtaken = left.windows(2).filter(|two| two[1] >= two[0]).count();
    assert_eq!(overtaken, 0, "of 2000 requests {overtaken} were decided before an earlier one");
}

/// One after the other, and a reply to none of them comes before half of the deadline is over. More than the
/// calls in flight can take: the last one sends those that have waited for long.
#[tokio::test]
async fn a_round_trip_above_half_of_the_deadline_fails_no_request() {
    let Some(server) = server() else { return };
    for lane in Lane::BOTH {
        let proxy = Proxy::before(server.port());
        let deadline = 4 * SECOND;
        let store = RedisStore::builder(&proxy.url()).deadline(deadline).ping_interval(3600 * SECOND);
        let limiter = connected(store).await;
        lane.until_connected(&limiter).await;
        let policy = policy(format!("{lane:?}"));
        let requests = (0..20).map(|turn| {
            let (limiter, policy) = (&limiter, &policy);
            async move {
                for _ in 0..2 * turn {
                    tokio::task::yield_now().await;
                }
                if turn == 19 {
                    tokio::time::sleep(deadline / 4).await;
                }
                lane.check(limiter, policy, "caller").await
            }
        });
        let other = server.limiter();
        proxy.set(Mode::Hold);
        let answers = async {
            let end = Instant::now() + deadline / 2;
            while other.peek(&policy, "caller").await.unwrap().remaining() > policy.max() - 20 {
                assert!(Instant::now() < end, "{lane:?}: requests wait until others have their reply");
            }
            proxy.set(Mode::Pass);
        };
        let (outcomes, ()) = tokio::join!(join_all(requests), answers);
        assert!(outcomes.into_iter().all(|outcome| outcome.unwrap().is_allowed()), "{lane:?}");
    }
}

fn timed_out<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Timeout { .. }))
}

#[tokio::test]
async fn a_group_of_several_callers_in_a_cluster_has_one_deadline() {
    let Some(cluster) = tests::cluster::cluster_behind_proxies().await else { return };
    let url = format!("redis-cluster://127.0.0.1:{}", cluster.proxies[0].port());
    let limiter = connected(RedisStore::builder(&url).deadline(2 * SECOND)).await;
    let policy = policy("p".to_owned());
    let callers: Vec<String> = (0..6).map(|i| format!("caller{i}")).collect();
    let group: Vec<Check<'_>> = callers.iter().map(|caller| Check::new(&policy, caller)).collect();
    assert!(limiter.check_all(&group).await.unwrap().is_allowed());
    for proxy in &cluster.proxies {
        proxy.set(Mode::Delay(Duration::from_millis(1200)));
    }
    let start = Instant::now();
    assert!(timed_out(&limiter.check_all(&group).await), "six answers of 1.2 s each");
    let took = start.elapsed();
    assert!((2 * SECOND..4 * SECOND).contains(&took), "{took:?}");
    // Nothing is charged by a look, so it waits for all nodes at once.
    let start = Instant::now();
    let _ = limiter.peek_all(&group).await;
    assert!(start.elapsed() < 4 * SECOND, "{:?}", start.elapsed());
}

/// A store with a deadline of three seconds that has answered.
async fn first_answered(store: RedisStoreBuilder) -> RedisStore {
    let store = store.deadline(3 * SECOND).ping_interval(3600 * SECOND).build().unwrap();
    let policy = policy("p".to_owned());
    let end = Instant::now() + 30 * SECOND;
    while let Err(error) =
        store.decide(&[Check::new(&policy, "first")], Operation::Check, Deadline::none()).await
    {
        assert!(Instant::now() < end, "{error}");
    }
    store
}

#[tokio::test]
async fn a_store_around_the_one_of_redis_uses_up_the_deadline_of_its_call() {
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    let store = first_answered(RedisStore::builder(&proxy.url())).await;
    let policy = policy("p".to_owned());
    let group = [Check::new(&policy, "caller").with_cost(5)];
    let taken = store.decide(&group, Operation::Check, Deadline::after(3 * SECOND)).await.unwrap();
    let reservation = taken.reservation(&group).unwrap();
    proxy.set(Mode::Swallow);
    let (start, deadline) = (Instant::now(), Deadline::after(3 * SECOND));
    tokio::time::sleep(2 * SECOND).await;
    let decided = async { timed_out(&store.decide(&group, Operation::Check, deadline).await) };
    let refunded = async { timed_out(&store.refund(&reservation, deadline).await) };
    let reset = async { timed_out(&store.reset(&group, deadline).await) };
    let ended = tokio::join!(decided, refunded, reset);
    let took = start.elapsed();
    assert_eq!(ended, (true, true, true));
    assert!(took < 4 * SECOND, "a second was left: {took:?}");
}

/// The first answer leaves too little of three seconds for the second, also on a machine that is busy.
#[tokio::test]
async fn charges_beyond_several_limits_have_one_deadline() {
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    let store = first_answered(RedisStore::builder(&proxy.url())).await;
    let policies = [policy("one".to_owned()), policy("other".to_owned())];
    let group = [Check::new(&policies[0], "caller"), Check::new(&policies[1], "caller")];
    let overdraw = |within| store.decide(&group, Operation::Overdraw, Deadline::after(within));
    let _ = overdraw(30 * SECOND).await.unwrap();
    proxy.set(Mode::Delay(29 * SECOND / 10));
    let ended = overdraw(3 * SECOND).await;
    assert!(timed_out(&ended), "{ended:?}");
}

#[tokio::test]
async fn a_shorter_deadline_bounds_the_wait() {
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    let store = RedisStore::builder(&proxy.url()).deadline(30 * SECOND).ping_interval(3600 * SECOND);
    let limiter = connected(store).await;
    assert_eq!(limiter.deadline(), Some(30 * SECOND));
    let hasty = limiter.with_deadline(SECOND / 2);
    assert_eq!(hasty.deadline(), Some(SECOND / 2));
    assert_eq!(hasty.with_deadline(30 * SECOND).deadline(), Some(SECOND / 2), "time is not given back");
    assert_eq!(RateLimiter::in_memory().with_deadline(SECOND).deadline(), None);
    let policy = policy("p".to_owned());
    let group = [Check::new(&policy, "caller").with_cost(5)];
    let taken = hasty.check_all(&group).await.unwrap();
    assert!(hasty.refund(taken.reservation(&group).unwrap()).await.is_ok());
    let taken = hasty.check_all(&group).await.unwrap();
    proxy.set(Mode::Swallow);
    let waits = async |question: &mut (dyn Future<Output = bool> + Unpin)| {
        let start = Instant::now();
        assert!(question.await, "an error");
        let took = start.elapsed();
        assert!((SECOND / 2..15 * SECOND).contains(&took), "{took:?}");
    };
    waits(&mut Box::pin(async { timed_out(&hasty.check(&policy, "caller").await) })).await;
    waits(&mut Box::pin(async { timed_out(&hasty.peek(&policy, "caller").await) })).await;
    waits(&mut Box::pin(async { timed_out(&hasty.reset(&policy, "other").await) })).await;
    waits(&mut Box::pin(async { timed_out(&hasty.refund(taken.reservation(&group).unwrap()).await) })).await;
    let none_left = hasty.with_deadline(Duration::ZERO).check(&policy, "caller").await;
    assert!(matches!(none_left, Err(StoreError::NoTimeLeft)), "{none_left:?}");
}

#[tokio::test]
async fn a_refund_goes_on_when_the_request_has_no_time_left() {
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    let limiter = connected(RedisStore::builder(&proxy.url()).deadline(30 * SECOND)).await;
    let policy = policy("p".to_owned());
    let group = [Check::new(&policy, "caller").with_cost(5)];
    let taken = limiter.check_all(&group).await.unwrap();
    let hasty = limiter.with_deadline(Duration::from_millis(1));
    proxy.set(Mode::Delay(SECOND / 5));
    assert!(timed_out(&hasty.refund(taken.reservation(&group).unwrap()).await));
    proxy.set(Mode::Pass);
    let end = Instant::now() + 30 * SECOND;
    while limiter.peek(&policy, "caller").await.unwrap().remaining() != policy.max() {
        assert!(Instant::now() < end, "it was not given back");
        tokio::time::sleep(SECOND / 100).await;
    }
}

// These limits fail closed: a decision without Redis is an error.
static AROUND: Policy = Policy::builder("around").max(1_000_000).on_error(OnError::Deny).build();

#[rate_limit(max = 1000, window = "365d", algorithm = "fixed_window", key = "charging", by = global, on_error = "deny")]
#[get("/charging")]
async fn charging(quotas: Quotas) -> actix_web::Result<impl Responder> {
    quotas.charge_up_to(3).await?;
    Ok("charged")
}

#[rate_limit(max = 1000, window = "365d", algorithm = "fixed_window", key = "settling", by = global, on_error = "deny")]
#[get("/settling")]
async fn settling(quotas: Quotas) -> actix_web::Result<impl Responder> {
    quotas.charge_up_to(3).await?;
    quotas.limit("settling")?.settle(0).await?;
    Ok("settled")
}

#[rate_limit(max = 1000, window = "365d", algorithm = "fixed_window", key = "failures", by = global, on_error = "deny", count = "failures")]
#[get("/failures")]
async fn failures() -> impl Responder {
    "no failure"
}

/// An answer takes more than half of the deadline, so two of them take longer than it.
#[actix_web::test]
async fn each_operation_of_an_http_request_has_a_deadline_of_its_own() {
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    let store = RedisStore::builder(&proxy.url()).deadline(SECOND).ping_interval(3600 * SECOND);
    let app = App::new().app_data(web::Data::new(connected(store).await));
    let around = RateLimitMiddleware::new(Limit::new(&AROUND).by(|_| "everyone"));
    let around = web::scope("/around").wrap(around).service(failures);
    let app = init_service(app.service(charging).service(settling).service(around)).await;
    for (delay, charged) in [(Duration::ZERO, "996"), (SECOND * 7 / 10, "992")] {
        proxy.set(Mode::Delay(delay));
        for (path, operations, left) in [
            // A check and a charge.
            ("/charging", 2, charged),
            // As well a settlement of each of the two charges, and a look at what is left.
            ("/settling", 5, "1000"),
            // The check of the middleware, that of the handler, a refund and a look.
            ("/around/failures", 4, "1000"),
        ] {
            let start = Instant::now();
            let response = call_service(&app, TestRequest::get().uri(path).to_request()).await;
            let took = start.elapsed();
            assert_eq!(response.status(), StatusCode::OK, "{path} after {took:?}");
            assert_eq!(response.headers().get("x-ratelimit-remaining").unwrap(), left, "{path}");
            assert!(took >= operations * delay, "{path} after {took:?}");
        }
    }
}

/// A call that is given little time says nothing about the server.
#[tokio::test]
async fn an_expired_request_is_not_an_outage_and_delays_no_other() {
    let Some(server) = server() else { return };
    let (log, _guard) = Log::of_thread();
    let proxy = Proxy::before(server.port());
    let limiter = connected(RedisStore::builder(&proxy.url()).deadline(4 * SECOND)).await;
    let policy = Policy::builder("p").max(1_000_000).build();
    let hasty = limiter.with_deadline(SECOND);
    assert!(!hasty.check(&policy, "caller").await.unwrap().is_degraded());
    // An answer in time for the store, and too late for a hasty request.
    proxy.set(Mode::Delay(SECOND * 3 / 2));
    assert!(!limiter.check(&policy, "caller").await.unwrap().is_degraded());
    assert!(hasty.check(&policy, "caller").await.unwrap().is_degraded());
    assert!(hasty.with_deadline(Duration::ZERO).check(&policy, "caller").await.unwrap().is_degraded());
    proxy.set(Mode::Pass);
    // What took long before does not keep hasty requests from being sent.
    let end = Instant::now() + 30 * SECOND;
    while hasty.check(&policy, "caller").await.unwrap().is_degraded() {
        assert!(Instant::now() < end, "one slow answer keeps back requests with less time");
    }
    assert_eq!(log.at(Level::ERROR), [] as [String; 0]);
    let strict = Policy::builder("strict").on_error(OnError::Deny).build();
    let none_left = hasty.with_deadline(Duration::ZERO).check(&strict, "caller").await;
    assert!(matches!(none_left, Err(StoreError::NoTimeLeft)), "{none_left:?}");
}

/// More calls are in flight than may be, so the others wait for one of them to end: by its timeout, which
/// opens the breaker. Those that wait for a tenth of the deadline go in a call beside the others, so the last
/// requests are made soon after such a call: on a busy machine they may be nine tenths of a second late.
#[tokio::test]
async fn what_waits_while_the_breaker_opens_is_not_sent() {
    const REQUESTS: u32 = 54;
    let Some(server) = server() else { return };
    let over_a_lane = async |lane: Lane| {
        let proxy = Proxy::before(server.port());
        let store = RedisStore::builder(&proxy.url()).deadline(10 * SECOND).ping_interval(3600 * SECOND);
        let limiter = connected(store.breaker(Breaker::new().timeouts(1).errors(1))).await;
        lane.until_connected(&limiter).await;
        let policy = policy(format!("{lane:?}"));
        // The server knows the script then.
        let _ = limiter.check(&policy, "caller").await.unwrap();
        proxy.set(Mode::Hold);
        let requests = (0..REQUESTS).map(|i| {
            let (limiter, policy) = (limiter.clone(), policy.clone());
            async move {
                // Apart, so that they do not share calls.
                tokio::time::sleep(i * SECOND / 20).await;
                lane.check(&limiter, &policy, "caller").await
            }
        });
        let (mut late, mut unavailable) = (0, 0);
        for result in join_all(requests).await {
            match result {
                Err(StoreError::Timeout { .. }) => late += 1,
                // In flight when the silent connection was given up, or waiting.
                Err(StoreError::Unavailable { .. }) => unavailable += 1,
                other => panic!("{other:?}"),
            }
        }
        assert!(late > 0 && unavailable > 0, "{lane:?}: {late} and {unavailable}");
        let charged = policy.max() - server.limiter().peek(&policy, "caller").await.unwrap().remaining();
        assert!(
            (late..=REQUESTS.into()).contains(&charged),
            "{lane:?}: {charged} were charged, of all {REQUESTS} and one: what waited in vain was sent"
        );
    };
    tokio::join!(over_a_lane(Lane::Store), over_a_lane(Lane::Worker));
}
