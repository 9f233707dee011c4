//! Keys that an attacker chooses: each is a caller of its own, and no two are the same, whatever bytes are in
//! them.

use std::collections::HashSet;

use actix_web::http::header::HeaderValue;
use actix_web::test::init_service;
use actix_web::web::{self, Data};
use actix_web::{App, HttpMessage, HttpRequest, get};
use ratelimit_actix::{caller, rate_limit};
use tests::answer::{get as from_client, send_raw};
use tests::send;
use tests::store::{fresh, watched};

/// A key as something before the handler has left it: unlike a header's value it can have any characters.
struct Sent(String);

fn sent(req: &HttpRequest) -> Option<String> {
    Some(req.extensions().get::<Sent>()?.0.clone())
}

#[rate_limit(max = 1, by = sent)]
async fn by_key() -> &'static str {
    ""
}

#[rate_limit(max = 1, by = |req: &HttpRequest| (sent(req), "b:c"))]
async fn by_two() -> &'static str {
    ""
}

#[actix_web::test]
async fn every_hostile_key_has_a_count_of_its_own() {
    let (long, longer) = ("k".repeat(1 << 20), "k".repeat((1 << 20) + 1));
    let keys = [
        "",
        "\0",
        "\0\0",
        "\r\n",
        "\r\nSet-Cookie: a=b",
        "\r\n\r\nHTTP/1.1 200 OK",
        "{}",
        "}{",
        "{a}",
        ":",
        "_",
        "|",
        "a:b",
        "a",
        "b",
        "A",
        "a ",
        " a",
        "*",
        "?",
        "[a]",
        "\\",
        "redis.call('FLUSHALL')",
        "return redis.call('GET', KEYS[1])",
        "*1\r\n$8\r\nFLUSHALL\r\n",
        "$-1\r\n",
        "+OK\r\n",
        "\u{1f980}",
        "\u{e9}",
        "e\u{301}",
        "a\tb",
        "a%00b",
        "a%0d%0ab",
        "127.0.0.1",
        "7",
        "07",
        &long,
        &longer,
    ];
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
    let (limiter, watch) = watched();
    let app = App::new().app_data(Data::new(limiter));
    let app = app.route("/one", web::get().to(by_key)).route("/two", web::get().to(by_two));
    let app = init_service(app).await;
    for path in ["/one", "/two"] {
        for expected in [200, 429] {
            for key in keys {
                let request = from_client(path).to_request();
                request.extensions_mut().insert(Sent(key.to_owned()));
                let answer = send_raw(&app, request).await;
                assert_eq!(answer.status, expected, "{path} {key:.40?}");
                // Nothing of the key gets into an answer.
                assert!(!answer.text().contains("Set-Cookie") && !answer.text().contains("FLUSHALL"));
            }
        }
    }
    assert_eq!(watch.calls(), 2 * 2 * keys.len());
}

// ---- Of the path ------------------------------------------------------------------------------------------

#[rate_limit(max = 1, by = path("id"))]
#[get("/by/{id}")]
async fn by_path(id: web::Path<String>) -> String {
    id.into_inner()
}

#[rate_limit(max = 1, key = "template:{id}")]
#[get("/template/{id}")]
async fn by_template(id: web::Path<String>) -> String {
    id.into_inner()
}

#[rate_limit(max = 1, by = |req: &HttpRequest| caller::path_param(req, "id"))]
#[get("/function/{id}")]
async fn by_function(id: web::Path<String>) -> String {
    id.into_inner()
}

#[rate_limit(max = 1, by = |id: web::Path<String>| id.into_inner())]
#[get("/extractor/{id}")]
async fn by_extractor(id: web::Path<String>) -> String {
    id.into_inner()
}

#[actix_web::test]
async fn spellings_that_a_handler_reads_as_one_value_share_a_count() {
    let app = App::new().app_data(Data::new(fresh()));
    let app = init_service(app.service((by_path, by_template, by_function, by_extractor))).await;
    for route in ["by", "template", "function", "extractor"] {
        let values: [(&str, &[&str]); 4] = [
            ("a+b", &["a+b", "a%2Bb", "a%2bb", "%61%2B%62"]),
            ("a/b", &["a%2Fb", "a%2fb"]),
            ("a%b", &["a%25b"]),
            ("ab", &["ab", "%61b", "a%62"]),
        ];
        for (value, spellings) in values {
            for (i, spelling) in spellings.iter().enumerate() {
                let answer = send(&app, from_client(&format!("/{route}/{spelling}"))).await;
                let expected = if i == 0 { 200 } else { 429 };
                assert_eq!(answer.status, expected, "{route}: {spelling} is {value}");
                if i == 0 {
                    assert_eq!(answer.body, value, "{route}: {spelling}");
                }
            }
        }
    }
}

#[rate_limit(max = 1, by = |id: web::Path<u64>| *id)]
#[get("/number/{id}")]
async fn by_number(id: web::Path<u64>) -> String {
    id.to_string()
}

#[actix_web::test]
async fn spellings_of_a_number_share_a_count_when_parsed() {
    let app = init_service(App::new().app_data(Data::new(fresh())).service(by_number)).await;
    assert_eq!(send(&app, from_client("/number/7")).await.body, "7");
    for spelling in ["7", "07", "007", "+7", "%2B7", "%37", "0000000000000000000000007"] {
        let status = send(&app, from_client(&format!("/number/{spelling}"))).await.status;
        assert_eq!(status, 429, "{spelling}");
    }
    assert_eq!(send(&app, from_client("/number/8")).await.body, "8");
}

// ---- Of headers -------------------------------------------------------------------------------------------

#[rate_limit(max = 1, by = header("x-api-key"))]
#[get("/header")]
async fn by_header(req: HttpRequest) -> String {
    req.headers().get("x-api-key").unwrap().to_str().unwrap().to_owned()
}

#[actix_web::test]
async fn a_repeated_header_counts_by_the_value_that_the_handler_reads() {
    let app = init_service(App::new().app_data(Data::new(fresh())).service(by_header)).await;
    let with_keys = |keys: &[&'static str]| {
        keys.iter().fold(from_client("/header"), |request, key| request.append_header(("x-api-key", *key)))
    };
    assert_eq!(send(&app, with_keys(&["mine"])).await.body, "mine");
    // A made-up one behind it is no way around, and one before it is what the handler sees as well.
    assert_eq!(send(&app, with_keys(&["mine", "made-up-1"])).await.status, 429);
    assert_eq!(send(&app, with_keys(&["mine", ""])).await.status, 429);
    assert_eq!(send(&app, with_keys(&["made-up-2", "mine"])).await.body, "made-up-2");
    assert_eq!(send(&app, with_keys(&["", "mine"])).await.status, 400);
    // One line with a list in it is one value.
    let list =
        from_client("/header").insert_header(("x-api-key", HeaderValue::from_static("mine, made-up-3")));
    assert_eq!(send(&app, list).await.body, "mine, made-up-3");
}
