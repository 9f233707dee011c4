//! Single events of one caller, worked out by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use smallvec::smallvec;

use super::super::CallSlots;
use super::super::count::SlotCount;
use super::super::table::SlotTable;
use crate::algorithm::Operation;
use crate::algorithm::concurrency::{Entries, OwnEntry};
use crate::check::Check;
use crate::clock::FakeClock;
use crate::policy::Policy;
use crate::store::redis::key::{KeyFormat, StateKey};
use crate::store::redis::protocol::{LimitArg, PolicyArg, Request};

/// In microseconds, as the time for which an entry counts.
const SECOND: u64 = 1_000_000;
const HOLD: u64 = 10 * SECOND;

#[test]
fn grants_that_no_request_uses_are_freed_while_more_are_requested() {
    let mut count = SlotCount::start(0);
    // Three calls request one slot each, and all are granted. The first reply is lost.
    count.request(3);
    count.lose(1);
    count.answer(1, 1);
    // The reply to the third call is on its way.
    count.free_lost(3);
    assert_eq!((count.granted(), count.freed(), count.used()), (2, 1, 1));
    count.answer(1, 1);
    count.free_lost(3);
    assert_eq!((count.granted(), count.freed(), count.used()), (3, 1, 2));
}

#[test]
fn a_message_is_due_after_a_slot_was_freed_and_three_seconds_after_the_last_one() {
    let mut count = SlotCount::start(7);
    assert!(!count.is_due(u64::MAX), "nothing runs");
    count.request(2);
    assert_eq!(count.report(1_000), (7, 7));
    count.answer(2, 2);
    assert_eq!([1_000, 3_000_999, 3_001_000].map(|now| count.is_due(now)), [false, false, true]);
    count.free(1);
    assert!(count.is_due(1_000));
    assert_eq!(count.report(2_000), (9, 8));
    assert!(!count.is_due(3_001_999) && count.is_due(3_002_000));
    count.forget_message();
    assert!(count.is_due(3_001_999));
}

fn table() -> (Arc<SlotTable>, Arc<Mutex<Vec<LimitArg>>>, StateKey, PolicyArg) {
    let policy = Policy::concurrency("k", 5);
    let key = KeyFormat::new("rl", "").unwrap().key(&Check::new(&policy, "alice"));
    let (table, queue) = (Arc::new(SlotTable::new(Arc::new(FakeClock::default()))), Arc::default());
    let queued: Arc<Mutex<Vec<LimitArg>>> = Arc::clone(&queue);
    table.set_sender(Box::new(move |message| {
        queued.lock().push(message);
        true
    }));
    (table, queue, key, PolicyArg::new(&Check::new(&policy, "")))
}

/// If the numbers started at 0 again, a late release of an earlier slot would free a slot that is in use.
#[test]
fn a_caller_that_comes_back_starts_at_the_number_of_all_grants() {
    let (table, queue, key, policy) = table();
    let numbers = |requested: u64| {
        let reported = table.report(&key, policy, requested, true);
        (reported.granted, reported.freed)
    };
    assert_eq!(numbers(2), (0, 0));
    table.answer(&key, 2, 2, Some(2));
    let slots = table.hold(&key, 2);
    assert_eq!(numbers(0), (2, 0));
    table.answer(&key, 0, 0, Some(2));
    drop(slots);
    assert_eq!(queue.lock().len(), 1, "one message");
    assert!(table.take_message(&key));
    assert_eq!(numbers(0), (2, 2));
    table.answer(&key, 0, 0, Some(2));
    assert!(table.sweep().is_none(), "forgotten");
    assert_eq!((numbers(0), numbers(1)), ((2, 2), (2, 2)));
}

/// A message that requests a slot also reports what was freed before it.
#[test]
fn a_release_that_was_reported_meanwhile_is_not_sent() {
    let (table, queue, key, policy) = table();
    table.report(&key, policy, 1, true);
    table.answer(&key, 1, 1, Some(1));
    drop(table.hold(&key, 1));
    let message = queue.lock().pop().unwrap();
    let reported = table.report(&key, policy, 1, true);
    assert_eq!((reported.granted, reported.freed), (1, 1));
    assert!(!table.take_message(&message.key));
}

