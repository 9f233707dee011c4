//! A simulated server and simulated processes with leases: true time, a clock of the server and a clock of
//! each process, round trips, crashes, pauses and lost connections. A run follows from its seed.
//!
//! There are two oracles, both over the pure rule:
//!
//! * the replay: every use, in true order and at its own instant of the server, passes on a fresh state;
//! * the ledger, at every decision and answer: a fresh state with these uses leaves at least as many units as
//!   the server's state leaves and all processes may still use, together.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use crate::algorithm::{Operation, State};
use crate::check::Check;
use crate::clock::Timestamp;
use crate::policy::Policy;
use crate::store::redis::lease::count::{Answer, Effects, GiveBack, LeaseRequest, LeasedCount, Terms};
use crate::store::redis::lease::nodes::NodeConnection;
use crate::store::redis::lease::size::Demand;
use crate::store::redis::server_clock::ClockSample;
use crate::store::toolkit::{StateTable, decide_with};

/// An instant in 2026, in microseconds.
const EPOCH: u64 = 1_790_000_000_000_000;
const DIGEST_KEY: [u8; 16] = [7; 16];
pub(super) const SECOND: u64 = 1_000_000;

/// Random numbers (`SplitMix64`).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// An exponential span with this mean.
    fn span(&mut self, mean: f64) -> u64 {
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a span"
        )]
        let span = (-((self.below(1 << 53) + 1) as f64 / (1u64 << 53) as f64).ln() * mean) as u64;
        span.max(1)
    }
}

/// What is simulated.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    /// The policies of the counts. A request takes the first alone, or with one of the others as a group.
    pub(super) policies: Vec<Policy>,
    pub(super) processes: u64,
    pub(super) interval: u64,
    /// Shares of the first policy's rate, in percent, at which all processes together send; each phase takes
    /// one.
    pub(super) loads: Vec<u64>,
    /// Longest phase of one load.
    pub(super) longest_phase: u64,
    pub(super) until: u64,
    /// Bounds of one way of a round trip.
    pub(super) way: (u64, u64),
    /// Largest cost of a request.
    pub(super) largest_cost: u64,
    /// Share of the requests that are groups, in percent.
    pub(super) groups: u64,
    /// Share of the answers after which a process crashes, in percent.
    pub(super) crashes: u64,
    /// Parts per million by which clocks run slow; the first process by all of it.
    pub(super) drift: u64,
    /// Longest pause of a process, and whether its clock counts pauses.
    pub(super) pauses: Option<(u64, bool)>,
    /// The instant of a failover, and how long before it the new server's state was taken.
    pub(super) failover: Option<(u64, u64)>,
    /// Steps of the server's clock: when and by how much.
    pub(super) steps: Vec<(u64, i64)>,
    /// The instant from which the first policy has another `max`, and that `max`.
    pub(super) lower: Option<(u64, u64)>,
    /// Share of the admitted requests that are undone later, in percent.
    pub(super) undone: u64,
    /// Share of the requests for leases after which a request is settled to more than is left, in percent.
    pub(super) settled: u64,
    /// Maximum number of calls that a process has in flight. They overtake each other, as after redirects of
    /// a cluster.
    pub(super) calls: u64,
    pub(super) instances: u64,
    /// Whether to run without leases, for a comparison.
    pub(super) plain: bool,
}

impl Scenario {
    pub(super) fn new(seed: u64, policy: Policy, processes: u64) -> Self {
        Self {
            seed,
            policies: vec![policy],
            processes,
            interval: 100_000,
            loads: vec![2, 30, 100, 300],
            longest_phase: 600_000,
            until: 3 * SECOND / 2,
            way: (100, 3_000),
            largest_cost: 1,
            groups: 0,
            crashes: 0,
            drift: 0,
            pauses: None,
            failover: None,
            steps: Vec::new(),
            lower: None,
            undone: 0,
            settled: 0,
            calls: 1,
            instances: processes,
            plain: false,
        }
    }

    pub(super) fn run(self) -> Report {
        Simulation::new(self).run()
    }
}

/// The result of a run.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) requests: u64,
    pub(super) admitted: u64,
    pub(super) denied: u64,
    pub(super) calls: u64,
    /// Requests that unused units admitted.
    pub(super) local: u64,
    pub(super) leases: u64,
    /// Units of uses that fail in the replay.
    pub(super) over: u64,
    /// Unused units at faults: an upper bound of what may fail in the replay after a fault.
    pub(super) unused_at_faults: u64,
    /// How often the ledger did not balance.
    pub(super) unbalanced: u64,
    /// Retries after the wait that would have failed, and all retries that were checked.
    pub(super) broken_waits: (u64, u64),
    pub(super) first_fault: String,
}

