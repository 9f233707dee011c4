//! The protocol of the scripts: the requests of a call, encoded as KEYS and ARGV, and replies. No other
//! module knows these formats.
//!
//! Arguments are strings of little-endian doubles, because Lua unpacks one string of numbers faster than it
//! converts many arguments. All numbers are integers below 2^53. The reply has the state found at each key
//! and, unless all requests passed, one verdict per request. The code of the memory store derives
//! `remaining`, `reset_after` and `retry_after` from that state.

mod decode;
#[cfg(test)]
mod tests;

use std::borrow::Borrow;

use smallvec::{SmallVec, smallvec};

pub(super) use self::decode::{EXPECTED, Replies, Reply, Unclaimed};
use super::command::Command;
use super::key::{KeyFormat, StateKey};
use super::script;
use super::server_clock::{ClockSample, ServerClock};
use crate::algorithm::{Operation, OwnEntry};
use crate::check::Check;
use crate::policy::{Algorithm, LuaSource, MAX_UNITS, Parameter};
use crate::reservation::Charge;

/// A policy as scripts take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PolicyArg {
    pub(super) algorithm: Algorithm,
    max: u64,
    window_us: u64,
    /// Burst of a token bucket; first instant of a window that has a state of its own; otherwise the number
    /// of sub-windows.
    shape: u64,
    /// Length of a block in microseconds; 0 for none.
    block_us: u64,
}

impl PolicyArg {
    pub(super) fn new(check: &Check<'_>) -> Self {
        let (policy, algorithm) = (check.policy(), check.policy().algorithm());
        let shape = match (algorithm.spec().parameter, check.window) {
            (Parameter::Burst, _) => policy.capacity(),
            (_, Some(window)) => window.from,
            (Parameter::SubWindows | Parameter::None, None) => policy.sub_windows(),
        };
        let (max, block_us) = (policy.max(), policy.block_us());
        // The state is kept for longer than the window, because another process may have other zone data.
        let kept_us = check.window.map_or(0, |window| policy.kept_us(window));
        let window_us = policy.window_us().max(kept_us);
        Self { algorithm, max, window_us, shape, block_us }
    }

    /// Longest time that the server takes for one limit under this policy, as a multiple of the time for a
    /// state of a few bytes. A log takes up to 60 µs, if its script searches a tree twice, for expired
    /// entries and for the wait. Slots take as long once a call if 190 processes have an entry of the caller,
    /// and up to 25 µs for each further request about the caller.
    pub(super) const fn weight(&self) -> usize {
        match self.algorithm.spec().lua {
            LuaSource::Log(_) | LuaSource::Entries(_) => 8,
            LuaSource::Step(_) => 1,
        }
    }
}

/// One limit of a request.
#[derive(Clone, Debug)]
pub(super) struct LimitArg {
    /// Key of the state.
    pub(super) key: StateKey,
    pub(super) policy: PolicyArg,
    pub(super) cost: u64,
    /// Whether the limit only reports what it would deny.
    shadow: bool,
    /// For an overdraft, or a wait, the policy of the largest limit.
    largest: Option<Box<PolicyArg>>,
    /// What the process reports of its slots, for a state with an entry for each process. It is set when
    /// the call is encoded.
    pub(super) own: Option<Box<OwnEntry>>,
}

impl LimitArg {
    pub(super) fn new(key: StateKey, check: &Check<'_>) -> Self {
        // All costs above the largest limit are decided the same.
        let (policy, cost) = (PolicyArg::new(check), check.cost().min(MAX_UNITS + 1));
        Self { key, policy, cost, shadow: check.is_shadow(), largest: None, own: None }
    }

    /// A limit that an attachment adds to a call. Its denial is no denial of a request: it begins no block.
    pub(super) const fn of_attachment(key: StateKey, policy: PolicyArg, cost: u64) -> Self {
        let policy = PolicyArg { block_us: 0, ..policy };
        Self { key, policy, cost, shadow: false, largest: None, own: None }
    }

    /// A limit that is charged beyond what it admits.
    pub(super) fn overdrawn(key: StateKey, check: &Check<'_>) -> Self {
        let largest = PolicyArg::new(&check.with_policy(&check.policy().largest()));
        Self { largest: Some(Box::new(largest)), shadow: false, ..Self::new(key, check) }
    }
}

/// A group of limits to decide together.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) operation: Operation,
    pub(super) limits: SmallVec<[LimitArg; 1]>,
}

impl Request {
    /// Longest time that the server takes for the request, as a multiple of the time for one state of a few
    /// bytes. To find how many units fit takes a step for each binary digit of their number.
    pub(super) fn weight(&self) -> usize {
        let limits: usize = self.limits.iter().map(|limit| limit.policy.weight()).sum();
        if self.operation.takes_whole_cost() { limits } else { 8 * limits }
    }
}

/// The requests of one call, for decoding its reply.
pub(super) struct Batch {
    requests: SmallVec<[RequestEntry; 1]>,
    policies: SmallVec<[PolicyArg; 1]>,
    /// One entry per key.
    keys: SmallVec<[KeyEntry; 1]>,
}

