//! What limits do, in the OpenAPI document of `utoipa`: responses, header fields and numbers of each limited operation.

mod operations;
mod responses;
#[cfg(test)]
mod tests;

use utoipa::Modify;
use utoipa::openapi::OpenApi;

pub use self::operations::UnclearOperationsError;
use self::operations::{Found, find};
use crate::config::RateLimitConfig;
use ratelimit_core::__private_0_1::help;

/// Adds to an OpenAPI document what the limits of its operations do.
///
/// The operation of a handler with `#[rate_limit]` or `#[concurrency_limit]` gets
///
/// * the response 429, 400 if a request may lack a caller, and 503 if a limit fails closed: each with the header fields and the
///   bodies of the configuration. A response that the operation describes itself stays as it is;
/// * the header fields of the quota in its other responses;
/// * the extension `x-ratelimit`: an array with `name`, `algorithm`, `max` in units, `window` in seconds, and where they apply
///   `cost` and `burst` in units, `subWindows`, and `block` in seconds. A number that is computed for each request is missing. A
///   concurrency limit has the algorithm `concurrency`, `max` requests at a time, and no window.
///   The numbers are those of the program: overrides, which change at run time and differ between callers, do not appear.
///
/// Shadow limits do not appear. Neither do limits of the [`RateLimitMiddleware`](crate::RateLimitMiddleware), since their routes
/// are known at run time only.
///
/// An operation belongs to the handler whose function has the name of the `operationId`, which is the default of
/// `#[utoipa::path]`. [`operation`](Self::operation) assigns other operations, and tells functions of the same name apart. An id
/// that two operations have is an error if a limited handler has that name.
///
/// `#[utoipa::path]` stands above `#[rate_limit]`; in the other order the compiler says so.
///
/// # Examples
///
/// ```
/// use actix_web::get;
/// use ratelimit_actix::{RateLimitConfig, RateLimitResponses, rate_limit};
/// use utoipa::OpenApi;
///
/// #[utoipa::path(get, path = "/accounts/{id}", responses((status = 200, description = "The account.")))]
/// #[rate_limit(max = 10, window = "60s", key = "accounts")]
/// #[get("/accounts/{id}")]
/// async fn account_by_id() -> &'static str {
///     "account"
/// }
///
/// #[derive(OpenApi)]
/// #[openapi(paths(account_by_id))]
/// struct Api;
///
/// let mut document = Api::openapi();
/// RateLimitResponses::new(&RateLimitConfig::default()).apply(&mut document)?;
/// let document = serde_json::to_value(&document)?;
/// let operation = &document["paths"]["/accounts/{id}"]["get"];
/// assert_eq!(operation["x-ratelimit"][0]["max"], 10);
/// assert!(operation["responses"]["429"]["headers"]["retry-after"].is_object());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "it adds nothing until `apply`"]
pub struct RateLimitResponses {
    config: RateLimitConfig,
    /// An `operationId`, and the path of its handler.
    operations: Vec<(String, String)>,
}

impl RateLimitResponses {
    /// With the header fields and bodies of this configuration.
    pub fn new(config: &RateLimitConfig) -> Self {
        Self { config: config.clone(), operations: Vec::new() }
    }

    /// Says which handler an operation belongs to: the path of its function, such as `my_service::orders::list`, or the end of
    /// that path, such as `orders::list`.
    pub fn operation(mut self, operation_id: impl Into<String>, handler: impl Into<String>) -> Self {
        self.operations.push((operation_id.into(), handler.into()));
        self
    }

    /// Adds all of it. What is there already stays.
    ///
    /// # Errors
    ///
    /// [`UnclearOperationsError`] if an operation may belong to several handlers, or if [`operation`](Self::operation) names an
    /// operation or handler that does not exist. The other operations are complete then.
    pub fn apply(&self, document: &mut OpenApi) -> Result<(), UnclearOperationsError> {
        let Found { operations, unclear } = find(document, &self.operations);
        for (operation, limits) in operations {
            responses::add(operation, &limits, &self.config);
        }
        if unclear.is_empty() { Ok(()) } else { Err(UnclearOperationsError::new(unclear)) }
    }
}

/// As [`apply`](RateLimitResponses::apply), and logs the error: for `#[openapi(modifiers(..))]`, through a type of your own.
impl Modify for RateLimitResponses {
    fn modify(&self, document: &mut OpenApi) {
        if let Err(error) = self.apply(document) {
            tracing::error!(
                help = help("incomplete-document"),
                "the OpenAPI document is incomplete: {error}"
            );
        }
    }
}
