//! A decision that has begun, and what is left of it.

use crate::algorithm::Operation;
use crate::observe::Stopwatch;
use crate::outcome::GroupOutcome;
use crate::store::{Deadline, Sent};

/// A decision that has begun.
#[allow(missing_debug_implementations, reason = "for the facade")]
pub enum Begun {
    /// It is made.
    Decided(GroupOutcome),
    /// It takes a round trip.
    Waits(Waiting),
}

/// What is left of a decision that takes a round trip.
#[allow(missing_debug_implementations, reason = "for the facade")]
pub struct Waiting {
    pub(super) operation: Operation,
    pub(super) deadline: Deadline,
    pub(super) by_worker: bool,
    pub(super) stopwatch: Stopwatch,
    /// In a box, because futures that are moved should be small.
    pub(super) sent: Option<Box<Sent>>,
}
