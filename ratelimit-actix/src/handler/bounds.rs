//! Bounds on functions and policies of the application, with error messages of their own: the bounds that
//! really fail are deep inside Actix.
//!
//! Handlers have arguments and return values. Other functions compute a value for each request: from the
//! request or from extractors, sync or async.

use std::future::Future;

use actix_web::dev::Payload;
use actix_web::{Error, FromRequest, HttpRequest, Responder};
use ratelimit_core::Policy;

/// An argument of a handler.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a rate-limited handler",
    label = "not an extractor",
    note = "every argument implements `actix_web::FromRequest`, such as `web::Path<_>`, `web::Json<_>`, `web::Data<_>` or `HttpRequest`",
    note = "a function in a limited impl block that is not a handler is taken out with `#[no_rate_limit]`"
)]
pub trait Extractor {}

impl<T: FromRequest> Extractor for T {}

/// Fails to compile, at the argument's type, if that is not an extractor.
pub const fn assert_extractor<T: Extractor>() {}

/// An argument of a closure in the attribute.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a closure in `#[rate_limit]`",
    label = "not an extractor",
    note = "a closure takes `&HttpRequest`, or extractors by value or by reference that do not read the body, such as `web::Path<_>`, `web::Data<_>`, `web::ReqData<_>` or `HttpRequest`"
)]
pub trait BodylessExtractor {}

impl<T: FromRequest> BodylessExtractor for T {}

/// Fails to compile, at the argument's type, if that is not an extractor.
pub const fn assert_bodyless_extractor<T: BodylessExtractor>() {}

/// The return value of a handler.
#[diagnostic::on_unimplemented(
    message = "a rate-limited handler cannot return `{Self}`",
    label = "not a response",
    note = "a handler returns what implements `actix_web::Responder`, such as `HttpResponse`, `String`, `web::Json<_>`, or a `Result` of one",
    note = "a function in a limited impl block that is not a handler is taken out with `#[no_rate_limit]`"
)]
pub trait Answer: Responder {}

impl<R: Responder> Answer for R {}

/// The policy of a limit.
#[diagnostic::on_unimplemented(
    message = "`policy` takes a `static` or `const` of the type `Policy`, not `{Self}`",
    label = "not a `Policy`",
    note = "a policy is built at compile time: `static SEARCH: Policy = Policy::new(\"search\", 10, Duration::from_secs(60));`",
    note = "overrides change its numbers while the program runs; a policy that is made then is for `RateLimitMiddleware` or `RateLimiter::check`"
)]
pub trait ConstantPolicy {}

impl ConstantPolicy for Policy {}

impl<P: ConstantPolicy> ConstantPolicy for &P {}

/// Fails to compile, at the path of the policy, if that is not one.
pub const fn assert_policy<P: ConstantPolicy>(_: &P) {}

/// A function that computes a `T` for each request. `Form` keeps the four forms apart and is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot choose a `{T}` for a request",
    label = "not a function over the request that returns `{T}`",
    note = "it is a `fn(&HttpRequest) -> {T}`, or takes up to eight extractors by value that do not read the body, such as `web::Data<_>` or `HttpRequest`; both may be async"
)]
pub trait RequestFn<T, Form> {
    /// Computes the value for one request.
    fn call(&self, req: &HttpRequest) -> impl Future<Output = Result<T, Error>>;
}

/// Runs extractors on the request without its body.
pub(crate) fn extract<A: FromRequest>(req: &HttpRequest) -> A::Future {
    A::from_request(req, &mut Payload::None)
}

/// The form of a function that takes the request.
#[derive(Debug)]
pub struct TakesRequest;

impl<T, F: Fn(&HttpRequest) -> T> RequestFn<T, TakesRequest> for F {
    async fn call(&self, req: &HttpRequest) -> Result<T, Error> {
        Ok(self(req))
    }
}

/// The form of an async function that takes the request.
#[derive(Debug)]
pub struct TakesRequestAsync;

impl<T: 'static, F: AsyncFn(&HttpRequest) -> T> RequestFn<T, TakesRequestAsync> for F {
    async fn call(&self, req: &HttpRequest) -> Result<T, Error> {
        Ok(self(req).await)
    }
}

/// The form of a function that takes extractors.
#[derive(Debug)]
pub struct TakesExtractors<A>(A);

/// The form of an async function that takes extractors.
#[derive(Debug)]
pub struct TakesExtractorsAsync<A>(A);

macro_rules! extractors {
    ($($name:ident)*) => {
        impl<T, F, $($name: FromRequest + 'static),*> RequestFn<T, TakesExtractors<($($name,)*)>> for F
        where
            F: Fn($($name),*) -> T,
        {
            async fn call(&self, req: &HttpRequest) -> Result<T, Error> {
                #[allow(non_snake_case, reason = "the values are named after their types")]
                let ($($name,)*) = extract::<($($name,)*)>(req).await.map_err(Into::<Error>::into)?;
                Ok(self($($name),*))
            }
        }

        impl<T, F, $($name: FromRequest + 'static),*> RequestFn<T, TakesExtractorsAsync<($($name,)*)>> for F
        where
            F: AsyncFn($($name),*) -> T,
        {
            async fn call(&self, req: &HttpRequest) -> Result<T, Error> {
                #[allow(non_snake_case, reason = "the values are named after their types")]
                let ($($name,)*) = extract::<($($name,)*)>(req).await.map_err(Into::<Error>::into)?;
                Ok(self($($name),*).await)
            }
        }
    };
}

#[allow(
    clippy::ignored_unit_patterns,
    clippy::let_unit_value,
    reason = "one macro for every number of extractors, also none"
)]
mod arities {
    use super::{Error, FromRequest, HttpRequest, RequestFn, TakesExtractors, TakesExtractorsAsync, extract};

    extractors!();
    extractors!(A);
    extractors!(A B);
    extractors!(A B C);
    extractors!(A B C D);
    extractors!(A B C D E);
    extractors!(A B C D E G);
    extractors!(A B C D E G H);
    extractors!(A B C D E G H I);
}