/// A request that waits for an answer: the counts in which it is charged, and its cost.
#[derive(Debug)]
struct Waiting {
    keys: Vec<usize>,
    cost: u64,
}

#[derive(Debug)]
struct Process {
    counts: BTreeMap<usize, (Demand, LeasedCount)>,
    connection: NodeConnection,
    last_sample: Option<ClockSample>,
    /// Parts per million by which the clock of the process differs.
    rate: i64,
    /// Time that the clock of the process did not count.
    lost: u64,
    stopped_until: u64,
    /// Calls in flight.
    calls: u64,
    /// Settlements that the server has made, while their answers are on their way.
    settlements: u64,
    waiting: Vec<Waiting>,
    give_backs: Vec<(usize, GiveBack)>,
    phase_ends: u64,
    load: u64,
    /// Number of crashes so far.
    life: u64,
    max: u64,
}

#[derive(Debug)]
struct Call {
    process: usize,
    life: u64,
    sent_at: u64,
    requests: Vec<Waiting>,
    leases: Vec<(usize, LeaseRequest)>,
    give_backs: Vec<(usize, GiveBack)>,
    connection: NodeConnection,
    max: u64,
    /// Whether the call charges beyond the limit.
    overdraws: bool,
}

#[derive(Debug)]
struct Reply {
    call: Call,
    decided: u64,
    at: u64,
    passed: Vec<bool>,
    granted: Vec<bool>,
    /// The state of each key of the call, in the answer.
    states: BTreeMap<usize, State>,
}

#[derive(Debug)]
enum Event {
    Request(usize),
    Serve(Box<Call>),
    Reply(Box<Reply>),
    Sweep(usize),
    GiveBacks(Vec<(usize, GiveBack)>),
    Pause(usize),
    Continue(usize, u64),
    Snapshot,
    Fail,
    Notice(usize),
    Step(i64),
    Undo(usize, usize),
    Settle(usize, usize),
}

/// Units that were used, with the instant in true time and by the server's clock.
#[derive(Clone, Copy, Debug)]
struct Use {
    time: u64,
    at: u64,
    key: usize,
    units: u64,
    max: u64,
    undone: bool,
    /// Whether the units were charged beyond the limit.
    overdraws: bool,
    /// Whether a settlement of the same process was on its way. Then the use may pass beside the debt.
    is_beside: bool,
}

/// The uses of one count, for the ledger.
struct Page {
    /// A state with the uses before `applied_until`, in true time.
    applied: State,
    applied_until: u64,
    /// Indices of the others.
    recent: Vec<usize>,
    must_rebuild: bool,
}

/// A fault that the replay has as well.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Snapshot,
    Fail,
    /// A decision, which advances the state whatever the verdict is. This only matters after a step of the
    /// clock.
    Touch(u64),
}

struct Simulation {
    s: Scenario,
    random: Random,
    /// Apart from `random`, so that the same requests come with any rules.
    arrivals: Vec<Random>,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: HashMap<u64, Event>,
    sequence: u64,
    now: u64,
    step: i64,
    server: HashMap<u128, State>,
    snapshot: HashMap<u128, State>,
    processes: Vec<Process>,
    uses: Vec<Use>,
    pages: Vec<Page>,
    faults: Vec<(u64, Fault)>,
    report: Report,
}

fn caller(key: usize) -> &'static str {
    ["global", "a", "b", "c", "d"][key]
}

fn new_page(policy: &Policy) -> Page {
    Page { applied: State::new(policy), applied_until: 0, recent: Vec::new(), must_rebuild: false }
}

