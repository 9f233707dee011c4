//! A policy in a `static` or `const`, by every kind of path.

use std::time::Duration;

use actix_web::{App, get};
use ratelimit_actix::{Algorithm, Limit, Policy, RateLimitMiddleware, rate_limit};

static SEARCH: Policy = Policy::new("search", 10, Duration::from_secs(60));

mod limits {
    use super::*;

    pub static UPLOADS: Policy =
        Policy::builder("uploads").max(10).algorithm(Algorithm::TokenBucket).burst(50).build();

    pub const DAILY: Policy = Policy::new("daily", 100, Duration::from_secs(86_400));
}

trait Tier {
    const POLICY: Policy;
}

struct Free;

impl Tier for Free {
    const POLICY: Policy = Policy::new("free", 1, Duration::from_secs(1));
}

#[rate_limit(policy = SEARCH)]
#[get("/search")]
async fn search() -> &'static str {
    "ok"
}

#[rate_limit(policy = SEARCH, by = global, count = "failures")]
#[rate_limit(policy = crate::policy::limits::UPLOADS, cost = 50)]
#[rate_limit(policy = limits::DAILY, cost = |req: &actix_web::HttpRequest| req.path().len() as u64)]
#[rate_limit(policy = <Free as Tier>::POLICY, inner = all_directly, crate = ::ratelimit_actix)]
#[get("/all")]
async fn all() -> &'static str {
    "ok"
}

#[rate_limit(policy = super::SEARCH)]
mod api {
    #[actix_web::get("/api")]
    pub async fn api() -> &'static str {
        "ok"
    }
}

struct Users;

#[rate_limit(policy = limits::UPLOADS)]
impl Users {
    async fn list() -> &'static str {
        "ok"
    }
}

async fn generic() {
    /// In a function, where other code is out of sight.
    static LOCAL: Policy = Policy::new("local", 1, Duration::from_secs(1));

    #[rate_limit(policy = LOCAL)]
    async fn handler<T: Default + ToString>() -> String {
        T::default().to_string()
    }

    let _ = actix_web::web::to(handler::<u8>);
}

pub fn main() {
    drop(generic());
    drop(all_directly());
    let _ = RateLimitMiddleware::new(Limit::new(&SEARCH));
    let _ =
        App::new().service(search).service(all).service(api::api).route("/", actix_web::web::to(Users::list));
}