/// The server stores nothing for a peek.
#[test]
fn what_a_peek_reports_is_reported_again() {
    let (table, queue, key, policy) = table();
    table.report(&key, policy, 1, true);
    table.answer(&key, 1, 1, Some(1));
    drop(table.hold(&key, 1));
    let message = queue.lock().pop().unwrap();
    let reported = table.report(&key, policy, 0, false);
    assert_eq!((reported.granted, reported.freed), (1, 1));
    assert!(table.take_message(&message.key));
}

/// A clock, a table, the number of messages that it tried to queue, and a caller. Messages are queued while
/// `connected` is set.
fn table_of(
    connected: &Arc<AtomicBool>,
) -> (FakeClock, Arc<SlotTable>, Arc<AtomicUsize>, StateKey, PolicyArg) {
    let (clock, policy) = (FakeClock::default(), Policy::concurrency("k", 5));
    let key = KeyFormat::new("rl", "").unwrap().key(&Check::new(&policy, "alice"));
    let (table, sent) = (Arc::new(SlotTable::new(Arc::new(clock.clone()))), Arc::new(AtomicUsize::new(0)));
    let (connected, count) = (Arc::clone(connected), Arc::clone(&sent));
    table.set_sender(Box::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        connected.load(Ordering::Relaxed)
    }));
    (clock, table, sent, key, PolicyArg::new(&Check::new(&policy, "")))
}

#[test]
fn what_cannot_be_queued_is_reported_over_the_next_connection() {
    let connected = Arc::new(AtomicBool::new(false));
    let (_, table, sent, key, arg) = table_of(&connected);
    table.report(&key, arg, 2, true);
    table.answer(&key, 2, 2, Some(2));
    let (one, other) = (table.hold(&key, 1), table.hold(&key, 1));
    drop(one);
    assert!(table.sweep().is_some(), "one still runs");
    let reported = table.report(&key, arg, 0, true);
    assert_eq!((reported.granted, reported.freed), (2, 1));
    drop(other);
    assert!(table.sweep().is_some(), "the release is not reported yet");
    connected.store(true, Ordering::Relaxed);
    let tried = sent.load(Ordering::Relaxed);
    table.report_all_again();
    assert_eq!(sent.load(Ordering::Relaxed), tried + 1);
    assert!(table.take_message(&key));
    let reported = table.report(&key, arg, 0, true);
    assert_eq!((reported.granted, reported.freed), (2, 2));
    table.answer(&key, 0, 0, Some(2));
    assert!(table.sweep().is_none(), "forgotten");
}

#[test]
fn a_caller_without_running_requests_is_forgotten_when_the_server_has_forgotten_it() {
    let (clock, table, _, key, arg) = table_of(&Arc::default());
    table.report(&key, arg, 1, true);
    table.answer(&key, 1, 1, Some(1));
    drop(table.hold(&key, 1));
    clock.advance(Duration::from_micros(9_999_999));
    assert!(table.sweep().is_some(), "without a connection");
    clock.advance(Duration::from_micros(1));
    assert!(table.sweep().is_none());
}

#[test]
fn a_release_that_is_lost_with_its_call_is_reported_again() {
    let (clock, table, sent, key, arg) = table_of(&Arc::new(AtomicBool::new(true)));
    table.report(&key, arg, 1, true);
    table.answer(&key, 1, 1, Some(1));
    drop(table.hold(&key, 1));
    assert!(table.take_message(&key));
    let mut requests = [Request {
        operation: Operation::Check,
        limits: smallvec![LimitArg::of_attachment(key.clone(), arg, 0)],
    }];
    let call = CallSlots::new(&table, &mut requests.each_mut());
    // The sweeper runs while the call is in flight.
    clock.advance(Duration::from_millis(500));
    assert!(table.sweep().is_some());
    assert_eq!(sent.load(Ordering::Relaxed), 1);
    drop(call);
    assert_eq!(table.unreported().len(), 1, "reported when the store is dropped as well");
    assert!(table.sweep().is_some());
    assert_eq!(sent.load(Ordering::Relaxed), 2);
    assert!(table.take_message(&key));
    let reported = table.report(&key, arg, 0, true);
    assert_eq!((reported.granted, reported.freed), (1, 1));
}