impl Simulation {
    fn new(s: Scenario) -> Self {
        let mut random = Random::new(s.seed);
        let count = usize::try_from(s.processes).unwrap();
        let process = |number: usize, random: &mut Random| {
            let drift = i64::try_from(s.drift).unwrap();
            Process {
                counts: BTreeMap::new(),
                connection: NodeConnection { node: 0, generation: 1 },
                last_sample: None,
                rate: if number == 0 {
                    -drift
                } else {
                    i64::try_from(random.below(2 * s.drift + 1)).unwrap() - drift
                },
                lost: 0,
                stopped_until: 0,
                calls: 0,
                settlements: 0,
                waiting: Vec::new(),
                give_backs: Vec::new(),
                phase_ends: 0,
                load: 0,
                life: 0,
                max: s.policies[0].max(),
            }
        };
        let processes = (0..count).map(|number| process(number, &mut random)).collect();
        let arrivals = (0..count).map(|number| Random::new(s.seed ^ (number as u64 + 1) << 40)).collect();
        let mut simulation = Self {
            random,
            arrivals,
            queue: BinaryHeap::new(),
            events: HashMap::new(),
            sequence: 0,
            now: 0,
            step: 0,
            server: HashMap::new(),
            snapshot: HashMap::new(),
            processes,
            uses: Vec::new(),
            pages: s.policies.iter().map(new_page).collect(),
            faults: Vec::new(),
            report: Report::default(),
            s,
        };
        for number in 0..count {
            simulation.next_request(number);
            simulation.push(1_000 * number as u64, Event::Sweep(number));
        }
        if let Some((longest, _)) = simulation.s.pauses {
            for round in 0..simulation.s.until / 500_000 {
                let (time, process) = (200_000 + 500_000 * round, simulation.random.below(count as u64));
                let time = time + simulation.random.below(longest.min(300_000));
                simulation.push(time, Event::Pause(usize::try_from(process).unwrap()));
            }
        }
        if let Some((time, lost)) = simulation.s.failover {
            simulation.push(time - lost, Event::Snapshot);
            simulation.push(time, Event::Fail);
        }
        for (time, by) in simulation.s.steps.clone() {
            simulation.push(time, Event::Step(by));
        }
        simulation
    }

    fn push(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.queue.push(Reverse((time, self.sequence)));
        self.events.insert(self.sequence, event);
    }

    fn way(&mut self) -> u64 {
        let (least, most) = self.s.way;
        least + self.random.below(most - least + 1)
    }

    /// The server's clock.
    fn server_now(&self) -> u64 {
        (EPOCH + self.now).saturating_add_signed(self.step)
    }

    /// The clock of a process.
    fn local(&self, process: usize) -> u64 {
        let process = &self.processes[process];
        let drifted = i128::from(self.now) * i128::from(process.rate) / 1_000_000;
        u64::try_from(77_000_000 + i128::from(self.now) + drifted).unwrap() - process.lost
    }

    fn next_request(&mut self, number: usize) {
        let (process, random) = (&mut self.processes[number], &mut self.arrivals[number]);
        let policy = &self.s.policies[0];
        let mut time = self.now;
        if time >= process.phase_ends {
            process.load = self.s.loads[usize::try_from(random.below(self.s.loads.len() as u64)).unwrap()];
            process.phase_ends = time + 20_000 + random.below(self.s.longest_phase);
        }
        #[allow(clippy::cast_precision_loss, reason = "a mean")]
        let mean = (policy.window_us() * self.s.processes * 100 * (self.s.largest_cost + 1)) as f64
            / (2 * policy.max() * process.load) as f64;
        time += random.span(mean);
        if time < self.s.until {
            self.push(time, Event::Request(number));
        }
    }

    fn run(mut self) -> Report {
        while let Some(Reverse((time, sequence))) = self.queue.pop() {
            let event = self.events.remove(&sequence).unwrap();
            if let Event::Request(p) | Event::Sweep(p) | Event::Notice(p) = event
                && time < self.processes[p].stopped_until
            {
                let until = self.processes[p].stopped_until;
                self.push(until, event);
                continue;
            }
            if let Event::Reply(reply) = &event
                && time < self.processes[reply.call.process].stopped_until
            {
                let until = self.processes[reply.call.process].stopped_until;
                self.push(until, event);
                continue;
            }
            self.now = self.now.max(time);
            match event {
                Event::Request(process) => self.request(process),
                Event::Serve(call) => self.serve(*call),
                Event::Reply(reply) => self.answer(*reply),
                Event::Sweep(process) => self.sweep(process),
                Event::GiveBacks(give_backs) => self.give_backs(&give_backs),
                Event::Pause(process) => self.pause(process),
                Event::Continue(process, lost) => self.processes[process].lost += lost,
                Event::Snapshot => {
                    self.snapshot.clone_from(&self.server);
                    self.faults.push((self.now, Fault::Snapshot));
                }
                Event::Fail => {
                    self.note_unused();
                    self.server.clone_from(&self.snapshot);
                    self.faults.push((self.now, Fault::Fail));
                    for process in 0..self.processes.len() {
                        let noticed = self.now + 1_000 + self.random.below(29_000);
                        self.push(noticed, Event::Notice(process));
                    }
                }
                Event::Notice(process) => self.reconnect(process),
                Event::Step(by) => {
                    self.note_unused();
                    self.step += by;
                }
                Event::Undo(process, index) => self.undo(process, index),
                Event::Settle(process, key) => self.settle(process, key),
            }
        }
        self.report.over = self.replay();
        self.report
    }

