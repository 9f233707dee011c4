//! Explores a queue with a model checker: all orders in which threads push, flushes take, calls end and the
//! runtime ends. It runs the code of `queue.rs` with locks and threads of the checker, which has at most five
//! threads. A flush and its call run in one thread, until the flush rests.

use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Weak};
use std::task::Wake;

use loom::model::Builder;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use tokio::sync::oneshot::Receiver;

use super::super::*;
use crate::store::redis::command::{Command, GuardedCommand};
use crate::store::redis::queue::request::tests::check;
use crate::store::redis::queue::{Flush, QueuedRequest, Queues, Replied};

/// An hour, so that no request waits for long and the clock decides nothing.
const DEADLINE: Duration = Duration::from_secs(3600);

/// A lane with one queue.
struct Model {
    queue: Mutex<Waiting>,
    has_runtime_ended: AtomicBool,
    can_connect: bool,
    do_calls_panic: bool,
    /// Whether a call has room for one request.
    are_requests_heavy: bool,
    of_store: Option<Arc<Self>>,
    /// Notes for the checks at the end, with a lock that the checker does not see.
    notes: parking_lot::Mutex<Notes>,
}

#[derive(Default)]
struct Notes {
    /// Whether a flush has not begun.
    is_flush_due: bool,
    /// Calls in flight.
    calls: usize,
    /// Numbers of the requests and commands that flushes took: of each flush first the commands.
    taken: Vec<u16>,
    /// Requests whose futures were dropped before a flush took them.
    dropped: Vec<u16>,
    /// Channels of requests whose futures wait.
    replies: Vec<Receiver<Replied>>,
    /// Violated rules. They fail the test at the end: while a call unwinds, a panic would end the process.
    faults: Vec<&'static str>,
}

impl Queues for Model {
    fn step<T>(&self, _: usize, step: impl FnOnce(&mut Waiting) -> T) -> T {
        let mut queue = self.queue.lock().unwrap();
        let result = step(&mut queue);
        let (requests, commands) = (!queue.requests.is_empty(), !queue.commands.is_empty());
        self.expect(!queue.is_closed || !requests && !commands, "a closed queue keeps something");
        self.expect(queue.is_scheduled || !commands, "a command is left without a flush");
        let is_due = requests && queue.calls < MAX_CALLS;
        self.expect(queue.is_scheduled || !is_due, "a request is left without a flush");
        result
    }

    fn spawn(&self, flush: Flush<Self>) {
        if mem::replace(&mut self.notes.lock().is_flush_due, true) {
            self.expect(false, "a second flush is scheduled");
            return mem::forget(flush);
        }
        thread::spawn(|| run(flush));
    }

    fn hand_over(&self, queued: Queued) {
        if let Some(of_store) = &self.of_store {
            of_store.push_to(0, queued);
        }
    }
}

impl Model {
    /// A lane with so many calls in flight.
    fn new(calls: usize) -> Self {
        Self {
            queue: Mutex::new(Waiting { calls, ..Waiting::new(DEADLINE) }),
            has_runtime_ended: AtomicBool::new(false),
            can_connect: true,
            do_calls_panic: false,
            are_requests_heavy: false,
            of_store: None,
            notes: parking_lot::Mutex::new(Notes { calls, ..Notes::default() }),
        }
    }

    fn expect(&self, is_kept: bool, fault: &'static str) {
        if !is_kept {
            self.notes.lock().faults.push(fault);
        }
    }

    /// Notes what a flush has taken, with its call if there is one.
    fn note(&self, taken: &Taken, is_call: bool) {
        let mut notes = self.notes.lock();
        notes.calls += usize::from(is_call);
        if notes.calls > MAX_CALLS {
            notes.faults.push("too many calls are in flight");
        }
        notes.taken.extend(numbers(&taken.commands, &taken.requests));
    }

    fn push_request(self: &Arc<Self>, number: u16) {
        let reply = self.push_check(number);
        self.notes.lock().replies.push(reply);
    }

    fn push_check(self: &Arc<Self>, number: u16) -> Receiver<Replied> {
        let (mut request, reply) = check();
        request.hash_slot = number;
        if self.are_requests_heavy {
            let limit = request.request.limits[0].clone();
            request.request.limits = iter::repeat_n(limit, MAX_CALL_WEIGHT).collect();
        }
        self.push_to(0, Queued::Request(request));
        reply
    }

