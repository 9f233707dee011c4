//! The callers of which something runs in this process, and the slots that requests hold.

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

/// Time between two looks for callers whose last message is too old.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Queues a message that only tells. Returns false if there is no connection.
pub(in crate::store::redis) type Sender = Box<dyn Fn(LimitArg) -> bool + Send + Sync>;

/// The callers of which something runs, or may soon.
pub(in crate::store::redis) struct SlotTable {
    /// A clock that counts while the machine is suspended.
    clock: Arc<dyn Clock>,
    /// Number of this process, or rather of this store: random, in 6 bytes.
    process: u64,
    /// Slots granted to this process so far, of all callers. Never below the granted slots of any one.
    running: AtomicU64,
    shards: Box<[Mutex<HashTable<RunningCaller>>]>,
    sender: OnceLock<Sender>,
    /// Wakes the sweeper when there is a caller.
    pub(in crate::store::redis) has_entry: Notify,
}

/// A caller.
struct RunningCaller {
    key: StateKey,
    policy: PolicyArg,
    count: SlotCount,
    /// When a message that only tells was queued, if one is.
    queued_at: Option<u64>,
}

impl RunningCaller {
    /// Whether a message is queued. One that no call has taken in time is lost: a call may panic with the
    /// application's recorder.
    fn is_queued(&self, now: u64) -> bool {
        self.queued_at.is_some_and(|at| now.saturating_sub(at) < LOST_AFTER_US)
    }

