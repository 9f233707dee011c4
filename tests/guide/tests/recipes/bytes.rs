//! Uploads by their size.

// recipe
use actix_web::http::header::CONTENT_LENGTH;
use actix_web::{HttpRequest, put, web};
use ratelimit_actix::{caller, rate_limit};

/// Megabytes of the body, rounded up. A body of unknown length costs as much as the largest that is accepted.
fn megabytes(req: &HttpRequest) -> u64 {
    let length =
        req.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    length.map_or(25, |bytes| bytes.div_ceil(1_000_000).clamp(1, 25))
}

#[rate_limit(max = 100, window = "1h", cost = with(megabytes), by = caller::principal_or_ip)]
#[put("/files/{name}")]
async fn upload(name: web::Path<String>, body: web::Bytes) -> String {
    format!("{name}: {} bytes", body.len())
}
// end

#[actix_web::test]
async fn a_megabyte_is_a_unit() {
    let limiter = tests::store::fresh();
    let app = tests::service!(limiter, upload);
    let put = |length: Option<&'static str>| {
        let request = tests::answer::request(actix_web::http::Method::PUT, "/files/a");
        length.into_iter().fold(request, |request, length| request.insert_header(("content-length", length)))
    };
    let mut left = Vec::new();
    for length in [Some("0"), Some("1000001"), None] {
        left.push(tests::send(&app, put(length)).await.quota().unwrap().1);
    }
    assert_eq!(left, [99, 97, 72]);
}
