//! What is chosen for each request: `max`, `cost` and `skip`.

#![allow(clippy::needless_pass_by_value, reason = "extractors are taken by value")]

use std::sync::atomic::{AtomicUsize, Ordering};

use actix_web::web::Path;
use actix_web::{HttpRequest, get};
use ratelimit_actix::rate_limit;
use tests::answer::{get as from_client, request};
use tests::log::Log;
use tests::store::{fresh, watched};
use tests::{Answer, send, service};
use tracing::Level;

/// The number at the end of the path.
fn number(req: &HttpRequest) -> u64 {
    req.match_info().query("n").parse().unwrap()
}

async fn number_later(req: &HttpRequest) -> u64 {
    std::future::ready(number(req)).await
}

fn number_extracted(n: Path<u64>, _req: HttpRequest) -> u64 {
    *n
}

async fn number_extracted_later(n: Path<u64>) -> u64 {
    std::future::ready(*n).await
}

fn configured() -> u64 {
    2
}

macro_rules! handlers {
    ($($path:literal $name:ident: ($($argument:tt)*);)*) => {$(
        #[rate_limit($($argument)*)]
        #[get($path)]
        pub(super) async fn $name() -> &'static str {
            "ok"
        }
    )*};
}

mod maxima {
    use super::*;

    #[rate_limit(max = |req: &HttpRequest| number(req), by = global, key = "max")]
    #[get("/closure/{n}")]
    async fn closure() -> &'static str {
        "ok"
    }

    #[rate_limit(max = with(number), by = global, key = "max")]
    #[get("/function/{n}")]
    async fn function() -> &'static str {
        "ok"
    }

    #[rate_limit(max = with(number_later), by = global, key = "max")]
    #[get("/later/{n}")]
    async fn later() -> &'static str {
        "ok"
    }

    #[rate_limit(max = with(number_extracted), by = global, key = "max")]
    #[get("/extracted/{n}")]
    async fn extracted() -> &'static str {
        "ok"
    }

    #[rate_limit(max = with(number_extracted_later), by = global, key = "max")]
    #[get("/extracted-later/{n}")]
    async fn extracted_later() -> &'static str {
        "ok"
    }

    #[rate_limit(max = async |n: Path<u64>| std::future::ready(*n).await, by = global, key = "max")]
    #[get("/async/{n}")]
    async fn async_closure() -> &'static str {
        "ok"
    }

    #[rate_limit(max = with(configured), by = global)]
    #[get("/configured")]
    async fn from_nothing() -> &'static str {
        "ok"
    }

    #[actix_web::test]
    async fn every_form_chooses_the_maximum_and_all_maxima_share_a_count() {
        let app = service!(
            fresh(),
            closure,
            function,
            later,
            extracted,
            extracted_later,
            async_closure,
            from_nothing
        );
        let paths = ["closure", "function", "later", "extracted", "extracted-later", "async"];
        for (taken, path) in paths.into_iter().enumerate() {
            // As many as have passed so far are no longer enough, one more is.
            if taken > 0 {
                assert_eq!(send(&app, from_client(&format!("/{path}/{taken}"))).await.status, 429);
            }
            let answer = send(&app, from_client(&format!("/{path}/{}", taken + 1))).await;
            let limit = u64::try_from(taken).unwrap() + 1;
            let quota = answer.quota().unwrap();
            assert_eq!((answer.status, quota.0, quota.1), (200, limit, 0), "{path}");
        }
        let answer = send(&app, from_client("/configured")).await;
        assert_eq!(answer.quota().unwrap().1, 1);
        assert_eq!(send(&app, from_client("/extracted/word")).await.status, 404);
    }

    #[rate_limit(max = with(number), by = global, key = "bounds")]
    #[rate_limit(max = 100, by = global, key = "other")]
    #[get("/bounds/{n}")]
    async fn bounds() -> &'static str {
        "ok"
    }

    async fn response_to(n: u64) -> Answer {
        let app = service!(fresh(), bounds);
        send(&app, from_client(&format!("/bounds/{n}"))).await
    }

    #[actix_web::test]
    async fn a_maximum_of_zero_denies_and_charges_no_other_limit() {
        let (log, _guard) = Log::of_thread();
        let (limiter, watch) = watched();
        let app = service!(limiter, bounds);
        let answer = send(&app, from_client("/bounds/0")).await;
        assert_eq!(log.at(Level::ERROR), [] as [String; 0], "it is a way to deny");
        assert_eq!((answer.status, answer.header("retry-after")), (429, None));
        assert_eq!(answer.header("x-ratelimit-limit"), Some("0"));
        assert_eq!(watch.calls(), 0);
    }

    #[test]
    fn a_maximum_out_of_bounds_denies_and_logs_one_line() {
        tests::own_process::in_own_process(|| {
            let log = Log::of_process();
            actix_web::rt::System::new().block_on(async {
                for n in [1_000_000_000_001, u64::MAX] {
                    let answer = response_to(n).await;
                    assert_eq!((answer.status, answer.header("retry-after")), (429, None));
                }
                assert_eq!(response_to(1_000_000_000_000).await.status, 200);
            });
            let errors = log.at(Level::ERROR);
            assert_eq!(errors.len(), 1, "{errors:?}");
            assert!(errors[0].contains("out of its bounds"), "{errors:?}");
        });
    }

    #[rate_limit(max = with(number), by = global, algorithm = "token_bucket", window = "1h")]
    #[get("/bucket/{n}")]
    async fn bucket() -> &'static str {
        "ok"
    }

    #[actix_web::test]
    async fn each_maximum_has_a_token_bucket_of_its_own() {
        let app = service!(fresh(), bucket);
        let mut statuses = Vec::new();
        for path in ["/bucket/1", "/bucket/1", "/bucket/2", "/bucket/2", "/bucket/2"] {
            statuses.push(send(&app, from_client(path)).await.status);
        }
        assert_eq!(statuses, [200, 429, 200, 200, 429]);
    }
}

