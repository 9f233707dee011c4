//! One heavy export at a time for each tenant.

// recipe
use actix_web::{HttpResponse, get, web};
use ratelimit_actix::concurrency_limit;

/// One export at a time for each tenant, in whichever format, over all processes; others run beside it.
#[concurrency_limit(max = 1, key = "export:{tenant}")]
#[get("/{tenant}/export.csv")]
async fn csv(tenant: web::Path<String>) -> HttpResponse {
    HttpResponse::Ok().streaming(rows(&tenant, ','))
}

#[concurrency_limit(max = 1, key = "export:{tenant}")]
#[get("/{tenant}/export.tsv")]
async fn tsv(tenant: web::Path<String>) -> HttpResponse {
    HttpResponse::Ok().streaming(rows(&tenant, '\t'))
}
// end

use std::convert::Infallible;

use actix_web::dev::Service;
use actix_web::web::Bytes;
use futures_util::stream::{self, Stream};

fn rows(tenant: &str, separator: char) -> impl Stream<Item = Result<Bytes, Infallible>> + use<> {
    stream::iter([Ok(Bytes::from(format!("{tenant}{separator}1\n")))])
}

#[actix_web::test]
async fn a_tenant_exports_one_thing_at_a_time() {
    crate::on_both_stores(async |limiter| {
        let app = tests::service!(limiter, csv, tsv);
        let call = async |path: &str| app.call(tests::answer::get(path).to_request()).await.unwrap();
        let running = call("/acme/export.csv").await;
        let denied = tests::send(&app, tests::answer::get("/acme/export.tsv")).await;
        assert_eq!(denied.status, 429);
        assert!(
            denied.body.contains("At most 1 request at a time. Try again when it has ended."),
            "{}",
            denied.body
        );
        assert_eq!(tests::send(&app, tests::answer::get("/globex/export.tsv")).await.body, "globex\t1\n");
        drop(running);
        assert_eq!(tests::send(&app, tests::answer::get("/acme/export.tsv")).await.body, "acme\t1\n");
    })
    .await;
}
