//! Which limiter counts, and what happens when there is none or its store fails.

#![allow(clippy::disallowed_methods, reason = "a deadline in real time")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_web::App;
use actix_web::HttpRequest;
use actix_web::test::init_service;
use actix_web::web::{self};
use ratelimit_actix::ratelimit_core::store::toolkit::Operation;
use ratelimit_actix::ratelimit_core::store::{Deadline, Store};
use ratelimit_actix::{
    Check, GroupOutcome, Quotas, RateLimitConfig, RateLimiter, Reservation, StoreError, rate_limit,
};
use tests::answer::{get, statuses};
use tests::log::Log;
use tests::own_process::in_own_process;
use tests::store::{SECRET, fresh, watched};
use tests::{send, service};
use tracing::Level;

// The log is the one algorithm for which it does not matter when a test without a clock of its own runs.
#[rate_limit(max = 1, algorithm = "sliding_window_log")]
async fn handler() -> &'static str {
    ""
}

#[test]
fn a_handler_without_a_limiter_is_limited_and_logs_one_warning() {
    in_own_process(|| {
        let log = Log::of_process();
        actix_web::rt::System::new().block_on(async {
            for status in [200, 429] {
                let app = init_service(App::new().route("/", web::get().to(handler))).await;
                assert_eq!(statuses(&app, "/", 1).await, [status]);
            }
        });
        let warnings = log.at(Level::WARN);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("app_data(limiter.clone())"), "{warnings:?}");
        assert!(warnings[0].contains("install"), "{warnings:?}");
    });
}

/// A process without a configuration looks for none.
#[test]
fn a_configuration_that_is_built_after_a_request_applies() {
    in_own_process(|| {
        actix_web::rt::System::new().block_on(async {
            let limiter = web::Data::new(fresh());
            let app = || App::new().app_data(limiter.clone()).route("/", web::get().to(handler));
            let before = init_service(app()).await;
            assert!(send(&before, get("/")).await.header("x-ratelimit-limit").is_some());
            let silent = RateLimitConfig::builder().headers([]).build().unwrap();
            let after = init_service(app().app_data(silent)).await;
            let denied = send(&after, get("/")).await;
            assert_eq!((denied.status, denied.header("x-ratelimit-limit")), (429, None));
            assert!(send(&before, get("/")).await.header("x-ratelimit-limit").is_some());
        });
    });
}

#[test]
fn an_installed_limiter_serves_handlers_without_another() {
    in_own_process(|| {
        let log = Log::of_process();
        let (limiter, watch) = watched();
        limiter.install().unwrap();
        actix_web::rt::System::new().block_on(async {
            let app = init_service(App::new().route("/", web::get().to(handler))).await;
            assert_eq!(statuses(&app, "/", 2).await, [200, 429]);
            assert_eq!(watch.calls(), 2);
            let app = service!(fresh(), web::resource("/").to(handler));
            assert_eq!(statuses(&app, "/", 1).await, [200], "a registered one comes first");
        });
        assert!(log.at(Level::WARN).is_empty());
    });
}

/// `max` is computed for each request.
#[rate_limit(max = |_: &HttpRequest| 1, algorithm = "sliding_window_log")]
async fn computed() -> &'static str {
    ""
}

#[test]
fn a_second_limiter_in_memory_for_one_handler_logs_one_warning() {
    in_own_process(|| {
        let log = Log::of_process();
        actix_web::rt::System::new().block_on(async {
            let worker = async || {
                let limiter = RateLimiter::in_memory();
                service!(limiter, web::resource("/").to(handler), web::resource("/computed").to(computed))
            };
            let workers = [worker().await, worker().await, worker().await];
            assert_eq!(statuses(&workers[0], "/", 2).await, [200, 429]);
            assert_eq!(log.at(Level::WARN), Vec::<String>::new());
            for _ in 0..2 {
                for worker in &workers {
                    statuses(worker, "/", 1).await;
                    statuses(worker, "/computed", 1).await;
                }
            }
        });
        let warnings = log.at(Level::WARN);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        for words in ["limiters::handler", "make one limiter before `HttpServer::new`"] {
            assert!(warnings[0].contains(words), "{words}: {warnings:?}");
        }
    });
}

