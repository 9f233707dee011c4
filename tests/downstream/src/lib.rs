//! Limited handlers in a crate that has renamed the facade, has no prelude and no `core` or `std` of its own
//! to fall back on, and denies every lint.

#![no_implicit_prelude]

/// A name that an expansion must not find instead of the crate.
pub mod core {}
/// The same.
pub mod std {}
/// The same.
pub mod rate_limit {}

/// Names that the prelude would have, as something else.
pub mod shadows {
    /// Not the enum.
    #[derive(::core::clone::Clone, ::core::fmt::Debug)]
    pub struct Option;
    /// Not the enum.
    #[derive(::core::clone::Clone, ::core::fmt::Debug)]
    pub struct Result;
    /// Not the function.
    #[derive(::core::clone::Clone, ::core::fmt::Debug)]
    pub struct Ok;
    /// Not the function.
    #[derive(::core::clone::Clone, ::core::fmt::Debug)]
    pub struct Err;
    /// Not the primitive.
    #[allow(non_camel_case_types)]
    #[derive(::core::clone::Clone, ::core::fmt::Debug)]
    pub struct u64;
    /// Not the primitive.
    #[allow(non_camel_case_types)]
    #[derive(::core::clone::Clone, ::core::fmt::Debug)]
    pub struct bool;
}

/// Free handlers.
pub mod handlers {
    #[allow(unused_imports)]
    use super::shadows::{Err, Ok, Option, Result, bool, u64};
    // The route attributes of Actix-web look for a crate of this name.
    use ::actix_web;
    use ::actix_web::http::StatusCode;
    use ::actix_web::web::Path;
    use ::actix_web::{HttpRequest, get, post};
    use ::rl::rate_limit;

    const fn plan(_: &HttpRequest) -> ::core::primitive::u64 {
        10
    }

    /// Every argument that is constant.
    #[rate_limit(
        max = 10,
        window = "60s",
        key = "user:{user_id}",
        name = "users",
        on_missing = "anonymous",
        algorithm = "token_bucket",
        burst = 20,
        cost = 2,
        count = "failures",
        crate = ::rl
    )]
    #[get("/user/{user_id}")]
    pub async fn user(user_id: Path<::core::primitive::u64>) -> ::std::string::String {
        ::std::string::ToString::to_string(&user_id)
    }

    /// Every argument that is chosen.
    #[post("/chosen/{id}")]
    #[rate_limit(
        max = with(plan),
        by = (ip, path("id"), |id: Path<::std::string::String>| id.into_inner(), |req: &HttpRequest| req.path()),
        cost = |_: &HttpRequest| 1,
        skip = async |req: HttpRequest| req.path().is_empty(),
        count = |status: StatusCode| status.is_success(),
        crate = ::rl
    )]
    pub async fn chosen(body: ::std::string::String) -> ::std::string::String {
        body
    }

    /// The function itself.
    #[rate_limit(inner = plain_directly, crate = ::rl)]
    #[get("/plain")]
    pub async fn plain() -> &'static str {
        "ok"
    }
}

/// Handlers of a type.
#[derive(::core::fmt::Debug)]
pub struct Api;

#[::rl::rate_limit(max = 10, crate = ::rl)]
impl Api {
    /// A handler, with a level that its function has to have as well.
    #[allow(clippy::unused_async, reason = "a handler is async")]
    pub async fn list() -> &'static str {
        Self::greeting()
    }

    const fn greeting() -> &'static str {
        "ok"
    }
}

/// Handlers of a module.
#[::rl::rate_limit(max = 10, crate = ::rl)]
pub mod module {
    use ::actix_web;
    use ::actix_web::get;

    /// Inherits, with the name of the facade.
    #[get("/inherits")]
    pub async fn inherits() -> &'static str {
        "ok"
    }

    /// Its own limit, and still that name.
    #[rate_limit(max = 1)]
    #[get("/own")]
    pub async fn own() -> &'static str {
        "ok"
    }
}

/// Mounts everything.
pub fn configure(config: &mut ::actix_web::web::ServiceConfig) {
    config
        .service(handlers::user)
        .service(handlers::chosen)
        .service(handlers::plain)
        .service(module::inherits)
        .service(module::own)
        .route("/list", ::actix_web::web::get().to(Api::list));
}

#[cfg(test)]
mod tests {
    use ::actix_web::App;
    use ::actix_web::test::{TestRequest, call_service, init_service};
    use ::core::assert_eq;

    #[::actix_web::test]
    async fn handlers_are_limited() {
        let app = init_service(App::new().configure(super::configure)).await;
        for expected in [200, 429] {
            let request = TestRequest::get().uri("/own").peer_addr(::core::net::SocketAddr::new(
                ::core::net::IpAddr::V4(::core::net::Ipv4Addr::LOCALHOST),
                1,
            ));
            let response = call_service(&app, request.to_request()).await;
            assert_eq!(response.status().as_u16(), expected);
        }
    }

    #[::actix_web::test]
    async fn a_handlers_own_function_can_be_called() {
        assert_eq!(super::handlers::plain_directly().await, "ok");
    }

    #[test]
    fn every_limit_is_listed() {
        assert_eq!(::rl::declared_limits().len(), 6);
    }
}
