//! Calls of one process, with the bytes that a server answers, and leases of fixed windows after them.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use redis::Value;
use smallvec::smallvec;

use crate::algorithm::Operation;
use crate::check::Check;
use crate::clock::{FakeClock, Timestamp};
use crate::outcome::{Decision, GroupOutcome, Outcome};
use crate::policy::{Algorithm, Policy, PolicyBuilder};
use crate::store::redis::denial_cache::DenialCache;
use crate::store::redis::key::KeyFormat;
use crate::store::redis::lease::shard::LeaseShard;
use crate::store::redis::lease::{CallLeases, LeaseTarget, Leases};
use crate::store::redis::protocol::{Encoder, LimitArg, Request};

const MINUTE: Duration = Duration::from_secs(60);
const INTERVAL: u64 = 100_000;

/// The first instant of a minute.
const START: u64 = 1_789_999_980_000_000;

const fn limit(key: &'static str) -> PolicyBuilder {
    Policy::builder(key).algorithm(Algorithm::FixedWindow).max(10_000).window(MINUTE)
}

const fn leased(key: &'static str) -> PolicyBuilder {
    limit(key).lease(Duration::from_micros(INTERVAL))
}

/// The state of a window in which these units are charged.
fn charged(units: u64) -> Vec<u8> {
    [b"f", &START.to_le_bytes()[..7], &units.to_le_bytes()[..5]].concat()
}

/// A block that ends after a minute.
fn blocked() -> Vec<u8> {
    [b"b", &(START + 60_000_000).to_le_bytes()[..7]].concat()
}

/// A process. Its clock and the server's clock stand still.
struct Process {
    leases: Arc<Leases>,
    encoder: Encoder,
}

impl Process {
    fn new() -> Self {
        let clock = Arc::new(FakeClock::at(Timestamp::from_micros(START)));
        let denials = Arc::new(DenialCache::new(Arc::clone(&clock) as _, Duration::ZERO));
        Self {
            leases: Arc::new(Leases::new(clock, false, denials)),
            encoder: Encoder::new(KeyFormat::new("rl", "").unwrap(), Box::new(|| Some(START))),
        }
    }

    fn targets(&self, check: &Check<'_>, operation: Operation) -> Box<[LeaseTarget]> {
        self.leases.targets(std::slice::from_ref(check), operation)
    }

    fn call(&self) -> Call<'_> {
        Call {
            process: self,
            leases: CallLeases::new(&self.leases, Some(0)),
            requests: Vec::new(),
            fetched: Vec::new(),
        }
    }

    /// Makes the caller hot, and fetches a lease of 50 units after `before` units were charged.
    fn lease_to(&self, check: &Check<'_>, before: u64) {
        for _ in 0..100 {
            self.request(std::slice::from_ref(check));
        }
        assert_eq!(self.call().add(check, Operation::Check).answer(&[charged(before - 2)], ""), 0);
        assert_eq!(self.call().add(check, Operation::Check).answer(&[charged(before - 1)], ""), 1);
        assert_eq!(self.unused(check), 50);
    }

    /// Notes a request that the server decides. Returns whether units are given back before.
    fn request(&self, group: &[Check<'_>]) -> bool {
        self.make_way(group, Operation::Check) > 0
    }

    /// Calls that give units back before a request.
    fn make_way(&self, group: &[Check<'_>], operation: Operation) -> usize {
        self.leases.make_way(group, operation, &self.encoder).len()
    }

    fn unused(&self, check: &Check<'_>) -> u64 {
        self.leases.unused(check)
    }

    /// Uses one unit. Returns how many the outcome says remain.
    fn take(&self, check: &Check<'_>) -> Option<u64> {
        let taken = self.leases.take(std::slice::from_ref(check), Operation::Check);
        taken.map(|(outcome, _)| outcome.outcomes()[0].remaining())
    }

    /// Calls that give units back.
    fn give_backs(&self) -> usize {
        self.leases.take_give_backs(&self.encoder).len()
    }
}

static HOT: Policy = leased("hot").build();

/// A process with a lease of 50 units of a hot caller.
fn with_lease() -> (Process, Check<'static>) {
    let (process, hot) = (Process::new(), Check::new(&HOT, "a"));
    process.lease_to(&hot, 1_000);
    (process, hot)
}

/// A call before it is sent.
struct Call<'p> {
    process: &'p Process,
    leases: CallLeases,
    requests: Vec<Request>,
    fetched: Vec<LimitArg>,
}

