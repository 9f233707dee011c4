//! Requests about groups, each for keys on one node, and refunds.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use tokio::sync::oneshot;

use super::refund::refund_command;
use super::turn::UnclaimedTurn;
use crate::algorithm::Operation;
use crate::check::Check;
use crate::error::StoreError;
use crate::observe::log::LogLimit;
use crate::reservation::Charge;
use crate::store::Deadline;
use crate::store::redis::attachments::Attachment;
use crate::store::redis::lanes::{Lanes, PendingReply};
use crate::store::redis::protocol::{LimitArg, Request};
use crate::store::redis::shared::Shared;

/// The checks of a group with one caller, whose keys share a hash tag, and their indices in the group.
pub(super) struct CallerChecks<'a> {
    pub(super) checks: SmallVec<[Check<'a>; 2]>,
    pub(super) indices: SmallVec<[usize; 2]>,
}

pub(super) fn split_by_caller<'a>(group: &[Check<'a>]) -> SmallVec<[CallerChecks<'a>; 2]> {
    let mut callers: SmallVec<[CallerChecks<'a>; 2]> = SmallVec::new();
    for (index, check) in group.iter().enumerate() {
        match callers.iter_mut().find(|caller| caller.checks[0].partition() == check.partition()) {
            Some(caller) => {
                caller.checks.push(*check);
                caller.indices.push(index);
            }
            None => callers.push(CallerChecks { checks: smallvec![*check], indices: smallvec![index] }),
        }
    }
    callers
}

/// Everything by which a store decides. Dropping it ends the thread of the store.
pub(in crate::store::redis) struct Groups {
    pub(in crate::store::redis) shared: Arc<Shared>,
    pub(in crate::store::redis) lanes: Arc<Lanes>,
    /// For refunds of denied groups that fail.
    pub(super) refund_log: LogLimit,
    /// Ends the thread when it is dropped.
    _stop: oneshot::Sender<()>,
}

impl Groups {
    pub(in crate::store::redis) fn new(
        shared: Arc<Shared>,
        lanes: Arc<Lanes>,
        stop: oneshot::Sender<()>,
    ) -> Self {
        Self { shared, lanes, refund_log: LogLimit::default(), _stop: stop }
    }

    /// Whether the group needs several calls: in a cluster, if it has several callers.
    pub(in crate::store::redis) fn is_split(&self, group: &[Check<'_>]) -> bool {
        self.shared.link.is_cluster()
            && group.windows(2).any(|pair| pair[0].partition() != pair[1].partition())
    }

    /// Queues a group whose keys are on one node, with its attachment.
    pub(super) fn submit(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        deadline: &mut Deadline,
        by_worker: bool,
    ) -> PendingReply {
        for check in group {
            self.shared.link.durability.warn_about(check.policy());
        }
        let attachment = match (group, operation) {
            ([check], Operation::Wait { .. }) => {
                Attachment::Turn(Box::new(UnclaimedTurn::new(check, &self.lanes)))
            }
            _ => self.shared.attachments.of_group(group, operation),
        };
        self.lanes.submit(self.request(group, operation), attachment, deadline, by_worker)
    }

    pub(super) fn request(&self, group: &[Check<'_>], operation: Operation) -> Request {
        let new = if operation.overdraws() { LimitArg::overdrawn } else { LimitArg::new };
        let limit = |check| new(self.shared.encoder.key_format.key(check), check);
        Request { operation, limits: group.iter().map(limit).collect() }
    }

    /// Sends one refund per caller of the charges under rates. Slots are not refunded: they are freed when
    /// their outcome is dropped.
    pub(super) fn send_refunds<'a>(
        &self,
        charges: impl Iterator<Item = Charge<'a>>,
    ) -> SmallVec<[PendingReply; 2]> {
        let charges: SmallVec<[Charge<'_>; 2]> =
            charges.filter(|charge| !charge.check().policy().is_concurrency()).collect();
        charges
            .chunk_by(|one, next| one.check().partition() == next.check().partition())
            .map(|caller| refund_command(caller, &self.shared))
            .map(|command| self.lanes.send(command))
            .collect()
    }
}

/// Waits for all commands. Returns the first error, if any.
pub(super) async fn wait_for_all(
    commands: SmallVec<[PendingReply; 2]>,
    deadline: &mut Deadline,
) -> Result<(), StoreError> {
    let mut result = Ok(());
    for mut command in commands {
        result = result.and(command.done(deadline).await);
    }
    result
}
