//! Behind Cloudflare, nginx and a load balancer of AWS.

// recipe
use actix_web::http::header::HeaderName;
use ratelimit_actix::{ForwardedHeader, RateLimitConfig, RateLimitConfigError};

/// For `App::app_data(config)`.
fn config(proxy: &str, networks: Vec<String>) -> Result<RateLimitConfig, RateLimitConfigError> {
    let header = match proxy {
        "cloudflare" => ForwardedHeader::Single(HeaderName::from_static("cf-connecting-ip")),
        _ => ForwardedHeader::XForwardedFor,
    };
    RateLimitConfig::builder().trusted_proxies(networks, header).build()
}
// end

#[ratelimit_actix::rate_limit(max = 1, window = "1m")]
#[actix_web::get("/")]
async fn index() -> &'static str {
    "ok"
}

/// Status codes of two clients behind the same proxy, and of the first once more with a forged address.
async fn statuses(proxy: &str, network: &str, peer: &str, field: &str) -> Vec<u16> {
    let config = config(proxy, vec![network.to_owned()]).unwrap();
    let app = actix_web::App::new().app_data(tests::store::fresh()).app_data(config).service(index);
    let app = actix_web::test::init_service(app).await;
    let is_list = field == "x-forwarded-for";
    let mut statuses = Vec::new();
    for (client, forged) in
        [("203.0.113.9", None), ("203.0.113.10", None), ("203.0.113.9", Some("198.51.100.1"))]
    {
        // A proxy appends to a list, and replaces a single address.
        let value =
            forged.filter(|_| is_list).map_or(client.to_owned(), |forged| format!("{forged}, {client}"));
        let mut request = tests::answer::by(peer, "/").insert_header((field, value));
        if !is_list {
            request = request.insert_header(("x-forwarded-for", forged.unwrap_or(client)));
        }
        statuses.push(tests::send(&app, request).await.status);
    }
    statuses
}

#[actix_web::test]
async fn clients_are_told_apart_and_cannot_forge_an_address() {
    let expected = [200, 200, 429];
    assert_eq!(
        statuses("cloudflare", "173.245.48.0/20", "173.245.48.9:1", "cf-connecting-ip").await,
        expected
    );
    assert_eq!(statuses("nginx", "127.0.0.1", "127.0.0.1:1", "x-forwarded-for").await, expected);
    assert_eq!(statuses("aws", "10.0.0.0/16", "10.0.3.4:1", "x-forwarded-for").await, expected);
}
