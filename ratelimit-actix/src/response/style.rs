//! How responses look.

use std::fmt;
use std::sync::Arc;

use actix_web::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use actix_web::{HttpRequest, HttpResponse};
use smallvec::SmallVec;

use super::body::{BodyStyle, CustomBody, RejectionInfo};
use super::headers::{HeaderStyle, number};

/// How all responses under one configuration look.
#[derive(Debug)]
pub(crate) struct StyleSettings {
    pub(crate) headers: SmallVec<[HeaderStyle; 2]>,
    pub(crate) body: BodyStyle,
    pub(crate) custom_body: Option<CustomBody>,
    pub(crate) body_by_accept: bool,
}

impl Default for StyleSettings {
    fn default() -> Self {
        Self {
            headers: SmallVec::from_slice(&[HeaderStyle::LegacyUnix]),
            body: BodyStyle::Json,
            custom_body: None,
            body_by_accept: false,
        }
    }
}

/// A cache must not store a rejection (RFC 6585): a stored one would reject other clients, and the same
/// client after its wait.
const NOT_STORED: (HeaderName, HeaderValue) = (CACHE_CONTROL, HeaderValue::from_static("no-store"));

/// Keeps a response out of caches, unless it has `Cache-Control` already.
pub(crate) fn forbid_storing(headers: &mut HeaderMap) {
    let (name, value) = NOT_STORED;
    if !headers.contains_key(&name) {
        headers.insert(name, value);
    }
}

/// How the response to one request looks.
#[cfg_attr(any(test, feature = "test-util"), derive(Default))]
#[derive(Clone)]
pub(crate) struct RequestStyle {
    settings: Arc<StyleSettings>,
    /// The built-in body that this client gets.
    body: BodyStyle,
}

impl RequestStyle {
    /// The style for the response to `req`.
    pub(crate) fn new(settings: &Arc<StyleSettings>, req: &HttpRequest) -> Self {
        let StyleSettings { body, body_by_accept, .. } = **settings;
        let body = if body_by_accept { body.by_accept(req.headers()) } else { body };
        Self { settings: Arc::clone(settings), body }
    }

    pub(super) fn headers(&self) -> &[HeaderStyle] {
        &self.settings.headers
    }

    /// The response with a body, and with the fields that keep clients from misreading it.
    pub(crate) fn render(&self, info: &RejectionInfo<'_>) -> HttpResponse {
        let settings = &*self.settings;
        let (content_type, body) = match &settings.custom_body {
            Some(custom) => (HeaderValue::from_str(&custom.content_type), (custom.render)(info)),
            None => (Ok(HeaderValue::from_static(self.body.content_type())), self.body.render(info)),
        };
        let mut response = HttpResponse::build(info.status);
        response.insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"));
        response.insert_header(NOT_STORED);
        // The configuration accepts valid content types only.
        if let Ok(content_type) = content_type {
            response.insert_header((CONTENT_TYPE, content_type));
        }
        if settings.body_by_accept {
            response.insert_header((VARY, HeaderValue::from_name(ACCEPT)));
        }
        if let Some(seconds) = info.retry_after {
            response.insert_header((RETRY_AFTER, number(seconds)));
        }
        response.body(body)
    }
}

impl fmt::Debug for RequestStyle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestStyle").field("body", &self.body).finish_non_exhaustive()
    }
}
