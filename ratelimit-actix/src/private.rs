//! What expansions of `#[rate_limit]` name. Not for anybody else: it changes without notice.

pub use actix_web::web::Payload;
pub use actix_web::{HttpRequest, HttpResponse};
pub use ratelimit_core::{Algorithm, Policy};

pub use crate::bounds::{Answer, Extractor, assert_extractor};
pub use crate::key::{IntoKey, Key};
pub use crate::limit::{By, Limit};
pub use crate::pass::{Pass, begin};
