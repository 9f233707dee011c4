//! What expansions of `#[rate_limit]` name. Not public: it changes without notice.

pub use actix_web::web::Payload;
pub use actix_web::{HttpRequest, HttpResponse};
pub use inventory;
#[cfg(feature = "calendar")]
pub use ratelimit_core::policy::{Calendar, Weekday};
pub use ratelimit_core::{Algorithm, Mode, OnError, Policy};

pub use crate::caller::into_caller::IntoCaller;
pub use crate::caller::on_missing::OnMissing;
pub use crate::caller::principal::{principal, principal_or_ip};
pub use crate::caller::value::Caller;
pub use crate::decision::Admission;
pub use crate::handler::bounds::{
    Answer, BodylessExtractor, Extractor, assert_bodyless_extractor, assert_extractor,
};
pub use crate::handler::by::By;
pub use crate::handler::computed::Computed;
pub use crate::handler::default_key::DefaultKey;
pub use crate::handler::dynamic::{DynamicLimits, join};
pub use crate::handler::limit::HandlerLimit;
pub use crate::handler::registry::{Declaration, Declared};
pub use crate::handler::request::{AdmittedRequest, admit};
pub use crate::handler::request_fn::RequestFn;
pub use crate::handler::source_text::SourceText;
pub use crate::overrides::plan::{IntoPlan, Plan};
pub use crate::quotas::Count;