    /// The message that only tells.
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
            running: AtomicU64::new(0),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            sender: OnceLock::new(),
            has_entry: Notify::new(),
        }
    }

    #[cfg(test)]
    pub(super) const fn process(&self) -> u64 {
        self.process
    }

    #[cfg(test)]
    pub(super) fn set_running(&self, grants: u64) {
        self.running.store(grants, Ordering::Relaxed);
    }

    /// Sets how messages are queued. Once, before the first request.
    pub(in crate::store::redis) fn set_sender(&self, sender: Sender) {
        // Set only here.
        let _ = self.sender.set(sender);
    }

    fn now(&self) -> u64 {
        self.clock.now().as_micros()
    }

    fn lock_shard(&self, key: &StateKey) -> MutexGuard<'_, HashTable<RunningCaller>> {
        // The upper bits; the table uses the lower.
        let shard = usize::try_from(key.hash() >> 60).unwrap_or_default();
        self.shards[shard % SHARDS].lock()
    }

    /// Changes the numbers of a caller, if there are any, and forgets a caller of which nothing is left to
    /// tell.
    fn change<R>(&self, key: &StateKey, change: impl FnOnce(&mut RunningCaller) -> R) -> Option<R> {
        let mut shard = self.lock_shard(key);
        let mut known = shard.find_entry(key.hash(), |entry| entry.key == *key).ok()?;
        let entry = known.get_mut();
        let granted = entry.count.granted();
        let result = change(entry);
        // Under the lock, so that the caller does not start anew before.
        self.running.fetch_add(entry.count.granted() - granted, Ordering::Relaxed);
        if entry.count.is_over() && entry.queued_at.is_none() {
            known.remove();
        }
        Some(result)
    }

    /// Writes a message about a caller, which asks for `requested` slots. Returns what it tells. Unless it
    /// `tells`, the server does not store that, so that the caller is still to be told of.
    pub(super) fn report(
        &self,
        key: &StateKey,
        policy: PolicyArg,
        requested: u64,
        is_stored: bool,
    ) -> OwnEntry {
        let now = self.now();
        let mut shard = self.lock_shard(key);
        if requested > 0 && shard.find(key.hash(), |entry| entry.key == *key).is_none() {
            let count = SlotCount::start(self.running.load(Ordering::Relaxed));
            let entry = RunningCaller { key: key.clone(), policy, count, queued_at: None };
            shard.insert_unique(key.hash(), entry, |entry| entry.key.hash());
            self.has_entry.notify_one();
        }
        let (granted, freed) = match shard.find_mut(key.hash(), |entry| entry.key == *key) {
            Some(entry) => {
                entry.count.request(requested);
                if is_stored { entry.count.report(now) } else { entry.count.numbers() }
            }
            None => [self.running.load(Ordering::Relaxed); 2].into(),
        };
        OwnEntry { process: self.process, granted, freed }
    }

    /// Takes a queued message that only tells. Returns whether there is still something to tell: another
    /// message may have done it meanwhile.
    pub(in crate::store::redis) fn take_message(&self, key: &StateKey) -> bool {
        let now = self.now();
        let is_due = self.change(key, |entry| {
            entry.queued_at = None;
            entry.count.is_due(now)
        });
        is_due.unwrap_or(false)
    }

    /// A reply to a message that asked for `requested` slots, of which `granted` are granted. `granted_there` are
    /// all that the server counts as granted to this process.
    pub(super) fn answer(&self, key: &StateKey, requested: u64, granted: u64, granted_there: Option<u64>) {
        self.change(key, |entry| {
            entry.count.answer(requested, granted);
            if let Some(granted_there) = granted_there {
                entry.count.heal(granted_there);
            }
        });
    }

    /// There will be no reply to a message that asked for slots. What it told may be lost as well, so the
    /// sweeper tells it again.
    pub(super) fn lose(&self, key: &StateKey, requested: u64) {
        self.change(key, |entry| {
            entry.count.lose(requested);
            entry.count.forget_message();
        });
    }

    /// Slots of a caller that a request holds from now on. The server is told when they are freed.
    pub(super) fn hold(self: &Arc<Self>, key: &StateKey, slots: u64) -> Slots {
        let (table, key) = (Arc::clone(self), key.clone());
        Slots::freed_by(move || table.change_and_report(&key, |count| count.free(slots)))
    }

    /// Changes the numbers of a caller, and queues a message if one is due.
    fn change_and_report(&self, key: &StateKey, change: impl FnOnce(&mut SlotCount)) {
        let now = self.now();
        let message = self.change(key, |entry| {
            change(&mut entry.count);
            let is_wanted = entry.count.is_due(now) && !entry.is_queued(now);
            is_wanted.then(|| {
                entry.queued_at = Some(now);
                entry.message()
            })
        });
        if let Some(message) = message.flatten() {
            self.send(message);
        }
    }

    /// Queues a message. Without a connection it is left to the sweeper.
    fn send(&self, message: LimitArg) {
        let key = message.key.clone();
        if !self.sender.get().is_some_and(|send| send(message)) {
            self.change(&key, |entry| entry.queued_at = None);
        }
    }

    /// Queues a message about each caller of which something is to be told in time. Returns the pause until
    /// the next sweep, and `None` when there is no caller.
    pub(in crate::store::redis) fn sweep(&self) -> Option<Duration> {
        let (now, mut any) = (self.now(), false);
        for shard in &self.shards {
            let mut due = Vec::new();
            shard.lock().retain(|entry| {
                if !entry.is_queued(now) {
                    if entry.count.is_over_there(now) {
                        return false;
                    }
                    if entry.count.is_due(now) {
                        entry.queued_at = Some(now);
                        due.push(entry.message());
                    }
                }
                any = true;
                true
            });
            for message in due {
                self.send(message);
            }
        }
        any.then_some(LOOK_INTERVAL)
    }

    /// Queues a message about each caller of which something runs, on a new connection: the server may have
    /// lost what it was told.
    pub(in crate::store::redis) fn report_all_again(&self) {
        for shard in &self.shards {
            shard.lock().iter_mut().for_each(|entry| entry.count.forget_message());
        }
        self.sweep();
    }

    /// Messages about all callers of which a freed slot was not told.
    pub(in crate::store::redis) fn unreported(&self) -> Vec<LimitArg> {
        let shards = self.shards.iter().map(|shard| shard.lock());
        let is_due = |entry: &&RunningCaller| entry.count.is_due(0);
        shards
            .flat_map(|shard| shard.iter().filter(is_due).map(RunningCaller::message).collect::<Vec<_>>())
            .collect()
    }

    /// A guard that tells of callers again when it is dropped, for a command that is about to remove their
    /// states.
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

/// Tells of callers again when it is dropped.
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
