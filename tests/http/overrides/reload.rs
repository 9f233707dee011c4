//! A watched file that changes while requests run, in two limiters on one server.

use std::cell::Cell;
use std::fs;

use actix_web::rt::time::{Instant, sleep};
use ratelimit_actix::RedisStore;
use tests::redis;

use super::*;

#[rate_limit(max = 10, window = "1h", name = "ov-load", algorithm = "fixed_window", by = header("x-tenant"))]
#[get("/load")]
async fn load() -> &'static str {
    "ok"
}

/// Requests of as many callers as there are rounds, each a little more than any limit of the test: every
/// answer is right by the old or by the new number, and from a limiter's first by the new one on by that.
#[actix_web::test]
async fn a_changed_file_comes_into_force_in_both_limiters_and_loses_no_request() {
    let Some(server) = redis::server() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.toml");
    fs::write(&path, "[limit.ov-load]\nmax = 4\n").unwrap();
    let limiter = || {
        let store = RedisStore::builder(&server.url()).deadline(Duration::from_secs(10)).build().unwrap();
        let overrides = Overrides::from_file(&path).unwrap().watch(true);
        RateLimiter::builder(store).overrides(overrides).build()
    };
    let limiters = [limiter(), limiter()];
    let start = Instant::now();
    while !limiters.iter().all(RateLimiter::is_ready) {
        assert!(start.elapsed() < Duration::from_secs(20), "not connected");
        sleep(Duration::from_millis(5)).await;
    }
    let apps = [service!(limiters[0], load), service!(limiters[1], load)];
    // For each limiter, how many requests were sent after the first answer by the new number.
    let in_force: [Cell<Option<u64>>; 2] = Default::default();
    let round = async |number: usize| {
        let (tenant, mut passed) = (format!("tenant-{number}"), 0);
        for request in 0..8 {
            let (app, in_force) = (&apps[request % 2], &in_force[request % 2]);
            let before = in_force.get();
            let answer = send(app, from_client("/load").insert_header(("x-tenant", tenant.clone()))).await;
            let (limit, remaining, _) = answer.quota().unwrap();
            assert!([4, 6].contains(&limit), "{limit}");
            assert!([200, 429].contains(&answer.status), "{}", answer.status);
            passed += u64::from(answer.status == 200);
            assert_eq!(
                answer.status == 429,
                remaining == 0 && passed >= 4 && answer.header("retry-after").is_some()
            );
            if before.is_some() {
                assert_eq!(limit, 6, "by the old number again");
            }
            if limit == 6 {
                in_force.set(Some(in_force.get().map_or(0, |answers| answers + 1)));
            }
        }
        // Never more than the larger number, and no request is denied that the smaller one admits.
        assert!((4..=6).contains(&passed), "{passed}");
    };
    let start = Instant::now();
    for batch in 0.. {
        assert!(start.elapsed() < Duration::from_secs(60), "too slow: {in_force:?}");
        if batch == 10 {
            fs::write(&path, "[limit.ov-load]\nmax = 6\n").unwrap();
        }
        futures_util::future::join_all((0..16).map(|offset| round(16 * batch + offset))).await;
        if in_force.iter().all(|answers| answers.get().is_some_and(|answers| answers >= 200)) {
            break;
        }
    }
}
