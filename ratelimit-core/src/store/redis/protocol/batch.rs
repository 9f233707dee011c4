//! Requests of one call, and the tables by which each finds its part of the reply.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::algorithm::{Operation, OwnEntry, encoded};
use crate::check::Check;
use crate::policy::{Algorithm, Calendar, KnownCalendar, LuaSource, MAX_UNITS, Parameter, Policy};
use crate::store::redis::key::StateKey;
use crate::store::redis::server_clock::ServerClock;

/// A policy as scripts take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::redis) struct PolicyArg {
    pub(super) algorithm: Algorithm,
    pub(super) max: u64,
    pub(super) window_us: u64,
    /// Of a window that depends on the time of the call.
    pub(super) calendar: Option<&'static KnownCalendar>,
    /// Burst of a token bucket; sub-windows of other algorithms.
    pub(super) parameter: u64,
    /// Length of a block in microseconds; 0 for none.
    pub(super) block_us: u64,
}

impl PolicyArg {
    pub(in crate::store::redis) fn new(policy: &Policy) -> Self {
        let algorithm = policy.algorithm();
        let parameter = match algorithm.spec().parameter {
            Parameter::Burst => policy.capacity(),
            Parameter::SubWindows | Parameter::None => policy.sub_windows(),
        };
        let (max, window_us, block_us) = (policy.max(), policy.window_us(), policy.block_us());
        let calendar = policy.calendar().map(Calendar::known);
        Self { algorithm, max, window_us, calendar, parameter, block_us }
    }

    /// The policy of the largest limit; see [`Policy::largest`].
    fn largest(policy: &Policy) -> Self {
        Self::new(&policy.largest())
    }

    /// Longest time of the server for one limit under this policy, as a multiple of that for a state of a few bytes. A log
    /// takes up to 60 µs where its script searches a tree twice, for expired entries and for the wait; entries take that if 190
    /// processes have one of the caller, once a call, and up to 25 µs for each further request about the caller.
    pub(in crate::store::redis) const fn weight(&self) -> usize {
        match self.algorithm.spec().lua {
            LuaSource::Log(_) | LuaSource::Entries(_) => 8,
            LuaSource::Step(_) => 1,
        }
    }

    pub(in crate::store::redis) const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Length in bytes of the state under this policy that `bytes` begin with.
    pub(super) fn state_len(&self, bytes: &[u8]) -> Option<usize> {
        encoded::encoded_len(self.algorithm, self.parameter, bytes)
    }
}

/// One limit of a request.
#[derive(Clone, Debug)]
pub(in crate::store::redis) struct LimitArg {
    /// Key of the state.
    pub(in crate::store::redis) key: StateKey,
    pub(in crate::store::redis) policy: PolicyArg,
    pub(super) cost: u64,
    /// Whether the limit only reports what it would deny.
    pub(super) shadow: bool,
    /// For an overdraft, or a wait, the policy of the largest limit.
    pub(super) largest: Option<PolicyArg>,
    /// What the process tells of itself, of a state with an entry for each process. Set as the call is written.
    pub(in crate::store::redis) own: Option<Box<OwnEntry>>,
}

impl LimitArg {
    pub(in crate::store::redis) fn new(key: StateKey, check: &Check<'_>) -> Self {
        // All costs above the largest limit are decided the same.
        let (policy, cost) = (PolicyArg::new(check.policy()), check.cost().min(MAX_UNITS + 1));
        Self { key, policy, cost, shadow: check.is_shadow(), largest: None, own: None }
    }

    /// A limit that a rider adds to a call. Its denial is no denial of a request: it begins no block.
    pub(in crate::store::redis) const fn of_rider(key: StateKey, policy: PolicyArg, cost: u64) -> Self {
        let policy = PolicyArg { block_us: 0, ..policy };
        Self { key, policy, cost, shadow: false, largest: None, own: None }
    }

    pub(in crate::store::redis) const fn cost(&self) -> u64 {
        self.cost
    }

    /// A limit that is charged beyond what it admits.
    pub(in crate::store::redis) fn overdrawn(key: StateKey, check: &Check<'_>) -> Self {
        Self { largest: Some(PolicyArg::largest(check.policy())), shadow: false, ..Self::new(key, check) }
    }
}

/// A group of limits to decide together.
#[derive(Debug)]
pub(in crate::store::redis) struct Request {
    pub(in crate::store::redis) operation: Operation,
    pub(in crate::store::redis) limits: SmallVec<[LimitArg; 1]>,
}

impl Request {
    /// Limits over one key take the calendar of the first of them, as in [`decide`](crate::algorithm::decide).
    pub(in crate::store::redis) fn new(operation: Operation, mut limits: SmallVec<[LimitArg; 1]>) -> Self {
        for place in 1..limits.len() {
            let (before, from) = limits.split_at_mut(place);
            let limit = &mut from[0];
            if limit.policy.calendar.is_some()
                && let Some(first) = before.iter().find(|first| first.key == limit.key)
            {
                limit.policy.calendar = first.policy.calendar;
            }
        }
        Self { operation, limits }
    }

    /// The hashes of the keys of limits with a calendar, and these.
    pub(in crate::store::redis) fn calendars(&self) -> impl Iterator<Item = (u64, &'static KnownCalendar)> {
        self.limits.iter().filter_map(|limit| Some((limit.key.hash(), limit.policy.calendar?)))
    }

    /// Longest time of the server for the request, as a multiple of that for one state of a few bytes. To find how many units
    /// fit takes a step for each binary digit of their number.
    pub(in crate::store::redis) fn weight(&self) -> usize {
        let limits: usize = self.limits.iter().map(|limit| limit.policy.weight()).sum();
        if self.operation.takes_whole_cost() { limits } else { 8 * limits }
    }
}

/// The requests of one call, as its reply refers to them.
pub(in crate::store::redis) struct Batch {
    pub(super) requests: Vec<RequestEntry>,
    pub(super) policies: SmallVec<[PolicyArg; 4]>,
    /// One entry per key.
    pub(super) keys: Vec<KeyEntry>,
    /// Set if a policy has a calendar: learns the instant of the reply.
    pub(super) server_clock: Option<Arc<ServerClock>>,
}

/// A request; each of its limits is the index of the key, and the cost.
pub(super) struct RequestEntry {
    pub(super) operation: Operation,
    pub(super) limits: SmallVec<[(u16, u64); 1]>,
}

/// All requests of the call for one key, taken together.
pub(super) struct KeyEntry {
    /// Index of the policy.
    pub(super) policy: u16,
    /// Sum of the costs.
    pub(super) total: u64,
    /// Whether every request for the key is a check of this limit alone, so that the script may charge the sum at once.
    pub(super) is_plain: bool,
    /// What the process tells of itself.
    pub(super) own: Option<Box<OwnEntry>>,
}
