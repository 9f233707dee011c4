//! Shadow limits over HTTP: they count, reject nothing and show nothing.

use actix_web::http::StatusCode;
use actix_web::test::init_service;
use actix_web::web::{self, Data, Path, ReqData};
use actix_web::{App, HttpRequest, HttpResponse, Responder, get};
use ratelimit_actix::ratelimit_core::Mode;
use ratelimit_actix::{
    BodyStyle, HeaderStyle, Limit, MemoryStore, Policy, Quotas, RateLimitConfig, RateLimitMiddleware,
    RateLimiter, rate_limit,
};
use tests::answer::{Answer, get as from_client, statuses};
use tests::store::fresh;
use tests::{clock_at_start, redis, send, service};

#[rate_limit(max = 1, window = "1h", mode = "shadow", block = "2h")]
#[get("/alone")]
async fn alone() -> impl Responder {
    // A field of the application, which no limit contradicts.
    HttpResponse::Ok().insert_header(("x-ratelimit-limit", "mine")).body("ok")
}

/// The shadow limit would wait for longer, and has less left.
#[rate_limit(max = 3, window = "1m", name = "enforced")]
#[rate_limit(max = 1, window = "1d", name = "hidden", mode = "shadow", algorithm = "sliding_window_log")]
#[get("/beside")]
async fn beside(quotas: Quotas) -> String {
    let marks: Vec<(String, bool, bool)> = quotas
        .to_vec()
        .iter()
        .map(|quota| (quota.name().to_owned(), quota.is_shadow(), quota.outcome().would_deny()))
        .collect();
    format!("{marks:?} {:?} {:?}", quotas.remaining(), quotas.tightest().map(|quota| quota.name().to_owned()))
}

#[rate_limit(max = 1, window = "1h", by = header("x-tenant"), mode = "shadow")]
#[get("/missing")]
async fn missing() -> &'static str {
    "ok"
}

/// Values that cannot be computed, each in another limit, and one that can.
#[rate_limit(max = |_: ReqData<u64>| 1, mode = "shadow")]
#[rate_limit(by = (ip, |account: ReqData<u64>| *account), mode = "shadow")]
#[rate_limit(cost = with(of_account), mode = "shadow")]
#[rate_limit(skip = async |_: ReqData<u64>| true, mode = "shadow")]
#[rate_limit(max = 2, cost = |_: &HttpRequest| 2)]
#[get("/failing")]
async fn failing(quotas: Quotas) -> String {
    quotas.to_vec().len().to_string()
}

#[allow(clippy::needless_pass_by_value, reason = "an extractor is passed by value")]
fn of_account(account: ReqData<u64>) -> u64 {
    *account
}

/// A `max` that admits nothing, or is out of its bounds.
#[rate_limit(max = |max: Path<u64>| *max, mode = "shadow", name = "chosen")]
#[get("/chosen/{max}")]
async fn chosen(quotas: Quotas) -> String {
    quotas.to_vec().iter().map(|quota| quota.outcome().would_deny().to_string()).collect()
}

#[rate_limit(max = 1, window = "1h", mode = "shadow", on_error = "deny")]
#[get("/strict")]
async fn strict() -> &'static str {
    "ok"
}

#[rate_limit(max = 1, window = "1h", count = "failures", mode = "shadow")]
#[get("/counted/{status}")]
async fn counted(status: Path<u16>, quotas: Quotas) -> impl Responder {
    let would_deny = quotas.to_vec()[0].outcome().would_deny();
    HttpResponse::build(StatusCode::from_u16(*status).unwrap())
        .insert_header(("x-ratelimit-limit", "mine"))
        .body(would_deny.to_string())
}

#[rate_limit(max = 1, window = "1h")]
#[rate_limit(max = |_: &HttpRequest| 0, by = header("x-tenant"))]
#[rate_limit(max = 5, by = |_: ReqData<u64>| 1)]
#[get("/enforced")]
async fn enforced() -> &'static str {
    "ok"
}

