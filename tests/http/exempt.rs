//! Networks without limits: `RateLimitConfigBuilder::exempt`.

use std::time::Duration;

use actix_web::test::init_service;
use actix_web::web::{self, Data, ReqData};
use actix_web::{App, get};
use ratelimit_actix::{
    ForwardedHeader, Limit, Policy, Quotas, RateLimitConfig, RateLimitConfigBuilder, RateLimitMiddleware,
    caller, rate_limit,
};
use tests::answer::by;
use tests::send;
use tests::store::fresh;

static ALL: Policy = Policy::new("exempt-all", 1, Duration::from_secs(3600));

/// One request in all, so that every request that is counted shows.
#[rate_limit(max = 1, window = "1h", by = global)]
#[get("/fixed")]
async fn fixed(quotas: Quotas) -> String {
    format!("{:?}", quotas.remaining())
}

/// Values per request that fail without an account.
#[rate_limit(
    max = |_: ReqData<u64>| 1,
    window = "1h",
    by = |account: ReqData<u64>| *account,
    cost = |_: ReqData<u64>| 1,
    skip = |_: ReqData<u64>| false,
)]
#[get("/dynamic")]
async fn dynamic() -> &'static str {
    "ok"
}

#[rate_limit(max = 1, window = "1h", by = header("x-tenant"), on_error = "deny")]
#[get("/strict")]
async fn strict() -> &'static str {
    "ok"
}

fn exempt(networks: &[&str]) -> RateLimitConfigBuilder {
    RateLimitConfig::builder().exempt(networks.iter().copied())
}

/// A service with all kinds of limits, of which none but the address can exempt a request.
macro_rules! limited {
    ($limiter:expr, $config:expr) => {{
        let scope = web::scope("/scope").wrap(RateLimitMiddleware::new(Limit::new(&ALL).by(caller::global)));
        let scope = scope.route("/free", web::get().to(async || "ok"));
        let app = App::new().app_data(Data::new($limiter)).app_data($config);
        init_service(app.service(fixed).service(dynamic).service(strict).service(scope)).await
    }};
}

#[actix_web::test]
async fn exempt_clients_are_neither_limited_nor_counted_and_see_no_quota() {
    let config = exempt(&["10.0.0.0/8", "2001:db8:7::/48", "192.0.2.7"]).build().unwrap();
    let app = limited!(fresh(), config);
    for peer in ["10.1.2.3:1", "[::ffff:10.1.2.3]:1", "[2001:db8:7::1]:1", "192.0.2.7:1"] {
        for path in ["/fixed", "/dynamic", "/strict", "/scope/free"] {
            let answer = send(&app, by(peer, path)).await;
            assert_eq!((answer.status, answer.quota()), (200, None), "{peer} {path}");
            assert!(!answer.text().to_lowercase().contains("ratelimit"), "{}", answer.text());
        }
    }
    // Nothing was counted: the first other client takes the only unit.
    for path in ["/fixed", "/scope/free"] {
        let first = send(&app, by("203.0.113.9:1", path)).await;
        assert_eq!((first.status, first.quota().unwrap().1), (200, 0), "{path}");
        assert_eq!(send(&app, by("203.0.113.9:1", path)).await.status, 429, "{path}");
        assert_eq!(send(&app, by("10.1.2.3:1", path)).await.status, 200, "{path}");
    }
    assert_eq!(send(&app, by("10.1.2.3:1", "/fixed")).await.body, "None");
}

#[actix_web::test]
async fn other_clients_are_limited_as_before() {
    let app = limited!(fresh(), exempt(&["10.0.0.0/8", "2001:db8:7::/48"]).build().unwrap());
    for peer in ["11.0.0.1:1", "[2001:db8:8::1]:1", "[64:ff9b::10.0.0.1]:1", "[2002:a00:1::1]:1"] {
        let missing = send(&app, by(peer, "/strict")).await;
        assert_eq!(missing.status, 400, "{peer}");
        assert_eq!(send(&app, by(peer, "/dynamic")).await.status, 500, "{peer}");
    }
    assert_eq!(send(&app, by("11.0.0.1:1", "/fixed")).await.status, 200);
    assert_eq!(send(&app, by("[64:ff9b::10.0.0.1]:1", "/fixed")).await.status, 429);
    // Without an address, nothing is known about the client.
    let unknown = actix_web::test::TestRequest::get().uri("/fixed");
    assert_eq!(send(&app, unknown).await.status, 429);
}

#[actix_web::test]
async fn no_header_of_an_untrusted_peer_exempts_a_request() {
    let spoofed = [
        ("x-forwarded-for", "10.0.0.1"),
        ("x-forwarded-for", "10.0.0.1, 10.0.0.2"),
        ("forwarded", "for=10.0.0.1"),
        ("x-real-ip", "10.0.0.1"),
        ("client-ip", "10.0.0.1"),
        ("host", "10.0.0.1"),
    ];
    let without_proxies = exempt(&["10.0.0.0/8"]);
    let with_proxies =
        exempt(&["10.0.0.0/8"]).trusted_proxies(["192.0.2.10"], ForwardedHeader::XForwardedFor);
    for config in [without_proxies, with_proxies] {
        let app = limited!(fresh(), config.build().unwrap());
        assert_eq!(send(&app, by("203.0.113.9:1", "/fixed")).await.status, 200);
        for (name, value) in spoofed {
            for path in ["/fixed", "/strict"] {
                let answer = send(&app, by("203.0.113.9:1", path).insert_header((name, value))).await;
                let expected = if path == "/strict" { 400 } else { 429 };
                assert_eq!(answer.status, expected, "{path} {name}: {value}");
            }
        }
    }
}

#[actix_web::test]
async fn behind_a_trusted_proxy_the_client_counts() {
    let config = exempt(&["10.0.0.0/8"]).trusted_proxies(["192.0.2.10"], ForwardedHeader::XForwardedFor);
    let app = limited!(fresh(), config.build().unwrap());
    let through = |line: &str| by("192.0.2.10:1", "/fixed").insert_header(("x-forwarded-for", line));
    // The proxy appends at the right; what is left of its entry comes from the client.
    assert_eq!(send(&app, through("10.0.0.1, 203.0.113.9")).await.status, 200);
    assert_eq!(send(&app, through("10.0.0.1, 203.0.113.9")).await.status, 429);
    assert_eq!(send(&app, through("10.0.0.1, unknown")).await.status, 429);
    assert_eq!(send(&app, by("192.0.2.10:1", "/fixed")).await.status, 429);
    let inside = send(&app, through("203.0.113.9, ::ffff:10.0.0.1")).await;
    assert_eq!((inside.status, inside.quota()), (200, None));
}

#[actix_web::test]
async fn the_nearest_configuration_decides_who_is_exempt() {
    let inner = web::scope("/inner").app_data(exempt(&["10.0.0.0/8"]).build().unwrap()).service(fixed);
    let app = App::new().app_data(Data::new(fresh())).app_data(RateLimitConfig::default());
    let app = init_service(app.service(inner).service(fixed)).await;
    for (path, expected) in [("/inner/fixed", 200), ("/fixed", 200), ("/inner/fixed", 200), ("/fixed", 429)] {
        assert_eq!(send(&app, by("10.0.0.1:1", path)).await.status, expected, "{path}");
    }
}
