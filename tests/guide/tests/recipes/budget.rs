//! A budget for each billing month beside a rate for each minute.

// recipe
use actix_web::{get, web::ReqData};
use ratelimit_actix::rate_limit;

/// Put into the request by the authentication.
#[derive(Clone)]
struct Account {
    id: u64,
    billing_day: u8,
}

#[rate_limit(max = 60, window = "1m", name = "rate", by = |of: ReqData<Account>| of.id)]
#[rate_limit(max = 10_000, window = "month", zone = "Europe/Berlin", anchor = |of: ReqData<Account>| of.billing_day, name = "budget", by = |of: ReqData<Account>| of.id)]
#[get("/translate")]
async fn translate() -> &'static str {
    "translated"
}
// end

#[actix_web::test]
async fn the_rate_holds_beside_the_budget() {
    crate::on_both_stores(async |limiter| {
        use actix_web::HttpMessage;
        let app = tests::service!(limiter, translate);
        for (account, billing_day) in [(1, 15), (2, 31)] {
            let mut passed = 0;
            for _ in 0..70 {
                let request = tests::answer::get("/translate").to_request();
                request.extensions_mut().insert(Account { id: account, billing_day });
                passed += u64::from(tests::answer::send_raw(&app, request).await.status == 200);
            }
            assert_eq!(passed, 60);
        }
        let declared = ratelimit_actix::declared_limits();
        let budget = declared.iter().find(|limit| limit.policy().name() == "budget").unwrap().to_string();
        let per = "10000 per calendar month in Europe/Berlin from a day chosen for each request";
        assert!(budget.contains(per), "{budget}");
    })
    .await;
}
