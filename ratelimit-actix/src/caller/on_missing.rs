//! What to do with a request without a caller.

use super::value::Caller;

/// There is nobody to count a request for, and the limit insists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MissingCallerError;

/// What becomes of a request for which a limit finds no caller, such as one without the header that it counts by. By address
/// there is always one: all requests without an address are the same caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnMissing {
    /// It is answered with 400, and not counted.
    #[default]
    Reject,
    /// It is not counted under this limit.
    Skip,
    /// All such requests are one caller.
    Anonymous,
}

impl OnMissing {
    /// Whom a request counts for whose caller is `caller`; `None` when it does not.
    pub(crate) fn resolve(self, caller: Caller) -> Result<Option<Caller>, MissingCallerError> {
        match self {
            _ if !caller.is_missing() => Ok(Some(caller)),
            Self::Reject => Err(MissingCallerError),
            Self::Skip => Ok(None),
            Self::Anonymous => Ok(Some(Caller::anonymous())),
        }
    }
}
