//! ARGV of the scripts: strings of little-endian doubles.

use hashbrown::HashTable;
use smallvec::{SmallVec, smallvec};

use super::batch::{Asked, Batch, Limit, Numbered, Request, Rule};
use crate::algorithm::Mode;
use crate::policy::MAX_UNITS;
use crate::reservation::Taken;
use crate::store::redis::command::{Call, Keys};
use crate::store::redis::key::{Key, Namer};
use crate::store::redis::script;

#[allow(
    clippy::cast_precision_loss,
    reason = "below 2^53: a policy's numbers by their bounds, instants until 2255"
)]
fn push(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&(number as f64).to_le_bytes());
}

/// The instant of a decision; -1 is the server's own clock.
fn push_now(bytes: &mut Vec<u8>, now: Option<u64>) {
    match now {
        Some(now) => push(bytes, now),
        None => bytes.extend_from_slice(&(-1.0f64).to_le_bytes()),
    }
}

impl Rule {
    fn push(&self, bytes: &mut Vec<u8>) {
        push(bytes, self.algorithm.spec().number.into());
        push(bytes, self.max);
        push(bytes, self.window_us);
        push(bytes, self.shape);
    }
}

/// Writes calls: knows the names of keys and the time.
pub(in crate::store::redis) struct Encoder {
    pub(in crate::store::redis) namer: Namer,
    /// Reads the instant that scripts take for now, in microseconds; `None` is the server's own clock.
    pub(in crate::store::redis) now: Box<dyn Fn() -> Option<u64> + Send + Sync>,
}

impl Encoder {
    /// The call about these requests, as `check.lua` takes it.
    pub(in crate::store::redis) fn encode(&self, requests: Vec<Request>) -> (Call, Batch) {
        let mut rules: SmallVec<[Rule; 4]> = SmallVec::new();
        let mut keys: Vec<Key> = Vec::with_capacity(requests.len());
        let mut asked: Vec<Asked> = Vec::with_capacity(requests.len());
        let mut numbers: HashTable<u16> = HashTable::with_capacity(requests.len());
        let mut body = Vec::with_capacity(32 * requests.len());
        let numbered = requests.into_iter().map(|Request { mode, limits }| {
            #[allow(clippy::cast_precision_loss, reason = "a group is small")]
            let size = limits.len() as f64;
            body.extend_from_slice(&if mode == Mode::Peek { -size } else { size }.to_le_bytes());
            let is_plain = limits.len() == 1 && mode == Mode::Check;
            let limits = limits.into_iter().map(|Limit { key, rule, cost }| {
                let known = rules.iter().rposition(|other| *other == rule);
                let rule = short(known.unwrap_or_else(|| {
                    rules.push(rule);
                    rules.len() - 1
                }));
                let (hash, next) = (key.hash(), short(keys.len()));
                let slot =
                    numbers.entry(hash, |&i| keys[usize::from(i)] == key, |&i| keys[usize::from(i)].hash());
                let number = *slot.or_insert(next).get();
                if number == next {
                    keys.push(key);
                    asked.push(Asked { rule, total: cost, is_plain });
                } else {
                    let asked = &mut asked[usize::from(number)];
                    asked.is_plain &= is_plain && asked.rule == rule;
                    asked.total += cost;
                }
                push(&mut body, u64::from(number) + 1);
                push(&mut body, u64::from(rule) + 1);
                push(&mut body, cost);
                (number, cost)
            });
            Numbered { mode, limits: limits.collect() }
        });
        let requests = numbered.collect();
        let mut head = Vec::with_capacity(16 + 32 * rules.len() + 16 * asked.len());
        push_now(&mut head, (self.now)());
        push(&mut head, rules.len() as u64);
        for rule in &rules {
            rule.push(&mut head);
        }
        for Asked { rule, total, is_plain } in &asked {
            push(&mut head, u64::from(*rule) + 1);
            if *is_plain {
                push(&mut head, *total);
            } else {
                head.extend_from_slice(&(-1.0f64).to_le_bytes());
            }
        }
        let script = script::check(rules.iter().map(|rule| rule.algorithm));
        let keys: Keys = keys.iter().map(|key| self.namer.name(key)).collect();
        let batch = Batch { requests, rules, asked };
        (Call { script, keys, arguments: smallvec![head, body] }, batch)
    }
}

/// A number of something of which there are few in a call.
fn short(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// ARGV of `refund.lua`.
pub(in crate::store::redis) struct RefundArguments(Vec<u8>);

impl RefundArguments {
    pub(in crate::store::redis) fn new(now: Option<u64>) -> Self {
        let mut bytes = Vec::new();
        push_now(&mut bytes, now);
        Self(bytes)
    }

    pub(in crate::store::redis) fn push(&mut self, taken: &Taken<'_>) {
        Rule::of(taken.check().policy()).push(&mut self.0);
        push(&mut self.0, taken.check().units().min(MAX_UNITS + 1));
        push(&mut self.0, taken.at().as_micros());
        push(&mut self.0, taken.until().as_micros());
    }

    pub(in crate::store::redis) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}
