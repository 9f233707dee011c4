//! Token buckets that one limit of the program leases and another does not.

use std::fmt;

use ratelimit_core::Algorithm;

use super::registry::DeclaredLimit;
use super::shared_shadow::{counts_together, place};

/// A limit with a lease, and one without over the same bucket.
#[derive(Clone, Copy)]
pub(super) struct SharedBucket {
    pub(super) leased: DeclaredLimit,
    pub(super) other: DeclaredLimit,
}

impl fmt::Display for SharedBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { leased, other } = self;
        write!(
            f,
            "the limit of {} has no lease, and that of {} leases the same token bucket, whose units cannot be refunded; set \
             `lease` for both, or give one another key than `{}`",
            place(other),
            place(leased),
            leased.key()
        )
    }
}

/// Each limit without a lease whose bucket another limit leases.
pub(super) fn partly_leased_buckets(limits: &[DeclaredLimit]) -> Vec<SharedBucket> {
    let buckets = limits.iter().copied().filter(|limit| limit.algorithm() == Algorithm::TokenBucket);
    let (leased, others): (Vec<DeclaredLimit>, Vec<DeclaredLimit>) =
        buckets.partition(|limit| limit.policy().lease().is_some());
    let with_leased = |other: DeclaredLimit| {
        let leased = leased.iter().find(|leased| counts_together(leased.limit(), other.limit()))?;
        Some(SharedBucket { leased: *leased, other })
    };
    others.into_iter().filter_map(with_leased).collect()
}
