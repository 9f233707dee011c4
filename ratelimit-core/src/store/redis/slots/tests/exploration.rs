//! Every interleaving of small cases: the entries on the server against the requests that run, with the code
//! of both sides.
//!
//! There is one caller, and a few processes that each take some slots. Messages and replies may be lost, late
//! or reordered, and entries on the server may vanish. Time stands still: in place of an
//! entry that ends, an entry vanishes.

use std::collections::{HashMap, HashSet, VecDeque};

use super::super::count::SlotCount;
use crate::algorithm::concurrency::{Entries, OwnEntry};

/// The instant at which everything happens.
const NOW: u64 = 1;

/// Where reported numbers start: with the first slot they pass the 48 bits that the server keeps.
const START: u64 = (1 << 48) - 1;

/// A case: the number of processes, how often each does what, and the number of faults.
#[derive(Clone, Copy, Debug)]
struct Case {
    max: u64,
    processes: usize,
    /// Slots that each process requests, one by one.
    starts: u8,
    /// Messages of each process that only renew.
    renewals: u8,
    lost: u8,
    vanished: u8,
    /// How often a message runs before an earlier one of its process, as behind a redirect of a cluster.
    overtakings: u8,
    /// Whether a process handles its replies in any order.
    reorders: bool,
    /// Whether a process forgets a caller without running requests.
    forgets: bool,
}

