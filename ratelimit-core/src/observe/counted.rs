//! How metrics and statistics count one limit of a decision.

use crate::outcome::Outcome;

/// How a limit was decided. Each decision about a limit is counted as one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// The request was admitted.
    Admitted,
    /// The limit passed, but another limit of the group denied, so that nothing was charged.
    Passed,
    Denied,
    /// A shadow limit that would have denied.
    WouldDeny,
}

impl Counted {
    /// `is_admitted` says whether the whole group was admitted.
    #[inline]
    pub(crate) fn of(outcome: &Outcome, is_admitted: bool) -> Self {
        match (outcome.is_allowed(), is_admitted) {
            (false, _) => Self::Denied,
            (true, _) if outcome.would_deny() => Self::WouldDeny,
            (true, true) => Self::Admitted,
            (true, false) => Self::Passed,
        }
    }
}