    /// Drops the future of a request: a step, so that the checker looks for other orders.
    fn drop_future(&self, number: u16, reply: Receiver<Replied>) {
        self.step(0, |_| {
            drop(reply);
            let mut notes = self.notes.lock();
            if !notes.taken.contains(&number) {
                notes.dropped.push(number);
            }
        });
    }

    fn push_command(self: &Arc<Self>, number: u16) {
        let command = GuardedCommand { command: Command::delete(&[b""; 0]), guard: Box::new(()) };
        self.push_to(0, Queued::Command(QueuedCommand { command, hash_slot: number, reply: None }));
    }

    /// Ends one of the calls with which the lane was made.
    fn end_call(self: &Arc<Self>) {
        end(self, Flush { lane: Arc::downgrade(self), place: 0, carries: Some(true) });
    }

    /// Ends the runtime, which drops a flush that rests.
    fn end_runtime(self: &Arc<Self>) {
        self.has_runtime_ended.store(true, Ordering::Release);
        if self.step(0, |waiting| !waiting.resting.is_empty()) {
            drop(Flush { lane: Arc::downgrade(self), place: 0, carries: None });
        }
    }
}

/// A flush that rests. A thread goes on with it.
struct Resting(Weak<Model>);

impl Wake for Resting {
    fn wake(self: Arc<Self>) {
        if let Some(lane) = self.0.upgrade() {
            lane.spawn(Flush { lane: Weak::clone(&self.0), place: 0, carries: None });
        }
    }
}

/// The task of a flush.
fn run(mut flush: Flush<Model>) {
    let Some(lane) = flush.lane.upgrade() else { return };
    let has_ended = lane.has_runtime_ended.load(Ordering::Acquire);
    lane.notes.lock().is_flush_due = false;
    if has_ended {
        return;
    }
    let taken = flush.take(&lane, !lane.can_connect);
    // No other thread of the checker has run since the step.
    lane.note(&taken, flush.carries == Some(true));
    end(&lane, flush);
}

fn end(lane: &Arc<Model>, mut flush: Flush<Model>) {
    lane.notes.lock().calls -= usize::from(flush.carries == Some(true));
    if lane.do_calls_panic {
        let panicking = move || {
            let _flush = flush;
            resume_unwind(Box::new(()))
        };
        let _: Result<(), _> = catch_unwind(AssertUnwindSafe(panicking));
        return;
    }
    let resting = Arc::new(Resting(Arc::downgrade(lane))).into();
    assert!(flush.rest(&resting).is_pending());
    // It rests without its thread.
    flush.lane = Weak::new();
}

/// What flushes took and left in one order.
struct End {
    taken: Vec<u16>,
    dropped: Vec<u16>,
    left: Vec<u16>,
}

impl End {
    fn of(lane: Arc<Model>) -> Self {
        assert_eq!(lane.notes.lock().faults, [""; 0]);
        let lane = Arc::into_inner(lane).expect("all threads have ended");
        let (queue, notes) = (lane.queue.into_inner().unwrap(), lane.notes.into_inner());
        assert_eq!(queue.calls, notes.calls, "calls in flight");
        let left = numbers(&queue.commands, &queue.requests);
        let mut end = Self { taken: notes.taken, dropped: notes.dropped, left };
        if let Some(of_store) = lane.of_store {
            let of_store = Self::of(of_store);
            end.taken.extend(of_store.taken);
            end.left.extend(of_store.left);
        }
        end
    }

    /// The numbers of `of` that were taken, in the order in which they were taken.
    fn taken_of(&self, of: &[u16]) -> Vec<u16> {
        self.taken.iter().copied().filter(|number| of.contains(number)).collect()
    }

    fn sorted(&self) -> Vec<u16> {
        let mut taken = self.taken.clone();
        taken.sort_unstable();
        taken
    }
}

fn numbers(commands: &[QueuedCommand], requests: &[QueuedRequest]) -> Vec<u16> {
    let commands = commands.iter().map(|command| command.hash_slot);
    commands.chain(requests.iter().map(|request| request.hash_slot)).collect()
}

/// Runs a scenario in all orders, and checks the end of each.
fn explore(scenario: impl Fn() -> Arc<Model> + Send + Sync + 'static, check: impl Fn(&End)) {
    let ran = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let running = Arc::clone(&ran);
    Builder::new().check(move || {
        let lane = scenario();
        running.lock().push(lane);
    });
    let ran = mem::take(&mut *ran.lock());
    assert!(ran.len() > 10, "{} orders", ran.len());
    ran.into_iter().map(End::of).for_each(|end| check(&end));
}

