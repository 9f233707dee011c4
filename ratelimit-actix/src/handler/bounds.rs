//! Bounds on arguments and return values of a limited handler, with error messages of their own: the bounds that really fail
//! are deep inside Actix.

use actix_web::{FromRequest, Responder};

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
    note = "a closure takes `&HttpRequest`, or extractors by value that do not read the body, such as `web::Path<_>`, `web::Data<_>`, `web::ReqData<_>` or `HttpRequest`"
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
