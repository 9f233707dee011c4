//! What goes to the scripts and what comes back; the one place that knows both formats.
//!
//! Arguments are strings of little-endian doubles, because Lua unpacks one string of numbers faster than it converts many
//! arguments. All numbers are integers below 2^53. A script answers which requests pass, and with what it found; what a
//! client is told beyond that, whoever asked works out from it, with the same steps as in memory.

use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashTable;
use redis::Value;
use smallvec::{SmallVec, smallvec};

use super::key::{Key, Namer};
use super::script;
use super::supervisor::{Call, Keys};
use crate::algorithm::{Algorithm, Member, Mode, State, decide, decide_one, encoded};
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::policy::{MAX_UNITS, Policy};
use crate::store::{Check, Taken};

/// Largest integer up to which a double holds all.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

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

/// What a script needs to know of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) algorithm: Algorithm,
    max: u64,
    window_us: u64,
    /// Sub-windows, or burst.
    shape: u64,
}

impl Rule {
    pub(super) fn of(policy: &Policy) -> Self {
        let algorithm = policy.algorithm();
        let shape =
            if algorithm == Algorithm::TokenBucket { policy.capacity() } else { policy.sub_windows() };
        Self { algorithm, max: policy.max(), window_us: policy.window_us(), shape }
    }

    /// How long the server may take to decide about one limit under this rule, as a multiple of the time for a limit with a
    /// single short value. A log takes up to 60 us: its script searches twice in a tree, for what has expired and
    /// for how long to wait.
    pub(super) const fn weight(&self) -> usize {
        match self.algorithm {
            Algorithm::SlidingWindowLog => 8,
            Algorithm::FixedWindow | Algorithm::SlidingWindowCounter | Algorithm::TokenBucket => 1,
        }
    }

    /// Size of the state under this rule that `bytes` begin with.
    fn state_size(&self, bytes: &[u8]) -> Option<usize> {
        encoded::size(self.algorithm, self.shape, bytes)
    }

    fn push(&self, bytes: &mut Vec<u8>) {
        push(bytes, script::number(self.algorithm).into());
        push(bytes, self.max);
        push(bytes, self.window_us);
        push(bytes, self.shape);
    }
}

/// One limit of a request.
#[derive(Debug)]
pub(super) struct Limit {
    /// Under which its count is kept.
    pub(super) key: Key,
    pub(super) rule: Rule,
    cost: u64,
}

impl Limit {
    pub(super) fn new(key: Key, check: &Check<'_>) -> Self {
        // Whatever is more than the largest limit is decided the same.
        Self { key, rule: Rule::of(check.policy()), cost: check.units().min(MAX_UNITS + 1) }
    }
}

/// A group of limits to be judged together.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) mode: Mode,
    pub(super) limits: SmallVec<[Limit; 1]>,
}

/// Requests of one call, to be found again in its reply.
pub(super) struct Batch {
    requests: Vec<Numbered>,
    rules: SmallVec<[Rule; 4]>,
    /// One for each key.
    asked: Vec<Asked>,
}

/// A request, with its limits by the number of their key.
struct Numbered {
    mode: Mode,
    limits: SmallVec<[(u16, u64); 1]>,
}

/// What is asked about one key.
struct Asked {
    rule: u16,
    total: u64,
    /// Nothing but checks of this limit alone.
    is_plain: bool,
}

/// Writes calls: knows the names of keys and the time.
pub(super) struct Encoder {
    pub(super) namer: Namer,
    /// Reads the instant that scripts take for now, in microseconds; `None` is the server's own clock.
    pub(super) now: Box<dyn Fn() -> Option<u64> + Send + Sync>,
}

