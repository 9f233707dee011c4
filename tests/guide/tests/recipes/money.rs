//! A budget in money: units are millionths of a dollar.

// recipe
use actix_web::{Result, post};
use ratelimit_actix::{Quotas, caller, rate_limit};

/// 20 dollars a day for each account, in millionths of a dollar. Five cents are charged ahead.
#[rate_limit(
    max = 20_000_000, window = "1d", algorithm = "fixed_window", cost = 50_000, name = "dollars",
    by = caller::principal_or_ip
)]
#[post("/images")]
async fn images(prompt: String, quotas: Quotas) -> Result<String> {
    let (image, price) = paint(&prompt).await;
    quotas.limit("dollars")?.settle(price).await?;
    Ok(image)
}
// end

/// An image for as many millionths of a dollar as the prompt says.
async fn paint(prompt: &str) -> (String, u64) {
    ("an image".to_owned(), prompt.parse().unwrap_or(0))
}

#[actix_web::test]
async fn a_request_costs_its_price_and_the_budget_ends_where_the_estimate_does_not_fit() {
    crate::on_both_stores(async |limiter| {
        let app = tests::service!(limiter, images);
        let ask = |price: &'static str| {
            tests::answer::request(actix_web::http::Method::POST, "/images").set_payload(price)
        };
        let first = tests::send(&app, ask("1")).await;
        assert_eq!((first.status, first.quota().unwrap().1), (200, 19_999_999), "a millionth of a dollar");
        let large = tests::send(&app, ask("19949999")).await;
        assert_eq!((large.status, large.quota().unwrap().1), (200, 50_000));
        let dear = tests::send(&app, ask("60000")).await;
        assert_eq!((dear.status, dear.quota().unwrap().1), (200, 0), "one cent of debt");
        assert_eq!(tests::send(&app, ask("1")).await.status, 429);
    })
    .await;
}
