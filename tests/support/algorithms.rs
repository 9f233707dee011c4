//! A policy for every algorithm, taken from [`Algorithm::ALL`], so that a new algorithm is in every test that
//! uses these.

use ratelimit_core::policy::MAX_LEASE;
use ratelimit_core::{Algorithm, Policy, PolicyBuilder};

/// A policy for every algorithm, and one more with `sub_windows` for each algorithm that has sub-windows.
pub fn shapes(builder: PolicyBuilder, sub_windows: u64) -> Vec<Policy> {
    shapes_of(Algorithm::ALL.iter().copied(), builder, sub_windows)
}

fn shapes_of(
    algorithms: impl Iterator<Item = Algorithm>,
    builder: PolicyBuilder,
    sub_windows: u64,
) -> Vec<Policy> {
    let of_one = |algorithm| {
        let plain = builder.algorithm(algorithm);
        // An error is the only public sign that an algorithm lacks the parameter.
        [Some(plain.build()), plain.sub_windows(sub_windows).try_build().ok()].into_iter().flatten()
    };
    algorithms.flat_map(of_one).collect()
}

/// The [`shapes`] of the algorithms of which callers hold leases, for a builder with a lease.
pub fn leasable_shapes(builder: PolicyBuilder, sub_windows: u64) -> Vec<Policy> {
    shapes_of(leasable(), builder, sub_windows)
}

/// Every algorithm of which callers hold leases.
pub fn leasable() -> impl Iterator<Item = Algorithm> {
    let is_leasable = |algorithm: &Algorithm| {
        Policy::builder("k").algorithm(*algorithm).lease(MAX_LEASE).try_build().is_ok()
    };
    Algorithm::ALL.iter().copied().filter(is_leasable)
}