    // ---- A process

    fn policy(&self, key: usize, max: u64) -> Policy {
        let policy = &self.s.policies[key];
        if key > 0 || max == policy.max() { policy.clone() } else { with_max(policy, max) }
    }

    fn request(&mut self, number: usize) {
        self.next_request(number);
        self.report.requests += 1;
        let random = &mut self.arrivals[number];
        let cost = 1 + random.below(self.s.largest_cost);
        let others = self.s.policies.len() as u64 - 1;
        let mut keys = vec![0];
        if others > 0 && random.chance(self.s.groups) {
            keys.push(1 + usize::try_from(random.below(others)).unwrap());
        }
        if let Some((time, max)) = self.s.lower
            && self.now >= time + 10_000 * number as u64
        {
            self.processes[number].max = max;
        }
        let (local, max) = (self.local(number), self.processes[number].max);
        let policies: Vec<Policy> = keys.iter().map(|&key| self.policy(key, max)).collect();
        let process = &mut self.processes[number];
        let (interval, connection) = (self.s.interval, process.connection);
        let terms = |policy| Terms { check: Check::new(policy, ""), interval, connection };
        let mut effects = Effects::default();
        let mut are_covered = !self.s.plain;
        for (&key, policy) in keys.iter().zip(&policies) {
            let new = || (Demand::default(), LeasedCount::new(terms(policy)));
            let (demand, count) = process.counts.entry(key).or_insert_with(new);
            demand.record(cost, local, interval);
            are_covered &= count.covers(terms(policy), cost, local, &mut effects);
            process.give_backs.extend(effects.give_backs.drain(..).map(|back| (key, back)));
        }
        let mut wanted = Vec::new();
        for (&key, policy) in keys.iter().zip(&policies) {
            let (demand, count) = process.counts.get_mut(&key).unwrap();
            if are_covered {
                let taken = count.take(cost, local);
                assert!(taken.remaining <= policy.capacity());
                if taken.wants_lease {
                    wanted.push(key);
                }
            } else if !self.s.plain && cost <= policy.max() {
                let requested = demand.units(local, interval) * self.s.instances;
                count.make_way(terms(policy), cost, requested, local, &mut effects);
            }
            process.give_backs.extend(effects.give_backs.drain(..).map(|back| (key, back)));
        }
        if are_covered {
            self.report.admitted += 1;
            self.report.local += 1;
            for &key in &keys {
                self.used(number, self.now, self.server_now(), key, cost, max, false);
            }
        } else {
            process.waiting.push(Waiting { keys, cost });
        }
        if self.processes[number].calls < self.s.calls {
            if self.processes[number].waiting.is_empty() {
                let instances = self.s.instances;
                wanted.retain(|key| {
                    let (demand, count) = self.processes[number].counts.get_mut(key).unwrap();
                    count.may_prefetch(demand, instances, local)
                });
                if !wanted.is_empty() {
                    self.send(number, &wanted);
                }
            } else {
                self.send(number, &[]);
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of a use")]
    fn used(
        &mut self,
        process: usize,
        time: u64,
        at: u64,
        key: usize,
        units: u64,
        max: u64,
        overdraws: bool,
    ) {
        self.pages[key].recent.push(self.uses.len());
        let is_beside = self.processes[process].settlements > 0;
        self.uses.push(Use { time, at, key, units, max, undone: false, overdraws, is_beside });
        if self.random.chance(self.s.undone) {
            let later = self.now + self.random.below(80_000);
            self.push(later, Event::Undo(process, self.uses.len() - 1));
        }
    }

    /// A refund: into a lease, or by the server.
    fn undo(&mut self, number: usize, index: usize) {
        let Use { at, key, units, max, .. } = self.uses[index];
        let (local, policy) = (self.local(number), self.policy(key, max));
        self.uses[index].undone = true;
        let page = &mut self.pages[key];
        // A recent use is taken out of the page. For an older use the page is rebuilt.
        match page.recent.iter().position(|&recent| recent == index) {
            Some(place) => _ = page.recent.remove(place),
            None => page.must_rebuild = true,
        }
        let process = &mut self.processes[number];
        let terms = Terms {
            check: Check::new(&policy, ""),
            interval: self.s.interval,
            connection: process.connection,
        };
        let mut effects = Effects::default();
        let is_back = process
            .counts
            .get_mut(&key)
            .is_some_and(|(_, count)| count.put_back(terms, units, at, local, &mut effects));
        process.give_backs.extend(effects.give_backs.into_iter().map(|back| (key, back)));
        if !is_back {
            let back = GiveBack { units, at, until: u64::MAX, connection: process.connection };
            let way = self.way();
            self.push(self.now + way, Event::GiveBacks(vec![(key, back)]));
        }
    }

    /// A settlement to more than is left. Unused units are given back before.
    fn settle(&mut self, number: usize, key: usize) {
        let (local, cost) = (self.local(number), 1 + self.random.below(self.s.policies[key].max()));
        let process = &mut self.processes[number];
        let mut effects = Effects::default();
        if let Some((_, count)) = process.counts.get_mut(&key) {
            count.give_back_all(process.connection, local, &mut effects);
        }
        process.calls += 1;
        let call = Call {
            process: number,
            life: process.life,
            sent_at: local,
            requests: vec![Waiting { keys: vec![key], cost }],
            leases: Vec::new(),
            give_backs: effects.give_backs.into_iter().map(|back| (key, back)).collect(),
            connection: process.connection,
            max: process.max,
            overdraws: true,
        };
        let way = self.way();
        self.push(self.now + way, Event::Serve(Box::new(call)));
    }

    fn send(&mut self, number: usize, wanted: &[usize]) {
        self.report.calls += 1;
        let (local, instances) = (self.local(number), self.s.instances);
        let process = &mut self.processes[number];
        process.calls += 1;
        let requests = std::mem::take(&mut process.waiting);
        let mut keys: Vec<usize> = requests
            .iter()
            .flat_map(|request| request.keys.iter().copied())
            .chain(wanted.iter().copied())
            .collect();
        keys.sort_unstable();
        keys.dedup();
        let (mut leases, mut effects) = (Vec::new(), Effects::default());
        for key in keys {
            let policy = if key == 0 && process.max != self.s.policies[0].max() {
                with_max(&self.s.policies[0], process.max)
            } else {
                self.s.policies[key].clone()
            };
            let terms = Terms {
                check: Check::new(&policy, ""),
                interval: self.s.interval,
                connection: process.connection,
            };
            let (demand, count) = process.counts.get_mut(&key).unwrap();
            if !self.s.plain
                && let Some(request) = count.lease_request(terms, demand, instances, local, &mut effects)
            {
                leases.push((key, request));
            }
            process.give_backs.extend(effects.give_backs.drain(..).map(|back| (key, back)));
        }
        let call = Call {
            process: number,
            life: process.life,
            sent_at: local,
            requests,
            leases,
            give_backs: std::mem::take(&mut process.give_backs),
            connection: process.connection,
            max: process.max,
            overdraws: false,
        };
        if let Some(&(key, _)) = call.leases.first()
            && self.random.chance(self.s.settled)
        {
            let later = self.now + self.random.below(self.s.way.1);
            self.push(later, Event::Settle(number, key));
        }
        let way = self.way();
        self.push(self.now + way, Event::Serve(Box::new(call)));
    }

    fn answer(&mut self, reply: Reply) {
        let Reply { call, decided, at, passed, granted, states } = reply;
        let number = call.process;
        if self.processes[number].life != call.life {
            return;
        }
        let local = self.local(number);
        let process = &mut self.processes[number];
        process.calls -= 1;
        process.settlements -= u64::from(call.overdraws);
        if process.connection == call.connection {
            let next = ClockSample { at, sent_at: call.sent_at, answered_at: local };
            if process.last_sample.is_some_and(|last| !last.agrees_with(&next)) {
                process.connection.generation += 1;
            }
            process.last_sample = Some(next);
        }
        let (connection, mut effects) = (process.connection, Effects::default());
        for (key, state) in states {
            let lease = call.leases.iter().zip(&granted).find(|((leased, _), _)| *leased == key);
            let lease = lease.map(|((_, request), granted)| (*request, *granted));
            self.report.leases += u64::from(lease.is_some_and(|(_, is_granted)| is_granted));
            let answer = Answer {
                state,
                at,
                sent_at: call.sent_at,
                now: local,
                connection,
                is_present: connection == call.connection,
                is_overdrawn: call.overdraws,
                lease,
            };
            let (_, count) = process.counts.get_mut(&key).unwrap();
            if !self.s.plain {
                count.learn(answer, &mut effects);
            }
            process.give_backs.extend(effects.give_backs.drain(..).map(|back| (key, back)));
        }
        for (request, passed) in call.requests.iter().zip(passed) {
            if passed {
                self.report.admitted += 1;
                for &key in &request.keys {
                    self.used(number, decided, at, key, request.cost, call.max, call.overdraws);
                }
            } else {
                self.report.denied += 1;
            }
        }
        self.balance();
        if self.random.chance(self.s.crashes) {
            let process = &mut self.processes[number];
            process.counts.clear();
            (process.waiting, process.give_backs, process.last_sample) = (Vec::new(), Vec::new(), None);
            (process.calls, process.settlements) = (0, 0);
            process.life += 1;
        } else if !call.overdraws && !self.processes[number].waiting.is_empty() {
            self.send(number, &[]);
        }
    }

    fn sweep(&mut self, number: usize) {
        let local = self.local(number);
        let process = &mut self.processes[number];
        let mut effects = Effects::default();
        for (&key, (_, count)) in &mut process.counts {
            count.sweep(process.connection, local, &mut effects);
            process.give_backs.extend(effects.give_backs.drain(..).map(|back| (key, back)));
        }
        let backs = std::mem::take(&mut process.give_backs);
        if !backs.is_empty() {
            self.report.calls += 1;
            let way = self.way();
            self.push(self.now + way, Event::GiveBacks(backs));
        }
        if self.now < self.s.until {
            self.push(self.now + self.s.interval / 4, Event::Sweep(number));
        }
    }

    fn reconnect(&mut self, number: usize) {
        let process = &mut self.processes[number];
        process.connection.generation += 1;
        process.last_sample = None;
        process.give_backs.clear();
    }

    fn pause(&mut self, number: usize) {
        let Some((longest, is_counted)) = self.s.pauses else { return };
        let length = 50_000 + self.random.below(longest);
        self.processes[number].stopped_until = self.now + length;
        if !is_counted {
            self.note_unused();
            self.push(self.now + length, Event::Continue(number, length));
        }
    }

    // ---- The server

    fn give_backs(&mut self, give_backs: &[(usize, GiveBack)]) {
        let now = Timestamp::from_micros(self.server_now());
        for &(key, back) in give_backs {
            let policy = self.s.policies[key].clone();
            let digest = Check::new(&policy, caller(key)).digest(&DIGEST_KEY, Timestamp::default());
            if let Some(mut state) = self.server.take(digest) {
                let [at, until] = [back.at, back.until].map(Timestamp::from_micros);
                state.refund(&policy, now, at, until, back.units);
                self.server.put(digest, state);
            }
        }
    }

    fn serve(&mut self, call: Call) {
        let at = self.server_now();
        let now = Timestamp::from_micros(at);
        if !self.s.steps.is_empty() {
            self.faults.push((self.now, Fault::Touch(at)));
        }
        self.give_backs(&call.give_backs);
        let operation = charge(call.overdraws);
        if call.overdraws && self.processes[call.process].life == call.life {
            self.processes[call.process].settlements += 1;
        }
        let policies: Vec<Policy> =
            (0..self.s.policies.len()).map(|key| self.policy(key, call.max)).collect();
        let mut keys: Vec<usize> = Vec::new();
        let passed: Vec<bool> = call
            .requests
            .iter()
            .map(|request| {
                let check = |&key: &usize| Check::new(&policies[key], caller(key)).with_cost(request.cost);
                let group: Vec<Check<'_>> = request.keys.iter().map(check).collect();
                keys.extend(&request.keys);
                let decided = decide_with(&group, operation, now, &DIGEST_KEY, &mut self.server);
                call.overdraws || decided.outcome.is_allowed()
            })
            .collect();
        let granted: Vec<bool> = call
            .leases
            .iter()
            .map(|(key, request)| {
                keys.push(*key);
                let group = [Check::new(&policies[*key], caller(*key)).with_cost(request.units)];
                decide_with(&group, Operation::Check, now, &DIGEST_KEY, &mut self.server).outcome.is_allowed()
            })
            .collect();
        let states = keys.into_iter().map(|key| (key, self.state(key, &policies[key]))).collect();
        for (request, _) in call.requests.iter().zip(&passed).filter(|(_, passed)| !**passed) {
            if let [key] = request.keys[..] {
                self.check_wait(&policies[key], key, request.cost);
            }
        }
        let reply = Reply { call, decided: self.now, at, passed, granted, states };
        self.balance();
        let way = self.way();
        self.push(self.now + way, Event::Reply(Box::new(reply)));
    }

    fn state(&mut self, key: usize, policy: &Policy) -> State {
        let digest = Check::new(policy, caller(key)).digest(&DIGEST_KEY, Timestamp::default());
        self.server.get(&digest).cloned().unwrap_or_else(|| State::new(policy))
    }

    /// A denied caller retries after the wait for its whole cost, and no other request comes. Only leases
    /// that are on their way are charged.
    fn check_wait(&mut self, policy: &Policy, of: usize, cost: u64) {
        let at = self.server_now();
        let mut state = self.state(of, policy);
        let wait = state.decide(policy, cost, Timestamp::from_micros(at), Operation::Peek).retry_after();
        let Some(wait) = wait else { return };
        let end = self.now + u64::try_from(wait.as_micros()).unwrap();
        let mut on_the_way: Vec<(u64, u64)> = Vec::new();
        for Reverse((time, sequence)) in &self.queue {
            if let Some(Event::Serve(call)) = self.events.get(sequence)
                && *time < end
            {
                let units = call.leases.iter().filter(|(key, _)| *key == of);
                on_the_way.extend(units.map(|(_, request)| (*time, request.units)));
            }
        }
        on_the_way.sort_unstable();
        let server = |time: u64| Timestamp::from_micros(EPOCH + time);
        for (time, units) in on_the_way {
            let _ = state.decide(policy, units, server(time), Operation::Check);
        }
        self.report.broken_waits.1 += 1;
        if !state.decide(policy, cost, server(end), Operation::Peek).is_allowed() {
            self.report.broken_waits.0 += 1;
        }
    }

    // ---- The oracles

    /// Units that any process may still use, on its own clock.
    fn usable(&mut self, key: usize) -> u64 {
        let mut sum = 0;
        for number in 0..self.processes.len() {
            if self.now < self.processes[number].stopped_until {
                continue;
            }
            let local = self.local(number);
            let process = &self.processes[number];
            if let Some((_, count)) = process.counts.get(&key) {
                sum += count.usable(process.connection, local);
            }
        }
        sum
    }

    /// Counts units that are unused, on their way to a process, or on their way back.
    fn note_unused(&mut self) {
        for key in 0..self.s.policies.len() {
            self.report.unused_at_faults += self.usable(key);
            for process in &self.processes {
                let of_key = process.give_backs.iter().filter(|(k, _)| *k == key);
                self.report.unused_at_faults += of_key.map(|(_, back)| back.units).sum::<u64>();
            }
        }
        for event in self.events.values() {
            self.report.unused_at_faults += match event {
                Event::Reply(reply) => {
                    let granted =
                        reply.call.leases.iter().zip(&reply.granted).filter(|(_, granted)| **granted);
                    granted.map(|((_, request), _)| request.units).sum()
                }
                Event::Serve(call) => call.give_backs.iter().map(|(_, back)| back.units).sum(),
                Event::GiveBacks(backs) => backs.iter().map(|(_, back)| back.units).sum(),
                _ => 0,
            };
        }
    }

    /// The ledger: a fresh state with all uses so far leaves at least as many units as the server's state
    /// leaves and all processes may still use, together.
    fn balance(&mut self) {
        let has_fault = self.s.failover.is_some()
            || !self.s.steps.is_empty()
            || self.s.lower.is_some()
            || self.s.pauses.is_some_and(|(_, is_counted)| !is_counted);
        let is_settling = self.processes.iter().any(|process| process.settlements > 0);
        if has_fault || self.s.plain || is_settling {
            return;
        }
        let at = self.server_now();
        for key in 0..self.s.policies.len() {
            let policy = self.s.policies[key].clone();
            let mut fresh = self.fresh_state(key, &policy);
            let left = left_of(&mut fresh, &policy, at);
            let mut server = self.state(key, &policy);
            let there = left_of(&mut server, &policy, at);
            let usable = self.usable(key);
            if there + usable > left {
                self.report.unbalanced += 1;
                if self.report.first_fault.is_empty() {
                    self.report.first_fault = format!(
                        "{} at {} us: the server leaves {there} of {}, {usable} are unused, and a fresh state leaves {left}",
                        policy.algorithm(),
                        self.now,
                        policy.capacity()
                    );
                }
            }
        }
    }

    /// A fresh state with all uses so far, in true order. Uses of the last 200 ms are applied again each
    /// time, because an answer may still add an earlier use.
    fn fresh_state(&mut self, key: usize, policy: &Policy) -> State {
        let horizon = self.now.saturating_sub(200_000);
        let page = &mut self.pages[key];
        page.recent.sort_by_key(|&index| self.uses[index].time);
        if page.recent.first().is_some_and(|&index| self.uses[index].time < page.applied_until) {
            page.must_rebuild = true;
        }
        if page.must_rebuild {
            let uses =
                (0..self.uses.len()).filter(|&index| self.uses[index].key == key && !self.uses[index].undone);
            page.recent = uses.collect();
            page.recent.sort_by_key(|&index| self.uses[index].time);
            page.applied = State::new(policy);
            page.must_rebuild = false;
        }
        let old = page.recent.partition_point(|&index| self.uses[index].time < horizon);
        let apply = |state: &mut State, index: usize| {
            let Use { units, at, overdraws, .. } = self.uses[index];
            let _ = state.decide(policy, units, Timestamp::from_micros(at), charge(overdraws));
        };
        for index in page.recent.drain(..old) {
            apply(&mut page.applied, index);
        }
        page.applied_until = horizon;
        let mut fresh = page.applied.clone();
        for &index in &page.recent {
            apply(&mut fresh, index);
        }
        fresh
    }

    /// Units of uses that fail on fresh states, in true order and with the same faults.
    fn replay(&mut self) -> u64 {
        let mut entries: Vec<(u64, u8, usize)> = self
            .uses
            .iter()
            .enumerate()
            .filter(|(_, used)| !used.undone)
            .map(|(i, used)| (used.time, 1, i))
            .collect();
        entries.extend(self.faults.iter().enumerate().map(|(i, (time, _))| (*time, 0, i)));
        entries.sort_unstable();
        let mut states: BTreeMap<usize, State> = BTreeMap::new();
        let (mut snapshot, mut over) = (BTreeMap::new(), 0);
        for (_, kind, i) in entries {
            if kind == 0 {
                match self.faults[i].1 {
                    Fault::Snapshot => snapshot = states.clone(),
                    Fault::Fail => states = snapshot.clone(),
                    Fault::Touch(at) => {
                        for (key, state) in &mut states {
                            let _ = left_of(state, &self.s.policies[*key], at);
                        }
                    }
                }
                continue;
            }
            let Use { at, key, units, max, overdraws, is_beside, .. } = self.uses[i];
            let policy = self.policy(key, max);
            let state = states.entry(key).or_insert_with(|| State::new(&policy));
            let charged = state.decide(&policy, units, Timestamp::from_micros(at), charge(overdraws));
            if !charged.is_allowed() && !overdraws && !is_beside {
                over += units;
                if self.report.first_fault.is_empty() {
                    self.report.first_fault =
                        format!("{} at {at}: {units} units fail in the replay", policy.algorithm());
                }
            }
        }
        over
    }
}

const fn charge(overdraws: bool) -> Operation {
    if overdraws { Operation::Overdraw } else { Operation::Check }
}

/// Units that a state leaves.
fn left_of(state: &mut State, policy: &Policy, at: u64) -> u64 {
    state.decide(policy, 0, Timestamp::from_micros(at), Operation::Peek).remaining()
}

/// The policy with another `max`, which keeps its counts.
pub(super) fn with_max(policy: &Policy, max: u64) -> Policy {
    let builder = Policy::builder("global").algorithm(policy.algorithm()).max(max).window(policy.window());
    if policy.sub_windows() > 1 { builder.sub_windows(policy.sub_windows()).build() } else { builder.build() }
}
