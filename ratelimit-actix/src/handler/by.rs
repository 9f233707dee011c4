//! What tells the callers of a limit apart, as the attribute writes it into a `static`.

use actix_web::HttpRequest;

use crate::caller::{self, Caller};
use crate::config::RateLimitConfig;

/// What tells the callers of a limit apart.
#[derive(Clone, Copy, Debug)]
pub enum By {
    /// The client's address.
    Ip,
    /// Nothing: all requests share one count.
    Global,
    /// A path parameter, decoded as by extractors.
    Path(&'static str),
    /// A header field. Clients can send any value. Of several lines the first counts, as `headers().get` returns it.
    Header(&'static str),
    /// The caller that a function finds.
    Function(fn(&HttpRequest) -> Caller),
    /// All of these together.
    Parts(&'static [Self]),
}

impl By {
    /// Whether a request may have no such caller. The compiler checks a path parameter against the route.
    #[cfg(feature = "utoipa")]
    pub(crate) fn may_be_missing(&self) -> bool {
        match self {
            Self::Ip | Self::Global | Self::Path(_) => false,
            Self::Header(_) | Self::Function(_) => true,
            Self::Parts(parts) => parts.iter().any(Self::may_be_missing),
        }
    }

    /// The caller of a request under `config`, the nearest configuration.
    pub(crate) fn caller(&self, req: &HttpRequest, config: &RateLimitConfig) -> Caller {
        match self {
            Self::Ip => caller::by_address(req, config),
            Self::Global => Caller::global(),
            Self::Path(name) => caller::path_param(req, name),
            Self::Header(name) => match req.headers().get(*name) {
                Some(value) if !value.is_empty() => Caller::text(value.as_bytes()),
                _ => Caller::missing(),
            },
            Self::Function(caller) => caller(req),
            Self::Parts(parts) => Caller::join(parts.iter().map(|part| part.caller(req, config))),
        }
    }
}