impl Encoder {
    /// The call about these requests, as `check.lua` takes it.
    pub(super) fn encode(&self, requests: Vec<Request>) -> (Call, Batch) {
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

impl Batch {
    /// The reply of `check.lua`, for each request in their order; `None` when it has another shape.
    pub(super) fn decode(&self, reply: Value) -> Option<Vec<Reply>> {
        let Value::BulkString(bytes) = reply else { return None };
        let (at, mut rest) = bytes.split_first_chunk()?;
        let at = Timestamp::from_micros(whole(f64::from_le_bytes(*at))?);
        let mut places = Vec::with_capacity(self.asked.len());
        for asked in &self.asked {
            let size = match rest.first()? {
                b'.' | b'!' => 1,
                _ => self.rules[usize::from(asked.rule)].state_size(rest)?,
            };
            let start = bytes.len() - rest.len();
            rest = rest.get(size..)?;
            places.push(start..start + size);
        }
        let verdicts = rest;
        if !verdicts.is_empty() && verdicts.len() != self.requests.len() {
            return None;
        }
        let verdicts = verdicts.to_vec();
        let found = Arc::new(Found { at, bytes, places });
        let mut charged = vec![0; self.asked.len()];
        let replies = self.requests.iter().enumerate().map(|(i, request)| {
            let verdict = match verdicts.get(i) {
                None | Some(b'1') => Verdict::Allowed,
                Some(b'0') => Verdict::Denied,
                Some(b'-') => Verdict::Foreign,
                Some(_) => return None,
            };
            let limits = request.limits.iter().map(|&(key, _)| (key, charged[usize::from(key)])).collect();
            if verdict == Verdict::Allowed && request.mode == Mode::Check {
                for &(key, cost) in &request.limits {
                    charged[usize::from(key)] += cost;
                }
            }
            Some(Reply { found: Arc::clone(&found), verdict, mode: request.mode, limits })
        });
        replies.collect()
    }
}

/// The number, if it is an integer that a double holds exactly.
fn whole(number: f64) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and in range")]
    (number.fract() == 0.0 && (0.0..MAX_EXACT).contains(&number)).then_some(number as u64)
}

/// A number of something of which there are few in a call.
fn short(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// ARGV of `refund.lua`.
pub(super) struct RefundArguments(Vec<u8>);

impl RefundArguments {
    pub(super) fn new(now: Option<u64>) -> Self {
        let mut bytes = Vec::new();
        push_now(&mut bytes, now);
        Self(bytes)
    }

    pub(super) fn push(&mut self, taken: &Taken<'_>) {
        Rule::of(taken.check().policy()).push(&mut self.0);
        push(&mut self.0, taken.check().units().min(MAX_UNITS + 1));
        push(&mut self.0, taken.at().as_micros());
        push(&mut self.0, taken.until().as_micros());
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// What was found at the keys of a call, shared by all whose requests were in it.
#[derive(Debug)]
struct Found {
    at: Timestamp,
    /// The reply.
    bytes: Vec<u8>,
    /// Where in it the state of each key is.
    places: Vec<Range<usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Allowed,
    Denied,
    /// A value is not ours, so nothing was decided.
    Foreign,
}

/// What `check.lua` says about one request.
#[derive(Debug)]
pub(super) struct Reply {
    found: Arc<Found>,
    verdict: Verdict,
    mode: Mode,
    /// Of each limit the number of its key, and the units that requests before this one took there.
    limits: SmallVec<[(u16, u64); 1]>,
}

/// What a reply looks like.
pub(super) const EXPECTED: &str = "the instant, what was found at each key, and verdicts that follow from it";

impl Reply {
    /// The outcome for the group that was asked about.
    pub(super) fn into_outcome(self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        const PROTOCOL: StoreError = StoreError::Protocol { expected: EXPECTED };
        let at = self.found.at;
        let outcome = if let ([check], [limit]) = (group, &self.limits[..]) {
            let mut state = self.state(check, *limit)?;
            GroupOutcome::of_one(decide_one(check.policy(), check.units(), &mut state, at, self.mode))
        } else {
            let mut states: SmallVec<[State; 2]> = SmallVec::new();
            let mut members: SmallVec<[Member<'_>; 2]> = SmallVec::new();
            for (place, (check, limit)) in group.iter().zip(&self.limits).enumerate() {
                let known = self.limits[..place].iter().position(|other| other.0 == limit.0);
                let state = if let Some(same) = known {
                    members[same].state
                } else {
                    states.push(self.state(check, *limit)?);
                    states.len() - 1
                };
                members.push(Member { policy: check.policy(), cost: check.units(), state });
            }
            decide(&members, &mut states, at, self.mode)
        };
        match self.verdict {
            Verdict::Allowed if outcome.is_allowed() => Ok(outcome),
            Verdict::Denied if !outcome.is_allowed() => Ok(outcome),
            _ => Err(PROTOCOL),
        }
    }

    /// The state about which this request was judged.
    fn state(&self, check: &Check<'_>, (key, charged): (u16, u64)) -> Result<State, StoreError> {
        let policy = check.policy();
        let bytes = &self.found.bytes[self.found.places[usize::from(key)].clone()];
        let state = State::found(policy, bytes, self.found.at, charged);
        state.ok_or_else(|| StoreError::ForeignState { policy: policy.key().to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::redis::key::Namer;

    const MINUTE: Duration = Duration::from_secs(60);

    fn encoder(now: u64) -> Encoder {
        Encoder { namer: Namer::new("rl", "").unwrap(), now: Box::new(move || Some(now)) }
    }

    fn request(limits: &[(&Policy, &str, u64)], mode: Mode) -> Request {
        let namer = encoder(0).namer;
        let limits = limits.iter().map(|&(policy, caller, cost)| {
            let check = Check::new(policy, caller).cost(cost);
            Limit::new(namer.key(&check), &check)
        });
        Request { mode, limits: limits.collect() }
    }

    fn doubles(bytes: &[u8]) -> Vec<f64> {
        bytes.chunks(8).map(|chunk| f64::from_le_bytes(chunk.try_into().unwrap())).collect()
    }

    /// Two windows as Redis holds them.
    fn windows(start: u64, current: u64, oldest: u64) -> Vec<u8> {
        let (current, oldest) = (current.to_le_bytes(), oldest.to_le_bytes());
        [b"c", &start.to_le_bytes()[..7], &current[..5], &oldest[..5]].concat()
    }

    fn reply(found: &[&[u8]], at: f64, verdicts: &str) -> Value {
        Value::BulkString([&at.to_le_bytes()[..], &found.concat(), verdicts.as_bytes()].concat())
    }

    /// Decodes a reply to one request about one limit of 10 in a minute.
    fn decode(reply: Value) -> Result<GroupOutcome, StoreError> {
        let policy = Policy::new("user-api", 10, MINUTE);
        let (_, batch) = encoder(0).encode(vec![request(&[(&policy, "a", 1)], Mode::Check)]);
        let decoded = batch.decode(reply).and_then(|replies| replies.into_iter().next());
        decoded.ok_or(StoreError::Protocol { expected: EXPECTED })?.into_outcome(&[Check::new(&policy, "a")])
    }

    #[test]
    fn keys_and_policies_that_occur_again_are_sent_once() {
        let (minute, second) = (Policy::new("m", 10, MINUTE), Policy::new("s", 5, Duration::from_secs(1)));
        for rounds in [1u16, 2, 40] {
            let requests = (0..rounds).flat_map(|_| {
                [
                    request(&[(&minute, "a", 1), (&second, "b", 3)], Mode::Check),
                    request(&[(&minute, "c", u64::MAX)], Mode::Check),
                    request(&[(&minute, "d", 1)], Mode::Peek),
                    request(&[(&minute, "e", 2)], Mode::Check),
                ]
            });
            let (call, _) = encoder(7).encode(requests.collect());
            assert_eq!(call.keys.len(), 5);
            assert!(
                call.keys
                    .iter()
                    .zip(["m", "s", "m", "m", "m"])
                    .all(|(key, policy)| { key.starts_with(&format!("rl1:{policy}:")) })
            );
            // What groups and peeks ask about is judged request by request.
            let all = 1_000_000_000_001.0 * f64::from(rounds);
            let head = [
                [7.0, 2.0].as_slice(),
                &[2.0, 10.0, 6e7, 1.0],
                &[2.0, 5.0, 1e6, 1.0],
                &[1.0, -1.0, 2.0, -1.0, 1.0, all, 1.0, -1.0, 1.0, 2.0 * f64::from(rounds)],
            ];
            assert_eq!(doubles(&call.arguments[0]), head.concat());
            let round = [
                [2.0, 1.0, 1.0, 1.0, 2.0, 2.0, 3.0].as_slice(),
                &[1.0, 3.0, 1.0, 1_000_000_000_001.0],
                &[-1.0, 4.0, 1.0, 1.0],
                &[1.0, 5.0, 1.0, 2.0],
            ];
            assert_eq!(doubles(&call.arguments[1]), round.concat().repeat(rounds.into()));
        }
    }

    #[test]
    fn the_servers_clock_is_another_word_than_any_instant() {
        let policy = Policy::new("k", 10, MINUTE);
        let encoder = |now| Encoder { now: Box::new(move || now), ..encoder(0) };
        for (now, sent) in [(None, -1.0), (Some(0), 0.0), (Some(7), 7.0)] {
            let (call, _) = encoder(now).encode(vec![request(&[(&policy, "a", 1)], Mode::Check)]);
            let refund = RefundArguments::new(now).into_bytes();
            for bytes in [&call.arguments[0], &refund] {
                assert_eq!(doubles(bytes)[..1], [sent], "{now:?}");
            }
        }
    }

    #[test]
    fn a_log_weighs_more_than_what_is_one_short_value() {
        let weight = |algorithm| Rule::of(&Policy::builder("k").algorithm(algorithm).build()).weight();
        for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindowCounter, Algorithm::TokenBucket] {
            assert_eq!(weight(algorithm), 1, "{algorithm}");
        }
        assert_eq!(weight(Algorithm::SlidingWindowLog), 8);
    }

    #[test]
    fn a_count_under_two_limits_is_judged_request_by_request() {
        let (ten, twenty) = (Policy::new("k", 10, MINUTE), Policy::new("k", 20, MINUTE));
        let requests = [&ten, &twenty].map(|policy| request(&[(policy, "a", 1)], Mode::Check));
        let (call, _) = encoder(7).encode(requests.into());
        assert_eq!(call.keys.len(), 1);
        assert!(doubles(&call.arguments[0]).ends_with(&[1.0, -1.0]));
    }

    #[test]
    fn each_request_is_told_what_those_before_it_left() {
        let policy = Policy::new("k", 10, MINUTE);
        let ask = |who, cost, mode| request(&[(&policy, who, cost)], mode);
        let requests = vec![
            ask("a", 3, Mode::Check),
            ask("b", 1, Mode::Check),
            ask("a", 1, Mode::Peek),
            ask("a", 9, Mode::Check),
            request(&[(&policy, "b", 1), (&policy, "a", 2), (&policy, "a", 2)], Mode::Check),
            ask("a", 1, Mode::Check),
        ];
        let (_, batch) = encoder(0).encode(requests);
        let replies =
            batch.decode(reply(&[&windows(60_000_000, 1, 0), b"."], 90_000_000.0, "111011")).unwrap();
        let told = |reply: Reply, group: &[(&str, u64)]| {
            let group: Vec<_> =
                group.iter().map(|(who, cost)| Check::new(&policy, *who).cost(*cost)).collect();
            let outcome = reply.into_outcome(&group).unwrap();
            assert_eq!(outcome.at(), Timestamp::from_micros(90_000_000));
            outcome.outcomes().iter().map(|told| (told.is_allowed(), told.remaining())).collect::<Vec<_>>()
        };
        let mut replies = replies.into_iter();
        let mut next = |group: &[(&str, u64)]| told(replies.next().unwrap(), group);
        assert_eq!(next(&[("a", 3)]), [(true, 6)]);
        assert_eq!(next(&[("b", 1)]), [(true, 9)]);
        assert_eq!(next(&[("a", 1)]), [(true, 6)]);
        assert_eq!(next(&[("a", 9)]), [(false, 6)]);
        assert_eq!(next(&[("b", 1), ("a", 2), ("a", 2)]), [(true, 8), (true, 2), (true, 2)]);
        assert_eq!(next(&[("a", 1)]), [(true, 1)]);
    }

    #[test]
    fn a_reply_of_any_other_shape_is_a_protocol_error() {
        let full = windows(60_000_000, 10, 0);
        assert!(decode(reply(&[b"."], 1.0, "")).unwrap().is_allowed());
        assert!(decode(reply(&[b"."], 1.0, "1")).unwrap().is_allowed());
        assert!(!decode(reply(&[&full], 60_000_000.0, "0")).unwrap().is_allowed());
        let bad = [
            Value::Nil,
            Value::Int(1),
            Value::Array(vec![]),
            Value::BulkString(vec![]),
            reply(&[], 1.0, ""),
            reply(&[&full[..17]], 1.0, ""),
            reply(&[b"."], -1.0, ""),
            reply(&[b"."], 1.5, ""),
            reply(&[b"."], f64::NAN, ""),
            reply(&[b"."], 1e300, ""),
            reply(&[b"."], 1.0, "11"),
            reply(&[b"."], 1.0, "x"),
            // Verdicts that do not follow from what was found.
            reply(&[b"."], 1.0, "0"),
            reply(&[b"."], 1.0, "-"),
            reply(&[&full], 60_000_000.0, ""),
        ];
        for value in bad {
            let error = decode(value.clone()).unwrap_err();
            assert!(matches!(error, StoreError::Protocol { .. }), "{value:?}: {error}");
        }
    }

    #[test]
    fn verdicts_that_cannot_be_true_end_in_an_error_and_not_in_a_panic() {
        let year = Duration::from_secs(366 * 86_400);
        for algorithm in [
            Algorithm::FixedWindow,
            Algorithm::SlidingWindowCounter,
            Algorithm::SlidingWindowLog,
            Algorithm::TokenBucket,
        ] {
            let policy = Policy::builder("k").algorithm(algorithm).max(1).window(year).build();
            let ask = |cost| request(&[(&policy, "a", cost)], Mode::Check);
            let (_, batch) = encoder(0).encode(vec![ask(u64::MAX), ask(u64::MAX), ask(1)]);
            let last = batch.decode(reply(&[b"."], 1.79e15, "111")).unwrap().pop().unwrap();
            let error = last.into_outcome(&[Check::new(&policy, "a")]).unwrap_err();
            assert!(matches!(error, StoreError::Protocol { .. }), "{algorithm}: {error}");
        }
    }

    #[test]
    fn a_foreign_value_is_told_by_its_policy() {
        let other = [b"f", &windows(1, 1, 1)[1..]].concat();
        for found in [&other[..], b"!"] {
            for verdict in ["", "-"] {
                let error = decode(reply(&[found], 1.0, verdict)).unwrap_err();
                assert!(matches!(error, StoreError::ForeignState { policy } if policy == "user-api"));
            }
        }
    }
}
