//! Where the attribute may stand: above, below and between route attributes, and on plain and generic
//! handlers.

use std::fmt;

use actix_web::http::Method;
use actix_web::web::{self, Path};
use actix_web::{FromRequest, get, routes};
use ratelimit_actix::rate_limit;
use tests::answer::{get, request, statuses};
use tests::store::fresh;
use tests::{send, service};

#[rate_limit(max = 1)]
#[get("/above")]
async fn above() -> &'static str {
    "above"
}

#[get("/below")]
#[rate_limit(max = 1)]
async fn below() -> &'static str {
    "below"
}

#[rate_limit(max = 1)]
#[get("/between")]
#[rate_limit(max = 5, window = "1h")]
async fn between() -> &'static str {
    "between"
}

#[rate_limit(max = 1)]
#[routes]
#[get("/first")]
#[post("/first")]
#[get("/second")]
async fn above_routes() -> &'static str {
    "routes"
}

#[routes]
#[get("/third")]
#[get("/fourth")]
#[rate_limit(max = 1)]
async fn below_routes() -> &'static str {
    "routes"
}

#[rate_limit(max = 1)]
async fn plain() -> &'static str {
    "plain"
}

#[rate_limit(max = 1)]
async fn generic<T: fmt::Display + 'static, const N: usize>(value: Path<T>) -> String
where
    Path<T>: FromRequest,
{
    value.to_string().repeat(N)
}

async fn assert_limited_to_one<S, B>(app: &S, path: &str)
where
    S: actix_web::dev::Service<
            actix_http::Request,
            Response = actix_web::dev::ServiceResponse<B>,
            Error = actix_web::Error,
        >,
    B: actix_web::body::MessageBody,
{
    assert_eq!(statuses(app, path, 3).await, [200, 429, 429], "{path}");
}

#[actix_web::test]
async fn the_attribute_limits_above_below_and_around_the_route() {
    let app = service!(fresh(), above, below, between);
    for path in ["/above", "/below", "/between"] {
        assert_limited_to_one(&app, path).await;
    }
}

#[actix_web::test]
async fn a_handler_with_several_routes_has_one_count() {
    let app = service!(fresh(), above_routes, below_routes);
    assert_limited_to_one(&app, "/first").await;
    assert_eq!(statuses(&app, "/second", 1).await, [429]);
    let post = send(&app, request(Method::POST, "/first")).await;
    assert_eq!(post.status, 429);
    assert_limited_to_one(&app, "/third").await;
    assert_eq!(statuses(&app, "/fourth", 1).await, [429]);
}

#[actix_web::test]
async fn a_plain_handler_shares_one_count_wherever_it_is_mounted() {
    let app = service!(
        fresh(),
        web::resource("/to").route(web::get().to(plain)),
        web::resource("/again").to(plain),
    );
    assert_limited_to_one(&app, "/to").await;
    assert_eq!(statuses(&app, "/again", 1).await, [429]);
}

#[actix_web::test]
async fn a_generic_handler_has_one_count_for_all_its_types() {
    let app = service!(
        fresh(),
        web::resource("/number/{n}").to(generic::<u8, 2>),
        web::resource("/text/{s}").to(generic::<String, 3>),
    );
    let answer = send(&app, get("/number/7")).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "77"));
    assert_eq!(statuses(&app, "/text/a", 1).await, [429]);
}
