//! Refunds: the command for the charges of one caller, and that for a turn whose reply nothing waits for.

use std::slice;
use std::sync::{Arc, Weak};

use smallvec::{SmallVec, smallvec};

use super::command::{Command, GuardedCommand, Keys, ScriptCall};
use super::denial_cache::DenialCache;
use super::protocol::{Encoder, RefundArgs, Reply, Unclaimed};
use super::queue::Queues;
use super::script;
use crate::check::{Check, OwnedCheck};
use crate::outcome::{GroupOutcome, Outcome};
use crate::reservation::Charge;

/// The command that refunds these charges of one caller. When it has ended, the caller's denials are void.
pub(super) fn refund_command(
    charges: &[Charge<'_>],
    encoder: &Encoder,
    denials: &Arc<DenialCache>,
) -> GuardedCommand {
    let key_format = &encoder.key_format;
    let mut keys = Keys::new();
    let mut arguments = RefundArgs::new((encoder.now)());
    for charge in charges {
        keys.push(key_format.redis_key(&key_format.key(&charge.check())));
        arguments.push(charge);
    }
    let script = script::refund(charges.iter().map(|charge| charge.check().policy().algorithm()));
    let checks: SmallVec<[Check<'_>; 2]> = charges.iter().map(Charge::check).collect();
    let call = ScriptCall { script, keys, arguments: smallvec![arguments.into_bytes()] };
    GuardedCommand { command: Command::Run(call), guard: Box::new(denials.invalidate_on_drop(&checks)) }
}

/// A turn that goes back if nothing waits for its reply: the future was dropped while the call was in flight, or its deadline has
/// passed.
pub(super) struct UnclaimedTurn {
    check: OwnedCheck,
    encoder: Arc<Encoder>,
    denials: Arc<DenialCache>,
    /// Weak, because a queue has its requests.
    queues: Weak<Queues>,
}

impl UnclaimedTurn {
    pub(super) fn new(
        check: &Check<'_>,
        encoder: Arc<Encoder>,
        denials: Arc<DenialCache>,
        queues: &Arc<Queues>,
    ) -> Self {
        Self { check: OwnedCheck::new(check), encoder, denials, queues: Arc::downgrade(queues) }
    }
}

impl Unclaimed for UnclaimedTurn {
    fn refund(&self, reply: &Reply) {
        let check = self.check.check();
        let outcome = reply.outcome(slice::from_ref(&check)).ok().and_then(GroupOutcome::into_only);
        if let (Some(outcome), Some(queues)) = (outcome.filter(Outcome::is_allowed), self.queues.upgrade()) {
            let charge = Charge::turn(check, &outcome);
            let command = refund_command(&[charge], &self.encoder, &self.denials);
            // It goes on by itself.
            drop(queues.send(command, queues.deadline()));
        }
    }
}
