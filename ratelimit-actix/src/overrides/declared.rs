//! The limits of all attributes, as overrides are checked against them.

use ratelimit_core::__private_0_1::{DeclaredLimits, KnownLimit};

use crate::address::Ipv6Prefix;
use crate::caller::Caller;
use crate::caller::notation::NotationError;
use crate::handler::registry::{DeclaredLimit, declared_limits};

inventory::submit! { DeclaredLimits { limits, caller: partition } }

fn limits() -> Vec<KnownLimit> {
    declared_limits().iter().map(known).collect()
}

/// The partition of the caller that a row names. An IPv6 address without a prefix is that of its /64.
fn partition(row: &str) -> Result<Vec<u8>, String> {
    let caller = Caller::from_notation(row, |address| Ipv6Prefix::DEFAULT.group(address));
    let partition = caller.and_then(|caller| Ok(caller.partition().ok_or(NotationError::Empty)?.to_vec()));
    partition.map_err(|error| error.to_string())
}

fn known(limit: &DeclaredLimit) -> KnownLimit {
    KnownLimit {
        policy: limit.policy().clone(),
        place: Some(format!("{}::{} ({}:{})", limit.module(), limit.handler(), limit.file(), limit.line())),
        cost: limit.cost(),
        computes_max: limit.max().is_none(),
        has_plan: limit.has_plan(),
        encodes_callers: true,
    }
}
