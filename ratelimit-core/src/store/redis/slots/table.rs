//! The callers with running requests in this process, and the slots that these requests hold.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hashbrown::HashTable;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tokio::sync::Notify;

use super::count::SlotCount;
use crate::algorithm::OwnEntry;
use crate::check::{Check, random_key};
use crate::clock::Clock;
use crate::slots::Slots;
use crate::store::redis::key::{KeyFormat, StateKey};
use crate::store::redis::protocol::{LimitArg, PolicyArg};

/// Number of locks over which the callers are spread.
const SHARDS: usize = 16;

/// Age at which a queued message counts as lost, in microseconds: 3 s.
const LOST_AFTER_US: u64 = 3_000_000;

/// Time between two sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_millis(500);

/// Queues a message that only reports. Returns false if there is no connection.
pub(in crate::store::redis) type Sender = Box<dyn Fn(LimitArg) -> bool + Send + Sync>;

/// The callers with requests that run, or may run soon.
pub(in crate::store::redis) struct SlotTable {
    /// A clock that counts while the machine is suspended.
    clock: Arc<dyn Clock>,
    /// Number of this store in this process: random, in 6 bytes.
    process: u64,
    /// Slots granted to this process since it started, of all callers. A caller that is added again starts at
    /// this number ([`SlotCount::start`]).
    granted_ever: AtomicU64,
    shards: Box<[Mutex<HashTable<RunningCaller>>]>,
    sender: OnceLock<Sender>,
    /// Wakes the sweeper when a caller is added.
    pub(in crate::store::redis) has_caller: Notify,
}

/// A caller with running requests.
struct RunningCaller {
    key: StateKey,
    policy: PolicyArg,
    count: SlotCount,
    /// Instant at which a message that only reports was queued; `None` if no message is queued.
    queued_at: Option<u64>,
}

impl RunningCaller {
    /// Whether a message is queued. A message that no call takes in time counts as lost, because a call may
    /// panic in the application's metrics recorder.
    fn is_queued(&self, now: u64) -> bool {
        self.queued_at.is_some_and(|at| now.saturating_sub(at) < LOST_AFTER_US)
    }

    /// A message that only reports.
    fn message(&self) -> LimitArg {
        LimitArg::of_attachment(self.key.clone(), self.policy, 0)
    }
}

impl SlotTable {
    pub(in crate::store::redis) fn new(clock: Arc<dyn Clock>) -> Self {
        let number = random_key();
        Self {
            clock,
            process: number.iter().take(6).fold(0, |number, byte| number << 8 | u64::from(*byte)),
            granted_ever: AtomicU64::new(0),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            sender: OnceLock::new(),
            has_caller: Notify::new(),
        }
    }

    /// Sets how messages are queued, once, before the first request.
    pub(in crate::store::redis) fn set_sender(&self, sender: Sender) {
        // Called once, so it is not set yet.
        let _ = self.sender.set(sender);
    }

    fn now(&self) -> u64 {
        self.clock.now().as_micros()
    }

