//! What expansions of `#[rate_limit]` name. Not for anybody else: it changes without notice.

pub use actix_web::web::Payload;
pub use actix_web::{HttpRequest, HttpResponse};
pub use inventory;
pub use ratelimit_core::{Algorithm, OnError, Policy};

pub use crate::bounds::{Answer, BodylessExtractor, Extractor, assert_bodyless_extractor, assert_extractor};
pub use crate::declared::{Declaration, Text};
pub use crate::default_key::DefaultKey;
pub use crate::group::{Group, join};
pub use crate::key::{IntoKey, Key};
pub use crate::limit::{By, Count, Limit, OnMissing};
pub use crate::pass::{Pass, begin};
pub use crate::source::Source;
