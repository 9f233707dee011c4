//! A turn that is refunded, because no future waits for its reply.

use std::slice;
use std::sync::{Arc, Weak};

use super::refund::refund_command;
use crate::check::{Check, OwnedCheck};
use crate::outcome::{GroupOutcome, Outcome};
use crate::process::OfProcess;
use crate::reservation::Charge;
use crate::store::redis::lanes::Lanes;
use crate::store::redis::protocol::{Reply, Unclaimed};

/// A turn that is given back if its reply is dropped: the future was dropped while the call was in flight, or
/// its deadline has passed.
pub(super) struct UnclaimedTurn {
    check: OwnedCheck,
    /// Weak, because the lanes have their requests.
    lanes: OfProcess<Weak<Lanes>>,
}

impl UnclaimedTurn {
    pub(super) fn new(check: &Check<'_>, lanes: &Arc<Lanes>) -> Self {
        Self { check: OwnedCheck::new(check), lanes: OfProcess::new(Arc::downgrade(lanes)) }
    }
}

impl Unclaimed for UnclaimedTurn {
    fn refund(&self, reply: &Reply) {
        let Some(lanes) = self.lanes.get().and_then(Weak::upgrade) else { return };
        let check = self.check.check();
        let outcome = reply.outcome(slice::from_ref(&check)).ok().and_then(GroupOutcome::into_only);
        if let Some(outcome) = outcome.filter(Outcome::is_allowed) {
            let charge = Charge::turn(check, &outcome);
            let command = refund_command(&[charge], &lanes.shared);
            // The command goes on without a wait for its end.
            drop(lanes.send(command));
        }
    }
}
