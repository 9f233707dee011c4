//! What expansions of `#[rate_limit]` name. Not for anybody else: it changes without notice.

pub use actix_web::web::Payload;
pub use actix_web::{HttpRequest, HttpResponse};
pub use inventory;
pub use ratelimit_core::{Algorithm, OnError, Policy};

pub use crate::caller::{IntoKey, Key};
pub use crate::handler::bounds::{
    Answer, BodylessExtractor, Extractor, assert_bodyless_extractor, assert_extractor,
};
pub use crate::handler::default_key::DefaultKey;
pub use crate::handler::dynamic::{Group, join};
pub use crate::handler::limit::{By, Count, Limit, OnMissing};
pub use crate::handler::registry::{Declaration, Text};
pub use crate::handler::request_fn::Source;
pub use crate::handler::{Pass, begin};
