//! A watched file that changes while requests run, in two limiters on one server.

use std::cell::{Cell, RefCell};
use std::fs;
use std::rc::Rc;

use actix_web::rt::time::{Instant, sleep};
use ratelimit_actix::RedisStore;
use tests::redis;

use super::*;

#[rate_limit(max = 10, window = "1h", name = "ov-load", algorithm = "fixed_window", by = header("x-tenant"))]
#[get("/load")]
async fn load() -> &'static str {
    "ok"
}

/// Requests of as many callers as there are rounds, each a little more than any limit of the test: every answer is right by the
/// old or by the new number, and from one second after the change by the new one.
#[actix_web::test]
async fn a_changed_file_is_in_force_in_both_limiters_within_a_second_and_loses_no_request() {
    let Some(server) = redis::server() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.toml");
    fs::write(&path, "[limit.ov-load]\nmax = 4\n").unwrap();
    let limiter = || {
        let store = RedisStore::builder(&server.url()).deadline(Duration::from_secs(10)).build().unwrap();
        let overrides = Overrides::from_file(&path).unwrap().watch();
        RateLimiter::builder(store).overrides(overrides).unwrap().build()
    };
    let limiters = [limiter(), limiter()];
    let start = Instant::now();
    while !limiters.iter().all(RateLimiter::is_ready) {
        assert!(start.elapsed() < Duration::from_secs(20), "not connected");
        sleep(Duration::from_millis(5)).await;
    }
    let apps = [service!(limiters[0], load), service!(limiters[1], load)];
    let changed: Cell<Option<Instant>> = Cell::new(None);
    let late: Rc<RefCell<Vec<(usize, u64)>>> = Rc::default();
    let round = async |number: usize| {
        let is_late = changed.get().is_some_and(|at| at.elapsed() > Duration::from_secs(1));
        let (tenant, mut passed) = (format!("tenant-{number}"), 0);
        for request in 0..8 {
            let app = &apps[request % 2];
            let answer = send(app, from_client("/load").insert_header(("x-tenant", tenant.clone()))).await;
            let (limit, remaining, _) = answer.quota().unwrap();
            assert!([4, 6].contains(&limit), "{limit}");
            assert!([200, 429].contains(&answer.status), "{}", answer.status);
            passed += u64::from(answer.status == 200);
            assert_eq!(
                answer.status == 429,
                remaining == 0 && passed >= 4 && answer.header("retry-after").is_some()
            );
            if is_late {
                late.borrow_mut().push((request % 2, limit));
            }
        }
        // Never more than the larger number, and no request is denied that the smaller one admits.
        assert!((4..=6).contains(&passed), "{passed}");
    };
    let mut number = 0;
    let start = Instant::now();
    while late.borrow().len() < 400 {
        assert!(start.elapsed() < Duration::from_secs(60), "too slow");
        futures_util::future::join_all((0..16).map(|offset| round(number + offset))).await;
        number += 16;
        if changed.get().is_none() && number >= 160 {
            fs::write(&path, "[limit.ov-load]\nmax = 6\n").unwrap();
            changed.set(Some(Instant::now()));
        }
    }
    for app in [0, 1] {
        let limits: Vec<u64> =
            late.borrow().iter().filter(|(at, _)| *at == app).map(|(_, limit)| *limit).collect();
        assert!(!limits.is_empty() && limits.iter().all(|limit| *limit == 6), "limiter {app}: {limits:?}");
    }
}
