//! How responses look: header styles and bodies, as the configuration chooses them.

use std::fmt;
use std::sync::Arc;

use actix_web::http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, RETRY_AFTER, VARY, X_CONTENT_TYPE_OPTIONS};
use actix_web::{HttpRequest, HttpResponse};
use smallvec::SmallVec;

use super::body::{BodyStyle, CustomBody, RejectionInfo};
use super::header_style::HeaderStyle;
use super::headers::number;

/// The settings of a [`ResponseStyle`].
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

/// How all responses under one configuration look. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct ResponseStyle(Arc<StyleSettings>);

impl ResponseStyle {
    pub(crate) fn new(settings: StyleSettings) -> Self {
        Self(Arc::new(settings))
    }

    pub(crate) fn settings(&self) -> &StyleSettings {
        &self.0
    }

    /// The style for the response to `req`.
    pub(crate) fn for_request(&self, req: &HttpRequest) -> RequestStyle {
        let StyleSettings { body, body_by_accept, .. } = *self.0;
        let body = if body_by_accept { body.by_accept(req.headers()) } else { body };
        RequestStyle { style: self.clone(), body }
    }
}

/// How the response to one request looks.
#[cfg_attr(any(test, feature = "test-util"), derive(Default))]
#[derive(Clone)]
pub(crate) struct RequestStyle {
    style: ResponseStyle,
    /// The built-in body that this client gets.
    body: BodyStyle,
}

impl RequestStyle {
    pub(crate) fn header_styles(&self) -> &[HeaderStyle] {
        &self.style.0.headers
    }

    /// The response with a body, and with the fields that keep clients from misreading it.
    pub(crate) fn render(&self, info: &RejectionInfo<'_>) -> HttpResponse {
        let settings = &*self.style.0;
        let (content_type, body) = match &settings.custom_body {
            Some(custom) => (HeaderValue::from_str(custom.content_type()), custom.render(info)),
            None => (Ok(HeaderValue::from_static(self.body.content_type())), self.body.render(info)),
        };
        let mut response = HttpResponse::build(info.status);
        response.insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"));
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
