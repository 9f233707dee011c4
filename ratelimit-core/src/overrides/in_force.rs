//! What is in force for a limit, and where each number comes from.

use std::sync::Arc;

use super::row::Override;
use crate::policy::{Policy, PolicyError};

/// Where numbers come from; of two that apply, the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "stats", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Origin {
    /// The program: an attribute or a policy.
    Program,
    /// The overrides of the limit, for all callers: `[limit.NAME]`.
    Limit,
    /// The row of a plan: `[limit.NAME.plans]`.
    Plan,
    /// The row of a caller: `[limit.NAME.callers]`.
    Caller,
}

/// A number that overrides can replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Field {
    /// Units per window.
    Max,
    /// Length of the window.
    Window,
    /// Units that a full token bucket holds.
    Burst,
    /// Time for which the first denial blocks a caller.
    Block,
    /// Whether the limit denies, only reports, or is off.
    Mode,
    /// What the limit does during an outage of the store.
    OnError,
}

impl Field {
    /// All fields, in the order of the documentation.
    pub const ALL: &'static [Self] =
        &[Self::Max, Self::Window, Self::Burst, Self::Block, Self::Mode, Self::OnError];

    /// Name of the field, as files spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Max => "max",
            Self::Window => "window",
            Self::Burst => "burst",
            Self::Block => "block",
            Self::Mode => "mode",
            Self::OnError => "on_error",
        }
    }

    /// Whether a row sets it.
    pub(super) fn is_in(self, row: &Override) -> bool {
        match self {
            Self::Max => row.max.is_some(),
            Self::Window => row.window.is_some(),
            Self::Burst => row.burst.is_some(),
            Self::Block => row.block.is_some(),
            Self::Mode => row.mode.is_some(),
            Self::OnError => row.on_error.is_some(),
        }
    }
}

/// The overrides of a limiter as a whole.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "stats", derive(serde::Serialize))]
pub struct OverridesStatus {
    /// What messages call them: the name of their file.
    pub source: String,
    /// Number of limits with overrides.
    pub limits: usize,
    /// Number of rows.
    pub rows: usize,
    /// Why the newest contents of the file are not in force. `None` if they are.
    pub rejected: Option<String>,
}

/// The numbers that are in force for a limit, and where they come from.
///
/// It keeps the numbers of the instant when it was made. Later overrides do not change it, so that a request is checked,
/// settled and refunded under the same numbers.
#[derive(Clone, Debug)]
pub struct InForce<'p> {
    pub(super) numbers: Numbers<'p>,
    /// The row that applies.
    pub(super) origin: Origin,
    pub(super) row: Override,
    /// The overrides of the limit, which its rows share. There may be 100,000 rows.
    pub(super) limit: Option<Arc<Override>>,
}

#[derive(Clone, Debug)]
pub(super) enum Numbers<'p> {
    Program(&'p Policy),
    Owned(Arc<Policy>),
}

impl<'p> From<&'p Policy> for InForce<'p> {
    /// The numbers of the program, without overrides.
    fn from(policy: &'p Policy) -> Self {
        Self { numbers: Numbers::Program(policy), origin: Origin::Program, row: Override::new(), limit: None }
    }
}

impl InForce<'_> {
    /// The same numbers without a borrow.
    #[must_use]
    pub fn into_owned(self) -> InForce<'static> {
        InForce { numbers: Numbers::Owned(self.shared_policy()), ..self }
    }

    /// The policy to check by, for a limit that outlives these numbers.
    #[doc(hidden)]
    pub fn shared_policy(&self) -> Arc<Policy> {
        match &self.numbers {
            Numbers::Program(policy) => Arc::new((*policy).clone()),
            Numbers::Owned(policy) => Arc::clone(policy),
        }
    }

    /// These numbers over another policy of the same limit: one of which some were computed for a request.
    ///
    /// # Errors
    ///
    /// If the numbers do not fit together.
    #[doc(hidden)]
    pub fn apply(&self, policy: &Policy) -> Result<Policy, PolicyError> {
        self.replaced().apply(policy)
    }

    /// The row and the overrides of the limit together.
    pub(super) fn replaced(&self) -> Override {
        self.limit.as_ref().map_or(self.row, |limit| self.row.over(limit))
    }

    /// The policy to check by: that of the program with the numbers in force.
    ///
    /// Its `max` means nothing for an attribute that computes `max` for each request, unless
    /// [the origin](Self::origin_of) of [`Field::Max`] is an override.
    pub fn policy(&self) -> &Policy {
        match &self.numbers {
            Numbers::Program(policy) => policy,
            Numbers::Owned(policy) => policy,
        }
    }

    /// Whether the limit is off. The caller then checks nothing.
    pub fn is_off(&self) -> bool {
        self.replaced().is_off()
    }

    /// The row that applies: the most special one. What it does not set comes from [`Origin::Limit`], and what that does not set
    /// from the program.
    pub const fn origin(&self) -> Origin {
        self.origin
    }

    /// Where this number comes from.
    pub fn origin_of(&self, field: Field) -> Origin {
        let is_of_limit = self.limit.as_ref().is_some_and(|limit| field.is_in(limit));
        match (field.is_in(&self.row), is_of_limit) {
            (true, _) => self.origin,
            (false, true) => Origin::Limit,
            (false, false) => Origin::Program,
        }
    }
}