impl Call<'_> {
    fn limit(&self, check: &Check<'_>) -> LimitArg {
        LimitArg::new(self.process.encoder.key_format.key(check), check)
    }

    fn add(mut self, check: &Check<'_>, operation: Operation) -> Self {
        let targets = self.process.targets(check, operation);
        let limit = match operation {
            Operation::Overdraw => LimitArg::overdrawn(self.process.encoder.key_format.key(check), check),
            _ => self.limit(check),
        };
        self.leases.add(targets, std::slice::from_ref(&limit), Some(self.requests.len()), &mut self.fetched);
        self.requests.push(Request { operation, limits: smallvec![limit] });
        self
    }

    /// Adds a lease that is fetched in the background.
    fn prefetch(mut self, check: &Check<'_>) -> Self {
        let targets = self.process.targets(check, Operation::Check);
        let limit = self.limit(check);
        self.leases.add(targets, &[limit], None, &mut self.fetched);
        self
    }

    /// The call is sent over another connection.
    fn reroute(mut self) -> Self {
        self.leases.reroute();
        self
    }

    /// Takes an answer: the state found at each key, and the verdicts. Returns the number of leases that were
    /// requested.
    fn answer(mut self, found: &[Vec<u8>], verdicts: &str) -> usize {
        let (first, leases) = (self.requests.len(), self.fetched.len());
        let fetched = self.fetched.into_iter();
        self.requests
            .extend(fetched.map(|limit| Request { operation: Operation::Check, limits: smallvec![limit] }));
        let (_, batch) = self.process.encoder.encode(&self.requests);
        #[allow(clippy::cast_precision_loss, reason = "below 2^53")]
        let at = (START as f64).to_le_bytes();
        let reply = [&at[..], &found.concat(), verdicts.as_bytes()].concat();
        self.leases.finish(&batch.decode(Value::BulkString(reply)).expect("a reply"), first);
        leases
    }
}

#[test]
fn a_background_fetch_without_a_request_does_not_learn_from_another_count() {
    let process = Process::new();
    let (hot, other) = (leased("hot").build(), limit("other").build());
    let (hot, other) = (Check::new(&hot, "a"), Check::new(&other, "b"));
    process.lease_to(&hot, 1_000);
    // More than half of the lease is unused, so no lease is requested.
    let call = process.call().prefetch(&hot).add(&other, Operation::Check);
    assert_eq!(call.answer(&[charged(9_000)], ""), 0);
    assert_eq!(process.take(&hot), Some(10_000 - 1_000 - 1));
}

#[test]
fn a_check_after_a_peek_of_the_same_count_requests_a_lease() {
    let process = Process::new();
    let (one, two) = (leased("one").build(), leased("two").build());
    let (one, two) = (Check::new(&one, "a"), Check::new(&two, "a"));
    for check in [&one, &two] {
        process.lease_to(check, 1_000);
        while process.take(check).is_some() {}
    }
    // The leases are requested in another order than the first requests. The lease of `two` does not fit.
    let call =
        process.call().add(&one, Operation::Peek).add(&two, Operation::Check).add(&one, Operation::Check);
    assert_eq!(call.answer(&[charged(1_000), charged(9_970)], "11101"), 2);
    assert!(process.unused(&one) > 0 && process.unused(&two) == 0);
}

