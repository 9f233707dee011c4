//! Requests of one call: what is to be decided, and where it is found again in the reply.

use smallvec::SmallVec;

use crate::algorithm::{Mode, encoded};
use crate::check::Check;
use crate::policy::{Algorithm, MAX_UNITS, Parameter, Policy};
use crate::store::redis::key::Key;

/// What a script needs to know of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::redis) struct Rule {
    pub(in crate::store::redis) algorithm: Algorithm,
    pub(in crate::store::redis) max: u64,
    pub(in crate::store::redis) window_us: u64,
    /// Sub-windows, or burst.
    pub(in crate::store::redis) shape: u64,
}

impl Rule {
    pub(in crate::store::redis) fn of(policy: &Policy) -> Self {
        let algorithm = policy.algorithm();
        let shape = match algorithm.spec().parameter {
            Parameter::Burst => policy.capacity(),
            Parameter::SubWindows | Parameter::None => policy.sub_windows(),
        };
        Self { algorithm, max: policy.max(), window_us: policy.window_us(), shape }
    }

    /// How long the server may take to decide about one limit under this rule, as a multiple of the time for a limit with a
    /// single short value. A log takes up to 60 us: its script searches twice in a tree, for what has expired and
    /// for how long to wait.
    pub(in crate::store::redis) const fn weight(&self) -> usize {
        match self.algorithm {
            Algorithm::SlidingWindowLog => 8,
            Algorithm::FixedWindow | Algorithm::SlidingWindowCounter | Algorithm::TokenBucket => 1,
        }
    }

    /// Size of the state under this rule that `bytes` begin with.
    pub(in crate::store::redis) fn state_len(&self, bytes: &[u8]) -> Option<usize> {
        encoded::encoded_len(self.algorithm, self.shape, bytes)
    }
}

/// One limit of a request.
#[derive(Debug)]
pub(in crate::store::redis) struct Limit {
    /// Under which its count is kept.
    pub(in crate::store::redis) key: Key,
    pub(in crate::store::redis) rule: Rule,
    pub(in crate::store::redis) cost: u64,
}

impl Limit {
    pub(in crate::store::redis) fn new(key: Key, check: &Check<'_>) -> Self {
        // Whatever is more than the largest limit is decided the same.
        Self { key, rule: Rule::of(check.policy()), cost: check.units().min(MAX_UNITS + 1) }
    }
}

/// A group of limits to be judged together.
#[derive(Debug)]
pub(in crate::store::redis) struct Request {
    pub(in crate::store::redis) mode: Mode,
    pub(in crate::store::redis) limits: SmallVec<[Limit; 1]>,
}

/// Requests of one call, to be found again in its reply.
pub(in crate::store::redis) struct Batch {
    pub(in crate::store::redis) requests: Vec<Numbered>,
    pub(in crate::store::redis) rules: SmallVec<[Rule; 4]>,
    /// One for each key.
    pub(in crate::store::redis) asked: Vec<Asked>,
}

/// A request, with its limits by the number of their key.
pub(in crate::store::redis) struct Numbered {
    pub(in crate::store::redis) mode: Mode,
    pub(in crate::store::redis) limits: SmallVec<[(u16, u64); 1]>,
}

/// What is asked about one key.
pub(in crate::store::redis) struct Asked {
    pub(in crate::store::redis) rule: u16,
    pub(in crate::store::redis) total: u64,
    /// Nothing but checks of this limit alone.
    pub(in crate::store::redis) is_plain: bool,
}