/// A request of a batch.
struct RequestEntry {
    operation: Operation,
    /// Index of the key, and cost, of each limit.
    limits: SmallVec<[(u16, u64); 1]>,
}

/// A key of a call, with a summary of all requests for it.
struct KeyEntry {
    /// Index of the policy.
    policy: u16,
    /// Sum of the costs.
    total: u64,
    /// Whether every request for the key is a check of this limit alone, so that the script may charge the
    /// sum at once.
    is_plain: bool,
    /// What the process reports of its slots.
    own: Option<Box<OwnEntry>>,
}

#[allow(
    clippy::cast_precision_loss,
    reason = "below 2^53: a policy's numbers by their bounds, instants until 2255"
)]
const fn exact(number: u64) -> f64 {
    number as f64
}

fn push<const N: usize>(bytes: &mut Vec<u8>, numbers: [f64; N]) {
    bytes.extend_from_slice(numbers.map(f64::to_le_bytes).as_flattened());
}

/// A number, or -1 if it is missing: an instant, for which the server's clock then stands, or a sum.
fn or_none(number: Option<u64>) -> f64 {
    number.map_or(-1.0, exact)
}

impl PolicyArg {
    fn push(&self, bytes: &mut Vec<u8>) {
        let Self { max, window_us, shape, .. } = *self;
        push(bytes, [self.algorithm.spec().number.into(), max, window_us, shape].map(exact));
    }
}

/// The header of a request: the number of its limits, negative for a peek, and a multiple of 256 that stands
/// for the operation; see `check.lua`.
fn header(operation: Operation, limits: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a group is small")]
    let size = limits as f64;
    match operation {
        Operation::Check => size,
        Operation::Peek => -size,
        Operation::Judge => size + 256.0,
        Operation::UpTo => size + 512.0,
        // Each limit is written twice: with its own policy and with the policy of the largest limit.
        Operation::Overdraw => 2.0 * size + 768.0,
        Operation::Wait { .. } => 2.0 * size + 1024.0,
    }
}

/// Length in bytes of the beginning of the first argument: the instant, and the number of policies.
const HEADER_LEN: usize = 16;
/// Length in bytes of each policy after that.
const POLICY_LEN: usize = 32;

/// Encodes calls.
pub(super) struct Encoder {
    pub(super) key_format: KeyFormat,
    /// Reads the instant of a decision, in microseconds; `None` stands for the server's clock.
    pub(super) now: Box<dyn Fn() -> Option<u64> + Send + Sync>,
    /// Clock by which the windows of calls are chosen.
    server_clock: ServerClock,
}

impl Encoder {
    pub(super) fn new(key_format: KeyFormat, now: Box<dyn Fn() -> Option<u64> + Send + Sync>) -> Self {
        Self { key_format, now, server_clock: ServerClock::new() }
    }

    /// Learns that the server's clock showed `at` between the write of a call and the read of its reply.
    pub(super) fn note_server_time(&self, at: u64, (sent_at, answered_at): (u64, u64)) -> ClockSample {
        let sample = ClockSample { at, sent_at, answered_at };
        self.server_clock.note(sample);
        sample
    }

    /// Whether the server's clock is known.
    pub(super) fn knows_server_time(&self) -> bool {
        (self.now)().is_some() || self.server_clock.is_known()
    }

    /// What the server's clock shows by now, in microseconds.
    pub(super) fn server_time(&self) -> u64 {
        (self.now)().unwrap_or_else(|| self.server_clock.now())
    }

    /// Encodes one call of `check.lua` for these requests.
    pub(super) fn encode<R: Borrow<Request>>(&self, requests: &[R]) -> (Command, Batch) {
        let mut writer = CallWriter {
            policies: SmallVec::new(),
            keys: SmallVec::with_capacity(requests.len()),
            entries: SmallVec::with_capacity(requests.len()),
            bytes: Vec::with_capacity(HEADER_LEN + POLICY_LEN + 48 * requests.len()),
        };
        let requests = requests.iter().map(|request| writer.request(request.borrow())).collect();
        writer.finish(self, requests)
    }
}

/// Writes the requests of one call.
struct CallWriter<'r> {
    policies: SmallVec<[PolicyArg; 1]>,
    keys: SmallVec<[&'r StateKey; 2]>,
    /// One entry for each of `keys`.
    entries: SmallVec<[KeyEntry; 1]>,
    /// The second argument; then the others, in their order.
    bytes: Vec<u8>,
}

impl<'r> CallWriter<'r> {
    fn request(&mut self, request: &'r Request) -> RequestEntry {
        let Request { operation, limits } = request;
        push(&mut self.bytes, [header(*operation, limits.len())]);
        let limits = limits.iter().map(|limit| self.limit(request, limit)).collect();
        RequestEntry { operation: *operation, limits }
    }

