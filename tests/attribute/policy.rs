//! `policy = PATH`: limits whose policy is in a `static` or `const`. The table shows that they share it.

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::test::init_service;
use actix_web::web::{Data, Path};
use actix_web::{App, HttpRequest, HttpResponse, Responder, get};
use ratelimit_actix::{
    Algorithm, DeclaredLimit, HeaderStyle, OnError, Policy, RateLimitConfig, declared_limits, rate_limit,
};
use tests::answer::{get as from_client, statuses};
use tests::store::{fresh, watched};
use tests::{send, service};

pub(crate) static THREE: Policy = Policy::builder("shared-three").max(3).name("three").build();

static CLOSED: Policy = Policy::builder("shared-closed").max(1).on_error(OnError::Deny).build();

mod limits {
    use super::*;

    pub(super) static BUCKET: Policy = Policy::builder("shared-bucket")
        .max(1)
        .window(Duration::from_secs(3600))
        .algorithm(Algorithm::TokenBucket)
        .burst(8)
        .build();

    pub(super) struct Plans;

    impl Plans {
        pub(super) const FREE: Policy = Policy::new("shared-free", 1, Duration::from_secs(60));
    }
}

#[rate_limit(policy = THREE)]
#[get("/one")]
async fn one() -> &'static str {
    "ok"
}

mod elsewhere {
    use super::{get, rate_limit};

    #[rate_limit(policy = crate::policy::THREE, by = ip)]
    #[get("/other")]
    pub(super) async fn other() -> &'static str {
        "ok"
    }
}

#[rate_limit(policy = CLOSED)]
#[get("/closed")]
async fn closed() -> &'static str {
    "ok"
}

/// An associated constant: every use of it is a policy of its own, with the same count.
#[rate_limit(policy = limits::Plans::FREE)]
#[get("/free")]
async fn free() -> &'static str {
    "ok"
}

#[rate_limit(policy = limits::Plans::FREE)]
#[get("/free-too")]
async fn free_too() -> &'static str {
    "ok"
}

#[rate_limit(policy = limits::BUCKET, by = path("id"), cost = 4)]
#[get("/bucket/{id}")]
async fn bucket() -> &'static str {
    "ok"
}

#[rate_limit(
    policy = limits::BUCKET,
    by = |req: &HttpRequest| req.headers().get("x-caller").map(|_| "caller"),
    on_missing = "skip",
    cost = |cost: Path<(u64, u16)>| cost.0,
    count = "failures",
    skip = |req: &HttpRequest| req.headers().contains_key("x-internal"),
)]
#[get("/choice/{cost}/{status}")]
async fn choice(path: Path<(u64, u16)>) -> impl Responder {
    HttpResponse::build(StatusCode::from_u16(path.1).unwrap())
}

/// The policy of each handler in a block.
#[rate_limit(policy = super::THREE)]
mod block {
    use actix_web::get;

    #[get("/block/one")]
    pub(super) async fn one() -> &'static str {
        "ok"
    }

    #[get("/block/other")]
    pub(super) async fn other() -> &'static str {
        "ok"
    }
}

macro_rules! with_policy {
    ($path:path, $expression:expr) => {
        #[rate_limit(policy = $path)]
        #[rate_limit(policy = $expression)]
        #[get("/generated")]
        async fn generated() -> &'static str {
            "ok"
        }
    };
}

with_policy!(limits::BUCKET, THREE);

#[actix_web::test]
async fn a_constant_policy_is_shared_as_well() {
    let app = service!(fresh(), free, free_too);
    assert_eq!(statuses(&app, "/free", 1).await, [200]);
    assert_eq!(statuses(&app, "/free-too", 1).await, [429]);
}

#[actix_web::test]
async fn numbers_and_failure_policy_are_those_of_the_policy() {
    let app = service!(fresh(), bucket);
    // A burst of 8 with a cost of 4.
    assert_eq!(statuses(&app, "/bucket/a", 3).await, [200, 200, 429]);
    assert_eq!(statuses(&app, "/bucket/b", 1).await, [200]);
    let (limiter, watch) = watched();
    watch.fail(true);
    let app = service!(limiter, closed, one);
    assert_eq!(statuses(&app, "/closed", 1).await, [503]);
    assert_eq!(statuses(&app, "/one", 1).await, [200]);
}

#[actix_web::test]
async fn caller_cost_count_and_skip_are_those_of_the_attribute() {
    let app = service!(fresh(), choice);
    let left = async |path: &str| {
        let request = from_client(path).insert_header(("x-caller", "a"));
        send(&app, request).await.quota().map(|(_, left, _)| left)
    };
    assert_eq!(left("/choice/5/404").await, Some(3));
    assert_eq!(left("/choice/3/200").await, Some(3), "only failures count");
    assert_eq!(left("/choice/3/404").await, Some(0));
    let internal = from_client("/choice/3/404").insert_header(("x-caller", "a"));
    let skipped = send(&app, internal.insert_header(("x-internal", "1"))).await;
    assert_eq!((skipped.status, skipped.quota()), (404, None));
    let missing = send(&app, from_client("/choice/3/404")).await;
    assert_eq!((missing.status, missing.quota()), (404, None));
}

#[actix_web::test]
async fn responses_have_the_name_of_the_policy() {
    let drafts = RateLimitConfig::builder().headers([HeaderStyle::Draft11]).build().unwrap();
    let app =
        App::new().app_data(Data::new(fresh())).app_data(drafts).service(generated).service(block::other);
    let app = init_service(app).await;
    let policies = async |path: &str| {
        send(&app, from_client(path)).await.header("ratelimit-policy").map(str::to_owned).unwrap()
    };
    assert_eq!(policies("/block/other").await, "\"three\";q=3;w=60");
    assert_eq!(policies("/generated").await, "\"shared-bucket\";q=8;w=28800, \"three\";q=3;w=60");
}

#[test]
fn limits_with_a_policy_are_listed() {
    let listed = |path: &str| {
        let path = format!("{}::{path}", module_path!());
        let is_meant = |limit: &DeclaredLimit| format!("{}::{}", limit.module(), limit.handler()) == path;
        let [limit] = declared_limits().into_iter().filter(is_meant).collect::<Vec<_>>()[..] else {
            panic!("{path} has one limit")
        };
        limit
    };
    for limit in ["one", "elsewhere::other", "block::one", "block::other"].map(listed) {
        assert_eq!(
            (limit.policy().key(), limit.policy().name(), limit.max()),
            ("shared-three", "three", Some(3))
        );
        assert_eq!((limit.by(), limit.cost()), ("ip", Some(1)));
    }
    let text = listed("bucket").to_string();
    let begin = concat!(
        module_path!(),
        "::bucket: 1 per 3600s by path(\"id\"), TokenBucket, key shared-bucket, cost 4 ("
    );
    assert!(text.starts_with(begin), "{text}");
    let chosen = listed("choice");
    assert_eq!((chosen.cost(), chosen.count(), chosen.skips()), (None, "failures", true));
}
