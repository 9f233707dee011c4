//! Documents of operations with and without limits.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, get, post};
use serde_json::{Value, json};
use utoipa::openapi::OpenApi as Document;
use utoipa::{Modify, OpenApi};

use super::{RateLimitResponses, ends_with_path};
use crate::config::RateLimitConfig;
use crate::response::{BodyStyle, HeaderStyle};

/// The attribute names this crate by a path.
mod facade {
    pub(super) use crate::*;
}

#[allow(dead_code, reason = "handlers that are described and not mounted")]
mod handlers {
    use super::{HttpRequest, StatusCode, get, post};
    use crate::{concurrency_limit, rate_limit};

    #[utoipa::path(get, path = "/plain", responses((status = 200, description = "Fine.")))]
    #[rate_limit(max = 10, window = "1500ms", name = "plain", crate = crate::openapi::tests::facade)]
    #[get("/plain")]
    pub(super) async fn plain() -> &'static str {
        "ok"
    }

    fn tenant(req: &HttpRequest) -> Option<String> {
        Some(req.headers().get("x-tenant")?.to_str().ok()?.to_owned())
    }

    #[utoipa::path(post, path = "/tenants", responses((status = 429, description = "Described by hand.")))]
    #[rate_limit(max = 10, window = "1m", name = "tenant", by = tenant, on_error = "deny", block = "10m", cost = 2, crate = crate::openapi::tests::facade)]
    #[rate_limit(max = |_: &HttpRequest| 7, window = "1h", name = "chosen", sub_windows = 6, count = |status: StatusCode| status.is_success(), crate = crate::openapi::tests::facade)]
    #[post("/tenants")]
    pub(super) async fn by_tenant() -> &'static str {
        "ok"
    }

    #[utoipa::path(get, path = "/closure", responses((status = 200, description = "Fine.")))]
    #[rate_limit(max = 10, by = |req: &HttpRequest| req.uri().host().map(str::to_owned), crate = crate::openapi::tests::facade)]
    #[get("/closure")]
    pub(super) async fn by_closure() -> &'static str {
        "ok"
    }

    #[utoipa::path(get, path = "/skipped", responses((status = 200, description = "Fine.")))]
    #[rate_limit(max = 10, by = header("x-a"), on_missing = "skip", crate = crate::openapi::tests::facade)]
    #[get("/skipped")]
    pub(super) async fn skipped() -> &'static str {
        "ok"
    }

    #[utoipa::path(get, path = "/shadow", responses((status = 200, description = "Fine.")))]
    #[rate_limit(max = 10, mode = "shadow", crate = crate::openapi::tests::facade)]
    #[get("/shadow")]
    pub(super) async fn in_shadow() -> &'static str {
        "ok"
    }

    #[utoipa::path(get, path = "/stream", responses((status = 200, description = "Fine.")))]
    #[concurrency_limit(max = 3, name = "streams", crate = crate::openapi::tests::facade)]
    #[get("/stream")]
    pub(super) async fn stream_of() -> &'static str {
        "ok"
    }

    #[utoipa::path(get, path = "/chat", responses((status = 200, description = "Fine.")))]
    #[concurrency_limit(max = |_: &HttpRequest| 7, name = "streams", crate = crate::openapi::tests::facade)]
    #[rate_limit(max = 60, name = "requests", crate = crate::openapi::tests::facade)]
    #[get("/chat")]
    pub(super) async fn chat() -> &'static str {
        "ok"
    }

    #[utoipa::path(get, path = "/free", responses((status = 200, description = "Fine.")))]
    #[get("/free")]
    pub(super) async fn free() -> &'static str {
        "ok"
    }

    #[utoipa::path(get, path = "/renamed", operation_id = "listOrders", responses((status = 200, description = "Fine.")))]
    #[rate_limit(max = 3, crate = crate::openapi::tests::facade)]
    #[get("/renamed")]
    pub(super) async fn orders() -> &'static str {
        "ok"
    }

    #[cfg(feature = "calendar")]
    pub(super) mod billed {
        use actix_web::HttpRequest;

        use crate::rate_limit;

        #[utoipa::path(get, path = "/translate", responses((status = 200, description = "Fine.")))]
        #[rate_limit(max = 10, window = "month", zone = "Europe/Berlin", anchor = |_: &HttpRequest| 15, name = "budget", crate = crate::openapi::tests::facade)]
        #[rate_limit(max = 3, window = "day", name = "daily", crate = crate::openapi::tests::facade)]
        #[actix_web::get("/translate")]
        pub(in crate::openapi::tests) async fn translate() -> &'static str {
            "ok"
        }
    }

    pub(super) mod free_twin {
        #[utoipa::path(get, path = "/free-plain", responses((status = 200, description = "Fine.")))]
        #[actix_web::get("/free-plain")]
        pub(in crate::openapi::tests) async fn plain() -> &'static str {
            "ok"
        }
    }

    pub(super) mod twin {
        use crate::rate_limit;

        #[utoipa::path(get, path = "/twin", responses((status = 200, description = "Fine.")))]
        #[rate_limit(max = 20, crate = crate::openapi::tests::facade)]
        #[actix_web::get("/twin")]
        pub(in crate::openapi::tests) async fn twins() -> &'static str {
            "ok"
        }
    }

    #[rate_limit(max = 10, crate = crate::openapi::tests::facade)]
    pub(super) async fn twins() -> &'static str {
        "ok"
    }
}

