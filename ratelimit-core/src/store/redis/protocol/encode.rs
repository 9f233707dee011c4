//! Encodes KEYS and ARGV of the scripts.

use std::sync::Arc;

use hashbrown::HashTable;
use smallvec::{SmallVec, smallvec};

use super::batch::{Batch, KeyEntry, LimitArg, PolicyArg, Request, RequestEntry};
use crate::algorithm::Operation;
use crate::policy::MAX_UNITS;
use crate::reservation::Charge;
use crate::store::redis::command::{Keys, ScriptCall};
use crate::store::redis::key::{KeyFormat, StateKey};
use crate::store::redis::script;
use crate::store::redis::server_clock::ServerClock;

#[allow(
    clippy::cast_precision_loss,
    reason = "below 2^53: a policy's numbers by their bounds, instants until 2255"
)]
const fn exact(number: u64) -> f64 {
    number as f64
}

fn push(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&exact(number).to_le_bytes());
}

/// Appends the instant of a decision; -1 stands for the server's clock.
fn push_now(bytes: &mut Vec<u8>, now: Option<u64>) {
    match now {
        Some(now) => push(bytes, now),
        None => bytes.extend_from_slice(&(-1.0f64).to_le_bytes()),
    }
}

impl PolicyArg {
    /// Appends the policy, with the calendar window of the instant `at` if it has a calendar.
    fn push(&self, bytes: &mut Vec<u8>, at: u64) {
        let calendar = self.calendar.map(|calendar| calendar.window_at(at));
        let (window, shape) =
            calendar.map_or((self.window_us, self.parameter), |window| (window.length(), window.from));
        for number in [self.algorithm.spec().number.into(), self.max, window, shape] {
            push(bytes, number);
        }
    }
}

/// The header of a request: the number of its limits, negative for a peek, and otherwise 256 more for each number by which the
/// operation is above that of a check.
fn header(operation: Operation, limits: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a group is small")]
    let size = limits as f64;
    match operation {
        Operation::Check => size,
        Operation::Peek => -size,
        Operation::Judge => size + 256.0,
        Operation::UpTo => size + 512.0,
        // Under the policy of the limit and under the largest.
        Operation::Overdraw => 2.0 * size + 768.0,
        Operation::Wait { .. } => 2.0 * size + 1024.0,
    }
}

/// Index of the argument with the edges of calendar windows.
const EDGES: usize = 4;

/// The edges of the calendar windows of a call, which `calendar.lua` describes.
fn edges_of(policies: &[PolicyArg], at: u64) -> Vec<u8> {
    let calendars = || {
        let numbered = (1u64..).zip(policies);
        numbered
            .filter_map(|(number, policy)| Some((number, policy.calendar?, policy.calendar?.window_at(at))))
    };
    let from = calendars().map(|(_, _, window)| window.from).max().unwrap_or(0);
    let before = calendars().map(|(_, _, window)| window.before).min().unwrap_or(0);
    let mut bytes = Vec::with_capacity(16 + 24 * policies.len());
    push(&mut bytes, from);
    push(&mut bytes, before);
    for (number, calendar, window) in calendars() {
        let around = calendar.around(window);
        for number in [number, around.from, around.before] {
            push(&mut bytes, number);
        }
    }
    bytes
}

/// Encodes calls.
pub(in crate::store::redis) struct Encoder {
    pub(in crate::store::redis) key_format: KeyFormat,
    /// Reads the instant of a decision, in microseconds; `None` stands for the server's clock.
    pub(in crate::store::redis) now: Box<dyn Fn() -> Option<u64> + Send + Sync>,
    server_clock: Arc<ServerClock>,
}

impl Encoder {
    pub(in crate::store::redis) fn new(
        key_format: KeyFormat,
        now: Box<dyn Fn() -> Option<u64> + Send + Sync>,
    ) -> Self {
        Self { key_format, now, server_clock: Arc::new(ServerClock::new()) }
    }

    /// Learns that the server's clock shows this second.
    pub(in crate::store::redis) fn note_server_seconds(&self, seconds: i64) {
        self.server_clock.set_seconds(seconds);
    }