/// Pushes from another thread.
fn beside(lane: &Arc<Model>, push: impl FnOnce(&Arc<Model>) + 'static) {
    let lane = Arc::clone(lane);
    thread::spawn(move || push(&lane));
}

#[test]
fn requests_of_two_threads_are_taken_once_and_in_their_order() {
    for are_requests_heavy in [false, true] {
        let scenario = move || {
            let lane = Arc::new(Model { are_requests_heavy, ..Model::new(0) });
            beside(&lane, |lane| {
                lane.push_request(2);
                lane.push_request(3);
            });
            lane.push_request(1);
            lane
        };
        explore(scenario, |end| {
            assert_eq!(end.sorted(), [1, 2, 3]);
            assert_eq!(end.taken_of(&[2, 3]), [2, 3]);
        });
    }
}

#[test]
fn a_call_that_ends_or_panics_makes_room_for_what_waits() {
    for do_calls_panic in [false, true] {
        for are_requests_heavy in [false, true] {
            let scenario = move || {
                let lane = Arc::new(Model { do_calls_panic, are_requests_heavy, ..Model::new(MAX_CALLS) });
                beside(&lane, |lane| {
                    lane.push_request(2);
                    lane.push_request(3);
                });
                lane.push_request(1);
                lane.end_call();
                lane
            };
            explore(scenario, |end| {
                assert_eq!(end.sorted(), [1, 2, 3]);
                assert_eq!(end.taken_of(&[2, 3]), [2, 3]);
            });
        }
    }
}

#[test]
fn only_a_request_whose_future_is_dropped_stays_out() {
    let scenario = || {
        let lane = Arc::new(Model::new(MAX_CALLS - 1));
        beside(&lane, |lane| {
            let reply = lane.push_check(2);
            lane.drop_future(2, reply);
            lane.push_request(3);
        });
        lane.push_request(1);
        lane
    };
    explore(scenario, |end| {
        let all = [1, 2, 3].into_iter().filter(|number| !end.dropped.contains(number));
        assert_eq!(end.sorted(), all.collect::<Vec<_>>());
        assert_eq!(end.left, [0; 0]);
    });
}

#[test]
fn commands_do_not_wait_for_a_call_to_end() {
    let scenario = || {
        let lane = Arc::new(Model::new(MAX_CALLS));
        beside(&lane, |lane| {
            lane.push_command(2);
            lane.push_request(3);
            lane.push_command(4);
        });
        lane.push_request(1);
        lane.push_command(5);
        lane
    };
    explore(scenario, |end| {
        assert_eq!(end.sorted(), [2, 4, 5]);
        assert_eq!(end.taken_of(&[2, 4]), [2, 4]);
    });
}

#[test]
fn a_flush_without_a_connection_takes_all_and_sends_no_call() {
    let scenario = || {
        let lane = Arc::new(Model { can_connect: false, ..Model::new(MAX_CALLS) });
        beside(&lane, |lane| {
            lane.push_request(2);
            lane.push_command(3);
        });
        lane.push_request(1);
        lane.end_call();
        lane
    };
    explore(scenario, |end| assert_eq!(end.sorted(), [1, 2, 3]));
}

#[test]
fn a_queue_whose_runtime_ends_keeps_nothing() {
    for calls in [0, MAX_CALLS] {
        let scenario = move || {
            let lane = Arc::new(Model::new(calls));
            beside(&lane, |lane| {
                lane.push_request(2);
                lane.push_request(3);
            });
            lane.push_request(1);
            lane.end_runtime();
            if calls > 0 {
                lane.end_call();
            }
            lane
        };
        explore(scenario, |end| {
            assert_eq!(end.left, [0; 0]);
            assert!([2, 3].starts_with(&end.taken_of(&[2, 3])));
        });
    }
}

#[test]
fn what_the_runtime_of_a_worker_leaves_behind_goes_to_the_store() {
    for push in [Model::push_request, Model::push_command] {
        let scenario = move || {
            let of_store = Arc::new(Model::new(0));
            let lane = Arc::new(Model { of_store: Some(of_store), ..Model::new(0) });
            beside(&lane, move |lane| push(lane, 2));
            lane.push_request(1);
            lane.end_runtime();
            lane
        };
        explore(scenario, |end| assert_eq!(end.sorted(), [1, 2]));
    }
}
