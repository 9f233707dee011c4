//! Random runs of several processes with their tables, over the server's rule: messages and replies in any
//! order, lost or late, and entries that vanish.

use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::Config;

use super::super::table::SlotTable;
use crate::algorithm::concurrency::{Entries, OwnEntry};
use crate::check::Check;
use crate::clock::{Clock, FakeClock, Timestamp};
use crate::policy::Policy;
use crate::slots::Slots;
use crate::store::redis::key::{KeyFormat, StateKey};
use crate::store::redis::protocol::{LimitArg, PolicyArg};

const SECOND: u64 = 1_000_000;
const HOLD: u64 = 10 * SECOND;

#[derive(Clone, Debug)]
enum Event {
    /// A call of a process requests slots.
    Request(Index, u64),
    /// A request ends.
    End(Index),
    /// The oldest message of a process arrives at the server.
    Arrive(Index),
    /// A reply arrives.
    Receive(Index),
    /// The oldest message of a process is lost, or it runs and its reply is lost.
    Lose(Index, bool),
    /// The entry of a process vanishes.
    Vanish(Index),
}

/// A message on its way.
#[derive(Clone, Copy, Debug)]
struct Message {
    process: usize,
    requested: u64,
    reported: OwnEntry,
}

#[derive(Clone, Copy, Debug)]
struct Reply {
    process: usize,
    requested: u64,
    granted: u64,
    granted_there: u64,
}

struct World {
    max: u64,
    now: u64,
    clock: FakeClock,
    key: StateKey,
    policy: PolicyArg,
    tables: Vec<Arc<SlotTable>>,
    /// Messages that each process has queued.
    queued: Vec<Arc<Mutex<Vec<LimitArg>>>>,
    entries: Entries,
    messages: Vec<Message>,
    replies: Vec<Reply>,
    /// Slots that requests hold: the process, their number, and the guard.
    held: Vec<(usize, u64, Slots)>,
    /// How many more requests than `max` may run, because entries have vanished.
    credit: u64,
}

impl World {
    fn new(max: u64, processes: usize) -> Self {
        let clock = FakeClock::default();
        let policy = Policy::concurrency("k", 1);
        let key = KeyFormat::new("rl", "").unwrap().key(&Check::new(&policy, "alice"));
        let queued: Vec<Arc<Mutex<Vec<LimitArg>>>> = (0..processes).map(|_| Arc::default()).collect();
        let table = |queue: &Arc<Mutex<Vec<LimitArg>>>| {
            let table = SlotTable::new(Arc::new(clock.clone()));
            // Reported numbers soon pass the 48 bits that the server keeps.
            table.set_granted_ever((1 << 48) - 4);
            let queue = Arc::clone(queue);
            table.set_sender(Box::new(move |message| {
                queue.lock().push(message);
                true
            }));
            Arc::new(table)
        };
        Self {
            max,
            now: clock.now().as_micros(),
            key,
            policy: PolicyArg::new(&Check::new(&policy, "")),
            tables: queued.iter().map(table).collect(),
            clock,
            queued,
            entries: Entries::default(),
            messages: Vec::new(),
            replies: Vec::new(),
            held: Vec::new(),
            credit: 0,
        }
    }

    fn send(&mut self, process: usize, requested: u64) {
        let reported = self.tables[process].report(&self.key, self.policy, requested, true);
        self.messages.push(Message { process, requested, reported });
    }

    /// Queued messages that only report become calls.
    fn call(&mut self) {
        for process in 0..self.tables.len() {
            let messages = std::mem::take(&mut *self.queued[process].lock());
            for message in messages {
                if self.tables[process].take_message(&message.key) {
                    self.send(process, 0);
                }
            }
        }
    }

    fn arrive(&mut self, message: Message) -> Reply {
        let (fits, own) = self.entries.step(message.reported, message.requested, self.max, self.now);
        let granted = if fits { message.requested } else { 0 };
        Reply { process: message.process, requested: message.requested, granted, granted_there: own.granted }
    }

