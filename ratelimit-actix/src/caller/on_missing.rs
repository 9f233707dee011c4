//! What to do with a request without a caller.

use super::value::Caller;
use crate::quotas::Partition;

/// A request has no caller, and the limit requires one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MissingCallerError;

/// What to do with a request for which a limit finds no caller, such as one without the header field that `by` reads.
///
/// A limit by address always finds a caller: all requests without an address are the same one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnMissing {
    /// Rejects the request with 400. It is charged to no limit.
    #[default]
    Reject,
    /// Does not apply this limit to the request.
    Skip,
    /// Counts all such requests as one caller.
    Anonymous,
}

impl OnMissing {
    /// The caller to count. `None` if the limit does not apply to the request.
    #[inline]
    pub(crate) fn resolve(self, caller: Caller) -> Result<Option<Partition>, MissingCallerError> {
        match (caller, self) {
            (Caller(Some(caller)), _) => Ok(Some(Partition(caller))),
            (Caller(None), Self::Reject) => Err(MissingCallerError),
            (Caller(None), Self::Skip) => Ok(None),
            (Caller(None), Self::Anonymous) => Ok(Caller::anonymous().0.map(Partition)),
        }
    }
}