    /// Encodes one call of `check.lua` for these requests.
    pub(in crate::store::redis) fn encode(&self, requests: Vec<Request>) -> (ScriptCall, Batch) {
        let mut policies: SmallVec<[PolicyArg; 4]> = SmallVec::new();
        let mut keys: Vec<StateKey> = Vec::with_capacity(requests.len());
        let mut entries: Vec<KeyEntry> = Vec::with_capacity(requests.len());
        let mut indices: HashTable<u16> = HashTable::with_capacity(requests.len());
        let mut body = Vec::with_capacity(32 * requests.len());
        let encoded = requests.into_iter().map(|Request { operation, limits }| {
            body.extend_from_slice(&header(operation, limits.len()).to_le_bytes());
            // A wait whose cost fits is a check.
            let is_alone =
                limits.len() == 1 && matches!(operation, Operation::Check | Operation::Wait { .. });
            // A shadow limit alone is decided like an enforced one; the process takes its denial for what it is.
            let marks_shadows = limits.len() > 1 || operation == Operation::UpTo;
            let limits = limits.into_iter().map(|LimitArg { key, policy, cost, shadow, largest, own }| {
                // What is told is written on denial as well, so requests are judged one by one.
                let is_plain = is_alone && own.is_none();
                let mut number_of = |policy| number(&mut policies, policy);
                let (policy, largest) = (number_of(policy), largest.map(number_of));
                let (hash, next) = (key.hash(), short(keys.len()));
                let known =
                    indices.entry(hash, |&i| keys[usize::from(i)] == key, |&i| keys[usize::from(i)].hash());
                let index = *known.or_insert(next).get();
                if index == next {
                    keys.push(key);
                    entries.push(KeyEntry { policy, total: cost, is_plain, own });
                } else {
                    let entry = &mut entries[usize::from(index)];
                    entry.is_plain &= is_plain && entry.policy == policy;
                    entry.total += cost;
                }
                push(&mut body, u64::from(index) + 1);
                let number = f64::from(policy) + 1.0;
                body.extend_from_slice(&if marks_shadows && shadow { -number } else { number }.to_le_bytes());
                push(
                    &mut body,
                    if let Operation::Wait { at_most_us } = operation { at_most_us } else { cost },
                );
                if let Some(largest) = largest {
                    push(&mut body, u64::from(index) + 1);
                    push(&mut body, u64::from(largest) + 1);
                    push(&mut body, cost);
                }
                (index, cost)
            });
            RequestEntry { operation, limits: limits.collect() }
        });
        let requests = encoded.collect();
        let mut head = Vec::with_capacity(16 + 32 * policies.len() + 16 * entries.len());
        let now = (self.now)();
        push_now(&mut head, now);
        push(&mut head, policies.len() as u64);
        let has_calendar = policies.iter().any(|policy| policy.calendar.is_some());
        let at = if has_calendar { self.server_clock.guess(now) } else { 0 };
        for policy in &policies {
            policy.push(&mut head, at);
        }
        for KeyEntry { policy, total, is_plain, .. } in &entries {
            push(&mut head, u64::from(*policy) + 1);
            if *is_plain {
                push(&mut head, *total);
            } else {
                head.extend_from_slice(&(-1.0f64).to_le_bytes());
            }
        }
        let script = script::check(policies.iter().map(|policy| policy.algorithm));
        let keys: Keys = keys.iter().map(|key| self.key_format.redis_key(key)).collect();
        let mut arguments: SmallVec<_> = smallvec![head, body];
        let tells = entries.iter().any(|entry| entry.own.is_some());
        if tells || policies.iter().any(|policy| policy.block_us > 0) {
            let mut blocks = Vec::with_capacity(8 * policies.len());
            policies.iter().for_each(|policy| push(&mut blocks, policy.block_us));
            arguments.push(blocks);
        }
        if tells {
            arguments.push(own_entries(&entries));
        }
        if has_calendar {
            // Empty arguments are absent ones.
            arguments.resize_with(EDGES, Vec::new);
            arguments.push(edges_of(&policies, at));
        }
        let server_clock = has_calendar.then(|| Arc::clone(&self.server_clock));
        (ScriptCall { script, keys, arguments }, Batch { requests, policies, keys: entries, server_clock })
    }
}

/// What the process tells of itself: its number, and both numbers of each key.
fn own_entries(keys: &[KeyEntry]) -> Vec<u8> {
    let process = keys.iter().find_map(|key| key.own.as_ref()).map_or(0, |own| own.process);
    let mut bytes = Vec::with_capacity(8 + 16 * keys.len());
    push(&mut bytes, process);
    for key in keys {
        let own = key.own.as_deref().copied().unwrap_or_default().kept();
        push(&mut bytes, own.granted);
        push(&mut bytes, own.freed);
    }
    bytes
}

/// The index of a policy of the call, which is added if it is new.
fn number(policies: &mut SmallVec<[PolicyArg; 4]>, policy: PolicyArg) -> u16 {
    let known = policies.iter().rposition(|other| *other == policy);
    short(known.unwrap_or_else(|| {
        policies.push(policy);
        policies.len() - 1
    }))
}

/// An index into a table of one call, which is short.
fn short(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}

/// Encodes ARGV of `refund.lua`.
pub(in crate::store::redis) struct RefundArgs(Vec<u8>);

impl RefundArgs {
    pub(in crate::store::redis) fn new(now: Option<u64>) -> Self {
        let mut bytes = Vec::new();
        push_now(&mut bytes, now);
        Self(bytes)
    }

    pub(in crate::store::redis) fn push(&mut self, charge: &Charge<'_>) {
        let (policy, units) = (PolicyArg::new(charge.check().policy()), charge.check().cost());
        let units = exact(units.min(MAX_UNITS + 1));
        let units = if charge.is_turn() { -units } else { units };
        self.push_numbers(&policy, units, charge.at().as_micros(), charge.until().as_micros());
    }

    /// Units that were charged at `at` and count until `until`, in microseconds.
    pub(in crate::store::redis) fn push_units(
        &mut self,
        policy: &PolicyArg,
        units: u64,
        at: u64,
        until: u64,
    ) {
        self.push_numbers(policy, exact(units), at, until);
    }

    fn push_numbers(&mut self, policy: &PolicyArg, units: f64, at: u64, until: u64) {
        // The windows of the instant of the charge.
        policy.push(&mut self.0, at);
        for number in [units, exact(at), exact(until)] {
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    pub(in crate::store::redis) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}
