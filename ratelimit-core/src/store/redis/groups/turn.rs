//! A turn whose reply nothing waits for: it is refunded.

use std::slice;
use std::sync::{Arc, Weak};

use super::refund::refund_command;
use crate::check::{Check, OwnedCheck};
use crate::outcome::{GroupOutcome, Outcome};
use crate::reservation::Charge;
use crate::store::redis::denial_cache::DenialCache;
use crate::store::redis::lanes::Lanes;
use crate::store::redis::protocol::{Encoder, Reply, Unclaimed};

/// A turn that goes back if nothing waits for its reply: the future was dropped while the call was in flight,
/// or its deadline has passed.
pub(super) struct UnclaimedTurn {
    check: OwnedCheck,
    encoder: Arc<Encoder>,
    denials: Arc<DenialCache>,
    /// Weak, because the lanes have their requests.
    lanes: Weak<Lanes>,
}

impl UnclaimedTurn {
    pub(super) fn new(
        check: &Check<'_>,
        encoder: Arc<Encoder>,
        denials: Arc<DenialCache>,
        lanes: &Arc<Lanes>,
    ) -> Self {
        Self { check: OwnedCheck::new(check), encoder, denials, lanes: Arc::downgrade(lanes) }
    }
}

impl Unclaimed for UnclaimedTurn {
    fn refund(&self, reply: &Reply) {
        let check = self.check.check();
        let outcome = reply.outcome(slice::from_ref(&check)).ok().and_then(GroupOutcome::into_only);
        if let (Some(outcome), Some(lanes)) = (outcome.filter(Outcome::is_allowed), self.lanes.upgrade()) {
            let charge = Charge::turn(check, &outcome);
            let command = refund_command(&[charge], &self.encoder, &self.denials);
            // It goes on by itself.
            drop(lanes.send(command));
        }
    }
}
