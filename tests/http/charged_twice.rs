//! Limits of one handler with one count that the compiler does not compare: `check_declared_limits` finds
//! them.

use actix_web::HttpRequest;
use ratelimit_actix::ratelimit_core::policy::Calendar;
use ratelimit_actix::ratelimit_core::{Algorithm, Mode, Policy, PolicyBuilder};
use ratelimit_actix::{DeclaredLimit, check_declared_limits, concurrency_limit, rate_limit};

const HUNDRED: u64 = 100;
const SEARCH: PolicyBuilder = Policy::builder("twice-search");
static FEW: Policy = SEARCH.max(10).build();
static MANY: Policy = SEARCH.max(HUNDRED).build();
static SHADOW: Policy = Policy::builder("twice-shadow").mode(Mode::Shadow).build();
static THREE: Policy = Policy::concurrency("twice-slots", 3);
const BUDGET: PolicyBuilder = Policy::builder("twice-budget");
static BERLIN: Policy = BUDGET.calendar(Calendar::month(1).in_zone("Europe/Berlin")).build();
static TOKYO: Policy = BUDGET.calendar(Calendar::month(15).in_zone("Asia/Tokyo")).build();
static BUCKET: Policy = SEARCH.algorithm(Algorithm::TokenBucket).build();

/// Handlers whose limits share a count.
mod together {
    use super::{
        BERLIN, BUCKET, FEW, FEW as SAME, HUNDRED, MANY, SHADOW, THREE, TOKYO, concurrency_limit, rate_limit,
    };

    #[rate_limit(policy = FEW)]
    #[rate_limit(policy = MANY, cost = 2)]
    pub(super) async fn two_policies() -> &'static str {
        "ok"
    }

    #[rate_limit(policy = SAME, by = global)]
    #[rate_limit(policy = FEW, by = global)]
    pub(super) async fn two_paths_to_one_policy() -> &'static str {
        "ok"
    }

    #[rate_limit(policy = FEW)]
    #[rate_limit(max = 3, key = "twice-search")]
    pub(super) async fn policy_and_arguments() -> &'static str {
        "ok"
    }

    #[rate_limit(policy = BUCKET)]
    #[rate_limit(max = 5, key = "twice-bucket", algorithm = "token_bucket", burst = HUNDRED)]
    #[rate_limit(max = 5, key = "twice-bucket", algorithm = "token_bucket", burst = 100)]
    pub(super) async fn constant_and_number() -> &'static str {
        "ok"
    }

    #[rate_limit(policy = SHADOW)]
    #[rate_limit(key = "twice-shadow", mode = "shadow")]
    pub(super) async fn two_shadow_limits() -> &'static str {
        "ok"
    }

    #[rate_limit(policy = BERLIN)]
    #[rate_limit(policy = TOKYO)]
    pub(super) async fn two_calendars() -> &'static str {
        "ok"
    }

    #[concurrency_limit(policy = THREE)]
    #[concurrency_limit(max = 5, key = "twice-slots")]
    pub(super) async fn two_slots() -> &'static str {
        "ok"
    }
}

/// Handlers whose limits count apart, or apply to different requests.
mod apart {
    use super::{BUCKET, FEW, HttpRequest, MANY, THREE, concurrency_limit, rate_limit};

    #[concurrency_limit(policy = THREE)]
    #[rate_limit(max = 3, key = "twice-slots")]
    pub(super) async fn a_slot_and_a_rate() -> &'static str {
        "ok"
    }

    #[rate_limit(policy = FEW)]
    #[rate_limit(policy = BUCKET)]
    #[rate_limit(policy = MANY, by = global)]
    pub(super) async fn other_counts() -> &'static str {
        "ok"
    }

    #[rate_limit(policy = FEW, skip = |req: &HttpRequest| req.headers().contains_key("x-paid"))]
    #[rate_limit(policy = MANY, skip = |req: &HttpRequest| !req.headers().contains_key("x-paid"))]
    pub(super) async fn other_requests() -> &'static str {
        "ok"
    }

    #[rate_limit(max = |_: &HttpRequest| 1, key = "twice-max", algorithm = "token_bucket")]
    #[rate_limit(max = |_: &HttpRequest| 2, key = "twice-max", algorithm = "token_bucket")]
    pub(super) async fn buckets_of_computed_size() -> &'static str {
        "ok"
    }

    #[rate_limit(policy = FEW)]
    pub(super) async fn the_count_of_other_handlers() -> &'static str {
        "ok"
    }
}

#[test]
fn limits_that_charge_a_request_twice_are_an_error_with_their_place() {
    let _ = (together::two_policies, together::two_paths_to_one_policy, together::policy_and_arguments);
    let _ = (together::constant_and_number, together::two_shadow_limits, apart::other_counts);
    let _ = (apart::other_requests, apart::buckets_of_computed_size, apart::the_count_of_other_handlers);
    let _ = (together::two_calendars, together::two_slots, apart::a_slot_and_a_rate);
    let error = check_declared_limits().unwrap_err();
    let own = |limit: &DeclaredLimit| limit.module().starts_with(module_path!());
    let found: Vec<(&str, &str, &str)> = error
        .pairs()
        .iter()
        .filter(|pair| own(pair.first()))
        .map(|pair| (pair.first().handler(), pair.second().handler(), pair.second().policy().key()))
        .collect();
    assert_eq!(
        found,
        [
            ("two_policies", "two_policies", "twice-search"),
            ("two_paths_to_one_policy", "two_paths_to_one_policy", "twice-search"),
            ("policy_and_arguments", "policy_and_arguments", "twice-search"),
            ("constant_and_number", "constant_and_number", "twice-bucket"),
            ("two_shadow_limits", "two_shadow_limits", "twice-shadow"),
            ("two_calendars", "two_calendars", "twice-budget"),
            ("two_slots", "two_slots", "twice-slots"),
        ]
    );
    let text = error.to_string();
    let begin = concat!("two limits of `", module_path!(), "::together::two_policies` (");
    let line = text.lines().find(|line| line.starts_with(begin)).unwrap();
    assert!(line.contains("charged_twice.rs:"), "{line}");
    let end = ") both count in `twice-search`, so a request is charged twice; remove one, or give it another key or window";
    assert!(line.ends_with(end), "{line}");
    let end =
        ") both count in `twice-slots`, so a request holds two slots; remove one, or give it another key";
    assert!(text.lines().any(|line| line.ends_with(end)), "{text}");
}