const CASE: Case = Case {
    max: 1,
    processes: 2,
    starts: 2,
    renewals: 1,
    lost: 0,
    vanished: 0,
    overtakings: 0,
    reorders: false,
    forgets: false,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Message {
    /// Whether it requests a slot.
    requests: bool,
    reported: OwnEntry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Answer {
    /// Whether the message requested a slot.
    requests: bool,
    is_granted: bool,
    granted_there: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    count: SlotCount,
    starts: u8,
    renewals: u8,
    outbox: VecDeque<Message>,
    inbox: VecDeque<Answer>,
    /// Messages of a lost connection, which may run late or never.
    limbo: Vec<Message>,
}

impl Process {
    /// Slots in use, and grants whose reply is on its way.
    fn running(&self) -> u64 {
        self.count.used()
            + self.inbox.iter().filter(|answer| answer.requests && answer.is_granted).count() as u64
    }

    /// A message. Without `report`, which notes the instant of the message: states that differ only in it
    /// would count as two.
    fn message(&self, process: usize, requests: bool) -> Message {
        let (granted, freed) = self.count.numbers();
        Message { requests, reported: OwnEntry { process: process as u64, granted, freed } }
    }

    fn receive(&mut self, answer: Answer) {
        if answer.requests {
            self.count.answer(1, answer.is_granted.into());
        }
        self.count.free_lost(answer.granted_there);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    entries: Entries,
    processes: Vec<Process>,
    lost: u8,
    vanished: u8,
    overtakings: u8,
    /// How many more requests than `max` may run, because entries have vanished.
    credit: u64,
}

impl World {
    fn new(case: Case) -> Self {
        let process = Process {
            count: SlotCount::start(START),
            starts: case.starts,
            renewals: case.renewals,
            outbox: VecDeque::new(),
            inbox: VecDeque::new(),
            limbo: Vec::new(),
        };
        Self {
            entries: Entries::default(),
            processes: vec![process; case.processes],
            lost: case.lost,
            vanished: case.vanished,
            overtakings: case.overtakings,
            credit: 0,
        }
    }

    fn counted(&self, process: usize) -> u64 {
        self.entries.held_by(process as u64).unwrap_or(0)
    }

    fn run(&mut self, message: Message, max: u64) -> Answer {
        let (fits, own) = self.entries.step(message.reported, message.requests.into(), max, NOW);
        self.entries.sort();
        Answer {
            requests: message.requests,
            is_granted: message.requests && fits,
            granted_there: own.granted,
        }
    }

    /// Slots that messages on their way request for a process.
    fn requested_by(&self, process: usize) -> u64 {
        let Process { outbox, limbo, .. } = &self.processes[process];
        outbox.iter().chain(limbo).filter(|message| message.requests).count() as u64
    }

    /// All states that may follow, each with the message that the server ran, if it was the oldest one.
    fn next(&self, case: Case) -> Vec<(Self, Option<(Message, Answer)>)> {
        let mut next = Vec::new();
        for (i, process) in self.processes.iter().enumerate() {
            let changed = |change: &dyn Fn(&mut Process)| {
                let mut world = self.clone();
                change(&mut world.processes[i]);
                world
            };
            if process.starts > 0 {
                next.push((
                    changed(&|process| {
                        process.starts -= 1;
                        process.count.request(1);
                        process.outbox.push_back(process.message(i, true));
                    }),
                    None,
                ));
            }
            if process.count.used() > 0 {
                next.push((
                    changed(&|process| {
                        process.count.free(1);
                        process.outbox.push_back(process.message(i, false));
                    }),
                    None,
                ));
            }
            if process.renewals > 0 && !process.count.is_idle() {
                next.push((
                    changed(&|process| {
                        process.renewals -= 1;
                        process.outbox.push_back(process.message(i, false));
                    }),
                    None,
                ));
            }
            if case.forgets && process.count.is_idle() && (1..3).contains(&(process.count.granted() - START))
            {
                // Meanwhile two slots of other callers were granted to the process.
                let running = process.count.granted() + 2;
                next.push((changed(&|process| process.count = SlotCount::start(running)), None));
            }
            let received = if case.reorders { process.inbox.len() } else { process.inbox.len().min(1) };
            for n in 0..received {
                next.push((
                    changed(&|process| {
                        let answer = process.inbox.remove(n).expect("it is there");
                        process.receive(answer);
                    }),
                    None,
                ));
            }
            let sent = if self.overtakings > 0 { process.outbox.len() } else { process.outbox.len().min(1) };
            for n in 0..sent {
                let mut world = self.clone();
                let message = world.processes[i].outbox.remove(n).expect("it is there");
                let answer = world.run(message, case.max);
                world.processes[i].inbox.push_back(answer);
                if n > 0 {
                    world.overtakings -= 1;
                }
                next.push((world, (n == 0).then_some((message, answer))));
            }
            for n in 0..process.limbo.len() {
                let mut late = self.clone();
                let message = late.processes[i].limbo.remove(n);
                let never = late.clone();
                late.run(message, case.max);
                next.extend([(late, None), (never, None)]);
            }
            if self.lost > 0 && !(process.outbox.is_empty() && process.inbox.is_empty()) {
                let mut world = self.clone();
                world.lost -= 1;
                let process = &mut world.processes[i];
                let requested = process.outbox.iter().filter(|message| message.requests).count()
                    + process.inbox.iter().filter(|answer| answer.requests).count();
                process.count.lose(requested as u64);
                process.inbox.clear();
                process.limbo.extend(process.outbox.drain(..));
                next.push((world, None));
            }
            if self.vanished > 0 && self.entries.held_by(i as u64).is_some() {
                let mut world = self.clone();
                world.vanished -= 1;
                world.credit += process.running() + self.requested_by(i);
                world.entries.forget(i as u64);
                next.push((world, None));
            }
        }
        next
    }

    /// Fails if too many requests run, if the server's entries are wrong, or if a denial was wrong.
    fn check(&self, case: Case, ran: Option<(Message, Answer)>) -> Result<(), String> {
        let running: Vec<u64> = self.processes.iter().map(Process::running).collect();
        let all: u64 = running.iter().sum();
        if all > case.max + self.credit {
            return Err(format!("{all} run, of {} and a credit of {}", case.max, self.credit));
        }
        let has_no_faults = case.lost + case.vanished + case.overtakings == 0;
        if has_no_faults {
            let counted: Vec<u64> = (0..running.len()).map(|i| self.counted(i)).collect();
            if let Some(i) = (0..running.len()).find(|&i| counted[i] < running[i]) {
                return Err(format!("the entry of {i} counts {}, and {} run", counted[i], running[i]));
            }
            let ending: u64 = counted.iter().zip(&running).map(|(counted, running)| counted - running).sum();
            let is_denied = ran.is_some_and(|(message, answer)| message.requests && !answer.is_granted);
            if is_denied && all + ending < case.max {
                return Err(format!("denied, although {all} run and {ending} are ending"));
            }
        }
        let is_quiet = |process: &Process| process.outbox.is_empty() && process.inbox.is_empty();
        if self.processes.iter().all(is_quiet) { self.clone().settle(case) } else { Ok(()) }
    }

    /// Everything arrives, and each process renews. Fails if the server's entries are wrong then.
    fn settle(mut self, case: Case) -> Result<(), String> {
        for i in 0..self.processes.len() {
            for message in std::mem::take(&mut self.processes[i].limbo) {
                self.run(message, case.max);
            }
        }
        for _ in 0..2 {
            for i in 0..self.processes.len() {
                if !self.processes[i].count.is_idle() {
                    let message = self.processes[i].message(i, false);
                    let answer = self.run(message, case.max);
                    self.processes[i].receive(answer);
                }
            }
        }
        for (i, process) in self.processes.iter().enumerate() {
            let (counted, used) = (self.counted(i), process.count.used());
            // An entry of a process without running requests ends by itself.
            if counted != used && used > 0 {
                return Err(format!("after all messages the entry of {i} counts {counted}, and {used} run"));
            }
        }
        Ok(())
    }
}

/// Tries every interleaving. Returns the number of states.
fn explore(case: Case) -> usize {
    let first = World::new(case);
    let mut queue = VecDeque::from([first.clone()]);
    let mut seen = HashSet::from([first]);
    while let Some(world) = queue.pop_front() {
        for (next, ran) in world.next(case) {
            if seen.contains(&next) {
                continue;
            }
            if let Err(wrong) = next.check(case, ran) {
                panic!("{case:?}: {wrong}\n{world:#?}\n{next:#?}");
            }
            seen.insert(next.clone());
            queue.push_back(next);
        }
    }
    seen.len()
}

fn explore_all(cases: &[(Case, usize)]) {
    let mut states = HashMap::new();
    for (number, (case, expected)) in cases.iter().enumerate() {
        let found = explore(*case);
        // A case that reaches fewer states than it did tries less.
        if found != *expected {
            states.insert(number, found);
        }
    }
    assert!(states.is_empty(), "other numbers of states: {states:?}");
}

#[test]
fn without_faults_never_more_than_the_limit_run_and_no_denial_is_wrong() {
    explore_all(&[
        (CASE, 17_593),
        (Case { max: 2, ..CASE }, 30_281),
        (Case { max: 2, processes: 3, starts: 1, ..CASE }, 13_868),
    ]);
}

#[test]
fn replies_may_be_handled_in_any_order() {
    explore_all(&[(Case { max: 2, renewals: 0, reorders: true, ..CASE }, 2_445)]);
}

#[test]
fn after_a_lost_connection_entries_are_right_again_with_the_next_messages() {
    explore_all(&[
        (Case { max: 2, processes: 1, lost: 1, ..CASE }, 649),
        (Case { starts: 1, lost: 1, ..CASE }, 1_637),
        (Case { renewals: 0, lost: 1, ..CASE }, 4_072),
    ]);
}

#[test]
fn entries_that_vanish_admit_at_most_what_they_counted() {
    explore_all(&[
        (Case { renewals: 0, vanished: 1, ..CASE }, 9_672),
        (Case { starts: 1, lost: 1, vanished: 1, ..CASE }, 9_286),
    ]);
}

#[test]
fn messages_that_overtake_each_other_admit_no_more_than_the_limit() {
    let case = Case { renewals: 0, overtakings: 1, reorders: true, ..CASE };
    explore_all(&[
        (Case { max: 2, ..case }, 5_906),
        (Case { processes: 1, starts: 4, overtakings: 5, ..case }, 6_999),
        (Case { overtakings: 3, ..case }, 6_676),
        (Case { max: 2, processes: 1, starts: 4, overtakings: 4, ..case }, 13_160),
        (Case { processes: 1, starts: 3, overtakings: 2, forgets: true, ..case }, 1_135),
    ]);
}

#[test]
fn a_caller_without_running_requests_may_be_forgotten() {
    explore_all(&[(Case { renewals: 0, forgets: true, ..CASE }, 2_804)]);
}

/// The release is late: it was sent before the process forgot the caller.
#[test]
fn a_release_from_before_the_caller_was_forgotten_frees_nothing() {
    let case = Case { processes: 1, starts: 3, renewals: 0, lost: 1, vanished: 1, forgets: true, ..CASE };
    explore_all(&[(case, 5_425)]);
}

/// All cases of the design, with eight million states. `SLOTS_CASES=all` selects them; they take three
/// minutes and 1.5 GB.
#[test]
fn larger_cases() {
    if std::env::var("SLOTS_CASES").as_deref() != Ok("all") {
        return;
    }
    let (two, faulty) = (Case { max: 2, ..CASE }, Case { lost: 1, ..CASE });
    explore_all(&[
        (Case { starts: 3, ..CASE }, 227_635),
        (Case { starts: 3, ..two }, 673_314),
        (Case { processes: 3, renewals: 0, ..two }, 74_896),
        (faulty, 86_222),
        (Case { lost: 1, ..two }, 175_953),
        (Case { lost: 2, ..two }, 416_282),
        (Case { vanished: 1, ..CASE }, 216_123),
        (Case { vanished: 1, ..two }, 378_658),
        (Case { vanished: 1, ..faulty }, 1_020_967),
        (Case { vanished: 2, ..CASE }, 789_931),
        (Case { reorders: true, ..CASE }, 26_980),
        (Case { reorders: true, ..two }, 50_821),
        (Case { lost: 1, reorders: true, ..two }, 244_566),
        (Case { overtakings: 1, reorders: true, ..two }, 180_149),
        (Case { starts: 3, renewals: 0, forgets: true, ..CASE }, 30_718),
        (Case { reorders: true, forgets: true, ..two }, 120_969),
        (Case { lost: 1, forgets: true, ..two }, 480_274),
        (Case { vanished: 1, forgets: true, ..CASE }, 498_866),
        (Case { vanished: 1, forgets: true, ..faulty }, 2_874_654),
    ]);
}
