//! Under `forbid(unsafe_code)`: neither the limits nor their list need any.

#![forbid(unsafe_code)]
#![forbid(unsafe_op_in_unsafe_fn)]

use actix_web::{App, get, web};
use ratelimit_actix::{declared_limits, rate_limit};

#[rate_limit(max = 10, by = |req: actix_web::HttpRequest| req.path().to_owned(), count = "failures")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

#[rate_limit]
async fn generic<T: Default + ToString, const N: usize>() -> String {
    T::default().to_string().repeat(N)
}

/// Handlers that are not mounted are listed as well.
#[allow(dead_code)]
mod forgotten {
    #[super::rate_limit]
    async fn handler() -> &'static str {
        "ok"
    }
}

fn local() -> actix_web::Route {
    #[rate_limit]
    async fn in_a_function() -> &'static str {
        "ok"
    }
    web::get().to(in_a_function)
}

fn main() {
    let _ = App::new()
        .service(user)
        .route("/1", web::get().to(generic::<u8, 1>))
        .route("/2", web::get().to(generic::<u16, 2>))
        .route("/3", local());
    let handlers: Vec<&str> = declared_limits().iter().map(|limit| limit.handler()).collect();
    assert_eq!(handlers, ["user", "generic", "in_a_function", "handler"]);
}