    /// Writes a limit of a request. Returns the index of its key, and its cost.
    fn limit(&mut self, request: &Request, limit: &'r LimitArg) -> (u16, u64) {
        let (operation, is_alone) = (request.operation, request.limits.len() == 1);
        let (policy, cost) = (self.policy(limit.policy), limit.cost);
        // A wait whose cost fits is a check. Reported slots are written on denial as well, so their requests
        // are judged one by one.
        let is_plain =
            is_alone && matches!(operation, Operation::Check | Operation::Wait { .. }) && limit.own.is_none();
        let key = self.key(limit, policy, is_plain);
        // A shadow limit that is alone is sent like an enforced limit: this process knows that its denial
        // does not count.
        let is_marked = limit.shadow && (!is_alone || operation == Operation::UpTo);
        let number = |index: u16| f64::from(index) + 1.0;
        let marked = if is_marked { -number(policy) } else { number(policy) };
        let amount = if let Operation::Wait { at_most_us } = operation { at_most_us } else { cost };
        push(&mut self.bytes, [number(key), marked, exact(amount)]);
        if let Some(largest) = limit.largest.as_deref() {
            let largest = self.policy(*largest);
            push(&mut self.bytes, [number(key), number(largest), exact(cost)]);
        }
        (key, cost)
    }

    /// The index of a policy, which is added if it is new.
    fn policy(&mut self, policy: PolicyArg) -> u16 {
        let known = self.policies.iter().rposition(|known| *known == policy);
        short(known.unwrap_or_else(|| {
            self.policies.push(policy);
            self.policies.len() - 1
        }))
    }

    /// The index of the key of a limit, which is added if it is new.
    fn key(&mut self, limit: &'r LimitArg, policy: u16, is_plain: bool) -> u16 {
        let LimitArg { key, cost, own, .. } = limit;
        // A call has so few keys that a search is as fast as a table: most keys differ in their hash.
        if let Some(index) = self.keys.iter().position(|known| *known == key) {
            let entry = &mut self.entries[index];
            entry.is_plain &= is_plain && entry.policy == policy;
            entry.total += cost;
            return short(index);
        }
        self.keys.push(key);
        self.entries.push(KeyEntry { policy, total: *cost, is_plain, own: own.clone() });
        short(self.keys.len() - 1)
    }

    fn finish(self, encoder: &Encoder, requests: SmallVec<[RequestEntry; 1]>) -> (Command, Batch) {
        let Self { policies, keys, entries, mut bytes } = self;
        let mut ends: SmallVec<[usize; 4]> = smallvec![bytes.len()];
        push(&mut bytes, [or_none((encoder.now)()), exact(policies.len() as u64)]);
        policies.iter().for_each(|policy| policy.push(&mut bytes));
        for entry in &entries {
            let total = entry.is_plain.then_some(entry.total);
            push(&mut bytes, [f64::from(entry.policy) + 1.0, or_none(total)]);
        }
        ends.push(bytes.len());
        let reports = entries.iter().any(|entry| entry.own.is_some());
        if reports || policies.iter().any(|policy| policy.block_us > 0) {
            policies.iter().for_each(|policy| push(&mut bytes, [exact(policy.block_us)]));
            ends.push(bytes.len());
        }
        if reports {
            push_own_entries(&entries, &mut bytes);
            ends.push(bytes.len());
        }
        let mut arguments: SmallVec<[&[u8]; 4]> =
            ends.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
        arguments.insert(1, &bytes[..ends[0]]);
        let script = script::check(policies.iter().map(|policy| policy.algorithm));
        (Command::run(script, &keys, &arguments), Batch { requests, policies, keys: entries })
    }
}

/// Writes what the process reports of its slots: its number, and both numbers of each key.
fn push_own_entries(keys: &[KeyEntry], bytes: &mut Vec<u8>) {
    let process = keys.iter().find_map(|key| key.own.as_ref()).map_or(0, |own| own.process);
    push(bytes, [exact(process)]);
    for key in keys {
        let own = key.own.as_deref().copied().unwrap_or_default().kept();
        push(bytes, [own.granted, own.freed].map(exact));
    }
}

/// An index into a table of one call, which has fewer than 65,535 entries.
fn short(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}

/// Encodes ARGV of `refund.lua`.
pub(super) struct RefundArgs(Vec<u8>);

impl RefundArgs {
    pub(super) fn new(now: Option<u64>) -> Self {
        Self(or_none(now).to_le_bytes().to_vec())
    }

    pub(super) fn push(&mut self, charge: &Charge<'_>) {
        let check = charge.check();
        let (units, at, until) = (check.cost().min(MAX_UNITS + 1), charge.at(), charge.until());
        self.push_units(&PolicyArg::new(&check), units, at.as_micros(), until.as_micros());
    }

    /// Units that were charged at `at` and count until `until`, in microseconds.
    pub(super) fn push_units(&mut self, policy: &PolicyArg, units: u64, at: u64, until: u64) {
        policy.push(&mut self.0);
        push(&mut self.0, [units, at, until].map(exact));
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}
