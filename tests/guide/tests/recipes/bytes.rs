//! Uploads by their size.

// recipe
use actix_web::http::header::{ContentLength, Header};
use actix_web::{HttpRequest, put, web};
use ratelimit_actix::{caller, rate_limit};

/// Megabytes of the body, rounded up. A body of unknown length costs as much as the largest that is accepted.
fn megabytes(req: &HttpRequest) -> u64 {
    ContentLength::parse(req).map_or(25, |bytes| bytes.into_inner().div_ceil(1_000_000).clamp(1, 25) as u64)
}

#[rate_limit(max = 100, window = "1h", cost = with(megabytes), by = caller::principal_or_ip)]
#[put("/files/{name}")]
async fn upload(name: web::Path<String>, body: web::Bytes) -> String {
    format!("{name}: {} bytes", body.len())
}

fn services(app: &mut web::ServiceConfig) {
    app.app_data(web::PayloadConfig::new(25_000_000)).service(upload);
}
// end

#[actix_web::test]
async fn a_megabyte_is_a_unit() {
    crate::on_both_stores(async |limiter| {
        let app = actix_web::App::new().app_data(web::Data::new(limiter)).configure(services);
        let app = actix_web::test::init_service(app).await;
        let put = |body: Vec<u8>, length: Option<usize>| {
            let request = tests::answer::request(actix_web::http::Method::PUT, "/files/a");
            let mut request = request.set_payload(body).to_request();
            request.headers_mut().remove("content-length");
            if let Some(length) = length {
                request.headers_mut().insert("content-length".parse().unwrap(), length.into());
            }
            request
        };
        let mut left = Vec::new();
        for (size, length) in [(0, Some(0)), (1_000_001, Some(1_000_001)), (7, None)] {
            let answer = tests::answer::send_raw(&app, put(vec![b'x'; size], length)).await;
            assert_eq!((answer.status, answer.body.as_str()), (200, &*format!("a: {size} bytes")));
            left.push(answer.quota().unwrap().1);
        }
        assert_eq!(left, [99, 97, 72]);
        // More than is accepted costs what was accepted at most.
        let answer = tests::answer::send_raw(&app, put(vec![b'x'; 25_000_001], Some(25_000_001))).await;
        assert_eq!((answer.status, answer.quota().unwrap().1), (413, 47));
    })
    .await;
}