#[test]
fn an_answer_about_a_blocked_caller_ends_its_leases_after_any_operation() {
    let block = Duration::from_secs(600);
    for operation in [Operation::Check, Operation::Peek, Operation::Judge, Operation::UpTo] {
        for policy in [
            leased("hot").block(block).build(),
            limit("hot").block(block).build(),
            limit("hot").max(5).build(),
        ] {
            for is_rerouted in [false, true] {
                let (process, hot) = with_lease();
                let call = process.call().add(&Check::new(&policy, "a"), operation);
                let call = if is_rerouted { call.reroute() } else { call };
                call.answer(&[blocked()], "0");
                assert_eq!(process.unused(&hot), 0, "{operation:?} {policy:?} {is_rerouted}");
            }
        }
    }
}

#[test]
fn the_answer_to_a_settlement_ends_the_leases_of_the_count_whichever_limit_is_settled() {
    for policy in [leased("hot").build(), limit("hot").build()] {
        for is_rerouted in [false, true] {
            let (process, hot) = with_lease();
            let check = Check::new(&policy, "a").with_cost(20_000);
            let call = process.call().add(&hot, Operation::Peek).add(&check, Operation::Overdraw);
            let call = if is_rerouted { call.reroute() } else { call };
            call.answer(&[charged(1_050)], "");
            assert_eq!((process.unused(&hot), process.give_backs()), (0, 1), "{policy:?}");
        }
    }
}

/// Calls over a redirect of a cluster overtake each other, and so do their answers.
#[test]
fn a_lease_whose_answer_comes_after_an_answer_with_a_debt_is_given_back() {
    let (process, hot) = with_lease();
    while process.take(&hot).is_some() {}
    let fetch = process.call().prefetch(&hot);
    let settled = hot.with_cost(20_000);
    process.call().add(&settled, Operation::Overdraw).answer(&[charged(21_100)], "");
    assert_eq!(fetch.answer(&[charged(1_050)], "1"), 1);
    assert_eq!((process.unused(&hot), process.give_backs()), (0, 1));
}

#[test]
fn a_settlement_of_any_limit_gives_back_the_unused_units_of_its_count_before() {
    for policy in [leased("hot").build(), limit("hot").build()] {
        let (process, hot) = with_lease();
        let rest = Check::new(&policy, "a").with_cost(120);
        assert_eq!(process.make_way(&[rest], Operation::Overdraw), 1);
        assert_eq!((process.unused(&hot), process.give_backs()), (0, 0), "{policy:?}");
    }
}

#[test]
fn a_process_without_leases_looks_nothing_up() {
    let process = Process::new();
    let (hot, plain) = (leased("hot").build(), limit("hot").build());
    let (hot, plain) = (Check::new(&hot, "a"), Check::new(&plain, "a"));
    let operations =
        [Operation::Check, Operation::Peek, Operation::Judge, Operation::UpTo, Operation::Overdraw];
    let found =
        |process: &Process| operations.map(|operation| !process.targets(&plain, operation).is_empty());
    assert!(!process.leases.has_counts());
    assert_eq!(found(&process), [false; 5]);
    process.lease_to(&hot, 1_000);
    assert!(process.leases.has_counts());
    assert_eq!(found(&process), [true; 5]);
    process.leases.close();
    assert!(!process.leases.has_counts());
    assert_eq!(found(&process), [false; 5]);
}

#[test]
fn a_lease_that_was_granted_over_another_connection_is_given_back() {
    let (process, hot) = with_lease();
    while process.take(&hot).is_some() {}
    assert_eq!(process.call().add(&hot, Operation::Check).reroute().answer(&[charged(1_050)], ""), 1);
    assert_eq!((process.unused(&hot), process.give_backs()), (0, 1));
}

#[test]
fn an_answer_over_another_connection_does_not_show_what_is_left() {
    let (process, hot) = with_lease();
    assert_eq!(process.call().add(&hot, Operation::Check).reroute().answer(&[charged(9_000)], ""), 0);
    assert_eq!(process.take(&hot), Some(10_000 - 1_000 - 1));
}

