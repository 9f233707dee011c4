//! Callers: the client, one for all requests, or what a function returns.

use actix_web::{App, HttpRequest, get};
use ratelimit_actix::rate_limit;

mod keys {
    use actix_web::HttpRequest;

    pub fn tenant(request: &HttpRequest) -> String {
        request.path().to_owned()
    }

    pub struct Part<const N: usize>;

    impl<const N: usize> Part<N> {
        pub fn of(request: &HttpRequest) -> u64 {
            u64::try_from(request.path().len() + N).unwrap_or_default()
        }
    }
}

fn path(request: &HttpRequest) -> &str {
    request.path()
}

#[rate_limit(by = ip)]
#[get("/ip")]
async fn ip() -> &'static str {
    "ok"
}

#[rate_limit(by = global)]
#[get("/global")]
async fn global() -> &'static str {
    "ok"
}

#[rate_limit(by = keys::tenant)]
#[get("/tenant")]
async fn tenant() -> &'static str {
    "ok"
}

#[rate_limit(by = keys::Part::<3>::of)]
#[get("/part")]
async fn part() -> &'static str {
    "ok"
}

#[rate_limit(by = self::path)]
#[get("/borrowed")]
async fn borrowed() -> &'static str {
    "ok"
}

fn main() {
    let _ = App::new().service(ip).service(global).service(tenant).service(part).service(borrowed);
}
