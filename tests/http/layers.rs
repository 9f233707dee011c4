//! Several layers of limits around one handler: a count that two of them charge is reported in the log, once
//! for each pair of places.

use std::time::Duration;

use actix_web::test::init_service;
use actix_web::web::{self, Data};
use actix_web::{App, HttpRequest};
use ratelimit_actix::{Limit, Policy, RateLimitMiddleware, RateLimiter, concurrency_limit, rate_limit};
use tests::answer::get;
use tests::log::Log;
use tests::own_process::in_own_process;
use tests::send;
use tests::store::fresh;
use tracing::Level;

const MINUTE: Duration = Duration::from_secs(60);
static TEN: Policy = Policy::new("layers-ten", 10, MINUTE);
static SLOTS: Policy = Policy::concurrency("layers-slots", 5);

const OF_TWICE: u32 = line!() + 1;
#[rate_limit(policy = TEN)]
async fn twice() -> &'static str {
    "ok"
}

/// Another caller, another algorithm, and a cost of nothing: no count is charged twice.
#[rate_limit(policy = TEN, by = global)]
#[rate_limit(max = 10, key = "layers-ten", algorithm = "sliding_window_log")]
#[rate_limit(policy = TEN, cost = |_: &HttpRequest| 0)]
async fn apart() -> &'static str {
    "ok"
}

#[concurrency_limit(policy = SLOTS)]
async fn slots() -> &'static str {
    "ok"
}

/// Warnings about double charges of the requests for `paths`, each with its two places.
fn warnings(log: &Log) -> Vec<String> {
    log.at(Level::WARN).into_iter().filter(|line| line.contains("charged twice")).collect()
}

fn lines_of(line: &str) -> Vec<String> {
    let places = line.split_whitespace().filter(|word| word.contains("layers.rs:"));
    places
        .map(|place| place.split("layers.rs:").nth(1).unwrap().split(':').next().unwrap().to_owned())
        .collect()
}

#[test]
fn a_count_that_two_layers_charge_is_logged_once_for_each_pair_of_places() {
    in_own_process(|| {
        let log = Log::of_process();
        actix_web::rt::System::new().block_on(async {
            let limiter = fresh();
            let outer_line = line!() + 1;
            let outer = RateLimitMiddleware::new(&TEN);
            let inner_line = line!() + 1;
            let inner = RateLimitMiddleware::new(Policy::new("other", 99, MINUTE)).and(Limit::new(&TEN));
            let held = RateLimitMiddleware::new(&SLOTS);
            let app = App::new()
                .app_data(Data::new(limiter))
                .service(
                    web::scope("/outer")
                        .wrap(outer)
                        .route("/twice", web::get().to(twice))
                        .route("/apart", web::get().to(apart))
                        .service(web::scope("/inner").wrap(inner).route("", web::get().to(async || "ok"))),
                )
                .service(web::scope("/slots").wrap(held).route("", web::get().to(slots)))
                .service(
                    web::scope("/elsewhere")
                        .wrap(RateLimitMiddleware::new(&TEN))
                        .service(web::resource("").app_data(Data::new(RateLimiter::in_memory())).to(twice)),
                );
            let app = init_service(app).await;
            for path in ["/outer/apart", "/elsewhere"] {
                assert_eq!(send(&app, get(path)).await.status, 200, "{path}");
            }
            assert_eq!(warnings(&log), Vec::<String>::new());

            for left in [6, 4] {
                assert_eq!(send(&app, get("/outer/twice")).await.quota().unwrap().1, left, "charged twice");
            }
            let logged = warnings(&log);
            assert_eq!(logged.len(), 1, "{logged:?}");
            assert!(logged[0].contains("layers-ten"), "{logged:?}");
            assert_eq!(lines_of(&logged[0]), [outer_line.to_string(), OF_TWICE.to_string()], "{logged:?}");

            assert_eq!(send(&app, get("/outer/inner")).await.status, 200);
            let logged = warnings(&log);
            assert_eq!(logged.len(), 2, "{logged:?}");
            assert_eq!(lines_of(&logged[1]), [outer_line.to_string(), inner_line.to_string()], "{logged:?}");

            assert_eq!(send(&app, get("/slots")).await.status, 200);
            assert_eq!(warnings(&log).len(), 3, "a request that holds two slots");
            for path in ["/outer/twice", "/outer/inner", "/slots"] {
                send(&app, get(path)).await;
            }
            assert_eq!(warnings(&log).len(), 3, "logged before");
        });
    });
}