static HIDDEN: Policy = Policy::builder("shadow-middleware").max(1).mode(Mode::Shadow).build();

/// All fields and bodies that could show a limit.
fn talkative() -> RateLimitConfig {
    let styles = [HeaderStyle::LegacyUnix, HeaderStyle::Draft11];
    RateLimitConfig::builder().headers(styles).body(BodyStyle::Problem).build().unwrap()
}

macro_rules! shadowed {
    ($limiter:expr) => {{
        let scope =
            web::scope("/scope").wrap(RateLimitMiddleware::new(Limit::new(&HIDDEN).by(|_| None::<u8>)));
        let scope = scope.route("/missing", web::get().to(async || "ok"));
        let other = web::scope("/other").wrap(RateLimitMiddleware::new(&HIDDEN));
        let other = other.route("/free", web::get().to(async || "ok"));
        let app = App::new().app_data(Data::new($limiter)).app_data(talkative());
        let app = app.service(alone).service(beside).service(missing).service(failing).service(chosen);
        init_service(app.service(strict).service(counted).service(enforced).service(scope).service(other))
            .await
    }};
}

/// Asserts that nothing in an answer comes from a limit.
#[track_caller]
fn assert_silent(answer: &Answer) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    for name in ["x-ratelimit-remaining", "x-ratelimit-reset", "ratelimit", "ratelimit-policy", "retry-after"]
    {
        assert_eq!(answer.header(name), None, "{}", answer.text());
    }
}

/// What does not depend on the store.
async fn shows_nothing(limiter: RateLimiter) {
    let app = shadowed!(limiter);
    for _ in 0..4 {
        let answer = send(&app, from_client("/alone")).await;
        assert_silent(&answer);
        assert_eq!(answer.header("x-ratelimit-limit"), Some("mine"));
        for path in
            ["/missing", "/strict", "/chosen/0", "/chosen/1000000000001", "/scope/missing", "/other/free"]
        {
            assert_silent(&send(&app, from_client(path)).await);
        }
    }
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(send(&app, from_client("/beside")).await);
    }
    let marks = |would_deny, left| {
        format!(
            "[(\"enforced\", false, false), (\"hidden\", true, {would_deny})] Some({left}) Some(\"enforced\")"
        )
    };
    assert_eq!(
        [&seen[0], &seen[1], &seen[2]].map(|answer| answer.body.clone()),
        [marks(false, 2), marks(true, 1), marks(true, 0)]
    );
    for answer in &seen {
        assert_eq!(answer.header("ratelimit-policy"), Some("\"enforced\";q=3;w=60"));
    }
    let denied = &seen[3];
    assert_eq!(denied.status, 429);
    assert!(denied.body.contains("\"violated-policies\":[\"enforced\"]"), "{}", denied.body);
    assert!(!denied.text().contains("hidden"), "{}", denied.text());
    let wait: u64 = denied.header("retry-after").unwrap().parse().unwrap();
    assert!(wait <= 120, "the wait is that of the enforced limit: {wait}");
}

#[actix_web::test]
async fn a_shadow_limit_rejects_and_shows_nothing_in_memory() {
    shows_nothing(fresh()).await;
}

#[actix_web::test]
async fn a_shadow_limit_rejects_and_shows_nothing_in_redis() {
    let Some(server) = redis::server() else { return };
    shows_nothing(server.limiter()).await;
}

#[actix_web::test]
async fn a_value_that_cannot_be_computed_leaves_a_shadow_limit_out() {
    let app = shadowed!(fresh());
    // The enforced limit of the handler still applies.
    let first = send(&app, from_client("/failing")).await;
    assert_eq!((first.status, first.body.as_str()), (200, "1"));
    assert_eq!(statuses(&app, "/failing", 1).await, [429]);
}

#[actix_web::test]
async fn a_max_that_admits_nothing_would_deny() {
    let app = shadowed!(fresh());
    for (max, would_deny) in
        [(0, "true"), (1, "false"), (1_000_000_000_001_u64, "true"), (1, "true"), (2, "false")]
    {
        assert_eq!(send(&app, from_client(&format!("/chosen/{max}"))).await.body, would_deny, "{max}");
    }
}

