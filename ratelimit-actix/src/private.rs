//! What expansions of `#[rate_limit]` name. Not for anybody else: it changes without notice.

pub use actix_web::web::Payload;
pub use actix_web::{HttpRequest, HttpResponse};
pub use ratelimit_core::{Algorithm, Policy};

pub use crate::key::{IntoKey, Key};
pub use crate::limit::{By, Limit};
pub use crate::pass::{Pass, begin};

/// What an argument of a limited handler has to be; with a message of its own, since the bound that really fails is
/// deep inside of Actix.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a rate-limited handler",
    label = "not an extractor",
    note = "every argument implements `actix_web::FromRequest`, such as `web::Path<_>`, `web::Json<_>`, `web::Data<_>` or `HttpRequest`"
)]
pub trait Extractor {}

impl<T: actix_web::FromRequest> Extractor for T {}

/// Fails to compile, at the argument's own type, for what is not an extractor.
pub const fn assert_extractor<T: Extractor>() {}
