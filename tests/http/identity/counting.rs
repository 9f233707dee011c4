//! Which requests are one caller: addresses by prefix, nearest settings, spellings of paths, methods.

use actix_web::http::{Method, Uri};
use actix_web::test::{TestRequest, init_service};
use actix_web::web::{self, Data};
use actix_web::{App, HttpRequest};
use ratelimit_actix::{ForwardedHeader, RateLimitConfig, client_ip, rate_limit};
use tests::answer::{by, get, request};
use tests::log::Log;
use tests::own_process::in_own_process;
use tests::send;
use tests::store::{fresh, watched};

use super::forwarding::behind;

#[rate_limit(max = 1)]
async fn index() -> &'static str {
    ""
}

#[actix_web::test]
async fn the_ipv6_prefix_sets_which_addresses_share_a_count() {
    let cases = [
        (48, "[2001:db8:1:ffff::1]:1", 429),
        (48, "[2001:db8:2::1]:1", 200),
        (64, "[2001:db8:1:1::1]:1", 200),
        (64, "[2001:db8:1::ffff]:1", 429),
        (128, "[2001:db8:1::2]:1", 200),
        (128, "[2001:db8:1::1]:2", 429),
    ];
    for (bits, second, expected) in cases {
        let config = RateLimitConfig::builder().ipv6_prefix(bits).build().unwrap();
        let app = App::new().app_data(config).app_data(Data::new(fresh())).route("/", web::get().to(index));
        let app = init_service(app).await;
        assert_eq!(send(&app, by("[2001:db8:1::1]:1", "/")).await.status, 200);
        assert_eq!(send(&app, by(second, "/")).await.status, expected, "/{bits}: {second}");
    }
}

#[actix_web::test]
async fn the_nearest_settings_apply() {
    let proxy = behind(&["192.0.2.0/24"], ForwardedHeader::XForwardedFor);
    let shared = Data::new(behind(&["192.0.2.0/24"], ForwardedHeader::Forwarded));
    let app = App::new()
        .app_data(Data::new(fresh()))
        .app_data(proxy)
        .service(web::scope("/shared").app_data(shared).route("", web::get().to(who)))
        .service(web::scope("/none").app_data(RateLimitConfig::default()).route("", web::get().to(who)))
        .route("/", web::get().to(who));
    let app = init_service(app).await;
    let forwarded = |path: &str| {
        get(path)
            .insert_header(("x-forwarded-for", "203.0.113.9"))
            .insert_header(("forwarded", "for=198.51.100.7"))
    };
    assert_eq!(send(&app, forwarded("/")).await.body, "203.0.113.9");
    assert_eq!(send(&app, forwarded("/none")).await.body, "192.0.2.1");
    // An instance as it stands is found before one in `Data`, like Actix's own settings.
    assert_eq!(send(&app, forwarded("/shared")).await.body, "203.0.113.9");
}

async fn who(req: HttpRequest) -> String {
    client_ip(&req).unwrap().to_string()
}

#[actix_web::test]
async fn no_path_spelling_or_method_bypasses_a_limit() {
    let (limiter, watch) = watched();
    let app = App::new()
        .app_data(Data::new(limiter))
        .service(web::resource(["/x", "/x/", "/X", "//x", "/./x", "/{tail}"]).to(index));
    let app = init_service(app).await;
    assert_eq!(send(&app, get("/x")).await.status, 200);
    for path in ["/x", "/x/", "//x", "/%78", "/X", "/./x", "/x;a=b", "/%2578", "/x?y", "/x%00"] {
        let uri: Uri = path.parse().unwrap();
        assert_eq!(send(&app, get("/x").uri(&uri.to_string())).await.status, 429, "{path}");
    }
    let custom = Method::from_bytes(b"BREW").unwrap();
    for method in [Method::HEAD, Method::POST, Method::TRACE, Method::PATCH, Method::CONNECT, custom] {
        assert_eq!(send(&app, request(method.clone(), "/x")).await.status, 429, "{method}");
    }
    let calls = watch.calls();
    assert_eq!(send(&app, request(Method::OPTIONS, "/x")).await.status, 200);
    assert_eq!(watch.calls(), calls);
}

#[actix_web::test]
async fn options_is_counted_where_configured() {
    let config = RateLimitConfig::builder().count_options(true).build().unwrap();
    let app = App::new().app_data(config).app_data(Data::new(fresh())).service(web::resource("/").to(index));
    let app = init_service(app).await;
    for status in [200, 429] {
        assert_eq!(send(&app, request(Method::OPTIONS, "/")).await.status, status);
    }
}

#[rate_limit(max = 1, on_missing = "skip")]
async fn skipping() -> &'static str {
    ""
}

#[rate_limit(max = 1, on_missing = "anonymous")]
async fn anonymous() -> &'static str {
    ""
}

#[test]
fn requests_without_a_peer_share_a_count_whatever_their_headers_and_log_one_warning() {
    in_own_process(|| {
        let log = Log::of_process();
        actix_web::rt::System::new().block_on(async {
            let app = App::new().app_data(Data::new(fresh())).service((
                web::resource("/reject").to(index),
                web::resource("/skip").to(skipping),
                web::resource("/anonymous").to(anonymous),
            ));
            let app = init_service(app).await;
            for path in ["/reject", "/skip", "/anonymous"] {
                for (status, header) in [(200, "203.0.113.9"), (429, "203.0.113.9"), (429, "203.0.113.10")] {
                    // As on a Unix socket; what a header says makes no difference.
                    let request = TestRequest::get().uri(path).insert_header(("x-forwarded-for", header));
                    assert_eq!(send(&app, request).await.status, status, "{path}");
                }
                let with_address = send(&app, by("192.0.2.1:1", path)).await.status;
                assert_eq!(with_address, 200, "one with an address is another caller");
            }
        });
        let warnings = log.at(tracing::Level::WARN);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        for words in ["TestRequest::peer_addr", "Unix socket", "trusted_proxies", "by = function"] {
            assert!(warnings[0].contains(words), "{warnings:?}");
        }
    });
}

#[actix_web::test]
async fn a_translated_address_names_the_original_client() {
    let app = App::new().app_data(Data::new(fresh())).route("/", web::get().to(index));
    let app = init_service(app).await;
    let cases = [
        ("[64:ff9b::192.0.2.1]:1", 200, "a client through NAT64"),
        ("[64:ff9b::192.0.2.2]:1", 200, "its neighbour, in the same /64"),
        ("192.0.2.1:1", 429, "the first without NAT64"),
        ("[::ffff:192.0.2.1]:1", 429, "the same on a socket for IPv6"),
        ("[2002:c000:201::1]:1", 429, "the same through 6to4"),
        ("[2002:c000:201:7::1]:1", 429, "the same from another of the networks that it has there"),
        ("[2002:c000:203::1]:1", 200, "another through 6to4"),
        ("[2001:db8::1]:1", 200, "IPv6 itself"),
    ];
    for (peer, expected, who) in cases {
        assert_eq!(send(&app, by(peer, "/")).await.status, expected, "{who}");
    }
}
