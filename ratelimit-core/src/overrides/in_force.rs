//! What is in force for a limit, and where each number comes from.

use std::borrow::Cow;
use std::sync::Arc;

use super::table::{LimitRows, Origin, Row};
use crate::policy::{Field, Policy, Settings};

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
/// It keeps the numbers of the instant when it was made. Later overrides do not change it, so that a request
/// is checked, settled and refunded under the same numbers. Numbers of a file keep all rows of their limit
/// in memory as well.
#[derive(Clone, Debug)]
pub struct InForce<'p>(Source<'p>);

#[derive(Clone, Debug)]
enum Source<'p> {
    Program(&'p Policy),
    Owned(Arc<Policy>),
    /// The overrides of the limit, and the position of the row among them.
    Row(Cow<'p, Arc<LimitRows>>, usize),
}

impl<'p> From<&'p Policy> for InForce<'p> {
    /// The numbers of the program, without overrides.
    fn from(policy: &'p Policy) -> Self {
        Self(Source::Program(policy))
    }
}

impl<'p> From<&'p Arc<LimitRows>> for InForce<'p> {
    /// The numbers for callers without a row of their own.
    fn from(rows: &'p Arc<LimitRows>) -> Self {
        Self(Source::Row(Cow::Borrowed(rows), LimitRows::LIMIT))
    }
}

impl InForce<'_> {
    /// The same numbers without a borrow.
    #[must_use]
    pub fn into_owned(self) -> InForce<'static> {
        InForce(match self.0 {
            Source::Row(rows, row) => Source::Row(Cow::Owned(rows.into_owned()), row),
            Source::Program(_) | Source::Owned(_) => Source::Owned(self.shared_policy()),
        })
    }

    /// The policy to check by, for a limit that outlives these numbers.
    pub(crate) fn shared_policy(&self) -> Arc<Policy> {
        match &self.0 {
            Source::Program(policy) => Arc::new((*policy).clone()),
            Source::Owned(policy) => Arc::clone(policy),
            Source::Row(rows, row) => Arc::clone(&rows.row(*row).policy),
        }
    }

    /// What overrides replace: the settings of the row, over those for all callers.
    pub(crate) fn replaced(&self) -> Settings {
        self.row().map_or_else(Settings::new, |(rows, row)| rows.replaced(row))
    }

    /// The numbers in force for a request: those of the caller's row, otherwise those of its plan.
    pub(crate) fn of_request(&self, plan: Option<&str>, partition: &[u8]) -> Self {
        match &self.0 {
            Source::Row(rows, _) => Self(Source::Row(rows.clone(), rows.position(plan, partition))),
            _ => self.clone(),
        }
    }

    /// Whether plans have rows.
    pub(crate) fn has_plans(&self) -> bool {
        self.row_counts().0 > 0
    }

    /// Whether the limit is off for all requests.
    pub(crate) fn is_off_for_all(&self) -> bool {
        self.is_off() && self.row_counts() == (0, 0)
    }

    /// The number of rows of plans, and of callers.
    pub(crate) fn row_counts(&self) -> (usize, usize) {
        self.row().map_or((0, 0), |(rows, _)| rows.counts())
    }

    /// The rows of plans and callers of the limit: the name of the plan or the text of the caller, and the
    /// numbers in force for it. Plans first, each kind in the order of the names.
    ///
    /// For a page of an operator. The texts name callers, so do not log them.
    pub fn rows(&self) -> impl Iterator<Item = (&str, InForce<'_>)> {
        let rows = if let Source::Row(rows, _) = &self.0 { Some(rows) } else { None };
        rows.into_iter().flat_map(|rows| {
            let row = |(position, name)| (name, InForce(Source::Row(Cow::Borrowed(rows), position)));
            rows.named().map(row)
        })
    }

    fn row(&self) -> Option<(&LimitRows, &Row)> {
        match &self.0 {
            Source::Row(rows, row) => Some((rows, rows.row(*row))),
            _ => None,
        }
    }

    /// The policy to check by: that of the program with the numbers in force.
    ///
    /// Its `max` means nothing for an attribute that computes `max` for each request, unless
    /// [the origin](Self::origin_of) of [`Field::Max`] is an override.
    pub fn policy(&self) -> &Policy {
        match &self.0 {
            Source::Program(policy) => policy,
            Source::Owned(policy) => policy,
            Source::Row(rows, row) => &rows.row(*row).policy,
        }
    }

    /// Whether the limit is off. The caller then checks nothing.
    pub fn is_off(&self) -> bool {
        self.replaced().is_off()
    }

    /// The row that applies: the most special one. What it does not set comes from [`Origin::Limit`], and
    /// what that does not set from the program.
    pub fn origin(&self) -> Origin {
        self.row().map_or(Origin::Program, |(_, row)| row.origin)
    }

    /// Where this number comes from.
    pub fn origin_of(&self, field: Field) -> Origin {
        let Some((rows, row)) = self.row() else { return Origin::Program };
        match (row.written.settings.has(field), rows.limit().written.settings.has(field)) {
            (true, _) => row.origin,
            (false, true) => Origin::Limit,
            (false, false) => Origin::Program,
        }
    }
}