#[test]
fn an_answer_over_an_unknown_connection_leaves_unused_units() {
    let process = Process::new();
    process.leases.nodes.renew_all();
    let hot = leased("hot").build();
    let hot = Check::new(&hot, "a");
    process.lease_to(&hot, 1_000);
    let call = Call { leases: CallLeases::new(&process.leases, None), ..process.call() };
    assert_eq!(call.add(&hot, Operation::Check).answer(&[charged(1_100)], ""), 0);
    assert_eq!(process.unused(&hot), 50);
}

#[test]
fn units_of_a_replaced_connection_are_not_given_back() {
    for is_replaced in [false, true] {
        let process = Process::new();
        let hot = leased("hot").build();
        process.lease_to(&Check::new(&hot, "a"), 1_000);
        process.leases.close();
        if is_replaced {
            process.leases.nodes.renew_all();
        }
        assert_eq!(process.give_backs(), usize::from(!is_replaced));
    }
}

#[test]
fn units_that_wait_to_be_given_back_are_forgotten_when_a_reset_begins() {
    for policy in [leased("hot").build(), limit("hot").build()] {
        let process = Process::new();
        let hot = leased("hot").build();
        process.lease_to(&Check::new(&hot, "a"), 1_000);
        process.leases.close();
        let reset = process.leases.reset_on_drop(&[Check::new(&policy, "a")]);
        assert_eq!(process.give_backs(), 0, "a give-back that is sent now may arrive after the reset");
        drop(reset);
    }
}

#[test]
fn a_reset_by_any_limit_ends_the_leases_of_its_count() {
    for policy in [leased("hot").build(), limit("hot").build()] {
        let (process, hot) = with_lease();
        let reset = process.leases.reset_on_drop(&[Check::new(&policy, "a")]);
        assert_eq!(process.unused(&hot), 0);
        drop(reset);
        assert_eq!((process.unused(&hot), process.give_backs()), (0, 0));
    }
}

