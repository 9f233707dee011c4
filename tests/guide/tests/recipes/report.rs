//! An expensive endpoint beside a cheap one.

// recipe
use actix_web::get;
use ratelimit_actix::{caller, rate_limit};

/// One count of 100 units a minute for both, since both have the same key.
#[rate_limit(max = 100, window = "1m", key = "api", by = caller::principal_or_ip)]
#[get("/items")]
async fn items() -> &'static str {
    "items"
}

#[rate_limit(max = 100, window = "1m", key = "api", cost = 20, by = caller::principal_or_ip)]
#[get("/report")]
async fn report() -> &'static str {
    "figures"
}
// end

#[actix_web::test]
async fn a_report_costs_as_much_as_twenty_lists() {
    crate::on_both_stores(async |limiter| {
        let app = tests::service!(limiter, items, report);
        assert_eq!(tests::send(&app, tests::answer::get("/items")).await.quota().unwrap().1, 99);
        assert_eq!(tests::send(&app, tests::answer::get("/report")).await.quota().unwrap().1, 79);
        assert_eq!(tests::send(&app, tests::answer::get("/items")).await.quota().unwrap().1, 78);
    })
    .await;
}
