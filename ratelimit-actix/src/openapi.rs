//! What limits do, in the OpenAPI document of `utoipa`: responses, header fields and numbers of each limited
//! operation.

mod responses;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use ratelimit_core::__private_0_1::help;
use ratelimit_core::Mode;
use utoipa::Modify;
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};

use crate::config::RateLimitConfig;
use crate::declared::{DeclaredLimit, declared_limits};

/// Adds to an OpenAPI document what the limits of its operations do.
///
/// The operation of a handler with `#[rate_limit]` or `#[concurrency_limit]` gets
///
/// * the response 429, 400 if a request may lack a caller, and 503 if a limit fails closed: each with the
///   header fields and the bodies of the configuration. A response that the operation describes itself stays
///   as it is;
/// * the header fields of the quota in its other responses;
/// * the extension `x-ratelimit`: an array with `name`, `algorithm`, `max` in units, `window` in seconds, and
///   where they apply `cost` and `burst` in units, `subWindows`, and `block` in seconds. A number that is
///   computed for each request is missing. A concurrency limit has the algorithm `concurrency`, `max`
///   requests at a time, and no window. The numbers are those of the program: overrides, which change at run
///   time and differ between callers, do not appear.
///
/// Shadow limits do not appear. Neither do limits of the [`RateLimitMiddleware`](crate::RateLimitMiddleware)
/// and [checks by hand](crate::admit), whose routes are known at run time only: describe their response 429
/// in `#[utoipa::path]`.
///
/// An operation belongs to the handler whose function has the name of the `operationId`, which is the default
/// of `#[utoipa::path]`. [`operation`](Self::operation) assigns other operations, and distinguishes functions
/// of the same name. An id that two operations have is an error if a limited handler has that name.
/// [`apply`](Self::apply) returns the limits that no operation has got.
///
/// `#[utoipa::path]` stands above `#[rate_limit]`; in the other order the compiler says so.
///
/// # Examples
///
/// ```standalone_crate
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
/// let left_out = RateLimitResponses::new(&RateLimitConfig::default()).apply(&mut document)?;
/// assert!(left_out.is_empty(), "{left_out:?}");
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

    /// Says which handler an operation belongs to: the path of its function, such as
    /// `my_service::orders::list`, or the end of that path, such as `orders::list`.
    pub fn operation(mut self, operation_id: impl Into<String>, handler: impl Into<String>) -> Self {
        self.operations.push((operation_id.into(), handler.into()));
        self
    }

    /// Adds all of it. What is there already stays.
    ///
    /// Returns the enforced limits of the program that no operation has got: their handlers are not in the
    /// document, or the operation has another id than the function's name and is not
    /// [assigned](Self::operation).
    ///
    /// # Errors
    ///
    /// [`UnclearOperationsError`] if an operation may belong to several handlers, or if
    /// [`operation`](Self::operation) names an operation or handler that does not exist. The other operations
    /// are complete then.
    pub fn apply(&self, document: &mut OpenApi) -> Result<Vec<DeclaredLimit>, UnclearOperationsError> {
        let Found { operations, left_out, unclear } = find(document, &self.operations);
        for (operation, limits) in operations {
            responses::add(operation, &limits, &self.config);
        }
        if unclear.is_empty() { Ok(left_out) } else { Err(UnclearOperationsError { lines: unclear }) }
    }
}

/// As [`apply`](RateLimitResponses::apply), and logs the error, or the limits that no operation has got: for
/// `#[openapi(modifiers(..))]`, through a type of your own.
impl Modify for RateLimitResponses {
    fn modify(&self, document: &mut OpenApi) {
        match self.apply(document) {
            Ok(left_out) if left_out.is_empty() => {}
            Ok(left_out) => {
                let handlers: BTreeSet<String> = left_out.iter().map(DeclaredLimit::path).collect();
                let handlers = Vec::from_iter(handlers).join(", ");
                tracing::info!(
                    handlers,
                    help = help("incomplete-document"),
                    "no operation of the OpenAPI document is assigned to these handlers, which have limits"
                );
            }
            Err(error) => {
                tracing::error!(
                    help = help("incomplete-document"),
                    "the OpenAPI document is incomplete: {error}"
                );
            }
        }
    }
}