    fn receive(&mut self, reply: Reply) {
        let table = &self.tables[reply.process];
        table.answer(&self.key, reply.requested, reply.granted, Some(reply.granted_there));
        if reply.granted > 0 {
            self.held.push((reply.process, reply.granted, table.hold(&self.key, reply.granted)));
        }
    }

    fn running(&self, process: usize) -> u64 {
        let held = self.held.iter().filter(|held| held.0 == process).map(|held| held.1);
        let granted = self.replies.iter().filter(|reply| reply.process == process).map(|reply| reply.granted);
        held.chain(granted).sum()
    }

    fn all_running(&self) -> u64 {
        (0..self.tables.len()).map(|process| self.running(process)).sum()
    }

    /// Time passes, and every process sweeps.
    fn wait(&mut self, time: u64) {
        self.now += time;
        self.clock.set(Timestamp::from_micros(self.now));
        for table in &self.tables {
            table.sweep();
        }
        self.call();
    }

    /// The oldest message of a process arrives at the server.
    fn arrive_oldest(&mut self, process: usize) {
        if let Some(message) = self.oldest(process) {
            let reply = self.arrive(message);
            self.replies.push(reply);
        }
    }

    /// The oldest message of a process is lost, or it runs and its reply is lost.
    fn lose(&mut self, process: usize, runs: bool) {
        if let Some(message) = self.oldest(process) {
            self.tables[message.process].lose(&self.key, message.requested);
            if runs {
                self.arrive(message);
            }
        }
    }

    /// The entry of a process vanishes. It counted the requests that run, and slots whose reply was lost.
    fn vanish(&mut self, process: usize) {
        let number = self.tables[process].process();
        if let Some(held) = self.entries.held_by(number) {
            let requested = self.messages.iter().filter(|message| message.process == process);
            self.credit +=
                self.running(process).max(held) + requested.map(|message| message.requested).sum::<u64>();
            self.entries.forget(number);
        }
    }

    /// Takes the oldest message of a process.
    fn oldest(&mut self, process: usize) -> Option<Message> {
        let place = self.messages.iter().position(|message| message.process == process)?;
        Some(self.messages.remove(place))
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Request(process, slots) => {
                let process = process.index(self.tables.len());
                self.send(process, *slots);
            }
            Event::End(which) if !self.held.is_empty() => {
                let which = which.index(self.held.len());
                drop(self.held.swap_remove(which));
            }
            Event::Arrive(process) => self.arrive_oldest(process.index(self.tables.len())),
            Event::Receive(which) if !self.replies.is_empty() => {
                let which = which.index(self.replies.len());
                let reply = self.replies.swap_remove(which);
                self.receive(reply);
            }
            Event::Lose(process, runs) => self.lose(process.index(self.tables.len()), *runs),
            Event::Vanish(process) => self.vanish(process.index(self.tables.len())),
            _ => {}
        }
        self.call();
    }

    /// Everything arrives, the requests that run go on, and every process renews what it holds.
    fn settle(&mut self) {
        for _ in 0..5 {
            self.wait(3 * SECOND);
            self.deliver();
        }
        self.drop_expired();
    }

    fn deliver(&mut self) {
        while !self.messages.is_empty() {
            let message = self.messages.remove(0);
            let reply = self.arrive(message);
            self.receive(reply);
        }
        while let Some(reply) = self.replies.pop() {
            self.receive(reply);
        }
    }

    /// A process without slots sends a message, so that the server drops entries that have ended.
    fn drop_expired(&mut self) {
        self.entries.merge(OwnEntry { process: 1, granted: 0, freed: 0 }, self.now);
    }
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        10 => (any::<Index>(), 1u64..3).prop_map(|(process, slots)| Event::Request(process, slots)),
        8 => any::<Index>().prop_map(Event::End),
        12 => any::<Index>().prop_map(Event::Arrive),
        12 => any::<Index>().prop_map(Event::Receive),
        2 => (any::<Index>(), any::<bool>()).prop_map(|(process, runs)| Event::Lose(process, runs)),
        1 => any::<Index>().prop_map(Event::Vanish),
    ]
}