#[test]
fn a_group_is_admitted_by_unused_units_if_all_its_limits_have_enough() {
    let process = Process::new();
    let policies = [leased("one").build(), leased("two").build(), limit("three").build()];
    let [one, two, three] = policies.each_ref().map(|policy| Check::new(policy, "a"));
    for check in [&one, &two] {
        process.lease_to(check, 1_000);
    }
    let take = |group: &[Check<'_>]| process.leases.take(group, Operation::Check).is_some();
    assert!(!take(&[one.with_cost(2), two.with_cost(51)]), "too few units of one limit");
    assert!(!take(&[one, three]), "one limit has no lease");
    assert!(!take(&[one, one]), "a count that occurs twice");
    assert!(!take(&[one.with_cost(0)]), "a cost of 0 needs the state");
    assert_eq!(
        [&one, &two].map(|check| process.unused(check)),
        [50, 50],
        "no unit is used for a part of a group"
    );
    assert!(take(&[one.with_cost(2), two.with_cost(50)]) && !take(&[two, one]));
    assert_eq!([&one, &two].map(|check| process.unused(check)), [48, 0]);
    assert!(process.leases.take(&[one], Operation::Peek).is_some());
    assert_eq!(process.unused(&one), 48, "a peek uses nothing");
}

#[test]
fn only_units_in_the_way_of_a_request_are_given_back_before_it() {
    let process = Process::new();
    let policies = [leased("hot").build(), leased("cold").build(), limit("plain").build()];
    let [hot, cold, plain] = policies.each_ref().map(|policy| Check::new(policy, "a"));
    process.lease_to(&hot, 1_000);
    // Nearly 9,000 units are left.
    assert!(!process.request(&[hot.with_cost(60), cold]) && !process.request(&[hot, plain]));
    assert_eq!(process.unused(&hot), 50);
    process.call().add(&hot, Operation::Peek).answer(&[charged(9_960)], "1");
    assert!(!process.request(&[hot.with_cost(10_001)]), "more than the limit never passes");
    assert!(process.request(&[hot.with_cost(60), cold]));
    assert_eq!((process.unused(&hot), process.give_backs()), (0, 0));
}

#[test]
fn a_group_with_a_limit_without_a_lease_requests_no_leases() {
    let process = Process::new();
    let (hot, plain) = (leased("hot").build(), limit("plain").build());
    let group = [Check::new(&hot, "a"), Check::new(&plain, "a")];
    for _ in 0..100 {
        process.request(&group);
    }
    assert!(process.leases.targets(&group, Operation::Check).is_empty());
    process.lease_to(&group[0], 1_000);
    let targets = process.leases.targets(&group, Operation::Check);
    assert!(targets.len() == 1 && !targets[0].fetches(), "the answer may show a block");
}

/// The lease would fit, but is denied.
#[test]
fn an_answer_that_does_not_follow_from_its_state_does_not_show_what_is_left() {
    let (process, hot) = (Process::new(), Check::new(&HOT, "a"));
    for _ in 0..100 {
        process.request(&[hot]);
    }
    let answer = |found: u64, verdicts: &str| {
        process.call().add(&hot, Operation::Check).answer(&[charged(found)], verdicts)
    };
    assert_eq!(answer(998, ""), 0);
    assert_eq!(answer(9_900, "10"), 1);
    assert_eq!(process.unused(&hot), 0);
    assert_eq!(answer(999, ""), 1);
    assert_eq!(process.unused(&hot), 50, "half of the demand, as before");
}

#[test]
fn a_peek_passes_if_the_cost_is_unused_and_left() {
    let (process, hot) = with_lease();
    let passes = |cost: u64| {
        let group = [hot.with_cost(cost)];
        let denied = Decision::Denied { retry_after: Some(MINUTE) };
        let denial = Outcome::new(10_000, denied).with_cost(cost).with_remaining(7);
        let answer = GroupOutcome::new(Timestamp::from_micros(START), [denial]);
        process.leases.with_unused(&group, answer, Operation::Peek).is_allowed()
    };
    assert_eq!([56, 57, 58].map(passes), [true, true, false]);
}

/// Two limits of the group are in one shard, and a limit of another shard is between them.
#[test]
fn a_group_locks_each_shard_once_in_whatever_order_its_limits_are() {
    let process = Process::new();
    let callers: Vec<String> = (0..200).map(|caller| caller.to_string()).collect();
    let shard = |caller: &str| process.leases.digest(&Check::new(&HOT, caller)) >> 96 & 63;
    let (first, last) = (0..callers.len())
        .flat_map(|last| (0..last).map(move |first| (first, last)))
        .find(|&(first, last)| shard(&callers[first]) == shard(&callers[last]))
        .unwrap();
    let between = callers.iter().position(|caller| shard(caller) != shard(&callers[first])).unwrap();
    let group = [first, between, last].map(|caller| callers[caller].clone());
    for caller in &group {
        process.lease_to(&Check::new(&HOT, caller), 1_000);
    }
    // If the thread waits for itself, the test fails and leaves it behind.
    let (sender, taken) = mpsc::channel();
    thread::spawn(move || {
        let group = group.each_ref().map(|caller| Check::new(&HOT, caller));
        sender.send(process.leases.take(&group, Operation::Check).is_some())
    });
    assert_eq!(taken.recv_timeout(Duration::from_secs(10)), Ok(true));
}

#[test]
fn callers_beyond_the_bound_of_a_shard_are_not_kept_until_others_are_cold() {
    let mut shard = LeaseShard::default();
    for digest in 0..600 {
        shard.record(digest, 2, INTERVAL, START);
    }
    assert_eq!(shard.table.len(), 512);
    assert!(shard.find(511).is_some() && shard.find(512).is_none());
    shard.record(600, 2, INTERVAL, START + 10 * INTERVAL);
    assert_eq!(shard.table.len(), 1);
}