mod costs {
    use super::*;

    handlers! {
        "/closure/{n}" closure: (max = 10, by = global, cost = |req: &HttpRequest| number(req));
    }

    #[actix_web::test]
    async fn a_cost_above_the_limit_never_passes() {
        let app = service!(fresh(), closure);
        for cost in [11, 1_000_000_000_001, u64::MAX] {
            let answer = send(&app, from_client(&format!("/closure/{cost}"))).await;
            assert_eq!((answer.status, answer.header("retry-after")), (429, None), "{cost}");
        }
        assert_eq!(send(&app, from_client("/closure/10")).await.status, 200);
    }
}

#[test]
fn a_cost_out_of_bounds_logs_one_line() {
    tests::own_process::in_own_process(|| {
        let log = Log::of_process();
        actix_web::rt::System::new().block_on(async {
            let app = service!(fresh(), costs::closure);
            for (cost, status) in [(11_u64, 429), (1_000_000_000_000, 429), (10, 200)] {
                let answer = send(&app, from_client(&format!("/closure/{cost}"))).await;
                assert_eq!(answer.status, status, "{cost}");
            }
            // Too much for this limit, which is what a limit is for.
            assert_eq!(log.at(Level::ERROR), Vec::<String>::new());
            for cost in [1_000_000_000_001, u64::MAX] {
                assert_eq!(send(&app, from_client(&format!("/closure/{cost}"))).await.status, 429);
            }
        });
        let errors = log.at(Level::ERROR);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains("more than any limit"), "{errors:?}");
    });
}

mod skipping {
    use super::*;

    static CALLS: AtomicUsize = AtomicUsize::new(0);

    fn counted_call() -> u64 {
        CALLS.fetch_add(1, Ordering::SeqCst);
        1
    }

    fn is_internal(req: &HttpRequest) -> bool {
        req.headers().contains_key("x-internal")
    }

    handlers! {
        "/skip" skip: (max = with(counted_call), skip = with(is_internal), by = |_req: HttpRequest| counted_call(), cost = with(counted_call));
        "/closure" closure: (max = 1, skip = |req: &HttpRequest| is_internal(req));
        "/async" later: (max = 1, skip = async |req: &HttpRequest| std::future::ready(is_internal(req)).await);
    }

    #[actix_web::test]
    async fn a_skipped_limit_is_not_checked_and_calls_no_other_function() {
        let (limiter, watch) = watched();
        let app = service!(limiter, skip, closure, later);
        let internal = |path| from_client(path).insert_header(("x-internal", "1"));
        for path in ["/skip", "/closure", "/async"] {
            let answer = send(&app, internal(path)).await;
            assert_eq!((answer.status, answer.quota()), (200, None), "{path}");
        }
        assert_eq!((watch.calls(), CALLS.load(Ordering::SeqCst)), (0, 0));
        for path in ["/skip", "/closure", "/async"] {
            assert_eq!(send(&app, from_client(path)).await.status, 200, "{path}");
            assert_eq!(send(&app, from_client(path)).await.status, 429, "{path}");
        }
        assert_eq!(CALLS.load(Ordering::SeqCst), 6);
        // Not counted, so nothing is chosen either.
        let answer = send(&app, request(actix_web::http::Method::OPTIONS, "/skip")).await;
        assert_eq!((answer.status, CALLS.load(Ordering::SeqCst)), (404, 6));
    }

    #[rate_limit(max = 1, skip = with(is_internal), key = "skippable")]
    #[rate_limit(max = 2, key = "always")]
    #[get("/group")]
    async fn group() -> &'static str {
        "ok"
    }

    #[actix_web::test]
    async fn skip_removes_only_its_own_limit_from_a_group() {
        let app = service!(fresh(), group);
        let internal = || from_client("/group").insert_header(("x-internal", "1"));
        let answer = send(&app, internal()).await;
        assert_eq!((answer.status, answer.quota().unwrap().0), (200, 2));
        assert_eq!(send(&app, from_client("/group")).await.status, 200);
        assert_eq!(send(&app, internal()).await.status, 429);
    }
}
