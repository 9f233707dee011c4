//! What expansions of `#[rate_limit]` name. Not public: it changes without notice.

pub use actix_web::web::Payload;
pub use actix_web::{HttpRequest, HttpResponse};
pub use inventory;
#[cfg(feature = "calendar")]
pub use ratelimit_core::policy::{Calendar, Weekday};
pub use ratelimit_core::{Algorithm, Mode, OnError, Policy};

pub use crate::caller::of_request::{principal, principal_or_ip};
pub use crate::caller::value::{Caller, IntoCaller, OnMissing};
pub use crate::count::Count;
pub use crate::decision::Admission;
pub use crate::handler::bounds::{
    Answer, BodylessExtractor, ConstantPolicy, Extractor, RequestFn, assert_bodyless_extractor,
    assert_extractor, assert_policy,
};
pub use crate::handler::default_key::DefaultKey;
pub use crate::handler::dynamic::{DynamicLimits, join};
pub use crate::handler::limit::{By, Computed, HandlerLimit, SourceText};
pub use crate::handler::registry::{Declaration, Declared};
pub use crate::handler::request::{AdmittedRequest, admit};
pub use crate::overrides::{IntoPlan, Plan};