#[test]
fn a_second_limiter_for_a_handler_with_computed_values_logs_the_warning() {
    in_own_process(|| {
        let log = Log::of_process();
        actix_web::rt::System::new().block_on(async {
            let first = service!(RateLimiter::in_memory(), web::resource("/").to(computed));
            statuses(&first, "/", 1).await;
            statuses(&service!(RateLimiter::in_memory(), web::resource("/").to(computed)), "/", 1).await;
        });
        assert_eq!(log.at(Level::WARN).len(), 1);
    });
}

#[test]
fn limiters_that_do_not_divide_a_handler_log_no_warning() {
    in_own_process(|| {
        let log = Log::of_process();
        actix_web::rt::System::new().block_on(async {
            let limiter = RateLimiter::in_memory();
            let clones = [limiter.with_deadline(Duration::from_secs(1)), limiter];
            for clone in &clones {
                statuses(&service!(clone, web::resource("/").to(handler)), "/", 1).await;
            }
            // Tests of their own, and a store that may share its counts.
            for other in [fresh(), fresh(), watched().0] {
                statuses(&service!(other, web::resource("/").to(handler)), "/", 1).await;
            }
            // A scope of other handlers.
            let scope = service!(RateLimiter::in_memory(), web::resource("/").to(strict));
            statuses(&scope, "/", 1).await;
            // After the first one.
            drop(clones);
            for _ in 0..2 {
                statuses(&service!(RateLimiter::in_memory(), web::resource("/").to(handler)), "/", 1).await;
            }
        });
        assert_eq!(log.at(Level::WARN), Vec::<String>::new());
    });
}

#[rate_limit(max = 1, on_error = "deny")]
async fn strict() -> &'static str {
    ""
}

#[rate_limit(max = 1, on_error = "allow")]
async fn lenient() -> &'static str {
    ""
}

#[actix_web::test]
async fn a_limit_can_fail_closed_or_open() {
    let (limiter, watch) = watched();
    let app = service!(limiter, web::resource("/strict").to(strict));
    watch.fail(true);
    let answer = send(&app, get("/strict")).await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert_eq!(answer.quota(), None);
    assert!(!answer.text().contains(SECRET), "{}", answer.text());
    watch.fail(false);
    assert_eq!(statuses(&app, "/strict", 2).await, [200, 429]);

    let (limiter, watch) = watched();
    let app = service!(limiter, web::resource("/lenient").to(lenient));
    watch.fail(true);
    assert_eq!(statuses(&app, "/lenient", 3).await, [200, 200, 200]);
    watch.fail(false);
    assert_eq!(statuses(&app, "/lenient", 2).await, [200, 429]);
}

/// A store that is out: each call ends after twice its deadline.
#[derive(Debug)]
struct Silent(Arc<Mutex<Vec<Duration>>>);

const DEADLINE: Duration = Duration::from_millis(50);

impl Store for Silent {
    async fn decide(
        &self,
        _: &[Check<'_>],
        _: Operation,
        deadline: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        self.0.lock().unwrap().push(deadline.timeout());
        tokio::time::sleep(2 * deadline.timeout()).await;
        Err(StoreError::timeout(deadline.timeout()))
    }

    async fn reset(&self, _: &[Check<'_>], _: Deadline) -> Result<(), StoreError> {
        Ok(())
    }

    async fn refund(&self, _: &Reservation<'_>, _: Deadline) -> Result<(), StoreError> {
        Ok(())
    }

    fn deadline(&self) -> Option<Duration> {
        Some(DEADLINE)
    }
}

#[actix_web::test]
async fn each_operation_of_an_http_request_waits_for_a_store_that_is_out_for_one_deadline() {
    #[rate_limit(max = 100, window = "1h", by = global)]
    #[actix_web::get("/")]
    async fn charging(quotas: Quotas) -> &'static str {
        // This process counts in place of the store.
        quotas.charge_up_to(3).await.unwrap();
        ""
    }
    let deadlines = Arc::new(Mutex::new(Vec::new()));
    let app = service!(RateLimiter::new(Silent(Arc::clone(&deadlines))), charging);
    assert_eq!(statuses(&app, "/", 1).await, [200]);
    assert_eq!(*deadlines.lock().unwrap(), [DEADLINE, DEADLINE]);
}
