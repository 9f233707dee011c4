//! The error of a check by hand: a rejection with its response, which the errors of an application can carry.

use std::fmt;

use actix_web::body::{self, BoxBody};
use actix_web::http::StatusCode;
use actix_web::http::header::HeaderMap;
use actix_web::web::Bytes;
use actix_web::{HttpResponse, ResponseError};

use super::rejection::Rejection;

/// A limit that was [checked by hand](crate::admit) rejects the request, with the response of an attribute.
///
/// `?` turns it into an [`actix_web::Error`], into an error type of your own, and into a boxed
/// [`Error`](std::error::Error), which may be `Send + Sync`. An error type of your own passes the response
/// on:
///
/// ```
/// use actix_web::{HttpResponse, ResponseError};
/// use ratelimit_actix::Rejected;
///
/// #[derive(Debug, thiserror::Error)]
/// enum AppError {
///     #[error(transparent)]
///     Limit(#[from] Rejected),
///     #[error("the import has no items")]
///     Empty,
/// }
///
/// impl ResponseError for AppError {
///     fn error_response(&self) -> HttpResponse {
///         match self {
///             Self::Limit(rejected) => rejected.error_response(),
///             Self::Empty => HttpResponse::BadRequest().finish(),
///         }
///     }
/// }
/// ```
#[derive(thiserror::Error)]
#[error("{}", .0.rejection)]
pub struct Rejected(Box<Rendered>);

struct Rendered {
    rejection: Rejection,
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Rejected {
    /// The rejection with the response to it. An error handler may have made that, and it is not `Send`, so
    /// its body is read.
    pub(crate) async fn new(rejection: Rejection, response: HttpResponse) -> Self {
        let (head, body) = response.into_parts();
        // If the body of an error handler fails, the status and the fields are sent all the same.
        let body = body::to_bytes(body).await.unwrap_or_default();
        Self(Box::new(Rendered { rejection, status: head.status(), headers: head.headers().clone(), body }))
    }

    /// Why the request is rejected.
    pub fn rejection(&self) -> &Rejection {
        &self.0.rejection
    }
}

// `Logger` prints it, as it prints the rejection by an attribute.
impl fmt::Debug for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.rejection {
            Rejection::RateLimited(error) => error.fmt(f),
            Rejection::Unavailable(error) => error.fmt(f),
            Rejection::MissingCaller(error) => error.fmt(f),
        }
    }
}

impl ResponseError for Rejected {
    fn status_code(&self) -> StatusCode {
        self.0.status
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::with_body(self.0.status, BoxBody::new(self.0.body.clone()));
        response.headers_mut().clone_from(&self.0.headers);
        response
    }
}