/// Before the reply to their call, the reply to another call says that both slots are granted.
#[test]
fn slots_of_two_requests_in_one_call_are_both_awaited() {
    let (_, table, _, key, arg) = table_of(&Arc::new(AtomicBool::new(true)));
    let policy = Policy::concurrency("k", 5);
    let mut requests = [(); 2].map(|()| {
        let limit = LimitArg::new(key.clone(), &Check::new(&policy, "alice"));
        Request { operation: Operation::Check, limits: smallvec![limit] }
    });
    let call = CallSlots::new(&table, &mut requests.each_mut());
    table.answer(&key, 0, 0, Some(2));
    let reported = table.report(&key, arg, 0, true);
    assert_eq!((reported.granted, reported.freed), (0, 0));
    drop(call);
}

/// The server may have granted the slots that the call requested.
#[test]
fn slots_of_a_call_without_a_reply_are_no_longer_awaited_and_are_freed() {
    let (_, table, sent, key, arg) = table_of(&Arc::new(AtomicBool::new(true)));
    let policy = Policy::concurrency("k", 5);
    let limit = LimitArg::new(key.clone(), &Check::new(&policy, "alice"));
    let mut requests = [Request { operation: Operation::Check, limits: smallvec![limit] }];
    drop(CallSlots::new(&table, &mut requests.each_mut()));
    for (number, expected) in [(1, (0, 0)), (2, (1, 1))] {
        assert!(table.sweep().is_some());
        assert_eq!(sent.load(Ordering::Relaxed), number);
        assert!(table.take_message(&key));
        let reported = table.report(&key, arg, 0, true);
        assert_eq!((reported.granted, reported.freed), expected);
        table.answer(&key, 0, 0, Some(1));
    }
    assert!(table.sweep().is_none(), "forgotten");
}

/// A call may panic before it takes the message, in the application's metrics recorder.
#[test]
fn a_queued_message_that_no_call_takes_is_queued_again() {
    let (clock, table, queued, key, arg) = table_of(&Arc::new(AtomicBool::new(true)));
    table.report(&key, arg, 2, true);
    table.answer(&key, 2, 2, Some(2));
    drop(table.hold(&key, 1));
    let sent = |seconds: u64| {
        clock.advance(Duration::from_secs(seconds));
        assert!(table.sweep().is_some());
        queued.load(Ordering::Relaxed)
    };
    assert_eq!([0, 2, 1, 2, 1].map(sent), [1, 1, 2, 2, 3]);
}

/// The report of a process that has freed nothing.
const fn own_entry(process: u64, granted: u64) -> OwnEntry {
    OwnEntry { process, granted, freed: 0 }
}

#[test]
fn a_process_that_is_gone_counts_for_ten_seconds() {
    let mut entries = Entries::default();
    let (fits, _) = entries.step(own_entry(5, 0), 3, 3, SECOND);
    assert!(fits);
    for (now, held) in [(SECOND + HOLD - 1, 3), (SECOND + HOLD, 0)] {
        entries.merge(own_entry(1, 0), now);
        assert_eq!(entries.held(), held);
    }
}

#[test]
fn entries_from_the_future_end_ten_seconds_after_the_clock_went_back() {
    let mut entries = Entries::default();
    entries.merge(own_entry(5, 2), 3_600 * SECOND);
    entries.merge(own_entry(1, 0), SECOND);
    for (now, held) in [(SECOND + HOLD - 1, 2), (SECOND + HOLD, 0)] {
        entries.merge(own_entry(1, 0), now);
        assert_eq!(entries.held(), held);
    }
}
