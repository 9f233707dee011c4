//! A limit that depends on the plan of the account.

// recipe
use actix_web::{get, web::ReqData};
use ratelimit_actix::rate_limit;

/// Put into the request by the authentication, with the numbers of the account's plan.
#[derive(Clone)]
struct Account {
    id: u64,
    per_minute: u64,
}

#[rate_limit(max = |of: ReqData<Account>| of.per_minute, window = "1m", by = |of: ReqData<Account>| of.id)]
#[get("/orders")]
async fn orders() -> &'static str {
    "orders"
}
// end

#[actix_web::test]
async fn each_account_has_the_number_of_its_plan() {
    crate::on_both_stores(async |limiter| {
        use actix_web::HttpMessage;
        let app = tests::service!(limiter, orders);
        for (id, per_minute) in [(1, 2), (2, 5)] {
            let mut passed = 0;
            for _ in 0..10 {
                let request = tests::answer::get("/orders").to_request();
                request.extensions_mut().insert(Account { id, per_minute });
                passed += u64::from(tests::answer::send_raw(&app, request).await.status == 200);
            }
            assert_eq!(passed, per_minute);
        }
    })
    .await;
}