#[actix_web::test]
async fn a_shadow_limit_counts_only_the_responses_that_it_should() {
    let app = shadowed!(fresh());
    let mut seen = Vec::new();
    for status in [200, 200, 404, 200] {
        let answer = send(&app, from_client(&format!("/counted/{status}"))).await;
        assert_eq!(answer.header("x-ratelimit-limit"), Some("mine"), "the fields of the application stay");
        assert_eq!(answer.header("ratelimit"), None);
        seen.push((answer.status, answer.body));
    }
    let shown = |status, would_deny: &str| (status, would_deny.to_owned());
    assert_eq!(seen, [shown(200, "false"), shown(200, "false"), shown(404, "false"), shown(200, "true")]);
}

#[actix_web::test]
async fn a_limiter_in_shadow_rejects_and_shows_nothing() {
    let limiter = RateLimiter::builder(MemoryStore::new()).shadow(true).build();
    let app = shadowed!(limiter);
    for _ in 0..3 {
        for path in ["/enforced", "/failing", "/beside", "/alone"] {
            assert_silent(&send(&app, from_client(path)).await);
        }
    }
}

/// A limit that is tried beside an enforced one with its key.
mod same_key {
    use super::{Mode, Policy, get, rate_limit};

    pub(super) static ENFORCED: Policy = Policy::builder("shadow-policy").max(4).build();
    pub(super) static SHADOW: Policy = Policy::builder("shadow-policy").max(1).mode(Mode::Shadow).build();

    #[rate_limit(max = 3, window = "1h", key = "shadow-api")]
    #[rate_limit(max = 1, window = "1h", key = "shadow-api", mode = "shadow")]
    #[get("/same/arguments")]
    pub(super) async fn arguments() -> &'static str {
        "ok"
    }

    #[rate_limit(max = 9, window = "1h", key = "shadow-api", mode = "shadow")]
    #[get("/same/shadow")]
    pub(super) async fn shadow() -> &'static str {
        "ok"
    }

    #[rate_limit(policy = ENFORCED)]
    #[rate_limit(policy = SHADOW)]
    #[get("/same/policies")]
    pub(super) async fn policies() -> &'static str {
        "ok"
    }

    #[rate_limit(max = 2, key = "shadow-bucket", algorithm = "token_bucket")]
    #[rate_limit(max = |max: super::Path<u64>| *max, key = "shadow-bucket", algorithm = "token_bucket", mode = "shadow")]
    #[get("/same/bucket/{max}")]
    pub(super) async fn bucket() -> &'static str {
        "ok"
    }
}

async fn the_key_of_an_enforced_limit_is_no_matter(limiter: RateLimiter) {
    let app = service!(limiter, same_key::arguments, same_key::shadow, same_key::policies, same_key::bucket);
    assert_eq!(statuses(&app, "/same/shadow", 5).await, [200; 5]);
    assert_eq!(statuses(&app, "/same/arguments", 4).await, [200, 200, 200, 429]);
    assert_eq!(statuses(&app, "/same/policies", 5).await, [200, 200, 200, 200, 429]);
    assert_eq!(statuses(&app, "/same/bucket/2", 3).await, [200, 200, 429]);
}

#[actix_web::test]
async fn a_shadow_limit_with_the_key_of_an_enforced_one_changes_nothing_in_memory() {
    the_key_of_an_enforced_limit_is_no_matter(fresh()).await;
}

#[actix_web::test]
async fn a_shadow_limit_with_the_key_of_an_enforced_one_changes_nothing_in_redis() {
    let Some(server) = redis::server() else { return };
    the_key_of_an_enforced_limit_is_no_matter(server.limiter_at(&clock_at_start())).await;
}

#[test]
fn a_shadow_limit_and_an_enforced_one_with_its_key_are_no_mistake() {
    let Err(error) = ratelimit_actix::check_declared_limits() else { return };
    assert!(!error.to_string().contains(module_path!()), "{error}");
}
