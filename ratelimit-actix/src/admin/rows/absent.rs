//! The same functions without the feature `overrides`: the numbers of the program are in force.

use ratelimit_core::{Policy, RateLimiter};

use super::row::{Origin, OverridesView, Row};

pub(super) fn for_all(_: &RateLimiter, policy: &Policy) -> Row {
    Row::new(Origin::Program, policy)
}

pub(super) fn for_caller(_: &RateLimiter, policy: &Policy, _: &[u8]) -> Row {
    Row::new(Origin::Program, policy)
}

pub(super) const fn counts(_: &RateLimiter, _: &Policy) -> (usize, usize) {
    (0, 0)
}

pub(super) const fn named(_: &RateLimiter, _: &Policy, _: usize) -> Vec<Row> {
    Vec::new()
}

pub(super) const fn given_policies(_: &RateLimiter) -> Vec<Policy> {
    Vec::new()
}

pub(super) const fn overview(_: &RateLimiter) -> Option<OverridesView> {
    None
}
