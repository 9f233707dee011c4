//! Which requests share a count: addresses, shared keys, `by = global`, and functions.

use actix_web::{HttpMessage, HttpRequest, get};
use ratelimit_actix::{Caller, IntoCaller, client_ip, rate_limit};
use tests::answer::{by, get, send_raw, statuses};
use tests::log::Log;
use tests::own_process::in_own_process;
use tests::store::fresh;
use tests::{send, service};
use tracing::Level;

#[rate_limit(max = 1)]
#[get("/ip")]
async fn ip() -> &'static str {
    ""
}

#[actix_web::test]
async fn clients_with_different_addresses_have_separate_counts() {
    let app = service!(fresh(), ip);
    let cases = [
        ("192.0.2.1:1", 200, "a client"),
        ("192.0.2.1:2", 429, "the same from another port"),
        ("[::ffff:192.0.2.1]:3", 429, "the same, on a socket for IPv6"),
        ("192.0.2.2:1", 200, "its neighbour"),
        ("[::ffff:192.0.2.3]:1", 200, "another, on a socket for IPv6"),
        ("[2001:db8::1]:1", 200, "an IPv6 subscriber"),
        ("[2001:db8::ffff:2]:1", 429, "another address of the same /64"),
        ("[2001:db8:0:1::1]:1", 200, "the next /64"),
    ];
    for (peer, status, who) in cases {
        assert_eq!(send(&app, by(peer, "/ip")).await.status, status, "{who}");
    }
}

#[actix_web::test]
async fn forwarded_headers_do_not_choose_the_caller() {
    let app = service!(fresh(), ip);
    for (address, status) in [("203.0.113.1", 200), ("203.0.113.2", 429)] {
        let forged = get("/ip")
            .insert_header(("x-forwarded-for", address))
            .insert_header(("forwarded", format!("for={address}")))
            .insert_header(("x-real-ip", address));
        assert_eq!(send(&app, forged).await.status, status);
    }
}

#[test]
fn requests_without_an_address_share_a_count_and_log_one_warning() {
    in_own_process(|| {
        let log = Log::of_process();
        actix_web::rt::System::new().block_on(async {
            let app = service!(fresh(), ip);
            for status in [200, 429, 429] {
                let request = actix_web::test::TestRequest::get().uri("/ip");
                assert_eq!(send(&app, request).await.status, status);
            }
            assert_eq!(send(&app, get("/ip")).await.status, 200);
        });
        let warnings = log.at(Level::WARN);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        for words in ["TestRequest::peer_addr", "Unix socket", "trusted_proxies", "by = function"] {
            assert!(warnings[0].contains(words), "{warnings:?}");
        }
    });
}

#[rate_limit(max = 1, key = "shared")]
#[get("/shared/1")]
async fn shared_1() -> &'static str {
    ""
}

#[rate_limit(max = 1, key = "shared")]
#[get("/shared/2")]
async fn shared_2() -> &'static str {
    ""
}

#[rate_limit(max = 1)]
#[get("/own")]
async fn own() -> &'static str {
    ""
}

#[actix_web::test]
async fn handlers_share_a_count_when_they_name_the_same_key() {
    let app = service!(fresh(), shared_1, shared_2, own);
    assert_eq!(statuses(&app, "/shared/1", 1).await, [200]);
    assert_eq!(statuses(&app, "/shared/2", 1).await, [429]);
    assert_eq!(send(&app, by("192.0.2.2:1", "/shared/2")).await.status, 200);
    assert_eq!(statuses(&app, "/own", 1).await, [200]);
}

#[rate_limit(max = 2, by = global)]
#[get("/global")]
async fn global() -> &'static str {
    ""
}

#[actix_web::test]
async fn a_global_limit_has_one_count_for_all_clients() {
    let app = service!(fresh(), global);
    for (peer, status) in [("192.0.2.1:1", 200), ("[2001:db8::1]:1", 200), ("192.0.2.3:1", 429)] {
        assert_eq!(send(&app, by(peer, "/global")).await.status, status);
    }
}

struct User(u64);

fn user_or_address(req: &HttpRequest) -> Caller {
    match req.extensions().get::<User>() {
        Some(user) => user.0.into_caller(),
        None => client_ip(req).into_caller(),
    }
}

fn product(req: &HttpRequest) -> &str {
    req.match_info().get("item").unwrap_or_default()
}

fn tenant(req: &HttpRequest) -> Option<&str> {
    req.headers().get("x-tenant")?.to_str().ok()
}

#[rate_limit(max = 1, by = user_or_address)]
#[get("/user")]
async fn by_user() -> &'static str {
    ""
}

#[rate_limit(max = 1, by = product)]
#[get("/item/{item}")]
async fn by_item() -> &'static str {
    ""
}

#[rate_limit(max = 1, by = tenant)]
#[get("/tenant")]
async fn by_tenant() -> &'static str {
    ""
}

#[actix_web::test]
async fn a_function_names_the_caller() {
    let app = service!(fresh(), by_user, by_item, by_tenant);
    for (id, status) in [(1, 200), (2, 200), (1, 429)] {
        let request = get("/user").to_request();
        request.extensions_mut().insert(User(id));
        assert_eq!(send_raw(&app, request).await.status, status, "user {id}");
    }
    assert_eq!(statuses(&app, "/user", 2).await, [200, 429]);
    assert_eq!(statuses(&app, "/item/1", 2).await, [200, 429]);
    assert_eq!(statuses(&app, "/item/2", 1).await, [200]);
    for (tenant, status) in [("a", 200), ("A", 200), ("a", 429)] {
        let request = get("/tenant").insert_header(("x-tenant", tenant));
        assert_eq!(send(&app, request).await.status, status, "tenant {tenant}");
    }
    assert_eq!(statuses(&app, "/tenant", 1).await, [400]);
}