/// Operations of an OpenAPI document whose handler is not clear. `Display` has a line for each.
#[derive(Clone, thiserror::Error, PartialEq, Eq)]
#[error("{}", .lines.join("\n"))]
pub struct UnclearOperationsError {
    lines: Vec<String>,
}

/// As `Display`: this is what a `main` prints that returns the error.
impl fmt::Debug for UnclearOperationsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The operations with limits, the limits without an operation, and what is unclear.
struct Found<'d> {
    operations: Vec<(&'d mut Operation, Vec<DeclaredLimit>)>,
    left_out: Vec<DeclaredLimit>,
    unclear: Vec<String>,
}

/// Finds the limits of each operation. `assigned` are pairs of an `operationId` and the path of a handler.
fn find<'d>(document: &'d mut OpenApi, assigned: &[(String, String)]) -> Found<'d> {
    let limits = declared_limits();
    let (mut operations, mut unclear) = (Vec::new(), Vec::new());
    let (mut seen, mut known) = (BTreeSet::new(), BTreeSet::new());
    let twice = ids_of_several(document);
    for operation in document.paths.paths.values_mut().flat_map(operations_of) {
        let Some(id) = operation.operation_id.clone() else { continue };
        let assigned = assigned.iter().find(|(of, _)| *of == id).map(|(_, handler)| handler.as_str());
        let belongs = |limit: &&DeclaredLimit| match assigned {
            Some(handler) => ends_with_path(&limit.path(), handler),
            None => function(limit) == id,
        };
        seen.insert(id.clone());
        if twice.contains(&id) {
            if limits.iter().any(|limit| belongs(&limit)) && known.insert(id.clone()) {
                unclear.push(format!(
                    "several operations have the id `{id}`, so it is not clear which of them is limited; give each an id of its own by `operation_id`"
                ));
            }
            continue;
        }
        let own: Vec<DeclaredLimit> = limits.iter().filter(belongs).copied().collect();
        let handlers: BTreeSet<String> = own.iter().map(DeclaredLimit::path).collect();
        match (handlers.len(), assigned) {
            (0, None) => {}
            (0, Some(handler)) => {
                unclear.push(format!("no limited handler has the path `{handler}` of the operation `{id}`"));
            }
            (1, _) => operations.push((operation, own)),
            (_, _) => {
                let handlers: Vec<_> = handlers.into_iter().collect();
                unclear.push(format!(
                    "the operation `{id}` may belong to `{}`: choose one with `.operation(\"{id}\", \"{}\")`",
                    handlers.join("` or `"),
                    handlers[0]
                ));
            }
        }
    }
    for (id, _) in assigned.iter().filter(|(id, _)| !seen.contains(id)) {
        unclear.push(format!("the document has no operation with the id `{id}`"));
    }
    let found: BTreeSet<String> =
        operations.iter().flat_map(|(_, limits)| limits).map(DeclaredLimit::path).collect();
    let is_left_out =
        |limit: &DeclaredLimit| limit.policy().mode() == Mode::Enforce && !found.contains(&limit.path());
    let left_out = limits.iter().copied().filter(is_left_out).collect();
    Found { operations, left_out, unclear }
}

/// The ids that more than one operation has, which no document should have.
fn ids_of_several(document: &mut OpenApi) -> BTreeSet<String> {
    let (mut once, mut several) = (BTreeSet::new(), BTreeSet::new());
    for operation in document.paths.paths.values_mut().flat_map(operations_of) {
        if let Some(id) = &operation.operation_id
            && !once.insert(id.clone())
        {
            several.insert(id.clone());
        }
    }
    several
}

/// The operations of a path, one for each method.
fn operations_of(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem {
        get, put, post, delete, options, head, patch, trace, query, additional_operations, ..
    } = item;
    let usual = [get, put, post, delete, options, head, patch, trace, query];
    usual.into_iter().flatten().chain(additional_operations.values_mut())
}

/// The name of the handler's function, without a type around it.
fn function(limit: &DeclaredLimit) -> &'static str {
    limit.handler().rsplit("::").next().unwrap_or_default().trim_start_matches("r#")
}

/// Whether a path ends with the segments of another one.
fn ends_with_path(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|start| start.is_empty() || start.ends_with("::"))
}