proptest! {
    #![proptest_config(Config { cases: 512, failure_persistence: None, ..Config::default() })]

    #[test]
    fn never_more_run_than_the_limit_and_what_vanished_entries_counted(
        max in 1u64..5,
        processes in 1usize..4,
        events in prop::collection::vec(event(), 1..120),
    ) {
        let mut world = World::new(max, processes);
        for event in &events {
            world.happen(event);
            prop_assert!(world.all_running() <= max + world.credit, "{} run", world.all_running());
        }
        world.settle();
        let counted: u64 = world.entries.held();
        prop_assert_eq!(counted, world.all_running(), "the entries are right again");
        world.held.clear();
        world.settle();
        prop_assert_eq!(world.entries.held(), 0);
        prop_assert!(world.tables.iter().all(|table| table.unreported().is_empty() && table.sweep().is_none()));
    }

    #[test]
    fn slots_that_run_for_long_are_renewed_before_they_end(
        max in 1u64..5,
        processes in 1usize..4,
        slots in prop::collection::vec((any::<Index>(), 1u64..3), 1..6),
        waits in prop::collection::vec(1u64..SECOND / 2, 1..80),
    ) {
        let mut world = World::new(max, processes);
        for (process, slots) in slots {
            world.happen(&Event::Request(process, slots));
            world.settle();
        }
        let running = world.all_running();
        prop_assert!(running <= max);
        for wait in waits {
            world.wait(wait);
            world.deliver();
            world.drop_expired();
            prop_assert_eq!(world.entries.held(), running);
        }
    }

    #[test]
    fn a_process_that_is_gone_counts_for_ten_seconds(max in 1u64..5, slots in 1u64..5) {
        let mut world = World::new(max.max(slots), 2);
        world.send(0, slots);
        let message = world.messages.pop().unwrap();
        let reply = world.arrive(message);
        world.receive(reply);
        for (after, held) in [(HOLD - 1, slots), (HOLD, 0)] {
            let mut entries = world.entries.clone();
            entries.merge(OwnEntry { process: 1, granted: 0, freed: 0 }, world.now + after);
            prop_assert_eq!(entries.held(), held);
        }
    }
}

/// After the entry has vanished, the server stores the numbers of the next message, and the process frees the
/// slots whose reply was lost.
#[test]
fn slots_whose_reply_was_lost_count_among_what_a_vanished_entry_counted() {
    let mut world = World::new(2, 1);
    world.send(0, 1);
    world.lose(0, false);
    world.send(0, 2);
    world.lose(0, true);
    world.send(0, 1);
    world.arrive_oldest(0);
    world.vanish(0);
    assert_eq!((world.all_running(), world.credit), (0, 2), "of two slots the reply was lost");
    world.send(0, 1);
    let denied = world.replies.remove(0);
    world.receive(denied);
    world.send(0, 2);
    world.arrive_oldest(0);
    world.arrive_oldest(0);
    assert_eq!(world.all_running(), 3);
    world.settle();
    assert_eq!((world.entries.held(), world.all_running()), (3, 3), "the entries are right again");
}

#[test]
fn entries_from_the_future_end_ten_seconds_after_the_clock_went_back() {
    let [other, empty] = [5, 1].map(|process| OwnEntry { process, granted: 0, freed: 0 });
    let mut entries = Entries::default();
    entries.merge(OwnEntry { granted: 2, ..other }, 3_600 * SECOND);
    entries.merge(empty, SECOND);
    for (now, held) in [(SECOND + HOLD - 1, 2), (SECOND + HOLD, 0)] {
        entries.merge(empty, now);
        assert_eq!(entries.held(), held);
    }
}
