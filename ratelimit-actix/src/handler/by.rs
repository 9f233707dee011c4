//! What tells the callers of a limit apart, as the attribute writes it into a `static`.

use actix_web::HttpRequest;

use crate::caller::{self, Caller};
use crate::config::RateLimitConfig;

/// What tells the callers of a limit apart.
#[derive(Clone, Copy, Debug)]
pub enum By {
    /// The client's address.
    Ip,
    /// Nothing: all share one count.
    Global,
    /// A parameter of the path, as extractors decode it.
    Path(&'static str),
    /// A header field, of which anybody can send any; of several the first, as `headers().get` gives it to the handler.
    Header(&'static str),
    /// What a function finds in the request.
    Function(fn(&HttpRequest) -> Caller),
    /// Several of these together.
    Parts(&'static [Self]),
}

impl By {
    /// Whom a request counts for, under the settings that are nearest to it.
    pub(crate) fn caller(&self, req: &HttpRequest, config: &RateLimitConfig) -> Caller {
        match self {
            Self::Ip => caller::by_address(req, config),
            Self::Global => Caller::global(),
            Self::Path(name) => caller::path_param(req, name),
            Self::Header(name) => match req.headers().get(*name) {
                Some(value) if !value.is_empty() => Caller::text(value.as_bytes()),
                _ => Caller::missing(),
            },
            Self::Function(key) => key(req),
            Self::Parts(parts) => Caller::join(parts.iter().map(|part| part.caller(req, config))),
        }
    }
}
