//! The strictest lint levels have nothing to say about an expansion, and the user's own levels keep working.

#![deny(missing_docs, warnings)]
#![deny(clippy::all, clippy::pedantic, clippy::nursery)]
#![deny(clippy::missing_docs_in_private_items)]
#![allow(clippy::unused_async, reason = "it is about the user's function, which need not wait here")]
#![deny(unused_qualifications, unreachable_pub, rust_2018_idioms, single_use_lifetimes, unused_lifetimes)]

use actix_web::{App, HttpResponse, Responder, get, post, web};
use ratelimit_actix::rate_limit;

/// Public handlers with documentation.
pub mod api {
    use super::{HttpResponse, Responder, get, post, rate_limit, web};

    /// A user.
    #[rate_limit(max = 100_000, window = "60s", cost = 2)]
    #[get("/user/{id}")]
    pub async fn user(id: web::Path<u64>) -> impl Responder {
        id.to_string()
    }

    /// A user, with the attributes the other way round.
    #[get("/user_below/{id}")]
    #[rate_limit(max = 100_000, window = "60s")]
    pub async fn user_below(id: web::Path<u64>) -> impl Responder {
        id.to_string()
    }

    /// Takes a body.
    #[post("/users")]
    #[rate_limit(max = 10, window = "1s")]
    #[rate_limit(max = 100_000, window = "1h", algorithm = "token_bucket", burst = 200_000)]
    pub async fn create(body: web::Json<Vec<String>>) -> HttpResponse {
        HttpResponse::Ok().json(body.into_inner())
    }

    /// Unused arguments that are expected, once.
    #[rate_limit]
    #[get("/expected")]
    #[expect(unused_variables, reason = "the level has to reach the function itself")]
    pub async fn expected(unused: web::Path<u64>) -> &'static str {
        "ok"
    }

    /// Nothing to wait for, and no route attribute.
    #[rate_limit]
    pub async fn plain() -> &'static str {
        "ok"
    }

    /// Numbers of a const.
    struct Limits {
        /// Requests a minute.
        max: u64,
    }

    /// The numbers.
    const LIMITS: Limits = Limits { max: 10 };

    /// The field of a const.
    #[rate_limit(max = { LIMITS.max })]
    pub async fn field() -> &'static str {
        "ok"
    }

    /// Old.
    #[rate_limit]
    #[deprecated = "use `plain`"]
    #[must_use]
    pub async fn old() -> &'static str {
        "ok"
    }
}

/// Handlers of a type.
#[derive(Debug)]
pub struct Reports;

#[rate_limit(max = 10)]
impl Reports {
    /// All reports.
    pub async fn list() -> &'static str {
        "ok"
    }

    /// One report.
    #[rate_limit(max = 3, by = |id: web::Path<u64>| *id)]
    #[rate_limit(max = |id: &web::Path<u64>| **id, by = |id: &web::Path<u64>| **id, key = "reports")]
    async fn one(id: web::Path<u64>) -> String {
        id.to_string()
    }
}

/// Starts nothing.
fn main() {
    let app = App::new()
        .service(api::user)
        .service(api::user_below)
        .service(api::create)
        .service(api::expected)
        .route("/reports", web::get().to(Reports::list))
        .route("/reports/{id}", web::get().to(Reports::one))
        .route("/field", web::get().to(api::field))
        .route("/plain", web::get().to(api::plain));
    drop(app);
    #[expect(deprecated, reason = "the attribute has to be on what callers see")]
    let _ = web::get().to(api::old);
}
