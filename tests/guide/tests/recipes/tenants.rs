//! Per tenant and per user at once.

// recipe
use actix_web::{get, web::ReqData};
use ratelimit_actix::rate_limit;

#[derive(Clone)]
struct User {
    id: u64,
    tenant: u64,
}

/// 1000 a minute for a tenant, at most 100 of them for one user. A request is charged to both or to neither.
#[rate_limit(max = 1000, window = "1m", name = "tenant", by = |user: ReqData<User>| user.tenant)]
#[rate_limit(max = 100, window = "1m", name = "user", by = |user: ReqData<User>| (user.tenant, user.id))]
#[get("/orders")]
async fn orders() -> &'static str {
    "orders"
}
// end

#[actix_web::test]
async fn one_user_cannot_take_the_whole_tenant() {
    crate::on_both_stores(async |limiter| {
        use actix_web::HttpMessage;
        let app = tests::service!(limiter, orders);
        let mut passed = [0; 12];
        for (id, passed) in (0..).zip(&mut passed) {
            for _ in 0..120 {
                let request = tests::answer::get("/orders").to_request();
                request.extensions_mut().insert(User { id, tenant: 7 });
                *passed += usize::from(tests::answer::send_raw(&app, request).await.status == 200);
            }
        }
        assert_eq!(passed, [100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 0, 0]);
    })
    .await;
}
