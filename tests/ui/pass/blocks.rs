//! Modules and impl blocks: inheriting, overriding, opting in and out, `Self`, scopes and `inner`.

#![deny(warnings, missing_docs)]

use actix_web::{App, web};
use ratelimit_actix::{declared_limits, rate_limit};

/// Documented.
#[rate_limit(max = 10, window = "60s")]
#[rate_limit(max = 100, window = "1h", key = "hourly")]
pub mod api {
    #![allow(clippy::unused_async)]

    use actix_web::{get, post, web};

    const GREETING: &str = "ok";

    /// Inherits.
    #[get("/one")]
    pub async fn one() -> &'static str {
        GREETING
    }

    /// Has its own.
    #[rate_limit(max = 1)]
    #[post("/two")]
    pub async fn two(body: web::Json<u8>) -> String {
        body.to_string()
    }

    /// Is let off.
    #[no_rate_limit]
    #[get("/three")]
    pub async fn three() -> &'static str {
        helper()
    }

    /// Has no route, and opts in.
    #[rate_limit]
    pub async fn four() -> &'static str {
        helper()
    }

    fn helper() -> &'static str {
        GREETING
    }

    /// Deeper.
    pub mod inner {
        use actix_web::get;

        /// Inherits.
        #[get("/five")]
        pub async fn five() -> &'static str {
            "ok"
        }
    }
}

/// Handlers of a type.
pub struct Users;

#[rate_limit(max = 10)]
impl Users {
    const GREETING: &'static str = "ok";

    /// Uses `Self`.
    pub async fn list() -> &'static str {
        Self::greeting()
    }

    /// Names `Self` among its arguments.
    pub async fn data(_: web::Data<Self>) -> &'static str {
        Self::GREETING
    }

    fn greeting() -> &'static str {
        Self::GREETING
    }

    /// Not a handler.
    pub fn name(&self) -> &'static str {
        Self::GREETING
    }

    /// Can be called as it is.
    #[rate_limit(max = 2, inner = own_directly)]
    pub async fn own(id: web::Path<u64>) -> String {
        id.to_string()
    }
}

#[actix_web::scope("/{org}")]
#[rate_limit(key = "org:{org}")]
mod scope {
    use actix_web::get;

    #[get("/x")]
    pub async fn x() -> &'static str {
        "ok"
    }
}

/// Can be called as it is.
#[rate_limit(inner = user_directly)]
#[actix_web::get("/user/{id}")]
pub async fn user(id: web::Path<u64>) -> String {
    id.to_string()
}

fn main() {
    let _ = App::new()
        .service(api::one)
        .service(api::two)
        .service(api::three)
        .route("/four", web::get().to(api::four))
        .service(api::inner::five)
        .route("/list", web::get().to(Users::list))
        .route("/data", web::get().to(Users::data))
        .route("/own/{id}", web::get().to(Users::own))
        .service(scope::x)
        .service(user);
    let _ = (user_directly(web::Path::from(1)), Users::own_directly(web::Path::from(1)), Users.name());
    assert!(declared_limits().len() >= 9);
}