#[derive(OpenApi)]
#[openapi(paths(
    handlers::plain,
    handlers::by_tenant,
    handlers::by_closure,
    handlers::skipped,
    handlers::in_shadow,
    handlers::free,
    handlers::orders,
    handlers::stream_of,
    handlers::chat
))]
struct Api;

fn applied(responses: &RateLimitResponses) -> Value {
    let mut document = Api::openapi();
    responses.apply(&mut document).unwrap();
    serde_json::to_value(document).unwrap()
}

fn statuses(document: &Value, path: &str, method: &str) -> Vec<String> {
    document["paths"][path][method]["responses"].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn a_response_is_there_if_a_limit_can_give_it() {
    let document = applied(&RateLimitResponses::default());
    assert_eq!(statuses(&document, "/plain", "get"), ["200", "429"]);
    assert_eq!(statuses(&document, "/tenants", "post"), ["400", "429", "503"]);
    assert_eq!(statuses(&document, "/closure", "get"), ["200", "400", "429"]);
    assert_eq!(statuses(&document, "/skipped", "get"), ["200", "429"]);
    for path in ["/shadow", "/free", "/renamed"] {
        assert_eq!(
            document["paths"][path],
            serde_json::to_value(Api::openapi()).unwrap()["paths"][path],
            "{path}"
        );
    }
}

#[test]
fn the_numbers_are_those_of_the_attribute() {
    let document = applied(&RateLimitResponses::default());
    let numbers = |path: &str, method: &str| document["paths"][path][method]["x-ratelimit"].clone();
    let plain = json!([{"name": "plain", "algorithm": "sliding_window_counter", "max": 10, "window": 1.5}]);
    assert_eq!(numbers("/plain", "get"), plain);
    let tenants = json!([
        {"name": "tenant", "algorithm": "sliding_window_counter", "max": 10, "window": 60, "cost": 2, "block": 600},
        {"name": "chosen", "algorithm": "sliding_window_counter", "window": 3600, "subWindows": 6},
    ]);
    assert_eq!(numbers("/tenants", "post"), tenants);
}

#[cfg(feature = "calendar")]
#[test]
fn windows_of_a_calendar_are_a_phrase() {
    #[derive(OpenApi)]
    #[openapi(paths(handlers::billed::translate))]
    struct Billed;

    let mut document = Billed::openapi();
    RateLimitResponses::default().apply(&mut document).unwrap();
    let document = serde_json::to_value(document).unwrap();
    let calendar = "calendar month in Europe/Berlin from a day chosen for each request";
    let expected = json!([
        {"name": "budget", "algorithm": "fixed_window", "max": 10, "calendar": calendar},
        {"name": "daily", "algorithm": "fixed_window", "max": 3, "calendar": "calendar day in UTC"},
    ]);
    assert_eq!(document["paths"]["/translate"]["get"]["x-ratelimit"], expected);
}

#[test]
fn fields_and_bodies_are_those_of_the_configuration() {
    let config = RateLimitConfig::builder().headers([HeaderStyle::Draft11, HeaderStyle::LegacyUnix]);
    let config = config.body(BodyStyle::Problem).body_by_accept(true).build().unwrap();
    let document = applied(&RateLimitResponses::new(&config));
    let responses = &document["paths"]["/plain"]["get"]["responses"];
    let names = |status: &str| -> Vec<String> {
        responses[status]["headers"].as_object().unwrap().keys().cloned().collect()
    };
    let quota =
        ["ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
    assert_eq!(names("200"), quota);
    assert_eq!(names("429"), [&["cache-control"], &quota[..2], &["retry-after"], &quota[2..]].concat());
    let bodies: Vec<_> = responses["429"]["content"].as_object().unwrap().keys().collect();
    assert_eq!(bodies.len(), 3, "{bodies:?}");
    assert!(
        responses["429"]["content"]["application/problem+json"]["schema"]["properties"]["violated-policies"]
            .is_object()
    );
    let none =
        RateLimitConfig::builder().headers([]).body_with("text/html", |_| String::new()).build().unwrap();
    let document = applied(&RateLimitResponses::new(&none));
    let denied = &document["paths"]["/plain"]["get"]["responses"]["429"];
    let names: Vec<_> = denied["headers"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["cache-control", "retry-after"], "no quota: {denied}");
    assert_eq!(denied["content"], json!({"text/html": {}}));
}

#[test]
fn a_concurrency_limit_has_no_window_and_no_wait() {
    let config = RateLimitConfig::builder().headers([HeaderStyle::Draft11, HeaderStyle::LegacyUnix]);
    let document = applied(&RateLimitResponses::new(&config.build().unwrap()));
    let operation = |path: &str| document["paths"][path]["get"].clone();
    let (alone, beside) = (operation("/stream"), operation("/chat"));
    let streams = json!([{"name": "streams", "algorithm": "concurrency", "max": 3}]);
    assert_eq!(alone["x-ratelimit"], streams);
    assert_eq!(beside["x-ratelimit"][0], json!({"name": "streams", "algorithm": "concurrency"}));
    assert_eq!(beside["x-ratelimit"][1]["window"], 60);
    let names = |operation: &Value| -> Vec<String> {
        operation["responses"]["429"]["headers"].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(names(&alone), ["cache-control", "ratelimit", "ratelimit-policy"]);
    assert_eq!(names(&beside).len(), 7);
    let wait = beside["responses"]["429"]["headers"]["retry-after"]["description"].as_str().unwrap();
    assert!(wait.ends_with("or if it only waits until another request of the caller has ended."), "{wait}");
    let plain = &operation("/plain")["responses"]["429"]["headers"]["retry-after"]["description"];
    assert!(plain.as_str().unwrap().ends_with("costs more than the limit allows."), "{plain}");
}

#[test]
fn what_is_described_by_hand_stays() {
    let document = applied(&RateLimitResponses::default());
    let denied = &document["paths"]["/tenants"]["post"]["responses"]["429"];
    assert_eq!(denied["description"], "Described by hand.");
    assert!(denied["headers"]["x-ratelimit-limit"].is_object(), "{denied}");
    let mut twice = Api::openapi();
    RateLimitResponses::default().modify(&mut twice);
    RateLimitResponses::default().modify(&mut twice);
    assert_eq!(serde_json::to_value(twice).unwrap(), document);
}

#[test]
fn an_operation_with_another_id_is_assigned() {
    let document = applied(&RateLimitResponses::default().operation("listOrders", "handlers::orders"));
    assert_eq!(document["paths"]["/renamed"]["get"]["x-ratelimit"][0]["max"], 3);
}

#[test]
fn a_limited_handler_that_no_operation_belongs_to_is_told() {
    let left_out = |responses: RateLimitResponses| -> Vec<String> {
        let limits = responses.apply(&mut Api::openapi()).unwrap();
        let handlers = limits.iter().filter(|limit| limit.module().starts_with(module_path!()));
        handlers.map(|limit| limit.handler().to_owned()).filter(|handler| handler != "translate").collect()
    };
    let responses = RateLimitResponses::default();
    assert_eq!(
        left_out(responses.clone()),
        ["orders", "twins", "twins"],
        "no shadow limit, and no operation without limits"
    );
    assert_eq!(left_out(responses.operation("listOrders", "handlers::orders")), ["twins", "twins"]);
}

#[derive(OpenApi)]
#[openapi(paths(handlers::twin::twins))]
struct Twins;

#[test]
fn functions_of_the_same_name_must_be_told_apart() {
    let apply = |responses: RateLimitResponses| {
        let mut document: Document = Twins::openapi();
        let result = responses.apply(&mut document).map(drop).map_err(|error| error.to_string());
        (
            result,
            serde_json::to_value(document).unwrap()["paths"]["/twin"]["get"]["x-ratelimit"][0]["max"].clone(),
        )
    };
    let (result, max) = apply(RateLimitResponses::default());
    assert_eq!(max, Value::Null);
    let expected = "the operation `twins` may belong to `ratelimit_actix::openapi::tests::handlers::twin::twins` or \
                    `ratelimit_actix::openapi::tests::handlers::twins`: choose one with `.operation(\"twins\", \
                    \"ratelimit_actix::openapi::tests::handlers::twin::twins\")`";
    assert_eq!(result.unwrap_err(), expected);
    assert_eq!(apply(RateLimitResponses::default().operation("twins", "twin::twins")), (Ok(()), 20.into()));
    let (result, _) =
        apply(RateLimitResponses::default().operation("twins", "lost::twins").operation("absent", "x"));
    let expected = "no limited handler has the path `lost::twins` of the operation `twins`\nthe document has no operation with the id `absent`";
    assert_eq!(result.unwrap_err(), expected);
}

#[derive(OpenApi)]
#[openapi(paths(handlers::plain, handlers::free_twin::plain, handlers::free))]
struct SameIds;

#[test]
fn an_id_of_a_limited_and_an_unlimited_operation_is_unclear() {
    let mut document: Document = SameIds::openapi();
    let error = RateLimitResponses::default().apply(&mut document).unwrap_err().to_string();
    assert!(
        error.starts_with("several operations have the id `plain`") && error.lines().count() == 1,
        "{error}"
    );
    assert!(!serde_json::to_string(&document).unwrap().contains("x-ratelimit"));
}

#[test]
fn a_path_ends_with_whole_segments() {
    for (end, expected) in
        [("a::b::c", true), ("b::c", true), ("c", true), ("::c", false), ("b", false), ("xb::c", false)]
    {
        assert_eq!(ends_with_path("a::b::c", end), expected, "{end}");
    }
    assert!(!ends_with_path("a::list", "st"));
}
