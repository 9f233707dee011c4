//! Units on their way back to the server. They are collected, and sent before the next request or by the
//! sweeper.
//!
//! A give-back is never repeated, because the server may have executed it although the reply was lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::count::{Effects, GiveBack};
use super::nodes::LeaseNodes;
use crate::observe::LeaseObserver;
use crate::store::redis::command::{Command, GuardedCommand};
use crate::store::redis::denial_cache::DenialCache;
use crate::store::redis::key::StateKey;
use crate::store::redis::protocol::{Encoder, PolicyArg, RefundArgs};
use crate::store::redis::script;

/// Maximum number of keys in one call to a single server.
const MAX_KEYS: usize = 64;

/// Names a count on the server and in the denial cache.
#[derive(Clone, Debug)]
pub(super) struct CountId {
    pub(super) digest: u128,
    /// Bucket of the denial cache.
    pub(super) bucket: usize,
    pub(super) key: StateKey,
    pub(super) policy: PolicyArg,
}

/// Units that wait to be given back.
#[derive(Debug)]
pub(super) struct GiveBacks {
    waiting: Mutex<Vec<(CountId, GiveBack)>>,
    any: AtomicBool,
    denials: Arc<DenialCache>,
    /// Maximum number of keys in one call.
    most_keys: usize,
    pub(super) observer: LeaseObserver,
}

impl GiveBacks {
    pub(super) fn new(denials: Arc<DenialCache>, is_cluster: bool) -> Self {
        Self {
            waiting: Mutex::default(),
            any: AtomicBool::new(false),
            denials,
            most_keys: if is_cluster { 1 } else { MAX_KEYS },
            observer: LeaseObserver::default(),
        }
    }

    /// Takes the effects of an event: the units to be given back, and the numbers of leases that ended.
    #[inline]
    pub(super) fn note(&self, count_id: &CountId, effects: &mut Effects) {
        if !effects.give_backs.is_empty() {
            self.push(count_id, effects.give_backs.drain(..));
        }
        self.observer.ended(effects.tally);
    }

    /// Notes units that go back to the server.
    #[cold]
    pub(super) fn push(&self, count_id: &CountId, give_backs: impl IntoIterator<Item = GiveBack>) {
        let mut waiting = self.waiting.lock();
        waiting.extend(give_backs.into_iter().map(|back| (count_id.clone(), back)));
        self.any.store(true, Ordering::Relaxed);
    }

    /// Forgets the units of a count that is reset.
    pub(super) fn forget(&self, digest: u128) {
        if self.any.load(Ordering::Relaxed) {
            self.waiting.lock().retain(|(count_id, _)| count_id.digest != digest);
        }
    }

    /// Takes out the waiting units, as commands with up to 64 keys each, or one key in a cluster. Units of a
    /// connection that was replaced are dropped, because the server may have lost their charges.
    pub(super) fn take(&self, nodes: &LeaseNodes, encoder: &Encoder) -> Vec<GuardedCommand> {
        if !self.any.swap(false, Ordering::Relaxed) {
            return Vec::new();
        }
        let mut waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.retain(|(_, back)| nodes.present(usize::from(back.connection.node)) == Some(back.connection));
        self.encode_all(&waiting, encoder)
    }

    /// Encodes the commands that give these units back.
    pub(super) fn encode_all(
        &self,
        given_back: &[(CountId, GiveBack)],
        encoder: &Encoder,
    ) -> Vec<GuardedCommand> {
        given_back.chunks(self.most_keys).map(|units| self.encode(units, encoder)).collect()
    }

    fn encode(&self, given_back: &[(CountId, GiveBack)], encoder: &Encoder) -> GuardedCommand {
        let mut arguments = RefundArgs::new((encoder.now)());
        let mut states = SmallVec::new();
        for (count_id, back) in given_back {
            arguments.push_units(&count_id.policy, back.units, back.at, back.until);
            states.push((count_id.digest, count_id.bucket));
        }
        let script = script::refund(given_back.iter().map(|(count_id, _)| count_id.policy.algorithm));
        let keys: SmallVec<[&StateKey; 4]> = given_back.iter().map(|(count_id, _)| &count_id.key).collect();
        let mut command = Command::run(script, &keys, &[arguments.into_bytes()]);
        // If the server did not know the script, the command would be sent again, behind the request that
        // needs these units.
        command.send_text();
        GuardedCommand { command, guard: Box::new(self.denials.invalidate_states_on_drop(states)) }
    }
}
