//! From an annotation of Spring: the same values under other names.

mod ours {
    // ours
    use actix_web::{get, web};
    use ratelimit_actix::rate_limit;

    #[rate_limit(max = 10, window = "60s", key = "user-api:{user_id}", algorithm = "sliding_window_counter")]
    #[get("/users/{user_id}")]
    pub(super) async fn user(user_id: web::Path<u64>) -> String {
        format!("user {user_id}")
    }
    // end
}

#[actix_web::test]
async fn each_user_has_a_count() {
    let limiter = tests::store::fresh();
    let app = tests::service!(limiter, ours::user);
    assert_eq!(tests::answer::statuses(&app, "/users/7", 11).await, [vec![200; 10], vec![429]].concat());
    assert_eq!(tests::send(&app, tests::answer::get("/users/8")).await.status, 200);
}