    fn lock_shard(&self, key: &StateKey) -> MutexGuard<'_, HashTable<RunningCaller>> {
        // Not the upper 7 bits, since the table compares them before it compares keys. Nor the lower bits,
        // since they choose the place in the table.
        let shard = usize::try_from(key.hash() >> 53).unwrap_or_default();
        self.shards[shard % SHARDS].lock()
    }

    /// Changes the numbers of a caller, if it is in the table. Afterwards removes the caller if no request
    /// runs, nothing is left to report, and no message is queued.
    fn change<R>(&self, key: &StateKey, change: impl FnOnce(&mut RunningCaller) -> R) -> Option<R> {
        let mut shard = self.lock_shard(key);
        let mut known = shard.find_entry(key.hash(), |caller| caller.key == *key).ok()?;
        let caller = known.get_mut();
        let granted = caller.count.granted();
        let result = change(caller);
        // Before the lock is released: if the caller is removed and added again, its first number must
        // include this grant.
        self.granted_ever.fetch_add(caller.count.granted() - granted, Ordering::Relaxed);
        if caller.count.is_over() && caller.queued_at.is_none() {
            known.remove();
        }
        Some(result)
    }

    /// The report about a caller for a message that requests `requested` slots. `is_stored` is false if the
    /// server does not keep the report; then the report stays due.
    pub(super) fn report(
        &self,
        key: &StateKey,
        policy: PolicyArg,
        requested: u64,
        is_stored: bool,
    ) -> OwnEntry {
        let now = self.now();
        let mut shard = self.lock_shard(key);
        if requested > 0 && shard.find(key.hash(), |caller| caller.key == *key).is_none() {
            let count = SlotCount::start(self.granted_ever.load(Ordering::Relaxed));
            let caller = RunningCaller { key: key.clone(), policy, count, queued_at: None };
            shard.insert_unique(key.hash(), caller, |caller| caller.key.hash());
            self.has_caller.notify_one();
        }
        let known = shard.find_mut(key.hash(), |caller| caller.key == *key);
        let (granted, freed) = if let Some(caller) = known {
            caller.count.request(requested);
            if is_stored { caller.count.report(now) } else { caller.count.numbers() }
        } else {
            let granted_ever = self.granted_ever.load(Ordering::Relaxed);
            (granted_ever, granted_ever)
        };
        OwnEntry { process: self.process, granted, freed }
    }

    /// Takes a queued message that only reports. Returns whether it is still due: another message may have
    /// reported the same meanwhile.
    pub(in crate::store::redis) fn take_message(&self, key: &StateKey) -> bool {
        let now = self.now();
        let is_due = self.change(key, |caller| {
            caller.queued_at = None;
            caller.count.is_due(now)
        });
        is_due.unwrap_or(false)
    }

    /// Takes the reply to a message that requested `requested` slots, of which `granted` are granted.
    /// `granted_there` is the number of granted slots in the server's entry of this process.
    pub(super) fn answer(&self, key: &StateKey, requested: u64, granted: u64, granted_there: Option<u64>) {
        self.change(key, |caller| {
            caller.count.answer(requested, granted);
            if let Some(granted_there) = granted_there {
                caller.count.free_lost(granted_there);
            }
        });
    }

    /// Notes that a message that requested slots gets no reply. Its report may be lost as well, so the
    /// sweeper repeats it.
    pub(super) fn lose(&self, key: &StateKey, requested: u64) {
        self.change(key, |caller| {
            caller.count.lose(requested);
            caller.count.forget_message();
        });
    }

    /// Slots of a caller that a request holds from now on. When they are freed, a message reports it.
    pub(super) fn hold(self: &Arc<Self>, key: &StateKey, slots: u64) -> Slots {
        let (table, key) = (Arc::clone(self), key.clone());
        Slots::freed_by(move || table.change_and_report(&key, |count| count.free(slots)))
    }

    /// Changes the numbers of a caller, and queues a message if one is due.
    fn change_and_report(&self, key: &StateKey, change: impl FnOnce(&mut SlotCount)) {
        let now = self.now();
        let message = self.change(key, |caller| {
            change(&mut caller.count);
            let is_wanted = caller.count.is_due(now) && !caller.is_queued(now);
            is_wanted.then(|| {
                caller.queued_at = Some(now);
                caller.message()
            })
        });
        if let Some(message) = message.flatten() {
            self.send(message);
        }
    }

    /// Queues a message. Without a connection, the sweeper queues it again.
    fn send(&self, message: LimitArg) {
        let key = message.key.clone();
        if !self.sender.get().is_some_and(|send| send(message)) {
            self.change(&key, |caller| caller.queued_at = None);
        }
    }

    /// Queues a message about each caller for which one is due, and removes callers whose entry on the server
    /// has ended. Leaves alone each caller with a queued message. Returns the pause until the next sweep, or
    /// `None` if there is no caller.
    pub(in crate::store::redis) fn sweep(&self) -> Option<Duration> {
        let (now, mut has_callers) = (self.now(), false);
        for shard in &self.shards {
            let mut due = Vec::new();
            let mut shard = shard.lock();
            shard.retain(|caller| {
                if caller.is_queued(now) {
                    return true;
                }
                if caller.count.is_over_on_server(now) {
                    return false;
                }
                if caller.count.is_due(now) {
                    caller.queued_at = Some(now);
                    due.push(caller.message());
                }
                true
            });
            has_callers |= !shard.is_empty();
            drop(shard);
            for message in due {
                self.send(message);
            }
        }
        has_callers.then_some(SWEEP_INTERVAL)
    }

    /// Queues a message about each caller, on a new connection: the server may have lost its entries. A
    /// message that is queued already reports its caller.
    pub(in crate::store::redis) fn report_all_again(&self) {
        for shard in &self.shards {
            shard.lock().iter_mut().for_each(|caller| caller.count.forget_message());
        }
        self.sweep();
    }

    /// Messages about all callers with freed slots that are not reported.
    pub(in crate::store::redis) fn unreported(&self) -> Vec<LimitArg> {
        let shards = self.shards.iter().map(|shard| shard.lock());
        let has_unreported = |caller: &&RunningCaller| caller.count.has_unreported();
        shards
            .flat_map(|shard| {
                shard.iter().filter(has_unreported).map(RunningCaller::message).collect::<Vec<_>>()
            })
            .collect()
    }

    /// A guard for a command that removes the states of callers. When it is dropped, these callers are
    /// reported again.
    pub(in crate::store::redis) fn report_again_on_drop(
        self: &Arc<Self>,
        checks: &[Check<'_>],
        keys: &KeyFormat,
    ) -> ReportAgain {
        let checks = checks.iter().filter(|check| check.policy().is_concurrency());
        ReportAgain { table: Arc::clone(self), keys: checks.map(|check| keys.key(check)).collect() }
    }
}

impl fmt::Debug for SlotTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotTable").finish_non_exhaustive()
    }
}

/// Reports callers again when it is dropped.
pub(in crate::store::redis) struct ReportAgain {
    table: Arc<SlotTable>,
    keys: SmallVec<[StateKey; 1]>,
}

impl Drop for ReportAgain {
    fn drop(&mut self) {
        for key in &self.keys {
            self.table.change_and_report(key, SlotCount::forget_message);
        }
    }
}
