//! What distinguishes the callers of a limit.

use actix_web::HttpRequest;

use crate::caller::Caller;
use crate::handler::extracted::{Extracted, LaterValue};
use crate::shared_fn::SharedFn;

/// What distinguishes the callers of a limit.
#[derive(Clone, Debug)]
pub enum By {
    /// The client's address.
    Ip,
    /// Nothing: all requests share one count.
    Global,
    /// A path parameter, decoded as by extractors.
    Path(&'static str),
    /// A header field. Clients can send any value. Of several lines the first counts, as `headers().get`
    /// returns it.
    Header(&'static str),
    /// The caller that a function finds.
    Now(fn(&HttpRequest) -> Caller),
    /// The same by a function that is async, or that needs extractors.
    Later(for<'r> fn(&'r Extracted) -> LaterValue<'r, Caller>),
    /// The caller that a closure of middleware finds.
    Shared(SharedFn<HttpRequest, Caller>),
    /// All of these together.
    Parts(&'static [Self]),
}

impl By {
    /// Whether a request may have no such caller. A path parameter is one of the route, or of a scope.
    #[cfg(feature = "utoipa")]
    pub(crate) fn may_be_missing(&self) -> bool {
        match self {
            Self::Ip | Self::Global | Self::Path(_) => false,
            Self::Header(_) | Self::Now(_) | Self::Later(_) | Self::Shared(_) => true,
            Self::Parts(parts) => parts.iter().any(Self::may_be_missing),
        }
    }

    /// Whether the caller has to be awaited.
    pub(crate) fn waits(&self) -> bool {
        match self {
            Self::Later(_) => true,
            Self::Parts(parts) => parts.iter().any(Self::waits),
            _ => false,
        }
    }
}
